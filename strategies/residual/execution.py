"""Execution of a plan: by the fusion center, or by the site that holds the outcome."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64

from numerics.residual.alone import Alone
from numerics.residual.rules import LearningResult, Rules
from numerics.residual.split import Split
from numerics.shared.classification import SCORES
from protocols.residual.payloads import Fuse, FusionStep, Lead, SealedAnswer, SealedAsk, rounded
from protocols.residual.plan import Plan
from protocols.residual.sequential import MOST_MISSES
from protocols.wire.payload import Payload, PayloadError
from strategies.conversation import Check, Conversation, Tell
from strategies.errors import FusionError

logger = logging.getLogger("flwr")


def measure_of(errors: Float64[np.ndarray, "3"]) -> dict[str, float]:
    """Return the errors by kind of row, without kinds that have none, for the progress line."""
    by_kind = zip(("train", "validation", "test"), errors.tolist(), strict=True)
    return {kind: error for kind, error in by_kind if np.isfinite(error)}


class _Attendance:
    """Number of successive rounds that each site has missed.

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
        Least and greatest possible prediction; empty if the center does not hold the outcome.
    y_test : ndarray
        Outcomes of the test rows; empty likewise.
    reach : ndarray
        As of `Plan`; empty likewise.
    """

    result: LearningResult
    trial: LearningResult | None
    without_receipt: tuple[str, ...]
    limits: tuple[float, ...] = ()
    y_test: Float64[np.ndarray, "n_test"] = field(default_factory=lambda: np.zeros(0))
    reach: Float64[np.ndarray, "D 2"] = field(default_factory=lambda: np.zeros((0, 2)))


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
            answers = yield Tell(asks, check=_check_against(plan, asks), measure=measure_of(plan.newest))
        attendance.note(asks, answers)
        plan.take(answers)
    assert plan.result is not None  # noqa: S101 - a plan without further asks has a result
    y_test = plan.y[plan.split.slices[2]]
    return PlanResult(plan.result, plan.trial, plan.without_receipt, plan.limits, y_test, plan.reach)


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
    # At most two asks for each agent that wins in greedy and is then silent, in the choice and in the refit; one for
    # bins at the beginning; one to compare and two to store at the end.
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
            answers = yield Tell(asks, measure=measure_of(errors))
        attendance.note(asks, answers)
        ask = Fuse(tuple(answers), tuple(answer.body for answer in answers.values()))
    raise FusionError(f"{holder}, which holds the outcome, has not come to an end after {most} rounds")


def _are_scores(scores: Float64[np.ndarray, "w s"]) -> bool:
    """Return whether all scores are at least 0, or -1 if undefined, and shares at most 1."""
    largest = np.array([np.inf if name in ("log_loss", "brier") else 1.0 for name in SCORES] + [np.inf] * len(SCORES))
    return bool(((scores == -1) | ((scores >= 0) & (scores <= largest))).all()) if scores.size else True


def _check_fused(agents: tuple[str, ...], rules: Rules, split: Split) -> Check:
    def check(site: str, answer: FusionStep) -> None:
        def refuse(field: str, problem: str) -> None:
            raise PayloadError(answer.title(), field, problem)

        names = {*answer.agents, *answer.refused, *answer.without_receipt, *answer.left_out}
        if len(answer.agents) != len(answer.bodies) or not names <= set(agents):
            refuse("agents", "are not those of the run, or there is not one body for each")
        refuse_negative(answer, "train", "validation", "test", "curve", "parts")
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


def refuse_negative(answer: Payload, *fields: str) -> None:
    """Refuse mean squares below 0."""
    for name in fields:
        if np.min(getattr(answer, name), initial=0.0) < 0:
            raise PayloadError(answer.title(), name, "is a mean square or a log loss, and negative")


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
