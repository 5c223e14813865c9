"""Predictions of a learner's own rows by models that were not fitted to them, and the variance of its model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

from numerics.sec.losses import Loss, right_probabilities
from numerics.shared.folds import Persons, Split, draw_folds, of_rows

Fit = Callable[[Float64[np.ndarray, "n p"], Float64[np.ndarray, "n"], Persons], BaseEstimator]
"""Fits a method to rows; their persons matter if the method itself splits the rows."""
FOLDS = 5
"""Parts of the rows for the choice of a method; each part is left out once."""
_FOLDS_OF_FEW, _FEW = 10, 1000
"""Parts for measuring the chosen method if there are no more rows than this. Fits to four fifths of 50 rows of 20
inputs had half as large an error again as the model of all rows (docs/sec-evidence.md), so that clusters looked too
good."""
_SQUARED = Loss()
_LEVERAGE = 1 - 1e-6
"""A row of this leverage determines its own prediction; without it there is none."""


@dataclass(frozen=True)
class LeftOut:
    """Predictions, error and variance of a model for rows that it was not fitted to.

    Attributes
    ----------
    predictions : ndarray
        ``(n,)`` of the learner's own rows, each by a model that was fitted without it (`numerics.sec.losses.Loss`).
    error : float
        Mean loss of these predictions.
    variance : float
        Mean distance of the model from the expected model of as many rows, in units of the loss.
    probabilities : ndarray
        ``(n, k)`` of all classes, each row's by the same model as its prediction; empty for amounts.
    """

    predictions: Float64[np.ndarray, "n"]
    error: float
    variance: float
    probabilities: Float64[np.ndarray, "n k"] = field(default_factory=lambda: np.zeros((0, 0)))


def predict_splits(
    fit: Fit,
    x: Float64[np.ndarray, "n p"],
    y: Float64[np.ndarray, "n"],
    splits: Sequence[Split],
    loss: Loss = _SQUARED,
    person: Persons = None,
) -> Float64[np.ndarray, "n"]:
    """Predict the second rows of every split by a model fitted to the first; NaN for rows in no second part."""
    predictions = np.full(len(y), np.nan)
    for fitted, left_out in splits:
        model = fit(x[fitted], y[fitted], of_rows(person, fitted))
        predictions[left_out] = loss.predict(model, x[left_out], y[left_out], len(fitted))
    return predictions


def leave_out(
    model: BaseEstimator,
    fit: Fit,
    x: Float64[np.ndarray, "n p"],
    y: Float64[np.ndarray, "n"],
    *,
    linear: bool,
    rng: np.random.Generator,
    loss: Loss = _SQUARED,
    person: Persons = None,
) -> LeftOut:
    """Predict every row by a model that was fitted without it.

    A linear regression leaves out one row at a time, which its hat matrix does without another fit. A forest's trees
    predict the rows that they did not draw. Any other method is fitted ten times, each time without a tenth of the
    rows; with more than 1000 rows, five times. The variance of a linear regression is ``s^2 (p + 1) / n``. That of a
    forest is a quarter of the mean squared distance between the models of two halves of the rows, as if variance were
    inverse to the number of rows. That of any other method comes from the models of the parts (`_jackknife`).

    Parameters
    ----------
    model : estimator
        Fitted to all rows.
    fit : callable
        Fits the same method to other rows.
    x, y : ndarray
        ``(n, p)`` and ``(n,)``, at least two rows.
    linear : bool
        Whether the method is linear regression by least squares.
    rng : Generator
        Draws the parts.
    loss : Loss
        By default squared errors. For classes, every method is fitted to the parts.
    person : ndarray or None
        ``(n,)`` persons of the rows, which are left out as a whole: every method is fitted to the parts.

    Examples
    --------
    >>> x, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 5.0])
    >>> def fit(x, y, person=None):
    ...     return LinearRegression().fit(x, y)
    >>> leave_out(fit(x, y), fit, x, y, linear=True, rng=np.random.default_rng(0)).predictions.round(6)
    array([-3. ,  2.5,  2. ])
    """
    n, q = len(y), x.shape[1] + 1
    predictions, probabilities = None, np.zeros((n if loss.n_classes else 0, loss.n_classes))
    if not loss.n_classes and person is None:
        predictions = _by_leverage(model, x, y) if linear else _out_of_bag(model, x)
    if predictions is None:
        splits = draw_folds(n, rng, _FOLDS_OF_FEW if n <= _FEW else FOLDS, person)
        models = [fit(x[fitted], y[fitted], of_rows(person, fitted)) for fitted, _ in splits]
        predictions = np.empty(n)
        for each, (fitted, left_out) in zip(models, splits, strict=True):
            if loss.n_classes:
                probabilities[left_out] = loss.probabilities(each, x[left_out], len(fitted))
            else:
                predictions[left_out] = loss.predict(each, x[left_out], y[left_out], len(fitted))
        if loss.n_classes:
            predictions = right_probabilities(probabilities[np.newaxis], y)[0]
        variance = _jackknife(models, x, loss, len(splits[0][0]))
    elif linear and n > q:
        variance = float(np.mean((y - model.predict(x)) ** 2)) * q / (n - q)
    else:
        first, second = np.array_split(rng.permutation(n), 2)
        halves = [fit(x[half], y[half], None) for half in (first, second)]
        variance = float(loss.distances(halves, x, len(first))[0, 1]) / 4
    return LeftOut(predictions, float(loss.means(predictions[np.newaxis], y)[0]), variance, probabilities)


def _jackknife(models: Sequence[BaseEstimator], x: Float64[np.ndarray, "n p"], loss: Loss, n_rows: int) -> float:
    """Return the variance of a model from models that each lack another part of its rows.

    It is ``(k - 1) / k`` times the sum of the k squared distances from their mean (the grouped jackknife; Quenouille
    1956), which is the sum over all pairs of the squared distance, divided by k.
    """
    k = len(models)
    return (k - 1) / k**2 * float(loss.distances(models, x, n_rows).sum()) / 2


def _by_leverage(
    model: LinearRegression, x: Float64[np.ndarray, "n p"], y: Float64[np.ndarray, "n"]
) -> Float64[np.ndarray, "n"] | None:
    """Return leave-one-out predictions of a linear regression; None if it depends on a single row."""
    centered = x - x.mean(axis=0)
    vectors, sizes, _ = np.linalg.svd(centered, full_matrices=False)
    nonzero = sizes > sizes.max(initial=0.0) * max(x.shape) * np.finfo(np.float64).eps
    leverage = 1 / len(y) + np.square(vectors[:, nonzero]).sum(axis=1)
    if (leverage > _LEVERAGE).any():
        return None
    fitted = np.asarray(model.predict(x))
    return np.asarray(y - (y - fitted) / (1 - leverage))


def _out_of_bag(model: BaseEstimator, x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n"] | None:
    """Return the mean prediction of trees that did not draw a row; None if all drew some row, or it is no forest."""
    if type(model) is not RandomForestRegressor or not model.bootstrap:
        return None
    sums, counts = np.zeros(len(x)), np.zeros(len(x))
    for tree, sample in zip(model.estimators_, model.estimators_samples_, strict=True):
        rows = np.setdiff1d(np.arange(len(x)), sample)
        if len(rows):
            sums[rows] += tree.predict(x[rows])
            counts[rows] += 1
    return None if (counts == 0).any() else np.asarray(sums / counts)
