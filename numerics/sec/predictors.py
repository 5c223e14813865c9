"""Predictions of many fitted scikit-learn regressors on the same rows: linear models at once, and trees at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

from numerics.sec.cache import Cache
from numerics.sec.trees import Nodes, Trees, nodes_of, worth_it
from numerics.shared.linear_models import ScaledRegressor, coefficients, n_inputs_of, unwrap

_FORESTS = {ExtraTreesRegressor, RandomForestRegressor}
_SINGLE_TREES = {DecisionTreeRegressor, ExtraTreeRegressor}
_NODES_AT_ONCE = 1 << 15
"""Number of nodes that are evaluated together, whose tables fit into the cache."""


# -- ensembles of trees -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Forest:
    """A model whose prediction is `offset` plus `weight` times the sum of its trees' predictions."""

    row: int
    trees: list[Any]
    weight: float
    offset: float

    @property
    def size(self) -> float:
        """Mean number of nodes of a tree."""
        return self.n_nodes / len(self.trees)

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees."""
        return sum(int(tree.node_count) for tree in self.trees)


def _forest(row: int, scaled: ScaledRegressor) -> _Forest | None:
    """Return the model as a sum of trees; None if it is not one."""
    core = scaled.core
    if not scaled.plain_inputs:
        return None
    if type(core) in _FORESTS and core.n_outputs_ == 1:
        trees, weight, offset = [each.tree_ for each in core.estimators_], 1.0 / len(core.estimators_), 0.0
    elif type(core) in _SINGLE_TREES and core.n_outputs_ == 1:
        trees, weight, offset = [core.tree_], 1.0, 0.0
    elif type(core) is GradientBoostingRegressor and isinstance(core.init_, DummyRegressor | str):
        trees, weight = [each.tree_ for each in core.estimators_[:, 0]], core.learning_rate
        offset = 0.0 if isinstance(core.init_, str) else float(np.ravel(core.init_.constant_)[0])
    else:
        return None
    return _Forest(row, trees, weight * scaled.y_scale, offset * scaled.y_scale + scaled.y_mean)


class _Grove:
    """Forests with trees of about the same size, which are evaluated together."""

    def __init__(self, forests: Sequence[_Forest]) -> None:
        self.rows = [forest.row for forest in forests]
        self.weights = np.array([forest.weight for forest in forests])[:, None]
        self.offsets = np.array([forest.offset for forest in forests])[:, None]
        self.trees = [tree for forest in forests for tree in forest.trees]
        counts = np.array([len(forest.trees) for forest in forests])
        self.begins = np.cumsum(counts) - counts
        self.n_nodes = sum(forest.n_nodes for forest in forests)

    @cached_property
    def prepared(self) -> Trees:
        parts = [nodes_of(tree) for tree in self.trees]
        sizes = np.array([len(nodes) for nodes, _ in parts])
        # Concatenated as bytes: NumPy would copy scikit-learn's structures field by field.
        nodes: Nodes = np.frombuffer(b"".join([nodes.data for nodes, _ in parts]), parts[0][0].dtype)
        return Trees(nodes, np.concatenate([values for _, values in parts]), np.cumsum(sizes) - sizes)

    def predict(self, x: Float32[np.ndarray, "n p"]) -> Float64[np.ndarray, "models n"]:
        if worth_it(self.n_nodes / len(self.trees), len(x)):
            sums = self.prepared.sums(x, self.begins)
        else:
            each = np.stack([tree.predict(x).reshape(-1) for tree in self.trees])
            sums = np.add.reduceat(each, self.begins, axis=0)
        return np.asarray(sums * self.weights + self.offsets)


def _groves(forests: Sequence[_Forest]) -> list[_Grove]:
    """Group the forests by the size of their trees."""
    groups: list[list[_Forest]] = []
    n_nodes = _NODES_AT_ONCE
    for forest in sorted(forests, key=lambda forest: forest.size):
        if n_nodes >= _NODES_AT_ONCE:
            groups.append([])
            n_nodes = 0
        groups[-1].append(forest)
        n_nodes += forest.n_nodes
    return [_Grove(group) for group in groups]


# -- all together -----------------------------------------------------------------------------------------------------


class Predictors:
    """Fitted regressors, prepared for predictions of the same rows.

    Linear models, also within standardizing wrappers, become rows of one matrix. Forests, boosted trees and single
    trees are evaluated together (`numerics.sec.trees`). Every other model predicts by itself, without scikit-learn's
    checks of its input.

    Parameters
    ----------
    models : sequence of estimators
        Fitted scikit-learn regressors of one outcome and the same number of inputs; may be empty.

    Notes
    -----
    Predictions equal those of each model up to rounding (about 1e-15 of the outcome's size). A prediction that is not
    finite is returned as it is. A model whose ``predict`` raises, or returns anything but one number a row, has a row
    of NaN; the other models are not affected. The arrays of a model are not checked: it is the learner's own, or has
    passed `protocols.models.decode_model`.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> x, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 5.0])
    >>> Predictors([LinearRegression().fit(x, y), DecisionTreeRegressor().fit(x, y)]).predict(x).round(2)
    array([[-0.5,  2. ,  4.5],
           [ 0. ,  1. ,  5. ]])
    """

    def __init__(self, models: Sequence[BaseEstimator]) -> None:
        inputs = [n_inputs_of(model) for model in models]
        numbers = sorted({n for n in inputs if n is not None})
        if len(numbers) > 1:
            raise ValueError(f"the models take {numbers[0]} and {numbers[-1]} inputs; they must take the same")
        self._n_models = len(models)
        self._n_inputs: int | None = numbers[0] if numbers else None
        linear: list[tuple[int, Float64[np.ndarray, "p"], float]] = []
        forests: list[_Forest] = []
        self._others: list[tuple[int, ScaledRegressor]] = []
        for row, (model, n_inputs) in enumerate(zip(models, inputs, strict=True)):
            if n_inputs is None:  # not fitted, or of unknown kind: its own `predict` may succeed
                self._others.append((row, ScaledRegressor(model)))
                continue
            scaled = unwrap(model)
            if (line := coefficients(scaled, n_inputs)) is not None:
                linear.append((row, *line))
            elif (forest := _forest(row, scaled)) is not None:
                forests.append(forest)
            else:
                self._others.append((row, scaled))
        self._linear_rows = [row for row, _, _ in linear]
        self._matrix = np.array([coef for _, coef, _ in linear])
        self._intercepts = np.array([intercept for _, _, intercept in linear])
        self._groves = _groves(forests)
        self.n_nodes = sum(grove.n_nodes for grove in self._groves)

    def predict(self, x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "models n"]:
        """Predict every row by every model.

        Parameters
        ----------
        x : ndarray
            ``(n, p)`` finite rows; n may be 0.

        Returns
        -------
        ndarray
            ``(models, n)``, in the order of the models.

        Raises
        ------
        ValueError
            If the models take a different number of inputs than x has.
        """
        if self._n_inputs is not None and x.shape[1] != self._n_inputs:
            raise ValueError(f"the models take {self._n_inputs} inputs, but the rows have {x.shape[1]}")
        out = np.full((self._n_models, len(x)), np.nan)
        if len(x) == 0:
            return out
        with np.errstate(all="ignore"), config_context(assume_finite=True, skip_parameter_validation=True):
            if self._linear_rows:
                # Around the rows' mean: far from 0, intercept and products would cancel.
                center = x.mean(axis=0)
                out[self._linear_rows] = self._matrix @ (x - center).T
                out[self._linear_rows] += (self._matrix @ center + self._intercepts)[:, None]
            single = np.ascontiguousarray(x, np.float32)
            if self._groves and np.isfinite(single).all():
                for grove in self._groves:
                    out[grove.rows] = grove.predict(single)
            for row, scaled in self._others:
                predictions = _attempt(scaled, x)
                if predictions is not None and predictions.shape == (len(x),):
                    out[row] = predictions
        return out


def _attempt(scaled: ScaledRegressor, x: Float64[np.ndarray, "n p"]) -> np.ndarray | None:
    """Return the model's predictions; None if it raises any error."""
    try:
        return scaled.predict(x)
    except Exception:
        return None


# -- the same models again --------------------------------------------------------------------------------------------

_MOST_SETS, _MOST_NODES = 64, 1 << 22
"""Limits of the cache of `prepared`: lists of models, and nodes of their trees, about 50 bytes each."""

_Remembered = tuple[tuple[BaseEstimator, ...], Predictors]


def _weight(remembered: _Remembered) -> float:
    return max(_MOST_NODES // _MOST_SETS, remembered[1].n_nodes)


_recent: Cache[tuple[int, ...], _Remembered] = Cache(_MOST_NODES, _weight)


def prepared(models: Sequence[BaseEstimator]) -> Predictors:
    """Return the `Predictors` of these models, from a cache if this process used the same list recently.

    A worker of a simulation answers for many learners, which all receive the same models;
    `protocols.models.decode_models` returns the same objects to each of them. The cache has the last 64 lists, or fewer
    if their trees are large. It is thread-safe.

    Parameters
    ----------
    models : sequence of estimators
        Fitted models, as for `Predictors`. Identical objects count as the same models: they must not change.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> models = [LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])]
    >>> prepared(models) is prepared(models)
    True
    """
    # The cached value refers to the models, so that no other object can have the id of one of them.
    return _recent.get(tuple(map(id, models)), lambda: (tuple(models), Predictors(models)))[1]
