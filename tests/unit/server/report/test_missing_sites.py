"""Sites that failed: equal reasons once, every kind of failure with what to do, long lists in one sentence."""

from __future__ import annotations

import re

import pytest

from server.report.missing_sites import caution, reasons, remedy
from tests.support.documentation import read


def test_equal_reasons_are_said_once() -> None:
    events = [f"round {n}: no answer within 5 s" for n in (2, 3, 4, 9)] + ["round 5: its node is not connected", "left"]
    assert reasons(events) == [
        "rounds 2 to 4 and 9: no answer within 5 s",
        "round 5: its node is not connected",
        "left",
    ]


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("its node failed (Flower error code 5)", "start its SuperNode again"),
        ("its node failed (Flower error code 1)", "memory, or another version"),
        ("refused: its answer has 700.0 MB, max-payload-mb is 512", "larger max-payload-mb"),
        ("refused: payload bc3e.Statistics, field 'n': expected 3 numbers", "same version"),
        ("payload envelope, field 'envelope': is missing", "same version"),
        ("it has fewer rows than min-rows [too-few-rows]", "own log"),
    ],
)
def test_every_failure_has_a_remedy(reason: str, word: str) -> None:
    assert word in remedy([f"round 3: {reason}"])


def test_a_reason_that_says_what_to_do_stands_alone() -> None:
    assert not remedy(["left out: its columns are x; most sites have x, y"])


def test_the_page_on_faults_has_the_same_failures() -> None:
    """What docs/faults.md lists under "What to do" has a remedy on the page of a run, too."""
    rows = re.findall(r"^- (`.*?`):", read("docs/faults.md").partition("## What to do")[2], re.M | re.S)
    failures = [each for row in rows for each in re.findall(r"`([^`]+)`", row)]
    known = [each for each in failures if remedy([f"round 1: {each}"])]
    assert {"no answer within ...", "its node is not connected", "calls itself ... now"} <= set(known)


def test_a_sentence_names_few_sites_with_reasons_and_many_without() -> None:
    few = {name: ["round 2: it has too few rows [too-few-rows]"] for name in "ab"}
    few["c"] = ["round 1: it is late", "round 4: its node is not connected"]
    text = "3 of 9 sites did not answer every ask; a and b: it has too few rows; c: its node is not connected."
    assert caution(few, 9) == text
    many = {f"site-{n:02d}": ["round 2: x"] for n in range(12)}
    assert caution(many, 20).endswith("site-08, site-09 and 2 more: x.")
    assert caution({name: [f"reason {name}"] for name in "abcd"}, 5).endswith("every ask: a, b, c and d.")
