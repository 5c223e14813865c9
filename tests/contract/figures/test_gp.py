"""Figures of gp: what is drawn for which run, from content alone, and what is said of them in words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from numerics.gp.calibration import BINS, Calibration
from server.figures.gp.columns import MOST_POINTS, sample
from server.figures.gp.experts import Plane
from server.figures.gp.model import lengths_of
from server.figures.gp.predictions import observed, standardized
from server.report.data import Report
from tests.support.figure_checks import alt_text, assert_drawn, caption, contents, draw, figure_names

RUN = ["predictions", "calibration", "experts", "fit", "inputs"]
FIT: list[dict[str, Any]] = [
    {"round": 1},
    *({"round": 2 + t, "log_likelihood": v} for t, v in enumerate((-0.9, -0.5, -0.4503))),
]
METRICS: dict[str, float] = {
    "smse": 0.0674, "msll": -1.3502, "rmse": 3.744, "coverage_50": 0.52, "coverage_80": 0.81, "coverage_95": 0.94,
    "coverage_99": 0.99, "log_likelihood": -0.45, "fit_rounds": 4.0, "n_queries": 60.0, "n_measured": 60.0,
    "noise": 0.23,
}  # fmt: skip


def make(**changes: Any) -> Report:
    made: dict[str, Any] = {
        "scenario": "s", "protocol": "gp", "seed": 0, "sites": ["a", "b"], "rounds": 6, "seconds": 1.0,
        "convergence": FIT, "table": [{"expert": e, "site": "a", "rows": 30 + e, "queries": 2 * e} for e in range(4)],
    }  # fmt: skip
    return Report(**{**made, "metrics": METRICS, **changes})


def predicted(d: int = 3, M: int = 4, K: int = 2, N: int = 60, **changes: np.ndarray | None) -> dict[str, np.ndarray]:
    """Arrays of a run whose predictions are calibrated."""
    rng = np.random.default_rng(0)
    mean, std = rng.normal(30.0, 8.0, N), rng.uniform(1.0, 3.0, N)
    arrays = {
        "theta": np.linspace(-1, 2, d + 2),
        "theta_names": np.array([*(f"log ell_{j + 1}" for j in range(d)), "log s", "log sigma"]),
        "log_likelihood": np.array(-0.45),
        "kernel": np.array("se"),
        "network": np.zeros(0),
        "residual_counts": np.zeros(50, np.int64),
        "features": np.array([f"x{j}" for j in range(d)]),
        "input_mean": np.full(d, 5.0),
        "input_scale": np.full(d, 2.0),
        "output_mean": np.array(30.0),
        "output_scale": np.array(8.0),
        "expert_site": np.array([f"site-{e % 2}" for e in range(M)]),
        "expert_rows": rng.integers(20, 200, M),
        "centroids": rng.normal(size=(M, d)),
        "covariances": np.stack([np.eye(d) * rng.uniform(0.05, 0.5) for _ in range(M)]),
        "mean": mean,
        "std": std,
        "selected": rng.integers(0, M, (N, K)),
        "queries": rng.normal(5.0, 2.0, (N, d)),
        "outputs": mean + std * rng.normal(size=N),
    }
    return {name: value for name, value in {**arrays, **changes}.items() if value is not None}


def only(arrays: dict[str, np.ndarray], *names: str) -> dict[str, np.ndarray]:
    """Arrays of one figure."""
    return {name: arrays[name] for name in names}


PLACES = ("expert_rows", "centroids", "covariances", "input_mean", "input_scale", "queries", "selected")
LENGTHS = ("features", "theta", "theta_names")


def row(part: str, gate: str = "knn", rule: str = "npae", M: int = 10, K: Any = 5, **more: Any) -> dict[str, Any]:
    K = "all" if gate == "all" else K
    return {"part": part, "M": M, "K": K, "gate": gate, "rule": rule, "smse": 0.07, "msll": -1.3, **more}


def over_k(**more: Any) -> list[dict[str, Any]]:
    rows = [
        row("figure7", gate, K=K, smse=0.08 - K / 1000, msll=-1.3 - K / 100, **more)
        for gate in ("knn", "gaussian")
        for K in (2, 5, 9)
    ]
    return [row("figure7", "all", smse=0.07, msll=-1.4), *rows]


def over_m() -> list[dict[str, Any]]:
    return [
        row("figure2", "all", rule, M, smse=0.1 + place / 100, msll=-1.0 + place)
        for place, rule in enumerate(("npae", "poe", "gpoe", "bcm", "rbcm", "grbcm"))
        for M in (5, 7, 10)
    ]


def methods(**more: Any) -> list[dict[str, Any]]:
    rows = [("gpoe", "all", 0.138), ("rbcm", "knn", 0.091), ("npae", "gaussian", 0.07), ("npae", "all", 0.073)]
    return [row("table1", gate, rule, K=6, smse=smse, **more) for rule, gate, smse in rows]


def table(rows: list[dict[str, Any]]) -> tuple[Report, dict[str, np.ndarray]]:
    return make(metrics={**METRICS, "n_cells": float(len(rows))}, table=rows), predicted()


# -- a run ------------------------------------------------------------------------------------------------------------


def test_a_run_shows_its_predictions_and_what_it_has_learned() -> None:
    assert_drawn(make(), predicted(), RUN, twice=True)


@pytest.mark.slow
def test_of_one_input_the_curve_and_the_reach_of_every_expert_are_shown() -> None:
    assert_drawn(make(), predicted(d=1), ["curve", "calibration", "reach", "fit"])


@pytest.mark.parametrize("d", [1, 32])
def test_without_measured_outputs_there_is_nothing_to_check(d: int) -> None:
    first, place = ("curve", "reach") if d == 1 else ("deviations", "experts")
    metrics = {"log_likelihood": -0.45, "n_queries": 60.0, "noise": 0.2}
    drawn = [first, place, "fit", *(["inputs"] if d > 1 else [])]
    report, arrays = make(metrics=metrics), predicted(d=d, outputs=None)
    assert list(draw(report, arrays)) == drawn
    if d > 1:
        assert "Nothing was measured there" in caption(report, first, arrays)
    else:
        assert "measured" not in caption(report, first, arrays) + alt_text(report, first, arrays)


def test_without_query_points_what_was_learned_is_shown() -> None:
    left = [name for name in predicted() if name not in ("mean", "std", "selected", "queries", "outputs")]
    report = make(metrics={"log_likelihood": -0.45})
    assert list(draw(report, only(predicted(), *left))) == ["experts", "fit", "inputs"]
    assert list(draw(report, only(predicted(d=1), *left))) == ["reach", "fit"]
    assert "query points" not in caption(report, "experts", only(predicted(), *left))
    assert "query points" not in caption(report, "reach", only(predicted(d=1), *left))
    assert draw(make(convergence=[], metrics={}), {}) == {}


@pytest.mark.parametrize(
    ("arrays", "changed"),
    [
        (predicted(N=1), ["predictions", "calibration", "experts"]),
        (predicted(M=1, K=1, features=np.array(["$x^{$", "_" * 90, "ü"])), ["experts", "inputs"]),
        (predicted(M=100, K=50, N=300), ["predictions", "experts"]),
        (predicted(d=40, M=2), ["experts", "inputs"]),
        (predicted(selected=np.full((60, 2), -1), outputs=np.full(60, 1e6)), RUN[:3]),
        (predicted(centroids=np.zeros((4, 3)), covariances=np.zeros((4, 3, 3))), ["experts"]),
    ],
    ids=["one point", "one expert, names", "many experts", "d=40", "no expert left, far off", "equal rows"],
)
@pytest.mark.slow
def test_every_shape_can_be_drawn(arrays: dict[str, np.ndarray], changed: list[str]) -> None:
    assert figure_names(make(), arrays) == RUN
    assert all(contents(make(), name, arrays) for name in changed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arrays", "changed"),
    [
        (predicted(d=1, N=1), ["curve", "calibration", "reach"]),
        (predicted(d=1, M=1, K=1), ["reach"]),
        (predicted(d=1, M=90, K=4), ["reach"]),
    ],
)
def test_every_shape_of_one_input_can_be_drawn(arrays: dict[str, np.ndarray], changed: list[str]) -> None:
    assert figure_names(make(), arrays) == ["curve", "calibration", "reach", "fit"]
    assert all(contents(make(), name, arrays) for name in changed)


@pytest.mark.slow
def test_of_many_points_a_sample_is_drawn_and_said_to_be() -> None:
    assert sample(3).tolist() == [0, 1, 2]
    drawn = sample(50_000)
    assert len(drawn) == len(set(drawn.tolist())) == MOST_POINTS
    assert (drawn[0], drawn[-1]) == (0, 49_999)
    report = make(metrics={**METRICS, "n_queries": 50_000.0, "n_measured": 50_000.0})
    arrays = predicted(N=50_000)
    assert list(draw(report, arrays)) == RUN
    for name, points in (("predictions", "measured query points"), ("experts", "query points")):
        assert f"50,000 {points} (2,000 of them are drawn)" in caption(report, name, arrays)
    assert "50,000 measured outputs" in caption(report, "calibration", arrays), "all of them count"
    assert "drawn" not in caption(report, "calibration", arrays)


@pytest.mark.slow
def test_what_is_drawn_of_the_experts_depends_on_their_rows_and_on_who_was_chosen_first() -> None:
    base = only(predicted(), *PLACES)
    changes = {
        "selected": np.zeros((60, 2), int),
        "expert_rows": np.array([10, 500, 20, 30]),
        "covariances": np.stack([np.eye(3)] * 4),
    }
    report = make(convergence=[])
    changed = [base, *({**base, name: value} for name, value in changes.items())]
    images = {contents(report, "experts", arrays) for arrays in changed}
    assert len(images) == 4
    later = np.column_stack([base["selected"][:, 0], np.zeros((60, 1), int)])
    assert draw(report, {**base, "selected": later}) == draw(report, base)


# -- what the figures are made of -------------------------------------------------------------------------------------


def test_the_plane_is_that_of_the_rows_behind_the_moments() -> None:
    rng = np.random.default_rng(1)
    shards = [rng.normal(size=(n, 4)) * (1, 2, 3, 0.5) + rng.normal(size=4) for n in (30, 50, 200)]
    moments = [
        np.array([x.mean(axis=0) for x in shards]),
        np.stack([np.cov(x.T, ddof=0) for x in shards]),
    ]
    plane = Plane.of(np.array([30, 50, 200]), *moments)
    rows = np.concatenate(shards)
    values, vectors = np.linalg.eigh(np.cov(rows.T, ddof=0))
    assert plane.explained == pytest.approx(values[:-3:-1] / values.sum())
    assert np.abs(plane.axes.T @ vectors[:, :-3:-1]) == pytest.approx(np.eye(2), abs=1e-9)
    assert plane.project(rows).mean(axis=0) == pytest.approx(np.zeros(2), abs=1e-9)


def test_an_ellipse_is_the_spread_of_the_rows_in_the_plane() -> None:
    plane = Plane(np.zeros(3), np.eye(3)[:, :2], np.ones(2))
    deviations, turned = plane.ellipses(np.array([np.diag([1.0, 9.0, 50.0]), [[5, 4, 0], [4, 5, 0], [0, 0, 1.0]]]))
    assert deviations == pytest.approx(np.array([[3, 1], [3, 1]]))
    assert turned % 180 == pytest.approx(np.array([90, 45]))


def test_coverage_is_the_share_of_the_outputs_in_their_intervals() -> None:
    arrays = predicted(N=4, mean=np.zeros(4), std=np.full(4, 2.0), outputs=np.array([0.1, -2.0, 3.0, 40.0]))
    residuals = standardized(arrays)
    assert residuals == pytest.approx([0.05, -1.0, 1.5, 20.0])
    levels = np.array([math.erf(z / math.sqrt(2)) for z in (0.04, 0.06, 1.01, 1.49, 1.51)])
    assert observed(residuals, levels, Calibration(np.zeros(BINS, np.int64))) == pytest.approx(
        [0, 0.25, 0.5, 0.5, 0.75]
    )


@pytest.mark.slow
def test_a_calibrated_run_looks_otherwise_than_one_too_sure_of_itself() -> None:
    base = only(predicted(), "mean", "std", "queries", "outputs", "theta", "residual_counts")
    report = make(convergence=[])
    sure = {**base, "std": base["std"] / 3}
    assert contents(report, "calibration", base) != contents(report, "calibration", sure)


def test_lengths_are_those_of_every_kernel_that_has_some() -> None:
    assert lengths_of(predicted(d=2)) == {"": pytest.approx(np.exp([-1, 0]))}
    names = ["log ell_1 of se", "log ell_2 of se", "log s of se", "log slope_1 of linear", "log slope_2 of linear"]
    names += ["log ell_1 of rq", "log ell_2 of rq", "log sigma"]
    arrays = predicted(d=2, theta=np.log([1.0, 2, 3, 4, 5, 6, 7, 8]), theta_names=np.array(names))
    found = lengths_of(arrays)
    assert {kernel: values.tolist() for kernel, values in found.items()} == {
        "se": pytest.approx([1, 2]), "rq": pytest.approx([6, 7]),
    }  # fmt: skip
    assert_drawn(make(convergence=[]), only(arrays, *LENGTHS), ["inputs"])


def test_a_kernel_without_lengths_has_no_figure_of_them() -> None:
    names = np.array(["log slope_1 of linear", "log slope_2 of linear", "log sigma"])
    arrays = predicted(d=2, theta=np.zeros(3), theta_names=names)
    assert draw(make(convergence=[]), only(arrays, *LENGTHS)) == {}


def test_inputs_that_hardly_matter_are_beyond_a_line() -> None:
    assert "beyond 100 one hardly matters" in caption(make(), "inputs", predicted())
    arrays = predicted(theta=np.log([0.5, 2.0, 1e4, 1.0, 0.2]))
    assert_drawn(make(convergence=[]), only(arrays, *LENGTHS), ["inputs"])


# -- the fit ----------------------------------------------------------------------------------------------------------


def test_the_fit_is_told_with_the_ask_from_which_on_nothing_changed() -> None:
    assert alt_text(make(), "fit") == (
        "Log likelihood of the experts' outputs after each ask: -0.9 to -0.45 nats a row after 4 asks, within 0.001 of"
        " that from ask 3 on."
    )


def test_the_training_of_the_gate_has_a_panel() -> None:
    steps = [{**each, "gate_loss": 2.3 / (1 + t)} for t, each in enumerate([*FIT, {"round": 5}, {"round": 6}])]
    report = make(convergence=steps)
    assert_drawn(report, {}, ["fit"])
    assert draw(report, {}) != draw(make(), {})
    assert "Cross-entropy of the gate's network: 2.3 to 0.383 nats a row after 6 steps." in alt_text(report, "fit")


def test_a_run_that_fitted_nothing_has_no_fit() -> None:
    assert draw(make(convergence=[{"round": 1, "queries": 60.0}]), {}) == {}
    assert draw(make(config={"repetitions": 3}), {}) == {}, "the rounds tell one repetition after another"


# -- what is said of a run --------------------------------------------------------------------------------------------


def test_texts_give_sizes_and_what_was_found() -> None:
    report, arrays = make(metrics={**METRICS, "n_experts": 4.0, "n_rows": 126.0}), predicted()
    assert alt_text(report, "predictions", arrays).endswith(
        "; 94 % of the measured outputs are in their 95 % interval; root mean squared error 3.744 in the output's unit."
    )
    low, high = arrays["mean"].min(), arrays["mean"].max()
    assert alt_text(report, "predictions", arrays).startswith(f"Predictions from {low:.4g} to {high:.4g}, with ")
    assert "52 % in the 50 % intervals, 81 % in the 80 % intervals" in alt_text(report, "calibration", arrays)
    assert "Residuals have mean" in alt_text(report, "calibration", arrays)
    one_input = predicted(d=1)
    assert "99 % of the measured outputs are in their 99 % interval" in alt_text(report, "curve", one_input)
    assert caption(report, "curve", one_input).startswith("Predicted mean over the one input and the 99 % interval")
    for name, each in (("experts", arrays), ("reach", one_input)):
        sizes = "4 experts of 30 to 33 rows; each answered 0 to 6 of the query points; "
        assert alt_text(report, name, each).startswith(sizes)
        assert "4 experts, 126 rows, 2 sites" in caption(report, name, each)
    assert alt_text(report, "inputs", arrays).startswith("Lengths, the shortest first: x0 0.368, x1 0.779, x2 1.65;")
    one = make(metrics={"n_queries": 1.0})
    assert "at 1 query point:" in caption(one, "deviations", predicted(outputs=None))
    twice = make(config={"repetitions": 2})
    assert "60 measured query points of the first repetition" in caption(twice, "predictions", arrays)
    assert "in their 95 % interval, on average over the repetitions" in alt_text(twice, "predictions", arrays)


def test_fewer_experts_are_drawn_where_they_were_tried() -> None:
    tried = {
        "tried_K": np.array([1, 2, 5]),
        "tried_smse": np.array([0.2, 0.1, 0.05]),
        "tried_msll": np.array([-0.5, -1.0, -1.5]),
        "tried_points": np.array(60),
    }
    assert_drawn(make(convergence=[]), only({**predicted(), **tried}, *tried), ["fewer"])
    assert alt_text(make(), "fewer", tried) == (
        "SMSE / MSLL at 60 query points: 0.2 / -0.5 from 1 expert, 0.1 / -1 from 2 experts, 0.05 / -1.5 from 5 experts."
    )
    assert "aggregation is rbcm" in caption(make(config={"gp.aggregation": "rbcm"}), "fewer", tried)
    assert draw(make(convergence=[]), {"tried_K": np.array([1])}) == {}


# -- a table ----------------------------------------------------------------------------------------------------------


def test_every_part_of_a_table_has_a_figure() -> None:
    assert_drawn(*table(over_k() + over_m() + methods()), ["figure7", "figure2", "table1"])
    assert list(draw(*table([{**each, "part": ""} for each in methods()]))) == ["comparison"]


def test_a_table_of_one_row_shows_its_run() -> None:
    assert figure_names(*table(methods()[:1])) == RUN


def test_over_k_every_gate_is_a_curve_and_all_experts_a_line() -> None:
    rows = over_k(smse_full=0.0685, msll_full=-1.341)
    assert alt_text(table(rows)[0], "figure7") == (
        "SMSE and MSLL over K (NPAE, M 10): KNN: 0.078 / -1.32 (K 2) to 0.071 / -1.39 (K 9);"
        " Gaussian: 0.078 / -1.32 (K 2) to 0.071 / -1.39 (K 9); all experts: 0.07 / -1.4. One process of all rows:"
        " SMSE 0.0685, MSLL -1.34."
    )
    assert caption(table(rows)[0], "figure7").endswith(
        "The dotted line is one process of all rows. Points with the same K are set apart."
    )
    base = draw(*table(rows))
    assert draw(*table(rows[1:])) != base, "the line of all experts"
    assert draw(*table(over_k())) != base, "the line of one process"


def test_over_m_every_rule_is_a_curve() -> None:
    content = alt_text(table(over_m())[0], "figure2")
    assert content.startswith("SMSE and MSLL over M (all experts): NPAE: 0.1 / -1 (M 5) to 0.1 / -1 (M 10)")
    assert "GRBCM: 0.15 / 4 (M 5)" in content


def test_over_m_with_two_k_every_gate_has_a_curve_for_each() -> None:
    rows = [row("figure11", gate, M=M, K=K) for gate in ("all", "knn", "ggm") for M in (10, 15, 20) for K in (3, 5)]
    rows = list({(each["gate"], each["M"], each["K"]): each for each in rows}.values())
    assert list(draw(*table(rows))) == ["figure11"]
    content = alt_text(table(rows)[0], "figure11")
    assert all(f"{name}: 0.07 / -1.3 (M 10)" in content for name in ("all experts", "KNN, K 3", "KNN, K 5", "GGM, K 5"))


def test_methods_are_dots_beside_the_published() -> None:
    rows = methods(smse_se=0.004, **{"smse published": 0.138, "msll published": -0.876})
    assert_drawn(*table(rows), ["table1"])
    assert draw(*table(methods(smse_se=0.004))) != draw(*table(rows))
    content = alt_text(table(rows)[0], "table1")
    assert content.startswith("SMSE and MSLL (M 10): GPoE, all experts: 0.138 / -1.3; RBCM, KNN, K 6: 0.091")
    assert "less is better: 4 rows of the table" in caption(table(rows)[0], "table1")
    assert caption(table(rows)[0], "table1").endswith("Bars are standard errors. Crosses are the paper's figures.")


def test_shares_of_experts_are_told_as_they_are() -> None:
    rows = [row("table2", "knn", M=M, K=K) for M in (10, 15, 20) for K in ("0.5", "0.7")]
    assert list(draw(*table(rows))) == ["table2"]
    assert "K 0.5: 0.07 / -1.3 (M 10)" in alt_text(table(rows)[0], "table2")
    assert list(draw(*table(rows[:2]))) == ["table2"]
    assert "K 0.5: 0.07 / -1.3; K 0.7" in alt_text(table(rows[:2])[0], "table2")


@pytest.mark.slow
def test_an_msll_far_above_the_others_leaves_them_to_be_seen() -> None:
    rows = over_m()
    rows[3]["msll"], rows[4]["smse"] = 250.0, 40.0
    assert list(draw(*table(rows))) == ["figure2"]


def test_cells_without_a_number_are_left_out() -> None:
    rows = over_k()
    rows[1]["smse"], rows[2]["msll"], rows[0]["smse"] = math.nan, None, None
    assert list(draw(*table(rows))) == ["figure7"]
    assert "all experts: unknown / -1.4" in alt_text(table(rows)[0], "figure7")
    for each in rows:
        each["msll"] = None
    assert list(draw(*table(rows))) == ["figure7"]
    assert alt_text(table(rows)[0], "figure7").startswith("SMSE over K")
    for each in rows:
        each["smse"] = math.nan
    assert draw(*table(rows)) == {}


def test_many_methods_are_told_in_part() -> None:
    rows = [
        row("all", gate, rule, M) for gate in ("knn", "dnn") for rule in ("npae", "bcm", "poe", "x") for M in (5, 6)
    ]
    assert list(draw(*table(rows))) == ["all"]
    assert "; and 4 more" in alt_text(table(rows)[0], "all")
