"""A check that the fusion center's own rows have the inputs of the sites' models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def unusable_input(columns: Mapping[str, Any], features: Sequence[str]) -> str:
    """Describe the first input that cannot be used, as text that follows the file's name; empty if all can.

    Parameters
    ----------
    columns : Mapping[str, ndarray]
        Columns of the rows by name; an empty cell is NaN.
    features : sequence of str
        Names of the inputs.

    Examples
    --------
    >>> unusable_input({"depth": np.array([1.0, np.nan])}, ["depth"])
    ": 'depth' is empty at point 2; fill it, or leave the point out"
    >>> unusable_input({"depth": np.array([1.0])}, ["depth", "east"])
    " has no column of numbers 'east', an input"
    """
    for name in features:
        if name not in columns or columns[name].dtype.kind not in "iuf":
            return f" has no column of numbers {name!r}, an input"
        for point in np.flatnonzero(np.isnan(columns[name]))[:1]:
            return f": {name!r} is empty at point {point + 1}; fill it, or leave the point out"
    return ""
