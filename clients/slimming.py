"""A fitted model without what only its fitting needed: fewer bytes, and less about the rows it was fitted on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor, RandomForestRegressor
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
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor
from sklearn.tree._tree import Tree

_KEPT: Mapping[type, tuple[str, ...]] = {
    RandomForestRegressor: ("n_outputs_", "estimators_"),
    DecisionTreeRegressor: ("n_outputs_", "tree_"),
    GradientBoostingRegressor: ("n_trees_per_iteration_", "init_", "estimators_", "_loss"),
    HistGradientBoostingRegressor: (
        "n_trees_per_iteration_",
        "is_categorical_",
        "_preprocessor",
        "_loss",
        "_bin_mapper",
        "_baseline_prediction",
        "_predictors",
    ),
    KNeighborsRegressor: (
        "_fit_X",
        "_y",
        "_fit_method",
        "_tree",
        "n_samples_fit_",
        "effective_metric_",
        "effective_metric_params_",
    ),
    SVR: (
        "support_",
        "support_vectors_",
        "dual_coef_",
        "intercept_",
        "fit_status_",
        "shape_fit_",
        "_n_support",
        "_dual_coef_",
        "_intercept_",
        "_probA",
        "_probB",
        "_gamma",
        "_sparse",
    ),
    MLPRegressor: ("n_outputs_", "n_layers_", "out_activation_", "coefs_", "intercepts_"),
    DummyRegressor: ("n_outputs_", "constant_"),
    StandardScaler: ("mean_", "scale_"),
    TransformedTargetRegressor: ("_training_dim", "regressor_", "transformer_"),
}
"""What prediction needs of a fitted estimator, beside the number of inputs: nothing else is kept."""

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


def slim(model: BaseEstimator) -> BaseEstimator:
    """The fitted model with everything removed that its predictions do not need; they stay the same bit for bit.

    A linear model, tuned or not, becomes a ``LinearRegression`` of the same coefficients. Trees lose the numbers of
    rows in their nodes and how those scattered; boosting its training losses and bin edges (values of the rows);
    networks their optimizer; support vectors their row numbers; all of them names of inputs and random states.

    Raises
    ------
    TypeError
        If the model is of no type that a learner may send.
    """
    kind = type(model)
    if kind is Pipeline:
        return Pipeline([(name, slim(step)) for name, step in model.steps])
    if kind in _LINEAR:
        plain = LinearRegression()
        plain.coef_, plain.intercept_, plain.n_features_in_ = model.coef_, model.intercept_, model.n_features_in_
        return plain
    if kind not in _KEPT:
        raise TypeError(f"a {kind.__name__} is not a model that a learner may send")
    parameters = model.get_params(deep=False)
    parameters |= dict.fromkeys(_FORGOTTEN & parameters.keys())
    bare = kind(**parameters)
    kept = {name: value for name, value in vars(model).items() if name in _KEPT[kind]}
    if kind in _CUT:
        kept |= _CUT[kind](model)
    if "n_features_in_" in vars(model):
        kept["n_features_in_"] = int(model.n_features_in_)
    vars(bare).update(kept)
    return bare


_FORGOTTEN = {"random_state", "regressor", "transformer"}
"""Parameters that a fitted model does not look at."""


def _bare_tree(tree: Tree) -> Tree:
    """The same splits and values without impurities and numbers of rows."""
    state = tree.__getstate__()
    nodes = state["nodes"].copy()
    for counted in ("impurity", "n_node_samples", "weighted_n_node_samples"):
        nodes[counted] = 0
    bare = Tree(tree.n_features, np.ones(1, np.intp), tree.n_outputs)
    bare.__setstate__(state | {"nodes": nodes})
    return bare


def _bare_stages(model: GradientBoostingRegressor) -> dict[str, Any]:
    stages = np.empty_like(model.estimators_)
    stages.reshape(-1)[:] = [slim(each) for each in model.estimators_.reshape(-1)]
    return {"estimators_": stages, "init_": model.init_ if isinstance(model.init_, str) else slim(model.init_)}


def _bare_histograms(model: HistGradientBoostingRegressor) -> dict[str, Any]:
    bins = _copied(model._bin_mapper)
    vars(bins).pop("n_bins_non_missing_", None)
    bins.bin_thresholds_ = []  # asked for, but only looked into for categories
    bins.random_state = None
    stages = [[_copied(tree) for tree in stage] for stage in model._predictors]
    for stage in stages:
        for tree in stage:
            tree.nodes = tree.nodes.copy()
            for counted in ("count", "gain", "bin_threshold"):
                tree.nodes[counted] = 0
    return {"_bin_mapper": bins, "_predictors": stages}


def _copied(thing: Any) -> Any:
    copy = object.__new__(type(thing))
    vars(copy).update(vars(thing))
    return copy


_CUT: Mapping[type, Callable[[Any], dict[str, Any]]] = {
    RandomForestRegressor: lambda model: {"estimators_": [slim(each) for each in model.estimators_]},
    DecisionTreeRegressor: lambda model: {"tree_": _bare_tree(model.tree_)},
    GradientBoostingRegressor: _bare_stages,
    HistGradientBoostingRegressor: _bare_histograms,
    # libsvm asks for row numbers but never looks at them; the shape's first entry only matters to precomputed kernels.
    SVR: lambda model: {
        "support_": np.zeros_like(model.support_),
        "shape_fit_": (len(model.support_), model.shape_fit_[1]),
    },
    MLPRegressor: lambda model: {
        name: [np.array(each) for each in getattr(model, name)] for name in ("coefs_", "intercepts_")
    },
    TransformedTargetRegressor: lambda model: {
        "regressor_": slim(model.regressor_),
        "transformer_": slim(model.transformer_),
    },
}
"""How what is kept is cut down further."""
