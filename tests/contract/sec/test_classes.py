"""Runs whose outcome is a class: sites of two relations, one of which lacks a class."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from consilience.predict.interface import RequestError
from consilience.predict.new_rows import predict_file
from numerics.shared.classification import classification_scores
from numerics.shared.classifiers import probabilities_of
from protocols.models import decode_model
from server.results import load
from tests.support.runs import outcome_of, run
from tests.support.sec_sites import deployed_sites, own_data_config, write_files

pytestmark = pytest.mark.usefixtures("quick")

CLASSES = np.array(["mild", "none", "severe"])
SLOPES = np.array([[3.0, 0.0, -3.0], [0.0, 3.0, 0.0], [-3.0, -3.0, 3.0]])
GROUPS = [0, 1, 0, 1, 0, 1]
NAMES = [f"lab-{place}" for place in range(len(GROUPS))]


def rows(group: int, n: int, seed: int, classes: int = 3) -> pd.DataFrame:
    """Rows of a site; the second group has the classes in another order, and a site may lack the last of them."""
    rng = np.random.default_rng([seed, group])
    x = rng.normal(size=(n, 3))
    scores = x @ SLOPES + rng.gumbel(size=(n, 3))
    drawn = scores[:, :classes].argmax(axis=1)
    labels = CLASSES[:classes][(drawn + group) % classes]
    return pd.DataFrame(x, columns=list("abc")).assign(y=labels)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    frames = {
        name: rows(group, 75, place, classes=2 if place == 4 else 3)
        for place, (name, group) in enumerate(zip(NAMES, GROUPS, strict=True))
    }
    return write_files(tmp_path / "labs", frames)


def test_sites_of_one_relation_find_each_other_and_predict_together(tmp_path: Path, folder: Path) -> None:
    test = pd.concat([rows(0, 400, 99)])
    test.to_csv(folder / "_test.csv", index=False)
    path = run(own_data_config(tmp_path, folder), len(GROUPS))
    report, arrays = load(path)
    labels = arrays["labels"]
    assert labels[0] == labels[2] != labels[1] == labels[3] == labels[5]
    assert report.rounds == 3
    assert arrays["classes"].tolist() == CLASSES.tolist()
    assert report.metrics["n_classes"] == 3
    assert report.metrics["log_loss_cluster"] < report.metrics["log_loss_all"]
    assert arrays["confusion"].sum() == arrays["reliability"][0].sum() == len(test) * len(GROUPS)
    models = [decode_model(arrays[f"model_{place}"], len(arrays[f"classes_{place}"])) for place in range(len(GROUPS))]
    places = [arrays[f"classes_{place}"] for place in range(len(GROUPS))]
    x, y = test[list("abc")].to_numpy(), np.searchsorted(CLASSES, test["y"])
    alone = probabilities_of(models, x, places, len(CLASSES), arrays["n"].astype(float).tolist())
    losses = [classification_scores(p, y)["log_loss"].value for p in alone]
    assert report.metrics["log_loss_test_alone"] == pytest.approx(np.mean(losses))

    test.to_csv(tmp_path / "new.csv", index=False)
    told = predict_file(path, str(tmp_path / "new.csv"), [f"cluster={labels[0]}"])
    p = np.column_stack([told.columns[f"prediction_{label}"] for label in CLASSES])
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-9)
    assert told.columns["prediction"].tolist() == CLASSES[p.argmax(axis=1)].tolist()
    scores = classification_scores(p, np.searchsorted(CLASSES, test["y"]))
    assert scores["auc"].value > 0.9
    said = re.search(r"log loss ([\d.]+) ", told.lines[-1])
    assert said is not None
    assert float(said[1]) == pytest.approx(scores["log_loss"].value, abs=0.05)
    with pytest.raises(RequestError, match="threshold is for two classes, and the run has 3"):
        predict_file(path, str(tmp_path / "new.csv"), ["threshold=0.3"])


def test_real_sites_keep_their_scores(tmp_path: Path, folder: Path) -> None:
    settings, nodes = deployed_sites(tmp_path, folder, NAMES)
    report, arrays = load(run(settings, nodes))
    assert "log_loss_cluster" in report.metrics
    assert not any(name.startswith(("auc", "brier", "accuracy")) for name in report.metrics)
    assert "confusion" not in arrays
    own = pd.read_csv(tmp_path / "home" / "lab-0" / "answers.csv")
    assert {"log_loss", "auc", "brier", "calibration_error"} <= set(own.columns)
    assert own["auc"].between(0, 1).all()


def test_a_learners_own_power_is_in_what_it_is_recommended(tmp_path: Path, folder: Path) -> None:
    path = run(own_data_config(tmp_path, folder), len(GROUPS))
    report, arrays = load(path)
    assert set(arrays["recommended"].tolist()) <= {"alone", "cluster", "personal"}
    assert report.verdict["ways"][0]["metric"] == "log_loss_recommendation"
    assert report.metrics["auc_recommendation"] > report.metrics["auc_all"]
    test, name = rows(0, 300, 98), NAMES[0]
    test.to_csv(tmp_path / "new.csv", index=False)
    weights = path / "sites" / name / "personal.csv"
    written = pd.read_csv(weights)
    (power,) = set(written["power"])
    predicted = {}
    for each in (power, 1.0):
        written.assign(power=each).to_csv(tmp_path / "weights.csv", index=False)
        told = predict_file(path, str(tmp_path / "new.csv"), [f"weights={tmp_path / 'weights.csv'}"])
        predicted[each] = np.column_stack([told.columns[f"prediction_{label}"] for label in CLASSES])
    powers = predicted[1.0] ** power
    np.testing.assert_allclose(predicted[power], powers / powers.sum(axis=1, keepdims=True), rtol=1e-6)
    again = predict_file(path, str(tmp_path / "new.csv"), [f"weights={weights}"])
    assert again.columns["prediction_none"].tolist() == predicted[power][:, 1].tolist()
    written.drop(columns="power").to_csv(tmp_path / "weights.csv", index=False)
    with pytest.raises(RequestError, match="power"):
        predict_file(path, str(tmp_path / "new.csv"), [f"weights={tmp_path / 'weights.csv'}"])


def test_the_own_power_of_a_real_site_is_in_its_files_and_in_no_answer(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports, files = [], []
    for power in (0.25, 4.0):
        monkeypatch.setattr("clients.sec.handlers.own_power", lambda *_, power=power: np.array(power))
        settings, nodes = deployed_sites(tmp_path / str(power), folder, NAMES)
        reports.append(load(run(settings, nodes))[0])
        home = tmp_path / str(power) / "home" / NAMES[0]
        files.append(pd.read_csv(home / "answers.csv", index_col="prediction")["log_loss"])
        assert set(pd.read_csv(home / "personal.csv")["power"]) == {power}
    assert reports[0].metrics == reports[1].metrics
    assert reports[0].differences == reports[1].differences
    assert files[0]["personal"] != files[1]["personal"]
    assert files[0]["cluster"] == files[1]["cluster"]


def test_targets_that_do_not_fit_end_the_run_in_one_sentence(tmp_path: Path, folder: Path) -> None:
    settings, nodes = deployed_sites(tmp_path, folder, NAMES)
    rows(0, 40, 5).assign(y=np.random.default_rng(0).normal(size=40)).to_csv(folder / "lab-3.csv", index=False)
    outcome = outcome_of(settings, nodes)
    left_out = "left out: its target 'y' holds amounts; most sites have classes: set task there"
    assert outcome.report is not None
    assert left_out in outcome.report.missing["lab-3"][0]
    tie = outcome_of(settings, [nodes[0], nodes[3]])
    assert "the target 'y' holds classes at lab-0 and amounts at lab-3; set task=regression or" in tie.text
    pooled = outcome_of({**settings, "sec.combine": "pooled-linear"}, nodes[:3])
    assert "sec.combine=pooled-linear is for amounts, and y has classes; set sec.combine=average" in pooled.text


@pytest.mark.parametrize("real", [False, True])
def test_a_class_of_one_row_is_learned_wherever_the_row_is(tmp_path: Path, folder: Path, real: bool) -> None:
    """Held out, the row left a model without the class, which nobody could read."""
    for place, name in enumerate(NAMES):
        frame = pd.read_csv(folder / f"{name}.csv")
        frame.loc[7 * place, "y"] = "dead"  # before the other classes, so that their numbers move
        frame.to_csv(folder / f"{name}.csv", index=False)
    settings, nodes = deployed_sites(tmp_path, folder, NAMES) if real else (own_data_config(tmp_path, folder), 6)
    report, arrays = load(run(settings, nodes))
    assert report.sites == NAMES
    assert arrays["classes"].tolist() == ["dead", *CLASSES]
    for place in range(len(NAMES)):
        assert arrays[f"classes_{place}"][0] == 0
        decode_model(arrays[f"model_{place}"], len(arrays[f"classes_{place}"]))


def test_learners_without_held_out_rows_predict_by_their_own_weights_and_power(tmp_path: Path) -> None:
    frames = {name: rows(group, 20, place) for place, (name, group) in enumerate(zip(NAMES, GROUPS, strict=True))}
    path = run(own_data_config(tmp_path, write_files(tmp_path / "labs", frames)), len(GROUPS))
    _, arrays = load(path)
    assert arrays["recommended"].tolist() == ["personal"] * len(NAMES)
    rows(0, 30, 7).to_csv(tmp_path / "new.csv", index=False)
    for name in NAMES[:2]:
        own = pd.read_csv(path / "sites" / name / "personal.csv")
        assert own["power"].nunique() == 1
        told = predict_file(path, str(tmp_path / "new.csv"), [f"learner={name}"])
        assert told.lines[0].startswith("personal: ")
