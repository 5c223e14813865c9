"""Newcomers to an existing clustering of learners, and when two clusterings are the same."""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Float64, Int64

How = Literal["sum", "mean"]


def assign(
    similarities: Float64[np.ndarray, "q L"], labels: Int64[np.ndarray, "L"], how: How = "sum"
) -> Int64[np.ndarray, "q"]:
    """The cluster each newcomer resembles most (Ye, Ding and Ghanadan 2022, footnote 1); the others' labels stay.

    Parameters
    ----------
    similarities : ndarray
        ``(q, L)`` of the newcomers to the clustered learners; NaN: unknown, taken to be the mean of those known in
        the cluster.
    labels : ndarray
        ``(L,)`` clusters of the learners; those of -1 belong to none and are not looked at.
    how : {"sum", "mean"}
        Largest sum of the similarities to a cluster's learners, the paper's choice, which favours large clusters, or
        largest mean.

    Returns
    -------
    ndarray
        ``(q,)`` labels; the lowest of those that tie; -1 for a newcomer that resembles nobody or of whom nothing is
        known.

    Raises
    ------
    ValueError
        If `how` is neither.
    """
    if how not in ("sum", "mean"):
        raise ValueError(f"newcomers are assigned by 'sum' or 'mean' of their similarities, not {how!r}")
    clusters = np.unique(labels[labels >= 0])
    best = np.zeros(len(similarities))
    assigned = np.full(len(similarities), -1, np.int64)
    for cluster in clusters:
        # Sorted, so that a sum does not depend on the order of the learners.
        block = np.sort(similarities[:, labels == cluster], axis=1)
        known = np.maximum((~np.isnan(block)).sum(axis=1), 1)
        score = np.nansum(block, axis=1) * ((block.shape[1] if how == "sum" else 1) / known)
        better = score > best
        assigned[better], best[better] = cluster, score[better]
    return assigned


def same_partition(a: Int64[np.ndarray, "L"], b: Int64[np.ndarray, "L"]) -> bool:
    """Whether two labelings put the same learners together, whatever the clusters are called (-1 is a name too).

    Raises
    ------
    ValueError
        If they are not of the same learners, that is, differ in length.
    """
    if len(a) != len(b):
        raise ValueError(f"partitions of {len(a)} and of {len(b)} learners cannot be compared")
    together = np.unique(np.stack([a, b]), axis=1).shape[1]
    return bool(together == len(np.unique(a)) == len(np.unique(b)))
