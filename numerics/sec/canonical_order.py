"""An order of the learners that does not depend on how they were listed, so that sums run the same way every time."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64, Shaped


def row_keys(matrix: Float64[np.ndarray, "n m"]) -> Shaped[np.ndarray, "n"]:
    """The rows as one comparable value each: equal if and only if the rows are, to the last bit."""
    # Adding zero turns -0.0, which equals 0.0 but has other bits, into 0.0.
    rows = np.ascontiguousarray(matrix + 0.0)
    return rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()


def distinct_rows(
    matrix: Float64[np.ndarray, "n m"],
) -> tuple[Int64[np.ndarray, "g"], Int64[np.ndarray, "n"], Int64[np.ndarray, "g"]]:
    """First index of every distinct row, the number of the distinct row that each row is, and how often each occurs."""
    if matrix.shape[1] == 0:
        n = len(matrix)
        return np.arange(min(n, 1)), np.zeros(n, np.int64), np.full(min(n, 1), n, np.int64)
    _, first, inverse, counts = np.unique(row_keys(matrix), return_index=True, return_inverse=True, return_counts=True)
    return first, inverse, counts


def canonical_order(
    matrix: Float64[np.ndarray, "n n"], colour: Int64[np.ndarray, "n"] | None = None
) -> Int64[np.ndarray, "n"]:
    """An order of the rows and columns of a symmetric matrix that is the same however they were listed.

    Rows are ranked by their colour and their sorted entries; rows that tie, by the ranks of those whom they have the
    entries with, until no tie breaks any more (colour refinement). Where rows still tie, and it matters which comes
    first, one is put before the others and the ranking goes on: a symmetry of the matrix makes it the same whichever
    was taken, save in matrices contrived to fool colour refinement.

    Parameters
    ----------
    matrix : ndarray
        ``(n, n)``, symmetric, no NaN; entries are compared exactly.
    colour : ndarray or None
        ``(n,)`` what else tells the rows apart. None: nothing.

    Returns
    -------
    ndarray
        ``(n,)`` indices: ``matrix[order][:, order]`` is the same matrix for every permutation of the input.
    """
    n = len(matrix)
    rank = np.zeros(n, np.int64) if colour is None else np.unique(colour, return_inverse=True)[1].astype(np.int64)
    classes = 0
    while True:
        within = np.lexsort((np.broadcast_to(rank, (n, n)), matrix), axis=-1)
        profile = np.hstack([rank[:, np.newaxis], np.take_along_axis(matrix, within, axis=1), rank[within]])
        # Profiles are ordered by their bits: any order will do that depends on nothing else.
        _, rank = np.unique(row_keys(profile), return_inverse=True)
        found = int(rank.max(initial=-1)) + 1
        if found == classes:
            tied = _first_tie(matrix, rank)
            if tied is None:
                return np.argsort(rank, kind="stable")
            rank = 2 * rank
            rank[tied] -= 1
        elif found == n:
            return np.argsort(rank, kind="stable")
        classes = found


def _first_tie(matrix: Float64[np.ndarray, "n n"], rank: Int64[np.ndarray, "n"]) -> int | None:
    """A row of the first rank whose rows cannot simply be swapped with one another; None if all ties are harmless."""
    for tied in np.flatnonzero(np.bincount(rank) > 1):
        members = np.flatnonzero(rank == tied)
        outside = matrix[np.ix_(members, rank != tied)]
        inside = matrix[np.ix_(members, members)][~np.eye(len(members), dtype=bool)]
        if (outside != outside[0]).any() or (inside != inside[0]).any():
            return int(members[0])
    return None
