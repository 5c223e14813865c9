"""Many models at once say what each says by itself; one that cannot predict harms no other."""

from __future__ import annotations

import copy
import gc
import warnings
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet, Lars, Lasso, LassoCV, LassoLars, LinearRegression, Ridge, RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from numerics.sec import predictors as module
from numerics.sec.cache import Cache
from numerics.sec.mixture import mean_squared_errors
from numerics.sec.predictors import Predictors, prepared
from numerics.sec.trees import Trees, nodes_of, worth_it
from numerics.shared.linear_models import as_linear
from tests.support.parameters import few

P = 5
METHODS: dict[str, Callable[[], BaseEstimator]] = {
    "LinearRegression": LinearRegression,
    "no intercept": lambda: LinearRegression(fit_intercept=False),
    "Ridge": Ridge,
    "RidgeCV": RidgeCV,
    "Lasso": lambda: Lasso(0.01),
    "LassoCV": LassoCV,
    "ElasticNet": lambda: ElasticNet(0.01),
    "LassoLars": lambda: LassoLars(0.01),
    "Lars": Lars,
    "forest": lambda: RandomForestRegressor(7, random_state=0),
    "large leaves": lambda: RandomForestRegressor(50, max_features=1 / 3, min_samples_leaf=5, random_state=0),
    "extra trees": lambda: ExtraTreesRegressor(7, random_state=0),
    "best first": lambda: RandomForestRegressor(7, max_leaf_nodes=9, random_state=0),
    "tree": DecisionTreeRegressor,
    "stump": lambda: DecisionTreeRegressor(max_depth=1),
    "boosting": lambda: GradientBoostingRegressor(n_estimators=20),
    "boosting from zero": lambda: GradientBoostingRegressor(n_estimators=20, init="zero"),
    "boosting from a line": lambda: GradientBoostingRegressor(n_estimators=20, init=LinearRegression()),
    "histograms": lambda: HistGradientBoostingRegressor(max_iter=20),
    "neighbors": lambda: KNeighborsRegressor(algorithm="brute"),
    "svr": SVR,
    "network": lambda: MLPRegressor((8,), max_iter=50),
    "constant": DummyRegressor,
    "squares": lambda: make_pipeline(PolynomialFeatures(2), LinearRegression()),
}
if isinstance(MLPRegressor().get_params().get("loss"), str):  # later versions have the loss first
    METHODS["network"] = lambda: MLPRegressor(hidden_layer_sizes=(8,), max_iter=50, random_state=0)
WRAPPERS: dict[str, Callable[[BaseEstimator], BaseEstimator]] = {
    "plain": lambda model: model,
    "scaled": lambda model: Pipeline([("scale", StandardScaler()), ("method", model)]),
    "target": lambda model: TransformedTargetRegressor(regressor=model, transformer=StandardScaler()),
    "both": lambda model: TransformedTargetRegressor(
        regressor=Pipeline([("scale", StandardScaler()), ("method", model)]), transformer=StandardScaler()
    ),
    "scaled target inside": lambda model: Pipeline(
        [("scale", StandardScaler()), ("method", TransformedTargetRegressor(model, transformer=StandardScaler()))]
    ),
    "not centered": lambda model: Pipeline(
        [("nothing", "passthrough"), ("scale", StandardScaler(with_mean=False)), ("method", model)]
    ),
    "centered only": lambda model: Pipeline([("scale", StandardScaler(with_std=False)), ("method", model)]),
    "twice": lambda model: make_pipeline(StandardScaler(), StandardScaler(), model),
    "other scaler": lambda model: make_pipeline(MinMaxScaler(), model),
    "logarithm": lambda model: TransformedTargetRegressor(regressor=model, func=np.cbrt, inverse_func=lambda y: y**3),
}


def rows(n: int, seed: int = 0, p: int = P) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose inputs differ in location and scale, with ties."""
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(size=(n, p)), 1) * np.geomspace(0.1, 100, p) + np.arange(p) * 10
    return x, 5 + x[:, 0] * 3 + np.sin(x[:, -1]) + rng.normal(size=n)


def fitted(name: str, wrapper: str = "plain", n: int = 80, seed: int = 0) -> BaseEstimator:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return WRAPPERS[wrapper](METHODS[name]()).fit(*rows(n, seed))


@cache
def shared(name: str, wrapper: str = "plain", n: int = 80) -> BaseEstimator:
    """A model of rows of its own method, which several tests only ask."""
    return fitted(name, wrapper, n, seed=list(METHODS).index(name))


def near(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * max(1.0, float(np.abs(expected).max())))


@pytest.mark.parametrize("wrapper", few(list(WRAPPERS), 4))
@pytest.mark.parametrize("name", METHODS)
def test_a_model_says_what_it_says_by_itself(name: str, wrapper: str) -> None:
    model = shared(name, wrapper)
    for x in (rows(130, 1)[0], rows(1, 2)[0]):
        near(Predictors([model]).predict(x)[0], model.predict(x))


def test_a_mixed_list_keeps_its_order() -> None:
    models = [shared(name, wrapper) for wrapper in [*WRAPPERS][:4] for name in METHODS]
    models += [shared("Lars", wrapper) for wrapper in [*WRAPPERS][4:]]
    models = [models[place] for place in np.random.default_rng(0).permutation(len(models))]
    x, _ = rows(170, 3)
    near(Predictors(models).predict(x), np.array([model.predict(x) for model in models]))


@pytest.mark.parametrize("n", [1, 63, 64, 65, 255, 256, 257, 700])
@pytest.mark.parametrize("here", [True, False])
def test_trees_are_the_same_walked_or_by_bits(n: int, here: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "worth_it", lambda *_: here)
    models = [shared(name, n=300) for name in ("forest", "large leaves", "tree", "stump", "boosting", "best first")]
    x, _ = rows(n, 4)
    near(Predictors(models).predict(x), np.array([model.predict(x) for model in models]))


def test_bits_give_every_tree_its_own_leaf_exactly() -> None:
    x, y = rows(2000)  # more leaves than a byte can number
    trees = [DecisionTreeRegressor(max_features=2, random_state=seed).fit(x, y).tree_ for seed in range(3)]
    parts = [nodes_of(tree) for tree in trees]
    starts = np.cumsum([0] + [len(nodes) for nodes, _ in parts])[:-1]
    many = Trees(np.concatenate([each for each, _ in parts]), np.concatenate([each for _, each in parts]), starts)
    new = np.concatenate([rows(300, 5)[0], x[:100]]).astype(np.float32)
    assert np.array_equal(many.sums(new, np.arange(3)), [tree.predict(new).ravel() for tree in trees])


def test_rows_on_a_threshold_go_left() -> None:
    model = DecisionTreeRegressor().fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 3.0])
    x = np.sort(np.concatenate([model.tree_.threshold[model.tree_.feature >= 0], [0.5, 1.5]]))[:, None]
    assert np.array_equal(Predictors([model]).predict(x)[0], model.predict(x))


def test_far_from_zero_nothing_cancels() -> None:
    rng = np.random.default_rng(0)
    x = 1e8 + rng.normal(size=(50, 3))
    model = WRAPPERS["both"](Ridge()).fit(x, x[:, 0] - 1e8)
    near(Predictors([model]).predict(x)[0] * 1e-6, model.predict(x) * 1e-6)


def test_no_models_and_no_rows() -> None:
    assert Predictors([]).predict(rows(4)[0]).shape == (0, 4)
    assert Predictors([]).predict(np.zeros((0, 9))).shape == (0, 0)
    models = [fitted("Ridge", "both"), fitted("forest"), fitted("svr")]
    assert Predictors(models).predict(np.zeros((0, P))).shape == (3, 0)


def test_another_number_of_inputs_is_refused() -> None:
    with pytest.raises(ValueError, match="the models take 5 inputs, but the rows have 3"):
        Predictors([fitted("Ridge")]).predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="the models take 4 and 5 inputs"):
        Predictors([fitted("Ridge"), LinearRegression().fit(*rows(9, p=4))])


class Raises(RegressorMixin, BaseEstimator):
    n_features_in_ = P

    def predict(self, x: np.ndarray) -> np.ndarray:
        raise RuntimeError("no")


class TwoOutcomes(Raises):
    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.zeros((len(x), 2))


BROKEN: dict[str, Callable[[], BaseEstimator]] = {
    "raises": Raises,
    "two outcomes": TwoOutcomes,
    "not fitted": LinearRegression,
    "two coefficients": lambda: LinearRegression().fit(rows(30)[0], np.ones((30, 2))),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_model_that_cannot_predict_gives_nan_and_harms_no_other(name: str) -> None:
    fine = [fitted("forest", seed=1), fitted("Ridge", "both"), fitted("histograms"), fitted("svr")]
    x, y = rows(70, 6)
    found = Predictors([fine[0], BROKEN[name](), *fine[1:]]).predict(x)
    assert np.isnan(found[1]).all()
    near(found[[0, 2, 3, 4]], np.array([model.predict(x) for model in fine]))
    errors = mean_squared_errors(found, y)
    assert errors[1] == np.inf
    assert np.isfinite(errors[[0, 2, 3, 4]]).all()


def test_predictions_that_are_not_finite_come_as_they_are() -> None:
    models = [fitted("LinearRegression", seed=seed) for seed in range(3)]
    models[1].coef_ = np.full(P, 1e308)
    models[2].intercept_ = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = Predictors(models).predict(1e3 + rows(5)[0])
        errors = mean_squared_errors(found, np.zeros(5))
    assert np.isfinite(found[0]).all()
    assert not np.isfinite(found[1]).any()
    assert np.isnan(found[2]).all()
    assert np.isfinite(errors[0])
    assert np.array_equal(errors[1:], [np.inf, np.inf])


def test_rows_beyond_single_precision_are_no_trees_matter() -> None:
    x, _ = rows(3)
    x[1, 0] = 1e300
    found = Predictors([fitted("forest"), fitted("Ridge")]).predict(x)
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()


def test_errors_are_mean_squares() -> None:
    rng = np.random.default_rng(0)
    predictions, y = rng.normal(size=(4, 9)), rng.normal(size=9)
    near(mean_squared_errors(predictions, y), ((predictions - y) ** 2).mean(axis=1))
    assert mean_squared_errors(predictions * 1e200, y)[0] == np.inf
    with pytest.raises(ValueError, match="no row"):
        mean_squared_errors(np.zeros((2, 0)), np.zeros(0))


@pytest.mark.parametrize("wrapper", ["plain", "scaled", "target", "both", "not centered"])
def test_a_linear_model_is_a_line_whatever_its_wrapper(wrapper: str) -> None:
    model = fitted("LassoCV", wrapper)
    line = as_linear(model)
    assert type(line) is LinearRegression
    assert vars(line).keys() - line.get_params().keys() == {"coef_", "intercept_", "n_features_in_"}
    x, _ = rows(40, 8)
    near(line.predict(x), model.predict(x))
    assert as_linear(fitted("forest", wrapper)) is None


def test_large_trees_are_walked() -> None:
    assert worth_it(31, 160)
    assert not worth_it(5000, 160)


# -- the same models again --------------------------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many models were prepared, each time that any were; nothing is remembered from before."""
    made: list[int] = []
    whole = Predictors.__init__

    def count(self: Predictors, models: Sequence[BaseEstimator]) -> None:
        made.append(len(models))
        whole(self, models)

    monkeypatch.setattr(Predictors, "__init__", count)
    monkeypatch.setattr(module, "_recent", Cache(module._MOST_NODES, module._weight))
    return made


def test_the_same_models_are_prepared_once(counted: list[int]) -> None:
    models = [fitted("Ridge"), fitted("forest"), fitted("svr")]
    found = prepared(models)
    assert prepared(tuple(models)) is found  # another list of the same objects
    assert counted == [3]
    x, _ = rows(20, 5)
    near(found.predict(x), np.array([model.predict(x) for model in models]))
    near(prepared(models[::-1]).predict(x), np.array([model.predict(x) for model in models[::-1]]))
    assert prepared(copy.deepcopy(models)) is not found  # equal, but not the same
    assert prepared([]).predict(x).shape == (0, 20)


def test_remembered_models_live_so_that_no_other_has_their_id(counted: list[int]) -> None:
    model = fitted("Ridge")
    alive = weakref.ref(model)
    prepared([model])
    del model
    gc.collect()
    assert alive() is not None
    for _ in range(module._MOST_SETS):
        prepared([LinearRegression()])
    gc.collect()
    assert alive() is None


def test_the_last_64_lists_are_remembered_fewer_of_large_trees(
    counted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [Ridge().fit(*rows(9, seed)) for seed in range(65)]
    for model in models:
        prepared([model])
    prepared(models[1:2])
    assert len(counted) == 65
    prepared(models[:1])
    assert len(counted) == 66

    forests = [fitted("forest", seed=seed) for seed in range(3)]
    size = Predictors(forests[:1]).n_nodes
    assert size == sum(each.tree_.node_count for each in forests[0].estimators_)
    monkeypatch.setattr(module, "_recent", Cache(2.5 * size, lambda remembered: remembered[1].n_nodes))
    counted.clear()
    for place in (0, 1, 1, 2, 0):  # the first has to go when the third comes
        prepared(forests[place : place + 1])
    assert len(counted) == 4


def test_threads_share_what_is_prepared(counted: list[int]) -> None:
    lists = [[fitted("Ridge", seed=seed), fitted("forest", seed=seed)] for seed in range(5)]
    x, _ = rows(30, 6)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda turn: prepared(lists[turn % 5]).predict(x), range(400)))
    assert len(counted) <= 5 * 8
    for turn, predictions in enumerate(found):
        assert np.array_equal(predictions, found[turn % 5])
