"""Runs whose outcome is a class: at the center, at a site, by boosting and by bins, and predictions later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from server.results import load
from tests.support.grid import prediction_config
from tests.support.parameters import few
from tests.support.residual_sites import (
    COLUMNS,
    customers,
    deployed_sites,
    learn,
    own_data_config,
    write_world,
)
from tests.support.runs import outcome_of, run

pytestmark = pytest.mark.usefixtures("quick")

SETTINGS: dict[str, Any] = {"residual__stop": "held-out", "residual__rounds": 6}


def patients(k: int, n: int = 300) -> pd.DataFrame:
    """The customers with an outcome of k classes."""
    people = customers(n)
    grade = np.argsort(np.argsort(people["y"])) * k // n
    return people.assign(y=np.array(["mild", "none", "severe"])[grade])


@pytest.mark.parametrize("algorithm", few(["boosted", "bins"]))
def test_the_center_and_a_site_learn_the_same_classes(tmp_path: Path, algorithm: str) -> None:
    """Equal to the bit; and the stored models predict the same rows alike, with probabilities."""
    people = patients(3 if algorithm == "boosted" else 2)
    settings = {**SETTINGS, "residual__algorithm": algorithm, "residual__baselines": algorithm == "boosted"}
    outcomes = {}
    for holder in ("", "bank"):
        folder = write_world(tmp_path / f"files{holder}", people=people, holder=holder, shuffle=None)
        config, nodes = deployed_sites(tmp_path / f"at-{holder}", folder, holder=holder, **settings)
        report, arrays, path = learn(config, [{**node, "allow-bins": True} for node in nodes])
        outcomes[holder] = report, arrays
        classes = sorted(set(people["y"]))
        assert report.metrics["auc"] > 0.7
        assert report.metrics["log_loss"] < np.log(len(classes))
        later = prediction_config(config, path)
        told = run(later, [{**node, "allow-bins": True} for node in nodes])
        if holder:
            table = pd.read_csv(tmp_path / "at-bank" / "home" / "bank" / "predictions.csv")
            predicted = table.set_index("entity").loc[people["customer"]]
        else:
            found = load(told)[1]
            names = ["prediction", *(f"prediction_{each}" for each in classes)]
            predicted = pd.DataFrame({name: found[name] for name in names}, index=found["entity"])
            predicted = predicted.loc[people["customer"]]
            assert report.metrics["n_classes"] == len(classes)
        outcomes[f"{holder} later"] = predicted  # type: ignore[assignment]
        p = predicted[[f"prediction_{each}" for each in classes]].to_numpy()
        np.testing.assert_allclose(p.sum(axis=1), 1)
        assert predicted["prediction"].tolist() == np.array(classes)[p.argmax(axis=1)].tolist()
    center, site = (outcomes[holder][0].metrics for holder in ("", "bank"))
    for name in ("log_loss", "auc", "brier", "calibration_error", "accuracy", "train_log_loss", "iterations"):
        assert center[name] == site[name], name
    assert outcomes[" later"].equals(outcomes["bank later"].loc[outcomes[" later"].index])  # type: ignore[attr-defined]
    assert "confusion" in outcomes[""][1]
    assert "confusion" not in outcomes["bank"][1]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"residual__algorithm": "greedy"}, "residual.algorithm=greedy learns amounts: set residual.algorithm=boosted"),
        ({"residual__topology": "ring"}, "residual.algorithm=sip learns amounts"),
        ({"task": "regression"}, "is text where a number belongs"),
    ],
)
def test_classes_where_amounts_are_learned_are_refused(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    folder = write_world(tmp_path / "files", people=patients(2), holder="bank")
    outcome = outcome_of(own_data_config(tmp_path, folder, **changes), len(COLUMNS))
    assert text in outcome.text


@pytest.mark.parametrize("holder", ["", "bank"])
def test_a_single_class_is_refused_before_anything_starts(tmp_path: Path, holder: str) -> None:
    folder = write_world(tmp_path / "files", people=patients(2).assign(y="mild"), holder=holder)
    outcome = outcome_of(own_data_config(tmp_path, folder, residual__algorithm="boosted"), len(COLUMNS))
    assert "the class 'mild'" in outcome.text or "one class" in outcome.text
