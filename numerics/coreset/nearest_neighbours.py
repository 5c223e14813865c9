"""Nearest neighbours by looking at all of them, many at once.

Points lie in chunks of `LANES`, coordinate by coordinate, so that the compiler compares a whole chunk with a row at a
time. For some thousand points in ten dimensions or more an index saves little, and this takes about 1 ns a point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from numerics.coreset.compiler import njit

LANES = 64
"""Points in a chunk: measured, 8 to 32 take twice as long."""
_STRETCH = 16
"""Coordinates between two looks at whether a chunk can still hold the nearest."""

Chunks = np.ndarray[Any, np.dtype[np.float64]]
"""``(chunks, d, LANES)``; lanes that hold no point are infinitely far away."""


def empty_chunks(n: int, dimension: int) -> Chunks:
    """Room for n points, and no point in it."""
    return np.full((-(-n // LANES), dimension, LANES), np.inf)


# Inlined, because a call costs more than a chunk.
@njit(cache=True, inline="always")
def nearest_in(
    chunks: Chunks, n: int, x: Float64[np.ndarray, "d"], excluded: int, squared: Float64[np.ndarray, "lanes"]
) -> int:
    """Place of the nearest to x among the first n points, the first of several; `squared` is room to work in."""
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
    """The nearest of some points for every row; of several, the first.

    Parameters
    ----------
    x : ndarray
        ``(n, d)`` finite.
    points : ndarray
        ``(m, d)`` finite; at least one that is not excluded.
    excluded : ndarray, optional
        ``(n,)`` for every row a place among the points that it may not have, such as its own.

    Returns
    -------
    ndarray
        ``(n,)`` places among the points.
    """
    m, d = points.shape
    chunks = empty_chunks(m, d)
    place = np.arange(m)
    chunks[place // LANES, :, place % LANES] = points
    out = np.empty(len(x), np.int64)
    _nearest(np.ascontiguousarray(x), chunks, m, np.full(len(x), -1) if excluded is None else excluded, out)
    return out
