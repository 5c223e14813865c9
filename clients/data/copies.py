"""Copies of rows in a site's table, such as records that were entered twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64

FEW = 0.05
"""Share of rows that count as few."""
_MOSTLY = 0.9
"""Share of the different rows that count as nearly all."""
_BY_CHANCE = 0.5
"""Share of the repeated rows that chance may explain."""


def copied_rows(
    x: Float64[np.ndarray, "n p"], y: Float64[np.ndarray, "n"], names: Sequence[Sequence[str]] = ()
) -> Bool[np.ndarray, "n"]:
    """Return the rows that equal an earlier one; none if they are few, or if chance may explain them.

    Chance does not where nearly all different rows differ in one column already, and this has so many places for values
    that two rows seldom meet at one: by the birthday problem n^2 / (4 s) pairs do, with s places between the quartiles.

    Parameters
    ----------
    x, y : ndarray
        ``(n, p)`` inputs and ``(n,)`` outcomes, or places of classes.
    names : sequence
        Columns of text, each of n cells, that copies have in common, too.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(12, 1))
    >>> y, twice = x[:, 0] ** 2, np.array([*range(12), 3, 5])
    >>> np.flatnonzero(copied_rows(x[twice], y[twice]))
    array([12, 13])
    >>> bool(copied_rows(x[twice], y[twice], [[str(row) for row in range(14)]]).any())
    False
    >>> bool(copied_rows(x[twice].round(), y[twice].round()).any())
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
    _, first, number = np.unique(as_bytes.ravel(), return_index=True, return_counts=True)
    copied[np.delete(rows, first)] = True
    different, n_repeated = np.column_stack([x, y])[~copied], int((number > 1).sum())
    if min(copied.sum() / len(cells), n_repeated / len(different)) > FEW and any(
        _tells_apart(column, len(cells), n_repeated) for column in different.T
    ):
        return copied
    return np.zeros_like(copied)


def _tells_apart(column: Float64[np.ndarray, "m"], n: int, n_repeated: int) -> bool:
    """Return whether a column of m different rows, of n in all, has too many values for repeated rows to be chance."""
    values = np.unique(column[np.isfinite(column)])
    if len(values) < max(2, _MOSTLY * len(column)):
        return False
    low, high = np.quantile(values, [0.25, 0.75])
    places = (high - low) / np.diff(values).min()
    return bool(n**2 / (4 * places) < _BY_CHANCE * n_repeated)
