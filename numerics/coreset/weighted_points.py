"""Weighted points of groups: a coreset, and the moments of the rows that it represents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

_ROUNDING = 1e-12
"""Share of a column's largest value; a smaller standard deviation is the rounding error of a constant column."""


@dataclass(frozen=True, eq=False)
class WeightedPoints:
    """Points that each represent several rows of one group (Schmidt et al. 2018, Definition 4 and Theorem 7).

    Attributes
    ----------
    points : ndarray
        ``(n, d)`` centroids of the rows that the points represent.
    weights : ndarray
        ``(n,)`` numbers of these rows.
    groups : ndarray
        ``(n,)`` groups of these rows.
    movement : ndarray
        ``(d,)`` sum over all rows of ``(row - its point)^2``, for every column.
    """

    points: Float64[np.ndarray, "n d"]
    weights: Int64[np.ndarray, "n"]
    groups: Int64[np.ndarray, "n"]
    movement: Float64[np.ndarray, "d"]


def moments(coreset: WeightedPoints) -> tuple[Float64[np.ndarray, "d"], Float64[np.ndarray, "d"]]:
    """Compute mean and variance of every column over all rows that a coreset represents.

    Both are exact: a point is the centroid of its rows, so the rows' sum of squares is the points' plus the movement.

    Returns
    -------
    mean, variance : ndarray
        ``(d,)``; the variance divides by the number of rows.

    Examples
    --------
    One point represents two rows, 1 and 3:

    >>> coreset = WeightedPoints(np.array([[2.0]]), np.array([2]), np.array([0]), movement=np.array([2.0]))
    >>> mean, variance = moments(coreset)
    >>> float(mean[0]), float(variance[0])
    (2.0, 1.0)
    """
    mean = np.average(coreset.points, axis=0, weights=coreset.weights)
    between = coreset.weights @ (coreset.points - mean) ** 2
    return mean, (between + coreset.movement) / coreset.weights.sum()


def spread(coreset: WeightedPoints) -> tuple[Float64[np.ndarray, "d"], Float64[np.ndarray, "d"]]:
    """Compute mean and standard deviation of every column; the deviation of a constant column is exactly 0.

    Examples
    --------
    >>> coreset = WeightedPoints(np.array([[2.0, 7.0]]), np.array([2]), np.array([0]), movement=np.array([2.0, 0.0]))
    >>> mean, deviation = spread(coreset)
    >>> deviation
    array([1., 0.])
    """
    mean, variance = moments(coreset)
    deviation = np.sqrt(variance)
    return mean, np.where(deviation > _ROUNDING * np.abs(coreset.points).max(axis=0), deviation, 0.0)
