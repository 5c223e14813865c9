"""What no agent can say is refused, and an agent that raises the error is left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from numerics.residual.rules import LearningResult, Rules
from protocols.residual.payloads import Compare, Fit, FittedValues, PredictionsAlone, Show, TrialFit, Try
from protocols.residual.plan import Plan
from protocols.wire.payload import Payload, PayloadError
from tests.support import reference_residual as reference
from tests.support.parameters import few

N, N_LEARN = 600, 500
N_FAST = 240
"""Rows of which boosting is finished in a fifth of the time."""
NAMES = tuple("abcde")
LIAR = "b"
Lie = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]

_RNG = np.random.default_rng(5)
LIES: dict[str, Lie] = {
    "held times 6": lambda fitted, held, target: (fitted, 6 * held),
    "sign of held flipped": lambda fitted, held, target: (fitted, -held),
    "knows all training rows": lambda fitted, held, target: (target, 2 * _RNG.permutation(target)[: len(held)]),
}


def world(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(N, len(NAMES)))
    return x, np.sin(3 * x[:, 0]) + 2 * x[:, 1] + x[:, 2] ** 2 + x[:, 3] + 0.5 * x[:, 4] + 0.1 * rng.normal(size=N)


def learned(rules: Rules, lie: Lie | None = None, names: tuple[str, ...] = NAMES, n: int = N) -> LearningResult:
    """The result of a plan whose agents are trees of one column each, and one of which lies."""
    x, y = (each[:n] for each in world())
    agents = {name: reference.tree(x[:, [NAMES.index(name)]], 10) for name in names}
    plan = Plan(names, y, n * N_LEARN // N, rules)
    steps: dict[str, np.ndarray] = {}

    def step(name: str, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n = len(target)
        step = agents[name](target)
        return lie(step[:n], step[n:], target) if lie and name == LIAR else (step[:n], step[n:])

    def answer(name: str, ask: Any) -> Payload:
        if isinstance(ask, Show):
            return FittedValues(steps[f"{name} fitted"][:, None], steps[f"{name} held"][:, None])
        if isinstance(ask, Compare):
            fitted, later = step(name, ask.target)
            if not ask.beside:
                return PredictionsAlone(fitted[:0, None], later[:, None])
            judged = step(name, ask.target[: ask.n_fit])[1][: len(fitted) - ask.n_fit]
            return PredictionsAlone(fitted[:, None], np.concatenate([judged, later])[:, None])
        if isinstance(ask, Fit):
            parts = [step(name, target) for target in ask.target.T]
            scale = ask.add or 1.0
            return FittedValues(scale * np.stack([f for f, _ in parts], 1), scale * np.stack([h for _, h in parts], 1))
        fitted, held = (ask.add * part for part in step(name, ask.residual))
        steps[f"{name} fitted"], steps[f"{name} held"] = fitted, held
        error = float(np.sum((ask.residual - fitted) ** 2))
        below = error < ask.bar
        return TrialFit(error, fitted, held) if below else TrialFit(error, fitted[:0], held[:0])

    while asks := plan.asks():
        answers = {name: answer(name, ask) for name, ask in asks.items()}
        for name, ask in asks.items():
            plan.check(name, ask, answers[name])
        plan.take(answers)
    assert plan.result is not None
    return plan.result


def robust(algorithm: str, *, on: bool = True) -> Rules:
    shrinkage = 0.5 if algorithm in ("greedy", "sip") else 1.0
    return Rules(algorithm=algorithm, powers=(1.0, 2.0), rounds=12, shrinkage=shrinkage, refit=False, robust=on)


@cache
def honest(rules: Rules, n: int = N) -> LearningResult:
    return learned(rules, n=n)


@cache
def without_the_liar(rules: Rules, n: int = N) -> LearningResult:
    return learned(rules, names=tuple(name for name in NAMES if name != LIAR), n=n)


ALGORITHMS = ["parallel", "greedy", "sip", "average", "meta-linear", "meta-boosting"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", few([*LIES][::-1], 2))
def test_an_agent_that_raises_the_error_is_left_out(algorithm: str, name: str) -> None:
    if algorithm in ("average", "meta-boosting") and name == "held times 6":
        pytest.skip("means of parts are short of the outcome, and trees saturate: larger parts do no harm")
    if algorithm == "average" and name == "knows all training rows":
        pytest.skip("noise in one of five equal shares is within chance")
    lied = learned(robust(algorithm), LIES[name])
    others = without_the_liar(robust(algorithm))
    assert LIAR in lied.left_out
    assert lied.curve[lied.iteration, 2] < 1.1 * others.curve[others.iteration, 2]


@pytest.mark.parametrize("algorithm", ["parallel", "greedy", "sip", "meta-linear", "meta-boosting"])
def test_among_honest_agents_none_is_left_out(algorithm: str) -> None:
    on = learned(robust(algorithm))
    assert on.left_out == ()
    if algorithm in ("parallel", "greedy", "sip"):  # the others have no validation rows without it
        off = honest(robust(algorithm, on=False))
        np.testing.assert_array_equal(on.curve, off.curve)
        np.testing.assert_array_equal(on.beta, off.beta)


@pytest.mark.parametrize("name", LIES)
def test_the_gate_of_boosting_takes_no_step_that_raises_the_error(name: str) -> None:
    rules = Rules(algorithm="boosted", rounds=30, shrinkage=0.2, patience=6)
    lied, others = learned(rules, LIES[name], n=N_FAST), without_the_liar(rules, N_FAST)
    assert honest(rules, N_FAST).widths[NAMES.index(LIAR)] > 10 * lied.widths[NAMES.index(LIAR)]
    assert lied.curve[lied.iteration, 2] <= others.curve[others.iteration, 2]


def test_the_last_agent_is_never_left_out() -> None:
    result = learned(robust("meta-linear"), LIES["sign of held flipped"], names=(LIAR,))
    assert result.left_out == ()


@pytest.mark.parametrize("algorithm", ["boosted", "parallel", "sip", "meta-linear"])
@pytest.mark.parametrize("field", ["fitted", "held"])
@pytest.mark.parametrize("factor", [50.0, -1000.0])
def test_predictions_beyond_ten_ranges_are_refused(algorithm: str, field: str, factor: float) -> None:
    y = world()[1]
    plan = Plan(NAMES, y, N_LEARN, Rules(algorithm=algorithm, powers=(1.0,)))
    name, ask = next(iter(plan.asks().items()))
    n_fit, n_held, _ = plan.algorithm.answer_shape(name)
    far = np.full({"fitted": n_fit, "held": n_held}[field], 0.0)
    far[-1] = factor * np.ptp(y)
    parts = {"fitted": np.zeros((n_fit, 1)), "held": np.zeros((n_held, 1)), field: far[:, None]}
    with pytest.raises(PayloadError, match=f"{field}.*beyond 10 ranges of the outcome"):
        plan.check(name, ask, FittedValues(**parts))
    plan.check(name, ask, FittedValues(**{**parts, field: far[:, None] / abs(factor)}))


def test_an_error_that_the_predictions_do_not_leave_is_refused() -> None:
    plan = Plan(NAMES, world()[1], N_LEARN, Rules(algorithm="greedy", stop="rounds", rounds=3))
    asks: dict[str, Any] = plan.asks()
    ask = asks["a"]
    assert isinstance(ask, Try)
    n_held = plan.split.n_held
    step, held, none = 0.5 * ask.residual, np.zeros(n_held), np.zeros(0)
    left = float(np.sum((ask.residual - step) ** 2))
    power = float(ask.residual @ ask.residual)
    plan.check("a", ask, TrialFit(left, step, held))
    for error in (0.0, 0.9 * left, -1.0):
        with pytest.raises(PayloadError):
            plan.check("a", ask, TrialFit(error, step, held))
    with pytest.raises(PayloadError, match="no prediction leaves"):
        plan.check("a", ask, TrialFit(1e6 * power, none, none))
    answers: dict[str, Payload] = {name: TrialFit(2 * power, none, none) for name in NAMES}
    unforeseen = Try(
        ask.residual, 0.0, ask.add
    )  # nobody is below this bar: the winner is asked to show its predictions
    plan.check("c", unforeseen, TrialFit(left, none, none))
    plan.take({**answers, "c": TrialFit(left, none, none)})
    show = plan.asks()["c"]
    assert isinstance(show, Show)
    plan.check("c", show, FittedValues(step[:, None], held[:, None]))
    with pytest.raises(PayloadError, match="another error than the one that was announced"):
        plan.check("c", show, FittedValues(0.1 * step[:, None], held[:, None]))


def test_single_precision_is_no_lie() -> None:
    plan = Plan(NAMES, 1e6 + world()[1], N_LEARN, Rules(algorithm="greedy"))
    ask = plan.asks()["a"]
    assert isinstance(ask, Try)
    residual = ask.residual.astype(np.float32)
    step = (0.3 * residual).astype(np.float32)
    left = residual.astype(np.float64) - step
    held = np.zeros(plan.algorithm.answer_shape("a")[1], np.float32)
    plan.check("a", Try(residual, ask.bar, 1.0), TrialFit(float(left @ left), step, held))


@pytest.mark.parametrize("algorithm", ["boosted", "parallel", "greedy", "sip", "meta-boosting"])
def test_every_agent_alone_beside_all_together(algorithm: str) -> None:
    """The difference is that of the mean squared errors; nothing else of the result changes."""
    rules = robust(algorithm, on=False)
    n = N_FAST if algorithm == "boosted" else N
    n_learn = n * N_LEARN // N
    with_it, without = learned(replace(rules, baselines=True), n=n), honest(rules, n)
    assert without.alone is None
    alone = with_it.alone
    assert alone is not None
    assert alone.names == NAMES
    x, y = (each[:n] for each in world())
    for name, (error, difference, scatter) in zip(alone.names, alone.values, strict=True):
        predicted = reference.tree(x[:, [NAMES.index(name)]], 10)(y[:n_learn] - y[:n_learn].mean())
        left = y[n_learn:] - y[:n_learn].mean() - predicted[n_learn:]
        assert error == pytest.approx(np.mean(left**2), rel=0.02)  # boosting takes the mean of fewer rows
        together = with_it.curve[with_it.iteration, 2]
        assert difference == pytest.approx(together - error, rel=1e-9)
        pairs = with_it.left**2 - left**2
        assert scatter == pytest.approx(pairs.std(ddof=1) / np.sqrt(n - n_learn), rel=0.1)
    np.testing.assert_array_equal(with_it.curve, without.curve)
    assert alone.best == "b"


def test_a_site_alone_predicts_what_can_be() -> None:
    y = world()[1]
    plan = Plan(NAMES, y, N_LEARN, Rules(algorithm="average", baselines=True))
    plan.take({name: FittedValues(np.zeros((N_LEARN, 1)), np.zeros((N - N_LEARN, 1))) for name in plan.asks()})
    asks = plan.asks()
    assert {type(ask) for ask in asks.values()} == {Compare}
    for held in (np.zeros((3, 1)), np.full((N - N_LEARN, 1), 1e6)):
        with pytest.raises(PayloadError):
            plan.check("a", asks["a"], PredictionsAlone(np.zeros((0, 1)), held))
    with pytest.raises(PayloadError, match="is not the answer"):
        plan.check("a", asks["a"], FittedValues(np.zeros((N_LEARN, 1)), np.zeros((N - N_LEARN, 1))))
    plan.take({"b": PredictionsAlone(np.zeros((0, 1)), np.zeros((N - N_LEARN, 1)))})
    plan.asks()
    assert plan.result is not None
    assert plan.result.alone is not None
    assert plan.result.alone.names == ("b",)
