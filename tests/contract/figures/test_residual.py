"""Figures of residual: what is drawn for which run, from content alone, and what is said of them in words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from server.report.data import Report
from tests.support.figure_checks import Contents, alt_text, assert_drawn, caption, contents, draw, figure_names

RUN = ["curves", "power", "coefficients"]
ALGORITHMS = ("average", "meta-linear", "sip", "greedy", "parallel p=1")


def make(**changes: Any) -> Report:
    made: dict[str, Any] = {
        "scenario": "s", "protocol": "residual", "seed": 0, "sites": ["a"], "rounds": 3, "seconds": 1.0,
    }  # fmt: skip
    return Report(**{**made, "metrics": {}, **changes})


def falling(n: int = 20, floor: float = 0.05) -> np.ndarray:
    return floor + np.exp(-np.arange(n) / 3.0)


def learned(n: int = 20, n_agents: int = 5, **changes: Any) -> dict[str, np.ndarray]:
    """Arrays of one run."""
    share = np.arange(1.0, n_agents + 1)
    arrays = {
        "beta": np.ones(n_agents),
        "curve_train": falling(n),
        "curve_validation": falling(n, 0.1),
        "curve_test": falling(n, 0.12),
        "power": np.outer(1 - falling(n, 0.0), share / share.sum()),
        "agents": np.array([f"lab-{place}" for place in range(n_agents)]),
    }
    return {**arrays, **changes}


def algorithms(**more: Any) -> list[dict[str, Any]]:
    return [{"algorithm": name, "test_mse": 0.7 / (k + 1), **more} for k, name in enumerate(ALGORITHMS)]


def powers(*others: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """A table over p, as the paper's Table I, and rows without a p."""
    found = (0.242, 0.204, 0.192, 0.190, 0.202, 0.222, 0.257)
    over = [{"algorithm": "parallel", "p": p, "test_mse": value, **more} for p, value in enumerate(found, start=1)]
    return [*over, *others]


def table(rows: list[dict[str, Any]], **arrays: Any) -> tuple[Report, dict[str, np.ndarray]]:
    metrics = {"test_mse": 0.3, "n_cells": float(len(rows)), "mse_centralized": 0.03, "iterations": 20.0}
    return make(metrics=metrics, table=rows), {"cells_test_mse": np.ones((len(rows), 2)), **learned(), **arrays}


# -- a run ------------------------------------------------------------------------------------------------------------


def test_a_run_shows_its_errors_and_its_powers() -> None:
    sums: dict[str, Any] = {"curve_power_relevant": falling(), "curve_power_irrelevant": falling() / 9}
    report = make(metrics={"test_mse": 0.1, "iterations": 12.0})
    assert_drawn(report, learned(), RUN, twice=True)
    assert_drawn(report, learned(**sums), [*RUN, "relevance"])


def test_a_table_of_one_row_shows_its_run() -> None:
    assert list(draw(*table(algorithms()[:1]))) == RUN


def test_rows_that_are_no_settings_are_no_comparison() -> None:
    """Such as a table of the agents of one run."""
    report = make(metrics={"test_mse": 0.1}, table=[{"agent": "a", "beta": 1.0}, {"agent": "b", "beta": 0.5}])
    assert figure_names(report, learned()) == RUN


def test_a_run_of_one_iteration_or_none_has_no_curves() -> None:
    assert_drawn(make(metrics={"test_mse": 0.1}), learned(1), ["coefficients"])
    assert draw(make(), {}) == {}


def test_rows_that_there_are_none_of_have_no_curve() -> None:
    none, unknown = np.zeros(0), np.full(20, np.nan)
    report = make(metrics={"iterations": 20.0})
    images = [contents(report, "curves", learned(curve_validation=each, curve_test=each)) for each in (none, unknown)]
    assert images[0] == images[1]


@pytest.mark.slow
def test_the_chosen_iterate_is_marked() -> None:
    def drawn(chosen: float, **arrays: Any) -> Contents:
        return contents(make(metrics={"iterations": chosen}), "curves", learned(**arrays))

    third, last = drawn(3), drawn(21)
    assert len({drawn(0), third, drawn(4), last}) == 4
    assert last == drawn(20), "no iterates of these curves, which begin with that before any residual was fitted"
    assert drawn(7.5, repetitions_iterations=np.array([3.0, 12.0])) == third, "the curves are the first repetition's"
    assert drawn(7.5, cells_iterations=np.array([[4.0, 9.0]])) == drawn(4)


@pytest.mark.parametrize(("scale", "n"), [(1e-6, 2), (1.0, 60), (1e6, 2)])
def test_errors_of_every_size_can_be_drawn(scale: float, n: int) -> None:
    curves: dict[str, Any] = {
        "curve_train": scale * falling(n),
        "curve_validation": np.zeros(n),
        "curve_test": np.zeros(0),
    }
    assert list(draw(make(), learned(n, **curves))) == RUN


@pytest.mark.parametrize("n_agents", [1, 8, 9, 40])
def test_the_largest_powers_are_named(n_agents: int) -> None:
    arrays = learned(n_agents=n_agents)
    if n_agents == 40:
        assert_drawn(make(), arrays, RUN)
    power = contents(make(), "power", arrays)
    arrays["agents"][0] = "another"  # the one with the least power
    assert (contents(make(), "power", arrays) == power) == (n_agents > 8)


def test_no_power_at_all_is_no_obstacle() -> None:
    assert list(draw(make(), learned(power=np.zeros((20, 5))))) == RUN


def test_a_name_is_drawn_as_it_is() -> None:
    names = np.array(["$x^{$", "x" * 64, "_^\\", "_hidden", "a"])
    assert_drawn(make(), learned(agents=names), RUN)
    rows = [{"algorithm": name, "test_mse": 0.5} for name in names]
    assert_drawn(*table(rows), ["errors"])


@pytest.mark.slow
def test_relevant_agents_are_told_from_the_others_where_the_scenario_knows_them() -> None:
    base, known = learned(), learned(relevant=np.array([True, False, True, False, False]))
    report = make(metrics={"iterations": 19.0})
    drawn = [draw(report, arrays) for arrays in (base, known)]
    assert drawn[0]["power"] != drawn[1]["power"]
    assert drawn[0]["coefficients"] != drawn[1]["coefficients"]
    assert "irrelevant" not in alt_text(report, "power", base)
    assert alt_text(report, "power", known).endswith("Agents with irrelevant attributes alone have 73.3 % together.")


@pytest.mark.slow
def test_coefficients_are_drawn_where_they_differ() -> None:
    alike, weighted = learned(), learned(beta=np.array([0.5, -0.2, 0.0, 1.0, 2.0]))
    assert contents(make(), "coefficients", alike) != contents(make(), "coefficients", weighted)
    assert_drawn(make(), weighted, RUN)
    report = make(metrics={"iterations": 19.0, "n_agents": 5.0})
    assert alt_text(report, "coefficients", weighted).startswith(
        "What each agent adds; shares of all power at the chosen one: lab-4 33.3 % (coefficient 2), lab-3 26.7 %"
    )
    assert "coefficient " not in alt_text(report, "coefficients", alike)
    assert "5 agents" in caption(report, "coefficients", alike)


# -- a table of algorithms --------------------------------------------------------------------------------------------


def test_a_table_of_algorithms_is_bars() -> None:
    assert_drawn(*table(algorithms()), ["errors"])
    rows = algorithms()
    rows[2]["test_mse_best"] = 0.01
    changed = [table(algorithms(test_mse_se=0.02)), table(rows), table(algorithms(mse_pooled=0.02))]
    changed.append(table(algorithms(), cells_mse_centralized=np.full((5, 2), 0.03)))
    images = {draw(*each)["errors"] for each in (table(algorithms()), *changed)}
    assert len(images) == 5
    assert len({image.height for image in images}) <= 2  # of legends


@pytest.mark.slow
def test_the_last_iterates_error_is_drawn_where_that_is_published() -> None:
    last = [{**row, "test_mse": 9.0, "test_mse_last": row["test_mse"]} for row in powers()]
    assert draw(*table(last))["errors"] != draw(*table(powers()))["errors"]
    last = [{**row, "test_mse_last published": 0.2} for row in last]
    assert draw(*table(last)) == draw(*table(powers(**{"test_mse published": 0.2})))
    assert alt_text(table(last)[0], "errors").startswith("Mean squared error on test rows: parallel, p = 1: 0.242,")


@pytest.mark.slow
def test_published_figures_are_crosses_on_the_bars() -> None:
    rows = algorithms()
    rows[0]["test_mse published"] = 0.6
    assert draw(*table(rows)) != draw(*table(algorithms()))
    assert caption(table(rows)[0], "errors").endswith("Crosses are the paper's figures.")


def test_a_metric_that_the_table_does_not_show_is_taken_from_the_arrays() -> None:
    shown = [{"algorithm": name, "train_mse": 0.1} for name in ALGORITHMS]
    found = 0.7 / np.arange(1, 6)
    drawn = draw(*table(shown, cells_test_mse=np.stack([found, found], axis=1)))
    assert drawn == draw(*table(algorithms()))


def test_rows_of_several_labels_and_algorithms_called_by_numbers_are_bars_too() -> None:
    rows = [{"data": data, "p": p, "test_mse": p / 10} for data in ("f1", "f2") for p in (1, 3)]
    assert_drawn(*table(rows), ["errors"])
    assert alt_text(table(rows)[0], "errors").startswith("Mean squared error on test rows: f1, p = 1: 0.1, f1, p = 3")


def test_a_table_without_test_rows_has_no_bars() -> None:
    rows = [{"algorithm": name, "numbers_up": 2.0} for name in ALGORITHMS]
    report, arrays = table(rows)
    del arrays["cells_test_mse"]
    assert draw(report, arrays) == {}


# -- a table over a number --------------------------------------------------------------------------------------------


def test_a_table_over_p_is_a_curve() -> None:
    greedy = {"algorithm": "greedy", "test_mse": 0.2746}
    assert_drawn(*table(powers()), ["errors"])
    changed = [table(powers(greedy)), table(powers(test_mse_se=0.01)), table(powers(**{"test_mse published": 0.2}))]
    assert len({draw(*each)["errors"] for each in (table(powers()), *changed)}) == 4


def test_the_order_of_the_rows_does_not_matter() -> None:
    assert draw(*table(powers()[::-1])) == draw(*table(powers()))


def test_the_power_of_relevant_agents_over_p() -> None:
    values = {"cells_power_relevant": np.full((7, 2), 0.6), "cells_power_irrelevant": np.full((7, 2), 0.03)}
    assert_drawn(*table(powers(), **values), ["errors", "relevance"])
    shown = powers(power_relevant=0.6, power_irrelevant=0.03)
    assert draw(*table(shown)) == draw(*table(powers(), **values))


def test_a_contraction_over_the_correlation() -> None:
    rows = [{"rho": rho, "contraction": rho**4, "contraction published": rho**4} for rho in (0.3, 0.5, 0.7, 0.9)]
    report, arrays = table(rows, cells_test_mse=np.full((4, 1), np.nan))
    assert_drawn(report, arrays, ["contraction"])
    assert alt_text(report, "contraction") == (
        "Contraction of a step: rho = 0.3: 0.0081, rho = 0.5: 0.0625, rho = 0.7: 0.24, rho = 0.9: 0.656."
    )
    assert caption(report, "contraction").endswith("Crosses are the paper's figures.")


# -- curves of a table's rows -----------------------------------------------------------------------------------------


def cells(n_cells: int, lengths: tuple[int, ...] = (20, 15), floor: float = 0.05) -> np.ndarray:
    """Curves by cell and repetition, padded; the first cell has a single iteration."""
    found = np.full((n_cells, len(lengths), max(lengths)), math.nan)
    for cell in range(n_cells):
        for repetition, length in enumerate(lengths):
            found[cell, repetition, : length if cell else 1] = falling(length if cell else 1, floor * (cell + 1))
    return found


@pytest.mark.slow
def test_rows_with_curves_have_a_panel_each() -> None:
    def drawn(report: Report, arrays: dict[str, np.ndarray]) -> Contents:
        return contents(report, "curves", arrays)

    four = drawn(*table(algorithms()[:4], cells_curve_test=cells(4)))
    five = drawn(*table(algorithms(), cells_curve_test=cells(5)))
    assert four.height == five.height, "two panels abreast, and none for a single iteration"
    both = table(algorithms(), cells_curve_test=cells(5), cells_curve_train=cells(5, floor=0.01))
    assert drawn(*both) != five


@pytest.mark.slow
def test_a_mean_curve_ends_with_the_shortest_repetition() -> None:
    cut = cells(5)
    cut[:, 0, 15:] = 99.0
    reports = [table(algorithms(), cells_curve_test=each) for each in (cells(5), cut)]
    assert len({contents(report, "curves", arrays) for report, arrays in reports}) == 1


def test_many_rows_are_cut_short() -> None:
    rows = [{"algorithm": f"way-{k}", "test_mse": 0.5} for k in range(40)]
    report, arrays = table(rows, cells_curve_test=cells(40))
    drawn = draw(report, arrays)
    assert list(drawn) == ["errors", "curves"]
    assert drawn["curves"].height < 2000
    assert "way-11" in alt_text(report, "errors")
    assert "and 28 rows more" in alt_text(report, "curves", arrays)


# -- what is said -----------------------------------------------------------------------------------------------------


def test_the_text_of_a_run_gives_what_it_reached() -> None:
    metrics = {"train_mse": 0.05, "test_mse": 0.123, "iterations": 12.0, "n_test": 40.0}
    arrays = learned(3, curve_validation=np.zeros(0))
    assert alt_text(make(metrics=metrics), "curves", arrays) == (
        "Mean squared error over the iterations: from the start to the least, training rows 1.05 to 0.563 (iteration"
        " 2), test rows 1.12 to 0.633 (iteration 2). Iteration 12 is used, and has 0.05 on training rows, 0.123 on test"
        " rows."
    )
    assert "40 test rows, 1 site" in caption(make(metrics=metrics), "curves", arrays)
    twice = make(metrics=metrics, config={"repetitions": 2})
    assert "in the first repetition" in alt_text(twice, "curves", arrays)
    assert "on average over the repetitions, 0.05" in alt_text(twice, "curves", arrays)
    assert "iteration 12" not in alt_text(twice, "curves", arrays).lower()
    for name in ("power", "coefficients", "relevance"):
        assert "in the first repetition" in caption(twice, name, {**arrays, "curve_power_relevant": np.ones(3)})


def test_the_text_of_a_table_gives_its_rows_and_the_caption_explains_the_marks() -> None:
    report, _ = table(powers({"algorithm": "greedy", "test_mse": 0.2746}, test_mse_se=0.1, **{"test_mse published": 1}))
    assert alt_text(report, "errors") == (
        "Mean squared error on test rows: parallel, p = 1: 0.242, parallel, p = 2: 0.204, parallel, p = 3: 0.192,"
        " parallel, p = 4: 0.19, parallel, p = 5: 0.202, parallel, p = 6: 0.222, parallel, p = 7: 0.257,"
        " greedy: 0.275; boosting the pooled columns: 0.03."
    )
    assert "over p; 8 rows of the table, 1 repetition" in caption(report, "errors")
    assert caption(report, "errors").endswith("Thin bars are standard errors. Crosses are the paper's figures.")


def test_the_caption_of_bars_explains_the_diamonds() -> None:
    report, _ = table(algorithms(test_mse_best=0.1)[:2])
    assert alt_text(report, "errors") == (
        "Mean squared error on test rows: average: 0.7, meta-linear: 0.35; boosting the pooled columns: 0.03."
    )
    assert caption(report, "errors").endswith("Diamonds are the smallest errors along the way.")
