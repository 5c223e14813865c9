"""Fits of methods that predict classes, and the probabilities that they predict."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Int64

from numerics.shared.candidates import LEAF, Candidate, new_estimator
from numerics.shared.classes import align_probabilities
from numerics.shared.regressors import quiet_fit, set_common_parameters
from numerics.shared.units import fit_in_units
from numerics.shared.value_groups import ValueGroups

if TYPE_CHECKING:  # as in numerics.shared.regressors
    from sklearn.base import BaseEstimator


def fit_classes(
    candidate: Candidate,
    x: Float64[np.ndarray, "n p"],
    y: Float64[np.ndarray, "n"],
    *,
    standardize: str,
    min_leaf: int,
    seed: int,
    group: int = 1,
    weight: str = "none",
) -> BaseEstimator:
    """Fit a candidate to classes.

    As `numerics.shared.regressors.fit`: one thread, scalers where the method depends on units and `standardize` is
    ``model``; where it is ``none``, for networks and logistic regressions only: in large units these have hardly a
    penalty, and tell of the few rows at the margin. A scaled logistic regression is returned as a plain one in the
    units of the rows. Rows of one class give a model with this class alone.

    Parameters
    ----------
    candidate : Candidate
        One that predicts classes.
    x, y : ndarray
        ``(n, p)`` inputs and ``(n,)`` places of the classes; finite, one row at least.
    standardize, min_leaf, seed, group
        As in `numerics.shared.regressors.fit`.
    weight : {"none", "balanced"}
        Weights of the rows: all 1, or with the same total for each class, if the method takes weights.

    Raises
    ------
    Exception
        Any exception of a method that cannot be fitted to these rows.

    Examples
    --------
    >>> from numerics.shared.candidates import parse_candidates
    >>> x = np.arange(8.0)[:, np.newaxis]
    >>> [candidate] = parse_candidates("tree", classes=True)
    >>> model = fit_classes(candidate, x, (x[:, 0] > 3) * 1.0, standardize="none", min_leaf=1, seed=0)
    >>> model.predict_proba(np.array([[0.0], [7.0]]))
    array([[1., 0.],
           [0., 1.]])
    """
    from sklearn.dummy import DummyClassifier
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils.class_weight import compute_sample_weight

    places = np.asarray(y, np.int64)
    if np.ptp(places) == 0:
        return DummyClassifier(strategy="prior").fit(x, places)
    estimator = new_estimator(candidate.method, classes=True).set_params(**dict(candidate.settings))
    parameters = set_common_parameters(estimator, seed=seed, min_leaf=min_leaf)
    if "n_neighbors" in parameters:
        estimator.set_params(n_neighbors=min(parameters["n_neighbors"], len(y)))
    if candidate.method == "rf" and len(y) < 2 * min_leaf:
        estimator.set_params(bootstrap=False)  # as in numerics.shared.regressors.fit
    weights: dict[str, Any] = {}
    if weight == "balanced" and candidate.method not in ("knn", "nn"):
        weights["sample_weight"] = compute_sample_weight("balanced", places)
    if group > 1 and LEAF in parameters:
        x = ValueGroups.of(x, group).apply(x)
    scaled = standardize == "model" or (standardize == "none" and candidate.method in ("lr", "nn"))
    scaler = StandardScaler() if scaled and LEAF not in parameters else None
    with quiet_fit():
        fit_in_units(estimator, x if scaler is None else scaler.fit_transform(x), places, **weights)
    if scaler is None:
        return estimator
    if candidate.method == "lr":
        coef = estimator.coef_ / scaler.scale_
        estimator.intercept_ = estimator.intercept_ - coef @ scaler.mean_
        estimator.coef_ = coef
        return estimator
    return Pipeline([("scale", scaler), ("method", estimator)])


def class_probabilities(
    model: Any, x: Float64[np.ndarray, "n p"], places: Int64[np.ndarray, "own"], n_classes: int, n_rows: float
) -> Float64[np.ndarray, "n k"]:
    """Predict the probabilities of all classes of a run by a model that knows some of them.

    Parameters
    ----------
    model : estimator
        Fitted to classes that are numbers.
    x : ndarray
        ``(n, p)`` finite rows; n may be 0.
    places : ndarray
        Place of each of the model's numbers in the class list.
    n_classes : int
        Length k of the class list.
    n_rows : float
        Rows that the model was fitted to. Classes that it lacks get a small probability
        (`numerics.shared.classes.align_probabilities`).

    Returns
    -------
    ndarray
        ``(n, k)``; NaN in rows for which the model's prediction is not finite, and in all if it raises any error.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> model = DummyClassifier(strategy="prior").fit(np.zeros((4, 1)), [0, 0, 0, 1])
    >>> class_probabilities(model, np.zeros((1, 1)), np.array([2, 0]), 3, n_rows=np.inf)
    array([[0.25, 0.  , 0.75]])
    """
    if not len(x):
        return np.zeros((0, n_classes))
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predicted = np.asarray(model.predict_proba(x), np.float64)
        own = places[np.asarray(model.classes_, np.int64)]
        if predicted.shape != (len(x), len(own)):
            raise ValueError("not one probability for every class")
    except Exception:  # models from other sites may raise anything
        return np.full((len(x), n_classes), np.nan)
    bad = ~np.isfinite(predicted).all(axis=1) | (predicted < 0).any(axis=1)
    predicted[bad] = np.nan
    with np.errstate(all="ignore"):
        predicted /= predicted.sum(axis=1, keepdims=True)
    return align_probabilities(predicted, own, n_classes, n_rows)


def probabilities_of(
    models: Sequence[Any],
    x: Float64[np.ndarray, "n p"],
    places: Sequence[Int64[np.ndarray, "_"]],
    n_classes: int,
    n_rows: Sequence[float],
) -> Float64[np.ndarray, "models n k"]:
    """Predict as `class_probabilities` by several models."""
    each = [class_probabilities(m, x, at, n_classes, n) for m, at, n in zip(models, places, n_rows, strict=True)]
    return np.stack(each) if each else np.zeros((0, len(x), n_classes))
