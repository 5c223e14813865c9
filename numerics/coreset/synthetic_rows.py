"""Synthetic rows, which the fusion center draws by what it knows of the rows: points, movement, sums by center."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64, Int64

from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.dual import Pricing
from numerics.coreset.fairness.price_response import Prices, price_points
from numerics.coreset.weighted_points import WeightedPoints

_MOST_STEPS = 12
"""Most steps of a search for prices."""
_FAIR = 0.5
"""Rows on the wrong side of the bounds, over all centers, at which the search ends."""
_LARGEST_FACTOR = 3.0
"""Largest factor by which one table of sums changes a weight."""


@dataclass(frozen=True, eq=False)
class SyntheticRows:
    """Rows drawn from points, with weights that reproduce the known sums of the true rows.

    Attributes
    ----------
    x : ndarray
        ``(n, d)``.
    weights : ndarray
        ``(n,)`` number of true rows that each stands for; not whole.
    groups : ndarray
        ``(n,)`` from 0 to H - 1.
    """

    x: Float64[np.ndarray, "n d"]
    weights: Float64[np.ndarray, "n"]
    groups: Int64[np.ndarray, "n"]

    def scaled(self, totals: Int64[np.ndarray, "H"] | Float64[np.ndarray, "H"]) -> SyntheticRows:
        """Scale the weights to these totals of the groups."""
        own = np.bincount(self.groups, self.weights, len(totals))
        return replace(self, weights=self.weights * (totals / np.where(own > 0, own, 1.0))[self.groups])

    def raked(self, shares: Float64[np.ndarray, "n k"], masses: Float64[np.ndarray, "H k"]) -> SyntheticRows:
        """Return the rows with weights that fit the `masses` of each group at each center better.

        One step of iterative proportional fitting (Deming and Stephan 1940), given each center's share of each row.

        Examples
        --------
        >>> rows = SyntheticRows(np.zeros((2, 1)), np.array([3.0, 3.0]), np.zeros(2, int))
        >>> rows.raked(np.eye(2), np.array([[2.0, 4.0]])).weights
        array([2., 4.])
        """
        H = len(masses)
        own = np.stack([np.bincount(self.groups, self.weights * column, H) for column in shares.T], axis=1)
        factor = np.clip(
            np.where(own > 0, masses / np.where(own > 0, own, 1.0), 1.0), 1 / _LARGEST_FACTOR, _LARGEST_FACTOR
        )
        weights = self.weights * (shares * factor[self.groups]).sum(axis=1)
        return replace(self, weights=weights).scaled(masses.sum(axis=1))

    def means(self, shares: Float64[np.ndarray, "n k"]) -> tuple[Float64[np.ndarray, "k d"], Float64[np.ndarray, "k"]]:
        """Return the mean of the rows at each center, given its share of each, and the weight there."""
        mass = self.weights[:, np.newaxis] * shares
        size = mass.sum(axis=0)
        return (mass.T @ self.x) / np.where(size > 0, size, 1.0)[:, np.newaxis], size

    def fair_prices(self, squared: Float64[np.ndarray, "n k"], bounds: Bounds, start: Prices) -> Prices:
        """Search prices at which the assignment of the rows is nearly fair, from the `start` of a similar problem."""
        totals = np.bincount(self.groups, self.weights, bounds.n_groups)
        scale = float(self.weights @ squared.min(axis=1)) / totals.sum()
        search = Pricing(
            bounds, np.rint(totals).astype(np.int64), squared.shape[1], scale or 1.0, start=start, gap=0.0, cools=False
        )
        while search.rounds < _MOST_STEPS:
            shifts, temperatures = search.candidates()
            tables = zip(shifts, temperatures.tolist(), strict=True)
            search.update([price_points(squared, self.weights, self.groups, *table) for table in tables])
            if np.abs(bounds.excess(search.masses)).sum() <= 2 * _FAIR:
                break
        return search.shift


def draw_rows(points: WeightedPoints, most: int, rng: np.random.Generator) -> SyntheticRows:
    """Draw rows around points, which keep mean, group and weight of each point, and the movement of each column.

    Parameters
    ----------
    points : WeightedPoints
        The points. A point gets as many rows as it represents, or fewer and heavier ones.
    most : int
        Most rows, unless there are more points.
    rng : numpy.random.Generator
        Generator of the rows.

    Notes
    -----
    In a column with few large values, such as gains or days in hospital, a point has one large value among small ones.
    If all rows of a point but one were at the column's median, the movement would follow from the points. So one row of
    each point takes the share of the movement that the true one has of that, and normal draws take the rest.

    Examples
    --------
    Of 5 rows with mean 1, in a column that is 0 elsewhere, the movement says that one has 5:

    >>> points = WeightedPoints(np.array([[0.0], [0.0], [1.0]]), np.full(3, 5), np.zeros(3, int), np.array([20.0]))
    >>> sorted(draw_rows(points, 100, np.random.default_rng(0)).x.ravel().tolist())[-2:]
    [0.0, 5.0]
    """
    m, d = points.points.shape
    copies = np.minimum(points.weights, max(1, most // m))
    index, first = np.repeat(np.arange(m), copies), np.cumsum(copies) - copies
    weights = (points.weights / copies)[index]
    far = points.points - _median(points.points, points.weights)
    alone = (points.weights * (copies - 1.0)) @ far**2
    share = np.where(alone > 0, np.minimum(points.movement / np.where(alone > 0, alone, 1.0), 1.0), 0.0)
    far *= share
    noise = rng.standard_normal((len(index), d))
    noise -= (np.add.reduceat(noise, first) / copies[:, np.newaxis])[index]
    squares = weights @ noise**2
    noise *= np.sqrt(np.where(squares > 0, (1 - share) * points.movement / np.where(squares > 0, squares, 1.0), 0.0))
    x = points.points[index] + noise - far[index]
    x[first[:, np.newaxis] + rng.integers(copies[:, np.newaxis], size=(m, d)), np.arange(d)] += (
        copies[:, np.newaxis] * far
    )
    return SyntheticRows(x, weights, points.groups[index])


def _median(points: Float64[np.ndarray, "m d"], weights: Int64[np.ndarray, "m"]) -> Float64[np.ndarray, "d"]:
    order = np.argsort(points, axis=0, kind="stable")
    middle = (np.cumsum(weights[order], axis=0) < weights.sum() / 2).sum(axis=0)
    columns = np.arange(points.shape[1])
    return np.asarray(points[order[middle, columns], columns])
