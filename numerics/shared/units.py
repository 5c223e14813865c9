"""Fits of scikit-learn's trees and linear regressions that are the same in any units of the rows.

Its trees take inputs that differ by less than 1e-7 for equal, and outcomes with a variance below 2e-16 for constant;
its linear regression drops what is a millionth of the largest singular value. Units are powers of two, so that they
round nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64, Shaped

from numerics.shared.candidates import LEAF

_SMALL = 1e-4
"""Standard deviation below which trees get other units."""
_UNLIKE = 1e4
"""Ratio of standard deviations from which on a linear regression gets other units."""


def fit_in_units(model: Any, x: Float64[np.ndarray, "n p"], y: Shaped[np.ndarray, "n"], **weights: Any) -> Any:
    """Fit an estimator, trees and linear regressions in units in which they work, and return it in those of the rows.

    Parameters
    ----------
    model : estimator
        Unfitted; others than trees, their sums and a plain ``LinearRegression`` are fitted as they are.
    x, y : ndarray
        ``(n, p)`` inputs and ``(n,)`` outcomes; whole numbers are places of classes.
    weights : ndarray
        ``sample_weight``, if any.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> x = np.array([[1e-9], [2e-9], [3e-9]])
    >>> fit_in_units(DecisionTreeRegressor(), x, 1e-12 * x[:, 0]).predict(x)
    array([1.e-21, 2.e-21, 3.e-21])
    >>> DecisionTreeRegressor().fit(x, 1e-12 * x[:, 0]).predict(x)
    array([2.e-21, 2.e-21, 2.e-21])
    """
    from sklearn.linear_model import LinearRegression

    spread, y_unit = np.std(x, axis=0), 1.0
    if type(model) is LinearRegression:
        known = spread[spread > 0]
        if not len(known) or known.max() < _UNLIKE * known.min():
            return model.fit(x, y, **weights)
        units = _power_of_two(spread)
        model.fit(x / units, y, **weights)
        model.coef_ = model.coef_ / units
        return model
    if LEAF not in model.get_params(deep=False) or hasattr(model, "max_bins"):  # histograms have no units
        return model.fit(x, y, **weights)
    units = np.where(spread < _SMALL, _power_of_two(spread), 1.0)
    if y.dtype.kind == "f" and np.std(y) < _SMALL:
        y_unit = float(_power_of_two(np.std(y)))
    model.fit(x / units, y / y_unit if y.dtype.kind == "f" else y, **weights)
    for tree in np.ravel(model.estimators_) if hasattr(model, "estimators_") else [model]:
        inner = tree.tree_.feature >= 0
        tree.tree_.threshold[inner] *= units[tree.tree_.feature[inner]]
        tree.tree_.impurity[...] *= y_unit**2
        tree.tree_.value[...] *= y_unit
    if y_unit != 1 and hasattr(model, "init_"):  # the value that boosting starts with
        model.init_.constant_ = model.init_.constant_ * y_unit
    return model


def _power_of_two(spread: Float64[np.ndarray, "*shape"] | np.floating[Any]) -> Float64[np.ndarray, "*shape"]:
    """Return the powers of two next to standard deviations; 1 for 0."""
    return np.where(spread > 0, np.ldexp(1.0, np.frexp(spread)[1]), 1.0)
