"""Totals of the ledger, and the report for the terminal."""

import re

import pytest

from server.report.formatting import printable
from server.report.html import report_html
from server.report.summary import ledger_summary, render_table
from tests.support.sample_report import LINES, line, make


def test_ledger_summary_adds_up():
    lines = [*LINES, line(2, "from_site", "b", "Counts", 5, shape=())]
    summary = ledger_summary(iter(lines))
    assert summary["messages"] == 8, "two payloads of one reply are one message"
    assert summary["bytes_to_sites"] == 4 * 24
    assert summary["bytes_from_sites"] == 4 * 40 + 5
    assert list(summary["by_payload"]) == ["EStep", "Statistics", "Counts"], "in order of time"
    assert summary["by_payload"]["EStep"] == {
        "direction": "to_site",
        "messages": 4,
        "bytes": 96,
        "fields": {"alpha": {"dtype": "float64", "shape": [3], "bytes": 96}},
    }
    assert summary["by_site"] == {
        "a": {"bytes_to": 48, "bytes_from": 80, "payloads": {"EStep": 48, "Statistics": 80}},
        "b": {"bytes_to": 48, "bytes_from": 85, "payloads": {"Counts": 5, "EStep": 48, "Statistics": 80}},
    }
    assert sum(each["bytes"] for each in summary["by_payload"].values()) == sum(each["bytes"] for each in lines)
    assert ledger_summary(reversed(lines)) == summary


def test_ledger_summary_says_every_dtype_in_which_a_field_crossed():
    lines = [line(number, "to_site", "a", "Fit", 12) for number in range(4)]
    for number, dtype in enumerate(["float64", "float32", "int64 and uint8", "float32"]):
        lines[number]["fields"]["alpha"]["dtype"] = dtype
    field = ledger_summary(lines)["by_payload"]["Fit"]["fields"]["alpha"]
    assert field == {"dtype": "float64 and float32 and int64 and uint8", "shape": [3], "bytes": 48}


@pytest.mark.parametrize("directions", [("to_site", "from_site", "to_site"), ("from_site", "from_site", "to_site")])
def test_a_payload_that_crossed_both_ways_says_so(directions):
    lines = [line(number, direction, "a", "Sealed", 12) for number, direction in enumerate(directions)]
    assert ledger_summary(lines)["by_payload"]["Sealed"]["direction"] == "both"


def test_an_empty_ledger():
    summary = ledger_summary([])
    assert summary["messages"] == summary["bytes_to_sites"] == 0
    assert "no message was recorded" in report_html(make(ledger=summary), {})


def test_table_for_the_terminal():
    text = render_table(make())
    assert "accuracy           0.942 ± 0.004  0.935" in text
    assert re.search(r"^bound +-1234\.57$", text, re.M)
    assert re.search(r"^repetition  accuracy +note\n1 +0\.90 ± 0\.02\n2$", text, re.M)
    assert re.search(r"^sites +2: a, b$", text, re.M)
    assert re.search(r"^to sites +96 B$", text, re.M)
    assert re.search(r"^from sites +160 B$", text, re.M)
    assert re.search(r"^time +2 min 5 s$", text, re.M)
    assert re.search(r"^missing b +round 3: no answer within 600 s$", text, re.M)


def test_table_of_many_sites_and_nothing_else():
    text = render_table(make(sites=[f"s{i}" for i in range(30)], metrics={}, published={}, table=[], missing={}))
    assert "30: s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, and 20 more" in text
    assert "there was nothing to measure" in text


def test_a_name_cannot_steer_the_terminal():
    assert "\x1b" not in render_table(make(sites=["a\x1b[2J"], missing={"a\nb": ["\x1b]0;x\x07"]}))
    assert printable("a\nb\x1b") == "a\\nb\\x1b"
    assert printable("Zürich ±") == "Zürich ±"


def test_notes_that_are_printed_already_are_left_out():
    notes = ["north: 'age': 3 of 9 cells filled", "a second note"]
    text = render_table(make(notes=notes), printed=notes[:1])
    assert "cells filled" not in text
    assert "note 1" in text
    assert "a second note" in text
