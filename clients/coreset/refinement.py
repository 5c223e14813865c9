"""Sums of a site's rows by center, from which the fusion center moves the centers; rounded, so that no row shows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from clients.coreset.rows import SummarizedRows
from numerics.coreset.fairness.price_response import price_points
from numerics.coreset.fairness.rounding import whole_rows
from numerics.shared.distances import squared_distances


class CenterSums(NamedTuple):
    """Sums over the rows that have a point.

    Attributes
    ----------
    whole : ndarray
        ``(m, h, k)`` whole numbers of rows of each group at each center, for every table of prices.
    sums : ndarray
        ``(m, k, d)`` rounded sums of these rows.
    plain_rows, plain_sums : ndarray
        ``(c,)`` numbers of rows at their nearest plain center, and ``(c, d)`` rounded sums.
    """

    whole: Int64[np.ndarray, "m h k"]
    sums: Float64[np.ndarray, "m k d"]
    plain_rows: Int64[np.ndarray, "c"]
    plain_sums: Float64[np.ndarray, "c d"]


class _Grid(NamedTuple):
    """Mean of a site's rows, and `min_weight` of their standard deviations: sums are rounded to multiples of these."""

    mean: Float64[np.ndarray, "d"]
    step: Float64[np.ndarray, "d"]

    def rounded(
        self, sums: Float64[np.ndarray, "k d"], rows: Float64[np.ndarray, "k"], whole: Int64[np.ndarray, "k"]
    ) -> Float64[np.ndarray, "k d"]:
        """Round the difference of each sum from `rows` times the mean; return the sums for `whole` numbers of rows."""
        step = np.where(self.step > 0, self.step, 1.0)
        steps = np.rint((sums - rows[:, np.newaxis] * self.mean) / step)
        return np.asarray(whole[:, np.newaxis] * self.mean + np.where(self.step > 0, steps * step, 0.0))


def center_sums(
    rows: SummarizedRows,
    shifts: Float64[np.ndarray, "m h k"],
    temperatures: Float64[np.ndarray, "m"],
    plain: Float64[np.ndarray, "c d"],
    min_weight: int,
) -> CenterSums:
    """Return the sums over the rows for each table of prices, and at the nearest plain center (units of the scale).

    Examples
    --------
    Of four rows, two are at each plain center; at the middle both sums are known to a standard deviation, 1.5:

    >>> from numerics.coreset.grouped_rows import GroupedRows
    >>> x = np.array([[0.0], [0.0], [3.0], [3.0]])
    >>> grouped = GroupedRows.of(x, np.zeros(4, int), ("all",))
    >>> rows = SummarizedRows(grouped, np.zeros(4, int), ("all",), np.array([[0.0], [3.0]]), np.ones(1))
    >>> found = center_sums(rows, np.zeros((1, 1, 2)), np.array([1e-3]), np.array([[1.0], [2.0]]), min_weight=1)
    >>> found.plain_rows.tolist(), found.plain_sums.tolist(), found.whole.tolist(), found.sums.tolist()
    ([2, 2], [[0.0], [6.0]], [[[2, 2]]], [[[0.0], [6.0]]])
    """
    k, (c, d) = shifts.shape[2], plain.shape
    empty = np.zeros((0, k)), np.zeros(0, np.int64), np.zeros(0, np.int64)
    tables = list(zip(shifts, temperatures.tolist(), strict=True))
    responses = [price_points(*empty, *table, np.zeros((0, d))) for table in tables]
    plain_rows, plain_sums = np.zeros(c, np.int64), np.zeros((c, d))
    total, squares = np.zeros(d), np.zeros(d)
    # Sums about a center keep the digits of a column far from zero.
    origin = rows.centers[0]
    for place, block, x in rows.parts():
        present = rows.point[place] >= 0
        group = rows.groups_of(block, present)[present]
        z, squared = x[present] - origin, squared_distances(x[present], rows.centers)
        own = squared, np.ones(len(group), np.int64), group
        responses = [so_far + price_points(*own, *table, z) for so_far, table in zip(responses, tables, strict=True)]
        nearest = squared_distances(x[present], plain).argmin(axis=1)
        plain_rows += np.bincount(nearest, minlength=c)
        np.add.at(plain_sums, nearest, z)
        total, squares = total + z.sum(axis=0), squares + (z**2).sum(axis=0)
    n = max(1, int(plain_rows.sum()))
    grid = _Grid(total / n, min_weight * np.sqrt(np.maximum(squares / n - (total / n) ** 2, 0.0)))
    whole = np.stack([whole_rows(each.masses) for each in responses])
    sums = np.stack(
        [
            grid.rounded(each.sums, each.masses.sum(axis=0), sizes) + sizes[:, np.newaxis] * origin
            for each, sizes in zip(responses, whole.sum(axis=1), strict=True)
        ]
    )
    rounded = grid.rounded(plain_sums, plain_rows.astype(np.float64), plain_rows) + plain_rows[:, np.newaxis] * origin
    return CenterSums(whole, sums, plain_rows, rounded)
