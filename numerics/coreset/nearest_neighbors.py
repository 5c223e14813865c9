"""Nearest neighbors by comparison with all points, many at a time.

Points lie in chunks of `LANES`, coordinate by coordinate, so that compiled code compares a row with a whole chunk at a
time. This takes about 1 ns per point. For some thousand points in ten dimensions or more, an index would save little.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from numerics.coreset.compiler import njit

LANES = 64
"""Number of points in a chunk; in measurements, 8 to 32 took twice as long."""
_STRETCH = 16
"""Number of coordinates after which the search checks whether a chunk can still contain the nearest point."""

Chunks = np.ndarray[Any, np.dtype[np.float64]]
"""``(chunks, d, LANES)`` coordinates of points; those of an empty lane are infinite."""


def empty_chunks(n: int, dimension: int) -> Chunks:
    """Allocate chunks for `n` points, all lanes empty.

    Examples
    --------
    >>> empty_chunks(100, 3).shape
    (2, 3, 64)
    """
    return np.full((-(-n // LANES), dimension, LANES), np.inf)


# Inlined, because a call costs more time than a chunk.
@njit(cache=True, inline="always")
def nearest_in(
    chunks: Chunks, n: int, x: Float64[np.ndarray, "d"], excluded: int, squared: Float64[np.ndarray, "lanes"]
) -> int:
    """Return the place of the point nearest to `x` among the first `n` points; of equally near ones, the first.

    `squared` is working memory for ``LANES`` numbers.
    """
    best, nearest = np.inf, 0
    for c in range((n + LANES - 1) // LANES):
        smallest = 0.0
        for lane in range(LANES):
            squared[lane] = 0.0
        for begin in range(0, len(x), _STRETCH):
            for j in range(begin, min(begin + _STRETCH, len(x))):
                for lane in range(LANES):
                    difference = chunks[c, j, lane] - x[j]
                    squared[lane] += difference * difference
            smallest = np.inf
            for lane in range(LANES):
                smallest = min(smallest, squared[lane])
            if smallest >= best:
                break
        if smallest < best:
            for lane in range(LANES):
                if squared[lane] < best and c * LANES + lane != excluded:
                    best, nearest = squared[lane], c * LANES + lane
    return nearest


@njit(cache=True)
def _nearest(
    x: Float64[np.ndarray, "n d"], chunks: Chunks, n: int, excluded: Int64[np.ndarray, "n"], out: Int64[np.ndarray, "n"]
) -> None:
    squared = np.empty(LANES)
    for i in range(len(x)):
        out[i] = nearest_in(chunks, n, x[i], excluded[i], squared)


def nearest(
    x: Float64[np.ndarray, "n d"],
    points: Float64[np.ndarray, "m d"],
    excluded: Int64[np.ndarray, "n"] | None = None,
) -> Int64[np.ndarray, "n"]:
    """Find the nearest point of every row; of equally near ones, the first.

    Parameters
    ----------
    x : ndarray
        ``(n, d)`` finite rows.
    points : ndarray
        ``(m, d)`` finite points; every row needs one that is not excluded.
    excluded : ndarray, optional
        ``(n,)`` place of a point that a row may not have, such as its own.

    Returns
    -------
    ndarray
        ``(n,)`` places of the nearest points.

    Examples
    --------
    >>> nearest(np.array([[0.0], [4.0]]), np.array([[1.0], [3.0]]))
    array([0, 1])
    """
    m, d = points.shape
    chunks = empty_chunks(m, d)
    place = np.arange(m)
    chunks[place // LANES, :, place % LANES] = points
    out = np.empty(len(x), np.int64)
    _nearest(np.ascontiguousarray(x), chunks, m, np.full(len(x), -1) if excluded is None else excluded, out)
    return out
