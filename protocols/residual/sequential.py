"""Plans of the sequential algorithms: one agent at a time fits the residual (Algorithm 1 with eq. 22 or eq. 23)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from jaxtyping import Float64

from numerics.residual.influence import without_each
from numerics.residual.limits import largest_error
from numerics.residual.robust import raises_error
from numerics.residual.rules import LearningResult, Rules, selection_error
from numerics.residual.sequential import bar, gains, project, winner
from numerics.residual.split import Split
from protocols.residual.payloads import Conclude, Fit, FittedValues, Show, TrialFit, Try
from protocols.wire.payload import Payload, PayloadError

_ROUNDING = 1e-9
"""Part of a sum of squares by which two processors' sums may differ."""

MOST_MISSES = 3
"""Turns in a row that every agent may miss before a course ends."""


class Course:
    """Errors and powers of a sum of steps, by iteration.

    Parameters
    ----------
    names : tuple of str
        The D agents, in order.
    split : Split
        Use of the rows.
    rules : Rules
        Settings of learning.
    mean : float
        Intercept.
    first : ndarray
        ``(3,)`` mean squares of the outcomes minus the intercept, by kind of row.
    """

    def __init__(
        self, names: tuple[str, ...], split: Split, rules: Rules, mean: float, first: Float64[np.ndarray, "3"]
    ) -> None:
        self.names, self.split, self.rules, self.mean = names, split, rules, mean
        self.iteration = 0
        self.seen = np.zeros(len(names), bool)
        self.curve = np.full((rules.rounds + 1, 3), np.nan)
        self.power = np.zeros((rules.rounds + 1, len(names)))
        self.step_power = np.zeros(rules.rounds)
        self.agent_of_step = np.zeros(rules.rounds, np.int64)
        self.curve[0] = first
        self.ended = rules.rounds == 0

    def answer_shape(self, name: str) -> tuple[int, int, int]:
        """Return the shape of an answer: training rows, later rows, columns."""
        return self.split.n_fit, self.split.n_held, 1

    def record(self, j: int, errors: Float64[np.ndarray, "3"], step_power: float, sum_power: float) -> None:
        """Record a step of agent j: errors after it, mean square of the step, variance of the agent's sum."""
        t = self.iteration
        self.agent_of_step[t], self.step_power[t] = j, step_power
        self.seen[j] = True
        self.iteration = t + 1
        self.curve[t + 1] = errors
        self.power[t + 1] = self.power[t]
        self.power[t + 1, j] = sum_power
        patience = self.rules.patience
        if self.rules.algorithm == "sip":  # only a whole turn shows that no agent has anything to add
            patience = max(patience, len(self.names))
        self.ended = not self.rules.continues(self.curve[: t + 2], self.split, patience)

    def choice(self) -> tuple[float, int]:
        """Return no p, and the best iterate."""
        return 0.0, int(np.argmin(selection_error(self.curve[: self.iteration + 1], self.split)))

    def result(self, *, last: bool = False) -> LearningResult:
        """Return the best iterate, or the last."""
        length = self.iteration + 1
        return LearningResult(
            names=self.names,
            algorithm=self.rules.algorithm,
            mean=self.mean,
            beta=self.seen.astype(np.float64),
            iteration=length - 1 if last else self.choice()[1],
            p=0.0,
            curve=self.curve[:length],
            power=self.power[:length],
            step_power=self.step_power[: self.iteration],
            split=self.split,
            seen=self.seen,
        )

    def conclusions(self, result: LearningResult) -> dict[str, Payload]:
        """Return each agent's last ask: which of its steps to store, possibly none."""
        agents = self.agent_of_step[: result.iteration]
        return {name: Conclude(np.zeros(0), np.flatnonzero(agents == j)) for j, name in enumerate(self.names)}


class _CenterCourse(Course):
    """Course whose residual is known here. Parameters as of `protocols.residual.parallel.Parallel`."""

    def __init__(self, names: tuple[str, ...], y: Float64[np.ndarray, "n"], split: Split, rules: Rules) -> None:
        mean = rules.mean_of(y[: split.n_fit])
        self.residual = y - mean
        self.y = self.residual
        self.sums, self.left_out = np.zeros((len(names), split.n)), np.zeros(len(names), bool)
        self.best_sums = self.sums.copy()
        super().__init__(names, split, rules, mean, split.errors(self.residual))

    def step(self, j: int, answer: FittedValues | TrialFit) -> None:
        """Take an agent's step; a robust course leaves out an agent whose step raises the validation error."""
        step = np.concatenate([answer.fitted.ravel(), answer.held.ravel()]).astype(np.float64)
        n_fit = self.split.n_fit
        projection = project(self.residual, self.sums[j, :n_fit], step)
        validation = self.split.slices[1]
        if self.rules.robust and raises_error(projection.residual[validation], self.residual[validation]):
            self.left_out[j] = True
            self.ended = bool(self.left_out.all())
            return
        self.residual, self.sums[j, :n_fit] = projection.residual, projection.own_sum
        self.sums[j, n_fit:] += step[n_fit:]
        self.record(j, self.split.errors(self.residual), projection.step_power, projection.sum_power)
        if self.choice()[1] == self.iteration:
            self.best_sums = self.sums.copy()

    def result(self, *, last: bool = False) -> LearningResult:
        """Return the best iterate, or the last."""
        sums = self.sums if last else self.best_sums
        self.parts = dict(zip(self.names, sums, strict=True))
        return replace(
            super().result(last=last),
            without=without_each(sums, self.y, self.split, self.rules.ridge),
            left_out=tuple(np.array(self.names)[self.left_out].tolist()),
            left=(self.y - sums.sum(axis=0))[self.split.slices[2]],
        )


class Sip(_CenterCourse):
    """Simple Iterative Projection: the agents take turns (eq. 22). Parameters as of `Parallel`."""

    def __init__(self, names: tuple[str, ...], y: Float64[np.ndarray, "n"], split: Split, rules: Rules) -> None:
        super().__init__(names, y, split, rules)
        self.turn = 0
        self.misses = 0

    def asks(self) -> dict[str, Payload]:
        """Return the residual, for the agent whose turn it is."""
        if self.ended:
            return {}
        rules, target = self.rules, self.residual[: self.split.n_fit, None]
        return {self.names[self.turn]: Fit(target, rules.shrinkage, rules.steps, self.iteration, rules.keep)}

    def take(self, answers: Mapping[str, Payload]) -> None:
        """Take the agent's step and go on to the next agent; an agent that does not answer loses its turn."""
        answer = answers.get(self.names[self.turn])
        if isinstance(answer, FittedValues):
            self.misses = 0
            self.step(self.turn, answer)
        else:
            self.misses += 1
            self.ended = self.misses >= MOST_MISSES * len(self.names)
        turns = np.roll(np.arange(len(self.names)), -self.turn - 1)
        self.turn = next((j for j in turns.tolist() if not self.left_out[j]), self.turn)


class Greedy(_CenterCourse):
    """Distributed L2 boosting: the agent that fits the residual best takes the step (eq. 23).

    Every agent tries, and answers the error that its step would leave. An agent whose error is below a bar sends its
    predictions, too, so that most iterations take one ask. The bar follows from the largest gain of the last iteration;
    the last winner counts with ``(1 - nu)^2`` of its gain. Of equal errors the first agent's wins. Parameters as of
    `Parallel`.
    """

    def __init__(self, names: tuple[str, ...], y: Float64[np.ndarray, "n"], split: Split, rules: Rules) -> None:
        super().__init__(names, y, split, rules)
        D = len(names)
        self.gains = np.zeros(D)
        self.accepted = np.full(D, -1, np.int64)
        self.winner = -1
        self.winning_error = 0.0
        self.silent = np.zeros(D, bool)

    def asks(self) -> dict[str, Payload]:
        """Return the residual for all agents; or ask the winner for its predictions, if it has not sent them."""
        if self.ended:
            return {}
        if self.winner >= 0:
            return {self.names[self.winner]: Show()}
        rules, residual = self.rules, self.residual[: self.split.n_fit]
        limit = bar(float(residual @ residual), self.gains)
        return {
            name: Try(residual, limit, rules.shrinkage, rules.steps, self.iteration, rules.keep, int(self.accepted[j]))
            for j, name in enumerate(self.names)
            if not self.left_out[j]
        }

    def take(self, answers: Mapping[str, Payload]) -> None:
        """Find the winner, and take its step if its predictions have arrived."""
        if self.winner >= 0:
            self._take_shown(answers)
            return
        attempts = {self.names.index(name): each for name, each in answers.items() if isinstance(each, TrialFit)}
        errors = np.array([attempts[j].error if j in attempts else np.inf for j in range(len(self.names))])
        residual = self.residual[: self.split.n_fit]
        power = float(residual @ residual)
        self.gains = gains(power, errors)
        best = winner(power, np.where(self.silent, np.inf, errors))
        if best is None:
            self.ended = True
        elif len(attempts[best].fitted):
            self._win(best, attempts[best])
        else:
            self.winner, self.winning_error = best, float(errors[best])

    def check_error(self, answer: FittedValues | TrialFit, limits: tuple[float, float]) -> None:
        """Refuse an announced error that the agent's predictions, sent with it or later, do not leave.

        Parameters
        ----------
        answer : FittedValues or TrialFit
            Answer to a `Show` or a `Try`.
        limits : tuple of float
            Least and greatest prediction that an agent may send.

        Raises
        ------
        PayloadError
            If the error is another one, or cannot be.
        """
        residual = self.residual[: self.split.n_fit]
        if isinstance(answer, TrialFit) and not 0 <= answer.error <= (1 + _ROUNDING) * largest_error(residual, limits):
            raise PayloadError(answer.title(), "error", "is a sum of squares that no prediction leaves")
        if not len(answer.fitted):
            return
        fitted = answer.fitted.ravel().astype(np.float64)
        left = residual.astype(answer.fitted.dtype) - fitted
        announced = answer.error if isinstance(answer, TrialFit) else self.winning_error
        if abs(float(left @ left) - announced) > _ROUNDING * float(residual @ residual + fitted @ fitted):
            raise PayloadError(answer.title(), "fitted", "leaves another error than the one that was announced")

    def _take_shown(self, answers: Mapping[str, Payload]) -> None:
        """Take the winner's step; if it is silent, all are asked again in this iteration, and another wins."""
        j, self.winner = self.winner, -1
        answer = answers.get(self.names[j])
        if isinstance(answer, FittedValues):
            self._win(j, answer)
        else:
            self.silent[j] = True

    def _win(self, j: int, answer: FittedValues | TrialFit) -> None:
        iteration = self.iteration
        self.step(j, answer)
        if self.left_out[j]:
            self.gains[j] = 0.0
            return
        self.accepted[j] = iteration
        self.gains[j] *= (1 - self.rules.shrinkage) ** 2
        self.silent[:] = False
