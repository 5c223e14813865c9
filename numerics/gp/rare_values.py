"""Rare input values, which single out their rows in moments and in likelihoods, whatever the lengths are.

With a short length in one column and very long ones in all others, rows with equal values there form blocks, and the
likelihood reveals the sums of the blocks' outputs. The covariances reveal where a row with a rare value lies in all
other columns. No limit on lengths prevents it, since honest lengths single out such rows, too. So a rare value is
replaced by one that more rows have.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float64, Int64

_GAP = 2.0
"""Standard deviations of a column beyond which a gap singles out the rows behind it. In a column of two values the gap
is wider, unless both are equally frequent."""

_MOST_VALUES = 10
"""Most values of a column whose rare ones are joined; with more, too much is lost (airfoil: errors 8 % larger)."""


def without_rare_inputs(x: Float64[np.ndarray, "n d"], fewest: int) -> Float64[np.ndarray, "n d"]:
    """Return inputs in which no value and no gap singles out fewer than `fewest` rows.

    In a column of at most ten values, and at most half as many values as rows, neighboring values are joined until
    `fewest` rows have each; the most common of them replaces all. In columns of two values this is done within the rows
    that agree in all earlier such columns, so that every combination has `fewest` rows, too. Combinations of columns
    with more values stay, since most rows would move if all columns have few values. In any column, fewer rows behind a
    gap move next to the nearest others.

    Parameters
    ----------
    x : ndarray
        ``(n, d)`` finite inputs.
    fewest : int
        Fewest rows.

    Returns
    -------
    ndarray
        ``(n, d)``; `x` itself if nothing is rare.

    Examples
    --------
    >>> rare = np.array([[0.0, 1.0, 2.0, 3.0, 4.0, 50.0], [0, 0, 0, 0, 0, 1]]).T
    >>> without_rare_inputs(rare, 3).T.tolist()
    [[0.0, 1.0, 2.0, 3.0, 4.0, 3.5], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]
    """
    if len(x) < 2 * fewest:
        return x
    inputs, cell = x.copy(), np.zeros(len(x), np.int64)
    sizes = [_n_values(column) for column in x.T]
    for j in np.flatnonzero([n <= _MOST_VALUES and 2 * n <= len(x) for n in sizes]).tolist():
        if sizes[j] > 2:
            inputs[:, j] = _joined(inputs[:, j], fewest)
            continue
        for place in range(int(cell.max()) + 1):
            rows = np.flatnonzero(cell == place)
            inputs[rows, j] = _joined(inputs[rows, j], fewest)
        cell = np.unique(np.column_stack([cell, inputs[:, j]]), axis=0, return_inverse=True)[1].ravel()
    for j in range(x.shape[1]):
        inputs[:, j] = _without_gaps(inputs[:, j], fewest)
    return x if np.array_equal(inputs, x) else inputs


def _n_values(values: Float64[np.ndarray, "n"]) -> int:
    """Count the distinct values, or those of a part of the rows if these are too many already."""
    few = len(np.unique(values[:1000]))
    return few if few > _MOST_VALUES else len(np.unique(values))


def _joined(values: Float64[np.ndarray, "m"], fewest: int) -> Float64[np.ndarray, "m"]:
    """Replace every value by the most common one of its group; groups are neighboring values of enough rows."""
    distinct, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    group, rows = np.zeros(len(distinct), np.int64), 0
    for each, count in enumerate(counts.tolist()):
        if each:
            group[each] = group[each - 1] + (rows >= fewest)
            rows = rows * (rows < fewest)
        rows += count
    if rows < fewest and group[-1]:
        group[group == group[-1]] -= 1
    common = [max(np.flatnonzero(group == g).tolist(), key=lambda each: counts[each]) for g in range(group[-1] + 1)]
    return np.asarray(distinct[np.array(common)[group[place.ravel()]]])


def _without_gaps(values: Float64[np.ndarray, "n"], fewest: int) -> Float64[np.ndarray, "n"]:
    """Move small groups between wide gaps to the midpoints of the nearest other values."""
    if not _apart(np.sort(values), fewest).any():  # sorting takes less time than finding the order
        return values
    order = np.argsort(values, kind="stable")
    ordered, usual = values[order], np.ones(len(values), bool)
    while (apart := _apart(ordered[usual], fewest)).any() and not apart.all():
        usual[np.flatnonzero(usual)[apart]] = False
    others, moved = ordered[usual], values.copy()
    if usual.all() or len(others) < 2:
        return values
    above = np.flatnonzero(~usual)
    last = len(others) - 2
    for turn, place in enumerate(above.tolist()):
        nearest = int(np.searchsorted(others, ordered[place])) - 1
        low = last - turn % (last + 1) if nearest > last else (nearest + 1 + turn) % (last + 1)
        moved[order[place]] = (others[low] + others[low + 1]) / 2
    return moved


def _apart(ordered: Float64[np.ndarray, "m"], fewest: int) -> Bool[np.ndarray, "m"]:
    """Return which of the ascending values lie in a small group between wide gaps."""
    group: Int64[np.ndarray, "m"] = np.cumsum(np.diff(ordered, prepend=ordered[:1]) > _GAP * ordered.std())
    return np.asarray(np.bincount(group)[group] < fewest)


def common_counts(counts: Int64[np.ndarray, "m k"], fewest: int) -> Int64[np.ndarray, "m k"]:
    """Return each expert's rows of each class, with numbers from 1 to `fewest` - 1 as `fewest`.

    The classes with most rows give them, so that the sum remains and does not tell them. An expert whose rows are too
    few for that has equally many of each of its classes.

    Examples
    --------
    >>> common_counts(np.array([[40, 1, 0, 7], [6, 1, 3, 0]]), 5)
    array([[36,  5,  0,  7],
           [ 4,  3,  3,  0]])
    """
    return np.stack([_common_counts(each, fewest) for each in counts])


def _common_counts(counts: Int64[np.ndarray, "k"], fewest: int) -> Int64[np.ndarray, "k"]:
    present = np.flatnonzero(counts)
    n, common = int(counts.sum()), counts.copy()
    if n < fewest * len(present):
        each, more = divmod(n, max(1, len(present)))
        common[present] = each + (np.arange(len(present)) < more)
        return common
    common[present] = np.maximum(counts[present], fewest)
    while (excess := int(common.sum()) - n) > 0:
        largest = int(common.argmax())
        common[largest] -= min(excess, int(common[largest]) - fewest)
    return common
