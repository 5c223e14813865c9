"""Significant digits, to which a site rounds its sums."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64


def rounded(values: Float64[np.ndarray, "n"], digits: int = 3) -> Float64[np.ndarray, "n"]:
    """Round values to `digits` significant digits.

    Examples
    --------
    >>> rounded(np.array([12345.0, 0.0]))
    array([12300.,     0.])
    """
    return np.array([float(f"{each:.{digits}g}") for each in values.tolist()])
