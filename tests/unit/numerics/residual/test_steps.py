"""Steps of the algorithms, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from numerics.residual.linear import combine, direction, step_length
from numerics.residual.parallel import evaluate, improved_target, quiet_iterations, residual_shares
from numerics.residual.rules import Rules
from numerics.residual.sequential import bar, gains, project, winner
from numerics.residual.single_round import combine_once
from numerics.residual.split import Split

RNG = np.random.default_rng(0)
F, Y = RNG.normal(size=(3, 50)), RNG.normal(size=50)
SPLIT = Split(n_fit=30, n_validation=12, n_test=8)


def test_the_residual_of_an_iterate_is_orthogonal_to_the_predictions_of_training_rows() -> None:
    iterate = evaluate(F, Y, SPLIT, ridge=0)
    np.testing.assert_allclose(F[:, :30] @ iterate.residual[:30], 0, atol=1e-10)
    np.testing.assert_allclose(iterate.residual, Y - iterate.combination.beta @ F)
    np.testing.assert_allclose(
        iterate.errors, [np.mean(iterate.residual[rows] ** 2) for rows in np.split(np.arange(50), [30, 42])]
    )
    parts = iterate.combination.beta[:, np.newaxis] * F[:, :30]
    np.testing.assert_allclose(iterate.combination.power, parts.var(axis=1))


def test_shares_are_the_direction_times_the_step_s_length() -> None:
    combination = combine(F, Y, 0)
    residual = Y - combination.beta @ F
    shares, W = residual_shares(combination, residual, 2.0, search=True), direction(combination.beta, 2.0)
    assert shares is not None
    np.testing.assert_allclose(shares, step_length(combination, W, float(residual @ residual), search=True) * W)
    assert residual_shares(combination, np.zeros(50), 2.0, search=True) is None


def test_an_improved_target_is_the_prediction_and_a_share_of_the_residual() -> None:
    target = np.empty(50)
    improved_target(F[0], Y, -0.25, out=target)
    np.testing.assert_allclose(target, F[0] - 0.25 * Y)


def test_an_agent_is_quiet_below_its_share_and_idle_for_good() -> None:
    power = np.array([0.1, 0.09, 0.81])
    assert quiet_iterations(np.array([2, 2, 2]), power, idle_share=0.1, patience=3).tolist() == [0, 3, 0]
    assert quiet_iterations(np.array([3, 4, 3]), power[::-1], idle_share=0.1, patience=3).tolist() == [4, 5, 4]


def test_a_projection_moves_a_step_from_the_residual_to_the_sum() -> None:
    first, second = RNG.normal(size=(2, 50))
    state = project(Y, np.zeros(30), first)
    state = project(state.residual, state.own_sum, second)
    np.testing.assert_allclose(state.residual, Y - first - second)
    np.testing.assert_allclose(state.own_sum, (first + second)[:30])
    assert state.step_power == pytest.approx(np.mean(second[:30] ** 2))
    assert state.sum_power == pytest.approx(np.var((first + second)[:30]))


def test_the_winner_leaves_the_smallest_error() -> None:
    errors = np.array([np.inf, 6.0, 5.0, 5.0])
    assert winner(10.0, errors) == 2
    assert winner(5.0, errors) is None, "a step that gains nothing"
    assert winner(10.0, np.full(4, np.inf)) is None
    assert gains(10.0, errors).tolist() == [0, 4, 5, 5]
    assert 5.0 < bar(10.0, gains(10.0, errors)) < 6.0, "the next winner gains a little less, and is below the bar"


def test_combinations_of_a_single_round() -> None:
    names, seen = ("a", "b", "c"), np.array([True, False, True])
    average = combine_once(names, F, Y, seen, Rules(algorithm="average"))
    assert average.beta.tolist() == [0.5, 0, 0.5]
    linear = combine_once(names, F, Y, seen, Rules(algorithm="meta-linear", ridge=0))
    np.testing.assert_allclose(linear.beta, np.linalg.lstsq(F.T, Y, rcond=None)[0])
    boosted = combine_once(names, F, Y, seen, Rules(algorithm="meta-boosting", min_leaf=2))
    parts = dict(zip(names, F, strict=True))
    assert np.mean((Y - boosted.predict(parts, 50)) ** 2) < np.mean((Y - linear.predict(parts, 50)) ** 2)
    assert np.mean((Y - average.predict(parts, 50)) ** 2) > np.mean((Y - linear.predict(parts, 50)) ** 2)
