"""The parallel algorithm: all agents refit at once, each towards its share of the residual (Algorithm 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float64

from numerics.residual.linear import combine, direction, step_length
from numerics.residual.rules import Result, Rules, Split, judged
from protocols.residual.payloads import Conclude, Fit, Fitted
from protocols.wire.payload import Payload


class Parallel:
    """Algorithm 3 for one or several p side by side (Zheng, Kulkarni and Poor 2010, section IV-C and -D).

    Each p is a course of its own: an ask stacks the columns of all. An agent that does not answer keeps the predictions
    it gave last, and its coefficient may still change.

    Parameters
    ----------
    names : tuple of str
        The D agents, in order.
    y : ndarray
        ``(n,)`` outcomes in the agreed order.
    split : Split
        Of these rows.
    rules : Rules
        How to learn.
    """

    def __init__(self, names: tuple[str, ...], y: Float64[np.ndarray, "n"], split: Split, rules: Rules) -> None:
        self.names, self.split, self.rules = names, split, rules
        self.mean = rules.mean_of(y[: split.n_fit])
        self.y = y - self.mean
        n_courses, D = len(rules.powers), len(names)
        self.iteration = 0
        self.F = np.zeros((n_courses, D, split.n))
        self.seen = np.zeros(D, bool)
        self.active = np.ones(n_courses, bool)
        self.quiet = np.zeros((n_courses, D), np.int64)
        self.curve = np.full((n_courses, rules.rounds + 1, 3), np.nan)
        self.power = np.zeros((n_courses, rules.rounds + 1, D))
        self.best = np.zeros(n_courses, np.int64)
        self.best_beta = np.zeros((n_courses, D))
        # Of each course the residual that the agents are given next, and what share of it each.
        self.steps: list[tuple[Float64[np.ndarray, "n"], Float64[np.ndarray, "D"]]] = [
            (np.zeros(split.n_fit), np.zeros(D))
        ] * n_courses
        # What each agent was asked, what it last answered to, and that of the best iterate, by course: only where it is
        # to fit that once more, for each is as large as F.
        first = [self.y[: split.n_fit]] * D
        self.asked = [list(first) for _ in range(n_courses)]
        self.answered = [list(first) for _ in range(n_courses)]
        self.best_answered = [first] * n_courses

    # -- the conversation ---------------------------------------------------------------------------------------------

    def asks(self) -> dict[str, Payload]:
        """What the agents are to fit next; nobody is asked anything when the course is run."""
        if not self.active.any():
            return {}
        if self.iteration == 0:
            ask = Fit(self.y[: self.split.n_fit, None])
            return dict.fromkeys(self.names, ask)
        asks: dict[str, Payload] = {}
        for j, name in enumerate(self.names):
            courses = self._courses(j).tolist()
            if courses:
                asks[name] = Fit(self._targets(j, courses).T)
        return asks

    def _targets(self, j: int, courses: Sequence[int]) -> Float64[np.ndarray, "c n"]:
        """Line 7 of Algorithm 3: an agent's predictions, and on top its share of the residual."""
        # An agent at a time, so that beside F there is never another array as large as it but what is sent.
        targets = np.empty((len(courses), self.split.n_fit))
        for target, c in zip(targets, courses, strict=True):
            residual, shares = self.steps[c]
            # Who has not been heard yet would have no share for ever: it begins with all that is left.
            np.multiply(residual, shares[j] if self.seen[j] else 1.0, out=target)
            target += self.F[c, j, : self.split.n_fit]
            if self.rules.keep:
                self.asked[c][j] = target
        return targets

    def expected(self, name: str) -> tuple[int, int, int]:
        """Shape of an answer: rows fitted, rows behind them, columns."""
        courses = 1 if self.iteration == 0 else len(self._courses(self.names.index(name)))
        return self.split.n_fit, self.split.n_held, courses

    def take(self, answers: Mapping[str, Payload]) -> None:
        """Take the agents' predictions (line 9 of Algorithm 3), and go on."""
        for name, answer in answers.items():
            assert isinstance(answer, Fitted)
            j = self.names.index(name)
            self.seen[j] = True
            courses = np.arange(len(self.F)) if self.iteration == 0 else self._courses(j)
            self.F[courses, j, : self.split.n_fit] = answer.fitted.T
            self.F[courses, j, self.split.n_fit :] = answer.held.T
            for c in courses.tolist():
                self.answered[c][j] = self.asked[c][j]
        for c in np.flatnonzero(self.active).tolist():
            self._advance(c)
        self.iteration += 1

    def _courses(self, j: int) -> np.ndarray:
        """The courses in which an agent is asked."""
        return np.flatnonzero(self.active & ~self._idle()[:, j])

    def _idle(self) -> np.ndarray:
        return self.quiet >= self.rules.patience

    # -- one iteration ------------------------------------------------------------------------------------------------

    def _advance(self, c: int) -> None:
        """Lines 10 and 5 to 7 of Algorithm 3: coefficients, residual, direction, step."""
        n_fit, t, rules = self.split.n_fit, self.iteration, self.rules
        fitted = self.F[c][:, :n_fit]
        combination = combine(fitted, self.y[:n_fit], rules.ridge)
        residual = self.y - combination.beta @ self.F[c]
        self.curve[c, t], self.power[c, t] = self.split.errors(residual), combination.power
        self._remember(c, combination.beta)
        self._count_quiet(c, combination.power)
        if self._ends(c):
            self.active[c] = False
            return
        r = residual[:n_fit]
        shares = direction(combination.beta, rules.powers[c])
        delta = step_length(combination, shares, float(r @ r), search=rules.search)
        if delta == 0:
            self.active[c] = False
            return
        self.steps[c] = r, delta * shares

    def _remember(self, c: int, beta: Float64[np.ndarray, "D"]) -> None:
        """Keep the best iterate: the error need not fall at every step."""
        errors = judged(self.curve[c], self.split)
        if self.iteration == 0 or errors[self.iteration] < errors[self.best[c]]:
            self.best[c], self.best_beta[c], self.best_answered[c] = self.iteration, beta, list(self.answered[c])

    def _count_quiet(self, c: int, power: Float64[np.ndarray, "D"]) -> None:
        """For how many iterations an agent's share of the power has been too small to ask it again (section VI-B)."""
        if self.rules.idle_share:
            below = power < self.rules.idle_share * power.sum()
            self.quiet[c] = np.where(below | self._idle()[c], self.quiet[c] + 1, 0)

    def _ends(self, c: int) -> bool:
        errors = self.curve[c, : self.iteration + 1]
        return bool(self._idle()[c].all()) or not self.rules.goes_on(errors, self.split, self.rules.patience)

    # -- what came out ------------------------------------------------------------------------------------------------

    def chosen(self) -> tuple[float, int]:
        """The best p, and its best iterate; of equal ones the smallest p."""
        errors = np.array([judged(self.curve[c], self.split)[t] for c, t in enumerate(self.best)])
        c = int(np.argmin(errors))
        return self.rules.powers[c], int(self.best[c])

    def result(self, *, last: bool = False) -> Result:
        """The best iterate of the best course; `last`: the last one of the first course."""
        c = 0 if last else self.rules.powers.index(self.chosen()[0])
        length = int(np.isfinite(self.curve[c, :, 0]).sum())
        if last and self.best[c] != length - 1:
            combination = combine(self.F[c][:, : self.split.n_fit], self.y[: self.split.n_fit], self.rules.ridge)
            self.best[c], self.best_beta[c], self.best_answered[c] = length - 1, combination.beta, self.answered[c]
        return Result(
            names=self.names,
            algorithm="parallel",
            mean=self.mean,
            beta=self.best_beta[c],
            iteration=int(self.best[c]),
            p=self.rules.powers[c],
            curve=self.curve[c, :length],
            power=self.power[c, :length],
            step_power=np.zeros(0),
            split=self.split,
            seen=self.seen,
        )

    def concluding(self, result: Result) -> dict[str, Payload]:
        """Every agent's last task: to fit once more, and to keep, what made its part of the result."""
        targets = self.best_answered[self.rules.powers.index(result.p)]
        none = np.zeros(0, np.int64)
        # One that gave no prediction keeps that it has no part.
        return {
            name: Conclude(np.ascontiguousarray(targets[j]) if self.seen[j] else np.zeros(0), none)
            for j, name in enumerate(self.names)
        }
