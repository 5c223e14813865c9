"""The number of clusters by the gap statistic (Tibshirani, Walther and Hastie 2001)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float64, Int64

REFERENCES = 50
"""Number of reference data sets."""

# Settings of k-means, the same for data and references: a difference would bias the comparison.
_STARTS = 5
_MAX_ITERATIONS = 100


def gap_curve(
    embedding: Callable[[int], Float64[np.ndarray, "n k"]], k_max: int, rng: np.random.Generator
) -> tuple[Float64[np.ndarray, "c"], Float64[np.ndarray, "c"]]:
    """Compute the gap and its standard error for 2 to `k_max` clusters of learners.

    The gap at K is the mean of ``log W`` over the references, less ``log W`` of the data. W is the sum of squared
    distances to the centers of K-means clusters. References are uniform on the box of the data. The data of each K are
    its own embedding. There is no gap at 1, where all learners lie at one point.

    Parameters
    ----------
    embedding : callable
        Returns the ``(n, K)`` rows of unit length for K clusters.
    k_max : int
        Largest K; below 2 the curve is empty.
    rng : Generator
        Generator of references and starts.

    Returns
    -------
    gap, error : ndarray
        ``(k_max - 1,)``, from K = 2 on; ``error = sd sqrt(1 + 1 / REFERENCES)``.

    Examples
    --------
    Two tight groups of points have a large gap at 2:

    >>> points = np.repeat([[0.0, 1.0], [1.0, 0.0]], 5, axis=0) + np.linspace(0, 0.01, 10)[:, np.newaxis]
    >>> gap, error = gap_curve(lambda k: points, 3, np.random.default_rng(0))
    >>> bool(gap[0] > 3)
    True
    """
    gap, error = np.empty(max(k_max - 1, 0)), np.empty(max(k_max - 1, 0))
    for k in range(2, k_max + 1):
        rows = embedding(k)
        low, high = rows.min(axis=0), rows.max(axis=0)
        references = low + (high - low) * rng.random((REFERENCES, *rows.shape))
        spread = _within(np.concatenate([rows[np.newaxis], references]), k, rng)
        # Coinciding rows may differ by rounding errors: a smaller W is not a measurement.
        logs = np.log(np.maximum(spread, len(rows) * np.finfo(np.float64).eps ** 2))
        gap[k - 2] = logs[1:].mean() - logs[0]
        error[k - 2] = logs[1:].std() * np.sqrt(1 + 1 / REFERENCES)
    return gap, error


def gap_choice(gap: Float64[np.ndarray, "c"], error: Float64[np.ndarray, "c"], k_min: int = 2) -> int:
    """Choose the smallest K from `k_min` with ``gap(K) >= gap(K + 1) - error(K + 1)``, or else the largest K.

    Examples
    --------
    >>> gap_choice(np.array([0.1, 0.9, 0.8]), np.full(3, 0.05))
    3
    """
    sufficient = np.flatnonzero(gap[k_min - 2 : -1] >= (gap - error)[k_min - 1 :])
    return int(sufficient[0]) + k_min if len(sufficient) else len(gap) + 1


def _within(sets: Float64[np.ndarray, "r n d"], k: int, rng: np.random.Generator) -> Float64[np.ndarray, "r"]:
    """Compute the least sum of squared distances to k centers of Lloyd's algorithm in each of several sets of points.

    All sets are computed at once. scikit-learn's k-means takes one set at a time, and spends most time on checks.
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
    """Sample initial centers by k-means++, each in proportion to the squared distance from those before."""
    sets, n, _ = points.shape
    every = np.arange(sets)
    centers = np.empty((sets, k, points.shape[2]))
    centers[:, 0] = points[every, rng.integers(n, size=sets)]
    nearest = np.full((sets, n), np.inf)
    for i in range(1, k):
        np.minimum(nearest, ((points - centers[:, i - 1 : i]) ** 2).sum(axis=2), out=nearest)
        cumulative = nearest.cumsum(axis=1)
        sample = (cumulative <= rng.random((sets, 1)) * cumulative[:, -1:]).sum(axis=1)
        centers[:, i] = points[every, np.minimum(sample, n - 1)]
    return centers


def _squared_distances(
    points: Float64[np.ndarray, "r n d"], centers: Float64[np.ndarray, "r k d"]
) -> Float64[np.ndarray, "r n k"]:
    """Compute the squared distances of all points from all centers, by differences: products would lose precision."""
    squares = np.zeros((*points.shape[:2], centers.shape[1]))
    for axis in range(points.shape[2]):
        squares += (points[:, :, axis, np.newaxis] - centers[:, np.newaxis, :, axis]) ** 2
    return squares


def _means(
    points: Float64[np.ndarray, "r n d"], labels: Int64[np.ndarray, "r n"], centers: Float64[np.ndarray, "r k d"]
) -> Float64[np.ndarray, "r k d"]:
    """Compute the mean of each center's points; a center without points stays."""
    member = (labels[:, np.newaxis, :] == np.arange(centers.shape[1])[:, np.newaxis]).astype(np.float64)
    counts = member.sum(axis=2)[:, :, np.newaxis]
    return np.where(counts > 0, (member @ points) / np.maximum(counts, 1), centers)
