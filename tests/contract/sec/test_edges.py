"""Select-Exchange-Cluster where there is little to learn from, nothing to tell apart, or a site that is far off."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import Message
from sklearn.linear_model import LinearRegression

from clients.sec import handlers, shard
from common.settings import ConfigError
from protocols.models import encode_model
from protocols.sec.payloads import MOST_ROWS
from scenarios.registry import ScenarioError, find
from server.report.data import Report
from server.report.summary import render_table
from server.results import load
from tests.support.grid import Tamper, config
from tests.support.parameters import few
from tests.support.runs import run
from tests.support.sec_sites import draw_rows, forgery, own_data_config, write_files

GROUPS = [0, 1, 0, 1, 0]
ERRORS = ("mse_alone", "mse_cluster", "mse_all")


pytestmark = pytest.mark.usefixtures("quick")


def learn(
    tmp_path: Path, frames: Mapping[str, pd.DataFrame], tamper: Tamper | None = None, **changes: Any
) -> tuple[Report, dict[str, np.ndarray]]:
    """A whole run on these sites' rows; its report and arrays."""
    folder = write_files(tmp_path / f"labs {len(list(tmp_path.iterdir()))}", frames)
    n_sites = sum(not name.startswith("_") for name in frames)
    return load(run(own_data_config(tmp_path, folder, **changes), n_sites, tamper=tamper))


def draw_frames(n: int = 40) -> dict[str, pd.DataFrame]:
    return {f"lab-{place}": draw_rows(group, n + place, place) for place, group in enumerate(GROUPS)}


# -- little to learn from ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"sec__k_method": "gap", "sec__k_min": 2},
        {"sec__k": 3},
        {"sec__exchange": "landmarks"},
        {"sec__combine": "pooled-linear"},
    ],
)
def test_a_single_learner_is_a_cluster(tmp_path: Path, changes: dict[str, Any]) -> None:
    report, arrays = learn(tmp_path, {"lab-0": draw_rows(0, 40, 0)}, **changes)
    assert arrays["labels"].tolist() == [0]
    assert arrays["similarity"].tolist() == [[1.0]]
    assert report.metrics["mse_cluster"] == pytest.approx(report.metrics["mse_alone"], rel=1e-9)


def test_the_eigengap_of_two_learners_says_nothing_and_their_rows_refute_the_cluster(tmp_path: Path) -> None:
    two = {"lab-0": draw_rows(0, 40, 0), "lab-1": draw_rows(1, 40, 1)}
    report, arrays = learn(tmp_path, two, sec__k_method="eigengap")
    assert arrays["similarity"][0, 1] == pytest.approx(np.exp(-1))
    said = "two learners have one dissimilarity, and nothing to compare it with: set sec.k to 1 or 2"
    assert report.notes[0] == said
    assert set(arrays["recommended"].tolist()) <= {"alone", "personal"}  # whose weights leave the cluster by themselves
    assert report.metrics["mse_recommendation"] == report.metrics["mse_personal"] < report.metrics["mse_cluster"] / 10

    (tmp_path / "fitted").mkdir()
    report, arrays = learn(tmp_path / "fitted", two, sec__k_method="eigengap", sec__reference="fitted")
    (_, refuted) = report.notes
    assert arrays["recommended"].tolist() == ["alone"] * 2
    assert report.metrics["mse_recommendation"] == report.metrics["mse_alone"]
    assert report.verdict["decision"] == "do not join"
    assert refuted == (
        "lab-0, lab-1: better alone; on the rows held out there the error with others is larger by more than chance"
        " explains"
    )
    assert said in render_table(report)
    assert refuted in render_table(report)


def test_the_verdict_is_on_what_is_recommended_by_standard_errors_of_the_sites(tmp_path: Path) -> None:
    report, arrays = learn(tmp_path, {f"lab-{place}": draw_rows(place % 2, 60, place, 2.0) for place in range(6)})
    differences, variances = [], []
    for name, best in zip(arrays["learners"].tolist(), arrays["recommended"].tolist(), strict=True):
        told = pd.read_csv(next((tmp_path / "results").glob(f"**/sites/{name}/answers.csv")), index_col="prediction")
        assert told.index[told["recommended"] == "yes"].tolist() == [best]
        assert told["standard_error_of_difference"]["personal"] == 0
        differences.append(told["mean_squared_error"][best] - told["mean_squared_error"]["alone"])
        variances.append(told["standard_error_of_difference"][[best, "alone"]].sum() ** 2 if best != "alone" else 0.0)
    difference, error, n = arrays["paired_mse_alone"]
    assert difference == pytest.approx(np.mean(differences), rel=1e-6)
    assert difference == pytest.approx(report.metrics["mse_recommendation"] - report.metrics["mse_alone"])
    assert error == pytest.approx(np.sqrt(sum(variances)) / 6, rel=1e-6)
    assert n == 6 * 12
    assert report.verdict["ways"][0]["metric"] == "mse_recommendation"


@pytest.mark.parametrize(("groups", "labels"), [((0, 1), [0, 1]), ((0, 0), [0, 0])])
def test_two_learners_are_judged_by_what_predicts(tmp_path: Path, groups: tuple[int, int], labels: list[int]) -> None:
    frames = {f"lab-{place}": draw_rows(group, 40, place) for place, group in enumerate(groups)}
    report, arrays = learn(tmp_path, frames)
    assert arrays["labels"].tolist() == labels
    assert report.notes == []


def test_two_rows_are_learned_from_and_none_is_held_out(tmp_path: Path) -> None:
    report, arrays = learn(tmp_path, {f"lab-{place}": draw_rows(0, 2, place) for place in range(4)})
    assert arrays["n"].tolist() == [2, 2, 2, 2]
    assert np.isfinite(arrays["similarity"]).all()
    assert report.metrics["n_measured"] == 0
    assert not set(ERRORS) & set(report.metrics)
    assert "mse" not in render_table(report)


@pytest.mark.parametrize("candidates", ["lr", "rf lr"])
def test_learners_of_very_unequal_size_are_told_apart_by_their_relation(tmp_path: Path, candidates: str) -> None:
    sizes = [60, 600, 90, 60, 400]
    frames = {
        f"lab-{place}": draw_rows(group, n, place) for place, (group, n) in enumerate(zip(GROUPS, sizes, strict=True))
    }
    report, arrays = learn(tmp_path, frames, sec__candidates=candidates)
    assert arrays["labels"].tolist() == GROUPS
    assert arrays["n"].tolist() == sizes
    assert arrays["held_out"].tolist() == [12, 120, 18, 12, 80]
    assert [row["rows"] for row in report.table] == [60 + 90 + 400, 600 + 60]


def test_a_site_of_very_many_rows_learns_from_a_sample_and_the_report_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (shard, handlers):
        monkeypatch.setattr(module, "MOST_ROWS", 100)
    frames = {"lab-0": draw_rows(0, 100, 0), "lab-1": draw_rows(1, 60, 1), "lab-2": draw_rows(0, 1000, 2)}
    report, arrays = learn(tmp_path, frames)
    assert arrays["n"].tolist() == [100, 60, 100]
    assert arrays["labels"].tolist() == [0, 1, 0]
    assert "lab-2 (100 of 1000 rows): learned from a sample, which is the same in all runs" in report.notes


# -- nothing to tell apart --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("candidates", few(["lr", "rf lr"]))
@pytest.mark.parametrize("combine", few(["average", "pooled-linear"]))
def test_learners_with_the_same_rows_are_one(tmp_path: Path, candidates: str, combine: str) -> None:
    same = draw_rows(0, 40, 0)
    frames = {f"lab-{place}": same for place in range(4)}
    settings = {"sec__candidates": candidates, "sec__combine": combine}
    assert learn(tmp_path, frames, **settings)[1]["labels"].tolist() == [0, 0, 0, 0]
    report, arrays = learn(tmp_path, frames, sec__reference="fitted", sec__k_method="eigengap", **settings)
    assert arrays["labels"].tolist() == [0, 0, 0, 0]
    assert not arrays["dissimilarity"].any()
    assert (arrays["similarity"] == 1).all()
    assert report.metrics["mse_cluster"] == pytest.approx(report.metrics["mse_all"], rel=1e-9)
    if combine == "average":
        assert report.metrics["mse_cluster"] == pytest.approx(report.metrics["mse_alone"], rel=1e-9)


@pytest.mark.parametrize("standardize", few(["model", "learner", "none"]))
@pytest.mark.parametrize("combine", few(["average", "pooled-linear"], 2))
@pytest.mark.parametrize("value", few([0.0, 5.0], 2))
def test_an_outcome_that_never_varies_is_one_relation(
    tmp_path: Path, standardize: str, combine: str, value: float
) -> None:
    frames = {name: rows.assign(y=value) for name, rows in draw_frames().items()}
    report, arrays = learn(
        tmp_path, frames, sec__standardize=standardize, sec__combine=combine, sec__candidates="rf lr"
    )
    assert arrays["labels"].tolist() == [0] * 5
    assert [report.metrics[name] for name in ERRORS] == pytest.approx([0, 0, 0], abs=1e-20)


def test_constants_that_differ_are_different_relations(tmp_path: Path) -> None:
    frames = {name: rows.assign(y=3.0 * GROUPS[i]) for i, (name, rows) in enumerate(draw_frames().items())}
    report, arrays = learn(tmp_path, frames)
    assert arrays["labels"].tolist() == GROUPS
    assert report.metrics["mse_cluster"] == pytest.approx(0, abs=1e-20)


@pytest.mark.parametrize("classes", [False, True])
def test_an_outcome_without_errors_does_not_rule_all_learners_together(tmp_path: Path, classes: bool) -> None:
    """A constant outcome or a single class has an error of 0, and a model that is no good elsewhere."""
    frames = {f"lab-{place}": draw_rows(0, 40, place) for place in range(5)}
    frames["lab-0"]["y"] = 9.0
    if classes:
        frames = {name: rows.assign(y=np.where(rows["y"] > 0, "yes", "no")) for name, rows in frames.items()}
    name = "log_loss_all" if classes else "mse_all"
    errors = [learn(tmp_path, frames, sec__weights=rule)[0].metrics[name] for rule in ("precision", "rows")]
    assert errors[0] < 1.5 * errors[1], "ten times and more if it ruled"


@pytest.mark.parametrize("candidates", ["lr", "rf lr"])
def test_a_learner_that_is_there_twice_is_with_itself(tmp_path: Path, candidates: str) -> None:
    frames = draw_frames()
    frames["lab-5"] = frames["lab-1"]
    assert learn(tmp_path, frames, sec__candidates=candidates)[1]["labels"].tolist() == [*GROUPS, 1]
    papers = {"sec__reference": "fitted", "sec__k_method": "eigengap"}
    _, arrays = learn(tmp_path, frames, sec__candidates=candidates, **papers)
    assert arrays["labels"].tolist() == [*GROUPS, 1]
    assert arrays["dissimilarity"][1, 5] == 0
    assert arrays["similarity"][1, 5] == 1
    np.testing.assert_array_equal(arrays["model_1"], arrays["model_5"])


@pytest.mark.parametrize("unit", few([1e-6, 1e4]))
@pytest.mark.parametrize("scale", few(["mean", "median"]))
def test_the_unit_of_the_outcome_changes_nothing(tmp_path: Path, unit: float, scale: str) -> None:
    """Also which rows are held out stays as it is: the errors are those of before in another unit."""
    frames = draw_frames()
    before, expected = learn(tmp_path, frames, sec__scale=scale)
    scaled = {name: rows.assign(y=unit * rows["y"]) for name, rows in frames.items()}
    after, arrays = learn(tmp_path, scaled, sec__scale=scale)
    assert arrays["labels"].tolist() == expected["labels"].tolist() == GROUPS
    np.testing.assert_allclose(arrays["similarity"], expected["similarity"], rtol=1e-9)
    for name in ERRORS:
        assert after.metrics[name] == pytest.approx(unit**2 * before.metrics[name], rel=1e-9)
    _, forests = learn(tmp_path, scaled, sec__scale=scale, sec__candidates="rf lr")
    assert forests["labels"].tolist() == GROUPS


# -- pooled regressions -----------------------------------------------------------------------------------------------


def pooled(tmp_path: Path, frames: Mapping[str, pd.DataFrame], test: pd.DataFrame) -> tuple[float, dict[str, float]]:
    """Error of everybody's pooled regression on test rows of the center, and its coefficients by input."""
    report, _ = learn(tmp_path, {**frames, "_test": test}, sec__combine="pooled-linear", sec__holdout=0.0, sec__k=1)
    [path] = (tmp_path / "results").glob("*/*/sites/lab-0/pooled.csv")
    table = pd.read_csv(path)
    return report.metrics["mse_test_all"], dict(zip(table["input"], table["coefficient"].tolist(), strict=True))


def expected_error(frames: Mapping[str, pd.DataFrame], test: pd.DataFrame, inputs: list[str]) -> float:
    rows = pd.concat(frames.values())
    model = LinearRegression().fit(rows[inputs].to_numpy(), rows["y"])
    return float(np.mean((model.predict(test[inputs].to_numpy()) - test["y"]) ** 2))


@pytest.mark.parametrize("constant", few([0.0, 0.1, 1e6 + 0.1, -1e-9], 2))
@pytest.mark.parametrize("offset", few([0.0, 1e6]))
def test_an_input_that_does_not_vary_has_no_slope(tmp_path: Path, constant: float, offset: float) -> None:
    """The mean of many 0.1 is not 0.1: what rounding leaves must not be taken for variation."""
    frames = {name: rows.assign(d=constant, y=rows["y"] + offset) for name, rows in draw_frames().items()}
    test = draw_rows(0, 50, 99).assign(d=constant + 0.6)
    test["y"] += offset
    error, coefficients = pooled(tmp_path, frames, test)
    assert coefficients["d"] == 0
    assert error == pytest.approx(expected_error(frames, test, list("abc")), rel=1e-6)
    assert error == pytest.approx(expected_error(frames, test, list("abcd")), rel=1e-6)


def test_an_input_that_varies_between_sites_alone_has_the_slope_of_all_rows(tmp_path: Path) -> None:
    frames = {name: rows.assign(d=0.1 * place) for place, (name, rows) in enumerate(draw_frames().items())}
    test = draw_rows(0, 50, 99).assign(d=0.7)
    error, coefficients = pooled(tmp_path, frames, test)
    assert coefficients["d"] != 0
    assert error == pytest.approx(expected_error(frames, test, list("abcd")), rel=1e-9)


@pytest.mark.parametrize("far", [0.0, 1e6, 1e9])
def test_dependent_and_far_off_inputs_are_pooled_as_if_they_were_not(tmp_path: Path, far: float) -> None:
    def changed(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.assign(e=rows["a"] + rows["b"], c=rows["c"] + far)

    frames = {name: changed(rows) for name, rows in draw_frames().items()}
    plain, test = draw_frames(), draw_rows(0, 50, 99)
    error, _ = pooled(tmp_path, frames, changed(test))
    # Of 1e9 + c a double keeps seven digits of c.
    assert error == pytest.approx(expected_error(plain, test, list("abc")), rel=1e-9 if far == 0 else 1e-5)


# -- sites that are far off -------------------------------------------------------------------------------------------


def huge(size: float) -> np.ndarray:
    model = LinearRegression()
    model.coef_, model.intercept_, model.n_features_in_ = np.full(3, size), 0.0, 3
    return encode_model(model)


@pytest.mark.parametrize("combine", ["average", "pooled-linear"])
def test_a_model_without_finite_errors_stands_alone_and_costs_nobody_a_number(tmp_path: Path, combine: str) -> None:
    """What the others find is what they find without it."""
    frames = draw_frames()
    del frames["lab-3"]
    without, expected = learn(tmp_path, frames, sec__combine=combine)
    report, arrays = learn(tmp_path, draw_frames(), forgery(3, 1, "model", huge(1e200)), sec__combine=combine)
    assert arrays["labels"].tolist() == [0, 1, 0, 2, 0]
    others = np.ix_([0, 1, 2, 4], [0, 1, 2, 4])
    np.testing.assert_allclose(arrays["similarity"][others], expected["similarity"], rtol=1e-12)
    assert not arrays["similarity"][3, [0, 1, 2, 4]].any()
    assert "lab-3: left out of 'all', because the model's predictions are not finite at every site" in report.notes
    assert all(np.isfinite(value) for value in report.metrics.values())
    if combine == "average":  # else its own cluster's regression is of its rows, and it is measured as the others are
        assert report.metrics["n_measured"] == 4
        for name in ERRORS:
            assert report.metrics[name] == pytest.approx(without.metrics[name], rel=1e-9)
    assert set(ERRORS) <= set(report.metrics)


def forged_in_all_lanes(place: int, number: int, field: str, value: np.ndarray, lanes: int) -> Tamper:
    def tamper(at: int, now: int, reply: Message) -> Message:
        for lane in range(lanes if (at, now) == (place, number) else 0):
            forgery(at, now, field, value)(at, now, reply)
            arrays = reply.content.array_records
            arrays[f"{lane}.arrays"][field] = arrays["0.arrays"][field]
        return reply

    return tamper


@pytest.mark.parametrize(("number", "payload", "field"), [(2, "sec.Losses", "losses"), (3, "sec.Errors", "errors")])
@pytest.mark.parametrize("size", few([1e200, 1e101]))
def test_errors_that_could_not_be_averaged_are_refused_and_the_run_ends(
    tmp_path: Path, number: int, payload: str, field: str, size: float
) -> None:
    n = {"losses": len(GROUPS), "errors": len(ERRORS) + 1}[field]  # and the personal one
    tamper = forged_in_all_lanes(1, number, field, np.full(n, size), lanes=2)
    report, arrays = learn(tmp_path, draw_frames(), tamper, repetitions=2)
    [told] = report.missing["lab-1"]
    assert told == (
        f"round {number}: refused: payload {payload}, field '{field}': expected mean squared errors from 0 to 1e+100"
    )
    assert arrays["labels"].tolist() == GROUPS
    assert {*ERRORS, *(f"{name}_se" for name in ERRORS)} <= set(report.metrics)
    assert all(np.isfinite(value) for value in report.metrics.values())


@pytest.mark.parametrize("n", [MOST_ROWS + 1, 2**63 - 1, 1, -5])
def test_a_number_of_rows_that_cannot_be_is_refused(tmp_path: Path, n: int) -> None:
    """It is the learner's weight in its cluster."""

    def tamper(at: int, now: int, reply: Message) -> Message:
        if (at, now) == (2, 1):
            reply.content.config_records["0.scalars"]["n"] = n
        return reply

    report, arrays = learn(tmp_path, draw_frames(), tamper)
    [told] = report.missing["lab-2"]
    assert (
        told == f"round 1: refused: payload sec.FittedModel, field 'n': expected a number of rows from 2 to {MOST_ROWS}"
    )
    assert arrays["labels"].tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("quiet", "said"),
    [
        ([0, 3], "a pair was not compared; the similarity was completed from those of the others"),
        ([1, 2, 3, 4], "6 pairs were not compared; the similarity was completed from those of the others"),
    ],
)
def test_pairs_that_nobody_compared_are_counted(tmp_path: Path, quiet: list[int], said: str) -> None:
    report, arrays = learn(tmp_path, draw_frames(), lambda at, now, reply: None if at in quiet and now == 2 else reply)
    assert set(report.missing) == {f"lab-{place}" for place in quiet}
    assert said in report.notes
    unknown = np.isnan(arrays["dissimilarity"])
    assert set(zip(*np.nonzero(unknown), strict=True)) == {(i, j) for i in quiet for j in quiet if i != j}
    assert np.isfinite(arrays["similarity"]).all()


def test_who_told_nothing_about_others_and_others_about_it_belongs_nowhere(tmp_path: Path) -> None:
    """A landmark's method: without an answer in round 2 nothing is known of who is no landmark."""
    groups = [0, 1] * 6
    frames = {f"lab-{place:02}": draw_rows(group, 40 + place, place) for place, group in enumerate(groups)}
    settings: dict[str, Any] = {"sec__exchange": "landmarks", "sec__landmarks": 5}
    _, whole = learn(tmp_path, frames, **settings)
    # No landmark: those everybody tried.
    quiet = int(np.flatnonzero(np.isnan(whole["dissimilarity"]).any(axis=1))[0])
    report, arrays = learn(
        tmp_path, frames, lambda at, now, reply: None if (at, now) == (quiet, 2) else reply, **settings
    )
    assert arrays["labels"][quiet] == -1
    assert report.metrics["n_unclustered"] == 1
    assert f"lab-{quiet:02}: in no cluster, because too few losses compare them with others" in report.notes
    assert not any("not compared" in note for note in report.notes)
    rest = [place for place in range(len(groups)) if place != quiet]
    assert arrays["labels"][rest].tolist() == [groups[place] ^ groups[rest[0]] for place in rest]


def test_one_learner_in_other_units_is_set_aside(tmp_path: Path) -> None:
    frames = draw_frames()
    frames["lab-4"]["y"] *= 1000
    _, arrays = learn(tmp_path, frames)
    assert arrays["labels"].tolist() == [0, 1, 0, 1, 2]


def test_one_learner_in_other_units_hides_groups_from_the_eigengap(tmp_path: Path) -> None:
    frames = draw_frames()
    frames["lab-4"]["y"] *= 1000
    report, arrays = learn(tmp_path, frames, sec__k_method="eigengap")
    assert arrays["labels"].tolist() == [0, 0, 0, 0, 1]
    assert any(
        note.startswith("lab-4: alone in a cluster; one learner that is far from all others can hide")
        for note in report.notes
    )


@pytest.mark.parametrize(
    ("name", "settings", "advice"),
    [
        ("sec-grid", {"sec__attacked": 25}, r"sec\.attacked is set .* as in cells='attacked=0'"),
        ("sec-simulation1", {"sec__p": 10}, r"sec\.p is set .* as in cells='p=5'"),
        ("sec-simulation1", {"sec__snr": 2.0, "cells": "SNR=4"}, r"sec\.snr is set .* as in cells='p=5'"),
        ("sec-simulation2", {"sec__candidates": "lr"}, r"sec\.candidates is set .* as in cells='"),
    ],
)
def test_what_the_rows_of_a_table_set_cannot_be_set_in_vain(
    tmp_path: Path, name: str, settings: dict[str, Any], advice: str
) -> None:
    with pytest.raises(ScenarioError, match=advice) as refused:
        run(config(tmp_path, scenario=name, **settings), find(name).sites)
    assert f"by the rows of {name}; choose among them" in str(refused.value)
    assert not list(tmp_path.rglob("report.json"))


def test_own_data_have_no_rows_to_choose(tmp_path: Path) -> None:
    settings = config(tmp_path, protocol="sec", data=str(tmp_path), target="y", cells="attacked=25")
    with pytest.raises(ConfigError, match="cells are rows of a scenario's table, and own data have none: leave it out"):
        run(settings, 2)
