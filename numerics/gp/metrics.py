"""Scores of predictions with a variance, at points whose outputs are known."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from scipy.special import ndtri

from numerics.gp.calibration import Calibration


def smse(y: Float64[np.ndarray, "t"], mean: Float64[np.ndarray, "t"]) -> float:
    """Compute the standardized mean squared error: 1 for the mean of the test outputs; NaN if these are all equal.

    Examples
    --------
    >>> y = np.array([0.0, 2.0, 4.0])
    >>> smse(y, y), smse(y, np.full(3, 2.0))
    (0.0, 1.0)
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
    """Compute the mean standardized log loss: below 0 if better than the mean and variance of the training outputs.

    Parameters
    ----------
    y, mean, variance : ndarray
        ``(t,)`` outputs, and means and variances of their predictions, noise included.
    train_mean, train_variance : float
        Mean and variance of the training outputs, in the same units.

    Examples
    --------
    >>> y = np.array([0.0, 2.0])
    >>> msll(y, np.ones(2), np.ones(2), train_mean=1.0, train_variance=1.0)
    0.0
    >>> round(msll(y, y, np.full(2, 0.25), train_mean=1.0, train_variance=1.0), 3)
    -1.193
    """
    trivial = _loss(y, np.full(len(y), train_mean), np.full(len(y), train_variance))
    return float(np.mean(_loss(y, mean, variance) - trivial))


def coverage(
    y: Float64[np.ndarray, "t"],
    mean: Float64[np.ndarray, "t"],
    variance: Float64[np.ndarray, "t"],
    level: float = 0.95,
    calibration: Calibration | None = None,
) -> float:
    """Compute the share of the outputs within the central prediction interval of a level; the variance includes noise.

    Without a calibration, errors are taken to be normal.

    Examples
    --------
    >>> coverage(np.array([0.0, 1.9, 2.1]), np.zeros(3), np.ones(3)) == 2 / 3
    True
    """
    half = (ndtri(0.5 + level / 2.0) if calibration is None else calibration.reach(level)) * np.sqrt(variance)
    return float(np.mean(np.abs(y - mean) <= half))


def _loss(
    y: Float64[np.ndarray, "t"], mean: Float64[np.ndarray, "t"], variance: Float64[np.ndarray, "t"]
) -> Float64[np.ndarray, "t"]:
    """Compute minus the logarithm of the normal density of each output."""
    loss: Float64[np.ndarray, "t"] = 0.5 * np.log(2.0 * np.pi * variance) + (y - mean) ** 2 / (2.0 * variance)
    return loss
