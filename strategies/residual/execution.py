"""How a plan is carried out: by the fusion center, by the site that holds the outcome, or from agent to agent."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from numerics.residual.rules import Result, Rules, Split
from protocols.residual.payloads import (
    Concluded,
    Fuse,
    Fused,
    KeepEnsemble,
    Lead,
    Pass,
    Passed,
    Residual,
    Sealed,
    SealedAnswer,
    rounded,
)
from protocols.residual.plan import Plan
from protocols.residual.sequential import MOST_MISSES, Course
from protocols.wire.packing import pack
from protocols.wire.payload import Payload, PayloadError
from strategies.conversation import Check, Conversation, Tell
from strategies.errors import FusionError
from strategies.residual.enrolment import CENTER

logger = logging.getLogger("flwr")


def _measure(errors: Float64[np.ndarray, "3"]) -> dict[str, float]:
    named = zip(("train", "validation", "test"), errors.tolist(), strict=True)
    return {name: value for name, value in named if np.isfinite(value)}


class _Attendance:
    """Who has been silent, and for how long.

    Who has missed `MOST_MISSES` rounds in a row is asked no more, for each would be waited for to the time limit.
    """

    def __init__(self) -> None:
        self.misses: Counter[str] = Counter()

    def there(self, asks: Mapping[str, Payload]) -> dict[str, Payload]:
        return {name: ask for name, ask in asks.items() if self.misses[name] < MOST_MISSES}

    def note(self, asked: Mapping[str, Payload], answers: Mapping[str, Payload]) -> None:
        for name in asked:
            self.misses[name] = 0 if name in answers else self.misses[name] + 1
            if self.misses[name] == MOST_MISSES:
                logger.warning("%s has missed %d rounds in a row and is asked no more", name, MOST_MISSES)


@dataclass(frozen=True)
class Learned:
    """What came of a plan.

    Attributes
    ----------
    result : Result
        The ensemble.
    trial : Result or None
        By what its p and its end were chosen, where that is known here.
    unkept : tuple of str
        Agents that have a part in it, and did not say that they have kept their model.
    """

    result: Result
    trial: Result | None
    unkept: tuple[str, ...]


# -- by the fusion center ---------------------------------------------------------------------------------------------


def centered(plan: Plan, precision: str) -> Conversation[Learned]:
    """The center holds the outcome, and asks as the plan says."""
    dtype, attendance = np.dtype(precision), _Attendance()
    while asks := plan.asks():
        # One ask for several agents stays one, so that it is encoded once.
        cast = {id(ask): rounded(ask, dtype) for ask in asks.values()}
        there = {name: cast[id(ask)] for name, ask in asks.items()}
        if plan.result is None:  # else it is for the last time, and may find who was silent
            there = attendance.there(there)
        answers: dict[str, Payload] = {}
        if there:
            answers = yield Tell(there, check=_check_against(plan, there), measure=_measure(plan.newest))
        attendance.note(there, answers)
        plan.take(answers)
    assert plan.result is not None
    return Learned(plan.result, plan.trial, plan.unkept)


def _check_against(plan: Plan, asks: Mapping[str, Payload]) -> Check:
    def check(site: str, answer: Payload) -> None:
        plan.check(site, asks[site], answer)

    return check


# -- by the site that holds the outcome -------------------------------------------------------------------------------


def relayed(
    holder: str, agents: tuple[str, ...], n: int, n_learn: int, rules: Rules, precision: str
) -> Conversation[Learned]:
    """A site holds the outcome and does the arithmetic; the center carries what is sealed between it and the agents."""
    attendance = _Attendance()
    split = rules.split(n, n_learn)
    if rules.refit:
        split = split.without_validation
    ask: Payload = Lead(agents, n_learn, rules.to_json(), precision)
    # Greedy may ask twice for every agent that wins and is silent then; the choice and learning from all rows.
    most = 2 * (rules.rounds + 1) * (2 * len(agents) + MOST_MISSES) + 2
    for _ in range(most):
        reply: dict[str, Fused] = yield Tell({holder: ask}, check=_check_fused(agents))
        if holder not in reply:
            raise FusionError(
                f"{holder}, which holds the outcome, gave no answer that could be used: the run cannot go on without it"
            )
        fused = reply[holder]
        for name in fused.refused:
            logger.warning("%s: its answer is of no use to %s, which has the reason in its log", name, holder)
        if not fused.agents:
            return Learned(_result(fused, agents, split, rules), None, fused.unkept)
        sealed = {name: Sealed(holder, body) for name, body in zip(fused.agents, fused.bodies, strict=True)}
        there = sealed if fused.last else attendance.there(sealed)
        answers: dict[str, SealedAnswer] = {}
        if there:
            errors = np.array([each or np.nan for each in (fused.train, fused.validation, fused.test)])
            answers = yield Tell(there, measure=_measure(errors))
        attendance.note(there, answers)
        ask = Fuse(tuple(answers), tuple(answer.body for answer in answers.values()))
    raise FusionError(f"{holder}, which holds the outcome, has not come to an end after {most} rounds")


def _check_fused(agents: tuple[str, ...]) -> Check:
    def check(site: str, answer: Fused) -> None:
        def refuse(field: str, problem: str) -> None:
            raise PayloadError(answer.title(), field, problem)

        named = {*answer.agents, *answer.refused, *answer.unkept}
        if len(answer.agents) != len(answer.bodies) or not named <= set(agents):
            refuse("agents", "are not those of the run, or there is not one body for each")
        if answer.agents:
            return
        if answer.beta.shape != (len(agents),) or answer.seen.shape != (len(agents),):
            refuse("beta", f"expected {len(agents)} coefficients")
        if answer.parts.shape != (len(answer.curve), len(agents)) or not 0 <= answer.iteration < len(answer.curve):
            refuse("curve", "does not hold the iteration that was chosen, or is not as long as parts")

    return check


def _result(fused: Fused, agents: tuple[str, ...], split: Split, rules: Rules) -> Result:
    return Result(
        names=agents,
        algorithm=rules.algorithm,
        mean=0.0,  # stays with the holder
        beta=fused.beta,
        iteration=fused.iteration,
        p=fused.power,
        curve=split.known(fused.curve),
        power=fused.parts,
        step_power=np.zeros(0),
        split=split,
        seen=fused.seen,
    )


# -- from agent to agent ----------------------------------------------------------------------------------------------


def ring(
    holder: str, agents: tuple[str, ...], y: Float64[np.ndarray, "n"] | None, n: int, n_learn: int, rules: Rules
) -> Conversation[Learned]:
    """Simple Iterative Projection without a fusion center (section VI-B); the result equals `centered`'s.

    Parameters
    ----------
    holder : str
        Who holds the outcome.
    agents : tuple of str
        The ring, in order.
    y : ndarray or None
        ``(n,)`` outcomes in the agreed order, where the center holds them.
    n, n_learn : int
        Common rows, and how many of them are learned from.
    rules : Rules
        How to learn.
    """
    split = rules.split(n, n_learn)
    course: Course = yield from _Ring(holder, agents, y, split, rules.looking(split)).turns()
    trial = course.result() if split.n_validation else None
    if trial is not None and rules.refit:
        split = split.without_validation
        course = yield from _Ring(holder, agents, y, split, rules.fixed(*course.chosen())).turns()
    result = course.result(last=trial is not None and rules.refit)
    unkept: tuple[str, ...] = ()
    if rules.keep:
        unkept = yield from _keep(holder, course.concluding(result), result, split.n_fit, rules)
    return Learned(result, trial, unkept)


def _keep(
    holder: str, concluding: Mapping[str, Payload], result: Result, n_fit: int, rules: Rules
) -> Conversation[tuple[str, ...]]:
    """Have the agents keep their models, and the holder what it takes to sum up; returns who with a part has not."""
    parts = tuple(name for name, there in zip(result.names, result.seen, strict=True) if there)
    ensemble = KeepEnsemble(parts, n_fit, rules.intercept)
    wanted: dict[str, Payload | tuple[Payload, ...]] = dict(concluding)
    if holder != CENTER:
        wanted[holder] = (ensemble, concluding[holder]) if holder in concluding else ensemble
    left = set(wanted)
    for _ in range(2):
        asks = {name: wanted[name] for name in sorted(left)}
        answers: dict[str, Any] = yield Tell(asks)
        told = {name: answer[-1] if isinstance(answer, tuple) else answer for name, answer in answers.items()}
        left -= {name for name, answer in told.items() if isinstance(answer, Concluded) and answer.kept}
        if not left - set(answers):  # who has no place to keep a model in has none the second time either
            break
    return tuple(sorted(left & {*parts, holder}))


class _Ring:
    """One course around the ring."""

    def __init__(
        self, holder: str, agents: tuple[str, ...], y: Float64[np.ndarray, "n"] | None, split: Split, rules: Rules
    ) -> None:
        self.holder, self.agents, self.split, self.rules = holder, agents, split, rules
        self.mean = 0.0 if y is None else rules.mean_of(y[: split.n_fit])
        self.left = None if y is None else y - self.mean
        self.misses: Counter[str] = Counter()
        self.accepted: dict[str, int] = {}
        # Who had the residual last, and what it sealed for whom: nothing yet, the outcome is where it is.
        self.last, self.body, self.sealed_for = holder, np.zeros(0, np.uint8), ""

    def turns(self) -> Conversation[Course]:
        first = yield from self._first()
        course = Course(self.agents, self.split, self.rules, self.mean, first)
        turn = passed = 0
        while not course.ended:
            name = self.agents[turn]
            if self.misses[name] < MOST_MISSES:
                passed_on = yield from self._turn(turn, course)
            else:
                passed_on = None
            if passed_on is None:
                passed += 1
                course.ended = passed >= MOST_MISSES * len(self.agents)
            else:
                passed = 0
                self.accepted[name] = course.iteration
                course.record(turn, _errors(passed_on, self.split), passed_on.step, passed_on.total)
            turn = (turn + 1) % len(self.agents)
        return course

    def _first(self) -> Conversation[Float64[np.ndarray, "3"]]:
        """The errors before any step; a site that holds the outcome seals it for the first agent."""
        if self.left is not None:
            return self.split.errors(self.left)
        reply = yield Tell({self.holder: self._ask(self.holder, "", np.zeros(0, np.uint8), self.agents[0])})
        if self.holder not in reply:
            raise FusionError(
                f"{self.holder}, which holds the outcome, gave no answer that could be used: nothing can be learned"
            )
        passed: Passed = reply[self.holder]
        self.body, self.sealed_for = passed.body, self.agents[0]
        return _errors(passed, self.split)

    def _turn(self, turn: int, course: Course) -> Conversation[Passed | None]:
        """One agent's step; None if it does not answer."""
        name = self.agents[turn]
        if self.left is None and self.sealed_for != name:
            yield from self._seal_anew(name)
        sender, body = self.last, self.body
        if self.left is not None:
            sender, body = "", np.frombuffer(pack(Residual(self.left)), np.uint8)
        receiver = self._next(turn)
        ask = self._ask(name, sender, body, receiver, steps=self.rules.steps, number=course.iteration)
        newest = course.curve[course.iteration]
        reply = yield Tell({name: ask}, measure=_measure(newest))
        if name not in reply:
            self.misses[name] += 1
            self.sealed_for = ""
            return None
        self.misses[name] = 0
        self.last, self.body, self.sealed_for, self.left = name, reply[name].body, receiver, None
        passed: Passed = reply[name]
        return passed

    def _seal_anew(self, name: str) -> Conversation[None]:
        """The next was silent: who has the residual seals it for the one after."""
        own = self.last
        reply = yield Tell({own: self._ask(own, own, np.zeros(0, np.uint8), name)})
        if own not in reply:
            raise FusionError(f"{own} does not answer, and the residual is with it: the run cannot go on (resume-from)")
        self.body, self.sealed_for = reply[own].body, name

    def _next(self, turn: int) -> str:
        """Whose turn is next, of those who are there."""
        following = [self.agents[(turn + k) % len(self.agents)] for k in range(1, len(self.agents) + 1)]
        return next((name for name in following if self.misses[name] < MOST_MISSES), following[0])

    def _ask(self, name: str, sender: str, body: np.ndarray, receiver: str, *, steps: int = 0, number: int = 0) -> Pass:
        return Pass(
            sender=sender,
            body=body,
            receiver=receiver,
            n_fit=self.split.n_fit,
            n_validation=self.split.n_validation,
            add=self.rules.shrinkage,
            steps=steps,
            number=number,
            keep=self.rules.keep,
            intercept=self.rules.intercept,
            accepted=self.accepted.get(name, -1),
        )


def _errors(passed: Passed, split: Split) -> Float64[np.ndarray, "3"]:
    return split.known(np.array([passed.train, passed.validation, passed.test]))
