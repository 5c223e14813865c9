"""Linear functions of fitted scikit-learn regressors, in the units of x and y, whatever standardises them."""

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
class Scaled:
    """A regressor between affine maps: its prediction of ``(x - x_mean) / x_scale``, times `y_scale`, plus `y_mean`."""

    core: Any
    x_mean: Float64[np.ndarray, "p"] | float = 0.0
    x_scale: Float64[np.ndarray, "p"] | float = 1.0
    y_mean: float = 0.0
    y_scale: float = 1.0

    def predict(self, x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n"]:
        """Return the prediction in the units of x and y."""
        return np.asarray(self.core.predict((x - self.x_mean) / self.x_scale) * self.y_scale + self.y_mean, np.float64)

    @property
    def plain_inputs(self) -> bool:
        """Whether the regressor sees the rows as they are."""
        return np.ndim(self.x_mean) == 0 and np.ndim(self.x_scale) == 0


def unwrapped(model: Any) -> Scaled:
    """Return the regressor inside standardising wrappers; the model itself where a wrapper does anything else."""
    if type(model) is TransformedTargetRegressor and type(model.transformer_) is StandardScaler:
        inner = unwrapped(model.regressor_)
        mean, scale = (float(np.ravel(each)[0]) for each in _moments(model.transformer_))
        return replace(inner, y_mean=inner.y_mean * scale + mean, y_scale=inner.y_scale * scale)
    if type(model) is Pipeline:
        *before, (_, last) = model.steps
        scalers = [step for _, step in before if step is not None and step != "passthrough"]
        inner = unwrapped(last)
        if not scalers:
            return inner
        if len(scalers) == 1 and type(scalers[0]) is StandardScaler and inner.plain_inputs:
            mean, scale = _moments(scalers[0])
            return replace(inner, x_mean=mean, x_scale=scale)
    return Scaled(model)


def n_inputs_of(model: Any) -> int | None:
    """Return the number of inputs that a fitted model takes; None if the model does not hold it."""
    if type(model) is TransformedTargetRegressor:
        return n_inputs_of(getattr(model, "regressor_", None))
    if type(model) is Pipeline:
        return next((n for _, step in model.steps if (n := n_inputs_of(step)) is not None), None)
    return getattr(model, "n_features_in_", None)


def _moments(scaler: StandardScaler) -> tuple[Any, Any]:
    mean = scaler.mean_ if scaler.with_mean else 0.0
    return mean, 1.0 if scaler.scale_ is None else scaler.scale_


def coefficients(scaled: Scaled, n_inputs: int) -> tuple[Float64[np.ndarray, "p"], float] | None:
    """Return coefficients and intercept in the units of x and y; None if it is no linear model of one outcome."""
    core = scaled.core
    if type(core) not in _LINEAR or np.size(core.coef_) != n_inputs or np.size(core.intercept_) != 1:
        return None
    with np.errstate(all="ignore"):
        coef = np.ravel(core.coef_) / scaled.x_scale
        intercept = float(np.ravel(core.intercept_)[0]) - float(np.sum(coef * scaled.x_mean))
        return coef * scaled.y_scale, intercept * scaled.y_scale + scaled.y_mean


def as_linear(model: BaseEstimator) -> LinearRegression | None:
    """Return the same linear function as a plain ``LinearRegression``; None if the model is not linear.

    The result holds coefficients, intercept and number of inputs, and nothing else: no means or deviations of the rows
    it was fitted on, no path of tuning. Its predictions are the model's to rounding.
    """
    n_inputs = n_inputs_of(model)
    found = None if n_inputs is None else coefficients(unwrapped(model), n_inputs)
    if found is None:
        return None
    plain = LinearRegression()
    plain.coef_, plain.intercept_ = found
    plain.n_features_in_ = n_inputs
    return plain
