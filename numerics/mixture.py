"""Mixing predictions by weight (papers/sec.txt, eq. 5)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64


def mix(
    weights: Float64[np.ndarray, "mixtures models"], predictions: Float64[np.ndarray, "models t"]
) -> Float64[np.ndarray, "mixtures t"]:
    """``sum_i weights_i f_i(x)`` for every mixture and row.

    A prediction that is not finite makes a mixture infinite only where it has weight: 0 times infinity is 0 here.
    """
    finite = np.isfinite(predictions)
    mixed = weights @ np.where(finite, predictions, 0.0)
    if not finite.all():
        mixed[(weights != 0).astype(float) @ ~finite > 0] = np.inf
    return np.asarray(mixed)
