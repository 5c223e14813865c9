"""Candidates as they are typed, fitted, chosen and sent."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline

from numerics.sec import selection
from numerics.sec.cache import Cache
from numerics.sec.selection import Selection, SelectionError, draw_splits, select
from numerics.shared.candidates import METHODS, ROW_MODELS, Candidate, CandidateError, parse_candidates
from numerics.shared.folds import draw_halves
from numerics.shared.regressors import build, fit
from protocols.models import decode_model, encode_model
from tests.support.parameters import few

N, P = 54, 4
"""No tree has an even number of nodes, so an array of this length is one of rows."""
COUNTED = {"impurity", "n_node_samples", "weighted_n_node_samples", "count", "gain", "bin_threshold"}
BY_PRODUCTS = {
    *("random_state", "feature_names_in_", "train_score_", "loss_curve_", "mse_path_", "singular_", "fit_status_"),
    *("var_", "n_samples_seen_", "n_estimators_", "shape_fit_", "n_iter_", "oob_prediction_", "bin_thresholds_"),
}
"""Attributes that only fitting needs; those that must be there to predict are empty."""


def forget_fits() -> None:
    for cache in (selection._cv_errors, selection._refits, selection._left_out):
        cache._values.clear()  # type: ignore[attr-defined]
        cache._weight = 0.0


@pytest.fixture(autouse=True)
def _fresh() -> None:
    forget_fits()


def rows(n: int = N, seed: int = 0, p: int = P) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p)) * 3 + 2
    return x, 100 + 10 * x[:, 0] + 5 * np.sin(x[:, 1]) + rng.normal(size=n)


def one(text: str) -> Candidate:
    (candidate,) = parse_candidates(text)
    return candidate


def chosen(text: str, x: np.ndarray, y: np.ndarray, *, seed: int = 0, **settings: str) -> Selection:
    settings = {"selection": "half-half", "standardize": "model", **settings}
    return select(parse_candidates(text), x, y, min_leaf=2, rng_seed=seed, **settings)


def things(root: Any) -> Iterator[tuple[str, Any]]:
    """Everything a model holds, by where it is."""
    seen: dict[int, Any] = {}  # it holds them, so that no id is given twice
    waiting = [("", root)]
    while waiting:
        path, thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type):
            continue
        seen[id(thing)] = thing
        yield path, thing
        if isinstance(thing, dict):
            waiting += [(f"{path}[{key}]", each) for key, each in thing.items()]
        elif isinstance(thing, list | tuple):
            waiting += [(f"{path}[{place}]", each) for place, each in enumerate(thing)]
        elif isinstance(thing, np.ndarray) and thing.dtype == object:
            waiting.append((path, thing.reshape(-1).tolist()))
        elif type(thing).__name__ == "Tree":
            waiting += [(f"{path}.{key}", each) for key, each in thing.__getstate__().items()]
        elif hasattr(thing, "__dict__"):
            waiting += [(f"{path}.{key}", each) for key, each in vars(thing).items()]


# -- what may be typed ------------------------------------------------------------------------------------------------


def test_names_with_and_without_settings() -> None:
    found = parse_candidates(" lasso, rf( max_depth=3 ,n_estimators=50)\nsvr(C=1e2, kernel='linear') ")
    assert [each.method for each in found] == ["lasso", "rf", "svr"]
    assert [each.text for each in found] == [
        "lasso",
        "rf( max_depth=3 ,n_estimators=50)",
        "svr(C=1e2, kernel='linear')",
    ]
    assert found[1].settings == (("max_depth", 3), ("n_estimators", 50))
    assert found[2].settings == (("C", 100.0), ("kernel", "linear"))
    assert one("lasso(tol=1e-3, positive=False, cv=5)").settings == (("cv", 5), ("positive", False), ("tol", 1e-3))
    assert one("rf(max_features=sqrt, max_depth=None)").settings == (("max_depth", None), ("max_features", "sqrt"))
    assert one("lr()").settings == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no candidate.*there are: rf, lr, lasso"),
        (" , ", "there is no candidate"),
        ("lr lassoo", "unknown candidate 'lassoo'; there are: rf, .*did you mean lasso"),
        ("rf(depth=3)", r"candidate rf\(depth=3\): rf has no setting 'depth'; it has: .*max_depth"),
        ("lr lasso lr", "lr is named twice"),
        ("rf(max_depth=3) rf( max_depth = 3 )", "is named twice"),
        ("rf(max_depth=3, max_depth=4)", "the setting max_depth is set twice"),
        ("rf(max_depth=3", "close the parenthesis"),
        ("rf(max_depth 3)", "write name=value"),
        ("rf(max_depth=3))", "cannot read"),
        ("lr; lasso", "cannot read '; lasso'"),
        ("3", "cannot read '3'"),
        ("rf(random_state=3)", r"random_state is not a candidate's to set \(a run's seed sets it\)"),
        ("rf(n_jobs=4)", "n_jobs is not a candidate's to set"),
        ("nn(warm_start=True)", "warm_start is not a candidate's to set"),
        ("rf(min_samples_leaf=1)", "min-leaf of the run or of the site sets it"),
        ("knn(algorithm=kd_tree)", "algorithm is not a candidate's to set"),
        ("gb(loss=huber)", "loss is not a candidate's to set"),
        ("rf(criterion=absolute_error)", "criterion is not a candidate's to set"),
        ("rf(max_samples=1)", "a tree of a few rows would hold single outcomes"),
        ("gb(subsample=0.01)", "a tree of a few rows would hold single outcomes"),
        ("rf(n_estimators=1001)", "n_estimators is 1000 at most, not 1001"),
        ("hgb(max_iter=1000000)", "max_iter is 1000 at most"),
        ("nn(hidden_layer_sizes=1000000000)", "hidden_layer_sizes is 1000 at most"),
        ("lasso(alphas=1000000000)", "alphas is 1000 at most"),
        ("rf(n_estimators=-3)", "'n_estimators' parameter .* Got -3"),
        ("rf(max_depth=deep)", "'max_depth' parameter"),
        ("knn(weights=print)", "'weights' parameter"),
        ("knn(metric=precomputed)", "needs rows"),
        ("lasso(cv=1)", "cv is a number of parts of the rows, 2 or more, not 1"),
        (
            "nn(solver=sgd)",
            "solver is for a site's own candidates only.*set: activation, alpha, hidden",
        ),
        ("nn(alpha=0)", "a run may set alpha to 0.01 or more, not 0"),
        ("gb(learning_rate=2.0)", "a run may set learning_rate to 0.001 to 1, not 2.0"),
        ("gb(learning_rate=nan)", "learning_rate"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(CandidateError, match=message) as refused:
        parse_candidates(text)
    assert "\n" not in str(refused.value)


def test_trees_keep_the_leaf_size_of_the_run() -> None:
    for method in ("rf", "gb", "hgb", "tree"):
        assert build(one(method), standardize="model", min_leaf=7, seed=0).min_samples_leaf == 7
    forest = build(one("rf"), standardize="model", min_leaf=5, seed=3)
    assert (forest.n_estimators, forest.max_features, forest.n_jobs, forest.random_state) == (50, 1.0, None, 3)


@pytest.mark.parametrize("method", METHODS)
def test_what_feels_units_is_between_scalers(method: str) -> None:
    scaled = method not in {"lr", "rf", "gb", "hgb", "tree"}
    assert isinstance(build(one(method), standardize="model", min_leaf=1, seed=0), TransformedTargetRegressor) == scaled
    for standardize in ("learner", "none"):
        plain = build(one(method), standardize=standardize, min_leaf=1, seed=0)
        always = method == "nn" and standardize == "none"
        assert isinstance(plain, TransformedTargetRegressor | Pipeline) == always
    with pytest.raises(ValueError, match="model, learner, none, not 'both'"):
        build(one(method), standardize="both", min_leaf=1, seed=0)


@pytest.mark.parametrize("method", METHODS)
def test_units_do_not_matter_to_a_model_with_its_scalers(method: str) -> None:
    x, y = rows()
    units, shift = np.array([2.0, 0.25, 8.0, 0.5]), np.array([1.0, -2.0, 0.0, 4.0])
    model = fit(one(method), x, y, standardize="model", min_leaf=3, seed=1)
    moved = fit(one(method), x * units + shift, 4 * y + 32, standardize="model", min_leaf=3, seed=1)
    # A network's search of its minimum, and ties of splits, follow rounding errors.
    tolerance = 0.05 if method in {"nn", "rf", "gb", "hgb", "tree"} else 1e-6
    expected = 4 * model.predict(x) + 32
    assert np.abs(moved.predict(x * units + shift) - expected).mean() < tolerance * np.std(expected)


# -- what is left of a model ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("standardize", few(["model", "none"]))
@pytest.mark.parametrize("method", METHODS)
def test_a_model_crosses_with_every_prediction_and_no_by_product(method: str, standardize: str) -> None:
    x, y = rows()
    model = fit(one(method), x, y, standardize=standardize, min_leaf=2, seed=1)
    before = pickle.dumps(model)
    back = decode_model(encode_model(model))
    assert pickle.dumps(model) == before  # the model itself is as it was
    new = np.concatenate([x, rows(seed=1)[0]])
    assert np.array_equal(back.predict(new), model.predict(new))
    for path, thing in things(back):
        assert not isinstance(thing, np.random.RandomState | np.random.Generator), path
        assert "ptimizer" not in type(thing).__name__, path
        if isinstance(thing, np.ndarray) and method not in ROW_MODELS:
            assert N not in thing.shape, path
        if isinstance(thing, np.ndarray) and thing.dtype.names:
            assert not {name for name in COUNTED & set(thing.dtype.names) if thing[name].any()}, path
        if isinstance(thing, BaseEstimator):
            assert not {name for name in BY_PRODUCTS if vars(thing).get(name) not in (None, [])}, path


def test_names_of_inputs_are_left_out() -> None:
    x, y = rows()
    model = LinearRegression().fit(pd.DataFrame(x, columns=list("abcd")), y)
    assert not hasattr(decode_model(encode_model(model)), "feature_names_in_")


@pytest.mark.parametrize("method", ["lr", "lasso", "lars", "en", "ridge"])
def test_a_linear_model_tells_nothing_but_its_line(method: str) -> None:
    x, y = rows()
    model = chosen(method, x, y).model
    assert type(model) is LinearRegression
    assert vars(model).keys() - model.get_params().keys() == {"coef_", "intercept_", "n_features_in_"}
    raw = build(one(method), standardize="model", min_leaf=2, seed=selection._seed(0, one(method))).fit(x, y)
    np.testing.assert_allclose(model.predict(x), raw.predict(x), rtol=1e-12)


# -- the choice -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 10, 53])
def test_the_extra_row_is_measured_on(n: int) -> None:
    first, second = draw_halves(n, np.random.default_rng(5))
    assert len(second) - len(first) == n % 2
    assert sorted([*first, *second]) == list(range(n))
    assert not np.array_equal(
        draw_halves(53, np.random.default_rng(5))[0], draw_halves(53, np.random.default_rng(6))[0]
    )


def test_errors_are_those_of_the_paper() -> None:
    x, y = rows()
    found = chosen("lr", x, y, seed=3)
    first, second = draw_halves(N, np.random.default_rng(3))
    half = LinearRegression().fit(x[first], y[first])
    assert found.cv_error == pytest.approx(np.mean((half.predict(x[second]) - y[second]) ** 2), rel=1e-9)
    assert found.fitted_error == pytest.approx(np.mean((LinearRegression().fit(x, y).predict(x) - y) ** 2), rel=1e-9)


@pytest.mark.parametrize("n", [4, 7, 23])
def test_each_row_is_predicted_once_without_itself(n: int) -> None:
    x, y = rows(n, p=2)
    squares = []
    for rest, part in draw_splits(n, "k-fold", 3):
        assert sorted([*rest, *part]) == list(range(n))
        design = np.column_stack([np.ones(n), x])
        line = np.linalg.lstsq(design[rest], y[rest])[0]
        squares += list((y[part] - design[part] @ line) ** 2)
    assert len(squares) == n
    assert chosen("lr", x, y, seed=3, selection="k-fold").cv_error == pytest.approx(np.mean(squares), rel=1e-9)


def test_five_folds_find_the_line_where_half_of_the_rows_hardly_determine_it() -> None:
    """Of 50 rows of 20 inputs, 25 leave four degrees of freedom, and 40 leave 19."""
    right = {"half-half": 0, "k-fold": 0}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(50, 20))
        y = x @ rng.normal(size=20) + np.sqrt(5) * rng.normal(size=50)
        for each in right:
            right[each] += chosen("rf(n_estimators=15) lr", x, y, selection=each).method == "lr"
    assert right["k-fold"] >= 7
    assert right["half-half"] < right["k-fold"]


@pytest.mark.parametrize("selection", ["k-fold", "half-half"])
def test_the_smallest_error_wins_wherever_it_stands(selection: str) -> None:
    x, y = rows()
    y = x @ [1.0, 2.0, 3.0, 4.0]
    for text in ("lr rf knn", "rf lr knn", "knn rf lr"):
        assert chosen(text, x, y, selection=selection).method == "lr"
    assert chosen("rf(n_estimators=5) knn(n_neighbors=30)", x, y, selection=selection).method == "rf(n_estimators=5)"


@pytest.mark.parametrize(
    ("text", "first"), [("lr lr(positive=False)", "lr"), ("lr(positive=False) lr", "lr(positive=False)")]
)
def test_of_equal_errors_the_earlier_candidate(text: str, first: str) -> None:
    assert chosen(text, *rows()).method == first


def test_a_candidate_that_fails_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = rows()
    fails = "knn(metric=haversine)"  # takes two inputs, and there are more
    assert chosen(f"{fails} knn", x, y).method == "knn"
    with pytest.raises(SelectionError, match=r"no candidate .* 54 rows \(knn\(metric=haversine\): its error is not"):
        chosen(fails, x, y)

    def infinite(*_: Any, **__: Any) -> LinearRegression:
        model = LinearRegression().fit(x, y)
        model.intercept_ = np.inf
        return model

    monkeypatch.setattr(selection, "fit", infinite)
    with pytest.raises(SelectionError, match="lr: its error is not finite"):
        chosen("lr", x, y)


def test_a_candidate_that_only_fails_on_all_rows_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = rows()
    assert chosen("lr rf", x, y).method == "lr"
    forget_fits()

    def fails(candidate: Candidate, x: np.ndarray, y: np.ndarray, **settings: Any) -> BaseEstimator:
        if candidate.method == "lr" and len(y) == N:
            raise FloatingPointError
        return fit(candidate, x, y, **settings)

    monkeypatch.setattr(selection, "fit", fails)
    assert chosen("lr rf", x, y).method == "rf"


@pytest.mark.parametrize("standardize", ["model", "learner"])
@pytest.mark.parametrize("method", METHODS)
def test_a_constant_outcome_is_predicted(method: str, standardize: str) -> None:
    x, _ = rows(20)
    found = chosen(method, x, np.full(20, 7.25), standardize=standardize)
    assert np.array_equal(found.model.predict(x), np.full(20, 7.25))
    assert found.fitted_error == found.cv_error == 0


@pytest.mark.parametrize("selection", ["k-fold", "half-half"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", few([2, 3, 4, 7]))
def test_few_rows(n: int, method: str, selection: str) -> None:
    x, y = rows(n)
    found = chosen(f"{method} lr" if method == "lars" else method, x, y, selection=selection)
    assert np.isfinite(found.fitted_error)
    assert np.isfinite(found.cv_error)
    assert np.isfinite(found.model.predict(x)).all()


@pytest.mark.parametrize("n", [2, 5, 9])
def test_a_forest_that_cannot_split_holds_the_mean_and_no_single_outcome(n: int) -> None:
    """Drawn with replacement, two rows are one row half of the time."""
    x, y = rows(n)
    for tree in fit(one("rf"), x, y, standardize="model", min_leaf=5, seed=0).estimators_:
        np.testing.assert_allclose(tree.tree_.value.ravel(), [y.mean()])


@pytest.mark.parametrize("method", METHODS)
def test_inputs_that_do_not_vary(method: str) -> None:
    x, y = rows(30)
    x[:, 2] = 3.0
    assert np.isfinite(chosen(method, x, y).fitted_error)


def test_one_row_is_too_few() -> None:
    with pytest.raises(SelectionError, match="at least two rows; there is 1"):
        chosen("lr", *rows(1))


# -- the same again ---------------------------------------------------------------------------------------------------


def test_nested_lists_share_their_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = rows()
    fits = []

    def counted(candidate: Candidate, x: np.ndarray, y: np.ndarray, **settings: Any) -> BaseEstimator:
        fits.append((candidate.method, len(y)))
        return fit(candidate, x, y, **settings)

    monkeypatch.setattr(selection, "fit", counted)
    apart = {}
    for text in ("gb", "rf gb lasso", "rf knn gb lasso lars", "rf knn svr gb lasso lars en"):
        forget_fits()
        apart[text] = chosen(text, x, y)
    forget_fits()
    fits.clear()
    for text, alone in apart.items():
        found = chosen(text, x, y)
        assert (found.method, found.fitted_error, found.cv_error) == (alone.method, alone.fitted_error, alone.cv_error)
        assert np.array_equal(found.model.predict(x), alone.model.predict(x))
    assert len(fits) == len(set(fits))
    assert sum(n < N for _, n in fits) == 7
    chosen("gb", x, y + 1)
    chosen("gb", x, y, seed=1)
    chosen("gb", x, y, standardize="none")
    # Other rows, seeds or settings are fitted anew; the error on parts of the rows is computed where it is asked for.
    of_gb = [n for method, n in fits if method == "gb"]
    assert (of_gb.count(N), len(of_gb)) == (4, 5)


def test_recent_fits_are_forgotten_in_time() -> None:
    recent: Cache[str, int] = Cache(2)
    assert [recent.get(key, lambda: 1) for key in "ab"] == [1, 1]
    assert recent.get("a", lambda: 2) == 1
    recent.get("c", lambda: 3)
    assert recent.get("a", lambda: 4) == 1
    assert recent.get("b", lambda: 5) == 5
