"""Plan of the algorithms without collaboration: every agent fits the outcome once."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from jaxtyping import Float64

from numerics.residual.agent_combination import AgentCombination
from numerics.residual.robust import harmful_agents
from numerics.residual.rules import LearningResult, Rules
from numerics.residual.single_round import combine_once, without_each_once
from numerics.residual.split import Split
from protocols.residual.payloads import Conclude, Fit, FittedValues
from protocols.wire.payload import Payload


class SingleRound:
    """`average`, `meta-linear` or `meta-boosting` (`numerics.residual.single_round`).

    Parameters as of `protocols.residual.parallel.Parallel`.
    """

    def __init__(self, names: tuple[str, ...], y: Float64[np.ndarray, "n"], split: Split, rules: Rules) -> None:
        self.names, self.split, self.rules = names, split, rules
        self.mean = rules.mean_of(y[: split.n_fit])
        self.y = y - self.mean
        self.F = np.zeros((len(names), split.n))
        self.seen = np.zeros(len(names), bool)
        self.left_out: tuple[str, ...] = ()
        self.ended = False

    def asks(self) -> dict[str, Payload]:
        """Return the outcome as every agent's target, once."""
        return {} if self.ended else dict.fromkeys(self.names, Fit(self.y[: self.split.n_fit, None]))

    def answer_shape(self, name: str) -> tuple[int, int, int]:
        """Return the shape of an answer: training rows, later rows, columns."""
        return self.split.n_fit, self.split.n_held, 1

    def take(self, answers: Mapping[str, Payload]) -> None:
        """Take the agents' predictions."""
        self.ended = True
        for name, answer in answers.items():
            assert isinstance(answer, FittedValues)  # noqa: S101 - an ask's class names its answer's
            j = self.names.index(name)
            self.seen[j] = True
            self.F[j, : self.split.n_fit], self.F[j, self.split.n_fit :] = answer.fitted[:, 0], answer.held[:, 0]

    def choice(self) -> tuple[float, int]:
        """Return no p, and iteration 0."""
        return 0.0, 0

    def result(self, *, last: bool = False) -> LearningResult:
        """Return the combination."""
        if self.rules.robust:
            self._leave_out_harmful()
        fitted = self.F[:, : self.split.n_fit]
        combination, predictions = self._combine(())
        self.parts = dict(zip(self.names, self.F, strict=True))
        return LearningResult(
            names=self.names,
            algorithm=self.rules.algorithm,
            mean=self.mean,
            beta=combination.beta,
            iteration=0,
            p=0.0,
            curve=self.split.errors(self.y - predictions)[None],
            power=(combination.beta**2 * fitted.var(axis=1))[None],
            step_power=np.zeros(0),
            split=self.split,
            seen=self.seen,
            model=combination.model,
            without=without_each_once(combination, self.F, self.y, self.split, self.rules),
            left_out=self.left_out,
            left=(self.y - predictions)[self.split.slices[2]],
        )

    def _combine(self, left_out: Collection[int]) -> tuple[AgentCombination, Float64[np.ndarray, "n"]]:
        """Combine the agents but these, and predict all rows."""
        F, seen = self.F.copy(), self.seen.copy()
        F[list(left_out)], seen[list(left_out)] = 0.0, False
        n_fit = self.split.n_fit
        combination = combine_once(self.names, F[:, :n_fit], self.y[:n_fit], seen, self.rules)
        return combination, combination.predict(dict(zip(self.names, F, strict=True)), self.split.n)

    def _leave_out_harmful(self) -> None:
        """Leave out agents that raise the error on validation rows."""
        rows = self.split.slices[1]
        harmful = harmful_agents(
            lambda left_out: self.y[rows] - self._combine(left_out)[1][rows], np.flatnonzero(self.seen).tolist()
        )
        self.F[list(harmful)], self.seen[list(harmful)] = 0.0, False
        self.left_out += tuple(self.names[j] for j in sorted(harmful))

    def conclusions(self, result: LearningResult) -> dict[str, Payload]:
        """Return each agent's last ask: to fit the outcome once more and store the model."""
        target, none = self.y[: self.split.n_fit], np.zeros(0, np.int64)
        return {name: Conclude(target if self.seen[j] else np.zeros(0), none) for j, name in enumerate(self.names)}
