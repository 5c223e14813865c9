"""A learner's rows standardized, and mixtures of predictions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numerics.sec.mixture import mix
from numerics.shared.regression_rows import RegressionRows


def draw(seed: int, n: int = 12, p: int = 3, t: int = 5) -> RegressionRows:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(3.0, 10.0 ** rng.integers(-3, 4, size=p), size=(n + t, p)), rng.normal(-7.0, 40.0, size=n + t)
    return RegressionRows(x[:n], y[:n], x[n:], y[n:], tuple("abc"[:p]))


@given(st.integers(0, 1000))
def test_standardized_rows_have_mean_0_and_deviation_1(seed: int) -> None:
    rows = draw(seed).standardized()
    np.testing.assert_allclose(rows.x.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(rows.x.std(axis=0), 1, rtol=1e-10)
    assert rows.y.mean() == pytest.approx(0, abs=1e-10)
    assert rows.y.std() == pytest.approx(1)


@given(st.integers(0, 1000))
def test_test_rows_are_moved_and_scaled_as_the_others_are(seed: int) -> None:
    """As if they had been among them: what was the same row stays the same row."""
    rows = draw(seed)
    both = RegressionRows(rows.x, rows.y, rows.x, rows.y, rows.features).standardized()
    np.testing.assert_array_equal(both.x_test, both.x)
    np.testing.assert_array_equal(both.y_test, both.y)
    np.testing.assert_allclose(rows.standardized().x_test * rows.x.std(axis=0) + rows.x.mean(axis=0), rows.x_test)


def test_what_does_not_vary_is_only_centered() -> None:
    rows = RegressionRows(
        np.array([[2.0, 1.0], [2.0, 3.0]]), np.array([5.0, 5.0]), np.array([[7.0, 2.0]]), np.ones(1), ("a", "b")
    )
    found = rows.standardized()
    np.testing.assert_array_equal(found.x, [[0, -1], [0, 1]])
    np.testing.assert_array_equal(found.x_test, [[5, 0]])
    np.testing.assert_array_equal(found.y, [0, 0])
    np.testing.assert_array_equal(found.y_test, [-4])


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e-200, 123456.789])
def test_what_does_not_vary_stays_small_whatever_its_value(value: float) -> None:
    """Rounding makes the deviation of equal numbers a little more than 0, which must not be blown up to 1."""
    rows = RegressionRows(np.full((7, 1), value), np.full(7, value), np.full((1, 1), value), np.full(1, value), ("a",))
    found = rows.standardized()
    for array in (found.x, found.y, found.x_test, found.y_test):
        assert np.abs(array).max() <= 1e-9 * value


def test_standardizing_leaves_the_original_and_the_names_alone() -> None:
    rows = draw(0)
    before = rows.x.copy()
    found = rows.standardized()
    np.testing.assert_array_equal(rows.x, before)
    assert found.features == rows.features
    assert found.n == rows.n == 12


def test_no_test_rows_stay_none() -> None:
    rows = draw(0, t=0).standardized()
    assert rows.x_test.shape == (0, 3)
    assert rows.y_test.shape == (0,)


# -- mixtures ---------------------------------------------------------------------------------------------------------


@given(st.integers(0, 1000))
def test_a_mixture_is_the_weighted_sum_of_the_predictions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights, predictions = rng.random((3, 4)), rng.normal(size=(4, 6))
    expected = [[sum(w * f for w, f in zip(row, column, strict=True)) for column in predictions.T] for row in weights]
    np.testing.assert_allclose(mix(weights, predictions), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_prediction_that_is_not_finite_counts_where_it_has_weight_only(bad: float) -> None:
    predictions = np.array([[1.0, 2.0], [bad, 4.0]])
    weights = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.0, 0.0]])
    np.testing.assert_array_equal(mix(weights, predictions), [[1, 2], [np.inf, 3], [np.inf, 4], [0, 0]])


def test_two_infinities_do_not_cancel() -> None:
    np.testing.assert_array_equal(mix(np.array([[0.5, 0.5]]), np.array([[np.inf], [-np.inf]])), [[np.inf]])


def test_mixtures_of_nothing() -> None:
    assert mix(np.zeros((2, 0)), np.zeros((0, 3))).tolist() == [[0, 0, 0]] * 2
    assert mix(np.ones((2, 1)), np.zeros((1, 0))).shape == (2, 0)


def test_one_row_of_each_class_is_learned_from() -> None:
    """Of persons, all rows of one."""
    x, y = np.zeros((7, 1)), np.array([0.0, 1, 0, 2, 2, 0, 1])
    rows = RegressionRows(x, y, x[:0], y[:0], ("age",), classes=("a", "b", "c"), person=np.arange(7))

    def held_out(rows: RegressionRows, *persons: int) -> list[int]:
        owners = rows.hold_out(np.array(persons)).person_test
        assert owners is not None
        return sorted(set(owners.tolist()))

    assert held_out(rows, 1, 2, 6) == [2, 6]
    assert held_out(rows, 0, 4) == [0, 4]
    assert replace(rows, person=None).hold_out(np.array([1, 2, 6])).y_test.tolist() == [0, 1]
    assert held_out(replace(rows, person=np.array([0, 0, 1, 2, 2, 3, 4])), 2, 4) == [4]
    assert held_out(replace(rows, classes=()), 1, 6) == [1, 6]
