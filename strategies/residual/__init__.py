"""The fusion center of attribute-distributed regression (docs/residual.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped, UInt8

from common.entity_keys import SecretError, keyed_hashes, read_secret, secret_check
from common.grouping import list_names
from numerics.residual import boosted
from numerics.residual.columns_and_outcomes import Outcomes
from numerics.residual.rules import FEWEST_ROWS, LARGEST_OUTCOME, Rules
from numerics.residual.split import Split
from numerics.shared.folds import draw_kinds
from protocols.residual.payloads import Enrol, Holdings
from protocols.residual.plan import Plan
from protocols.residual.settings import Settings
from protocols.wire.payload import Payload
from strategies.column_names import check_enough
from strategies.conversation import Broadcast, Conversation, with_extra_asks
from strategies.errors import FusionError
from strategies.fusion import FusionStrategy
from strategies.influence import Influence
from strategies.residual import notes, report
from strategies.residual.alignment import CENTER, EntityKeys
from strategies.residual.enrolment import Enrolment, check_enrolled
from strategies.residual.execution import PlanResult, centered, relayed
from strategies.residual.prediction import OutcomePredictions, predict_at_center, predict_at_holder
from strategies.residual.report import ResidualOutcome
from strategies.residual.ring import ring

Outcome = ResidualOutcome | OutcomePredictions

__all__ = ["OutcomePredictions", "Residual", "ResidualOutcome", "Settings"]

_TREE = "tree"
_LEAF, _MANY, _ROWS_A_LEAF = 40, 100, 25
"""Default of the smallest leaf: 40 for 1000 to 4000 rows, a hundredth of more rows (with leaves of 40, trees fit the
noise of 45,000 rows), a twenty-fifth of fewer rows, 5 at least."""


class Residual(FusionStrategy):
    """Learn together from other columns of the same entities (Zheng, Kulkarni and Poor 2010).

    Parameters
    ----------
    rules : Rules
        Settings of learning.
    settings : Settings
        Settings of the protocol, such as the matching of rows and the precision of numbers.
    secret : bytes
        Secret of the center's align-key-file, by which it hashes the names in its own file.
    **common
        Parameters of `FusionStrategy`. In its reference, `outcome` returns the center's outcomes, `truth` returns 1 for
        each site with a relevant attribute, and `earlier` has the arrays of a run whose agents predict their present
        rows.

    Examples
    --------
    >>> Residual(rules=Rules(algorithm="sip", shrinkage=0.1), min_sites=3).rules.algorithm
    'sip'
    """

    def __init__(
        self, *, rules: Rules | None = None, settings: Settings | None = None, secret: bytes = b"", **common: Any
    ) -> None:
        super().__init__(**common)
        self.rules = rules or Rules()
        self.settings = settings or Settings()
        self.secret = secret

    def conversation(self, repetition: int = 0) -> Conversation[Outcome]:
        """Enrol the sites, agree on the common rows, then learn or predict."""
        outcomes = self.reference.outcome(repetition) if self.reference.outcome else None
        earlier = self.reference.earlier
        keys = None if outcomes is None else self._keys(outcomes)
        if earlier and str(earlier["holder"]) == CENTER:
            return (yield from predict_at_center(earlier, self.session, self.settings.align, outcomes, keys))
        sealed = outcomes is None or self.settings.topology == "ring"
        if sealed and self.repetitions > 1:
            raise FusionError(
                "where a site holds the outcome, or in a ring, a run has one repetition: sites send errors of one split"
                " of their rows only; leave repetitions out"
            )
        enrol = Enrol(self.session, self.settings.align, sealed or bool(earlier))
        answers: dict[str, Holdings] = yield Broadcast(enrol, check=partial(check_enrolled, enrol))
        if earlier:
            return (yield from predict_at_holder(earlier, answers))
        enrolment = Enrolment.of(answers, keys, outcomes.classes if outcomes else ())
        check_enough(len(enrolment.sites), self.min_sites, enrolment.excluded, "learn")
        _check_classes(enrolment.classes, self.rules)
        order, n_learn, rules = self._order(enrolment, outcomes, repetition, sealed=sealed)
        rules = replace(rules, min_leaf=self._min_leaf(n_learn), n_classes=len(enrolment.classes))
        orders = enrolment.orders(order, sealed=sealed, agent=self.agent, min_leaf=rules.min_leaf)
        y = None if outcomes is None else outcomes.y[enrolment.alignment.rows[CENTER][order]]
        if y is not None and np.abs(y).max(initial=0.0) > LARGEST_OUTCOME:
            raise FusionError(f"the outcomes go beyond {LARGEST_OUTCOME:g}: give them in another unit")
        result = yield from self._learn(enrolment, orders, y, len(order), n_learn, rules)
        truth = self.reference.truth(repetition) if self.reference.truth else {}
        return ResidualOutcome(enrolment, rules, result, truth, self.agent)

    def _learn(
        self,
        enrolment: Enrolment,
        orders: Mapping[str, Payload],
        y: Float64[np.ndarray, "n"] | None,
        n: int,
        n_learn: int,
        rules: Rules,
    ) -> Conversation[PlanResult]:
        """Have the fusion center, the site that holds the outcome, or the ring do the arithmetic."""
        if self.settings.topology == "ring":
            return (yield from with_extra_asks(orders, ring(enrolment.holder, enrolment.agents, y, n, n_learn, rules)))
        if y is None:
            course = relayed(enrolment.holder, enrolment.agents, n, n_learn, rules, self.settings.precision)
            return (yield from with_extra_asks(orders, course))
        plan = Plan(enrolment.agents, y, n_learn, rules)
        return (yield from with_extra_asks(orders, centered(plan, self.settings.precision)))

    def _keys(self, outcomes: Outcomes) -> EntityKeys:
        """Hash the names in the center's own file as the sites hash theirs."""
        if outcomes.entity is None:
            return EntityKeys.of_center(outcomes, None)
        keys = keyed_hashes(outcomes.entity, self.secret, self.session)
        return EntityKeys.of_center(outcomes, (keys, secret_check(self.secret, self.session).tobytes()))

    def _order(
        self, enrolment: Enrolment, outcomes: Outcomes | None, repetition: int, *, sealed: bool
    ) -> tuple[Int64[np.ndarray, "n"], int, Rules]:
        """Return the order of the common rows, test rows last, the number of rows to learn from, and the rules.

        The rows to learn from are shuffled: the last of them are the validation rows. If the holder of the outcomes
        knows persons, all rows of a person have one use, and the rules get the resulting share of validation rows.
        """
        n = enrolment.alignment.n
        rng = np.random.default_rng([self.seed + repetition, 4])
        if outcomes is not None and outcomes.n_test:
            is_test = enrolment.alignment.rows[CENTER] >= len(outcomes.y) - outcomes.n_test
            learning, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
        else:
            n_test = round(self.settings.holdout * n)
            learning, test = np.split(rng.permutation(n), [n - n_test])
        kinds, rules = self._kinds(enrolment, outcomes, repetition), self.rules
        if kinds is not None:
            learning, chosen, test = np.flatnonzero(kinds < 2), kinds == 1, np.flatnonzero(kinds == 2)
            if rules.chooses and chosen.any() and (kinds == 0).any():
                rules = replace(rules, validation=int(chosen.sum()) / len(learning))
        split = rules.split(n, len(learning))
        if split.n_fit < 2:
            raise FusionError(
                f"{len(learning)} of the {n} common entities are left to learn from"
                + (f", of which {split.n_validation} are held out" if split.n_validation else "")
                + ": too few (residual.holdout, residual.validation)"
            )
        if sealed:
            _check_kinds(split)
        shuffled = rng.permutation(learning)
        if kinds is not None:
            shuffled = shuffled[np.argsort(kinds[shuffled], kind="stable")]
        return np.concatenate([shuffled, test]), len(learning), rules

    def _kinds(self, enrolment: Enrolment, outcomes: Outcomes | None, repetition: int) -> UInt8[np.ndarray, "n"] | None:
        """Return the use of each common row (`Holdings.split`), if the holder of the outcomes knows persons."""
        rows = enrolment.alignment.rows[enrolment.holder]
        if outcomes is None:
            split = enrolment.answers[enrolment.holder].split
            return split[rows] if len(split) else None
        if outcomes.person is None:
            return None
        is_test = rows >= len(outcomes.y) - outcomes.n_test
        share = 0.0 if outcomes.n_test else self.settings.holdout
        rng = np.random.default_rng([self.seed + repetition, 5])
        kinds = draw_kinds(outcomes.person[rows], share, self.rules.validation, rng)
        kinds[is_test] = 2
        return kinds

    @property
    def agent(self) -> str:
        """The run's method; in boosting small trees, unless another method is set."""
        small = self.rules.boosts and self.settings.agent == _TREE
        return boosted.AGENT if small else self.settings.agent

    def _min_leaf(self, n_learn: int) -> int:
        if self.rules.boosts:
            return self.settings.min_leaf or min(boosted.MIN_LEAF, max(5, n_learn // _ROWS_A_LEAF))
        return self.settings.min_leaf or max(min(_LEAF, max(5, n_learn // _ROWS_A_LEAF)), n_learn // _MANY)

    # -- report -------------------------------------------------------------------------------------------------------

    def metrics(self, outcome: Outcome) -> dict[str, float]:
        """Return the metrics of `report.json` (docs/residual.md)."""
        return outcome.metrics() if isinstance(outcome, OutcomePredictions) else report.metrics_of(outcome)

    def arrays(self, outcome: Outcome) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the arrays of `arrays.npz` (docs/residual.md); agents in the order of their names."""
        return outcome.arrays() if isinstance(outcome, OutcomePredictions) else report.arrays_of(outcome)

    def curves(self, outcome: Outcome) -> dict[str, Float64[np.ndarray, "t"]]:
        """Return the errors by iteration, which the arrays of a table have for every cell."""
        return {} if isinstance(outcome, OutcomePredictions) else report.curves_of(outcome)

    def table(self, metrics: Mapping[str, float], outcome: Outcome) -> list[dict[str, Any]]:
        """Return a row for every site: its rows and columns, and its part in the prediction."""
        return outcome.table() if isinstance(outcome, OutcomePredictions) else report.table_of(outcome)

    def influence(self, outcome: Outcome) -> Influence | None:
        """Return the error without each agent, the others' predictions combined anew."""
        return None if isinstance(outcome, OutcomePredictions) else report.influence_in(outcome)

    def excluded(self, outcome: Outcome) -> Mapping[str, str]:
        """Return the sites that have nothing to contribute, fit no other, or raise the error, with the reason."""
        return outcome.alignment.left_out if isinstance(outcome, OutcomePredictions) else report.excluded_in(outcome)

    def notes(self, outcome: Outcome) -> list[str]:
        """Return sentences for the reader of the report."""
        return outcome.notes() if isinstance(outcome, OutcomePredictions) else notes.notes_on(outcome)

    def costs(self, lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Return the numbers sent in an iteration (Table II)."""
        return report.numbers_per_iteration(lines)


def _check_classes(classes: Sequence[str], rules: Rules) -> None:
    """Refuse classes where the algorithm learns amounts only, and weights of classes where there are none."""
    if classes and not rules.boosts:
        raise FusionError(
            f"the outcome has the classes {list_names(list(classes), 6)}, and residual.algorithm={rules.algorithm}"
            " learns amounts: set residual.algorithm=boosted, or task=regression if the classes are numbers"
        )
    if rules.balanced and not classes:
        raise FusionError("class-weight=balanced is for classes, and the outcome is an amount: leave it out")


def _check_kinds(split: Split) -> None:
    """Refuse a split with few rows of a kind: a site that seals sends no mean over so few."""
    numbers = (split.n_fit, split.n_validation, split.n_test)
    if any(0 < n < FEWEST_ROWS for n in numbers):
        raise FusionError(
            f"{', '.join(map(str, numbers))} rows to learn from, to choose by and to test on: where a site holds the"
            f" outcome, or in a ring, there are none of a kind or {FEWEST_ROWS} at least (residual.holdout,"
            " residual.validation)"
        )


def from_config(config: Mapping[str, Any], **common: Any) -> Residual:
    """Return the strategy for a run configuration; `common` goes to `FusionStrategy`.

    Raises
    ------
    FusionError
        If the file of the secret cannot be read.
    """
    settings, own = Settings.of(config), bool(config["protocol"])
    rules = replace(settings.rules(keep=own), balanced=config["class-weight"] == "balanced")
    if not own:  # a scenario has its own test rows
        settings = replace(settings, holdout=0.0)
    try:
        secret = read_secret(str(config.get("align-key-file", "")).strip())
    except SecretError as error:
        raise FusionError(str(error)) from error
    return Residual(rules=rules, settings=settings, secret=secret, **common)
