"""How good predictions with a variance are, on points whose outputs are known."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from scipy.special import ndtri


def smse(y: Float64[np.ndarray, "t"], mean: Float64[np.ndarray, "t"]) -> float:
    """Standardised mean squared error: 1 for who always says the mean of the test outputs.

    NaN where all test outputs are equal.
    """
    variance = float(np.var(y))
    return float(np.mean((y - mean) ** 2)) / variance if variance > 0.0 else np.nan


def msll(
    y: Float64[np.ndarray, "t"],
    mean: Float64[np.ndarray, "t"],
    variance: Float64[np.ndarray, "t"],
    train_mean: float,
    train_variance: float,
) -> float:
    """Mean standardised log loss: below 0 for who does better than the training outputs' own mean and variance.

    Parameters
    ----------
    y, mean, variance : ndarray
        ``(t,)`` outputs, and mean and variance of what was predicted of them, noise included.
    train_mean, train_variance : float
        Of the training outputs, in the same units.
    """
    trivial = _loss(y, np.full(len(y), train_mean), np.full(len(y), train_variance))
    return float(np.mean(_loss(y, mean, variance) - trivial))


def coverage(
    y: Float64[np.ndarray, "t"],
    mean: Float64[np.ndarray, "t"],
    variance: Float64[np.ndarray, "t"],
    level: float = 0.95,
) -> float:
    """Share of the outputs that are in the central prediction interval of this level (variance: noise included)."""
    half = ndtri(0.5 + level / 2.0) * np.sqrt(variance)
    return float(np.mean(np.abs(y - mean) <= half))


def _loss(
    y: Float64[np.ndarray, "t"], mean: Float64[np.ndarray, "t"], variance: Float64[np.ndarray, "t"]
) -> Float64[np.ndarray, "t"]:
    """Minus the logarithm of the normal density of each output."""
    loss: Float64[np.ndarray, "t"] = 0.5 * np.log(2.0 * np.pi * variance) + (y - mean) ** 2 / (2.0 * variance)
    return loss
