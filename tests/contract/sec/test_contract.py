"""Select-Exchange-Cluster as a whole: the contract of every strategy, and what its users are promised."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.svm import NuSVR

from numerics.sec.cluster_assignment import same_partition
from protocols.models import decode_model
from protocols.sec.payloads import Errors, Exchange, FittedModel, Losses, Pool, Predict, Rows, Select
from protocols.wire.message import find
from server.results import load
from strategies.errors import FusionError
from tests.support.contract import StrategyContract
from tests.support.parameters import few
from tests.support.runs import Nodes, outcome_of, run_once, run_with_grid
from tests.support.sec_sites import draw_rows, forgery, own_data_config, write_files, write_sites
from tests.support.tampering import parcels_of, silent

GROUPS = [0, 1, 0, 1, 0]

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_sites(tmp_path / "labs", GROUPS)


class Contract(StrategyContract):
    protocol = "sec"
    outputs: tuple[str, ...] = ("collaborators.csv",)
    combine = "average"

    def run_config(self, tmp_path: Path) -> dict[str, Any]:
        return own_data_config(tmp_path, write_sites(tmp_path / "labs", GROUPS), sec__combine=self.combine)

    def nodes(self) -> Nodes:
        return len(GROUPS)

    def test_names_of_the_sites_do_not_matter(self, tmp_path: Path, whole: Path) -> None:
        """Arrays are in the order of the names; apart from that, nothing depends on them."""
        expected, wanted = load(whole)
        names = ["zoe", "adam", "mia", "bob", "eve"]
        settings = self.run_config(tmp_path)
        for place, name in enumerate(names):
            (Path(settings["data"]) / f"lab-{place}.csv").rename(Path(settings["data"]) / f"{name}.csv")
        report, arrays = load(run_with_grid(settings, self.nodes())[0])
        order = np.argsort(names)
        assert arrays["learners"].tolist() == sorted(names)
        assert report.metrics == pytest.approx(expected.metrics, rel=1e-12)
        for name in ("dissimilarity", "similarity"):
            np.testing.assert_array_equal(arrays[name], wanted[name][np.ix_(order, order)])
        np.testing.assert_array_equal(arrays["eigenvalues"], wanted["eigenvalues"])
        assert same_partition(arrays["labels"], wanted["labels"][order])


class TestAverage(Contract):
    pass


@pytest.mark.slow
class TestPooled(Contract):
    combine = "pooled-linear"


@pytest.mark.slow
class TestPooledRows(Contract):
    combine = "pooled-rows"


# -- what it finds ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("candidates", few(["rf lr", "lr", "ridge lasso"]))
@pytest.mark.parametrize("standardize", few(["model", "learner", "none"]))
def test_two_planted_groups_are_found(tmp_path: Path, folder: Path, candidates: str, standardize: str) -> None:
    # Standardized each by its own means, the relations of one group differ a little, and held-out errors tell.
    rule = "eigengap" if standardize == "learner" else "held-out"
    settings = {"sec__candidates": candidates, "sec__standardize": standardize, "sec__k_method": rule}
    path, _ = run_once(own_data_config(tmp_path, folder, **settings), len(GROUPS))
    report, arrays = load(path)
    assert arrays["labels"].tolist() == GROUPS
    assert arrays["learners"].tolist() == [f"lab-{place}" for place in range(len(GROUPS))]
    assert report.rounds == 3
    assert report.metrics["n_clusters"] == 2
    assert max(report.metrics["mse_cluster"], report.metrics["mse_alone"]) < report.metrics["mse_all"]
    assert [row["who"] for row in report.table] == ["lab-0, lab-2, lab-4", "lab-1, lab-3"]


def test_every_site_learns_whom_it_belongs_with(tmp_path: Path, folder: Path) -> None:
    path, _ = run_once(own_data_config(tmp_path, folder), len(GROUPS))
    n, errors = (load(path)[1][name][[1, 3]] for name in ("n", "errors"))
    told = pd.read_csv(path / "sites" / "lab-3" / "collaborators.csv")
    assert told["learner"].tolist() == ["lab-1", "lab-3"]
    assert told["cluster"].tolist() == [1, 1]
    assert told["rows"].tolist() == [41, 43]
    np.testing.assert_allclose(told["weight"], (n / errors) / (n / errors).sum(), rtol=1e-12)


def test_a_pooled_regression_is_the_one_of_all_rows(tmp_path: Path, folder: Path) -> None:
    settings = own_data_config(tmp_path, folder, sec__combine="pooled-linear", sec__holdout=0.0)
    rows = [pd.read_csv(folder / f"lab-{place}.csv") for place in range(len(GROUPS))]
    test = pd.concat([draw_rows(0, 50, 99), draw_rows(1, 50, 99)])
    test.to_csv(folder / "_test.csv", index=False)
    report, _ = load(run_once(settings, len(GROUPS))[0])

    def error(of: list[int]) -> float:
        pooled = pd.concat([rows[place] for place in of])
        model = LinearRegression().fit(pooled[list("abc")].to_numpy(), pooled["y"])
        return float(np.mean((model.predict(test[list("abc")].to_numpy()) - test["y"]) ** 2))

    assert report.metrics["mse_test_all"] == pytest.approx(error([0, 1, 2, 3, 4]), rel=1e-9)
    by_cluster = {row["cluster"]: row["mse_test_cluster"] for row in report.table}
    assert by_cluster[0] == pytest.approx(error([0, 2, 4]), rel=1e-9)
    assert by_cluster[1] == pytest.approx(error([1, 3]), rel=1e-9)


def fit_linear(rows: pd.DataFrame) -> LinearRegression:
    return LinearRegression().fit(rows[list("abc")].to_numpy(), rows["y"])


def leave_one_out(rows: pd.DataFrame) -> float:
    """The mean squared error of every row by the model of the others."""
    residuals = []
    for place in range(len(rows)):
        model, row = fit_linear(rows.drop(index=rows.index[place])), rows.iloc[[place]]
        residuals.append(float((model.predict(row[list("abc")].to_numpy()) - row["y"]).iloc[0]))
    return float(np.mean(np.square(residuals)))


@pytest.mark.parametrize("rule", ["precision", "rows"])
def test_the_mean_of_eq_5_is_weighted(tmp_path: Path, rule: str) -> None:
    """Two learners of one relation, of very unequal size and noise."""
    folder = tmp_path / "labs"
    folder.mkdir()
    rows = [draw_rows(0, n, n, noise) for n, noise in ((10, 0.4), (200, 0.9))]
    for place, each in enumerate(rows):
        each.to_csv(folder / f"lab-{place}.csv", index=False)
    test = draw_rows(0, 60, 7)
    test.to_csv(folder / "_test.csv", index=False)
    settings = own_data_config(tmp_path, folder, sec__holdout=0.0, sec__k=1, sec__weights=rule)
    report, _ = load(run_once(settings, 2)[0])
    predictions = [fit_linear(each).predict(test[list("abc")].to_numpy()) for each in rows]
    weights = [len(each) / (leave_one_out(each) if rule == "precision" else 1) for each in rows]
    mixed = np.average(predictions, axis=0, weights=weights)
    assert report.metrics["mse_test_cluster"] == pytest.approx(float(np.mean((mixed - test["y"]) ** 2)), rel=1e-9)


@pytest.mark.parametrize("candidates", ["lr", "rf"])
def test_the_share_held_out_changes_no_model(tmp_path: Path, folder: Path, candidates: str) -> None:
    """A site's model is of all rows, as that of a user who learns alone."""
    models = []
    for share in (0.0, 0.2, 0.5):
        settings = own_data_config(tmp_path, folder, sec__candidates=candidates, sec__holdout=share)
        _, arrays = load(run_once(settings, len(GROUPS))[0])
        models.append([arrays[f"model_{place}"] for place in range(len(GROUPS))])
    for own in zip(*models, strict=True):
        for each in own[1:]:
            np.testing.assert_array_equal(each, own[0])
    if candidates == "lr":
        rows = pd.read_csv(folder / "lab-0.csv")
        x = rows[list("abc")].to_numpy()
        np.testing.assert_allclose(decode_model(models[1][0]).predict(x), fit_linear(rows).predict(x), rtol=1e-9)


def test_the_own_model_is_judged_on_held_out_rows_by_fits_without_them(tmp_path: Path, folder: Path) -> None:
    """The rows that are held out and the others have the errors of every row by the regression of all others."""
    path, _ = run_once(own_data_config(tmp_path, folder), len(GROUPS))
    _, arrays = load(path)
    for place, (error, n, held_out) in enumerate(zip(arrays["errors"], arrays["n"], arrays["held_out"], strict=True)):
        told = pd.read_csv(path / "sites" / f"lab-{place}" / "answers.csv", index_col="prediction")
        alone = told["mean_squared_error"]["alone"]
        total = error * (n - held_out) + alone * held_out
        assert total / n == pytest.approx(leave_one_out(pd.read_csv(folder / f"lab-{place}.csv")), rel=1e-9)


@pytest.mark.parametrize("classes", [False, True])
def test_no_model_that_knows_the_held_out_rows_predicts_them(tmp_path: Path, classes: bool) -> None:
    """The nearest neighbor knows its own rows by heart; of an outcome of noise it knows nothing else."""
    rng = np.random.default_rng(5)
    noise = rng.choice(["no", "yes"], 60) if classes else rng.normal(size=60)
    folder = write_files(tmp_path / "labs", {"lab-0": draw_rows(0, 60, 5).assign(y=noise)})
    settings = {"sec__candidates": "knn(n_neighbors=1)", "sec__allow_row_models": True}
    report, _ = load(run_once(own_data_config(tmp_path, folder, **settings), 1)[0])
    score = "log_loss" if classes else "mse"
    for way in ("alone", "cluster", "all", "personal"):
        assert report.metrics[f"{score}_{way}"] > 0.5  # which is that of noise, and 0 of rows that are known
    if classes:
        assert 0.2 < report.metrics["auc_cluster"] < 0.8


@pytest.mark.parametrize("reference", ["left-out", "fitted"])
def test_dissimilarity_is_that_of_the_learners_rows(tmp_path: Path, folder: Path, reference: str) -> None:
    """Eq. (3), from models fitted here on the same rows."""
    settings = {"sec__holdout": 0.0, "sec__reference": reference, "sec__k": 2}
    _, arrays = load(run_once(own_data_config(tmp_path, folder, **settings), len(GROUPS))[0])
    rows = [pd.read_csv(folder / f"lab-{place}.csv") for place in range(len(GROUPS))]
    models = [fit_linear(each) for each in rows]
    losses = np.array(
        [[np.mean((model.predict(each[list("abc")].to_numpy()) - each["y"]) ** 2) for each in rows] for model in models]
    )
    errors = np.diag(losses) if reference == "fitted" else np.array([leave_one_out(each) for each in rows])
    excess = np.abs(losses - errors)
    np.fill_diagonal(excess, 0.0)
    np.testing.assert_allclose(arrays["dissimilarity"], excess + excess.T, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(arrays["errors"], errors, rtol=1e-9)


def test_landmarks_find_the_same_groups_with_fewer_models(tmp_path: Path) -> None:
    groups = [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]
    folder = write_sites(tmp_path / "labs", groups)
    settings = own_data_config(tmp_path, folder, sec__exchange="landmarks", sec__landmarks=5)
    path, grid = run_with_grid(settings, len(groups))
    asked = [ask for direction, content in grid.crossed if direction == "to_site" for ask in parcels_of(content)]
    assert asked.count(Exchange) == len(groups)
    lines = [json.loads(line) for line in (path / "ledger.jsonl").read_text().splitlines()]
    sent = [line["fields"]["models"]["shape"] for line in lines if line["payload"] == "sec.Exchange"]
    assert all(len(models) == 5 for models in sent)
    _, arrays = load(path)
    assert arrays["labels"].tolist() == groups


# -- newcomers --------------------------------------------------------------------------------------------------------


def test_newcomers_are_assigned_and_change_nothing(tmp_path: Path, folder: Path) -> None:
    new = write_sites(tmp_path / "more", [*GROUPS, 1, 0])
    path, _ = run_with_grid(own_data_config(tmp_path, new, sec__newcomers="lab-5 lab-6"), len(GROUPS) + 2)
    _, arrays = load(path)
    assert arrays["labels"].tolist() == [*GROUPS, 1, 0]
    assert arrays["newcomer"].tolist() == [False] * 5 + [True] * 2
    _, alone = load(run_once(own_data_config(tmp_path, folder), len(GROUPS))[0])
    np.testing.assert_array_equal(arrays["eigenvalues"], alone["eigenvalues"])
    np.testing.assert_array_equal(arrays["similarity"][:5, :5], alone["similarity"])


# -- sites in trouble -------------------------------------------------------------------------------------------------


def test_a_poisoned_model_is_refused_by_learner_and_type(tmp_path: Path, folder: Path) -> None:
    from skops.io import dumps

    rows = draw_rows(0, 40, 0)
    poison = dumps(NuSVR().fit(rows[list("abc")].to_numpy(), rows["y"]))
    tamper = forgery(2, 1, "model", np.frombuffer(poison, np.uint8))
    report, arrays = load(run_with_grid(own_data_config(tmp_path, folder), len(GROUPS), tamper=tamper)[0])
    [line] = report.missing["lab-2"]
    assert line.startswith("round 1: refused: payload sec.FittedModel, field 'model': ")
    assert "NuSVR" in line
    assert "lab-2" not in arrays["learners"]
    assert arrays["labels"].tolist() == [0, 1, 1, 0]


def test_a_pickle_is_refused(tmp_path: Path, folder: Path) -> None:
    import pickle

    poison = np.frombuffer(pickle.dumps(LinearRegression()), np.uint8)
    report, _ = load(
        run_with_grid(own_data_config(tmp_path, folder), len(GROUPS), tamper=forgery(0, 1, "model", poison))[0]
    )
    assert "field 'model': " in report.missing["lab-0"][0]


def test_a_learner_that_did_not_exchange_keeps_a_one_sided_dissimilarity(tmp_path: Path, folder: Path) -> None:
    whole = load(run_once(own_data_config(tmp_path, folder), len(GROUPS))[0])[1]
    settings = own_data_config(tmp_path, folder, round_timeout=0.5)
    report, arrays = load(run_with_grid(settings, len(GROUPS), run_id=2, tamper=silent(1, [2]))[0])
    assert report.missing["lab-1"] == ["round 2: no answer within 0.5 s"]
    assert arrays["labels"].tolist() == GROUPS
    v, full = arrays["dissimilarity"], whole["dissimilarity"]
    others = [0, 2, 3, 4]
    np.testing.assert_array_equal(v[np.ix_(others, others)], full[np.ix_(others, others)])
    assert np.isfinite(v).all()
    assert (v[1, others] != full[1, others]).all()


@pytest.mark.usefixtures("unseen_files")
def test_other_columns_are_named_and_left_out(tmp_path: Path, folder: Path) -> None:
    pd.read_csv(folder / "lab-4.csv").rename(columns={"c": "colour"}).to_csv(folder / "lab-4.csv", index=False)
    report, arrays = load(run_once(own_data_config(tmp_path, folder), len(GROUPS))[0])
    assert report.missing["lab-4"] == [
        "left out: it lacks the input 'c' and it has the input 'colour', unlike most learners"
    ]
    assert arrays["labels"].tolist() == GROUPS[:4]


def test_nobody_to_cluster_is_one_line(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(FusionError, match="there is no learner to cluster: all are newcomers"):
        run_with_grid(own_data_config(tmp_path, folder, sec__newcomers="*"), len(GROUPS))


@pytest.mark.usefixtures("unseen_files")
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"target": ""}, r"\[bad-configuration\]"),
        ({"target": "z"}, r"\[missing-column\]"),
        ({"features": "a remark"}, r"\[not-numeric\]"),
        ({"features": "q*"}, r"\[missing-column\]"),
        ({"sec__candidates": "lr forest"}, r"\[bad-candidates\]"),
        ({"sec__candidates": "knn svr"}, r"\[rows-in-model\]"),
    ],
)
def test_what_is_wrong_with_a_site_is_told_by_its_code(
    tmp_path: Path, folder: Path, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(FusionError, match=told):
        run_with_grid(own_data_config(tmp_path, folder, **changes), len(GROUPS))


def test_a_node_chooses_its_own_candidates_and_what_its_models_hold(tmp_path: Path, folder: Path) -> None:
    settings = own_data_config(tmp_path, Path(), sec__candidates="lr knn")
    settings["data"] = ""
    nodes: list[dict[str, Any]] = [
        {"site": f"lab-{place}", "data": str(folder / f"lab-{place}.csv"), "target": "y"} for place in range(3)
    ]
    nodes[1] |= {"candidates": "ridge"}
    nodes[2] |= {"candidates": "knn", "allow-row-models": True, "site-output-dir": str(tmp_path / "out")}
    _, arrays = load(run_with_grid(settings, nodes)[0])
    assert arrays["methods"].tolist() == ["lr", "ridge", "knn"]
    kept = {path.stem for path in (tmp_path / "out" / "models").glob("*.skops")}
    assert kept == set(pd.read_csv(tmp_path / "out" / "collaborators.csv")["learner"])


def test_the_run_cannot_allow_what_a_real_site_did_not(tmp_path: Path, folder: Path) -> None:
    settings = own_data_config(tmp_path, Path(), sec__candidates="knn", sec__allow_row_models=True)
    settings["data"] = ""
    nodes = [{"site": "lab-0", "data": str(folder / "lab-0.csv"), "target": "y"}]
    assert "[rows-in-model]" in outcome_of(settings, nodes).text


def test_all_payloads_are_found_by_their_titles() -> None:
    for payload in (Select, FittedModel, Exchange, Losses, Pool, Rows, Predict, Errors):
        assert find(payload.title()) is payload
