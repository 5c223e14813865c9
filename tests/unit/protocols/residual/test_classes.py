"""A plan whose outcome is a class: residuals, answers that cannot be, classes that training rows lack."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from numerics.residual.losses import LogLoss
from numerics.residual.rules import Rules
from numerics.residual.split import Split
from numerics.shared.classification import log_losses, scores_in
from protocols.residual.payloads import Bin, Compare, Conclude, EntityBins, Fit, FittedValues, PredictionsAlone
from protocols.residual.plan import Plan
from protocols.wire.payload import PayloadError

N, N_LEARN = 300, 220


def world(k: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(k).normal(size=(N, 2))
    return x, np.clip(np.floor((x[:, 0] + 0.5 * x[:, 1] + 1.5) * k / 3), 0, k - 1)


def step(x: np.ndarray, target: np.ndarray) -> FittedValues:
    """Fit every column of targets by the mean in ten groups of one column."""
    groups = np.digitize(x, np.quantile(x, np.linspace(0, 1, 11)[1:-1]))
    n = len(target)
    means = np.stack([np.bincount(groups[:n], each, 10) / np.bincount(groups[:n], minlength=10) for each in target.T])
    fits = means[:, groups].T
    return FittedValues(fits[:n], fits[n:])


@cache  # two tests look at the same plan
def learn(k: int, alone: Any = None, **rules: Any) -> tuple[Plan, list[Fit]]:
    """Carry out a plan of two agents with a column each; `alone` predicts by an agent's own column."""
    x, y = world(k)
    plan = Plan(("a", "b"), y, N_LEARN, Rules(algorithm="boosted", n_classes=k, rounds=5, shrinkage=0.3, **rules))
    told: list[Fit] = []
    while asks := plan.asks():
        answers: dict[str, Any] = {}
        for name, ask in asks.items():
            if isinstance(ask, Fit):
                told.append(ask)
                answers[name] = step(x[:, "ab".index(name)], ask.target)
            elif isinstance(ask, Compare):
                answers[name] = alone(name, ask, y)
                plan.check(name, ask, answers[name])
        plan.take(answers)
    return plan, told


@pytest.mark.parametrize("k", [2, 4])
def test_a_residual_tells_the_class_of_each_row(k: int) -> None:
    """What an agent can compute from what it is sent, in every round."""
    plan, told = learn(k)
    y = world(k)[1][: plan.split.n_fit].astype(int)
    for ask in told:
        assert ask.target.shape == (plan.split.n_fit, 1 if k == 2 else k)
        guess = (ask.target[:, 0] > 0) if k == 2 else ask.target.argmax(axis=1)
        assert guess.astype(int).tolist() == y.tolist()


@pytest.mark.parametrize("k", [2, 4])
def test_the_curve_is_the_log_loss_and_falls(k: int) -> None:
    plan, _ = learn(k)
    result, y = plan.result, world(k)[1].astype(int)
    assert result is not None
    shares = np.bincount(y[: plan.split.n_fit], minlength=k) + 1 / k  # one imaginary row for all classes alike
    prior = np.tile(shares / shares.sum(), (N, 1))
    assert result.curve[0, 2] == pytest.approx(log_losses(prior, y)[N_LEARN:].mean())
    assert result.curve[result.iteration, 2] < 0.8 * result.curve[0, 2]
    error = log_losses(result.probabilities, y[N_LEARN:]).mean()
    assert error == pytest.approx(result.curve[result.iteration, 2])
    assert scores_in(result.scores[0])["log_loss"].value == pytest.approx(error)
    assert (0 <= result.threshold <= 1) == (k == 2)


def test_steps_of_balanced_classes_find_the_rare_one() -> None:
    x = world(2)[0]
    rare = np.where(x[:, 0] + 0.5 * x[:, 1] > 1.2, 1.0, 0.0)
    split = Split(165, 55, 80)
    plain, balanced = (
        LogLoss.of(rare, split, Rules(algorithm="boosted", n_classes=2, balanced=each)) for each in (False, True)
    )
    assert plain.start[0] < -1
    assert balanced.start[0] == pytest.approx(0.0)
    assert balanced.weights[: split.n_fit].mean() == pytest.approx(1.0)
    residual = balanced.residual(np.zeros((1, N)))[0, : split.n_fit]
    assert residual[rare[: split.n_fit] == 1].sum() == pytest.approx(-residual[rare[: split.n_fit] == 0].sum())


def predicts(p: float, rows: int = 0) -> Any:
    """An agent alone that gives the right class such a probability, for so many rows too few."""

    def answer(name: str, ask: Compare, y: np.ndarray) -> PredictionsAlone:
        values = np.full((N, ask.n_classes), (1 - p) / (ask.n_classes - 1))
        values[np.arange(N), y.astype(int)] = p
        return PredictionsAlone(values[: len(ask.target)], values[ask.n_fit : N - rows])

    return answer


def test_a_site_alone_that_knows_the_classes_is_the_result() -> None:
    plan, _ = learn(2, predicts(0.99), baselines=True, keep=True)
    result = plan.result
    assert result is not None
    assert (result.own_site, result.own_share) == ("a", 1.0)
    assert result.curve[result.iteration, 2] == pytest.approx(-np.log(0.99))
    assert result.combination.width("a") == 2
    assert isinstance(plan.conclusions.get("a", Conclude(np.zeros(0), np.zeros(0, np.int64))), Conclude)
    absent = result.combination.predict({}, 3)
    np.testing.assert_allclose(absent.sum(axis=1), 1)


@pytest.mark.parametrize(("p", "rows"), [(1.5, 0), (-0.5, 0), (0.9, 1)])
def test_what_a_site_alone_cannot_predict_is_refused(p: float, rows: int) -> None:
    with pytest.raises(PayloadError, match=r"fitted|held"):
        learn(2, predicts(p, rows), baselines=True)


def test_a_class_that_no_training_row_has_keeps_a_probability() -> None:
    rng = np.random.default_rng(0)
    bins = rng.integers(0, 8, size=(N, 2)).astype(np.uint8)
    y = (bins[:, 0] > 3).astype(float)
    y[-3:] = 2  # test rows alone have it
    plan = Plan(("a", "b"), y, N_LEARN, Rules(algorithm="bins", n_classes=3, min_leaf=5))
    assert {type(ask) for ask in plan.asks().values()} == {Bin}
    levels = np.array([8], np.uint8)
    plan.take({name: EntityBins(bins[:, [j]], levels, 0.0) for j, name in enumerate("ab")})
    assert not plan.asks()
    result = plan.result
    assert result is not None
    assert result.model is not None
    assert result.probabilities.shape == (N - N_LEARN, 3)
    assert (result.probabilities > 0).all()
    assert (result.probabilities.argmax(axis=1)[:-3] == y[N_LEARN:-3]).mean() > 0.95
