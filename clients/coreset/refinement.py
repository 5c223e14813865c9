"""Sums of a site's rows by center, from which the fusion center moves the centers; rounded, so that no row shows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from clients.coreset.rows import SummarizedRows
from numerics.coreset.fairness.dual import PriceResponse, price_points
from numerics.shared.distances import squared_distances


class CenterSums(NamedTuple):
    """Sums over the rows that have a point.

    Attributes
    ----------
    responses : list of PriceResponse
        For every table of prices; their `sums` are rounded.
    plain_rows, plain_sums : ndarray
        ``(c,)`` numbers of rows at their nearest plain center, and ``(c, d)`` rounded sums.
    """

    responses: list[PriceResponse]
    plain_rows: Int64[np.ndarray, "c"]
    plain_sums: Float64[np.ndarray, "c d"]


class _Grid(NamedTuple):
    """Mean of a site's rows, and `min_weight` of their standard deviations: sums are rounded to multiples of these."""

    mean: Float64[np.ndarray, "d"]
    step: Float64[np.ndarray, "d"]

    def rounded(self, sums: Float64[np.ndarray, "k d"], rows: Float64[np.ndarray, "k"]) -> Float64[np.ndarray, "k d"]:
        """Round the distance of each sum from as many times the mean."""
        whole = rows[:, np.newaxis] * self.mean
        step = np.where(self.step > 0, self.step, 1.0)
        return np.asarray(whole + np.where(self.step > 0, np.rint((sums - whole) / step) * step, 0.0))


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
    >>> found.plain_rows.tolist(), found.plain_sums.tolist(), found.responses[0].sums.round(6).tolist()
    ([2, 2], [[0.0], [6.0]], [[0.0], [6.0]])
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
        kept = rows.point[place] >= 0
        group = rows.groups_of(block, kept)[kept]
        z, squared = x[kept] - origin, squared_distances(x[kept], rows.centers)
        own = squared, np.ones(len(group), np.int64), group
        responses = [so_far + price_points(*own, *table, z) for so_far, table in zip(responses, tables, strict=True)]
        nearest = squared_distances(x[kept], plain).argmin(axis=1)
        plain_rows += np.bincount(nearest, minlength=c)
        np.add.at(plain_sums, nearest, z)
        total, squares = total + z.sum(axis=0), squares + (z**2).sum(axis=0)
    n = max(1, int(plain_rows.sum()))
    grid = _Grid(total / n, min_weight * np.sqrt(np.maximum(squares / n - (total / n) ** 2, 0.0)))
    finished = []
    for each in responses:
        sizes = each.masses.sum(axis=0)
        sums = grid.rounded(each.sums, sizes) + sizes[:, np.newaxis] * origin
        finished.append(PriceResponse(each.exact, each.masses, each.curvature, sums))
    rounded = grid.rounded(plain_sums, plain_rows.astype(np.float64)) + plain_rows[:, np.newaxis] * origin
    return CenterSums(finished, plain_rows, rounded)
