"""The rows that a learner uses of very many."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clients.sec import check, shard
from clients.sec.shard import MOST_ROWS, sample_rows
from numerics.shared.regression_rows import RegressionRows
from tests.support.sec_sites import draw_rows


def numbered(n: int) -> RegressionRows:
    """Rows that hold their own place."""
    place = np.arange(float(n))
    return RegressionRows(place[:, np.newaxis], place, np.ones((3, 1)), np.ones(3), ("place",))


def test_so_many_rows_are_all_used() -> None:
    rows = numbered(MOST_ROWS)
    assert sample_rows(rows) is rows


def test_of_more_rows_each_is_as_likely_and_stays_whole() -> None:
    rows = sample_rows(numbered(4 * MOST_ROWS))
    assert rows.n == len(np.unique(rows.y)) == MOST_ROWS
    np.testing.assert_array_equal(rows.x[:, 0], rows.y)
    quarters = np.bincount((rows.y // MOST_ROWS).astype(int))
    assert quarters == pytest.approx(np.full(4, MOST_ROWS / 4), abs=4 * np.sqrt(MOST_ROWS * 3 / 16))
    assert len(rows.y_test) == 3


def test_rows_at_the_end_of_a_file_replace_some_of_the_sample_and_draw_no_other_one() -> None:
    first, later = (set(sample_rows(numbered(n)).y) for n in (40_000, 44_000))
    assert max(first - later) < 40_000
    assert min(later - first) >= 40_000
    assert len(later - first) == pytest.approx(MOST_ROWS / 11, rel=0.15)


def test_check_says_that_a_sample_is_used_and_that_the_number_of_rows_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard, "MOST_ROWS", 30)
    path = tmp_path / "lab.csv"
    draw_rows(0, 100, 0).to_csv(path, index=False)
    config = {"data": str(path), "protocol": "sec", "target": "y", "sec.candidates": "lr", "sec.holdout": 0.2}
    lines = check.check_lines(config)
    assert "  a sample of 30 rows, the same in all runs" in lines
    assert "  30 rows to learn from; predictions are compared on 5 of them (sec.holdout)" in lines
    assert "  once: the number of rows (100)" in lines


def test_a_class_without_a_row_in_the_sample_is_none_of_the_site() -> None:
    used = set(sample_rows(numbered(30_000)).y)
    rare = next(place for place in range(30_000) if place not in used)
    rows = numbered(30_000)
    y = np.where(np.arange(30_000) == rare, 1.0, 2.0 * (np.arange(30_000) % 2))
    sample = sample_rows(replace(rows, y=y, classes=("no", "rare", "yes")))
    assert sample.classes == ("no", "yes")
    np.testing.assert_array_equal(sample.y, sample.x[:, 0] % 2)
