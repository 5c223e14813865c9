"""From a center's word to the cluster of every row, in passes over the rows: they need not fit in memory."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64, Int, Int64

from numerics.coreset.fairness.apportionment import PointMasses, distribute
from numerics.coreset.fairness.dual import PriceResponse, price_points
from numerics.coreset.fairness.flow import capacitated
from numerics.coreset.grouped_rows import GroupedRows, RowBlock
from numerics.shared.distances import squared_distances
from protocols.wire.faults import Fault, SiteFault

_FEWEST_CONTESTED = 1000
"""Rows at least that may go elsewhere than to their cheapest center, while numbers are made to fit."""


@dataclass(frozen=True, eq=False)
class Rows:
    """A site's rows as the center's words speak of them.

    Attributes
    ----------
    points : GroupedRows
        All rows.
    group : ndarray
        ``(n,)`` which point of the coreset stands for each row; -1: none.
    colours : tuple of str
        Names of the colours, in the order of the ask.
    centers : ndarray
        ``(k, d)``, in units of `scale`.
    scale : ndarray
        ``(d,)``.
    """

    points: GroupedRows
    group: Int[np.ndarray, "n"]
    colours: tuple[str, ...]
    centers: Float64[np.ndarray, "k d"]
    scale: Float64[np.ndarray, "d"]

    def parts(self) -> Iterator[tuple[slice, RowBlock, Float64[np.ndarray, "b d"]]]:
        """Where each block's rows are, the block, and its coordinates in units of `scale`.

        Raises
        ------
        SiteFault
            If there are more or fewer rows than there were.
        """
        start = 0
        for block in self.points.blocks():
            place = slice(start, start + len(block.x))
            start = place.stop
            if start > len(self.group):
                break
            yield place, block, block.x / self.scale
        if start != len(self.group):
            raise SiteFault(Fault.DATA_CHANGED, f"there were {len(self.group)} rows, now there are others")

    def colour_of(self, block: RowBlock, kept: Bool[np.ndarray, "b"]) -> Int64[np.ndarray, "b"]:
        """The colours of a block's rows as places in `colours`; -1 for rows that are not `kept`."""
        place = {name: number for number, name in enumerate(self.colours)}
        numbers = np.array([place.get(name, -1) for name in block.group_names], np.int64)
        colour = np.where(kept, numbers[block.group], -1)
        if (colour[kept] < 0).any():
            raise SiteFault(Fault.DATA_CHANGED, "a row has another colour than those that were told")
        return colour


def follow_points(rows: Rows, shares: PointMasses) -> Int64[np.ndarray, "n"]:
    """The cluster of every row, given how many rows of each point go to each center (docs/coreset.md).

    The rows of a point that goes to several centers are dealt out among them at least cost, in exactly these numbers;
    rows that no point stands for go to the nearest center.
    """
    n_centers = np.bincount(shares.point)
    single = n_centers[shares.point] == 1
    only = np.full(len(n_centers), -1)
    only[shares.point[single]] = shares.center[single]
    labels = np.empty(len(rows.group), np.int64)
    split: list[tuple[Int64[np.ndarray, "b"], Float64[np.ndarray, "b d"]]] = []
    for place, _, x in rows.parts():
        group = rows.group[place]
        labels[place] = np.where(group >= 0, only[group], _nearest(x, rows.centers, group < 0))
        several = np.flatnonzero(labels[place] < 0)
        split.append((several + place.start, x[several]))
    index = np.concatenate([each for each, _ in split])
    if len(index):
        x = np.concatenate([each for _, each in split])
        dealt = distribute(x, np.ones(len(x), np.int64), rows.group[index], shares.where(~single), rows.centers)
        labels[index[dealt.point]] = dealt.center
    return labels


def _nearest(
    x: Float64[np.ndarray, "b d"], centers: Float64[np.ndarray, "k d"], wanted: Bool[np.ndarray, "b"]
) -> Int64[np.ndarray, "b"]:
    nearest = np.zeros(len(x), np.int64)
    nearest[wanted] = squared_distances(x[wanted], centers).argmin(axis=1)
    return nearest


def price_rows(
    rows: Rows, shifts: Float64[np.ndarray, "m h k"], temperatures: Float64[np.ndarray, "m"]
) -> list[PriceResponse]:
    """What the rows come to at each table of prices; rows that no point stands for take no part."""
    tables = list(zip(shifts, temperatures.tolist(), strict=True))
    nobody = np.zeros((0, shifts.shape[2])), np.zeros(0, np.int64), np.zeros(0, np.int64)
    sums = [price_points(*nobody, shift, temperature) for shift, temperature in tables]
    for place, block, x in rows.parts():
        kept = rows.group[place] >= 0
        colour = rows.colour_of(block, kept)[kept]
        own = squared_distances(x[kept], rows.centers), np.ones(len(colour), np.int64), colour
        sums = [so_far + price_points(*own, *table) for so_far, table in zip(sums, tables, strict=True)]
    return sums


def meet_targets(
    rows: Rows, shift: Float64[np.ndarray, "h k"], targets: Int64[np.ndarray, "h k"]
) -> Int64[np.ndarray, "n"]:
    """The cluster of every row, given the prices, and how many rows of each colour go to each center.

    Nearly all rows go where that is cheapest at these prices. Of the others, for which another center is hardly dearer,
    enough are taken into a minimum cost flow for all the numbers to come out.
    """
    n, k = len(rows.group), len(rows.centers)
    labels = np.empty(n, np.int64)
    regret = np.zeros(n)
    colour = np.empty(n, np.int64)
    for place, block, x in rows.parts():
        kept = rows.group[place] >= 0
        colour[place] = rows.colour_of(block, kept)
        reduced = squared_distances(x, rows.centers) + np.where(kept[:, np.newaxis], shift[colour[place]], 0.0)
        labels[place] = reduced.argmin(axis=1)
        regret[place] = np.diff(np.partition(reduced, 1, axis=1)[:, :2], axis=1)[:, 0] if k > 1 else 0.0
    for h, target in enumerate(targets):
        own = np.flatnonzero(colour == h)
        if len(own) != target.sum():
            raise SiteFault(Fault.DATA_CHANGED, "a colour has another number of rows than it had")
        _meet(rows, own, regret, labels, target, shift[h])
    return labels


def _meet(
    rows: Rows,
    own: Int64[np.ndarray, "r"],
    regret: Float64[np.ndarray, "n"],
    labels: Int64[np.ndarray, "n"],
    target: Int64[np.ndarray, "k"],
    prices: Float64[np.ndarray, "k"],
) -> None:
    """Change the clusters of some rows of one colour, so that every center has its number of them."""
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
    flow = capacitated(squared, np.ones(len(free), np.int64), left, potentials=prices)
    labels[free[flow.point]] = flow.center


def _rows_at(rows: Rows, index: Int64[np.ndarray, "r"]) -> Float64[np.ndarray, "r d"]:
    """The coordinates of some rows, whose numbers are sorted."""
    found = []
    for place, _, x in rows.parts():
        inside = index[np.searchsorted(index, place.start) : np.searchsorted(index, place.stop)]
        found.append(x[inside - place.start])
    return np.concatenate(found)


def count(
    rows: Rows, labels: Int64[np.ndarray, "n"], plain: Float64[np.ndarray, "c d"]
) -> tuple[Int64[np.ndarray, "k h"], float, float]:
    """Rows of each colour in each cluster, their cost, and their cost with the nearest of `plain`'s centers."""
    k, H = len(rows.centers), len(rows.colours)
    counts = np.zeros(k * H, np.int64)
    cost = plain_cost = 0.0
    for place, block, x in rows.parts():
        kept = rows.group[place] >= 0
        label, colour = labels[place][kept], rows.colour_of(block, kept)[kept]
        counts += np.bincount(label * H + colour, minlength=k * H)
        cost += float(((x[kept] - rows.centers[label]) ** 2).sum())
        plain_cost += float(squared_distances(x[kept], plain).min(axis=1, initial=np.inf).sum())
    return counts.reshape(k, H), cost, plain_cost


def write_clusters(rows: Rows, labels: Int64[np.ndarray, "n"], path: Path) -> None:
    """A CSV file with a line for every row: its entity (without names its number, from 0), and its cluster."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write("entity,cluster\n")
        for place, block, _ in rows.parts():
            names = np.arange(place.start, place.stop) if block.entity is None else block.entity
            lines = io.StringIO()
            csv.writer(lines, lineterminator="\n").writerows(zip(names, labels[place].tolist(), strict=True))
            file.write(lines.getvalue())
