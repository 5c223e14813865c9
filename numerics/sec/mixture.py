"""Mixing predictions by weight (Ye, Ding and Ghanadan 2022, eq. 5), and how far predictions are off."""

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


def combine(
    own: Float64[np.ndarray, "mixtures"],
    own_predictions: Float64[np.ndarray, "t"],
    weights: Float64[np.ndarray, "mixtures models"],
    predictions: Float64[np.ndarray, "models t"],
    coefficients: Float64[np.ndarray, "mixtures q"],
    x: Float64[np.ndarray, "t p"],
) -> Float64[np.ndarray, "mixtures t"]:
    """``own f(x) + sum_i weights_i f_i(x) + [1 x] coefficients`` for every mixture and row.

    Parameters
    ----------
    own, own_predictions : ndarray
        Weight of one's own model, and what it says of the rows.
    weights, predictions : ndarray
        Of the others'; `predictions` is not looked at where `weights` has no columns.
    coefficients : ndarray
        Intercept first; no columns: none.
    x : ndarray
        The rows.
    """
    total = mix(own[:, np.newaxis], own_predictions[np.newaxis])
    if weights.shape[1]:
        total += mix(weights, predictions)
    if coefficients.shape[1]:
        total += coefficients[:, :1] + coefficients[:, 1:] @ x.T
    return total


def mean_squared_errors(
    predictions: Float64[np.ndarray, "models n"], y: Float64[np.ndarray, "n"]
) -> Float64[np.ndarray, "models"]:
    """Mean squared error of every model; infinite where a prediction, or the mean, is not finite.

    Raises
    ------
    ValueError
        If there are no rows.
    """
    if len(y) == 0:
        raise ValueError("there is no row to measure an error on")
    with np.errstate(all="ignore"):
        errors = predictions - y
        means = np.einsum("mn,mn->m", errors, errors) / len(y)
    return np.where(np.isfinite(means), means, np.inf)
