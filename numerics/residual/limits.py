"""Limits of an agent's predictions: ten ranges of the outcome beyond its smallest and largest value."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

RANGES = 10.0
"""A prediction may lie this many ranges of the outcome beyond the smallest and the largest outcome."""

_SLACK = 1e-6
"""Relative to the largest outcome: numbers may cross the wire in single precision."""


def prediction_limits(y: Float64[np.ndarray, "n"]) -> tuple[float, float]:
    """Return the least and the greatest prediction that an agent may give, of an outcome or of a part of it.

    Parameters
    ----------
    y : ndarray
        ``(n,)`` outcomes, from which any number may have been subtracted.

    Examples
    --------
    >>> [round(limit, 3) for limit in prediction_limits(np.array([0.0, 1.0, 3.0]))]
    [-30.0, 33.0]
    """
    least, greatest = float(y.min()), float(y.max())
    reach = RANGES * (greatest - least) + _SLACK * max(abs(least), abs(greatest))
    return least - reach, greatest + reach


def largest_error(residual: Float64[np.ndarray, "n"], limits: tuple[float, float]) -> float:
    """Return the largest sum of squares that a step within these limits leaves of a residual.

    Examples
    --------
    >>> largest_error(np.array([0.0, 2.0]), (-1.0, 3.0))
    18.0
    """
    low, high = limits
    return float(np.square(np.maximum(residual - low, high - residual)).sum())
