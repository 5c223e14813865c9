"""The verdict: no run advises what its own numbers refute."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from server.report.data import Report
from server.report.html import report_html
from server.report.summary import render_table
from server.report.verdict import CANNOT_BE_SAID, DO_NOT_JOIN, JOIN, verdict


def report(
    protocol: str, repetitions: int = 1, differences: dict[str, dict[str, float]] | None = None, **metrics: float
) -> Report:
    return Report(
        scenario="s",
        protocol=protocol,
        seed=0,
        sites=["a", "b"],
        rounds=1,
        seconds=1.0,
        metrics=metrics,
        config={"repetitions": repetitions},
        differences=differences or {},
    )


@pytest.mark.parametrize(
    ("metrics", "decision"),
    [
        ({"mse_cluster": 1.0, "mse_alone": 2.0, "mse_all": 3.0}, JOIN),
        ({"mse_cluster": 2.0, "mse_alone": 1.0, "mse_all": 3.0}, DO_NOT_JOIN),
        ({"mse_cluster": 1.0, "mse_alone": 2.0, "mse_all": 1.0}, JOIN),  # one cluster of all
        ({"mse_cluster": 1.0, "mse_alone": 1.0}, CANNOT_BE_SAID),
        ({"mse_cluster": 1.0, "mse_alone": 1.0, "mse_all": 1.0}, CANNOT_BE_SAID),
        ({"mse_cluster": 1.03, "mse_alone": 1.0}, CANNOT_BE_SAID),
        ({"mse_cluster": 1.0, "mse_alone": 1.03}, CANNOT_BE_SAID),
        ({"n_clusters": 2.0}, CANNOT_BE_SAID),
        ({}, CANNOT_BE_SAID),
    ],
)
def test_errors_beside_those_of_the_alternatives(metrics: dict[str, float], decision: str) -> None:
    assert verdict(report("sec", **metrics)).decision == decision


@pytest.mark.parametrize(
    ("difference", "decision"), [(-0.5, JOIN), (0.5, DO_NOT_JOIN), (0.1, CANNOT_BE_SAID), (-0.1, CANNOT_BE_SAID)]
)
def test_no_run_advises_what_its_own_test_rows_refute(difference: float, decision: str) -> None:
    metrics = {"test_mse": 1.0 + difference, "test_mse_once": 9.0, "mse_alone": 1.0}
    paired = {"difference": difference, "difference_se": 0.1, "pairs": 80.0}
    found = verdict(report("residual", differences={"mse_alone": paired}, **metrics))
    assert found.decision == decision
    assert "with the best site alone" in found.reason


def test_the_reason_names_what_is_better() -> None:
    found = verdict(report("sec", mse_cluster=22.7, mse_alone=1.0, mse_all=30.0))
    assert found.reason == "The result is 22.7 times as large as with every learner alone (1)."
    assert str(found).startswith("Do not join. The result is")


def test_an_alternative_that_nobody_has_does_not_count() -> None:
    """Which component is best is not known in advance, and rows in one place are not to be had."""
    assert verdict(report("bc3e", accuracy=0.9, accuracy_majority=0.8, accuracy_best_component=0.95)).decision == JOIN
    assert verdict(report("bc3e", accuracy=0.685, accuracy_majority=0.727)).decision == DO_NOT_JOIN
    assert verdict(report("bc3e", accuracy=0.98, accuracy_majority=0.96)).decision == JOIN, "half of the errors"
    for pooled in (0.1, 0.9):
        assert verdict(report("gp", smse=0.5, smse_full=pooled)).decision == CANNOT_BE_SAID


@pytest.mark.parametrize(
    ("protocol", "metrics", "reason"),
    [
        ("sec", {"n_clusters": 2.0}, "There were no outcomes to test the result on."),
        ("bc3e", {"bound": -3.0}, "There were no outcomes to test the result on."),
        ("residual", {"train_mse": 0.1}, "There were no outcomes to test the result on."),
        ("gp", {"smse": 0.1}, "How well a site does alone was not measured."),
        (
            "coreset",
            {"cost": 2.0, "cost_unfair": 1.0},
            "alone was not measured, only what comes out without",
        ),
        ("unheard-of", {"m": 1.0}, "The run compares with nothing."),
    ],
)
def test_why_nothing_can_be_said(protocol: str, metrics: dict[str, float], reason: str) -> None:
    found = verdict(report(protocol, **metrics))
    assert found.decision == CANNOT_BE_SAID
    assert reason in found.reason


def test_a_table_has_no_verdict_but_its_rows_have() -> None:
    rows = [{"p": 5, "mse_cluster": 1.0}, {"p": 10, "mse_cluster": 2.0}]
    found = verdict(replace(report("sec", n_cells=2.0, mse_cluster=1.5, mse_alone=9.0), table=rows))
    assert str(found) == "Cannot be said. The run went through 2 settings: each row of its table is a comparison."


@pytest.mark.parametrize("alone", [2.0, 0.5, 1.0])
def test_it_stands_first_on_the_page_and_in_the_terminal(alone: float) -> None:
    made = report("sec", mse_cluster=1.0, mse_alone=alone)
    found, page = verdict(made), html.unescape(re.sub(r"<[^>]+>", "", report_html(made, {})))
    assert page.index(f"Should a site join? {found}") < page.index("Overview\n", page.index("Skip to the report"))
    assert f"\n\nShould a site join? {found}\n\n" in render_table(made)


def test_no_better_than_the_mean_is_nothing_to_join_for() -> None:
    found = verdict(report("gp", smse=1.04))
    assert found.decision == DO_NOT_JOIN
    assert "1.04; from 1 on nothing was gained" in found.reason


def test_a_difference_within_its_error_says_nothing() -> None:
    error = {"mse_alone": {"difference": -0.1, "difference_se": 0.2}}
    metrics = {"mse_cluster": 1.0, "mse_alone": 1.1}
    assert verdict(report("sec", 5, error, **metrics)).decision == CANNOT_BE_SAID
    error["mse_alone"]["difference_se"] = 0.001
    found = verdict(report("sec", 5, error, **metrics))
    assert (found.decision, "One draw" in found.reason) == (JOIN, False)
    assert "One draw has no standard error" in verdict(report("sec", **metrics)).reason
