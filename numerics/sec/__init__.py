"""Mathematics of SEC (Ye, Ding and Ghanadan 2022): from prediction losses to clusters of learners.

- `similarity`: dissimilarity (eq. 3) and similarity of learners, completion of unknown similarities from landmarks;
- `spectral`: clustering of learners by Ng, Jordan and Weiss, number of clusters by the eigen-gap;
- `gap_statistic`: number of clusters by the gap statistic;
- `cluster_assignment`: assignment of newcomers to clusters (footnote 1), comparison of clusterings;
- `canonical_order`: an order of the learners that does not depend on the order of the input.

A clustering is ``cluster(complete(similarity(dissimilarity(losses, errors))[0]), rng=rng)``. For newcomers, call
`dissimilarity` once on all learners together, with NaN for losses that were not measured. Cluster the block of the
learners that take part. Pass the other block to `assign`: ``similarity_to(v[newcomers][:, clustered], a)`` with the
scale `a` of the clustering.

Nothing is imported here: a site needs `mixture` only, and other modules import scikit-learn.
"""
