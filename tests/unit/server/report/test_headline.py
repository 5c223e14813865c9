"""The answer of a run, and what it is compared with."""

import math

import numpy as np
import pytest

from server.report.headline import UNCLEAR, answer, comparisons, differences
from server.report.html import report_html
from tests.support.sample_report import make


@pytest.mark.parametrize(
    ("protocol", "metrics", "words"),
    [
        (
            "bc3e",
            make().metrics,
            "Together, 1 of 2 sites put 94.2 ± 0.4 % (higher is better) of their instances into the right class: 4.5"
            " percentage points more than by majority vote (89.7 %) and 0.7 percentage points more than in the"
            " paper (93.5 %).",
        ),
        ("bc3e", {"bound": -12.5}, "at a bound on the log-likelihood of -12.5 (higher is better); no true classes"),
        (
            "sec",
            {"mse_cluster": 0.1, "mse_alone": 0.3, "mse_all": 0.1, "n_clusters": 1.0},
            "a mean squared error of 0.1 (lower is better): 66.7 % less than with every learner alone (0.3) and the"
            " same as with all learners together. They form 1 cluster.",
        ),
        (
            "sec",
            {"mse_cluster": 0.6, "mse_alone": 0.2},
            "(lower is better): 3 times as large as with every learner alone (0.2).",
        ),
        ("bc3e", {"n_predicted": 7.0}, "classified 7 new instances of their own"),
        ("sec", {"n_clusters": 3.0}, "form 3 clusters; no rows were held out"),
        ("residual", {"test_mse": 0.1, "train_mse": 0.2}, "predict test rows with a mean squared error of 0.1 (lower"),
        (
            "residual",
            {"test_mse": 0.1, "mse_centralized": 0.08},
            "25.0 % more than by boosting all columns in one place",
        ),
        ("residual", {"train_mse": 0.1}, "there are no test rows"),
        ("residual", {"n_predicted": 30.0}, "predict 30 rows"),
        (
            "coreset",
            {"cost": 12000.4, "cost_unfair": 12000.4, "n_assigned": 5000.0, "max_violation": 0.0},
            "put 5,000 rows into fair clusters at a cost of 12,000 (lower is better): the same as without the bounds of"
            " fairness. Every cluster keeps the bounds of fairness.",
        ),
        (
            "coreset",
            {"cost": 5.0, "max_violation": 0.4},
            "put some rows into fair clusters at a cost of 5 (lower is better).",
        ),
        (
            "coreset",
            {"cost": 5.0, "max_violation": 0.4},
            "misses its bounds of fairness in a cluster by 0.4 rows at most.",
        ),
        (
            "gp",
            {"smse": 0.25, "smse_full": 0.2, "n_measured": 10.0, "coverage_95": 0.9},
            "predict 10 points with a standardized mean squared error of 0.25 (lower is better), where 0 is exact and"
            " 1 no better than the mean output: 25.0 % more than by one Gaussian process of all rows (0.2; the price of"
            " rows in separate places). Their 95 % intervals hold 90.0 % of the outputs.",
        ),
        ("gp", {"n_queries": 10.0}, "predict 10 points with unknown outputs."),
        ("gp", {"log_likelihood": -0.5}, "at a log likelihood of -0.5 (higher is better) per row"),
        ("other", {"b": 2.0, "a": 1.0}, "reached a = 1."),
        ("other", {}, "there was nothing to measure"),
    ],
)
def test_the_answer_names_the_main_number_its_direction_and_its_rivals(protocol, metrics, words):
    published = make().published if protocol == "bc3e" and "accuracy" in metrics else {}
    assert words in answer(make(protocol=protocol, metrics=metrics, published=published))


def test_the_answer_of_a_single_site_is_of_one():
    alone = {"sites": ["a"], "missing": {}}
    sentence = answer(make(**alone, protocol="sec", metrics={"mse_cluster": 0.1}, published={}))
    assert sentence.startswith("1 site, each predicting with its cluster, has a mean")
    assert answer(make(**alone)).startswith("1 site put 94.2 ± 0.4 % (higher is better) of its instances")
    assert answer(make(**alone, protocol="residual", metrics={"test_mse": 0.1})).startswith("1 site predicts test")
    assert answer(make(sites=["a"])).startswith("1 of 2 sites put 94.2"), "the other one never answered"
    assert answer(make(lost=["b"])).startswith("1 of 2 sites put 94.2"), "the other one ceased to answer"


def test_the_answer_of_a_run_that_goes_on_from_another_says_so():
    for protocol, key in (("bc3e", "from"), ("sec", "from"), ("sec", "sec.join")):
        text = answer(make(protocol=protocol, config={key: "/results/7"}))
        assert text.startswith("With the result of an earlier run, 1 of 2 sites")
    assert answer(make(config={"sec.join": "/results/7"})).startswith("Together"), "no key of its protocol"


TABLE = [
    {"rule": "poe", "K": 1, "smse": 0.5, "smse_se": 0.1, "smse published": 0.4, "smse_full": 0.2},
    {"rule": "npae", "K": 1, "smse": 0.25, "smse published": 0.25, "smse_full": 0.25},
    {"rule": "bcm", "K": 1, "smse": 0.3, "smse_full": 0.4},
]


def test_the_answer_of_a_table_says_where_its_number_is_smallest_and_largest_and_how_it_fares():
    report = make(protocol="gp", metrics={"smse": 0.35, "smse_full": 0.28, "n_cells": 3.0}, published={}, table=TABLE)
    assert answer(report) == (
        "Together, 1 of 2 sites worked through 3 settings. Standardized mean squared error (lower is better): lowest"
        " with rule npae (0.25), highest with rule poe (0.50 ± 0.10). It is lower than by one Gaussian process of all"
        " rows in 1 of 3 and the same in 1. The paper has figures for 2 of them: this run's are 12 % higher in the"
        " median (from the same to 25 % higher)."
    )
    single = make(protocol="gp", metrics={"smse": 0.5, "n_cells": 1.0}, published={}, table=TABLE[:1])
    assert "error of 0.5 (lower" in answer(single), "a table of one row is a run like any other"


def test_the_answer_is_compared_with_a_verdict():
    report = make(protocol="sec", metrics={"mse_cluster": 0.2, "mse_alone": 0.1, "mse_all": 0.4}, published={})
    verdicts = [(each.metric, each.verdict) for each in comparisons(report)]
    assert verdicts == [("mse_alone", "worse"), ("mse_all", "better")]
    costs = {"cost": 3.0, "cost_full": 2.0, "cost_unfair": 2.5}
    verdicts = {
        each.metric: each.verdict for each in comparisons(make(protocol="coreset", metrics=costs, published={}))
    }
    assert verdicts == {"cost_full": "the price of rows in separate places", "cost_unfair": "the price of fairness"}
    cheaper = comparisons(make(protocol="coreset", metrics={**costs, "cost": 1.0}, published={}))
    assert {each.verdict for each in cheaper} == {"better"}
    assert comparisons(make(protocol="other")) == []


@pytest.mark.parametrize(("error", "verdict"), [(0.0, "better"), (0.01, "better"), (0.03, UNCLEAR)])
def test_a_difference_within_its_error_is_neither_better_nor_worse(error, verdict):
    """Of three repetitions Student's distribution asks for 4.3 standard errors: 0.1 is 10 of them, or 3.3."""
    report = make(
        metrics={"accuracy": 0.9, "accuracy_se": error, "accuracy_majority": 0.8},
        published={"accuracy": 0.8},
        differences={"accuracy_majority": {"difference": 0.1, "difference_se": error}},
        config={"repetitions": 3},
    )
    assert {each.verdict for each in comparisons(report)} == {verdict}
    assert (f"; {UNCLEAR})" in answer(report)) == (verdict == UNCLEAR)
    assert ("Not significant: the difference" in report_html(report, {})) == (verdict == UNCLEAR)


def test_the_answer_of_a_table_says_higher_where_that_is_better():
    rivals = enumerate((0.8, 0.95, 0.9, 0.7), start=2)
    rows = [{"sites": n, "accuracy": 0.9, "accuracy_majority": rival} for n, rival in rivals]
    metrics = {"accuracy": 0.9, "accuracy_majority": 0.88, "accuracy_best_component": 0.7, "n_cells": 4.0}
    sentence = answer(make(metrics=metrics, published={}, table=rows))
    assert "It is higher than by majority vote in 2 of 4 and the same in 1." in sentence
    assert "For comparison, on average over the settings: 70.0 % by the best single classifier." in sentence


def test_differences_have_the_standard_errors_of_pairs():
    rng = np.random.default_rng(0)
    base = rng.gamma(5.0, size=2000)
    arrays = {"repetitions_mse_cluster": 0.8 * base, "repetitions_mse_alone": base}
    found = differences("sec", {"mse_cluster": 1.0}, arrays)
    assert set(found) == {"mse_alone"}
    assert found["mse_alone"]["relative"] == pytest.approx(-0.2)
    assert found["mse_alone"]["relative_se"] == pytest.approx(0.0, abs=1e-12)
    assert found["mse_alone"]["difference_se"] == pytest.approx(0.2 * base.std(ddof=1) / 2000**0.5)
    noisy = {**arrays, "repetitions_mse_cluster": base * rng.normal(0.8, 0.1, 2000)}
    ratios = [
        noisy["repetitions_mse_cluster"][draw].mean() / base[draw].mean()
        for draw in rng.integers(2000, size=(500, 2000))
    ]
    assert differences("sec", {"mse_cluster": 1.0}, noisy)["mse_alone"]["relative_se"] == pytest.approx(
        np.std(ratios), rel=0.2
    )
    cells = {"cells_mse_cluster": np.ones((3, 2)), "cells_mse_alone": np.full((3, 2), 2.0)}
    assert differences("sec", {"mse_cluster": 1.0}, cells)["mse_alone"]["relative"] == -0.5
    assert differences("sec", {"mse_cluster": 1.0}, {"repetitions_mse_cluster": np.ones(1)}) == {}
    report = make(protocol="sec", metrics={"mse_cluster": 8.0, "mse_alone": 10.0}, published={}, differences=found)
    assert "20.0 % less than with every learner alone (10)" in answer(report)


def test_rows_are_pairs_where_there_is_one_repetition():
    metrics = {"test_mse": 1.2, "mse_alone": 1.0, "mse_holder": 2.0}
    arrays = {"paired_mse_alone": np.array([0.2, 0.15, 100]), "paired_mse_holder": np.array([-0.8, 0.1, 100])}
    found = differences("residual", metrics, arrays)
    assert found["mse_alone"] == {
        "difference": 0.2, "difference_se": 0.15, "pairs": 100.0, "relative": 0.2, "relative_se": 0.15,
    }  # fmt: skip
    report = make(protocol="residual", metrics=metrics, published={}, differences=found)
    alone, holder = comparisons(report)
    assert (alone.verdict, holder.verdict) == (UNCLEAR, "better")
    assert "40 ± 5 % less than with the site alone that holds the outcome (2)" in answer(report)
    surer = differences("residual", metrics, {"paired_mse_alone": np.array([0.2, 0.05, 100])})
    [worse, _] = comparisons(make(protocol="residual", metrics=metrics, published={}, differences=surer))
    assert worse.verdict == "worse"


def test_a_row_without_a_finite_number_does_not_answer():
    rows = [{"K": place, "smse": value} for place, value in enumerate((0.5, math.nan, math.inf, 0.1))]
    sentence = answer(make(protocol="gp", metrics={"smse": 0.3, "n_cells": 4.0}, table=rows))
    assert "nan" not in sentence
    assert "inf" not in sentence
