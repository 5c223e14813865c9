"""The fusion center of attribute-distributed regression (docs/residual.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from common.entity_keys import SecretError, keyed_hashes, read_secret, secret_check
from numerics.residual.columns_and_outcomes import Outcomes
from numerics.residual.rules import FEWEST_ROWS, LARGEST_OUTCOME, MOST_ROUNDS, Rules
from protocols.residual.payloads import Enrol, Enrolled
from protocols.residual.plan import Plan
from protocols.residual.settings import Settings
from protocols.wire.payload import Payload
from strategies.conversation import Broadcast, Conversation, carrying
from strategies.errors import FusionError
from strategies.fusion import FusionStrategy
from strategies.residual import report
from strategies.residual.enrolment import CENTER, Names, Roll, center_names, check_enrolled
from strategies.residual.execution import Learned, centered, relayed, ring
from strategies.residual.prediction import Predictions, predict_at_center, predict_at_holder
from strategies.residual.report import Outcome

__all__ = ["Outcome", "Residual", "Settings"]

_LEAF, _MANY, _ROWS_A_LEAF = 40, 100, 25
"""Smallest leaf where none is set: of up to 4000 rows 40, of more a hundredth of them (40 fits the noise of 45,000: see
docs/measurements.md), of fewer than 1000 a twenty-fifth, at least 5."""


class Residual(FusionStrategy):
    """Learn together from other columns of the same entities (Zheng, Kulkarni and Poor 2010).

    Parameters
    ----------
    rules : Rules
        How to learn.
    settings : Settings
        How rows are matched and numbers sent.
    secret : bytes
        Of the center's align-key-file, by which it hashes the names in its own file.
    **common
        Of `FusionStrategy`. Its reference's `outcome` gives the center's outcomes; `truth` 1 for a site with a relevant
        attribute; `earlier` the arrays of a run whose agents are to predict their present rows.
    """

    def __init__(
        self, *, rules: Rules | None = None, settings: Settings | None = None, secret: bytes = b"", **common: Any
    ) -> None:
        super().__init__(**common)
        self.rules = rules or Rules()
        self.settings = settings or Settings()
        self.secret = secret

    def conversation(self, repetition: int = 0) -> Conversation[Outcome | Predictions]:
        """Who is there and which rows are whose; then learn, or predict."""
        outcomes = self.reference.outcome(repetition) if self.reference.outcome else None
        earlier = self.reference.earlier
        names = None if outcomes is None else self._names(outcomes)
        if earlier and str(earlier["holder"]) == CENTER:
            return (yield from predict_at_center(earlier, self.session, self.settings.align, outcomes, names))
        sealed = outcomes is None or self.settings.topology == "ring"
        if sealed and self.repetitions > 1:
            raise FusionError(
                "where a site holds the outcome, or in a ring, a run has one repetition: sites tell errors of one split"
                " of their rows only; leave repetitions out"
            )
        enrol = Enrol(self.session, self.settings.align, sealed or bool(earlier))
        answers: dict[str, Enrolled] = yield Broadcast(enrol, check=partial(check_enrolled, enrol))
        if earlier:
            return (yield from predict_at_holder(earlier, answers))
        roll = Roll.of(answers, names)
        order, n_learn = self._order(roll, outcomes, repetition, sealed=sealed)
        rules = replace(self.rules, min_leaf=self._min_leaf(n_learn))
        orders = roll.orders(order, sealed=sealed, agent=self.settings.agent, min_leaf=rules.min_leaf)
        y = None if outcomes is None else outcomes.y[roll.matched.rows[CENTER][order]]
        if y is not None and np.abs(y).max(initial=0.0) > LARGEST_OUTCOME:
            raise FusionError(f"the outcomes go beyond {LARGEST_OUTCOME:g}: give them in another unit")
        learned = yield from self._learn(roll, orders, y, len(order), n_learn, rules)
        truth = self.reference.truth(repetition) if self.reference.truth else {}
        return Outcome(roll, rules, learned, truth, self.settings.agent)

    def _learn(
        self,
        roll: Roll,
        orders: Mapping[str, Payload],
        y: Float64[np.ndarray, "n"] | None,
        n: int,
        n_learn: int,
        rules: Rules,
    ) -> Conversation[Learned]:
        """By whom the outcome is held decides who does the arithmetic."""
        if self.settings.topology == "ring":
            return (yield from carrying(orders, ring(roll.holder, roll.agents, y, n, n_learn, rules)))
        if y is None:
            course = relayed(roll.holder, roll.agents, n, n_learn, rules, self.settings.precision)
            return (yield from carrying(orders, course))
        plan = Plan(roll.agents, y, n_learn, rules)
        return (yield from carrying(orders, centered(plan, self.settings.precision)))

    def _names(self, outcomes: Outcomes) -> Names:
        """The names in the center's own file, hashed as the sites hash theirs."""
        if outcomes.entity is None:
            return center_names(outcomes, None)
        keys = keyed_hashes(outcomes.entity, self.secret, self.session)
        return center_names(outcomes, (keys, secret_check(self.secret, self.session).tobytes()))

    def _order(
        self, roll: Roll, outcomes: Outcomes | None, repetition: int, *, sealed: bool
    ) -> tuple[Int64[np.ndarray, "n"], int]:
        """The order of the common rows, and how many of them are learned from: shuffled, test rows last.

        Shuffled, because the validation rows are the last of those learned from.
        """
        n = roll.matched.n
        rng = np.random.default_rng([self.seed + repetition, 4])
        if outcomes is not None and outcomes.n_test:
            test = roll.matched.rows[CENTER] >= len(outcomes.y) - outcomes.n_test
            learned, held = np.flatnonzero(~test), np.flatnonzero(test)
        else:
            n_test = round(self.settings.holdout * n)
            learned, held = np.split(rng.permutation(n), [n - n_test])
        split = self.rules.split(n, len(learned))
        if split.n_fit < 2:
            raise FusionError(
                f"{len(learned)} of the {n} common entities are left to learn from"
                + (f", of which {split.n_validation} are held out" if split.n_validation else "")
                + ": too few (residual.holdout, residual.validation)"
            )
        if sealed:
            _check_kinds(split.n_fit, split.n_validation, split.n_test)
        return np.concatenate([rng.permutation(learned), held]), len(learned)

    def _min_leaf(self, n_learn: int) -> int:
        return self.settings.min_leaf or max(min(_LEAF, max(5, n_learn // _ROWS_A_LEAF)), n_learn // _MANY)

    # -- what a run reports -------------------------------------------------------------------------------------------

    def metrics(self, outcome: Outcome | Predictions) -> dict[str, float]:
        """Names and numbers of `report.json` (docs/residual.md)."""
        return outcome.metrics() if isinstance(outcome, Predictions) else report.metrics_of(outcome)

    def arrays(self, outcome: Outcome | Predictions) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Names and arrays of `arrays.npz` (docs/residual.md); agents in the order of their names."""
        return outcome.arrays() if isinstance(outcome, Predictions) else report.arrays_of(outcome)

    def curves(self, outcome: Outcome | Predictions) -> dict[str, Float64[np.ndarray, "t"]]:
        """Errors by iteration, of a table's every cell."""
        return {} if isinstance(outcome, Predictions) else report.curves_of(outcome)

    def table(self, metrics: Mapping[str, float], outcome: Outcome | Predictions) -> list[dict[str, Any]]:
        """A row for every party: what it brings, and what part it has in the prediction."""
        return outcome.table() if isinstance(outcome, Predictions) else report.table_of(outcome)

    def excluded(self, outcome: Outcome | Predictions) -> Mapping[str, str]:
        """Sites that have nothing to contribute."""
        return {} if isinstance(outcome, Predictions) else outcome.roll.excluded

    def notes(self, outcome: Outcome | Predictions) -> list[str]:
        """Who had no part, and what was lost."""
        return outcome.notes() if isinstance(outcome, Predictions) else report.notes_on(outcome)

    def costs(self, lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Numbers an iteration, as the paper's Table II counts them."""
        return report.numbers_per_iteration(lines)


def _check_kinds(*numbers: int) -> None:
    """Sites that seal tell no mean over a few rows."""
    if any(0 < n < FEWEST_ROWS for n in numbers):
        raise FusionError(
            f"{', '.join(map(str, numbers))} rows to learn from, to choose by and to test on: where a site holds the"
            f" outcome, or in a ring, there are none of a kind or {FEWEST_ROWS} at least (residual.holdout,"
            " residual.validation)"
        )


def from_config(config: Mapping[str, Any], **common: Any) -> Residual:
    """Return the strategy for a run configuration; `common` goes to `FusionStrategy`."""
    settings, own = Settings.of(config), bool(config["protocol"])
    if settings.topology == "ring" and settings.algorithm != "sip":
        raise FusionError(
            f"residual.topology=ring is for sip, not for {settings.algorithm}: set residual.algorithm=sip"
        )
    if settings.topology == "ring" and settings.precision != "float64":
        raise FusionError("residual.topology=ring hands on numbers of float64: leave residual.precision out")
    try:
        rules = settings.rules(keep=own)
    except ValueError as error:
        raise FusionError(f"residual.rounds times residual.steps is {MOST_ROUNDS} at most") from error
    if not own:  # a scenario says itself which rows are test rows
        settings = replace(settings, holdout=0.0)
    try:
        secret = read_secret(str(config.get("align-key-file", "")).strip())
    except SecretError as error:
        raise FusionError(str(error)) from error
    return Residual(rules=rules, settings=settings, secret=secret, **common)
