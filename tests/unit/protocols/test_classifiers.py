"""Classifiers on the wire: what comes back, and what is refused before anything of it is constructed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import protocols.models as wire
from protocols.models import ModelError, check_model, decode_model, encode_model

P, N = 3, 90
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, P))
MODELS: dict[str, Callable[[], Any]] = {
    "logistic": LogisticRegression,
    "tree": lambda: DecisionTreeClassifier(random_state=0),
    "forest": lambda: RandomForestClassifier(5, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=4, random_state=0),
    "histogram-boosting": lambda: HistGradientBoostingClassifier(max_iter=4),
    "neighbors": lambda: KNeighborsClassifier(algorithm="brute"),
    "scaled-neighbors": lambda: make_pipeline(StandardScaler(), KNeighborsClassifier(algorithm="brute")),
    "network": lambda: MLPClassifier((4,), solver="lbfgs", max_iter=20, random_state=0),
    "prior": lambda: DummyClassifier(strategy="prior"),
}


@cache
def places(k: int) -> np.ndarray:
    return np.concatenate([np.arange(k), np.random.default_rng(k).integers(k, size=N - k)])


def fitted(name: str, k: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MODELS[name]().fit(X, places(k))


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("name", MODELS)
def test_a_classifier_comes_back_predicting_bit_for_bit_the_same(name: str, k: int) -> None:
    model, fresh = fitted(name, k), np.random.default_rng(1).normal(size=(200, P))
    data = encode_model(model, k)
    back = decode_model(data, k)
    np.testing.assert_array_equal(back.predict_proba(fresh), model.predict_proba(fresh))
    assert check_model(data, k) == P
    np.testing.assert_array_equal(encode_model(back, k), data)
    for other in (0, k + 1):
        with pytest.raises(ModelError, match=r"is not a regressor|classes, and"):
            check_model(data, other)


def test_no_number_of_rows_and_no_seed_leaves_with_a_forest() -> None:
    held = decode_model(encode_model(fitted("forest", 2), 2), 2)
    assert held.random_state is None
    assert not hasattr(held, "_n_samples")
    state = held.estimators_[0].tree_.__getstate__()
    inner = state["nodes"]["left_child"] != -1
    assert not state["values"][inner].any()
    assert not state["nodes"]["n_node_samples"].any()


def _bend_leaf(model: Any) -> None:
    state = model.tree_.__getstate__()
    state["values"][-1, 0] = [7.0, -6.0]
    model.tree_.__setstate__(state)


def _set(attribute: str, value: Any) -> Callable[[Any], None]:
    return lambda model: setattr(model, attribute, value)


def _of_other_classes(model: Any) -> None:
    model.estimators_[0] = DecisionTreeClassifier(random_state=0).fit(X, places(3))


@pytest.mark.parametrize(
    ("name", "bend", "words"),
    [
        ("tree", _bend_leaf, "has a leaf whose shares of the classes are not shares"),
        ("tree", _set("classes_", np.array([0, 5])), "are not numbers from 0 on"),
        ("tree", _set("n_classes_", 3), r"n_classes_ is not 2"),
        ("forest", _of_other_classes, r"is not 2|3 classes, and 2"),
        ("neighbors", _set("_y", np.full(N, 9)), "has a class that is not one of the 2"),
        ("neighbors", _set("outputs_2d_", True), "outputs_2d_ is not False"),
        ("logistic", _set("coef_", np.zeros((2, P))), r"coef_ has shape \(2, 3\)"),
        ("logistic", _set("solver", "newton-cg"), "solver is not 'lbfgs'"),
        ("network", _set("out_activation_", "identity"), "out_activation_ is not 'logistic'"),
        ("prior", _set("class_prior_", np.array([2.0, -1.0])), "are not shares"),
        ("prior", _set("_strategy", "stratified"), "_strategy is not 'prior'"),
        ("boosting", _set("n_trees_per_iteration_", 3), "n_trees_per_iteration_ is not 1"),
        ("histogram-boosting", _set("n_trees_per_iteration_", 3), "n_trees_per_iteration_ is not 1"),
    ],
)
def test_an_unsound_classifier_is_refused_by_sender_and_receiver(
    name: str, bend: Callable[[Any], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fitted(name, 2)
    bend(model)
    with pytest.raises(ModelError, match=words):
        encode_model(model, 2)
    with monkeypatch.context() as careless:
        careless.setattr(wire, "check_predictor", lambda *_: P)
        data = encode_model(model, 2)
    with pytest.raises(ModelError, match=words):
        decode_model(data, 2)


def test_other_classifiers_and_regressors_are_refused() -> None:
    with pytest.raises(ModelError, match="not on the list"):
        encode_model(ExtraTreesClassifier(2).fit(X, places(2)), 2)
    with pytest.raises(ModelError, match="which is not a classifier"):
        encode_model(LinearRegression().fit(X, X[:, 0]), 2)
