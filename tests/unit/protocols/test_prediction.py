"""The configuration of a run that predicts, from the report of the run that has learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from common.settings import Config
from protocols.prediction import PredictionError, prediction_of, read_report, resolve, suggestion_key
from protocols.settings import checked, declared

OWN = {"data": "/then", "target": "y", "id": "case"}


def learned(folder: Path, protocol: str, **changes: Any) -> Path:
    """Results of a run, as far as a prediction reads them."""
    config = {**declared(), "protocol": protocol, "seed": 3, **OWN, **changes}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps({"protocol": protocol, "config": config}))
    return folder


def predicting(results: Path, **changes: Any) -> Config:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in changes.items()}
    return resolve({**declared(), "scenario": "predict", "from": str(results), **named})


def test_a_run_that_learns_is_as_it_is() -> None:
    assert resolve(declared()) == declared()


def test_a_prediction_has_the_settings_of_its_run(tmp_path: Path) -> None:
    results = learned(tmp_path / "7", "residual", **{"residual.align": "row-order", "min-sites": 3, "cells": "x"})
    config = predicting(results, data="/now", id="customer")
    assert checked(config) == config
    assert (config["protocol"], config["from"], config["seed"]) == ("residual", str(results), 3)
    assert (config["target"], config["id"], config["data"]) == ("y", "customer", "/now")
    assert (config["residual.align"], config["min-sites"], config["cells"]) == ("row-order", 1, "")
    assert predicting(results)["data"] == "", "the data of then are not those of now"


def test_bc3e_sums_nothing(tmp_path: Path) -> None:
    results = learned(tmp_path / "7", "bc3e", **{"secure-aggregation": True, "bc3e.max-rounds": 9})
    config = predicting(results, bc3e__allow_single_model=True)
    assert config["secure-aggregation"] is False
    assert (config["bc3e.max-rounds"], config["bc3e.allow-single-model"]) == (9, True)


def test_gp_has_the_rows_of_then_and_new_points(tmp_path: Path) -> None:
    results = learned(tmp_path / "7", "gp", **{"gp.fit-rounds": 2, "gp.kernel": "matern32", "gp.covariance": "inputs"})
    config = predicting(results, data="/points.csv")
    assert (config["protocol"], config["data"], config["gp.queries"]) == ("gp", "/then", "/points.csv")
    assert (config["gp.kernel"], config["gp.fit-rounds"]) == ("", 15), "these are about learning"
    assert config["gp.covariance"] == "inputs"
    assert predicting(results, gp__queries="/points.csv") == config
    other = predicting(results, data="/points.csv", gp__aggregation="poe")
    assert (other["gp.aggregation"], other["gp.covariance"]) == ("poe", ""), "no rule but npae has covariances"


def test_a_scenario_of_gp_draws_its_rows_and_points_again(tmp_path: Path) -> None:
    of_scenario = {"protocol": "", "scenario": "gp-synthetic", "cells": "K=3", "data": ""}
    results = learned(tmp_path / "7", "gp")
    (results / "report.json").write_text(
        json.dumps({"protocol": "gp", "config": {**declared(), **of_scenario, "gp.rows": 300}})
    )
    config = predicting(results)
    assert {key: config[key] for key in of_scenario} == of_scenario
    assert config["gp.rows"] == 300


@pytest.mark.parametrize(
    ("protocol", "changes", "message"),
    [
        ("bc3e", {"scenario": "bc3e-wine"}, 'from is for scenario="predict": set that, or leave from out'),
        ("bc3e", {"from": ""}, 'scenario="predict" needs from="RESULTS-DIR", the results of the run that has learned'),
        ("bc3e", {"from": "/nowhere"}, "from: /nowhere holds no report.json of a run; give OUTPUT-DIR/NAME/RUN-ID"),
        ("bc3e", {"protocol": "gp"}, "protocol: a prediction has the protocol of the run that from names; leave it"),
        ("bc3e", {"repetitions": 3}, "repetitions: there is one prediction of a row; leave it out"),
        ("bc3e", {"seed": 4}, "seed: a prediction has the seed of the run that from names; leave it out"),
        ("bc3e", {"secure_aggregation": True}, "secure-aggregation: a prediction of bc3e sums nothing over sites;"),
        ("bc3e", {"bc3e__distribution": "column"}, "bc3e.distribution: a prediction learns nothing, and has the"),
        ("bc3e", {"sec__join": "/6"}, "sec.join: the run that from names is one of bc3e; leave it out"),
        ("gp", {}, 'a prediction of gp needs data="FILE", the points to predict at'),
        ("gp", {"data": "/a", "gp__queries": "/b"}, "data and gp.queries both name the file of the points to predict"),
        (
            "coreset",
            {},
            "from: what coreset has learned is at the fusion center, and no site need answer: type consilience",
        ),
        ("fedavg", {}, "from: results of fedavg cannot predict"),
    ],
)
def test_what_no_prediction_can_have(tmp_path: Path, protocol: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PredictionError) as refused:
        predicting(learned(tmp_path / "7", protocol), **changes)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def test_predictions_are_nothing_to_predict_by(tmp_path: Path) -> None:
    results = learned(tmp_path / "7", "bc3e", **{"from": "/6"})
    with pytest.raises(PredictionError, match=r"are predictions themselves; name the run that has learned$"):
        predicting(results)


@pytest.mark.parametrize("text", ["", "[]", '{"protocol": 3, "config": {}}', '{"protocol": "gp"}'])
def test_what_is_no_report(tmp_path: Path, text: str) -> None:
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(PredictionError, match=r"holds no report\.json of a run"):
        read_report(tmp_path)


def test_how_each_protocol_predicts() -> None:
    found = {name: prediction_of(name) for name in ("bc3e", "coreset", "gp", "residual", "sec")}
    assert [name for name, each in found.items() if each and each.at_center] == ["coreset", "sec"]
    assert [name for name, each in found.items() if each and not each.new_rows] == ["gp"]
    assert prediction_of("fedavg") is None


def test_some_protocols_say_where_to_measure_next(tmp_path: Path) -> None:
    key = suggestion_key(learned(tmp_path / "gp", "gp"))
    assert type(declared()[key]) is bool
    with pytest.raises(PredictionError, match="results of sec, which does not say where to measure next"):
        suggestion_key(learned(tmp_path / "sec", "sec"))
