"""The center's mathematics of SEC (Ye, Ding, Ghanadan): from prediction losses to clusters of learners.

- `similarity`: dissimilarity of learners (eq. 3), similarity, completion of what landmarks left unknown;
- `spectral`: Ng-Jordan-Weiss clustering of the learners, the number of clusters by the eigen-gap;
- `gap_statistic`: the number of clusters by the gap statistic;
- `cluster_assignment`: newcomers to an existing clustering (footnote 1), comparison of clusterings;
- `canonical_order`: an order of the learners that does not depend on how they were listed.

A clustering is ``cluster(complete(similarity(dissimilarity(losses, errors))[0]), rng=rng)``. For newcomers, call
`dissimilarity` once on all learners together (NaN where nobody asked), cluster the block of those that take part, and
give `assign` the other block, ``similarity_to(v[newcomers][:, clustered], a)`` with the scale `a` of the clustering.

Nothing is imported here: a site needs `mixture` only, and the others bring scikit-learn.
"""
