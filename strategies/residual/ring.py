"""Simple Iterative Projection from agent to agent, without a fusion center that sees the residual (section VI-B)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float64

from numerics.residual.limits import RANGES, prediction_limits
from numerics.residual.rules import LearningResult, Rules
from numerics.residual.split import Split
from protocols.residual.payloads import KeepEnsemble, NextResidual, Pass, Receipt, Residual
from protocols.residual.sequential import MOST_MISSES, Course
from protocols.wire.packing import pack
from protocols.wire.payload import Payload, PayloadError
from strategies.conversation import Conversation, Tell
from strategies.errors import FusionError
from strategies.residual.alignment import CENTER
from strategies.residual.execution import PlanResult, measure_of, refuse_negative


def ring(
    holder: str, agents: tuple[str, ...], y: Float64[np.ndarray, "n"] | None, n: int, n_learn: int, rules: Rules
) -> Conversation[PlanResult]:
    """Carry out Simple Iterative Projection without a fusion center (section VI-B); the result equals `centered`'s.

    Parameters
    ----------
    holder : str
        The site that holds the outcome, or `CENTER`.
    agents : tuple of str
        The ring, in order.
    y : ndarray or None
        ``(n,)`` outcomes in the order of the common rows, if the center holds them.
    n, n_learn : int
        Numbers of common rows and of those to learn from.
    rules : Rules
        Settings of learning.
    """
    split = rules.split(n, n_learn)
    course: Course = yield from _Ring(holder, agents, y, split, rules.for_choice(split)).turns()
    trial = course.result() if split.n_validation else None
    if trial is not None and rules.refit:
        split = split.without_validation
        course = yield from _Ring(holder, agents, y, split, rules.for_refit(*course.choice())).turns()
    result = course.result(last=trial is not None and rules.refit)
    without_receipt: tuple[str, ...] = ()
    if rules.keep:
        without_receipt = yield from _keep(holder, course.conclusions(result), result, split.n_fit, rules)
    limits = () if y is None else prediction_limits(y - result.mean)
    return PlanResult(result, trial, without_receipt, limits)


def _keep(
    holder: str, conclusions: Mapping[str, Payload], result: LearningResult, n_fit: int, rules: Rules
) -> Conversation[tuple[str, ...]]:
    """Have the agents store their models, and the holder the coefficients; return the sites that have not."""
    parts = tuple(name for name, seen in zip(result.names, result.seen, strict=True) if seen)
    ensemble = KeepEnsemble(parts, n_fit, rules.intercept)
    wanted: dict[str, Payload | tuple[Payload, ...]] = dict(conclusions)
    if holder != CENTER:
        wanted[holder] = (ensemble, conclusions[holder]) if holder in conclusions else ensemble
    unconfirmed = set(wanted)
    for _ in range(2):
        asks = {name: wanted[name] for name in sorted(unconfirmed)}
        answers: dict[str, Any] = yield Tell(asks)
        last = {name: answer[-1] if isinstance(answer, tuple) else answer for name, answer in answers.items()}
        unconfirmed -= {name for name, answer in last.items() if isinstance(answer, Receipt) and answer.stored}
        if not unconfirmed - set(answers):  # all others have answered that they have no directory
            break
    return tuple(sorted(unconfirmed & {*parts, holder}))


class _Ring:
    """One course around the ring."""

    def __init__(
        self, holder: str, agents: tuple[str, ...], y: Float64[np.ndarray, "n"] | None, split: Split, rules: Rules
    ) -> None:
        self.holder, self.agents, self.split, self.rules = holder, agents, split, rules
        self.mean = 0.0 if y is None else rules.mean_of(y[: split.n_fit])
        # The residual before the first step, if the center holds the outcome; None from the first step on.
        self.residual = None if y is None else y - self.mean
        self.misses: Counter[str] = Counter()
        self.accepted: dict[str, int] = {}
        # The site that had the residual last, what it sealed, and for which other site; empty at the beginning.
        self.last, self.body, self.receiver = holder, np.zeros(0, np.uint8), ""
        self.reach = np.inf if y is None else float(np.abs(prediction_limits(y - self.mean)).max())
        self.own: dict[str, float] = dict.fromkeys(agents, 0.0)  # sums of the root mean squares of each agent's steps

    def turns(self) -> Conversation[Course]:
        """Let the agents take turns until the course ends."""
        first = yield from self._first_errors()
        course = Course(self.agents, self.split, self.rules, self.mean, first)
        turn = misses = 0
        while not course.ended:
            name = self.agents[turn]
            answer = None
            if self.misses[name] < MOST_MISSES:
                answer = yield from self._turn(turn, course)
            if answer is None:
                misses += 1
                course.ended = misses >= MOST_MISSES * len(self.agents)
            else:
                misses = 0
                self.accepted[name] = course.iteration
                self.own[name] += float(np.sqrt(answer.step))
                course.record(turn, _errors(answer, self.split), answer.step, answer.total)
            turn = (turn + 1) % len(self.agents)
        return course

    def _first_errors(self) -> Conversation[Float64[np.ndarray, "3"]]:
        """Return the errors before any step; a site that holds the outcome seals it for the first agent."""
        if self.residual is not None:
            return self.split.errors(self.residual)
        first = self._ask("", np.zeros(0, np.uint8), self.agents[0])
        reply = yield Tell({self.holder: first}, check=_check_passed)
        if self.holder not in reply:
            raise FusionError(
                f"{self.holder}, which holds the outcome, gave no answer that could be used: nothing can be learned"
            )
        answer: NextResidual = reply[self.holder]
        self.body, self.receiver = answer.body, self.agents[0]
        # No outcome is farther from the mean than the root of the sum of squares.
        largest = float(np.sqrt(self.split.n_fit * answer.train + self.split.n_validation * answer.validation))
        self.reach = float(np.abs(prediction_limits(np.array([-largest, largest]))).max())
        return _errors(answer, self.split)

    def _turn(self, turn: int, course: Course) -> Conversation[NextResidual | None]:
        """Ask one agent for its step; return None if it does not answer."""
        name = self.agents[turn]
        if self.residual is None and self.receiver != name:
            yield from self._seal_again(name)
        sender, body = self.last, self.body
        if self.residual is not None:
            sender, body = "", np.frombuffer(pack(Residual(self.residual)), np.uint8)
        receiver = self._next(turn)
        ask = self._ask(sender, body, receiver, steps=self.rules.steps, number=course.iteration, agent=name)
        newest = course.curve[course.iteration]

        def check(site: str, answer: NextResidual) -> None:
            _check_passed(site, answer)
            _check_step(answer, float(newest[0]), self.reach, self.own[site], sender)

        reply = yield Tell({name: ask}, check=check, measure=measure_of(newest))
        if name not in reply:
            self.misses[name] += 1
            self.receiver = ""
            return None
        answer: NextResidual = reply[name]
        self.misses[name] = 0
        self.last, self.body, self.receiver, self.residual = name, answer.body, receiver, None
        return answer

    def _seal_again(self, name: str) -> Conversation[None]:
        """Have the site that has the residual seal it for another agent: the next one is silent."""
        own = self.last
        again = self._ask(own, np.zeros(0, np.uint8), name, agent=own)
        reply = yield Tell({own: again}, check=_check_passed)
        if own not in reply:
            raise FusionError(f"{own} does not answer, and the residual is with it: the run cannot go on (resume-from)")
        self.body, self.receiver = reply[own].body, name

    def _next(self, turn: int) -> str:
        """Return the agent of the next turn, without those that have missed too many."""
        following = [self.agents[(turn + k) % len(self.agents)] for k in range(1, len(self.agents) + 1)]
        return next((name for name in following if self.misses[name] < MOST_MISSES), following[0])

    def _ask(
        self, sender: str, body: np.ndarray, receiver: str, *, steps: int = 0, number: int = 0, agent: str = ""
    ) -> Pass:
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
            accepted=self.accepted.get(agent, -1),
        )


def _errors(answer: NextResidual, split: Split) -> Float64[np.ndarray, "3"]:
    return split.mark_missing(np.array([answer.train, answer.validation, answer.test]))


def _check_passed(site: str, answer: NextResidual) -> None:
    refuse_negative(answer, "train", "validation", "test", "step", "total")


_ROUNDING = 1e-6
"""Relative error of mean squares that cross the wire, and of their roots."""


def _check_step(answer: NextResidual, train: float, reach: float, own: float, sender: str) -> None:
    """Refuse mean squares of a turn in a ring that no step can leave (the triangle inequality).

    Parameters
    ----------
    answer : NextResidual
        The answer of this turn.
    train : float
        Mean square of the training rows before the step.
    reach : float
        Largest absolute value of a step; infinite if unknown.
    own : float
        Sum of the root mean squares of this agent's earlier steps.
    sender : str
        The site that passed on the residual; empty: the fusion center did.

    Raises
    ------
    PayloadError
        If the step is larger than an answer may be, its sum larger than the steps, or the error another one.
    """
    step = np.sqrt(answer.step)
    if step > (1 + _ROUNDING) * reach:
        raise PayloadError(answer.title(), "step", f"goes beyond {RANGES:g} ranges of the outcome")
    if np.sqrt(answer.total) > (1 + _ROUNDING) * (own + step):
        raise PayloadError(answer.title(), "total", "is more than the agent's steps add up to")
    slack = _ROUNDING * np.sqrt(max(answer.train, train))
    if abs(np.sqrt(answer.train) - np.sqrt(train)) > (1 + _ROUNDING) * step + slack:
        problem = "is not what its step leaves of the residual"
        whose = f", or the residual of {sender} is not the one it told of" if sender else ""
        raise PayloadError(answer.title(), "train", problem + whose)
