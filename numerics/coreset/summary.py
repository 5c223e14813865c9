"""A coreset of coloured points, in one pass over blocks of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import numpy as np
from jaxtyping import Float64, Int64, Integer

from numerics.coreset.cells import Cells
from numerics.coreset.features import Features
from numerics.coreset.nearest import nearest
from numerics.coreset.points import Block, Points

CONSTRUCTIONS: Final = ("bico", "kmeans")
"""bico: one pass. kmeans: `LLOYD_PASSES` passes more, for locations that move the rows less."""
LLOYD_PASSES = 5
_FAR_OFF = 10.0
"""Times by which a column's unit may be off before the rows are read once more in better ones."""
_ROUNDING = 1e-12
"""A standard deviation below this share of a column's largest value is a rounding error of a constant column."""


@dataclass(frozen=True, eq=False)
class Coreset:
    """Weighted, coloured points that stand for many (papers/fair_coresets.txt, Definition 4 and Theorem 7).

    Attributes
    ----------
    points : ndarray
        ``(n, d)``, each the centroid of the rows it stands for.
    weights : ndarray
        ``(n,)`` rows it stands for.
    colours : ndarray
        ``(n,)`` their one colour.
    movement : ndarray
        ``(d,)`` sum over all rows of ``(row - its point)^2``, for every column.
    """

    points: Float64[np.ndarray, "n d"]
    weights: Int64[np.ndarray, "n"]
    colours: Int64[np.ndarray, "n"]
    movement: Float64[np.ndarray, "d"]


def moments(coreset: Coreset) -> tuple[Float64[np.ndarray, "d"], Float64[np.ndarray, "d"]]:
    """Mean and variance of every column over all rows that a coreset stands for.

    Exact: a point is the centroid of its rows, so their sum of squares is that of the points and the movement.

    Returns
    -------
    mean, variance : ndarray
        ``(d,)``; the variance divides by the number of rows.
    """
    mean = np.average(coreset.points, axis=0, weights=coreset.weights)
    between = coreset.weights @ (coreset.points - mean) ** 2
    return mean, (between + coreset.movement) / coreset.weights.sum()


def spread(coreset: Coreset) -> tuple[Float64[np.ndarray, "d"], Float64[np.ndarray, "d"]]:
    """Mean and standard deviation of every column, as `moments`; 0 where the deviation is a rounding error of none."""
    mean, variance = moments(coreset)
    deviation = np.sqrt(variance)
    return mean, np.where(deviation > _ROUNDING * np.abs(coreset.points).max(axis=0), deviation, 0.0)


@dataclass(frozen=True, eq=False)
class Summarised:
    """A shard's coreset, and where its rows are in it.

    Attributes
    ----------
    coreset : Coreset
    names : tuple of str
        Names of the colours.
    group : ndarray
        ``(n_rows,)`` the coreset point of every row; the only thing here that grows with the rows.
    n_rows : int
    movement_by_colour : ndarray
        ``(H, d)`` the coreset's movement, taken apart: what remains of it when a colour is withheld.
    """

    coreset: Coreset
    names: tuple[str, ...]
    group: Integer[np.ndarray, "n_rows"]
    n_rows: int
    movement_by_colour: Float64[np.ndarray, "H d"]


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

    def corrected(self, coreset: Coreset) -> _Space | None:
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
    points: Points,
    size: int,
    *,
    construction: str = "bico",
    projection: int = 0,
    scale: bool = True,
    rng: np.random.Generator,
) -> Summarised:
    """A colour-aware, movement-based coreset of integer weights (Theorem 7).

    Rows of all colours share locations; each colour at a location becomes a point of its own, at its own centroid.

    Parameters
    ----------
    points : Points
        The rows; read once, with ``"kmeans"`` `LLOYD_PASSES` times more.
    size : int
        Locations at most; with H colours up to H times as many points.
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
    Summarised
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
    return Summarised(_coreset_of(cells), names, cells.rows(), int(cells.weight.sum()), cells.movement)


def _coreset_of(cells: Cells) -> Coreset:
    return Coreset(cells.mean, cells.weight, cells.colours, cells.movement.sum(axis=0))


def _one_pass(
    blocks: Iterable[Block], space: _Space, size: int, rng: np.random.Generator
) -> tuple[tuple[str, ...], Features, Cells]:
    """BICO's features of all rows, and the rows' cells: names of the colours, features, cells."""
    features, cells = Features(size, space.dimension), Cells(size, len(space.origin))
    names: tuple[str, ...] = ()
    for block in blocks:
        names = block.names
        if not len(block.x):
            continue
        order = rng.permutation(len(block.x))
        in_order, moved = features.insert(space.of_rows(block.x[order]))
        slots = np.empty(len(order), np.int32)
        slots[order] = in_order
        cells.add(block.x, slots, block.colour, len(names), moved)
    return names, features, cells


def _improved(points: Points, space: _Space, locations: Float64[np.ndarray, "m t"]) -> Cells:
    """Lloyd's steps on all rows; the rows' cells around the last locations."""
    for _ in range(LLOYD_PASSES - 1):
        one_colour = Cells(len(locations), space.dimension)
        for block, slots in _located(points, space, locations):
            one_colour.add(space.of_rows(block.x), slots, np.zeros(len(slots), np.int64), 1)
        # A location that no row is nearest to is gone.
        locations = one_colour.mean
    cells = Cells(len(locations), len(space.origin))
    for block, slots in _located(points, space, locations):
        cells.add(block.x, slots, block.colour, len(block.names))
    return cells


def _located(
    points: Points, space: _Space, locations: Float64[np.ndarray, "m t"]
) -> Iterator[tuple[Block, Int64[np.ndarray, "b"]]]:
    """Every block, with the nearest location of each of its rows."""
    for block in points.blocks():
        yield block, nearest(space.of_rows(block.x), locations)
