"""The fusion center of Select-Exchange-Cluster: which learners see the same relation (docs/sec.md)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from numerics.sec.similarity import choose_landmarks
from protocols.models import ModelError, check_model
from protocols.sec.payloads import LARGEST_ERROR, MOST_ROWS, Errors, Exchange, Fitted, Losses, Predict, Select
from protocols.sec.settings import Settings
from protocols.wire.payload import PayloadError
from strategies.column_names import check_names
from strategies.conversation import Broadcast, Conversation, Tell
from strategies.errors import FusionError
from strategies.fusion import FusionStrategy
from strategies.sec.grouping import Grouping, group
from strategies.sec.learners import Learners, arrays_of, former_learners
from strategies.sec.mixtures import Mixture, mixtures, on_test_rows
from strategies.sec.report import Outcome, metrics_of, notes_on, table_of

__all__ = ["SEC", "Outcome", "Settings"]

logger = logging.getLogger("flwr")

_MOST_METHOD = 200
"""Characters of a method's description: it is shown in log and report."""


class SEC(FusionStrategy):
    """Find out which learners see the same relation, and let them predict together (papers/sec.txt, section III).

    Parameters
    ----------
    settings : Settings
        How models are chosen, compared, clustered and combined.
    target : str
        Name of the outcome among the center's test columns.
    **common
        Of `FusionStrategy`. Its reference's `truth` gives each site's true cluster; `test` the center's own test rows;
        `earlier` the arrays of a run whose clustering newcomers are to join.
    """

    def __init__(self, *, settings: Settings | None = None, target: str = "", **common: Any) -> None:
        super().__init__(**common)
        self.settings = settings or Settings()
        self.target = target

    def conversation(self, repetition: int = 0) -> Conversation[Outcome]:
        """Select, exchange, cluster; then predict within the clusters."""
        settings = self.settings
        select = Select(
            settings.candidates, settings.standardize, settings.min_leaf, settings.reference, settings.pooled
        )
        answers: dict[str, Fitted] = yield Broadcast(select, check=self._check_fitted)
        earlier = self.reference.earlier
        learners = Learners.of(answers, settings.newcomer_patterns, former_learners(earlier) if earlier else {})
        _check_somebody_is_there(learners, settings.newcomer_patterns)

        rng = np.random.default_rng([self.seed + repetition, 2])
        sent = self._whose_models(learners, rng)
        exchanges = {senders: self._exchange_of(senders, learners) for senders in set(sent.values())}
        losses: dict[str, Losses] = yield Tell(
            {name: exchanges[senders] for name, senders in sent.items()},
            check=_check_losses(sent),
            measure={"learners": float(len(learners.names)), "models": float(max(map(len, exchanges)))},
        )
        losses_of = learners.losses(sent, losses)
        grouping = group(learners, losses_of, settings, earlier, rng)

        truth = self.reference.truth(repetition) if self.reference.truth else {}
        fit = ~np.isinf(losses_of).any(axis=1)
        tried = {
            name: mixtures(name, learners, grouping.labels, sent[name], fit=fit, pooled=settings.pooled, truth=truth)
            for name in losses
        }
        asks = {name: _ask(name, learners, grouping, mixture, settings) for name, mixture in tried.items()}
        errors: dict[str, Errors] = yield Tell(asks, check=_check_errors(asks), measure=grouping.measure)
        return Outcome(
            learners=learners,
            grouping=grouping,
            errors={name: _named(asks[name], answer) for name, answer in errors.items()},
            center_errors=self._on_own_test_rows(learners, grouping.labels, fit),
            truth=np.array([truth.get(name, -1) for name in learners.names], np.int64),
            fit=fit,
        )

    def _whose_models(self, learners: Learners, rng: np.random.Generator) -> dict[str, tuple[str, ...]]:
        """Whose models each learner that is there tries: all, or those of some landmarks among the clustered.

        A newcomer tries those of all who are clustered: its own cluster may hold no landmark.
        """
        clustered = tuple(name for name, new in zip(learners.names, learners.newcomer, strict=True) if not new)
        of_clustered = of_newcomers = tuple(learners.names)
        if self.settings.exchange == "landmarks":
            places = choose_landmarks(len(clustered), self.settings.landmarks, rng)
            of_clustered, of_newcomers = tuple(clustered[place] for place in places), clustered
        return {
            name: of_newcomers if new else of_clustered
            for name, new in zip(learners.names, learners.newcomer, strict=True)
            if name in learners.present
        }

    def _exchange_of(self, senders: tuple[str, ...], learners: Learners) -> Exchange:
        models = tuple(learners.shown[name].model for name in senders)
        return Exchange(senders, models, self.settings.standardize, keep=not self.settings.pooled)

    def _on_own_test_rows(
        self, learners: Learners, labels: Int64[np.ndarray, "L"], fit: Bool[np.ndarray, "L"]
    ) -> dict[str, dict[str, float]]:
        columns = self.reference.test
        if not columns:
            return {}
        features = next(iter(learners.shown.values())).features
        for name in (*features, self.target):
            if name not in columns:
                raise FusionError(f"the center's test file has no column of numbers {name!r}, which the learners use")
        x = np.column_stack([columns[name] for name in features])
        return on_test_rows(learners, labels, x, columns[self.target], fit=fit, pooled=self.settings.pooled)

    # -- checks -------------------------------------------------------------------------------------------------------

    def _check_fitted(self, site: str, answer: Fitted) -> None:
        def refuse(field: str, problem: str) -> None:
            raise PayloadError(answer.title(), field, problem)

        if not 2 <= answer.n <= MOST_ROWS:
            refuse("n", f"expected a number of rows from 2 to {MOST_ROWS}")
        if not 0 <= answer.error <= LARGEST_ERROR:
            refuse("error", f"expected a mean squared error from 0 to {LARGEST_ERROR:g}")
        if len(answer.method) > _MOST_METHOD or not answer.method.isprintable():
            refuse("method", f"is longer than {_MOST_METHOD} characters, or holds others than printable ones")
        check_names(answer, "features", answer.features)
        expected = len(answer.features) + 1 if self.settings.pooled else 0
        if len(answer.mean) != expected:
            refuse("mean", f"expected {expected} numbers, got {len(answer.mean)}")
        if (np.diag(answer.scatter) < 0).any() or not np.array_equal(answer.scatter, answer.scatter.T):
            refuse("scatter", "is not a matrix of sums of products")
        try:
            inputs = check_model(answer.model)
        except ModelError as error:
            refuse("model", str(error))
        else:
            if inputs != len(answer.features):
                refuse("model", f"takes {inputs} inputs, the learner has {len(answer.features)}")

    # -- what a run reports -------------------------------------------------------------------------------------------

    def metrics(self, outcome: Outcome) -> dict[str, float]:
        """Names and numbers of `report.json`."""
        return metrics_of(outcome)

    def arrays(self, outcome: Outcome) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Names and arrays of `arrays.npz` (docs/sec.md); learners in the order of their names."""
        return {**outcome.grouping.arrays(), **arrays_of(outcome.learners), "newcomer": outcome.learners.newcomer}

    def table(self, metrics: Mapping[str, float], outcome: Outcome) -> list[dict[str, Any]]:
        """A row for every cluster: who is in it, what they chose, and what it gains them."""
        return table_of(outcome)

    def excluded(self, outcome: Outcome) -> Mapping[str, str]:
        """Learners whose inputs are not those of the others."""
        return outcome.learners.excluded

    def notes(self, outcome: Outcome) -> list[str]:
        """Who could not be compared, stands alone, or is worse off with its cluster."""
        return notes_on(outcome)


def from_config(config: Mapping[str, Any], **common: Any) -> SEC:
    """Return the strategy for a run configuration; `common` goes to `FusionStrategy`."""
    settings = Settings.of(config)
    reference = common.get("reference")
    if reference and reference.test and settings.standardize == "learner":
        raise FusionError(
            "the center's test rows cannot be predicted by models of standardised rows: set sec.standardize=model, or"
            " take the test file away"
        )
    return SEC(settings=settings, target=str(config["target"]).strip(), **common)


def _ask(name: str, learners: Learners, grouping: Grouping, mixture: Mixture, settings: Settings) -> Predict:
    label = int(grouping.labels[learners.names.index(name)])
    same: Bool[np.ndarray, "L"] = (grouping.labels == label) & (label >= 0)
    return Predict(
        cluster=label,
        combinations=mixture.combinations,
        weights=mixture.weights,
        own=mixture.own,
        coefficients=mixture.coefficients,
        members=tuple(other for other, member in zip(learners.names, same, strict=True) if member),
        rows=np.where(learners.newcomer, 0, learners.n)[same],
        standardize=settings.standardize,
    )


def _named(ask: Predict, answer: Errors) -> dict[str, float]:
    """A learner's errors by combination; infinite where a prediction was not finite, empty without test rows."""
    if not answer.n_test:
        return {}
    values: Float64[np.ndarray, "combinations"] = np.where(answer.finite, answer.errors, np.inf)
    return dict(zip(ask.combinations, values.tolist(), strict=True))


def _check_somebody_is_there(learners: Learners, newcomers: Sequence[str]) -> None:
    """Refuse a run that has nobody to cluster or nobody to ask."""
    for site, reason in learners.excluded.items():
        logger.warning("%s: %s", site, reason)
    for pattern in newcomers:
        if not any(fnmatchcase(name, pattern) for name in learners.names):
            logger.warning("sec.newcomers: no learner is called %s", pattern)
    why = "; ".join(f"{site}: {reason}" for site, reason in learners.excluded.items())
    if not learners.present:
        raise FusionError(f"no learner is left to ask ({why})")
    if learners.newcomer.all():
        raise FusionError("there is no learner to cluster: all are newcomers" + (f" ({why})" if why else ""))


def _check_losses(sent: Mapping[str, tuple[str, ...]]) -> Any:
    def check(site: str, answer: Losses) -> None:
        if len(answer.losses) != len(sent[site]):
            expected = len(sent[site])
            raise PayloadError(answer.title(), "losses", f"expected {expected} numbers, got {len(answer.losses)}")
        if ((answer.losses < 0) | (answer.losses > LARGEST_ERROR)).any():
            raise PayloadError(answer.title(), "losses", f"expected mean squared errors from 0 to {LARGEST_ERROR:g}")

    return check


def _check_errors(asks: Mapping[str, Predict]) -> Any:
    def check(site: str, answer: Errors) -> None:
        expected = len(asks[site].combinations)
        if len(answer.errors) != expected:
            raise PayloadError(answer.title(), "errors", f"expected {expected} numbers, got {len(answer.errors)}")
        if answer.n_test < 0 or ((answer.errors < 0) | (answer.errors > LARGEST_ERROR)).any():
            raise PayloadError(answer.title(), "errors", f"expected mean squared errors from 0 to {LARGEST_ERROR:g}")

    return check
