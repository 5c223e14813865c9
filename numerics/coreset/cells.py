"""Cells, one for every feature and group: count and centroid of their rows, and the movement of the rows."""

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
    """Pour weighted points into cells: update weights, centroids, and the movement of each group, in place.

    A point of weight w that is poured into a cell of weight m adds ``w m / (w + m) (x - mean)^2`` to the movement. No
    term is negative, so nothing cancels; a point at the centroid of its cell adds 0.

    Parameters
    ----------
    x, weights : ndarray
        ``(n, d)`` points and their ``(n,)`` weights.
    cell, group : ndarray
        ``(n,)`` cell and group of each point.
    weight, mean : ndarray
        ``(cells,)`` weights and ``(cells, d)`` centroids, to be updated.
    movement : ndarray
        ``(groups, d)`` movement, to be updated.

    Examples
    --------
    >>> weight, mean, movement = np.zeros(1, int), np.zeros((1, 1)), np.zeros((1, 1))
    >>> pour(np.array([[1.0], [3.0]]), np.ones(2, int), np.zeros(2, int), np.zeros(2, int), weight, mean, movement)
    >>> weight, mean, movement
    (array([2]), array([[2.]]), array([[2.]]))
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
    """Cells that rows are poured into block by block, while the features of the cells may merge.

    Parameters
    ----------
    n_slots : int
        Largest number of features.
    dimension : int
        Number of columns, d.

    Attributes
    ----------
    code : ndarray
        ``(cells,)`` ascending codes ``group * n_slots + feature``.
    weight, mean : ndarray
        ``(cells,)`` numbers of rows and ``(cells, d)`` centroids.
    movement : ndarray
        ``(groups, d)`` sum over the rows of ``(row - centroid)^2``.

    Examples
    --------
    >>> cells = Cells(n_slots=2, dimension=1)
    >>> cells.add(np.array([[1.0], [3.0], [9.0]]), np.array([0, 0, 1]), np.zeros(3, int), n_groups=1)
    >>> cells.mean.tolist(), cells.rows().tolist()
    ([[2.0], [9.0]], [0, 0, 1])
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
        """``(cells,)`` group of each cell."""
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
            ``(b, d)`` rows; ``(b,)`` feature and ``(b,)`` group of each row.
        n_groups : int
            Number of groups so far.
        moved : ndarray, optional
            Feature that now contains each earlier feature; by default no feature has moved.
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
        """Return the cell of every row, in the order of the rows and in the smallest sufficient type."""
        final_cell = np.arange(len(self.code)).astype(np.min_scalar_type(len(self.code)))
        end = sum(len(rows) for rows in self._rows)
        cells = np.empty(end, final_cell.dtype)
        for rows, moved in zip(reversed(self._rows), reversed(self._moves), strict=True):
            end -= len(rows)
            cells[end : end + len(rows)] = final_cell[rows]
            final_cell = final_cell[moved]
        return cells
