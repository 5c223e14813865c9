"""Inputs that few rows have."""

from __future__ import annotations

import numpy as np
import pytest

from numerics.gp.rare_values import without_rare_inputs

FEWEST = 5


def rows(n: int = 60) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 2))


def test_ordinary_columns_stay_as_they_are() -> None:
    x = rows()
    assert without_rare_inputs(x, FEWEST) is x


@pytest.mark.parametrize("n_rare", [1, 4, 5])
def test_the_rarer_of_two_values_counts_as_the_other(n_rare: int) -> None:
    column = (np.arange(60) < n_rare) * 1.0
    kept = without_rare_inputs(np.column_stack([rows(), column]), FEWEST)
    assert kept[:, 2].any() == (n_rare >= FEWEST)
    np.testing.assert_array_equal(kept[:, :2], rows())


def test_a_rare_value_counts_as_a_neighbor() -> None:
    column = np.repeat([0.0, 1.0, 2.0], [30, 27, 3])
    assert without_rare_inputs(column[:, np.newaxis], FEWEST)[57:, 0].tolist() == [1.0, 1.0, 1.0]


def test_every_combination_of_columns_of_two_values_has_enough_rows() -> None:
    flags = (np.random.default_rng(1).random((80, 4)) < [0.5, 0.3, 0.2, 0.1]) * 1.0
    kept = without_rare_inputs(flags, FEWEST)
    assert np.unique(flags, axis=0, return_counts=True)[1].min() < FEWEST
    assert np.unique(kept, axis=0, return_counts=True)[1].min() >= FEWEST


def test_rows_behind_a_gap_move_next_to_the_others_and_are_not_alike() -> None:
    x = rows()
    x[:3, 0], x[3, 0] = [1000.0, 30.0, 31.0], -20.0
    kept = without_rare_inputs(x, FEWEST)
    others = np.delete(x[:, 0], range(4))
    assert ((others.min() <= kept[:4, 0]) & (kept[:4, 0] <= others.max())).all()
    assert len(np.unique(kept[:, 0])) == len(kept)
    assert (kept[:3, 0] > np.median(others)).all()
    assert kept[3, 0] < np.median(others)


def test_enough_rows_behind_a_gap_stay() -> None:
    x = rows()
    x[:FEWEST, 0] += 100
    assert without_rare_inputs(x, FEWEST) is x
