"""Copies of rows in a site's table, such as records that were entered twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64

FEW = 0.05
"""Share of rows that count as few."""


def copied_rows(
    x: Float64[np.ndarray, "n p"], y: Float64[np.ndarray, "n"], names: Sequence[Sequence[str]] = ()
) -> Bool[np.ndarray, "n"]:
    """Return the rows that equal an earlier one; none if they are few, or if chance explains them.

    Chance does not where some input has ten values or more, and half as many as there are different rows.

    Parameters
    ----------
    x, y : ndarray
        ``(n, p)`` inputs and ``(n,)`` outcomes, or places of classes.
    names : sequence
        Columns of text, each of n cells, that copies have in common, too.

    Examples
    --------
    >>> x, y = np.arange(12.0)[:, np.newaxis], np.arange(12.0) ** 2
    >>> twice = np.array([*range(12), 3, 5])
    >>> np.flatnonzero(copied_rows(x[twice], y[twice]))
    array([12, 13])
    >>> bool(copied_rows(x[twice], y[twice], [[str(row) for row in range(14)]]).any())
    False
    """
    codes = [np.unique(np.asarray(texts, np.str_), return_inverse=True)[1] for texts in names]
    cells = np.column_stack([x, y, *codes]) + 0.0  # -0 is 0
    copied, repeated = np.zeros(len(cells), np.bool_), np.ones(len(cells), np.bool_)
    for column in cells.T:
        _, place, number = np.unique(column, return_inverse=True, return_counts=True)
        repeated &= number[place] > 1
        if repeated.sum() <= FEW * len(cells):
            return copied
    rows = np.flatnonzero(repeated)
    as_bytes = np.ascontiguousarray(cells[rows]).view(np.dtype((np.void, cells[0].nbytes)))  # NaN equals NaN
    first = np.unique(as_bytes.ravel(), return_index=True)[1]
    copied[np.delete(rows, first)] = True
    different = x[~copied]
    values = max((len(np.unique(column)) for column in different.T), default=0)
    few = copied.sum() <= FEW * len(cells) or values < max(10, len(different) / 2)
    return np.zeros_like(copied) if few else copied
