"""Plan of the parallel algorithm: all agents refit in each round, each to its share of the residual (Algorithm 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int64

from numerics.residual.influence import Moments, without_each
from numerics.residual.linear import combine
from numerics.residual.parallel import Iterate, evaluate, improved_target, quiet_iterations, residual_shares
from numerics.residual.robust import harmful_agents
from numerics.residual.rules import LearningResult, Rules, selection_error
from numerics.residual.split import Split
from protocols.residual.payloads import Conclude, Fit, FittedValues
from protocols.wire.payload import Payload


class Parallel:
    """Algorithm 3 for one or several p side by side (Zheng, Kulkarni and Poor 2010, section IV-C and -D).

    Each p is a course of its own; an ask has a column for each course. An agent that does not answer keeps its last
    predictions, and its coefficient may still change.

    Parameters
    ----------
    names : tuple of str
        The D agents, in order.
    y : ndarray
        ``(n,)`` outcomes in the common order of the rows.
    split : Split
        Use of these rows.
    rules : Rules
        Settings of learning.
    """

    def __init__(self, names: tuple[str, ...], y: Float64[np.ndarray, "n"], split: Split, rules: Rules) -> None:
        self.names, self.split, self.rules = names, split, rules
        self.mean = rules.mean_of(y[: split.n_fit])
        self.y = y - self.mean
        n_courses, D = len(rules.powers), len(names)
        self.iteration = 0
        self.F = np.zeros((n_courses, D, split.n))
        self.seen, self.left_out = np.zeros(D, bool), np.zeros(D, bool)
        self.active = np.ones(n_courses, bool)
        self.quiet = np.zeros((n_courses, D), np.int64)
        self.curve = np.full((n_courses, rules.rounds + 1, 3), np.nan)
        self.power = np.zeros((n_courses, rules.rounds + 1, D))
        self.best = np.zeros(n_courses, np.int64)
        self.first = 0  # iterates before it do not count
        self.best_beta = np.zeros((n_courses, D))
        self.best_F = np.zeros((n_courses, D, split.n))
        # By course, the training residual and each agent's share of it.
        self.steps: list[tuple[Float64[np.ndarray, "n"], Float64[np.ndarray, "D"]]] = [
            (np.zeros(split.n_fit), np.zeros(D))
        ] * n_courses
        # By course and agent, the target of the last ask, of the last answer, and of the best iterate. They change only
        # if the agents store their models, since together they are as large as F.
        first = [self.y[: split.n_fit]] * D
        self.targets = [list(first) for _ in range(n_courses)]
        self.answer_targets = [list(first) for _ in range(n_courses)]
        self.best_targets = [first] * n_courses

    # -- asks and answers ---------------------------------------------------------------------------------------------

    def asks(self) -> dict[str, Payload]:
        """Return each agent's next targets; empty when all courses have ended."""
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
        # For one agent at a time: beside F and the asks no array is as large as F.
        targets = np.empty((len(courses), self.split.n_fit))
        for target, c in zip(targets, courses, strict=True):
            residual, shares = self.steps[c]
            # An agent without a prediction has coefficient 0 and would never get a share: it gets the whole residual.
            share = shares[j] if self.seen[j] else 1.0
            improved_target(self.F[c, j, : self.split.n_fit], residual, share, out=target)
            if self.rules.keep:
                self.targets[c][j] = target
        return targets

    def answer_shape(self, name: str) -> tuple[int, int, int]:
        """Return the shape of an answer: training rows, later rows, columns."""
        courses = 1 if self.iteration == 0 else len(self._courses(self.names.index(name)))
        return self.split.n_fit, self.split.n_held, courses

    def take(self, answers: Mapping[str, Payload]) -> None:
        """Take the agents' predictions (line 9 of Algorithm 3) and compute the next step."""
        for name, answer in answers.items():
            assert isinstance(answer, FittedValues)  # noqa: S101 - an ask's class names its answer's
            j = self.names.index(name)
            self.seen[j] = True
            courses = np.arange(len(self.F)) if self.iteration == 0 else self._courses(j)
            self.F[courses, j, : self.split.n_fit] = answer.fitted.T
            self.F[courses, j, self.split.n_fit :] = answer.held.T
            for c in courses.tolist():
                self.answer_targets[c][j] = self.targets[c][j]
        if self.rules.robust:
            self._leave_out_harmful()
        for c in np.flatnonzero(self.active).tolist():
            self._advance(c)
        self.iteration += 1

    def _courses(self, j: int) -> Int64[np.ndarray, "c"]:
        """Return the courses in which an agent is asked."""
        return np.flatnonzero(self.active & ~self._idle()[:, j] & ~self.left_out[j])

    def _idle(self) -> Bool[np.ndarray, "c D"]:
        return self.quiet >= self.rules.patience

    # -- one iteration ------------------------------------------------------------------------------------------------

    def _leave_out_harmful(self) -> None:
        """Leave out agents that raise the error on validation rows in any course; no iterate with them counts."""
        harmful: set[int] = set()
        for c in np.flatnonzero(self.active).tolist():
            harmful |= self._harmful(c)
        if not harmful:
            return
        places = sorted(harmful)
        self.F[:, places], self.seen[places], self.left_out[places] = 0.0, False, True
        self.first = self.iteration
        for c in np.flatnonzero(~self.active).tolist():  # ended: evaluate their last iterate anew
            last = int(np.isfinite(self.curve[c, :, 0]).sum()) - 1
            self._remember(c, last, self._evaluate(c, last).combination.beta)

    def _harmful(self, c: int) -> frozenset[int]:
        F, rows = self.F[c], self.split.slices[1]
        moments, ridge = Moments.of(F, self.y, self.split), self.rules.ridge
        return harmful_agents(
            lambda left_out: self.y[rows] - moments.combined_without(left_out, ridge) @ F[:, rows],
            np.flatnonzero(self.seen).tolist(),
        )

    def _evaluate(self, c: int, iteration: int) -> Iterate:
        iterate = evaluate(self.F[c], self.y, self.split, self.rules.ridge)
        self.curve[c, iteration], self.power[c, iteration] = iterate.errors, iterate.combination.power
        return iterate

    def _advance(self, c: int) -> None:
        """Evaluate a course's predictions, and set its next step or end it."""
        rules = self.rules
        iterate = self._evaluate(c, self.iteration)
        errors = selection_error(self.curve[c], self.split)
        if self.iteration == self.first or errors[self.iteration] < errors[self.best[c]]:  # it may rise again
            self._remember(c, self.iteration, iterate.combination.beta)
        if rules.idle_share:
            power = iterate.combination.power
            self.quiet[c] = quiet_iterations(self.quiet[c], power, rules.idle_share, rules.patience)
        shares = None
        residual = iterate.residual[: self.split.n_fit]
        if not self._ends(c):
            shares = residual_shares(iterate.combination, residual, rules.powers[c], search=rules.search)
        if shares is None:
            self.active[c] = False
        else:
            self.steps[c] = residual, shares

    def _remember(self, c: int, iteration: int, beta: Float64[np.ndarray, "D"]) -> None:
        """Store this iterate, of the present predictions, as the best."""
        self.best[c], self.best_beta[c], self.best_targets[c] = iteration, beta, list(self.answer_targets[c])
        self.best_F[c] = self.F[c]

    def _ends(self, c: int) -> bool:
        errors = self.curve[c, : self.iteration + 1]
        return bool(self._idle()[c].all()) or not self.rules.continues(errors, self.split, self.rules.patience)

    # -- result -------------------------------------------------------------------------------------------------------

    def choice(self) -> tuple[float, int]:
        """Return the best p and its best iterate; of equal ones the smallest p."""
        errors = np.array([selection_error(self.curve[c], self.split)[t] for c, t in enumerate(self.best)])
        c = int(np.argmin(errors))
        return self.rules.powers[c], int(self.best[c])

    def result(self, *, last: bool = False) -> LearningResult:
        """Return the best iterate of the best course; `last`: the last one of the first course."""
        c = 0 if last else self.rules.powers.index(self.choice()[0])
        length = int(np.isfinite(self.curve[c, :, 0]).sum())
        if last and self.best[c] != length - 1:
            combination = combine(self.F[c][:, : self.split.n_fit], self.y[: self.split.n_fit], self.rules.ridge)
            self._remember(c, length - 1, combination.beta)
        self.parts = dict(zip(self.names, self.best_F[c], strict=True))
        return LearningResult(
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
            without=without_each(self.best_F[c], self.y, self.split, self.rules.ridge),
            left_out=tuple(np.array(self.names)[self.left_out].tolist()),
            left=(self.y - self.best_beta[c] @ self.best_F[c])[self.split.slices[2]],
        )

    def conclusions(self, result: LearningResult) -> dict[str, Payload]:
        """Return each agent's last ask: to fit and store the model of its part of the result, if it has one."""
        targets = self.best_targets[self.rules.powers.index(result.p)]
        none = np.zeros(0, np.int64)
        return {
            name: Conclude(np.ascontiguousarray(targets[j]) if self.seen[j] else np.zeros(0), none)
            for j, name in enumerate(self.names)
        }
