"""What counts as a row that came out, and how an attack is chosen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from common.settings import ConfigError
from consilience.attack.interface import Claims
from consilience.attack.playing import _count_rows_out, play
from consilience.attack.site import AttackedSite

TRUTH = np.column_stack([np.arange(0.0, 10.0), np.arange(10.0)])


def attack(site: AttackedSite) -> Claims:
    """Guess."""
    return Claims.none(2)


def site() -> AttackedSite:
    return AttackedSite({}, {}, np.stack([TRUTH.min(axis=0), TRUTH.max(axis=0)]), 1)


def counted(claims: Claims) -> tuple[int, int]:
    outcome = _count_rows_out("guess", attack, claims, TRUTH, 5, site())
    return outcome.rows_out, outcome.groups_out


def test_a_row_is_out_where_a_narrow_box_holds_it_alone_and_counts_once() -> None:
    assert counted(Claims.points(TRUTH[[2, 2, 5]], 0.01)) == (2, 3)


def test_a_point_that_is_no_row_and_a_wide_box_are_none() -> None:
    assert counted(Claims.points(np.array([[2.5, 2.5]]), 0.01)) == (0, 0)
    assert counted(Claims.points(TRUTH[[2]], 0.4)) == (0, 1)


def test_who_says_nothing_of_a_column_does_not_know_the_row() -> None:
    claims = Claims(np.array([[1.99, -np.inf]]), np.array([[2.01, np.inf]]), np.ones(1, np.int64))
    assert counted(claims) == (0, 1)


def test_wrong_claims_count_against_true_ones_and_large_groups_do_not_count() -> None:
    low, high = np.array([[0.0, 0.0]] * 3), np.array([[1.5, 10.0]] * 2 + [[8.5, 10.0]])
    assert counted(Claims(low, high, np.array([2, 3, 9]))) == (0, 0)
    assert counted(Claims(low, high, np.array([2, 0, 9]))) == (0, 1)


def test_runs_are_limited() -> None:
    attacked = site()
    assert attacked.start_run()
    assert not attacked.start_run()


def test_an_attack_that_there_is_not_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    pd.DataFrame(TRUTH, columns=["a", "y"]).to_csv(path, index=False)
    with pytest.raises(ConfigError, match="there is no attack 'guessing'; there are: bisection"):
        list(play("sec", path, settings={"target": "y"}, only="guessing"))
