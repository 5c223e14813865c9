"""The influence section: which site is named, and in which words."""

from __future__ import annotations

import json
import math

import pytest

from server.report.data import Report
from server.report.html import report_html
from server.report.influence import as_data, sentence, table_of
from server.report.summary import render_table
from strategies.influence import Influence
from tests.support.sample_report import HOSTILE, make


def with_influence(influence: Influence | None, **changes: object) -> Report:
    return make(influence=as_data(influence), **changes)


def test_the_site_whose_absence_changes_most_is_named_first() -> None:
    report = with_influence(Influence("accuracy", 0.9, {"a": 0.88, "b": 0.6, "c": 0.95}))
    assert report.influence["most"] == "b"
    assert report.influence["change"] == pytest.approx(-0.3)
    assert [row[0] for row in table_of(report)[1]] == ["b", "c", "a"]
    assert sentence(report).startswith("b influences the result most: without it, the instances in their right class")
    assert sentence(report).endswith("It is better without c: 95.0 %.")


def test_a_site_without_which_the_result_is_better_is_pointed_at() -> None:
    text = sentence(with_influence(Influence("accuracy", 0.5, {"a": 0.92, "b": 0.45})))
    assert "92.0 % instead of 50.0 %. The result is better without it" in text


def test_a_distance_has_no_value_with_all_sites() -> None:
    report = with_influence(Influence("share of labels that change", None, {"a": 0.01, "b": 0.2}))
    assert table_of(report) == (["site", "influence"], [["b", "20.0 %"], ["a", "1.0 %"]])
    assert sentence(report) == "b influences the result most (share of labels that change: 20.0 %)."


def test_no_site_is_named_where_next_to_nothing_changes_without_any() -> None:
    of_labels = Influence("share of labels that change", None, {"a": 0.0, "b": 2e-7})
    assert sentence(with_influence(of_labels)).startswith("No site alone influences the result (share of labels")
    repeated = sentence(with_influence(of_labels, config={"repetitions": 2}))
    assert repeated.startswith("In the first repetition, no site alone influences the result")


def test_what_is_not_finite_is_the_largest_change_and_kept_as_null() -> None:
    report = with_influence(Influence("test_mse", 1.0, {"a": 1e30, "b": math.nan}))
    assert report.influence["most"] == "b"
    assert json.loads(report.to_json())["influence"]["without"]["b"] is None
    assert table_of(Report.from_json(report.to_json()))[1][0] == ["b", "1", "not a number", ""]


@pytest.mark.parametrize(
    ("influence", "said"),
    [
        (Influence.unknown_since("the sums were masked"), "unknown: the sums were masked."),
        (Influence("test_mse", 1.0, {}), "unknown: only one site took part."),
    ],
    ids=["masked", "alone"],
)
def test_an_unknown_influence_has_its_reason(influence: Influence, said: str) -> None:
    report = with_influence(influence)
    assert sentence(report).endswith(said)
    assert said in render_table(report)
    assert said in report_html(report, {})


def test_a_protocol_without_influence_has_no_section() -> None:
    report = with_influence(None)
    assert sentence(report) == ""
    assert "Influence" not in report_html(report, {})
    assert "influence" not in render_table(report)


def test_a_hostile_name_is_escaped() -> None:
    page = report_html(with_influence(Influence("accuracy", 0.5, {HOSTILE: 0.4, "b": 0.5})), {})
    assert HOSTILE not in page


def test_a_table_or_several_repetitions_say_of_which_result_it_is() -> None:
    influence = Influence("accuracy", 0.5, {"a": 0.4, "b": 0.5})
    assert sentence(with_influence(influence, metrics={"n_cells": 4.0})).startswith("In the first row of the table, a ")
    assert sentence(with_influence(influence, config={"repetitions": 2})).startswith("In the first repetition, a ")
