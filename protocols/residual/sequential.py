"""The sequential algorithms: one agent at a time projects the residual (Algorithm 1, with eq. 22 or eq. 23)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float64

from numerics.residual.rules import Result, Rules, Split, judged
from protocols.residual.payloads import Conclude, Fit, Fitted, Show, Tried, Try
from protocols.wire.payload import Payload

MOST_MISSES = 3
"""Times in a row that every agent may miss its turn before a course ends."""

_LIKELY = 0.9
"""The next winner gains at least this share of what the agent that looks best now is known to have gained."""


class Course:
    """The errors of a sum of steps as it grows, and whose steps they are.

    Parameters
    ----------
    names : tuple of str
        The D agents, in order.
    split : Split
        Of the rows.
    rules : Rules
        How to learn.
    mean : float
        What the outcomes are taken about.
    first : ndarray
        ``(3,)`` mean squares of the outcomes about it, by kind of row.
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
        self.who = np.zeros(rules.rounds, np.int64)
        self.curve[0] = first
        self.ended = rules.rounds == 0

    def expected(self, name: str) -> tuple[int, int, int]:
        """Shape of an answer: rows fitted, rows behind them, columns."""
        return self.split.n_fit, self.split.n_held, 1

    def record(self, j: int, errors: Float64[np.ndarray, "3"], step: float, total: float) -> None:
        """Note a step of agent j: the errors it leaves, its mean square, and the power of the agent's sum."""
        t = self.iteration
        self.who[t], self.step_power[t] = j, step
        self.seen[j] = True
        self.iteration = t + 1
        self.curve[t + 1] = errors
        self.power[t + 1] = self.power[t]
        self.power[t + 1, j] = total
        patience = self.rules.patience
        if self.rules.algorithm == "sip":  # a whole turn must go by before nobody has anything to add
            patience = max(patience, len(self.names))
        self.ended = not self.rules.goes_on(self.curve[: t + 2], self.split, patience)

    def chosen(self) -> tuple[float, int]:
        """No p; and the best iterate."""
        return 0.0, int(np.argmin(judged(self.curve[: self.iteration + 1], self.split)))

    def result(self, *, last: bool = False) -> Result:
        """The best iterate, or the last."""
        length = self.iteration + 1
        return Result(
            names=self.names,
            algorithm=self.rules.algorithm,
            mean=self.mean,
            beta=self.seen.astype(np.float64),
            iteration=length - 1 if last else self.chosen()[1],
            p=0.0,
            curve=self.curve[:length],
            power=self.power[:length],
            step_power=self.step_power[: self.iteration],
            split=self.split,
            seen=self.seen,
        )

    def concluding(self, result: Result) -> dict[str, Payload]:
        """Which of its steps every agent is to keep; one that has none keeps that it has no part."""
        who = self.who[: result.iteration]
        return {name: Conclude(np.zeros(0), np.flatnonzero(who == j)) for j, name in enumerate(self.names)}


class _Sums(Course):
    """A course whose residual is here. Parameters as of `protocols.residual.parallel`."""

    def __init__(self, names: tuple[str, ...], y: Float64[np.ndarray, "n"], split: Split, rules: Rules) -> None:
        mean = rules.mean_of(y[: split.n_fit])
        self.residual = y - mean
        self.sums = np.zeros((len(names), split.n_fit))
        super().__init__(names, split, rules, mean, split.errors(self.residual))

    def step(self, j: int, answer: Fitted | Tried) -> None:
        """Take an agent's step off the residual (line 6 of Algorithm 1), and put it to the agent's sum (line 7)."""
        fitted, held = answer.fitted.ravel().astype(np.float64), answer.held.ravel().astype(np.float64)
        self.residual = self.residual - np.concatenate([fitted, held])
        self.sums[j] += fitted
        step = float(fitted @ fitted / len(fitted))
        self.record(j, self.split.errors(self.residual), step, float(self.sums[j].var()))


class Sip(_Sums):
    """Simple Iterative Projection: the agents take turns (eq. 22). Parameters as of `protocols.residual.parallel`."""

    def __init__(self, names: tuple[str, ...], y: Float64[np.ndarray, "n"], split: Split, rules: Rules) -> None:
        super().__init__(names, y, split, rules)
        self.turn = 0
        self.passed = 0

    def asks(self) -> dict[str, Payload]:
        """The residual, for the agent whose turn it is."""
        if self.ended:
            return {}
        rules, target = self.rules, self.residual[: self.split.n_fit, None]
        return {self.names[self.turn]: Fit(target, rules.shrinkage, rules.steps, self.iteration, rules.keep)}

    def take(self, answers: Mapping[str, Payload]) -> None:
        """Go on to the next agent; one that does not answer has lost its turn."""
        answer = answers.get(self.names[self.turn])
        if isinstance(answer, Fitted):
            self.passed = 0
            self.step(self.turn, answer)
        else:
            self.passed += 1
            self.ended = self.passed >= MOST_MISSES * len(self.names)
        self.turn = (self.turn + 1) % len(self.names)


class Greedy(_Sums):
    """The agent that can fit the residual best does so (eq. 23), a distributed L2 boosting.

    Every agent tries, and answers with the error it would leave. Whose error is below a bar sends its predictions
    along, so that most iterations take one ask: the bar stands a little above the error that the agent which looks best
    now is expected to leave. It looks best by what it gained last time; who won last time has ``(1 - nu)^2`` of that
    left. Of equal errors the agent of the lowest name wins. Parameters as of `protocols.residual.parallel`.
    """

    def __init__(self, names: tuple[str, ...], y: Float64[np.ndarray, "n"], split: Split, rules: Rules) -> None:
        super().__init__(names, y, split, rules)
        D = len(names)
        self.gains = np.zeros(D)
        self.accepted = np.full(D, -1, np.int64)
        self.winner = -1
        self.out = np.zeros(D, bool)

    def asks(self) -> dict[str, Payload]:
        """The residual for everybody; or, to the winner whose predictions did not come along, to send them."""
        if self.ended:
            return {}
        if self.winner >= 0:
            return {self.names[self.winner]: Show()}
        left = self.residual[: self.split.n_fit]
        bar = float(left @ left) - _LIKELY * float(self.gains.max())
        rules = self.rules
        return {
            name: Try(left, bar, rules.shrinkage, rules.steps, self.iteration, rules.keep, int(self.accepted[j]))
            for j, name in enumerate(self.names)
        }

    def take(self, answers: Mapping[str, Payload]) -> None:
        """Find the winner, and take its step as soon as it is there."""
        if self.winner >= 0:
            j, self.winner = self.winner, -1
            shown = answers.get(self.names[j])
            if isinstance(shown, Fitted):
                self._win(j, shown)
            else:
                self.out[j] = True  # of this iteration: everybody is asked once more, without it
            return
        tried = {self.names.index(name): each for name, each in answers.items() if isinstance(each, Tried)}
        left = self.residual[: self.split.n_fit]
        now = float(left @ left)
        self.gains = np.array([now - tried[j].error if j in tried else 0.0 for j in range(len(self.names))])
        candidates = [j for j in sorted(tried) if not self.out[j] and tried[j].error < now]
        if not candidates:
            self.ended = True
            return
        best = min(candidates, key=lambda j: tried[j].error)
        if len(tried[best].fitted):
            self._win(best, tried[best])
        else:
            self.winner = best

    def _win(self, j: int, answer: Fitted | Tried) -> None:
        self.accepted[j] = self.iteration
        self.gains[j] *= (1 - self.rules.shrinkage) ** 2
        self.out[:] = False
        self.step(j, answer)
