"""Gaussian process experts at their edges: few rows, equal rows, odd columns and points, sites that are lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from protocols.gp.payloads import Evaluate, Inputs, Predict, Predictions, Train
from protocols.gp.settings import Settings
from server.figures.gp import figures
from server.report.headline import answer
from tests.support import reference_gp as reference
from tests.support.gp_sites import (
    SITES,
    TARGET,
    PredictionRun,
    deployed_sites,
    forgery,
    gate_settings,
    own_data_config,
    points,
    predict,
    rows_of,
    soundings,
    split_over_sites,
    write_files,
    write_world,
)
from tests.support.parameters import few
from tests.support.runs import outcome_of
from tests.support.tampering import silent

COAST, DELTA, HILLS, PLAIN = range(4)
EXACT = {"gp__covariance": "inputs"}
ANSWERS = 1 + Settings().n_landmarks(2)
"""About every point, by default."""
RULES = ("npae", "poe", "gpoe", "bcm", "rbcm", "grbcm")

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_world(tmp_path / "files")


def assert_sound(found: PredictionRun) -> None:
    """Every number is one, and every deviation is at least the noise's and at most the prior's.

    Rules that multiply densities may be surer of an observation than its noise allows.
    """
    assert np.isfinite(list(found.metrics.values())).all()
    for name in ("mean", "std", "theta"):
        assert np.isfinite(found.arrays[name]).all()
    _, variance = found.predictions
    noise = np.exp(2 * found.theta[-1])
    assert (variance > 0).all()
    if found.settings["gp.aggregation"] in ("", "npae", "gpoe"):
        assert (variance >= noise * (1 - 1e-9)).all()
    assert (variance <= (noise + np.exp(2 * found.theta[-2])) * (1 + 1e-9)).all()


# -- few rows, and equal ones -----------------------------------------------------------------------------------------


def test_a_site_with_one_row_takes_no_part(tmp_path: Path) -> None:
    parts = split_over_sites(soundings())
    expected = predict(
        own_data_config(tmp_path / "without", write_files(tmp_path / "3", {s: parts[s] for s in SITES[:3]})), 3
    )
    found = predict(own_data_config(tmp_path, write_files(tmp_path / "4", {**parts, "plain": parts["plain"][:1]})))
    assert found.report.missing == {"plain": [f"round 1: {found.report.missing['plain'][0].partition(': ')[2]}"]}
    assert found.report.missing["plain"][0].endswith("[too-few-rows]")
    np.testing.assert_array_equal(found.arrays["mean"], expected.arrays["mean"])


@pytest.mark.parametrize("rule", few(list(RULES), 2))
def test_an_expert_of_one_row_is_one_among_others(tmp_path: Path, rule: str) -> None:
    """A site's three rows are two experts or three where none may have more than two."""
    parts = split_over_sites(soundings(10), names=SITES[:3])
    changes = {"gp__max_expert_rows": 2, "gp__local": 0, "gp__gate": "all", "gp__aggregation": rule}
    settings = own_data_config(tmp_path, write_files(tmp_path / "files", parts), **changes)
    found = predict(settings, 3)
    rows = found.arrays["expert_rows"]
    assert (set(rows.tolist()), rows.sum()) == ({1, 2}, 10)
    assert_sound(found)


def test_experts_of_one_row_follow_the_equations(tmp_path: Path) -> None:
    frame = soundings(10)
    folder = write_files(tmp_path / "files", split_over_sites(frame, names=SITES[:3]))
    found = predict(own_data_config(tmp_path, folder, gp__max_expert_rows=2, gp__gate="all", **EXACT), 3)
    every = np.column_stack(reference.units([rows_of(frame)]).of(rows_of(frame)))
    told = {heard.site: heard.payload.x for heard in found.heard(Inputs)}
    rows = []
    for x in [x for site in dict.fromkeys(found.arrays["expert_site"].tolist()) for x in told[site]]:
        place = np.abs(every[:, np.newaxis, :-1] - x).max(axis=2).argmin(axis=0)
        rows.append((x, every[place, -1]))
    expected = reference.npae(found.theta, rows, found.queries, found.arrays["selected"])
    for said, true in zip(found.predictions, expected, strict=True):
        np.testing.assert_allclose(said, true, atol=1e-8)


@pytest.mark.parametrize("rule", few(list(RULES), 2))
def test_duplicate_rows(tmp_path: Path, rule: str) -> None:
    """Each of them four times, with the same output: they say as much as the one."""
    frame = pd.concat([soundings(40)] * 4, ignore_index=True)
    folder = write_world(tmp_path / "files", frame)
    found = predict(own_data_config(tmp_path, folder, gp__aggregation=rule))
    assert_sound(found)
    assert found.metrics["smse"] < 0.3


@pytest.mark.parametrize("rule", few(list(RULES), 2))
def test_an_output_that_never_varies_is_predicted(tmp_path: Path, rule: str) -> None:
    frame = soundings().assign(**{TARGET: 1 / 3})
    folder = write_world(tmp_path / "files", frame, queries=points().assign(**{TARGET: 1 / 3}))
    found = predict(own_data_config(tmp_path, folder, gp__aggregation=rule))
    np.testing.assert_allclose(found.arrays["mean"], 1 / 3, rtol=1e-12)
    assert (found.arrays["std"] < 0.1).all()
    assert "smse" not in found.metrics
    assert_sound(found)


@pytest.mark.parametrize("gate", few(["knn", "gaussian", "dnn", "ggm"]))
def test_a_column_that_never_varies_changes_nothing(tmp_path: Path, gate: str) -> None:
    settings = gate_settings(gate)
    plain = predict(own_data_config(tmp_path / "plain", write_world(tmp_path / "2"), **settings))
    folder = write_world(tmp_path / "3", soundings().assign(year=1987.1), queries=points().assign(year=1987.1))
    found = predict(own_data_config(tmp_path, folder, **settings))
    assert found.arrays["input_scale"][2] == 1
    assert any(note == "inputs that are the same in every row: year" for note in found.report.notes)
    assert_sound(found)
    assert found.metrics["smse"] == pytest.approx(plain.metrics["smse"], abs=0.05)


def test_a_column_that_varies_between_sites_only_has_any_unit(tmp_path: Path) -> None:
    """No site can learn its length, nor may what a site supposes of it in its own units count in the common ones."""
    places = split_over_sites(soundings())
    borders = np.array([places[site]["east"].max() for site in SITES[:-1]])
    runs = []
    for unit in (1.0, 1e-4, 1e6):

        def measured(frame: pd.DataFrame) -> pd.DataFrame:
            return frame.assign(height=unit * (1 + np.searchsorted(borders, frame["east"])))  # noqa: B023

        parts = {site: measured(frame) for site, frame in places.items()}
        folder = write_files(tmp_path / str(unit), parts, measured(points()))
        runs.append(predict(own_data_config(tmp_path, folder, gp__gate="gaussian")))
    expected, *others = runs
    assert expected.metrics["smse"] < 0.1
    height = expected.arrays["features"].tolist().index("height")
    assert expected.theta[height] == pytest.approx(0, abs=1.5)
    for found in others:
        # The likelihood is flat along the height's length: rounding may move it, and a hundredth is no matter.
        assert found.theta[height] == pytest.approx(expected.theta[height], abs=0.1)
        np.testing.assert_allclose(np.delete(found.theta, height), np.delete(expected.theta, height), atol=1e-4)
        np.testing.assert_allclose(found.arrays["mean"], expected.arrays["mean"], rtol=1e-4)
        np.testing.assert_allclose(found.arrays["std"], expected.arrays["std"], rtol=1e-3)
        assert any(
            note.startswith("inputs that differ between experts and are the same within each: height;")
            for note in found.report.notes
        )


@pytest.mark.parametrize("rule", few([*RULES, "exact"], 2))
def test_two_sites_with_the_same_data_are_two_experts(tmp_path: Path, rule: str) -> None:
    """With equal scores, and noise of their own as far as anybody can tell."""
    parts = split_over_sites(soundings(), names=SITES[:2])
    folder = write_files(tmp_path / "files", {**parts, "twin": parts[SITES[0]]})
    changes = EXACT if rule == "exact" else {"gp__aggregation": rule}
    found = predict(own_data_config(tmp_path, folder, gp__gate="all", **changes), 3)
    assert_sound(found)
    if rule in ("npae", "exact"):
        expected = reference.npae(found.theta, found.experts(), found.queries, found.arrays["selected"])
        for told, true in zip(found.predictions, expected, strict=True):
            np.testing.assert_allclose(told, true, atol=1e-8 if rule == "exact" else 0.1)


def test_two_sites_whose_data_have_no_noise(tmp_path: Path) -> None:
    """Their predictions are one and the same, R is singular, and the twin adds nothing."""
    frame = soundings().assign(**{TARGET: np.sin(soundings()["east"] / 5e3)})
    parts = split_over_sites(frame, names=SITES[:2])
    folder = write_files(tmp_path / "files", {**parts, "twin": parts[SITES[0]]}, points())
    for changes in (EXACT, {}):
        found = predict(own_data_config(tmp_path, folder, gp__gate="all", **changes), 3)
        assert_sound(found)
        x, twin = found.experts(), found.arrays["expert_site"].tolist().index("twin")
        alone = np.array([expert for expert in range(3) if expert != twin])
        mean, _ = reference.npae(found.theta, x, found.queries, np.tile(alone, (len(points()), 1)))
        np.testing.assert_allclose(found.predictions[0], mean, atol=1e-3)


# -- points -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "gate"),
    few([*((rule, "knn") for rule in RULES), *(("npae", gate) for gate in ("gaussian", "dnn", "all", "ggm"))], 3),
)
def test_far_from_everything_the_prior_comes_back(tmp_path: Path, rule: str, gate: str) -> None:
    far = pd.DataFrame({"well": ["f", "g"], "east": [1e15, -3e9], "depth": [-1e12, 4.0]})
    folder = write_world(tmp_path / "files", queries=far)
    found = predict(own_data_config(tmp_path, folder, gp__aggregation=rule, gp__fit_rounds=3, **gate_settings(gate)))
    assert_sound(found)
    prior = np.sqrt(np.exp(2 * found.theta[-2]) + np.exp(2 * found.theta[-1])) * found.arrays["output_scale"]
    np.testing.assert_allclose(found.arrays["mean"], found.arrays["output_mean"], rtol=1e-9)
    spread = np.sqrt(found.arrays["selected"].shape[1]) if rule == "poe" else 1.0
    np.testing.assert_allclose(found.arrays["std"], prior / spread, rtol=1e-9)
    if rule != "poe":
        assert any(note.startswith("2 of 2 points lie where the experts know next to nothing") for note in
                   found.report.notes)  # fmt: skip


def test_more_experts_wanted_than_there_are(tmp_path: Path, folder: Path) -> None:
    found = predict(own_data_config(tmp_path / "many", folder, gp__experts="1000", **EXACT))
    every = predict(own_data_config(tmp_path / "all", folder, gp__gate="all", **EXACT))
    assert found.metrics["n_selected"] == len(SITES)
    np.testing.assert_allclose(found.arrays["mean"], every.arrays["mean"], rtol=1e-9)
    np.testing.assert_allclose(found.arrays["std"], every.arrays["std"], rtol=1e-9)


def test_an_expert_that_is_never_chosen_is_not_asked(tmp_path: Path) -> None:
    near = points(60).sort_values("east")[:10]
    found = predict(own_data_config(tmp_path, write_world(tmp_path / "files", queries=near), gp__experts="1"))
    assert [heard.site for heard in found.heard(Predict)] == [""]  # one ask
    assert {row["site"]: row["queries"] for row in found.report.table} == {
        "coast": 10,
        "delta": 0,
        "hills": 0,
        "plain": 0,
    }
    assert found.metrics["n_dropped"] == 0


@pytest.mark.parametrize("changes", few([{}, EXACT, {"gp__gate": "ggm"}, {"gp__aggregation": "rbcm"}]))
def test_the_order_of_points_does_not_matter(tmp_path: Path, changes: dict[str, Any]) -> None:
    expected = predict(own_data_config(tmp_path / "as they are", write_world(tmp_path / "1"), **changes))
    order = np.random.default_rng(3).permutation(len(points()))
    folder = write_world(tmp_path / "2", queries=points().iloc[order])
    found = predict(own_data_config(tmp_path / "shuffled", folder, **changes))
    np.testing.assert_array_equal(found.arrays["selected"], expected.arrays["selected"][order])
    # To a last bit: products of matrices round by place. Features cross in half precision.
    error = 1e-11 if changes else 1e-5
    np.testing.assert_allclose(found.arrays["mean"], expected.arrays["mean"][order], rtol=error)
    np.testing.assert_allclose(found.arrays["std"], expected.arrays["std"][order], rtol=error)


@pytest.mark.parametrize("dtype", few(["float32", "int32", "int64", "uint8"]))
def test_points_of_other_types_of_numbers(tmp_path: Path, dtype: str) -> None:
    """As they are in the file, and exact in double precision from there on."""
    whole = points().assign(east=points()["east"] // 200, depth=points()["depth"] // 1)
    frame = soundings().assign(east=soundings()["east"] / 200)
    folder = write_world(tmp_path / "files", frame, queries=whole)
    expected = predict(own_data_config(tmp_path / "plain", folder))
    path = tmp_path / "typed.parquet"
    whole.astype({"east": dtype, "depth": dtype}).to_parquet(path)
    found = predict(own_data_config(tmp_path / dtype, folder, gp__queries=str(path)))
    np.testing.assert_array_equal(found.arrays["mean"], expected.arrays["mean"])
    np.testing.assert_array_equal(found.arrays["std"], expected.arrays["std"])


def test_points_without_outputs_are_predicted_and_not_judged(tmp_path: Path, folder: Path) -> None:
    judged = predict(own_data_config(tmp_path / "judged", folder))
    points().drop(columns=TARGET).to_csv(folder / "_test.csv", index=False)
    found = predict(own_data_config(tmp_path / "alone", folder))
    np.testing.assert_array_equal(found.arrays["mean"], judged.arrays["mean"])
    assert not {"smse", "msll", "rmse", "coverage_95"} & set(found.metrics)


@pytest.mark.usefixtures("influence")
def test_errors_are_those_at_points_with_an_output(tmp_path: Path, folder: Path) -> None:
    """All points are predicted as before; every score is that of a file of the measured points alone."""
    judged = predict(own_data_config(tmp_path / "judged", folder, **EXACT))
    known = np.arange(len(points())) % 5 != 2
    points().assign(**{TARGET: points()[TARGET].where(known)}).to_csv(folder / "_test.csv", index=False)
    partly = predict(own_data_config(tmp_path / "partly", folder, **EXACT))
    np.testing.assert_array_equal(partly.arrays["mean"], judged.arrays["mean"])
    np.testing.assert_array_equal(np.isnan(partly.arrays["outputs"]), ~known)
    points()[known].to_csv(folder / "_test.csv", index=False)
    alone = predict(own_data_config(tmp_path / "alone", folder, **EXACT))
    assert (partly.metrics["n_queries"], partly.metrics["n_measured"]) == (len(known), known.sum())
    for name in ("smse", "msll", "rmse", "smse_alone", "coverage_50", "coverage_80", "coverage_95", "coverage_99"):
        assert partly.metrics[name] == pytest.approx(alone.metrics[name], rel=1e-9), name
    assert partly.report.influence["without"] == pytest.approx(alone.report.influence["without"], rel=1e-9)
    written = pd.read_csv(partly.path / "predictions.csv")["measured"]
    np.testing.assert_array_equal(written, partly.arrays["outputs"])
    assert "predict 16 points" in answer(partly.report)
    assert any("all 20 points are predicted; errors are measured at the 16" in note for note in partly.report.notes)
    assert [each.name for each in figures(partly.report, partly.arrays)][:2] == ["predictions", "calibration"]


def test_points_with_an_empty_column_of_outputs_are_predicted(tmp_path: Path, folder: Path) -> None:
    judged = predict(own_data_config(tmp_path / "judged", folder))
    points().assign(**{TARGET: ""}).to_csv(folder / "_test.csv", index=False)
    found = predict(own_data_config(tmp_path / "empty", folder))
    np.testing.assert_array_equal(found.arrays["mean"], judged.arrays["mean"])
    assert not {"smse", "n_measured", "coverage_95"} & set(found.metrics)
    assert "outputs" not in found.arrays


def test_few_whole_numbers_at_the_points_are_amounts_where_sites_have_amounts(tmp_path: Path, folder: Path) -> None:
    points().assign(**{TARGET: [300, 301] * 10}).to_csv(folder / "_test.csv", index=False)
    found = predict(own_data_config(tmp_path, folder))
    assert found.arrays["outputs"].tolist() == [300.0, 301.0] * 10


def test_a_single_point(tmp_path: Path, folder: Path) -> None:
    """A file of points may have one line: it is nobody's row. One without any is no file of points."""
    whole = predict(own_data_config(tmp_path / "whole", folder, **EXACT))
    points()[:1].to_csv(folder / "_test.csv", index=False)
    found = predict(own_data_config(tmp_path / "one", folder, **EXACT))
    np.testing.assert_allclose(found.arrays["mean"], whole.arrays["mean"][:1], rtol=1e-11)
    assert "smse" not in found.metrics
    assert found.metrics["rmse"] == pytest.approx(abs(found.arrays["mean"][0] - points()[TARGET][0]))
    points()[:0].to_csv(folder / "_test.csv", index=False)
    assert outcome_of(own_data_config(tmp_path, folder), len(SITES)).refusal.endswith(
        "has no rows, which are the points to predict at"
    )


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda frame: frame.drop(columns="east"), "the center's file of query points has no column of numbers 'east'"),
        (lambda frame: frame.assign(east="far"), "the center's file of query points has no column of numbers 'east'"),
        (
            lambda frame: frame.assign(east=1e60),
            "column 'east': 1e+60 is too large; numbers up to 1e+50 can be squared",
        ),
        (
            lambda frame: frame.assign(depth=[np.nan, *frame["depth"][1:]]),
            "the center's file of query points: 'depth' is empty at point 1; fill it, or leave the point out",
        ),
    ],
)
def test_a_file_of_points_that_lacks_something_is_one_line(
    tmp_path: Path, folder: Path, change: Callable[[pd.DataFrame], pd.DataFrame], line: str
) -> None:
    change(points()).to_csv(folder / "_test.csv", index=False)
    assert line in outcome_of(own_data_config(tmp_path, folder), len(SITES)).refusal


# -- columns ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unseen_files")
def test_sites_with_other_inputs_are_named_and_left_out(tmp_path: Path) -> None:
    parts = split_over_sites(soundings())
    expected = predict(
        own_data_config(tmp_path / "3", write_files(tmp_path / "b", {s: parts[s] for s in SITES if s != "delta"})), 3
    )
    parts["delta"] = parts["delta"].rename(columns={"east": "north"})
    found = predict(own_data_config(tmp_path / "4", write_files(tmp_path / "a", parts)))
    assert found.report.missing == {
        "delta": ["left out: its inputs are depth, north; most sites have depth, east"],
    }
    np.testing.assert_array_equal(found.arrays["mean"], expected.arrays["mean"])
    told = outcome_of(own_data_config(tmp_path / "5", tmp_path / "a", min_sites=4), len(SITES)).refusal
    assert "min-sites is 4" in told
    assert "delta: left out" in told


@pytest.mark.usefixtures("unseen_files")
def test_as_many_sites_with_these_inputs_as_with_those_are_one_line(tmp_path: Path) -> None:
    parts = split_over_sites(soundings())
    for site in SITES[:2]:
        parts[site] = parts[site].rename(columns={"east": "north"})
    told = outcome_of(own_data_config(tmp_path, write_files(tmp_path / "files", parts)), len(SITES)).refusal
    assert told.startswith("as many sites have the inputs depth, ")
    assert "name those that all of them have in `features`" in told
    found = predict(own_data_config(tmp_path / "named", tmp_path / "files", features="depth"))
    assert found.arrays["features"].tolist() == ["depth"]


def test_columns_in_another_order_are_the_same_columns(tmp_path: Path, folder: Path) -> None:
    expected = predict(own_data_config(tmp_path / "before", folder))
    for name in ("delta", "_test"):
        path = folder / f"{name}.csv"
        pd.read_csv(path)[[TARGET, "depth", "well", "east"]].to_csv(path, index=False)
    found = predict(own_data_config(tmp_path / "after", folder))
    assert found.metrics == expected.metrics
    np.testing.assert_array_equal(found.arrays["mean"], expected.arrays["mean"])


@pytest.mark.usefixtures("unseen_files")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda frame: frame.drop(columns=TARGET), "missing-column"),
        (lambda frame: frame.assign(**{TARGET: [np.nan, *frame[TARGET][1:]]}), "missing-value"),
        (lambda frame: frame.assign(east=[np.inf, *frame["east"][1:]]), "not-finite"),
        (lambda frame: frame.assign(east=[1e60, *frame["east"][1:]]), "not-finite"),
        (lambda frame: frame.assign(**{TARGET: -1e60}), "not-finite"),
        (lambda frame: frame.assign(**{TARGET: "rich"}), "not-numeric"),
    ],
)
def test_a_site_whose_data_cannot_be_used_costs_nobody_else(
    tmp_path: Path, folder: Path, change: Callable[[pd.DataFrame], pd.DataFrame], code: str
) -> None:
    path = folder / "hills.csv"
    change(pd.read_csv(path)).to_csv(path, index=False)
    found = predict(own_data_config(tmp_path, folder, task="regression"))
    assert found.report.missing["hills"][0].endswith(f"[{code}]")
    assert found.report.sites == ["coast", "delta", "plain"]
    assert_sound(found)


# -- sites that are lost ----------------------------------------------------------------------------------------------


def last_round(tmp_path: Path, folder: Path, **changes: Any) -> int:
    """The round in which an undisturbed run asks for predictions."""
    return predict(own_data_config(tmp_path / "undisturbed", folder, **changes)).report.rounds


def assert_without(found: PredictionRun, lost: str) -> None:
    """As if the lost site, which says nothing of any point, had never been in a ranking."""
    sites = found.arrays["expert_site"].tolist()
    order = reference.nearest(found.queries, found.experts())
    left = order[order != sites.index(lost)].reshape(len(order), -1)[:, :2]
    np.testing.assert_array_equal(found.arrays["selected"], left)
    for told, true in zip(
        found.predictions, reference.npae(found.theta, found.experts(), found.queries, left), strict=True
    ):
        np.testing.assert_allclose(told, true, atol=1e-8)
    assert found.metrics["n_dropped"] == 1
    assert any(
        note.startswith((f"where experts of {lost} did not answer", f"without the experts of {lost},"))
        for note in found.report.notes
    )


def test_a_site_that_dies_before_it_predicts_is_replaced(tmp_path: Path, folder: Path) -> None:
    """By the next nearest, in one more round, which asks nobody the same point twice."""
    last = last_round(tmp_path, folder, **EXACT)
    found = predict(own_data_config(tmp_path, folder, **EXACT), tamper=silent(DELTA, range(last, 1000)))
    assert found.report.missing == {"delta": [f"round {last}: no answer within 5 s"]}
    assert_without(found, "delta")
    assert found.report.rounds == last + 1
    asked: list[tuple[float, ...]] = []
    for heard in found.heard(Predict):
        if heard.round == last + 1:
            asked += [tuple(point) for each in heard.payload.points for point in each]
    chosen_before = reference.nearest(found.queries, found.experts())[:, :2]
    lost = found.arrays["expert_site"].tolist().index("delta")
    assert len(asked) == len(set(asked)) == (chosen_before == lost).any(axis=1).sum()


@pytest.mark.parametrize("rule", few(["npae", "gpoe", "grbcm"]))
def test_sites_that_die_one_after_the_other(tmp_path: Path, folder: Path, rule: str) -> None:
    last = last_round(tmp_path, folder, gp__aggregation=rule)
    lost = {COAST: last, HILLS: last + 1, PLAIN: last + 2}

    def tamper(at: int, now: int, reply: Any) -> Any:
        return None if now >= lost.get(at, 1000) else reply

    found = predict(own_data_config(tmp_path, folder, gp__aggregation=rule), tamper=tamper)
    assert found.metrics["n_dropped"] == 3
    sites = found.arrays["expert_site"].tolist()
    selected = found.arrays["selected"]
    assert not (selected == sites.index("coast")).any()
    # Delta is left for every point; what hills and plain have said of points before they were lost counts.
    order = reference.nearest(found.queries, found.experts())
    later = order[order != sites.index("coast")].reshape(len(order), -1)
    heard = np.zeros(order.shape, bool)
    heard[:, sites.index("delta")] = True
    for site, asked in (("hills", [order]), ("plain", [order, later])):
        expert = sites.index(site)
        heard[:, expert] = np.any([(each[:, :2] == expert).any(axis=1) for each in asked], axis=0)
    for row, ranking, said in zip(selected, order, heard, strict=True):
        left = [expert for expert in ranking if said[expert]][:2]
        assert row.tolist() == [*left, -1][:2]
    assert found.metrics["n_selected"] == (selected >= 0).sum() / len(selected)
    assert_sound(found)


def test_a_site_that_has_answered_enough_keeps_what_it_said(tmp_path: Path, folder: Path) -> None:
    """However many of those who stand in for a lost one refuse: all of them may."""
    settings, nodes = deployed_sites(tmp_path, folder, gp__experts="1")
    expected = predict(settings, nodes)
    asked = {row["site"]: row["queries"] for row in expected.report.table}
    limited = [{**node, "max-queries": max(1, ANSWERS * asked[node["site"]])} for node in nodes]
    limited[HILLS]["max-queries"] = 1
    found = predict(settings, limited)
    assert set(found.report.missing) == set(SITES)
    assert all("[too-many-queries]" in line for [line] in found.report.missing.values())
    of_hills = (expected.arrays["selected"] == expected.arrays["expert_site"].tolist().index("hills"))[:, 0]
    for name in ("selected", "mean", "std"):
        np.testing.assert_array_equal(found.arrays[name][~of_hills], expected.arrays[name][~of_hills])
    assert (found.arrays["selected"][of_hills] == -1).all()
    assert f"at {of_hills.sum()} points no expert answered: the prediction is the prior's" in found.report.notes
    assert_sound(found)


def test_without_any_answer_the_run_ends(tmp_path: Path, folder: Path) -> None:
    last = last_round(tmp_path, folder)

    def tamper(at: int, now: int, reply: Any) -> Any:
        return None if now >= last else reply

    found = outcome_of(own_data_config(tmp_path, folder), len(SITES), tamper=tamper)
    assert found.report is None
    assert "0 of 4 sites answered, min-sites is 1" in found.refusal


@pytest.mark.parametrize("changes", few([{}, EXACT, {"gp__gate": "dnn"}, {"gp__aggregation": "grbcm"}], 2))
@pytest.mark.parametrize("first", few([2, 3, 4], 2))
def test_a_site_that_dies_while_hyperparameters_are_searched(
    tmp_path: Path, folder: Path, changes: dict[str, Any], first: int
) -> None:
    """The others' likelihood is what counts from there on; no point is lost."""
    found = predict(own_data_config(tmp_path, folder, **changes), tamper=silent(DELTA, range(first, 1000)))
    assert found.report.missing["delta"][0] == f"round {first}: no answer within 5 s"
    lost = found.arrays["expert_site"].tolist().index("delta")
    assert not (found.arrays["selected"] == lost).any()
    assert (found.arrays["selected"] >= 0).all()
    assert_sound(found)
    assert found.metrics["smse"] < 0.5
    others = [rows for expert, rows in enumerate(found.experts()) if expert != lost]
    n = sum(len(y) for _, y in others)
    here = sum(reference.log_likelihood(found.theta, *rows) for rows in others) / n
    assert here >= reference.best(others, found.theta) - 5e-3


@pytest.mark.parametrize("number", [2, 3])
def test_an_answer_that_is_lost_once_is_not_missed_for_long(tmp_path: Path, folder: Path, number: int) -> None:
    found = predict(own_data_config(tmp_path, folder), tamper=silent(DELTA, [number]))
    assert found.report.missing == {"delta": [f"round {number}: no answer within 5 s"]}
    assert {heard.site for heard in found.heard(Evaluate)} == {""}
    assert found.metrics["n_dropped"] == 0
    whole = reference.best(found.experts(), found.theta)
    here = sum(reference.log_likelihood(found.theta, *rows) for rows in found.experts()) / len(soundings())
    assert here >= whole - 5e-3
    assert_sound(found)


def test_a_site_that_takes_no_part_in_the_gate_s_training_predicts_all_the_same(tmp_path: Path, folder: Path) -> None:
    """Points drawn from its moments stand in for its rows: the network keeps sending it the points that are its own."""
    settings, nodes = deployed_sites(tmp_path, folder, gp__experts="1", **gate_settings("dnn", 30))
    nodes[DELTA]["allow-gate-training"] = False
    found = predict(settings, nodes)
    assert not found.report.missing
    assert len(found.said(Train)) == 3 * 30
    assert found.metrics["n_dropped"] == 0
    east = split_over_sites(soundings())["delta"]["east"]
    inside = (found.arrays["queries"][:, 1] >= east.min()) & (found.arrays["queries"][:, 1] <= east.max())
    assert inside.sum() >= 3
    chosen = found.arrays["expert_site"][found.arrays["selected"][:, 0]]
    assert (chosen[inside] == "delta").mean() >= 0.75


def test_a_site_that_dies_in_the_gate_s_training(tmp_path: Path, folder: Path) -> None:
    settings = own_data_config(tmp_path, folder, gp__gate="dnn", gp__gate_rounds=12)
    found = predict(settings, tamper=silent(HILLS, range(6, 1000)))
    lost = found.arrays["expert_site"].tolist().index("hills")
    assert not (found.arrays["selected"] == lost).any()
    assert np.isfinite(found.arrays["network"]).all()
    assert found.metrics["smse"] < 0.5


def test_inputs_that_are_not_disclosed_cost_the_expert(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What real sites round, which is compared elsewhere, would hide which experts count."""
    monkeypatch.setattr("clients.gp.point_answers._protected", lambda sketch, *_: sketch)
    settings, nodes = deployed_sites(tmp_path, folder, **EXACT)
    del nodes[PLAIN]["allow-inputs"]
    found = predict(settings, nodes)
    assert not found.report.missing
    assert "without the experts of plain, which disclose no inputs (allow-inputs)" in found.report.notes
    folder_settings = {**found.settings, "data": str(folder)}
    assert_without(PredictionRun(found.report, found.arrays, found.path, folder_settings, found.crossed), "plain")


def test_data_that_change_during_the_run_are_noticed(tmp_path: Path, folder: Path) -> None:
    """Another number of rows; a row more has another split and other units."""
    path = folder / "hills.csv"

    def tamper(at: int, now: int, reply: Any) -> Any:
        if (at, now) == (PLAIN, 1):
            pd.read_csv(path)[:-1].to_csv(path, index=False)
        return reply

    found = predict(own_data_config(tmp_path, folder), tamper=tamper)
    assert found.report.missing["hills"][0].endswith("[data-changed]")
    assert_sound(found)


def test_an_expert_that_knows_nothing_has_no_say(tmp_path: Path, folder: Path) -> None:
    """Whatever mean it sends with it."""

    def nothing(answer: Any) -> Any:
        return type(answer)(
            tuple(np.full_like(each, 1e6) for each in answer.mean),
            tuple(np.zeros_like(each) for each in answer.explained),
            answer.features,
        )

    found = predict(own_data_config(tmp_path, folder, gp__gate="all"), tamper=forgery(COAST, Predictions, nothing))
    assert (np.abs(found.arrays["mean"] - 300) < 200).all()
    assert_sound(found)


@pytest.mark.parametrize(("column", "value"), [("depth", 1e7), (TARGET, 1e6)])
def test_a_wrong_cell_is_named_and_costs_nobody_anything(tmp_path: Path, column: str, value: float) -> None:
    clean = {site: frame.copy() for site, frame in split_over_sites(soundings(), "random").items()}
    honest = predict(own_data_config(tmp_path / "clean", write_files(tmp_path / "honest", clean)))
    frame = clean["delta"]
    frame.loc[frame.index[2], column] = value
    found = predict(own_data_config(tmp_path / "dirty", write_files(tmp_path / "files", clean)))
    assert any("delta: 1; look" in note for note in found.report.notes)
    assert found.metrics["smse"] < 1.05 * honest.metrics["smse"] + 0.01
