"""Clusters of rows, as the fusion center demands them: passes over the rows, which need not fit in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64, Int, Int64

from common.csv_text import csv_rows
from numerics.coreset.fairness.apportionment import PointMasses, distribute
from numerics.coreset.fairness.flow import capacitated_flow
from numerics.coreset.fairness.price_response import PriceResponse, price_points
from numerics.coreset.grouped_rows import BLOCK_ROWS, GroupedRows, RowBlock
from numerics.shared.distances import squared_distances
from protocols.wire.faults import Fault, SiteFault

MOST_EXCHANGED = 50_000
"""Most rows of a site that exchange clusters: it takes a second, and points of more rows lose little."""
MOST_CONTESTED = 300_000
"""Most rows of points with several centers that are divided in one pass over the rows."""
_FEWEST_CONTESTED = 1000
"""Fewest rows of a group that are assigned by a flow, rather than to their cheapest center."""


@dataclass(frozen=True, eq=False)
class SummarizedRows:
    """A site's rows, the coreset points that represent them, and the centers of an ask.

    Attributes
    ----------
    rows : GroupedRows
        All n rows.
    point : ndarray
        ``(n,)`` index of the coreset point that represents each row; -1 if none does.
    group_names : tuple of str
        Names of the groups, in the order of the ask.
    centers : ndarray
        ``(k, d)`` centers, in units of `scale`.
    scale : ndarray
        ``(d,)`` unit of each column.
    """

    rows: GroupedRows
    point: Int[np.ndarray, "n"]
    group_names: tuple[str, ...]
    centers: Float64[np.ndarray, "k d"]
    scale: Float64[np.ndarray, "d"]

    def weights(self) -> Int64[np.ndarray, "m"]:
        """Return the number of rows of each point."""
        most = int(self.point.max(initial=-1)) + 1
        weights = np.zeros(most + 1, np.int64)
        # In parts, since counting takes a copy; rows without a point are counted last.
        for start in range(0, len(self.point), BLOCK_ROWS):
            weights += np.bincount(self.point[start : start + BLOCK_ROWS] % (most + 1), minlength=most + 1)
        return weights[:most]

    def no_labels(self) -> Int[np.ndarray, "n"]:
        """Return an array for the cluster of every row, of two bytes each, or of four where there are many clusters."""
        return np.empty(len(self.point), np.int16 if len(self.centers) < 2**15 else np.int32)

    def parts(self) -> Iterator[tuple[slice, RowBlock, Float64[np.ndarray, "b d"]]]:
        """Yield each block's place among the rows, the block, and its coordinates in units of `scale`.

        Raises
        ------
        SiteFault
            If the number of rows has changed.
        """
        start = 0
        for block in self.rows.blocks():
            place = slice(start, start + len(block.x))
            start = place.stop
            if start > len(self.point):
                break
            yield place, block, block.x / self.scale
        if start != len(self.point):
            raise SiteFault(Fault.DATA_CHANGED, f"the number of rows has changed; there were {len(self.point)}")

    def groups_of(self, block: RowBlock, present: Bool[np.ndarray, "b"]) -> Int64[np.ndarray, "b"]:
        """Return the groups of a block's rows as indices of `group_names`; -1 for rows that are not `present`."""
        place = {name: number for number, name in enumerate(self.group_names)}
        numbers = np.array([place.get(name, -1) for name in block.group_names], np.int64)
        group = np.where(present, numbers[block.group], -1)
        if (group[present] < 0).any():
            raise SiteFault(Fault.DATA_CHANGED, "the ask does not name the group of a row")
        return group


def follow_points(rows: SummarizedRows, shares: PointMasses) -> Int[np.ndarray, "n"]:
    """Return the cluster of every row, given the numbers of rows of each point at each center (docs/coreset.md).

    If a point has several centers, its rows are divided among them at least cost, in exactly these numbers. Rows
    without a point go to the nearest center.

    Examples
    --------
    One point represents three rows; one of them goes to center 0, and two go to center 1:

    >>> x, group = np.array([[0.0], [0.6], [1.0]]), np.zeros(3, int)
    >>> centers = np.array([[0.0], [1.0]])
    >>> rows = SummarizedRows(GroupedRows.of(x, group, ("all",)), np.zeros(3, int), ("all",), centers, np.ones(1))
    >>> follow_points(rows, PointMasses(np.zeros(2, int), np.array([0, 1]), np.array([1, 2])))
    array([0, 1, 1], dtype=int16)
    """
    n_centers = np.bincount(shares.point)
    single = n_centers[shares.point] == 1
    only = np.full(len(n_centers), -1)
    only[shares.point[single]] = shares.center[single]
    labels = rows.no_labels()
    for number, contested in enumerate(_contested(n_centers > 1, rows.weights())):
        split: list[tuple[Int64[np.ndarray, "b"], Float64[np.ndarray, "b d"]]] = []
        for place, _, x in rows.parts():
            point = rows.point[place]
            if number == 0:
                labels[place] = np.where(point >= 0, only[point], _nearest(x, rows.centers, point < 0))
            several = np.flatnonzero((point >= 0) & contested[point])
            split.append((several + place.start, x[several]))
        index = np.concatenate([each for each, _ in split])
        if len(index):
            x = np.concatenate([each for _, each in split])
            own = shares.where(contested[shares.point])
            division = distribute(x, np.ones(len(x), np.int64), rows.point[index].astype(np.int64), own, rows.centers)
            labels[index[division.point]] = division.center
    return labels


def _contested(several: Bool[np.ndarray, "m"], weights: Int64[np.ndarray, "m"]) -> list[Bool[np.ndarray, "m"]]:
    """Return the points with several centers, in parts whose rows fit in memory; one part at least."""
    part = np.cumsum(weights * several) // MOST_CONTESTED
    return [several & (part == each) for each in np.unique(part[several])] or [several]


def exchange_rows(rows: SummarizedRows, labels: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    """Return clusters of lower cost, in which rows need not follow their points; each has as many rows of each group.

    A point is the mean of rows, some of which may lie nearer to another center. An exchange of rows within a site
    changes no number that leaves it, and no cluster's fairness.

    Examples
    --------
    The two rows of a point, in the middle, went to one center each; so did those of two more:

    >>> x = np.array([[0.0], [4.0], [1.0], [5.0]])
    >>> grouped = GroupedRows.of(x, np.zeros(4, int), ("all",))
    >>> rows = SummarizedRows(grouped, np.array([0, 0, 1, 1]), ("all",), np.array([[0.0], [5.0]]), np.ones(1))
    >>> exchange_rows(rows, np.array([0, 0, 1, 1]))
    array([0, 1, 0, 1], dtype=int16)
    """
    if len(labels) > MOST_EXCHANGED:
        return labels
    counts = count_rows(rows, labels).T
    exchanged = meet_targets(rows, np.zeros(counts.shape), counts)
    before, after = (cost_of_rows(rows, each, rows.centers)[0] for each in (labels, exchanged))
    return exchanged if after < before else labels


def _nearest(
    x: Float64[np.ndarray, "b d"], centers: Float64[np.ndarray, "k d"], mask: Bool[np.ndarray, "b"]
) -> Int64[np.ndarray, "b"]:
    """Return the nearest center of each row in the mask, and 0 for the other rows."""
    nearest = np.zeros(len(x), np.int64)
    nearest[mask] = squared_distances(x[mask], centers).argmin(axis=1)
    return nearest


def price_rows(
    rows: SummarizedRows, shifts: Float64[np.ndarray, "m h k"], temperatures: Float64[np.ndarray, "m"]
) -> list[PriceResponse]:
    """Return the sums over the rows for each table of prices, without rows that no point represents."""
    tables = list(zip(shifts, temperatures.tolist(), strict=True))
    no_rows = np.zeros((0, shifts.shape[2])), np.zeros(0, np.int64), np.zeros(0, np.int64)
    sums = [price_points(*no_rows, shift, temperature) for shift, temperature in tables]
    for place, block, x in rows.parts():
        present = rows.point[place] >= 0
        group = rows.groups_of(block, present)[present]
        own = squared_distances(x[present], rows.centers), np.ones(len(group), np.int64), group
        sums = [so_far + price_points(*own, *table) for so_far, table in zip(sums, tables, strict=True)]
    return sums


def meet_targets(
    rows: SummarizedRows, shift: Float64[np.ndarray, "h k"], targets: Int64[np.ndarray, "h k"]
) -> Int[np.ndarray, "n"]:
    """Return the cluster of every row, given the prices, and the number of rows of each group at each center.

    Nearly all rows go to their cheapest center at these prices. A minimum cost flow assigns the rows for which another
    center costs hardly more: as many of them as the given numbers require.
    """
    n, k = len(rows.point), len(rows.centers)
    labels = rows.no_labels()
    regret = np.zeros(n)
    group = np.empty(n, np.int32)
    for place, block, x in rows.parts():
        present = rows.point[place] >= 0
        group[place] = rows.groups_of(block, present)
        reduced = squared_distances(x, rows.centers) + np.where(present[:, np.newaxis], shift[group[place]], 0.0)
        labels[place] = reduced.argmin(axis=1)
        regret[place] = np.diff(np.partition(reduced, 1, axis=1)[:, :2], axis=1)[:, 0] if k > 1 else 0.0
    for h, target in enumerate(targets):
        own = np.flatnonzero(group == h)
        if len(own) != target.sum():
            raise SiteFault(Fault.DATA_CHANGED, "the number of rows of a group has changed")
        _reassign(rows, own, regret, labels, target, shift[h])
    return labels


def _reassign(
    rows: SummarizedRows,
    own: Int64[np.ndarray, "r"],
    regret: Float64[np.ndarray, "n"],
    labels: Int[np.ndarray, "n"],
    target: Int64[np.ndarray, "k"],
    prices: Float64[np.ndarray, "k"],
) -> None:
    """Change the clusters of some rows of one group, so that every center gets its number of rows."""
    excess = np.bincount(labels[own], minlength=len(target)) - target
    if not excess.any():
        return
    by_regret = own[np.argsort(regret[own], kind="stable")]
    contested = max(_FEWEST_CONTESTED, 2 * int(np.abs(excess).sum()))
    while True:
        free, fixed = by_regret[:contested], by_regret[contested:]
        left = target - np.bincount(labels[fixed], minlength=len(target))
        if (left >= 0).all():
            break
        contested *= 2
    free = np.sort(free)
    squared = squared_distances(_rows_at(rows, free), rows.centers)
    flow = capacitated_flow(squared, np.ones(len(free), np.int64), left, potentials=prices)
    labels[free[flow.point]] = flow.center


def _rows_at(rows: SummarizedRows, index: Int64[np.ndarray, "r"]) -> Float64[np.ndarray, "r d"]:
    """Return the coordinates of the rows of a sorted index."""
    parts = []
    for place, _, x in rows.parts():
        inside = index[np.searchsorted(index, place.start) : np.searchsorted(index, place.stop)]
        parts.append(x[inside - place.start])
    return np.concatenate(parts)


def count_rows(rows: SummarizedRows, labels: Int[np.ndarray, "n"]) -> Int64[np.ndarray, "k h"]:
    """Return the number of rows of each group in each cluster.

    Examples
    --------
    >>> rows = GroupedRows.of(np.array([[0.0], [3.0]]), np.zeros(2, int), ("all",))
    >>> summarized = SummarizedRows(rows, np.array([0, 1]), ("all",), np.array([[0.0]]), np.ones(1))
    >>> count_rows(summarized, np.zeros(2, int))
    array([[2]])
    """
    k, H = len(rows.centers), len(rows.group_names)
    counts = np.zeros(k * H, np.int64)
    for place, block, _ in rows.parts():
        present = rows.point[place] >= 0
        own = labels[place][present].astype(np.int64)
        counts += np.bincount(own * H + rows.groups_of(block, present)[present], minlength=k * H)
    return counts.reshape(k, H)


def cost_of_rows(
    rows: SummarizedRows, labels: Int[np.ndarray, "n"], plain: Float64[np.ndarray, "c d"]
) -> tuple[float, float]:
    """Return the cost of all rows with a point in their clusters, and at the nearest plain center.

    Examples
    --------
    >>> rows = GroupedRows.of(np.array([[0.0], [3.0]]), np.zeros(2, int), ("all",))
    >>> summarized = SummarizedRows(rows, np.array([0, 1]), ("all",), np.array([[0.0]]), np.ones(1))
    >>> cost_of_rows(summarized, np.zeros(2, int), plain=np.array([[0.0], [2.0]]))
    (9.0, 1.0)
    """
    cost = plain_cost = 0.0
    for place, _, x in rows.parts():
        present = rows.point[place] >= 0
        cost += float(((x[present] - rows.centers[labels[place][present]]) ** 2).sum())
        plain_cost += float(squared_distances(x[present], plain).min(axis=1, initial=np.inf).sum())
    return cost, plain_cost


def write_clusters(rows: SummarizedRows, labels: Int[np.ndarray, "n"], path: Path) -> None:
    """Write a CSV file with a line for every row: its name (or its number, from 0), and its cluster."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write("entity,cluster\n")
        for place, block, _ in rows.parts():
            names = np.arange(place.start, place.stop) if block.entity is None else block.entity
            file.write(csv_rows((names, labels[place])))
