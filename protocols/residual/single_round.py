"""The algorithms without collaboration: every agent fits the outcome once, and the predictions are combined."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float64

from numerics.residual.boosting import l2_boosting
from numerics.residual.linear import combine
from numerics.residual.rules import Result, Rules, Split
from protocols.residual.payloads import Conclude, Fit, Fitted
from protocols.wire.payload import Payload


class Once:
    """`average`, `meta-linear` (least squares on the predictions) or `meta-boosting` (L2 boosting of trees on them).

    Zheng, Kulkarni and Poor 2010, section II-A. Parameters as of `protocols.residual.parallel`.
    """

    def __init__(self, names: tuple[str, ...], y: Float64[np.ndarray, "n"], split: Split, rules: Rules) -> None:
        self.names, self.split, self.rules = names, split, rules
        self.mean = rules.mean_of(y[: split.n_fit])
        self.y = y - self.mean
        self.F = np.zeros((len(names), split.n))
        self.seen = np.zeros(len(names), bool)
        self.asked = False

    def asks(self) -> dict[str, Payload]:
        """The outcome, once."""
        return {} if self.asked else dict.fromkeys(self.names, Fit(self.y[: self.split.n_fit, None]))

    def expected(self, name: str) -> tuple[int, int, int]:
        """Shape of an answer: rows fitted, rows behind them, columns."""
        return self.split.n_fit, self.split.n_held, 1

    def take(self, answers: Mapping[str, Payload]) -> None:
        """Take the agents' predictions."""
        self.asked = True
        for name, answer in answers.items():
            assert isinstance(answer, Fitted)
            j = self.names.index(name)
            self.seen[j] = True
            self.F[j, : self.split.n_fit], self.F[j, self.split.n_fit :] = answer.fitted[:, 0], answer.held[:, 0]

    def chosen(self) -> tuple[float, int]:
        """Nothing is chosen."""
        return 0.0, 0

    def result(self, *, last: bool = False) -> Result:
        """The combination."""
        n_fit, model = self.split.n_fit, None
        beta = np.zeros(len(self.names))
        if self.rules.algorithm == "average":
            beta[self.seen] = 1.0 / max(int(self.seen.sum()), 1)
        elif self.rules.algorithm == "meta-linear":
            beta = combine(self.F[:, :n_fit], self.y[:n_fit], self.rules.ridge).beta
        predicted = beta @ self.F
        if self.rules.algorithm == "meta-boosting":
            model = l2_boosting(self.F[:, :n_fit].T, self.y[:n_fit], min_leaf=self.rules.min_leaf, seed=0)
            predicted = model.predict(self.F.T)
        power = beta**2 * self.F[:, :n_fit].var(axis=1)
        return Result(
            names=self.names,
            algorithm=self.rules.algorithm,
            mean=self.mean,
            beta=beta,
            iteration=0,
            p=0.0,
            curve=self.split.errors(self.y - predicted)[None],
            power=power[None],
            step_power=np.zeros(0),
            split=self.split,
            seen=self.seen,
            model=model,
        )

    def concluding(self, result: Result) -> dict[str, Payload]:
        """Every agent fits the outcome once more, and keeps that."""
        target, none = self.y[: self.split.n_fit], np.zeros(0, np.int64)
        return {name: Conclude(target if self.seen[j] else np.zeros(0), none) for j, name in enumerate(self.names)}
