"""Plan of learning: choose p and the number of iterations on validation rows, learn from all rows, store the models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from jaxtyping import Float64

from numerics.residual.alone import errors_alone
from numerics.residual.limits import RANGES, prediction_limits
from numerics.residual.rules import LearningResult, Rules
from numerics.residual.split import Split
from numerics.shared.classes import are_probabilities
from numerics.shared.threads import single_threaded
from protocols.residual.bins import Bins
from protocols.residual.boosted import Boosted
from protocols.residual.parallel import Parallel
from protocols.residual.payloads import (
    Bin,
    Compare,
    Conclude,
    EntityBins,
    Fit,
    FittedValues,
    PredictionsAlone,
    Receipt,
    Show,
    TrialFit,
    Try,
)
from protocols.residual.sequential import Greedy, Sip
from protocols.residual.single_round import SingleRound
from protocols.wire.payload import Payload, PayloadError

Algorithm = Boosted | Parallel | Greedy | Sip | SingleRound
_ALGORITHMS: Mapping[str, type[Algorithm]] = {
    "boosted": Boosted,
    "bins": Bins,
    "parallel": Parallel,
    "greedy": Greedy,
    "sip": Sip,
}


class Plan:
    """Asks to the agents and the arithmetic of their answers, at the fusion center or at the site that acts for it.

    `asks` returns each agent's next ask, and `take` takes the answers. When `asks` returns nothing, the plan has
    ended and `result` is set. The same answers give the same result, bit for bit.

    Parameters
    ----------
    names : tuple of str
        The agents, in order.
    y : ndarray
        ``(n,)`` outcomes in the common order of the rows.
    n_learn : int
        Number of rows to learn from, which are the first; the others are test rows.
    rules : Rules
        Settings of learning.

    Examples
    --------
    >>> plan = Plan(("bank", "shop"), np.array([1.0, 2.0, 4.0, 5.0]), n_learn=3, rules=Rules(algorithm="average"))
    >>> list(plan.asks()), plan.split.n_fit
    (['bank', 'shop'], 3)
    >>> plan.take({"bank": FittedValues(np.zeros((3, 1)), np.ones((1, 1)))})
    >>> plan.asks(), plan.result.beta
    ({}, array([1., 0.]))
    """

    def __init__(self, names: tuple[str, ...], y: Float64[np.ndarray, "n"], n_learn: int, rules: Rules) -> None:
        self.names, self.y, self.rules = names, y, rules
        self.split = rules.split(len(y), n_learn)
        self.choosing = bool(self.split.n_validation)
        self.algorithm = _algorithm(names, y, self.split, rules.for_choice(self.split))
        # Whether the ask for agents' own predictions is open, and whether it is still to be sent.
        self.comparing, self.to_compare = False, rules.baselines and (len(y) > n_learn or rules.algorithm == "boosted")
        self.alone: dict[str, PredictionsAlone] = {}
        self.trial: LearningResult | None = None
        self.result: LearningResult | None = None
        self.conclusions: dict[str, Payload] = {}
        self.conclusion_rounds = 0
        self.without_receipt: tuple[str, ...] = ()

    def asks(self) -> dict[str, Payload]:
        """Return the next ask to each agent."""
        if self.result is not None:
            return self.conclusions
        with single_threaded():
            asks = self.algorithm.asks()
            if not asks and self.choosing:
                self._learn_from_all()
                asks = self.algorithm.asks()
            if not asks and self.to_compare:
                self.comparing = True
                asks = dict.fromkeys(self.names, self._ask_alone)
            if not asks:
                self._conclude()
                asks = self.conclusions
        return asks

    def take(self, answers: Mapping[str, Payload]) -> None:
        """Take the answers to `asks`; without an answer an agent's earlier one counts."""
        if self.result is not None:
            self._take_conclusions(answers)
            return
        if self.comparing:
            self.comparing = self.to_compare = False
            self.alone = {name: each for name, each in answers.items() if isinstance(each, PredictionsAlone)}
            return
        with single_threaded():
            self.algorithm.take(answers)

    def _learn_from_all(self) -> None:
        """End the choice; begin again on training and validation rows, with the chosen p and number of iterations."""
        self.choosing = False
        p, iterations = self.algorithm.choice()
        self.trial = self.algorithm.result()
        if not self.rules.refits:
            return
        self.split = self.split.without_validation
        self.algorithm = _algorithm(self.names, self.y, self.split, self.rules.for_refit(p, iterations))

    def _conclude(self) -> None:
        # The validation rows have chosen the iterate, and the training error must not choose another.
        chosen = self.trial is not None and self.rules.refits
        self.result = self.algorithm.result(last=chosen)
        if self.alone and isinstance(self.algorithm, Boosted) and self.rules.algorithm == "boosted":
            self.result = self.algorithm.beside_alone(self.alone)
            self.trial = self.result if self.trial is not None else None
        if self.split.n_test:
            self.result = self._compared(self.result)
        self.conclusions = self.algorithm.conclusions(self.result) if self.rules.keep else {}
        if (own := self.result.own_site) and self.conclusions:
            conclusion = self.conclusions[own]
            assert isinstance(conclusion, Conclude)  # noqa: S101 - every conclusion is one
            ask = self._ask_alone
            self.conclusions[own] = replace(
                conclusion, own=ask.target, n_fit=ask.n_fit, n_classes=ask.n_classes, balanced=ask.balanced
            )

    def _compared(self, result: LearningResult) -> LearningResult:
        """Return the result with the errors of agents alone on the test rows."""
        if isinstance(self.algorithm, Boosted):
            return self.algorithm.alone_on_test_rows(self.alone, result)
        if not self.alone:
            return result
        y = self.y[self.split.slices[2]] - self.algorithm.mean
        held = {name: np.square(y - each.held[-len(y) :, 0].astype(np.float64)) for name, each in self.alone.items()}
        return replace(result, alone=errors_alone(held, np.square(result.left)))

    @property
    def _ask_alone(self) -> Compare:
        """Ask for the agents' own predictions: fitted to the first rows to learn from, judged on the last."""
        rules, n_learn = self.rules, self.split.n_fit + self.split.n_validation
        n_fit = max(n_learn - round(rules.validation * n_learn), 1)
        target = self.y[:n_learn] - self.algorithm.mean
        return Compare(target, n_fit, rules.n_classes, rules.balanced, beside=rules.algorithm == "boosted")

    def _take_conclusions(self, answers: Mapping[str, Payload]) -> None:
        """Ask silent agents once more, and note agents with a part in the result that have stored no model."""
        assert self.result is not None  # noqa: S101 - asked once there is a result
        keepers = {name for name, each in answers.items() if isinstance(each, Receipt) and each.stored}
        self.conclusion_rounds += 1
        open_asks = {name: ask for name, ask in self.conclusions.items() if name not in keepers}
        self.without_receipt = tuple(name for name in open_asks if self._has_part(name))
        # An agent that has answered is not asked again: it has no directory.
        again = {name: ask for name, ask in open_asks.items() if name not in answers}
        self.conclusions = again if self.conclusion_rounds == 1 else {}

    def _has_part(self, name: str) -> bool:
        assert self.result is not None  # noqa: S101 - asked once there is a result
        return bool(self.result.seen[self.result.names.index(name)]) and self.result.combination.uses(name)

    @property
    def limits(self) -> tuple[float, float]:
        """Least and greatest prediction of an agent; for classes, of a residual between -1 and 1."""
        return prediction_limits(np.array([-1.0, 1.0]) if self.rules.n_classes else self.y - self.algorithm.mean)

    @property
    def reach(self) -> Float64[np.ndarray, "D 2"]:
        """Least and greatest change of a prediction of these rows by each agent alone; no rows for classes."""
        if self.result is None or self.rules.n_classes:
            return np.zeros((0, 2))
        changes = self.result.combination.changes(self.algorithm.parts, len(self.y))
        nothing = np.zeros(1)
        return np.array([[own.min(), own.max()] for own in (changes.get(name, nothing) for name in self.names)])

    @property
    def newest(self) -> Float64[np.ndarray, "3"]:
        """Mean squared errors of the newest iterate, by kind of row; NaN if unknown."""
        curve = getattr(self.algorithm, "curve", np.full((1, 3), np.nan))
        flat = curve[0] if curve.ndim == 3 else curve
        iterations = np.flatnonzero(np.isfinite(flat[:, 0]))
        newest: Float64[np.ndarray, "3"] = flat[iterations[-1]] if len(iterations) else np.full(3, np.nan)
        return newest

    def check(self, name: str, ask: Payload, answer: Payload) -> None:
        """Refuse an answer that does not match its ask, or that no agent can give.

        Raises
        ------
        PayloadError
            If its class or a shape is not the expected one, a prediction is beyond `prediction_limits`, or the
            predictions do not leave the announced error.
        """
        if isinstance(answer, Receipt):
            return
        if isinstance(ask, Bin) and isinstance(answer, EntityBins):
            _check_binned(ask, answer, self.split.n)
            return
        n_fit, n_held, columns = self.algorithm.answer_shape(name)
        if isinstance(ask, Fit | Show) and isinstance(answer, FittedValues):
            expected: dict[str, tuple[int, ...]] = {"fitted": (n_fit, columns), "held": (n_held, columns)}
        elif isinstance(ask, Try) and isinstance(answer, TrialFit):
            below = answer.error < ask.bar
            expected = {"fitted": (n_fit if below else 0,), "held": (n_held if below else 0,)}
        elif isinstance(ask, Compare) and isinstance(answer, PredictionsAlone):
            n_learn, columns = len(ask.target), ask.n_classes or 1
            n_judge = n_learn - ask.n_fit if ask.beside else 0
            expected = {
                "fitted": (n_learn if ask.beside else 0, columns),
                "held": (n_judge + self.split.n_test, columns),
            }
        else:
            raise PayloadError(answer.title(), "payload", f"is not the answer to {ask.title()}")
        for field, shape in expected.items():
            if (got := getattr(answer, field).shape) != shape:
                raise PayloadError(answer.title(), field, f"expected shape {shape}, got {got}")
        if isinstance(answer, PredictionsAlone) and self.rules.n_classes:
            for field in expected:
                if not are_probabilities(getattr(answer, field)):
                    raise PayloadError(answer.title(), field, "are not probabilities of the classes")
            return
        low, high = self.limits
        for field in expected:
            values = getattr(answer, field)
            if values.min(initial=0.0) < low or values.max(initial=0.0) > high:
                raise PayloadError(answer.title(), field, f"goes beyond {RANGES:g} ranges of the outcome")
        if isinstance(self.algorithm, Greedy) and not isinstance(answer, PredictionsAlone):
            self.algorithm.check_error(answer, (low, high))


MOST_CATEGORIES = 51
"""Most bins of a column of categories: the site's most frequent ones, and that of all others."""


def _check_binned(ask: Bin, answer: EntityBins, n: int) -> None:
    """Refuse bins of another number of rows, or that no column can have."""

    def refuse(field: str, problem: str) -> None:
        raise PayloadError(answer.title(), field, problem)

    if answer.levels.size and len(answer.bins) != n:
        refuse("bins", f"expected {n} rows, got {len(answer.bins)}")
    if answer.levels.max(initial=1) > max(ask.levels, MOST_CATEGORIES) or answer.levels.min(initial=1) < 1:
        refuse("levels", "is not a number of bins of a column")
    if (answer.bins >= answer.levels).any():
        refuse("bins", "has bins beyond levels")
    if not (answer.epsilon >= 0 and (ask.epsilon == 0 or 0 < answer.epsilon <= ask.epsilon or not answer.levels.size)):
        refuse("epsilon", f"is more than {ask.epsilon:g}")


def _algorithm(names: tuple[str, ...], y: Float64[np.ndarray, "n"], split: Split, rules: Rules) -> Algorithm:
    return _ALGORITHMS.get(rules.algorithm, SingleRound)(names, y, split, rules)
