"""Rows gathered in cells, a cell for every feature and group: count, centroid, and the movement of the rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64, Int64, Integer

from numerics.coreset.compiler import njit


@njit(cache=True)
def pour(
    x: Float64[np.ndarray, "n d"],
    weights: Int64[np.ndarray, "n"],
    cell: Int64[np.ndarray, "n"],
    group: Int64[np.ndarray, "n"],
    weight: Int64[np.ndarray, "cells"],
    mean: Float64[np.ndarray, "cells d"],
    movement: Float64[np.ndarray, "groups d"],
) -> None:
    """Pour weighted points into cells: in place, weights and centroids, and by group what the points move.

    The movement grows by ``w m / (w + m) (x - mean)^2`` for a point of weight w poured into a cell of weight m: never
    negative, nothing cancels, and nothing grows where the point is where its cell is.
    """
    for i in range(len(x)):
        own = cell[i]
        before = weight[own]
        weight[own] += weights[i]
        share = weights[i] / weight[own]
        for j in range(x.shape[1]):
            step = x[i, j] - mean[own, j]
            mean[own, j] += share * step
            movement[group[i], j] += share * before * step * step


@dataclass
class Cells:
    """Cells that rows are poured into block by block, while the features that they belong to may merge.

    Attributes
    ----------
    code : ndarray
        ``(cells,)`` rising: ``group * n_slots + feature``.
    weight, mean : ndarray
        ``(cells,)`` rows and ``(cells, d)`` centroids.
    movement : ndarray
        ``(groups, d)`` sum over the rows of ``(row - centroid)^2``.
    """

    n_slots: int
    dimension: int
    code: Int64[np.ndarray, "cells"] = field(init=False)
    weight: Int64[np.ndarray, "cells"] = field(init=False)
    mean: Float64[np.ndarray, "cells d"] = field(init=False)
    movement: Float64[np.ndarray, "groups d"] = field(init=False)
    _rows: list[Integer[np.ndarray, "b"]] = field(init=False, default_factory=list)
    _moves: list[Integer[np.ndarray, "cells"]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.code = np.empty(0, np.int64)
        self.weight = np.empty(0, np.int64)
        self.mean = np.empty((0, self.dimension))
        self.movement = np.zeros((0, self.dimension))

    @property
    def groups(self) -> Int64[np.ndarray, "cells"]:
        """Colour of each cell."""
        return self.code // self.n_slots

    def add(
        self,
        x: Float64[np.ndarray, "b d"],
        slots: Integer[np.ndarray, "b"],
        group: Int64[np.ndarray, "b"],
        n_groups: int,
        moved: Integer[np.ndarray, "before"] | None = None,
    ) -> None:
        """Pour a block of rows.

        Parameters
        ----------
        x, slots, group : ndarray
            The rows, each one's feature and group.
        n_groups : int
            Groups so far.
        moved : ndarray, optional
            The feature that holds now what each earlier feature held; they stay what they are unless given.
        """
        earlier = self.code
        if moved is not None:
            earlier = self.groups * self.n_slots + moved[self.code % self.n_slots]
        codes = np.concatenate([earlier, group * self.n_slots + slots])
        self.code, cell = np.unique(codes, return_inverse=True)
        old, new = np.split(cell, [len(earlier)])
        narrow = np.min_scalar_type(len(self.code))
        self._moves.append(old.astype(narrow))
        self._rows.append(new.astype(narrow))

        movement = np.zeros((n_groups, self.dimension))
        movement[: len(self.movement)] = self.movement
        weight, mean = np.zeros(len(self.code), np.int64), np.zeros((len(self.code), self.dimension))
        pour(self.mean, self.weight, old, earlier // self.n_slots, weight, mean, movement)
        pour(np.ascontiguousarray(x), np.ones(len(x), np.int64), new, group, weight, mean, movement)
        self.weight, self.mean, self.movement = weight, mean, movement

    def rows(self) -> Integer[np.ndarray, "n"]:
        """The cell of every row that was poured, in that order, in as few bytes as hold it."""
        now = np.arange(len(self.code)).astype(np.min_scalar_type(len(self.code)))
        parts: list[Integer[np.ndarray, "b"]] = []
        for rows, moved in zip(reversed(self._rows), reversed(self._moves), strict=True):
            parts.append(now[rows])
            now = now[moved]
        return np.concatenate(parts[::-1])
