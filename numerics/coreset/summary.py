"""The coreset of a shard, in one pass over its rows."""

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
from numerics.coreset.nearest_neighbours import nearest
from numerics.coreset.weighted_points import WeightedPoints, spread

CONSTRUCTIONS: Final = ("bico", "kmeans")
"""bico: one pass. kmeans: `LLOYD_PASSES` passes more, for locations that move the rows less."""
LLOYD_PASSES = 5
_FAR_OFF = 10.0
"""Times by which a column's unit may be off before the rows are read once more in better ones."""


@dataclass(frozen=True, eq=False)
class ShardCoreset:
    """A shard's coreset, and the place of every row in it.

    Attributes
    ----------
    coreset : WeightedPoints
        The points that stand for the rows.
    group_names : tuple of str
        Names of the H groups.
    point : ndarray
        ``(n_rows,)`` the coreset point of every row; the only array here that grows with the rows.
    n_rows : int
        Number of rows.
    movement_by_group : ndarray
        ``(H, d)`` the coreset's movement by group, so that a withheld group can be left out of it.
    """

    coreset: WeightedPoints
    group_names: tuple[str, ...]
    point: Integer[np.ndarray, "n_rows"]
    n_rows: int
    movement_by_group: Float64[np.ndarray, "H d"]


@dataclass(frozen=True, eq=False)
class _Space:
    """Where features are sought: columns in units of the first block, perhaps projected (Algorithm 15)."""

    origin: Float64[np.ndarray, "d"]
    unit: Float64[np.ndarray, "d"]
    projection: Float64[np.ndarray, "d t"] | None

    @classmethod
    def of(cls, first: Float64[np.ndarray, "b d"], scale: bool, projection: int, rng: np.random.Generator) -> _Space:
        d = first.shape[1]
        origin, unit = first.mean(axis=0), np.ones(d)
        if scale:
            unit = first.std(axis=0)
            # A constant's deviation is rounding error, not zero.
            constant = first.max(axis=0) == first.min(axis=0)
            unit[constant] = np.abs(first[0, constant])
            unit[unit == 0] = 1.0
        matrix = None
        if 0 < projection < d:
            matrix = rng.choice([-1.0, 1.0], size=(d, projection)) / np.sqrt(projection)
        return cls(origin, unit, matrix)

    def corrected(self, coreset: WeightedPoints) -> _Space | None:
        """In units of all rows, where the first block's were far off some column's: a file may be sorted by it."""
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


def summarise(
    points: GroupedRows,
    size: int,
    *,
    construction: str = "bico",
    projection: int = 0,
    scale: bool = True,
    rng: np.random.Generator,
) -> ShardCoreset:
    """A group-aware, movement-based coreset of integer weights (Theorem 7).

    Rows of all groups share locations; each group at a location becomes a point of its own, at its own centroid.

    Parameters
    ----------
    points : GroupedRows
        The rows; read once, with ``"kmeans"`` `LLOYD_PASSES` times more.
    size : int
        Locations at most; with H groups up to H times as many points.
    construction : str
        One of `CONSTRUCTIONS`.
    projection : int
        Dimensions in which locations are sought, by a Rademacher projection (Algorithm 15); the points and their
        movement are exact in all columns nevertheless. 0, or not less than the columns: no projection.
    scale : bool
        Measure columns in standard deviations of the first block while locations are sought; where these turn out to
        be far off those of all rows, the rows are read once more.
    rng : Generator
        Orders the rows of a block, and draws the projection.

    Returns
    -------
    ShardCoreset
        With no more than `size` different rows, their coreset is these rows, counted: nothing moves.

    Raises
    ------
    ValueError
        Unknown construction, `size` below 1, or no rows.
    """
    if construction not in CONSTRUCTIONS:
        raise ValueError(f"construction {construction!r} is none of {', '.join(CONSTRUCTIONS)}")
    if size < 1:
        raise ValueError(f"a coreset of {size} locations is none; ask for at least 1")
    blocks = points.blocks()
    first = next((block for block in blocks if len(block.x)), None)
    if first is None:
        raise ValueError("there are no rows to summarise")

    space = _Space.of(first.x, scale, projection, rng)
    names, features, cells = _one_pass(chain([first], blocks), space, size, rng)
    if scale and (better := space.corrected(_coreset_of(cells))):
        space = better
        del features, cells  # what grows with the rows need not be there twice
        names, features, cells = _one_pass(points.blocks(), space, size, rng)
    if construction == "kmeans" and cells.movement.any():
        cells = _improved(points, space, features.means)
    return ShardCoreset(_coreset_of(cells), names, cells.rows(), int(cells.weight.sum()), cells.movement)


def _coreset_of(cells: Cells) -> WeightedPoints:
    return WeightedPoints(cells.mean, cells.weight, cells.groups, cells.movement.sum(axis=0))


def _one_pass(
    blocks: Iterable[RowBlock], space: _Space, size: int, rng: np.random.Generator
) -> tuple[tuple[str, ...], Features, Cells]:
    """BICO's features of all rows, and the rows' cells: names of the groups, features, cells."""
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


def _improved(points: GroupedRows, space: _Space, locations: Float64[np.ndarray, "m t"]) -> Cells:
    """Lloyd's steps on all rows; the rows' cells around the last locations."""
    for _ in range(LLOYD_PASSES - 1):
        one_group = Cells(len(locations), space.dimension)
        for block, slots in _located(points, space, locations):
            one_group.add(space.of_rows(block.x), slots, np.zeros(len(slots), np.int64), 1)
        # A location that no row is nearest to is gone.
        locations = one_group.mean
    cells = Cells(len(locations), len(space.origin))
    for block, slots in _located(points, space, locations):
        cells.add(block.x, slots, block.group, len(block.group_names))
    return cells


def _located(
    points: GroupedRows, space: _Space, locations: Float64[np.ndarray, "m t"]
) -> Iterator[tuple[RowBlock, Int64[np.ndarray, "b"]]]:
    """Every block, with the nearest location of each of its rows."""
    for block in points.blocks():
        yield block, nearest(space.of_rows(block.x), locations)
