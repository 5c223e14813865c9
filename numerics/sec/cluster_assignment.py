"""Assignment of newcomers to clusters of learners, and comparison of clusterings."""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Float64, Int64

How = Literal["sum", "mean"]


def assign(
    similarities: Float64[np.ndarray, "q L"], labels: Int64[np.ndarray, "L"], how: How = "sum"
) -> Int64[np.ndarray, "q"]:
    """Assign each newcomer to the most similar cluster (Ye, Ding and Ghanadan 2022, footnote 1).

    Parameters
    ----------
    similarities : ndarray
        ``(q, L)`` similarities of newcomers to clustered learners. NaN, an unknown similarity, counts as the mean of
        the known ones in the cluster.
    labels : ndarray
        ``(L,)`` clusters of the learners; learners of -1 belong to none and do not count.
    how : {"sum", "mean"}
        Largest sum of the similarities to a cluster's learners, as in the paper, which favors large clusters; or
        largest mean.

    Returns
    -------
    ndarray
        ``(q,)`` labels; the lowest label in a tie; -1 for a newcomer whose similarities are all 0 or unknown.

    Raises
    ------
    ValueError
        If `how` is neither.

    Examples
    --------
    >>> labels = np.array([0, 0, 1])
    >>> assign(np.array([[0.4, 0.4, 0.7], [0.0, 0.0, 0.0]]), labels)
    array([ 0, -1])
    >>> assign(np.array([[0.4, 0.4, 0.7]]), labels, how="mean")
    array([1])
    """
    if how not in ("sum", "mean"):
        raise ValueError(f"newcomers are assigned by 'sum' or 'mean' of their similarities, not {how!r}")
    clusters = np.unique(labels[labels >= 0])
    best = np.zeros(len(similarities))
    assigned = np.full(len(similarities), -1, np.int64)
    for cluster in clusters:
        # Sorted, so that a sum does not depend on the order of the learners.
        block = np.sort(similarities[:, labels == cluster], axis=1)
        n_known = np.maximum((~np.isnan(block)).sum(axis=1), 1)
        score = np.nansum(block, axis=1) * ((block.shape[1] if how == "sum" else 1) / n_known)
        better = score > best
        assigned[better], best[better] = cluster, score[better]
    return assigned


def same_partition(a: Int64[np.ndarray, "L"], b: Int64[np.ndarray, "L"]) -> bool:
    """Return whether two labelings group the learners alike, whatever the labels are (-1 is a label, too).

    Raises
    ------
    ValueError
        If the labelings differ in length.

    Examples
    --------
    >>> same_partition(np.array([0, 0, 1]), np.array([5, 5, 2]))
    True
    """
    if len(a) != len(b):
        raise ValueError(f"partitions of {len(a)} and of {len(b)} learners cannot be compared")
    together = np.unique(np.stack([a, b]), axis=1).shape[1]
    return bool(together == len(np.unique(a)) == len(np.unique(b)))
