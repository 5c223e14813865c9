"""Coefficients of fitted linear scikit-learn regressors in the units of x and y, also within standardizing wrappers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float64
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import (
    ElasticNet,
    ElasticNetCV,
    Lars,
    LarsCV,
    Lasso,
    LassoCV,
    LassoLars,
    LinearRegression,
    Ridge,
    RidgeCV,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

_LINEAR = {
    ElasticNet,
    ElasticNetCV,
    Lars,
    LarsCV,
    Lasso,
    LassoCV,
    LassoLars,
    LinearRegression,
    Ridge,
    RidgeCV,
}


@dataclass(frozen=True)
class ScaledRegressor:
    """A regressor between affine maps: it predicts ``core((x - x_mean) / x_scale) * y_scale + y_mean``.

    Examples
    --------
    >>> core = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
    >>> ScaledRegressor(core, x_mean=10.0, y_scale=5.0).predict(np.array([[12.0]]))
    array([10.])
    """

    core: Any
    x_mean: Float64[np.ndarray, "p"] | float = 0.0
    x_scale: Float64[np.ndarray, "p"] | float = 1.0
    y_mean: float = 0.0
    y_scale: float = 1.0

    def predict(self, x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n"]:
        """Predict rows, in the units of x and y."""
        return np.asarray(self.core.predict((x - self.x_mean) / self.x_scale) * self.y_scale + self.y_mean, np.float64)

    @property
    def plain_inputs(self) -> bool:
        """Whether the regressor gets the rows unchanged."""
        return np.ndim(self.x_mean) == 0 and np.ndim(self.x_scale) == 0


def unwrap(model: Any) -> ScaledRegressor:
    """Return the regressor inside standardizing wrappers; the model itself if a wrapper does anything else.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> model = make_pipeline(StandardScaler(), LinearRegression()).fit([[1.0], [3.0]], [0.0, 4.0])
    >>> unwrap(model).core, unwrap(model).x_mean
    (LinearRegression(), array([2.]))
    """
    if type(model) is TransformedTargetRegressor and type(model.transformer_) is StandardScaler:
        inner = unwrap(model.regressor_)
        mean, scale = (float(np.ravel(each)[0]) for each in _moments(model.transformer_))
        return replace(inner, y_mean=inner.y_mean * scale + mean, y_scale=inner.y_scale * scale)
    if type(model) is Pipeline:
        *before, (_, last) = model.steps
        scalers = [step for _, step in before if step is not None and step != "passthrough"]
        inner = unwrap(last)
        if not scalers:
            return inner
        if len(scalers) == 1 and type(scalers[0]) is StandardScaler and inner.plain_inputs:
            mean, scale = _moments(scalers[0])
            return replace(inner, x_mean=mean, x_scale=scale)
    return ScaledRegressor(model)


def n_inputs_of(model: Any) -> int | None:
    """Return the number of inputs of a fitted model; None if it is unknown.

    Examples
    --------
    >>> n_inputs_of(LinearRegression().fit([[1.0, 2.0], [3.0, 4.0]], [0.0, 1.0])), n_inputs_of(LinearRegression())
    (2, None)
    """
    if type(model) is TransformedTargetRegressor:
        return n_inputs_of(getattr(model, "regressor_", None))
    if type(model) is Pipeline:
        return next((n for _, step in model.steps if (n := n_inputs_of(step)) is not None), None)
    return getattr(model, "n_features_in_", None)


def _moments(scaler: StandardScaler) -> tuple[Any, Any]:
    mean = scaler.mean_ if scaler.with_mean else 0.0
    return mean, 1.0 if scaler.scale_ is None else scaler.scale_


def coefficients(scaled: ScaledRegressor, n_inputs: int) -> tuple[Float64[np.ndarray, "p"], float] | None:
    """Return coefficients and intercept in the units of x and y; None if the model is not linear with one outcome.

    Examples
    --------
    >>> model = LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0])
    >>> slopes, intercept = coefficients(unwrap(model), n_inputs=1)
    >>> slopes.round(6), round(intercept, 6)
    (array([2.]), 1.0)
    """
    core = scaled.core
    if type(core) not in _LINEAR or np.size(core.coef_) != n_inputs or np.size(core.intercept_) != 1:
        return None
    with np.errstate(all="ignore"):
        coef = np.ravel(core.coef_) / scaled.x_scale
        intercept = float(np.ravel(core.intercept_)[0]) - float(np.sum(coef * scaled.x_mean))
        return coef * scaled.y_scale, intercept * scaled.y_scale + scaled.y_mean


def as_linear(model: BaseEstimator) -> LinearRegression | None:
    """Return the same linear function as a plain ``LinearRegression``; None if the model is not linear.

    The result contains coefficients, intercept and number of inputs only: no moments of the training rows, and no path
    of tuning. Its predictions equal those of the model up to rounding.

    Examples
    --------
    >>> as_linear(Lasso(alpha=1e-3).fit([[0.0], [1.0], [2.0]], [0.0, 2.0, 4.0]))
    LinearRegression()
    """
    n_inputs = n_inputs_of(model)
    line = None if n_inputs is None else coefficients(unwrap(model), n_inputs)
    if line is None:
        return None
    plain = LinearRegression()
    plain.coef_, plain.intercept_ = line
    plain.n_features_in_ = n_inputs
    return plain
