"""The verdict: no run advises what its own numbers refute."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from server.report.data import Report
from server.report.headline import differences
from server.report.html import report_html
from server.report.summary import render_table
from server.report.verdict import DO_NOT_JOIN, JOIN, TOO_FEW, UNDECIDED, judge, verdict
from strategies.bc3e.accuracy import accuracies, paired


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
        ({"mse_cluster": 2.0, "mse_alone": 1.0, "mse_all": 6.0}, DO_NOT_JOIN),
        ({"mse_cluster": 1.0, "mse_alone": 2.0, "mse_all": 1.0}, JOIN),  # one cluster of all
        ({"mse_cluster": 1.0, "mse_alone": 1.0}, DO_NOT_JOIN),  # nobody is in a cluster of several
        ({"mse_cluster": 1.0, "mse_alone": 1.0, "mse_all": 1.0}, DO_NOT_JOIN),
        ({"mse_cluster": 1.5, "mse_alone": 1.0}, UNDECIDED),
        ({"mse_cluster": 1.0, "mse_alone": 1.5}, UNDECIDED),
        ({"n_clusters": 2.0}, UNDECIDED),
        ({}, UNDECIDED),
    ],
)
def test_without_a_standard_error_only_half_or_double_the_error_counts(
    metrics: dict[str, float], decision: str
) -> None:
    assert verdict(report("sec", **metrics)).decision == decision


@pytest.mark.parametrize(
    ("difference", "error", "decision"),
    [
        (-0.5, 0.1, JOIN),
        (0.5, 0.1, DO_NOT_JOIN),
        (0.1, 0.1, TOO_FEW),
        (-0.1, 0.1, TOO_FEW),
        (0.0, 0.02, DO_NOT_JOIN),  # less than 5 % is saved for sure
        (-0.03, 0.005, JOIN),
    ],
)
def test_no_run_advises_what_its_own_test_rows_refute(difference: float, error: float, decision: str) -> None:
    metrics = {"test_mse": 1.0 + difference, "test_mse_once": 9.0, "mse_alone": 1.0}
    paired = {"difference": difference, "difference_se": error, "pairs": 80.0}
    found = verdict(report("residual", differences={"mse_alone": paired}, **metrics))
    assert found.decision == decision
    assert "with the best site alone" in found.reason
    assert found.use == ("the best site's own columns" if decision == DO_NOT_JOIN else "")


def test_one_site_has_nobody_to_join_whatever_its_numbers() -> None:
    alone = replace(report("sec", mse_cluster=1.0, mse_alone=9.0), sites=["a"])
    assert str(verdict(alone)) == "Undecided. The run has one site: there is nobody to join."
    left = replace(alone, missing={"b": ["round 1: it did not answer in time"]})
    assert verdict(left).decision == UNDECIDED
    assert verdict(left).reason == "No other site answered: there is nobody to join."


def test_with_as_many_rows_as_it_asks_for_it_decides() -> None:
    """The standard error falls with the root of the number of rows; what is seen stays."""
    for difference in (-0.08, -0.02, 0.04):
        known = {"difference": difference, "difference_se": 0.1, "pairs": 100.0}
        metrics = {"test_mse": 1.0 + difference, "mse_alone": 1.0}
        found = verdict(report("residual", differences={"mse_alone": known}, **metrics))
        assert found.decision == TOO_FEW
        assert found.words == f"Too few held-out rows to tell: about {found.more:,} more would."
        for share, decided in ((1.05, True), (0.8, False)):
            n = 100 + share * found.more
            more = {**known, "difference_se": 0.1 * (100 / n) ** 0.5, "pairs": n}
            again = verdict(report("residual", differences={"mse_alone": more}, **metrics))
            assert (again.decision != TOO_FEW) == decided


def test_the_best_of_several_by_the_same_rows_must_be_better_by_more() -> None:
    known = {"difference": 0.0, "difference_se": 0.025, "pairs": 80.0}
    metrics = {"test_mse": 1.02, "mse_alone": 1.0}
    for chosen_from, decision in ((1, DO_NOT_JOIN), (20, TOO_FEW)):
        given = {"mse_alone": {**known, "chosen_from": float(chosen_from)}}
        assert verdict(report("residual", differences=given, **metrics)).decision == decision


def test_the_reason_names_what_is_better() -> None:
    found = verdict(report("sec", mse_cluster=22.7, mse_alone=1.0, mse_all=60.0))
    assert str(found) == (
        "Do not join: use each learner's own model. Mean squared error, every learner with its cluster: 22.7,"
        " 22.7 times as large as with every learner alone (1)."
    )


def _bc3e(right: int, vote: int, best: int, n: int = 2000) -> Report:
    counts = {"bc3e": right, "vote": vote, "svm": best, "tree": best - 10}
    totals = dict.fromkeys(counts, n)
    metrics = accuracies(counts, totals)
    return report("bc3e", differences=differences("bc3e", metrics, paired(counts, totals)), **metrics)


def test_right_decisions_are_compared_by_what_is_missing_to_all() -> None:
    assert verdict(_bc3e(1800, 1600, 1650)).decision == JOIN
    assert verdict(_bc3e(1960, 1900, 1900)).decision == JOIN, "three fifths of the errors"
    assert verdict(_bc3e(1370, 1454, 1300)).use == "the majority vote"
    assert verdict(_bc3e(1800, 1700, 1900)).use == "the best single classifier"
    assert verdict(_bc3e(1800, 1800, 1500)).use == "the majority vote", "no site needs another to vote"
    assert verdict(_bc3e(1620, 1600, 1600)).decision == TOO_FEW
    assert verdict(_bc3e(1620, 1600, 1600)).words.startswith("Too few instances of known class to tell")


def test_what_nobody_has_does_not_count() -> None:
    for pooled in (0.1, 0.9):
        assert verdict(report("gp", smse=0.5, smse_full=pooled)).decision == UNDECIDED


def test_the_report_keeps_the_verdict_with_what_was_compared() -> None:
    made = _bc3e(1370, 1454, 1300)
    made.missing = {"b": ["timed out in round 3"]}
    found = judge(made, {})
    kept = Report.from_json(replace(made, verdict=found.as_data()).to_json())
    assert verdict(kept) == found
    assert [way.metric for way in found.ways] == ["accuracy", "accuracy_majority", "accuracy_best_component"]
    assert found.warnings == ("1 of 2 sites did not answer every ask; b: timed out in round 3.",)
    made.missing = {"node 7": ["its process ended"]}  # before it had said its name
    assert judge(made, {}).warnings == ("1 of 3 sites did not answer every ask; node 7: its process ended.",)


def test_one_site_that_is_left_does_not_decide_for_all() -> None:
    made = _bc3e(1370, 1454, 1300)
    assert judge(made, {}).decision == DO_NOT_JOIN
    made.missing = {"b": ["round 2: no answer within 5 s"]}
    assert judge(made, {}).decision == DO_NOT_JOIN, "it answered again"
    made.lost = ["b"]
    assert str(judge(made, {})) == "Undecided. Only a answered its last ask: run again when others do, too."
    made.lost = ["a", "b"]
    assert judge(made, {}).reason.startswith("No site answered its last ask")


@pytest.mark.parametrize(
    ("protocol", "metrics", "reason"),
    [
        ("sec", {"n_clusters": 2.0}, "There were no outcomes to test the result on: hold rows out (sec.holdout)"),
        ("bc3e", {"bound": -3.0}, "to test the result on: name the column of true classes in truth"),
        ("residual", {"train_mse": 0.1}, "to test the result on: hold rows out (residual.holdout)"),
        ("gp", {"n_queries": 2.0}, "to test the result on: give query points with measured outputs (gp.queries,"),
        ("gp", {"smse": 0.1}, "How well a site does alone was not measured: that takes 8 query points with"),
        (
            "coreset",
            {"cost": 2.0, "cost_unfair": 1.0},
            "alone was not measured, only what comes out without",
        ),
        ("unheard-of", {"m": 1.0}, "The protocol has no alternative to compare with."),
    ],
)
def test_why_a_run_is_undecided(protocol: str, metrics: dict[str, float], reason: str) -> None:
    found = verdict(report(protocol, **metrics))
    assert found.decision == UNDECIDED
    assert reason in found.reason


@pytest.mark.parametrize(("protocol", "metrics"), [("residual", {"n_predicted": 80.0}), ("gp", {"smse": 0.3})])
def test_a_prediction_that_compares_nothing_does_not_ask_whether_to_join(
    protocol: str, metrics: dict[str, float]
) -> None:
    made = replace(report(protocol, **metrics), config={"from": "results/7"})
    assert str(verdict(made)) == "The run predicts by what an earlier one has learned; the verdict is that one's."
    for shown in (render_table(made), report_html(made, {})):
        assert "Should a site join" not in shown
    compared = replace(report("residual", test_mse=1.0, mse_alone=3.0), config={"from": "results/7"})
    assert verdict(compared).decision == JOIN


@pytest.mark.parametrize(
    ("together", "outside", "decision"),
    [(1.5, 0.09, DO_NOT_JOIN), (1.5, 0.1, UNDECIDED), (1.5, 0.7, UNDECIDED), (0.5, 0.7, JOIN)],
)
def test_own_clusters_that_are_not_fair_are_no_reason_against_joining(
    together: float, outside: float, decision: str
) -> None:
    """A site with one group pays nothing for fairness, but its clusters are not those that were asked for."""
    error = {"cost_alone": {"difference": together - 1.0, "difference_se": 0.01}}
    found = verdict(report("coreset", 500, error, cost_left_out=together, cost_alone=1.0, share_off_alone=outside))
    assert found.decision == decision
    assert ("outside the bounds: that is not what was asked for" in found.reason) == (decision == UNDECIDED)


def test_a_table_has_no_verdict_but_its_rows_have() -> None:
    rows = [{"p": 5, "mse_cluster": 1.0}, {"p": 10, "mse_cluster": 2.0}]
    found = verdict(replace(report("sec", n_cells=2.0, mse_cluster=1.5, mse_alone=9.0), table=rows))
    assert str(found) == "Undecided. The run went through 2 settings: each row of its table is a comparison."


@pytest.mark.parametrize("alone", [2.0, 0.5, 1.0])
def test_it_stands_first_on_the_page_and_in_the_terminal(alone: float) -> None:
    made = report("sec", mse_cluster=1.0, mse_alone=alone)
    found, page = verdict(made), html.unescape(re.sub(r"<[^>]+>", "", report_html(made, {}))).replace("\xa0", " ")
    assert page.index(f"Should a site join? {found}") < page.index("The answer\n", page.index("Skip to the report"))
    assert f"\n\nShould a site join? {found}\n\n" in render_table(made)


def test_no_better_than_the_mean_is_nothing_to_join_for() -> None:
    found = verdict(report("gp", smse=1.04))
    assert found.decision == DO_NOT_JOIN
    assert "1.04; from 1 on nothing was gained" in found.reason


def test_repetitions_are_pairs() -> None:
    error = {"mse_alone": {"difference": -0.1, "difference_se": 0.2}}
    metrics = {"mse_cluster": 1.0, "mse_alone": 1.1}
    found = verdict(report("sec", 5, error, **metrics))
    assert found.words.startswith("Too few repetitions to tell: about ")
    error["mse_alone"]["difference_se"] = 0.001
    assert verdict(report("sec", 5, error, **metrics)).decision == JOIN
    assert "One draw has no standard error" in verdict(report("sec", **metrics)).reason
