"""Places of a site's rows that are among the rows shared with all sites."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from clients.gp.experts import Part

_ROUNDING = 1e-9
"""Largest relative difference between the values of one row that two kinds of processor have converted to units."""
_PAIRS = 2**18
"""Pairs of a row and a shared row that are compared at a time."""


def shared_rows_of(
    experts: list[Part], sample: list[Int64[np.ndarray, "_"]], disclosed: Float64[np.ndarray, "s columns"]
) -> list[Int64[np.ndarray, "_"]]:
    """Return the places of the shared rows in each expert: the drawn ones, or else those with the same values.

    The draw depends on the rows in common units. If a run is resumed on another kind of processor, these may differ in
    the last digit, and the draw then differs from the rows that the site shared before.
    """
    own = [np.column_stack([rows.x, rows.y]) for rows in experts]
    shared = np.concatenate([rows[index] for rows, index in zip(own, sample, strict=True)])
    if np.isin(_as_items(shared), _as_items(disclosed)).all():
        return sample
    left, places = len(shared), []
    for rows in own:
        places.append(np.flatnonzero(_near_any(rows, disclosed))[:left])  # no more rows than the site shared
        left -= len(places[-1])
    return places


def _as_items(rows: Float64[np.ndarray, "n columns"]) -> Shaped[np.ndarray, "n"]:
    """View every row as one item of its bytes."""
    return np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel()


def _near_any(
    rows: Float64[np.ndarray, "n columns"], others: Float64[np.ndarray, "s columns"]
) -> Bool[np.ndarray, "n"]:
    """Return a mask of the rows that equal one of the others up to rounding. Outputs, the last column, come first."""
    near = np.zeros(len(rows), bool)
    step = max(1, _PAIRS // max(len(rows), 1))
    for block in (others[start : start + step] for start in range(0, len(others), step)):
        tolerance = _ROUNDING * np.maximum(np.abs(block), 1)
        other, row = np.nonzero(np.abs(rows[:, -1] - block[:, -1:]) <= tolerance[:, -1:])
        near[row[(np.abs(rows[row] - block[other]) <= tolerance[other]).all(axis=1)]] = True
    return near
