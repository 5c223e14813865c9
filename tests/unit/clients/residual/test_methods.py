"""Methods of an agent: what may be named, how they fit and predict, and the models that a site keeps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, RecordDict
from sklearn.base import BaseEstimator
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from clients.model_store import ModelFileError
from clients.residual.methods import MethodError, fit_method, parse_method, predict
from clients.residual.model_store import SavedModel, dump, load_agent, restore, save_agent
from clients.site import Site
from common.skops_import import skops_io
from numerics.shared.candidates import METHODS
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.message import Ask
from tests.support.parameters import few

FULL = (
    "sklearn.ensemble.ExtraTreesRegressor(n_estimators=5)",
    "sklearn.ensemble.BaggingRegressor(n_estimators=3)",
    "sklearn.gaussian_process.GaussianProcessRegressor",
    "sklearn.kernel_ridge.KernelRidge(kernel=rbf, alpha=0.1)",
    "sklearn.linear_model.HuberRegressor",
    "sklearn.neighbors.KNeighborsRegressor(algorithm=kd_tree)",
    "sklearn.svm.LinearSVR",
)
AGENTS = (*METHODS, *FULL)


def rows(n: int = 90, p: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = 5 + 3 * rng.normal(size=(n, p))
    return x, np.sin(x[:, 0]) + 0.1 * rng.normal(size=n)


def fitted(text: str, x: np.ndarray, target: np.ndarray, *, min_leaf: int = 10, seed: int = 1) -> BaseEstimator:
    return fit_method(parse_method(text, dotted=True), x, target, min_leaf=min_leaf, seed=seed)


# -- what may be named ------------------------------------------------------------------------------------------------


def test_short_and_full_names_with_settings() -> None:
    assert parse_method(" tree ", dotted=False).method == "tree"
    agent = parse_method("hgb( max_depth=3 , learning_rate=0.2)", dotted=False)
    assert (agent.method, agent.settings) == ("hgb", (("learning_rate", 0.2), ("max_depth", 3)))
    full = parse_method("sklearn.ensemble.ExtraTreesRegressor(n_estimators=7, criterion=absolute_error)", dotted=True)
    assert full.method == "sklearn.ensemble.ExtraTreesRegressor"
    model = fit_method(full, *rows(), min_leaf=9, seed=3)
    assert type(model) is ExtraTreesRegressor
    assert (model.n_estimators, model.min_samples_leaf, model.random_state, model.n_jobs) == (7, 9, 3, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "",
            r"names no method; write one, e.g. 'hgb\(max_depth=3\)'; there are: rf, .*, tree, or any regressor of scik",
        ),
        ("3", "agent '3': names no method"),
        ("treee", "there is no method 'treee'; .*; did you mean tree?"),
        ("tree lr", "an agent has one method, so 'lr' is too much"),
        ("tree(max_depth=3) rf", "an agent has one method, so 'rf' is too much"),
        ("tree(max_depth=3", "close the parenthesis"),
        ("tree; lr", "cannot read '; lr'"),
        ("tree(depth=3)", r"agent tree\(depth=3\): tree has no setting 'depth'; it has: .*max_depth"),
        ("tree(min_samples_leaf=3)", r"min_samples_leaf is not an agent's to set \(min-leaf of the run"),
        ("tree(max_depth=deep)", "'max_depth' parameter"),
        ("rf(n_estimators=100000)", "n_estimators is 1000 at most"),
        ("sklearn.svm.SVR(C=-1)", "'C' parameter"),
        ("sklearn.ensemble.ExtraTreesRegressor(random_state=1)", "random_state is not an agent's to set"),
        ("sklearn.ensemble.ExtraTreesRegressor(n_jobs=8)", "n_jobs is not an agent's to set"),
        ("sklearn.ensemble.ExtraTreesRegresor", "did you mean sklearn.ensemble.ExtraTreesRegressor?"),
        ("sklearn.ensemble.StackingRegressor", "StackingRegressor consists of other estimators"),
        ("sklearn.ensemble.RandomForestClassifier", "RandomForestClassifier is no regressor"),
        ("sklearn.preprocessing.StandardScaler", "StandardScaler is no regressor"),
        ("sklearn.utils.Bunch", "Bunch is no regressor"),
        ("sklearn.base.clone", "sklearn.base has no clone"),
        ("sklearn.nowhere.Thing", "this scikit-learn has no module sklearn.nowhere"),
        ("sklearn.utils.os.path", "this scikit-learn has no module sklearn.utils.os"),
        ("os.system", "os.system is not of scikit-learn"),
        ("xgboost.XGBRegressor", "xgboost.XGBRegressor is not of scikit-learn"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(MethodError, match=message) as refused:
        parse_method(text, dotted=True)
    assert "\n" not in str(refused.value)


def test_what_a_site_is_told_has_no_full_name() -> None:
    with pytest.raises(MethodError, match="only a site itself may name an estimator in full"):
        parse_method("sklearn.ensemble.ExtraTreesRegressor", dotted=False)
    with pytest.raises(MethodError, match="criterion is not an agent's to set"):
        parse_method("tree(criterion=absolute_error)", dotted=True)


# -- fits -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", few([3, 1]))
@pytest.mark.parametrize("text", AGENTS)
def test_every_method_fits_predicts_and_is_kept(text: str, p: int) -> None:
    x, target = rows(p=p)
    new = rows(40, p, seed=1)[0]
    model = fitted(text, x, target)
    said = predict(model, x)
    assert said.shape == (90,)
    assert said.dtype == np.float64
    assert np.isfinite(said).all()
    assert np.mean((said - target) ** 2) <= 1.1 * np.var(target)
    back = restore(dump(model))
    assert np.array_equal(predict(back, x), said)
    assert np.array_equal(predict(back, new), predict(model, new))
    assert predict(model, new[:0]).shape == (0,)
    assert np.array_equal(predict(fitted(text, x, target), new), predict(model, new))


@pytest.mark.parametrize("text", AGENTS)
def test_a_target_or_columns_that_do_not_vary_are_the_mean(text: str) -> None:
    x, target = rows(30)
    assert np.array_equal(predict(fitted(text, x, np.full(30, 2.5)), x), np.full(30, 2.5))
    np.testing.assert_allclose(predict(fitted(text, np.full((30, 2), 7.0), target), np.ones((4, 2))), target.mean())
    assert predict(fitted(text, x[:1], target[:1]), x).tolist() == [target[0]] * 30


@pytest.mark.parametrize("n", [3, 5, 19])
@pytest.mark.parametrize("text", METHODS)
def test_fewer_rows_than_two_leaves(text: str, n: int) -> None:
    x, target = rows(n)
    said = predict(fitted(text, x, target, min_leaf=10), x)
    if text in ("tree", "rf", "gb", "hgb"):
        np.testing.assert_allclose(said, target.mean())


@pytest.mark.parametrize("scale", few([1e-12, 1e12]))
@pytest.mark.parametrize("text", METHODS)
def test_residuals_of_any_size(text: str, scale: float) -> None:
    x, target = rows()
    said, scaled = (predict(fitted(text, x, size * target), x) / size for size in (1.0, scale))
    if text not in ("nn", "tree", "rf", "gb", "hgb"):  # their ties and their search follow rounding errors
        np.testing.assert_allclose(scaled, said, atol=1e-6)
    assert np.mean((scaled - target) ** 2) <= 1.1 * np.var(target)


def test_a_tree_is_limited_by_its_leaf_alone() -> None:
    x, target = rows(2000)
    model = fitted("tree", x, target, min_leaf=40)
    assert type(model) is DecisionTreeRegressor
    sizes = np.unique(model.apply(x), return_counts=True)[1]
    assert sizes.min() >= 40
    assert len(sizes) > 20
    expected = DecisionTreeRegressor(min_samples_leaf=40, random_state=1).fit(x, target).predict(x)
    assert np.array_equal(predict(model, x), expected)


def test_what_cannot_be_fitted_or_asked() -> None:
    x, target = rows()
    with pytest.raises(
        MethodError, match=r"^agent sklearn\.linear_model\.MultiTaskLasso: cannot be fitted to 90 rows of"
    ):
        fitted("sklearn.linear_model.MultiTaskLasso", x, target)
    with pytest.raises(MethodError, match="there is no row to fit"):
        fitted("tree", x[:0], target[:0])
    with pytest.raises(MethodError, match="agent DecisionTreeRegressor: cannot predict 90 rows: ValueError"):
        predict(fitted("tree", np.hstack([x, x]), target), x)
    outside = fitted("sklearn.isotonic.IsotonicRegression", x, target)
    with pytest.raises(MethodError, match="does not predict one finite number for every row"):
        predict(outside, x + 1000)


# -- what is kept -----------------------------------------------------------------------------------------------------


@dataclass
class Foreign:
    number: int = 1


def test_only_types_of_the_three_packages_are_restored(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=rf"holds {re.escape(__name__)}\.Foreign, which is not of scikit-learn"):
        restore(skops_io().dumps({"models": [Foreign()]}))
    for data in (b"", b"no file", dump(LinearRegression())[:-30]):
        with pytest.raises(ModelFileError, match="is no skops file that can be read here"):
            restore(data)


def site(directory: Path | None, *, simulated: bool = False, model: str = "", name: str = "bank") -> Site:
    node: dict[str, Any] = {} if directory is None else {"site-output-dir": str(directory)}
    node |= {"partition-id": 0, "num-partitions": 1} if simulated else {"site": name}
    context = Context(
        run_id=7,
        node_id=1,
        node_config=node,
        state=RecordDict({"none": ConfigRecord()}),
        run_config={"from": model, "scenario": "", "output-dir": ""},
    )
    return Site.open(name, context, Ask("s", 1, 0, {}))


def kept() -> tuple[SavedModel, np.ndarray]:
    x, target = rows(p=2)
    parts = tuple((weight, fitted(text, x, target)) for weight, text in ((0.5, "tree"), (-0.25, "nn"), (1.0, "lr")))
    return SavedModel(("age", "colour=red"), {"colour": ("red",)}, parts), x


def test_a_kept_model_predicts_as_it_did(tmp_path: Path) -> None:
    model, x = kept()
    expected = sum(weight * predict(part, x) for weight, part in model.parts)
    np.testing.assert_allclose(model.predict(x)[:, 0], expected, rtol=1e-12)
    save_agent(site(tmp_path), "123", model)
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["123.skops"]
    back = load_agent(site(tmp_path), "123")
    assert (back.features, back.categories) == (model.features, model.categories)
    assert [weight for weight, _ in back.parts] == [0.5, -0.25, 1.0]
    assert np.array_equal(back.predict(x), model.predict(x))
    assert np.array_equal(SavedModel((), {}, ()).predict(x), np.zeros((len(x), 1)))


def test_in_a_simulation_the_model_lies_in_the_earlier_results(tmp_path: Path) -> None:
    model, x = kept()
    save_agent(site(tmp_path / "sites" / "bank"), "123", model)
    later = site(None, simulated=True, model=str(tmp_path))
    assert np.array_equal(load_agent(later, "123").predict(x), model.predict(x))


def test_what_was_not_kept(tmp_path: Path) -> None:
    model, _ = kept()
    save_agent(site(None), "123", model)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "shop.skops").write_bytes(dump(LinearRegression()))
    (tmp_path / "models" / "torn.skops").write_bytes(b"PK")
    for directory, run in ((None, "123"), (tmp_path, "123"), (tmp_path, "shop"), (tmp_path, "torn")):
        with pytest.raises(SiteFault) as refused:
            load_agent(site(directory), run)
        assert refused.value.fault == Fault.NO_SAVED_MODEL
    for run in ("../123", "a/b", "", ".."):
        with pytest.raises(SiteFault) as refused:
            load_agent(site(tmp_path), run)
        assert refused.value.fault == Fault.MALFORMED_ASK
