"""An order of the learners that does not depend on the order of the input, so that sums have the same rounding."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64, Shaped


def row_keys(matrix: Float64[np.ndarray, "n m"]) -> Shaped[np.ndarray, "n"]:
    """Convert each row to one comparable value; values are equal if and only if the rows are, to the last bit.

    Examples
    --------
    >>> keys = row_keys(np.array([[0.0, 1.0], [-0.0, 1.0], [2.0, 1.0]]))
    >>> bool(keys[0] == keys[1]), bool(keys[0] == keys[2])
    (True, False)
    """
    # Adding zero turns -0.0, which equals 0.0 but has other bits, into 0.0.
    rows = np.ascontiguousarray(matrix + 0.0)
    return rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()


def distinct_rows(
    matrix: Float64[np.ndarray, "n m"],
) -> tuple[Int64[np.ndarray, "g"], Int64[np.ndarray, "n"], Int64[np.ndarray, "g"]]:
    """Find the distinct rows.

    Returns
    -------
    first : ndarray
        ``(g,)`` index of the first occurrence of every distinct row.
    inverse : ndarray
        ``(n,)`` number of each row's distinct row.
    counts : ndarray
        ``(g,)`` number of occurrences.

    Examples
    --------
    >>> distinct_rows(np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]]))[1:]
    (array([1, 1, 0]), array([1, 2]))
    """
    if matrix.shape[1] == 0:
        n = len(matrix)
        return np.arange(min(n, 1)), np.zeros(n, np.int64), np.full(min(n, 1), n, np.int64)
    _, first, inverse, counts = np.unique(row_keys(matrix), return_index=True, return_inverse=True, return_counts=True)
    return first, inverse, counts


def canonical_order(
    matrix: Float64[np.ndarray, "n n"], color: Int64[np.ndarray, "n"] | None = None
) -> Int64[np.ndarray, "n"]:
    """Compute an order of rows and columns of a symmetric matrix that does not depend on the order of the input.

    Rows are ranked by their color and their sorted entries; ties, by the ranks of the columns of these entries, until
    no more ties break (color refinement). If rows still tie and their order matters, one of them is put before the
    others, and the ranking goes on. By a symmetry of the matrix it does not matter which one, except in matrices that
    are constructed to defeat color refinement.

    Parameters
    ----------
    matrix : ndarray
        ``(n, n)``, symmetric, no NaN; entries are compared exactly.
    color : ndarray or None
        ``(n,)`` another property that distinguishes the rows; None if there is none.

    Returns
    -------
    ndarray
        ``(n,)`` indices: ``matrix[order][:, order]`` is the same matrix for every permutation of the input.

    Examples
    --------
    >>> s = np.array([[1.0, 0.2, 0.5], [0.2, 1.0, 0.3], [0.5, 0.3, 1.0]])
    >>> t = s[::-1, ::-1]
    >>> one, other = canonical_order(s), canonical_order(t)
    >>> bool((s[np.ix_(one, one)] == t[np.ix_(other, other)]).all())
    True
    """
    n = len(matrix)
    rank = np.zeros(n, np.int64) if color is None else np.unique(color, return_inverse=True)[1].astype(np.int64)
    classes = 0
    while True:
        within = np.lexsort((np.broadcast_to(rank, (n, n)), matrix), axis=-1)
        profile = np.hstack([rank[:, np.newaxis], np.take_along_axis(matrix, within, axis=1), rank[within]])
        # Profiles are ordered by their bits: any order that depends on nothing else serves.
        _, rank = np.unique(row_keys(profile), return_inverse=True)
        n_ranks = int(rank.max(initial=-1)) + 1
        if n_ranks == classes:
            tied = _first_tie(matrix, rank)
            if tied is None:
                return np.argsort(rank, kind="stable")
            rank = 2 * rank
            rank[tied] -= 1
        elif n_ranks == n:
            return np.argsort(rank, kind="stable")
        classes = n_ranks


def _first_tie(matrix: Float64[np.ndarray, "n n"], rank: Int64[np.ndarray, "n"]) -> int | None:
    """Return a row of the first rank whose rows cannot be swapped with each other; None if all ties are harmless."""
    for tied in np.flatnonzero(np.bincount(rank) > 1):
        members = np.flatnonzero(rank == tied)
        outside = matrix[np.ix_(members, rank != tied)]
        inside = matrix[np.ix_(members, members)][~np.eye(len(members), dtype=bool)]
        if (outside != outside[0]).any() or (inside != inside[0]).any():
            return int(members[0])
    return None
