"""Cost of fair clusters of one site's rows alone, for rows that took no part in the clustering."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64

from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.clustering import fair_clustering, plain_clustering
from numerics.shared.distances import squared_distances

FOLDS = 5
"""Parts of the rows, each of which is left out once."""
FEWEST_PER_CLUSTER = 2
"""Fewest rows per cluster for a comparison."""
_STARTS = 2


def squares_left_out(
    x: Float64[np.ndarray, "n d"],
    group: Int64[np.ndarray, "n"],
    k: int,
    alpha: float,
    rng: np.random.Generator,
) -> Float64[np.ndarray, "n"] | None:
    """Return each row's squared distance from its center in fair clusters, plus what it costs more when left out.

    The addition is measured without bounds of fairness: the squared distance from the nearest center of the rows in
    other folds, minus that from the nearest center of all rows. Fairness is a condition on all rows, so a row that is
    left out has no fair cluster. The bounds follow from the groups' shares of these rows.

    Parameters
    ----------
    x : ndarray
        ``(n, d)`` rows, in units of the columns.
    group : ndarray
        ``(n,)`` groups from 0 on.
    k : int
        Number of clusters.
    alpha : float
        Bounds of the groups' shares, as in `Bounds.of`.
    rng : numpy.random.Generator
        Generator of folds and starts.

    Returns
    -------
    ndarray or None
        None if there are too few rows or no fair clusters.

    Examples
    --------
    Two clusters of ten rows each, which differ by less than .1:

    >>> x = np.repeat([[0.0], [9.0]], 10, axis=0) + np.linspace(0, 0.09, 20)[:, np.newaxis]
    >>> squares = squares_left_out(x, np.arange(20) % 2, 2, 1.0, np.random.default_rng(0))
    >>> bool(squares.max() < 0.01)
    True
    """
    n = len(x)
    if n < 2 * FOLDS or k * FEWEST_PER_CLUSTER > n - n // FOLDS:
        return None
    fold = rng.permutation(n) % FOLDS
    x, ones = x - x.mean(axis=0), np.ones(n, np.int64)  # distances keep their digits far from zero
    place = np.unique(group, return_inverse=True)[1]
    bounds = Bounds.of(np.bincount(place) / n, alpha)
    try:
        fair = fair_clustering(x, ones, place, bounds, k, restarts=_STARTS, rng=rng)
        squares = -_nearest(x, x, k, rng)
        for own in range(FOLDS):
            squares[fold == own] += _nearest(x[fold == own], x[fold != own], k, rng)
    except (ValueError, ArithmeticError):  # fewer different rows than clusters, or no solution
        return None
    assignment = fair.assignment
    np.add.at(squares, assignment.point, ((x[assignment.point] - fair.centers[assignment.center]) ** 2).sum(axis=1))
    return squares


def _nearest(
    x: Float64[np.ndarray, "n d"], others: Float64[np.ndarray, "m d"], k: int, rng: np.random.Generator
) -> Float64[np.ndarray, "n"]:
    """Return the squared distance of each row from the nearest center of others, clustered without bounds."""
    centers = plain_clustering(others, np.ones(len(others), np.int64), k, restarts=_STARTS, rng=rng)[0]
    return np.asarray(squared_distances(x, centers).min(axis=1))
