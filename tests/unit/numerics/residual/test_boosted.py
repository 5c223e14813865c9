"""Boosting with a gate: which steps count, and what the finish adds."""

from __future__ import annotations

import numpy as np
import pytest

from numerics.residual.agent_combination import AgentCombination
from numerics.residual.boosted import finish
from numerics.residual.boosted import gated_weights as weights_of_scores
from numerics.residual.losses import LogLoss, SquaredError
from numerics.residual.rules import Rules
from numerics.residual.split import Split
from numerics.shared.classification import log_losses

SPLIT = Split(200, 100, 100)


def gated_weights(steps: np.ndarray, y: np.ndarray, split: Split, **settings: float) -> np.ndarray:
    """Coefficients of steps on amounts, of which a row has one score."""
    loss = SquaredError(y, split, 0.0)
    return weights_of_scores(loss, steps[:, None], np.zeros((1, split.n)), **settings)[:, 0]


def signs(n_columns: int) -> np.ndarray:
    return np.random.default_rng(3).choice([-1.0, 1.0], size=(n_columns, SPLIT.n))


def test_a_step_counts_only_if_its_share_helps_on_validation_rows() -> None:
    a, b = signs(2)
    liar = np.concatenate([a[: SPLIT.n_fit], -a[SPLIT.n_fit :]])  # right on the training rows only
    weights = gated_weights(np.stack([a, b, liar]), a + b, SPLIT, shrinkage=0.25, ridge=0.0)
    assert weights[2] == 0
    np.testing.assert_allclose(weights[:2], 0.25, rtol=0.01)


@pytest.mark.parametrize(("n_validation", "passes"), [(20, True), (100, False), (400, False)])
def test_few_validation_rows_ask_for_less(n_validation: int, passes: bool) -> None:
    """Gains whose mean is half their standard error."""
    split = Split(50, n_validation, 0)
    residual = np.ones(split.n)
    pairs = np.resize([1.0, -1.0], n_validation)
    wanted = 0.5 * pairs.std(ddof=1) / np.sqrt(n_validation) + pairs  # of (residual^2 - (residual - step)^2) / 10
    step = np.concatenate([np.ones(50), 1 - np.sqrt(1 - wanted / 10)])
    weights = gated_weights(step[None], residual, split, shrinkage=1.0, ridge=0.0)
    assert bool(weights[0] > 0) == passes


def test_rows_of_a_sure_class_do_not_judge() -> None:
    y = np.resize([0.0, 1.0], SPLIT.n)
    loss = LogLoss.of(y, SPLIT, Rules(algorithm="boosted", n_classes=2))
    assert loss.rows_that_judge(np.zeros((1, SPLIT.n))) == pytest.approx(SPLIT.n_validation)
    assert loss.rows_that_judge(50.0 * (2 * y - 1)[None]) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("k", [2, 3])
def test_rows_that_are_all_right_do_not_ask_to_be_sure(k: int) -> None:
    """Of m of them, the best probability of the class is that with one imaginary row for all classes alike."""
    y, m = np.resize(np.arange(float(k)), SPLIT.n), SPLIT.n_validation
    loss = LogLoss.of(y, SPLIT, Rules(algorithm="boosted", n_classes=k))
    right = np.eye(k)[y.astype(int)]
    by_share = {share: (1 - share) * right + share / k for share in np.linspace(0, 3, 31) / (m + 1)}
    errors = {share: loss.errors(predicted)[1] for share, predicted in by_share.items()}
    assert min(errors, key=lambda each: errors[each]) == pytest.approx(1 / (m + 1))
    for share, predicted in by_share.items():
        assert loss.judged_error(predicted[SPLIT.slices[1]]) == pytest.approx(errors[share])
        assert loss.errors(predicted)[2] == pytest.approx(log_losses(predicted, loss.y)[SPLIT.slices[2]].mean())


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_equal_steps_have_equal_shares(copies: int) -> None:
    [a] = signs(1)
    weights = gated_weights(np.stack([a] * copies), a, SPLIT, shrinkage=1.0, ridge=0.0)
    np.testing.assert_allclose(weights, 1 / copies, rtol=1e-2)
    assert np.ptp(weights) < 1e-9


def test_no_step_counts_where_all_are_silent() -> None:
    assert not gated_weights(np.zeros((2, SPLIT.n)), signs(1)[0], SPLIT, shrinkage=0.2, ridge=0.0).any()


def test_the_finish_learns_interaction_of_different_agents() -> None:
    a, b = signs(2)
    sum_of_steps = AgentCombination(("x", "y"), np.ones(2), 0.0, None, (1, 1))
    finished = finish(sum_of_steps, np.stack([a, b]), SquaredError(a + b + a * b, SPLIT, 0.0))
    assert finished.errors[2] < 0.01
    predicted = finished.combination.predict({"x": a[:, None], "y": b[:, None]}, SPLIT.n)
    np.testing.assert_allclose(np.mean((a + b + a * b - predicted)[300:] ** 2), finished.errors[2])


def test_a_finish_that_does_not_help_is_left_out() -> None:
    a, b = signs(2)
    sum_of_steps = AgentCombination(("x", "y"), np.ones(2), 0.0, None, (1, 1))
    finished = finish(sum_of_steps, np.stack([a, b]), SquaredError(a + b, SPLIT, 0.0))
    assert finished.combination.model is None
    np.testing.assert_array_equal(finished.errors, 0.0)


def test_agents_without_a_step_have_no_part() -> None:
    combination = AgentCombination(("x", "y", "z"), np.array([1.0, 2.0]), 5.0, None, (2, 0, 0))
    assert [combination.uses(name) for name in combination.names] == [True, False, False]
    np.testing.assert_array_equal(combination.predict({"x": np.array([[1.0, 1.0]]), "y": np.zeros((1, 0))}, 1), [8.0])
    assert combination.missing([]) == ("x",)


def test_a_share_of_a_site_alone_is_its_last_prediction() -> None:
    combination = AgentCombination(("x", "y"), np.array([1.0, 2.0]), 5.0, None, (2, 0), (), "y", 0.5)
    parts = {"x": np.array([[1.0, 1.0]]), "y": np.array([[8.0]])}
    np.testing.assert_array_equal(combination.predict(parts, 1), [5.0 + 0.5 * 3.0 + 0.5 * 8.0])
    assert (combination.width("x"), combination.width("y")) == (2, 1)
    np.testing.assert_array_equal(combination.predict({"x": parts["x"]}, 1), [6.5])
    both = AgentCombination(("x", "y"), np.array([1.0, 2.0]), 5.0, None, (2, 0), (), "x", 0.5)
    np.testing.assert_array_equal(both.predict({"x": np.array([[1.0, 1.0, 8.0]])}, 1), [10.5])
