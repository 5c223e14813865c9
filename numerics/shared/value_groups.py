"""Groups of neighboring values: fits see the mean of a group in place of its values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64


@dataclass(frozen=True, eq=False)
class ValueGroups:
    """Groups of neighboring values of each column; a value counts as the mean of its group.

    Attributes
    ----------
    edges : tuple of ndarray
        By column, the least value of every group but the first, rising.
    means : tuple of ndarray
        By column, the mean of the rows of each group.

    Examples
    --------
    >>> x = np.array([[1.0], [9.0], [2.0], [8.0], [3.0]])
    >>> groups = ValueGroups.of(x, least=2)
    >>> groups.apply(x).ravel(), groups.apply(np.array([[0.0], [7.0]])).ravel()
    (array([1.5       , 6.66666667, 1.5       , 6.66666667, 6.66666667]), array([1.5       , 6.66666667]))
    """

    edges: tuple[Float64[np.ndarray, "_"], ...]
    means: tuple[Float64[np.ndarray, "_"], ...]

    @classmethod
    def of(cls, x: Float64[np.ndarray, "n p"], least: int) -> ValueGroups:
        """Group the values of each column, with `least` or more rows per group; equal values stay together.

        Parameters
        ----------
        x : ndarray
            ``(n, p)`` finite rows.
        least : int
            Fewest rows of a group. With fewer rows in all, a column has one group.
        """
        every = [_group(np.sort(column), least) for column in x.T]
        return cls(tuple(edges for edges, _ in every), tuple(means for _, means in every))

    def apply(self, x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n p"]:
        """Return rows with the mean of its group in place of every value."""
        columns = [
            means[np.searchsorted(edges, column, side="right")]
            for column, edges, means in zip(x.T, self.edges, self.means, strict=True)
        ]
        return np.column_stack(columns) if columns else x


def _group(values: Float64[np.ndarray, "n"], least: int) -> tuple[Float64[np.ndarray, "_"], Float64[np.ndarray, "_"]]:
    """Return edges and means of the groups of sorted values."""
    if not len(values):
        return np.zeros(0), np.zeros(1)
    place = np.searchsorted(values, values) // least  # of equal values, the place of the first
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    # Many equal values may leave few rows between them and the next start: these join the group before them.
    starts = starts[np.diff(starts, append=len(values)) >= least]
    starts = np.concatenate([[0], starts[starts > 0]]).astype(np.int64)
    if len(starts) > 1 and starts[1] < least:  # the first group was too small itself
        starts = np.delete(starts, 1)
    # The mean of equal values must be their value, to the bit.
    least_value, sizes = values[starts], np.diff(starts, append=len(values))
    return least_value[1:], least_value + np.add.reduceat(values - np.repeat(least_value, sizes), starts) / sizes
