"""Coreset of a shard, in one pass over its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import numpy as np
from jaxtyping import Float64, Int64, Integer

from numerics.coreset.cells import Cells
from numerics.coreset.features import Features
from numerics.coreset.grouped_rows import GroupedRows, RowBlock
from numerics.coreset.nearest_neighbors import nearest
from numerics.coreset.reduction import draw_projection
from numerics.coreset.weighted_points import WeightedPoints, spread

CONSTRUCTIONS: Final = ("bico", "kmeans")
"""bico: one pass. kmeans: `LLOYD_PASSES` further passes, for locations that move the rows less."""
LLOYD_PASSES = 5
_FAR_OFF = 10.0
"""Largest ratio between the unit of a column and its standard deviation; beyond it, the rows are read once more."""


@dataclass(frozen=True, eq=False)
class ShardCoreset:
    """Coreset of a shard, and the point of every row.

    Attributes
    ----------
    coreset : WeightedPoints
        Points that represent the rows.
    group_names : tuple of str
        Names of the H groups.
    point : ndarray
        ``(n_rows,)`` index of every row's point; the only array here that grows with the number of rows.
    n_rows : int
        Number of rows.
    movement_by_group : ndarray
        ``(H, d)`` movement of the rows of each group, from which that of a withheld group can be removed.
    """

    coreset: WeightedPoints
    group_names: tuple[str, ...]
    point: Integer[np.ndarray, "n_rows"]
    n_rows: int
    movement_by_group: Float64[np.ndarray, "H d"]


@dataclass(frozen=True, eq=False)
class _Space:
    """Coordinates for the search of locations: columns in units of the first block, or projected (Algorithm 15)."""

    origin: Float64[np.ndarray, "d"]
    unit: Float64[np.ndarray, "d"]
    projection: Float64[np.ndarray, "d t"] | None

    @classmethod
    def of(cls, first: Float64[np.ndarray, "b d"], scale: bool, projection: int, rng: np.random.Generator) -> _Space:
        d = first.shape[1]
        origin, unit = first.mean(axis=0), np.ones(d)
        if scale:
            unit = first.std(axis=0)
            # The computed deviation of a constant column is a rounding error, not zero.
            constant = first.max(axis=0) == first.min(axis=0)
            unit[constant] = np.abs(first[0, constant])
            unit[unit == 0] = 1.0
        matrix = None
        if 0 < projection < d:
            matrix = draw_projection(d, projection, rng)
        return cls(origin, unit, matrix)

    def corrected(self, coreset: WeightedPoints) -> _Space | None:
        """Return the space in units of all rows, or None if those of the first block are close enough.

        They are not if a file is sorted by some column.
        """
        _, deviation = spread(coreset)
        varies = deviation > 0
        ratio = deviation[varies] / self.unit[varies]
        if not ((ratio > _FAR_OFF) | (ratio < 1 / _FAR_OFF)).any():
            return None
        return replace(self, unit=np.where(varies, deviation, self.unit))

    @property
    def dimension(self) -> int:
        return len(self.origin) if self.projection is None else self.projection.shape[1]

    def of_rows(self, x: Float64[np.ndarray, "b d"]) -> Float64[np.ndarray, "b t"]:
        z: Float64[np.ndarray, "b d"] = (x - self.origin) / self.unit
        return z if self.projection is None else z @ self.projection


def summarize(
    points: GroupedRows,
    size: int,
    *,
    construction: str = "bico",
    projection: int = 0,
    scale: bool = True,
    rng: np.random.Generator,
) -> ShardCoreset:
    """Build a coreset with integer weights that keeps groups apart (Schmidt et al. 2018, Theorem 7).

    Rows of all groups share locations. At a location, every group has a point of its own, its own centroid.

    Parameters
    ----------
    points : GroupedRows
        The rows; they are read once, and `LLOYD_PASSES` times more with ``"kmeans"``.
    size : int
        Largest number of locations; with H groups, up to H times as many points.
    construction : str
        One of `CONSTRUCTIONS`.
    projection : int
        Number of dimensions for the search of locations, by a Rademacher projection (Algorithm 15). The points and
        their movement are exact in all columns nevertheless. No projection if 0, or if at least the number of columns.
    scale : bool
        Measure columns in standard deviations of the first block in the search of locations. If these differ much from
        those of all rows, the rows are read once more.
    rng : Generator
        Orders the rows of a block, and draws the projection.

    Returns
    -------
    ShardCoreset
        If at most `size` rows are different, the points are these rows, and nothing moves.

    Raises
    ------
    ValueError
        If the construction is unknown, `size` is below 1, or there are no rows.

    Examples
    --------
    >>> rows = GroupedRows.of(np.array([[1.0], [1.0], [5.0]]), np.array([0, 0, 1]), ("Female", "Male"))
    >>> shard = summarize(rows, size=10, rng=np.random.default_rng(0))
    >>> shard.coreset.points.tolist(), shard.coreset.weights.tolist(), shard.point.tolist()
    ([[1.0], [5.0]], [2, 1], [0, 0, 1])
    """
    if construction not in CONSTRUCTIONS:
        raise ValueError(f"construction {construction!r} is none of {', '.join(CONSTRUCTIONS)}")
    if size < 1:
        raise ValueError(f"a coreset needs at least 1 location, not {size}")
    blocks = points.blocks()
    first = next((block for block in blocks if len(block.x)), None)
    if first is None:
        raise ValueError("there are no rows to summarize")

    space = _Space.of(first.x, scale, projection, rng)
    names, features, cells = _one_pass(chain([first], blocks), space, size, rng)
    if scale and (better := space.corrected(_coreset_of(cells))):
        space = better
        del features, cells  # frees memory that grows with the number of rows
        names, features, cells = _one_pass(points.blocks(), space, size, rng)
    if construction == "kmeans" and cells.movement.any():
        cells = _improve(points, space, features.means)
    return ShardCoreset(_coreset_of(cells), names, cells.rows(), int(cells.weight.sum()), cells.movement)


def _coreset_of(cells: Cells) -> WeightedPoints:
    return WeightedPoints(cells.mean, cells.weight, cells.groups, cells.movement.sum(axis=0))


def _one_pass(
    blocks: Iterable[RowBlock], space: _Space, size: int, rng: np.random.Generator
) -> tuple[tuple[str, ...], Features, Cells]:
    """Insert all rows into BICO's features; return the names of the groups, the features, and the rows' cells."""
    features, cells = Features(size, space.dimension), Cells(size, len(space.origin))
    names: tuple[str, ...] = ()
    for block in blocks:
        names = block.group_names
        if not len(block.x):
            continue
        order = rng.permutation(len(block.x))
        in_order, moved = features.insert(space.of_rows(block.x[order]))
        slots = np.empty(len(order), np.int32)
        slots[order] = in_order
        cells.add(block.x, slots, block.group, len(names), moved)
    return names, features, cells


def _improve(points: GroupedRows, space: _Space, locations: Float64[np.ndarray, "m t"]) -> Cells:
    """Improve locations by Lloyd's steps on all rows, and return the rows' cells around the last locations."""
    for _ in range(LLOYD_PASSES - 1):
        one_group = Cells(len(locations), space.dimension)
        for block, slots in _locate(points, space, locations):
            one_group.add(space.of_rows(block.x), slots, np.zeros(len(slots), np.int64), 1)
        # A location without a row disappears.
        locations = one_group.mean
    cells = Cells(len(locations), len(space.origin))
    for block, slots in _locate(points, space, locations):
        cells.add(block.x, slots, block.group, len(block.group_names))
    return cells


def _locate(
    points: GroupedRows, space: _Space, locations: Float64[np.ndarray, "m t"]
) -> Iterator[tuple[RowBlock, Int64[np.ndarray, "b"]]]:
    """Yield every block with the nearest location of each of its rows."""
    for block in points.blocks():
        yield block, nearest(space.of_rows(block.x), locations)
