"""Weighted mixtures of predictions (Ye, Ding and Ghanadan 2022, eq. 5), and errors of predictions."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64


def mix(
    weights: Float64[np.ndarray, "mixtures models"], predictions: Float64[np.ndarray, "models t"]
) -> Float64[np.ndarray, "mixtures t"]:
    """Compute ``sum_i weights_i f_i(x)`` for every mixture and row.

    A prediction that is not finite makes a mixture infinite only if its weight is not 0: 0 times infinity is 0 here.

    Examples
    --------
    >>> mix(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([[1.0, 2.0], [3.0, np.inf]]))
    array([[ 2., inf],
           [ 1.,  2.]])
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
    """Compute ``own f(x) + sum_i weights_i f_i(x) + [1 x] coefficients`` for every mixture and row.

    Parameters
    ----------
    own, own_predictions : ndarray
        ``(mixtures,)`` weights of the learner's own model, and its ``(t,)`` predictions.
    weights, predictions : ndarray
        ``(mixtures, models)`` weights of the other models, and their ``(models, t)`` predictions; `predictions` is not
        used if `weights` has no columns.
    coefficients : ndarray
        ``(mixtures, q)`` linear coefficients, intercept first; without columns, there is no linear part.
    x : ndarray
        ``(t, p)`` rows.

    Returns
    -------
    ndarray
        ``(mixtures, t)``.

    Examples
    --------
    >>> x, none = np.array([[1.0], [2.0]]), np.zeros((1, 0))
    >>> combine(np.array([0.5]), np.array([10.0, 20.0]), none, np.zeros((0, 2)), np.array([[1.0, 3.0]]), x)
    array([[ 9., 17.]])
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
    """Compute the mean squared error of every model; infinite if a prediction, or the mean, is not finite.

    Raises
    ------
    ValueError
        If there are no rows.

    Examples
    --------
    >>> mean_squared_errors(np.array([[1.0, 3.0], [np.nan, 0.0]]), np.array([1.0, 1.0]))
    array([ 2., inf])
    """
    if len(y) == 0:
        raise ValueError("there is no row to measure an error on")
    with np.errstate(all="ignore"):
        errors = predictions - y
        means = np.einsum("mn,mn->m", errors, errors) / len(y)
    return np.where(np.isfinite(means), means, np.inf)


_EXACT = 1e-10
"""Share of the largest error of the learners that counts as no error."""
_LEAST_SHARE = 0.25
"""Share of the learners' median error below which an error counts as this share."""


def precision_weights(
    n: Float64[np.ndarray, "L"], errors: Float64[np.ndarray, "L"], losses: Float64[np.ndarray, "L L"]
) -> Float64[np.ndarray, "L"]:
    """Return weights of models in a mixture: rows over the error of each learner's model.

    An exact model is not infinitely better: where an outcome is constant, or a learner lies, an error of 0 says nothing
    about other rows. So an error counts as a quarter of the median at least; and as what the model loses more than
    another learner's own model on its rows, where this is least.

    Parameters
    ----------
    n : ndarray
        ``(L,)`` numbers of rows.
    errors : ndarray
        ``(L,)`` errors ``e_i``, finite.
    losses : ndarray
        ``(L, L)`` losses ``e_{i -> j}`` of model i on the rows of j; NaN where unknown.

    Examples
    --------
    The third learner's outcome is constant, and its model no good elsewhere:

    >>> losses = np.array([[1.0, 1.0, 9.0], [2.0, 2.0, 9.0], [6.0, 7.0, 0.0]])
    >>> precision_weights(np.full(3, 10.0), np.array([1.0, 2.0, 0.0]), losses) / 10
    array([5. , 2.5, 1. ])
    """
    excess = np.where(np.isfinite(losses), losses - errors, np.nan)
    np.fill_diagonal(excess, np.nan)
    least = np.fmin.reduce(excess, axis=1, initial=np.nan)
    counted = np.fmax(np.maximum(errors, _LEAST_SHARE * np.median(errors)), least) if len(n) else errors
    largest = counted.max(initial=0.0)
    return np.asarray(n / np.maximum(counted / largest, _EXACT) if largest > 0 else n)
