"""The number of clusters by the gap statistic (Tibshirani, Walther and Hastie 2001)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float64, Int64

REFERENCES = 50
"""Reference data sets that the spread is compared with."""

# Of k-means, for data and references alike: another number for one of them would bias the comparison.
_STARTS = 5
_MAX_ITERATIONS = 100


def gap_curve(
    embedding: Callable[[int], Float64[np.ndarray, "n k"]], k_max: int, rng: np.random.Generator
) -> tuple[Float64[np.ndarray, "c"], Float64[np.ndarray, "c"]]:
    """Gap and its standard error for 2 to `k_max` clusters of learners.

    The gap at K is the mean over the references of ``log W``, less that of the data, where W is the sum of squared
    distances to the centers of K-means clusters; the references are uniform on the box of the data. The data of each K
    are that K's own embedding, so the gap at 1, where all learners lie in one point, does not exist.

    Parameters
    ----------
    embedding : callable
        Gives the ``(n, K)`` rows of unit length for K clusters.
    k_max : int
        Largest K; below 2 there is no curve.
    rng : Generator
        Source of references and starts.

    Returns
    -------
    gap, error : ndarray
        ``(k_max - 1,)``, the first of K = 2; ``error = sd sqrt(1 + 1 / REFERENCES)``.
    """
    gap, error = np.empty(max(k_max - 1, 0)), np.empty(max(k_max - 1, 0))
    for k in range(2, k_max + 1):
        rows = embedding(k)
        low, high = rows.min(axis=0), rows.max(axis=0)
        references = low + (high - low) * rng.random((REFERENCES, *rows.shape))
        spread = _within(np.concatenate([rows[np.newaxis], references]), k, rng)
        # Rows that coincide lie apart by rounding at best: below that, W is no measurement.
        logs = np.log(np.maximum(spread, len(rows) * np.finfo(np.float64).eps ** 2))
        gap[k - 2] = logs[1:].mean() - logs[0]
        error[k - 2] = logs[1:].std() * np.sqrt(1 + 1 / REFERENCES)
    return gap, error


def gap_choice(gap: Float64[np.ndarray, "c"], error: Float64[np.ndarray, "c"], k_min: int = 2) -> int:
    """Smallest K, from `k_min`, with ``gap(K) >= gap(K + 1) - error(K + 1)``; if there is none, the curve's largest."""
    enough = np.flatnonzero(gap[k_min - 2 : -1] >= (gap - error)[k_min - 1 :])
    return int(enough[0]) + k_min if len(enough) else len(gap) + 1


def _within(sets: Float64[np.ndarray, "r n d"], k: int, rng: np.random.Generator) -> Float64[np.ndarray, "r"]:
    """Least sum of squared distances to k centers that Lloyd's algorithm finds in each of several sets of points.

    All sets are worked on at once: scikit-learn's k-means takes one at a time, and most of that time is its checks.
    """
    n_sets = len(sets)
    points = np.repeat(sets, _STARTS, axis=0)
    centers = _plus_plus(points, k, rng)
    best = np.empty(len(points))
    index = np.arange(len(points))
    labels = np.full(points.shape[:2], -1, np.int64)
    for _ in range(_MAX_ITERATIONS):
        squares = _squared_distances(points, centers)
        nearest = squares.argmin(axis=2)
        best[index] = np.take_along_axis(squares, nearest[:, :, np.newaxis], axis=2).sum(axis=(1, 2))
        moving = (nearest != labels).any(axis=1)
        if not moving.any():
            break
        points, centers, labels, index = points[moving], centers[moving], nearest[moving], index[moving]
        centers = _means(points, labels, centers)
    return np.asarray(best.reshape(n_sets, _STARTS).min(axis=1))


def _plus_plus(points: Float64[np.ndarray, "r n d"], k: int, rng: np.random.Generator) -> Float64[np.ndarray, "r k d"]:
    """Starting centers by k-means++: the next is drawn in proportion to its squared distance from those before."""
    sets, n, _ = points.shape
    every = np.arange(sets)
    centers = np.empty((sets, k, points.shape[2]))
    centers[:, 0] = points[every, rng.integers(n, size=sets)]
    nearest = np.full((sets, n), np.inf)
    for i in range(1, k):
        np.minimum(nearest, ((points - centers[:, i - 1 : i]) ** 2).sum(axis=2), out=nearest)
        cumulative = nearest.cumsum(axis=1)
        drawn = (cumulative <= rng.random((sets, 1)) * cumulative[:, -1:]).sum(axis=1)
        centers[:, i] = points[every, np.minimum(drawn, n - 1)]
    return centers


def _squared_distances(
    points: Float64[np.ndarray, "r n d"], centers: Float64[np.ndarray, "r k d"]
) -> Float64[np.ndarray, "r n k"]:
    """Of every point from every center; formed from differences, since nearly perfect clusters cancel otherwise."""
    squares = np.zeros((*points.shape[:2], centers.shape[1]))
    for axis in range(points.shape[2]):
        squares += (points[:, :, axis, np.newaxis] - centers[:, np.newaxis, :, axis]) ** 2
    return squares


def _means(
    points: Float64[np.ndarray, "r n d"], labels: Int64[np.ndarray, "r n"], centers: Float64[np.ndarray, "r k d"]
) -> Float64[np.ndarray, "r k d"]:
    """Mean of each center's points; a center without any stays."""
    member = (labels[:, np.newaxis, :] == np.arange(centers.shape[1])[:, np.newaxis]).astype(np.float64)
    counts = member.sum(axis=2)[:, :, np.newaxis]
    return np.where(counts > 0, (member @ points) / np.maximum(counts, 1), centers)
