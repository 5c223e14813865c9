"""The center's mathematics of SEC (Ye, Ding, Ghanadan): from prediction losses to clusters of learners.

- `pairs`: dissimilarity of learners (eq. 3), similarity, completion of what landmarks left unknown;
- `spectral`: Ng-Jordan-Weiss clustering of the learners, the number of clusters by the eigen-gap;
- `gap`: the number of clusters by the gap statistic;
- `assignment`: newcomers to an existing clustering (footnote 1), comparison of clusterings;
- `order`: an order of the learners that does not depend on how they were listed.

A clustering is ``cluster(complete(similarity(dissimilarity(losses, errors))[0]), rng=rng)``. For newcomers, call
`dissimilarity` once on all learners together (NaN where nobody asked), cluster the block of those that take part, and
give `assign` the other block, ``similarity_to(v[newcomers][:, clustered], a)`` with the scale `a` of the clustering.
"""

from numerics.sec.cluster_assignment import How, assign, same_partition
from numerics.sec.similarity import (
    Scale,
    choose_landmarks,
    complete,
    dissimilarity,
    nothing_known,
    similarity,
    similarity_to,
)
from numerics.sec.spectral import Clustering, Method, cluster, eigengap

__all__ = [
    "Clustering",
    "How",
    "Method",
    "Scale",
    "assign",
    "choose_landmarks",
    "cluster",
    "complete",
    "dissimilarity",
    "eigengap",
    "nothing_known",
    "same_partition",
    "similarity",
    "similarity_to",
]
