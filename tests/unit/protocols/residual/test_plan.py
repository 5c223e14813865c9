"""The plan: who is asked what, and what follows from the answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from numerics.residual.rules import Rules
from protocols.residual.payloads import (
    Bin,
    Compare,
    Conclude,
    EntityBins,
    Fit,
    FittedValues,
    PredictionsAlone,
    Receipt,
    Show,
    TrialFit,
    Try,
)
from protocols.residual.plan import Plan
from protocols.residual.sequential import MOST_MISSES, Greedy, Sip
from protocols.wire.payload import Payload, PayloadError
from tests.support import reference_residual as reference


def test_of_equal_agents_greedy_takes_the_first_name() -> None:
    rules = Rules(algorithm="greedy", stop="rounds", rounds=1)
    y = np.arange(10.0)
    plan = Plan(("a", "b", "c"), y, 8, rules)
    asks = plan.asks()
    errors = {"a": 5.0, "b": 3.0, "c": 3.0}
    fitted = {name: TrialFit(errors[name], np.ones(8), np.ones(2)) for name in asks}
    plan.take(fitted)
    assert plan.asks() == {}
    assert plan.result is not None
    assert plan.result.seen.tolist() == [False, True, False]


def test_the_foreseen_winner_s_predictions_ride_along() -> None:
    """After the first iteration most winners are foreseen: far fewer than two asks an iteration."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 5))
    y = np.sin(2 * x[:, 0]) + x[:, 1] + 0.5 * x[:, 2] ** 2 + 0.1 * rng.normal(size=200)
    names = tuple("abcde")
    agents = {name: reference.tree(x[:, [j]], 10) for j, name in enumerate(names)}
    algorithm = Greedy(names, y, Plan(names, y, 150, Rules()).split, Rules(stop="rounds", rounds=20, shrinkage=0.3))
    shown = tried = 0
    pending: dict[str, np.ndarray] = {}
    while asks := algorithm.asks():
        answers: dict[str, Payload] = {}
        for name, ask in asks.items():
            n = algorithm.split.n_fit
            if isinstance(ask, Show):
                shown += 1
                step = pending[name]
                answers[name] = FittedValues(step[:n, None], step[n:, None])
                continue
            assert isinstance(ask, Try)
            step = pending[name] = ask.add * agents[name](ask.residual)
            error = float(np.sum((ask.residual - step[:n]) ** 2))
            below = error < ask.bar
            answers[name] = TrialFit(error, step[:n] if below else step[:0], step[n:] if below else step[:0])
        tried += any(isinstance(ask, Try) for ask in asks.values())
        algorithm.take(answers)
    assert algorithm.iteration == 20
    assert tried == 20
    assert shown < 10


def test_sip_ends_when_nobody_answers_any_more() -> None:
    y = np.arange(10.0)
    algorithm = Sip(("a", "b"), y, Plan(("a", "b"), y, 8, Rules()).split, Rules(stop="rounds", rounds=50))
    for _ in range(MOST_MISSES * 2):
        assert algorithm.asks()
        algorithm.take({})
    assert not algorithm.asks()
    assert algorithm.result().beta.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("algorithm", ["parallel", "greedy", "sip"])
def test_answers_that_do_not_fit_their_ask_are_refused(algorithm: str) -> None:
    plan = Plan(("a", "b"), np.arange(10.0), 8, Rules(algorithm=algorithm, powers=(1.0,), stop="rounds"))
    [name, *_], [ask, *_] = list(plan.asks()), list(plan.asks().values())
    wrong: list[Payload] = [
        FittedValues(np.zeros((7, 1)), np.zeros((2, 1))),
        FittedValues(np.zeros((8, 2)), np.zeros((2, 2))),
    ]
    wrong += [TrialFit(-1.0, np.zeros(8), np.zeros(2)), TrialFit(1.0, np.zeros(7), np.zeros(2)), Show()]
    wrong.append(TrialFit(0.0, np.zeros(0), np.zeros(0)))
    for answer in wrong:
        with pytest.raises(PayloadError):
            plan.check(name, ask, answer)


@pytest.mark.parametrize("silent", [True, False])
def test_a_plan_concludes_with_what_made_the_best_iterate(silent: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = x[:, 0] + np.sin(3 * x[:, 1])
    agents = {name: reference.tree(x[:, [j]], 5) for j, name in enumerate("ab")}
    plan = Plan(("a", "b"), y, 60, Rules(powers=(2.0,), stop="rounds", rounds=8, keep=True))
    asks: dict[str, Any] = plan.asks()
    while not any(isinstance(ask, Conclude) for ask in asks.values()):
        answers = {name: agents[name](ask.target[:, 0])[:, None] for name, ask in asks.items() if isinstance(ask, Fit)}
        plan.take({name: FittedValues(each, each[:0]) for name, each in answers.items()})
        asks = plan.asks()
    result = plan.result
    assert result is not None
    kept = np.array([agents[name](asks[name].target) for name in "ab"])
    left = y - result.mean - result.beta @ kept
    assert float(left @ left) / 60 == pytest.approx(result.curve[:, 0].min(), rel=1e-9)
    plan.take({"a": Receipt(True)})
    assert plan.asks().keys() == {"b"}  # who was silent is asked once more
    assert plan.without_receipt == ("b",)
    plan.take({} if silent else {"b": Receipt(True)})
    assert plan.asks() == {}
    assert plan.without_receipt == (("b",) if silent else ())


# -- bins -------------------------------------------------------------------------------------------------------------

ROWS = 60


def binned(k: int, n: int = ROWS, epsilon: float = 0.0) -> EntityBins:
    rng = np.random.default_rng(k)
    return EntityBins(rng.integers(0, k, size=(n, 2)).astype(np.uint8), np.array([k, k], np.uint8), epsilon)


def plan_of_bins(**changes: Any) -> Plan:
    y = np.random.default_rng(0).normal(size=ROWS)
    return Plan(("a", "b"), y, 50, Rules(algorithm="bins", rounds=2, min_leaf=5, **changes))


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        (binned(32, n=59), "bins"),
        (EntityBins(np.full((ROWS, 1), 32, np.uint8), np.array([32], np.uint8), 0.0), "bins"),
        (EntityBins(np.zeros((ROWS, 1), np.uint8), np.array([52], np.uint8), 0.0), "levels"),
        (EntityBins(np.zeros((ROWS, 1), np.uint8), np.array([0], np.uint8), 0.0), "levels"),
        (binned(16, epsilon=-1.0), "epsilon"),
        (PredictionsAlone(np.zeros((0, 1)), np.zeros((10, 1))), "payload"),
    ],
)
def test_bins_that_cannot_be_are_refused(answer: Payload, field: str) -> None:
    plan = plan_of_bins()
    asks = plan.asks()
    plan.check("a", asks["a"], binned(32))
    plan.check("a", asks["a"], EntityBins(np.zeros((0, 0), np.uint8), np.zeros(0, np.uint8), 0.0))
    with pytest.raises(PayloadError, match=field):
        plan.check("a", asks["a"], answer)


def test_a_site_randomizes_as_much_as_the_run_wants_or_more() -> None:
    plan = plan_of_bins(epsilon=2.0)
    ask = plan.asks()["a"]
    plan.check("a", ask, binned(32, epsilon=1.0))
    for epsilon in (0.0, 3.0):
        with pytest.raises(PayloadError, match="epsilon"):
            plan.check("a", ask, binned(32, epsilon=epsilon))


def test_where_all_sites_give_bins_no_residual_is_sent() -> None:
    plan = plan_of_bins(keep=True)
    assert {type(ask) for ask in plan.asks().values()} == {Bin}
    plan.take({"a": binned(16), "b": binned(16)})
    asks = plan.asks()
    assert plan.result is not None
    assert plan.result.widths == (2, 2)
    assert all(isinstance(ask, Conclude) and ask.bins for ask in asks.values())


def test_a_silent_site_goes_on_as_an_agent() -> None:
    plan = plan_of_bins()
    plan.take({"a": binned(16)})
    assert {name: type(ask) for name, ask in plan.asks().items()} == {"b": Fit}


# -- a site alone -----------------------------------------------------------------------------------------------------


def beside_alone(own: float, step: float) -> Plan:
    """A plan of boosting in which agent a alone predicts `own` of the outcome, and its only step is `step` of it."""
    n, n_learn = 600, 400
    y = np.random.default_rng(0).normal(size=n)
    y -= y[:300].mean()
    plan = Plan(("a", "b"), y, n_learn, Rules(algorithm="boosted", rounds=1, shrinkage=1.0, baselines=True, keep=True))
    plan.take(
        {
            "a": FittedValues(y[:300, None] * step, y[300:, None] * step),
            "b": FittedValues(np.zeros((300, 1)), np.zeros((300, 1))),
        }
    )
    asks = plan.asks()
    assert {type(ask) for ask in asks.values()} == {Compare}
    assert (asks["a"].n_fit, len(asks["a"].target)) == (300, 400)
    noise = np.random.default_rng(1).normal(size=n)
    alone = {"a": own * y + 0.5 * noise, "b": 0.9 * noise}
    answers = {name: PredictionsAlone(each[:n_learn, None], each[300:, None]) for name, each in alone.items()}
    for name, answer in answers.items():
        plan.check(name, asks[name], answer)
        with pytest.raises(PayloadError, match="fitted"):
            plan.check(name, asks[name], PredictionsAlone(answer.fitted[:0], answer.held))
    plan.take(answers)
    plan.asks()
    return plan


def test_a_site_alone_has_no_share_where_the_others_help() -> None:
    plan = beside_alone(own=1.0, step=1.0)
    assert plan.result is not None
    assert (plan.result.own_site, plan.result.own_share) == ("", 0.0)
    assert not any(len(ask.own) for ask in plan.conclusions.values() if isinstance(ask, Conclude))


@pytest.mark.parametrize("step", [0.0, -1.0])
def test_where_nothing_is_learned_together_the_best_site_alone_counts(step: float) -> None:
    plan = beside_alone(own=1.0, step=step)
    result = plan.result
    assert result is not None
    assert result.own_site == "a"
    assert result.own_share == 1.0
    assert result.curve[result.iteration, 2] == pytest.approx(np.mean(result.left**2))
    assert result.without is not None
    error = result.curve[result.iteration, 2]
    assert result.without.errors[0, 2] > 3 * error
    assert result.without.errors[1, 2] == pytest.approx(error)
    told = plan.conclusions["a"]
    assert isinstance(told, Conclude)
    assert (len(told.own), len(told.numbers)) == (400, 0)
    combination = result.combination
    assert [combination.width(name) for name in combination.names] == [1, 0]
    assert [combination.uses(name) for name in combination.names] == [True, False]
