"""Models of trees with rounded leaves, so that their leaves together do not count the rows of a few.

A leaf holds a mean over five rows or more. But the leaves of boosted trees overlap in any way, and each is a linear
equation in the numbers of rows, and their sums of outcomes, between all thresholds: the leaves of a hundred trees tell
of single rows where they lie and what their outcomes are (`consilience attack sec`, ``leaves``). Equations that hold to
a fiftieth of the outcome's range do not. The value that boosting starts with stays: it is the mean of all rows, or of
nine in ten of 10,000 or more (`hgb`), and a run cannot set another share (`numerics.shared.candidates`).
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from jaxtyping import Float64

SHARE = 0.02
"""Step to which the mean in a leaf is rounded, as a share of the outcome's range."""
_LOG_ODDS = 10.0
"""Range of the log odds of a class, between .7 % and 99.3 %."""


def with_coarse_leaves(model: Any, y: Float64[np.ndarray, "n"], n_classes: int = 0) -> Any:
    """Return a copy of a model whose leaves are rounded to multiples of `SHARE` of a range; another model as it is.

    The range is that of the outcomes; of the log odds of classes, which are boosted, 10; of shares of classes 1.

    Parameters
    ----------
    model : estimator
        Fitted regressor or classifier.
    y : ndarray
        ``(n,)`` outcomes that it was fitted to.
    n_classes : int
        Number of classes; 0: outcomes are amounts.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> x, y = np.arange(4.0)[:, np.newaxis], np.array([0.0, 1.0, 98.0, 100.0])
    >>> tree = DecisionTreeRegressor(max_depth=1).fit(x, y)
    >>> with_coarse_leaves(tree, y).predict(x), tree.predict(x)
    (array([ 0.,  0., 100., 100.]), array([ 0.5,  0.5, 99. , 99. ]))
    """
    boosted = hasattr(model, "_predictors") or (hasattr(model, "estimators_") and hasattr(model, "learning_rate"))
    if not (boosted or hasattr(model, "estimators_") or hasattr(model, "tree_")):
        return model
    span = (_LOG_ODDS if boosted else 1.0) if n_classes else float(np.ptp(y))
    step, coarse = SHARE * span, copy.deepcopy(model)
    if hasattr(coarse, "_predictors"):  # values of these leaves have the learning rate in them
        for tree in (tree for trees in coarse._predictors for tree in trees):
            tree.nodes["value"] = _rounded(tree.nodes["value"], step * model.learning_rate)
        return coarse
    trees = np.ravel(coarse.estimators_) if hasattr(coarse, "estimators_") else [coarse]
    for values in (tree.tree_.value for tree in trees):
        values[...] = _rounded(values, step)
        if n_classes and not boosted:  # shares of classes
            values /= values.sum(axis=2, keepdims=True)
    return coarse


def _rounded(values: Float64[np.ndarray, "*shape"], step: float) -> Float64[np.ndarray, "*shape"]:
    return np.rint(values / step) * step if step > 0 else values
