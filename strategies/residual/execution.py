"""Execution of a plan: by the fusion center, by the site that holds the outcome, or from agent to agent."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float64

from numerics.residual.alone import Alone
from numerics.residual.limits import RANGES, prediction_limits
from numerics.residual.rules import LearningResult, Rules, Split
from numerics.shared.classification import SCORES
from protocols.residual.payloads import (
    Fuse,
    FusionStep,
    KeepEnsemble,
    Lead,
    NextResidual,
    Pass,
    Receipt,
    Residual,
    SealedAnswer,
    SealedAsk,
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
    by_kind = zip(("train", "validation", "test"), errors.tolist(), strict=True)
    return {kind: error for kind, error in by_kind if np.isfinite(error)}


class _Attendance:
    """Rounds in a row that each site has missed.

    A site that has missed `MOST_MISSES` is not asked again: each time the run would wait until the time limit.
    """

    def __init__(self) -> None:
        self.misses: Counter[str] = Counter()

    def present(self, asks: Mapping[str, Payload]) -> dict[str, Payload]:
        """Return the asks to sites that may still answer."""
        return {name: ask for name, ask in asks.items() if self.misses[name] < MOST_MISSES}

    def note(self, asks: Mapping[str, Payload], answers: Mapping[str, Payload]) -> None:
        """Count the sites that were asked and have not answered."""
        for name in asks:
            self.misses[name] = 0 if name in answers else self.misses[name] + 1
            if self.misses[name] == MOST_MISSES:
                logger.warning("%s has missed %d rounds in a row and is asked no more", name, MOST_MISSES)


@dataclass(frozen=True)
class PlanResult:
    """Result of a plan.

    Attributes
    ----------
    result : LearningResult
        Combination of the agents.
    trial : LearningResult or None
        Result of the course that chose p and the number of iterations, if there was one and the center knows it.
    without_receipt : tuple of str
        Agents that have a part in the result and did not confirm that they stored their model.
    limits : tuple of float
        Least and greatest prediction of an answer that can be; empty if the center does not hold the outcome.
    y_test : ndarray
        Outcomes of the test rows; empty likewise.
    """

    result: LearningResult
    trial: LearningResult | None
    without_receipt: tuple[str, ...]
    limits: tuple[float, ...] = ()
    y_test: Float64[np.ndarray, "n_test"] = field(default_factory=lambda: np.zeros(0))


# -- by the fusion center ---------------------------------------------------------------------------------------------


def centered(plan: Plan, precision: str) -> Conversation[PlanResult]:
    """Carry out a plan at the fusion center, which holds the outcome.

    Parameters
    ----------
    plan : Plan
        What the agents are asked.
    precision : str
        ``float64`` or ``float32``, of the numbers on the wire.
    """
    dtype, attendance = np.dtype(precision), _Attendance()
    while wanted := plan.asks():
        # An ask that several agents share stays one object, so that it is encoded once.
        cast = {id(ask): rounded(ask, dtype) for ask in wanted.values()}
        asks = {name: cast[id(ask)] for name, ask in wanted.items()}
        if plan.result is None:  # the last ask goes to all, also to sites that were silent
            asks = attendance.present(asks)
        answers: dict[str, Payload] = {}
        if asks:
            answers = yield Tell(asks, check=_check_against(plan, asks), measure=_measure(plan.newest))
        attendance.note(asks, answers)
        plan.take(answers)
    assert plan.result is not None  # noqa: S101 - a plan without further asks has a result
    return PlanResult(plan.result, plan.trial, plan.without_receipt, plan.limits, plan.y[plan.split.slices[2]])


def _check_against(plan: Plan, asks: Mapping[str, Payload]) -> Check:
    def check(site: str, answer: Payload) -> None:
        plan.check(site, asks[site], answer)

    return check


# -- by the site that holds the outcome -------------------------------------------------------------------------------


def relayed(
    holder: str, agents: tuple[str, ...], n: int, n_learn: int, rules: Rules, precision: str
) -> Conversation[PlanResult]:
    """Relay sealed payloads between the agents and the site that holds the outcome and does the arithmetic.

    Parameters
    ----------
    holder : str
        The site that holds the outcome.
    agents : tuple of str
        All agents.
    n, n_learn : int
        Numbers of common rows and of those to learn from.
    rules, precision
        As of `Lead`.

    Raises
    ------
    FusionError
        If the holder does not answer, or does not come to an end.
    """
    attendance = _Attendance()
    split = rules.split(n, n_learn)
    if rules.refits:
        split = split.without_validation
    ask: Payload = Lead(agents, n_learn, rules.to_json(), precision)
    # At most two asks for each agent that wins in greedy and is silent then, in the choice and in the refit; at the end
    # one to compare, and two to store; at the beginning one for bins.
    most = 2 * (rules.rounds + 1) * (2 * len(agents) + MOST_MISSES) + 4
    for _ in range(most):
        reply: dict[str, FusionStep] = yield Tell({holder: ask}, check=_check_fused(agents, rules, split))
        if holder not in reply:
            raise FusionError(
                f"{holder}, which holds the outcome, gave no answer that could be used: the run cannot go on without it"
            )
        fused = reply[holder]
        for name in fused.refused:
            logger.warning("%s: its answer is of no use to %s, which has the reason in its log", name, holder)
        if not fused.agents:
            return PlanResult(_result(fused, agents, split, rules), None, fused.without_receipt)
        asks: dict[str, Payload] = {
            name: SealedAsk(holder, body) for name, body in zip(fused.agents, fused.bodies, strict=True)
        }
        if not fused.last:
            asks = attendance.present(asks)
        answers: dict[str, SealedAnswer] = {}
        if asks:
            errors = np.array([each or np.nan for each in (fused.train, fused.validation, fused.test)])
            answers = yield Tell(asks, measure=_measure(errors))
        attendance.note(asks, answers)
        ask = Fuse(tuple(answers), tuple(answer.body for answer in answers.values()))
    raise FusionError(f"{holder}, which holds the outcome, has not come to an end after {most} rounds")


def _are_scores(scores: Float64[np.ndarray, "w s"]) -> bool:
    """Return whether scores are such: at least 0 or not defined, and what is a share at most 1."""
    largest = np.array([np.inf if name in ("log_loss", "brier") else 1.0 for name in SCORES] + [np.inf] * len(SCORES))
    return bool(((scores == -1) | ((scores >= 0) & (scores <= largest))).all()) if scores.size else True


def _check_fused(agents: tuple[str, ...], rules: Rules, split: Split) -> Check:
    def check(site: str, answer: FusionStep) -> None:
        def refuse(field: str, problem: str) -> None:
            raise PayloadError(answer.title(), field, problem)

        names = {*answer.agents, *answer.refused, *answer.without_receipt, *answer.left_out}
        if len(answer.agents) != len(answer.bodies) or not names <= set(agents):
            refuse("agents", "are not those of the run, or there is not one body for each")
        _refuse_negative(answer, "train", "validation", "test", "curve", "parts")
        if answer.agents:
            return
        if answer.beta.shape != (len(agents),) or answer.seen.shape != (len(agents),):
            refuse("beta", f"expected {len(agents)} coefficients")
        if answer.parts.shape != (len(answer.curve), len(agents)) or not 0 <= answer.iteration < len(answer.curve):
            refuse("curve", "does not hold the iteration that was chosen, or is not as long as parts")
        most = rules.rounds + 2 * rules.boosts  # the finish follows the iterations, and a share of a site alone
        if len(answer.curve) > most + 1:
            refuse("curve", f"has more than {most} iterations")
        if not set(answer.alone) <= set(agents) or answer.alone_errors.shape != (len(answer.alone), 3):
            refuse("alone_errors", "are not three for each agent that is named")
        ways = 1 + len(answer.alone) if rules.n_classes and split.n_test else 0
        if answer.scores.shape != (ways, 2 * len(SCORES) if ways else 0) or not _are_scores(answer.scores):
            refuse("scores", "are not scores of all together and of each agent alone")
        if answer.threshold != -1 and not (rules.n_classes == 2 and 0 <= answer.threshold <= 1):
            refuse("threshold", "is no probability, or there are not two classes")
        if min(answer.alone_errors[:, [0, 2]].ravel(), default=0.0) < 0:
            refuse("alone_errors", "has a mean square or a standard error below 0")
        if answer.own_site not in ("", *agents) or not 0 <= answer.own_share <= bool(answer.own_site):
            refuse("own_share", "is no share of an agent's")
        if answer.power not in (rules.powers if rules.algorithm == "parallel" else (0.0,)):
            refuse("power", "is not a power of the run")

    return check


def _refuse_negative(answer: Payload, *fields: str) -> None:
    """Refuse mean squares below 0."""
    for name in fields:
        if np.min(getattr(answer, name), initial=0.0) < 0:
            raise PayloadError(answer.title(), name, "is a mean square or a log loss, and negative")


def _check_passed(site: str, answer: NextResidual) -> None:
    _refuse_negative(answer, "train", "validation", "test", "step", "total")


_ROUNDING = 1e-6
"""Relative error of mean squares that cross the wire, and of their roots."""


def _check_step(answer: NextResidual, train: float, reach: float, own: float, sender: str) -> None:
    """Refuse mean squares of a turn in a ring that no step can leave (the triangle inequality).

    Parameters
    ----------
    answer : Passed
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


def _result(fused: FusionStep, agents: tuple[str, ...], split: Split, rules: Rules) -> LearningResult:
    return LearningResult(
        names=agents,
        algorithm=rules.algorithm,
        mean=0.0,  # stays with the holder
        beta=fused.beta,
        iteration=fused.iteration,
        p=fused.power,
        curve=split.mark_missing(fused.curve),
        power=fused.parts,
        step_power=np.zeros(0),
        split=split,
        seen=fused.seen,
        left_out=fused.left_out,
        alone=Alone(fused.alone, fused.alone_errors) if fused.alone else None,
        own_site=fused.own_site,
        own_share=fused.own_share,
        scores=fused.scores,
        threshold=fused.threshold,
    )


# -- from agent to agent ----------------------------------------------------------------------------------------------


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
    """Have the agents store their models, and the holder the coefficients; return whose part was not stored."""
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
        if not unconfirmed - set(answers):  # a site that has no directory has none the second time either
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
        # The site that had the residual last, and what it sealed for which other one; nothing at the beginning.
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

        reply = yield Tell({name: ask}, check=check, measure=_measure(newest))
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
