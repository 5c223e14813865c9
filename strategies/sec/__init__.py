"""The fusion center of Select-Exchange-Cluster: which learners see the same relation (docs/sec.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from numerics.meta_clustering import choose_landmarks
from protocols.models import ModelError, check_model
from protocols.payload import PayloadError
from protocols.sec import Errors, Exchange, Fitted, Losses, Predict, Select
from strategies.conversation import Broadcast, Conversation, Tell
from strategies.fusion import FusionStrategy
from strategies.roster import FusionError
from strategies.sec.grouping import Grouping, group
from strategies.sec.learners import Learners, arrays_of, former_learners
from strategies.sec.mixtures import Mixture, mixtures, on_test_rows
from strategies.sec.report import Outcome, metrics_of, table_of

__all__ = ["SEC", "Outcome", "Settings"]

_MOST_METHOD = 200
"""Characters of a method's description that are believed."""


@dataclass(frozen=True)
class Settings:
    """What the run configuration sets under ``sec.`` (server/config.py has each key's meaning and range).

    A key that is empty (``""`` or 0) there has the value here.
    """

    candidates: str = Select.candidates
    standardize: str = Select.standardize
    min_leaf: int = Select.min_leaf
    reference: str = Select.reference
    scale: str = "mean"
    k: int = 0
    k_method: str = "eigengap"
    k_min: int = 1
    k_max: int = 0
    exchange: str = "all"
    landmarks: int = 0
    combine: str = "average"
    newcomers: tuple[str, ...] = ()
    assign: str = "sum"

    @property
    def pooled(self) -> bool:
        """Whether clusters predict by a pooled linear regression."""
        return self.combine == "pooled-linear"


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
        learners = Learners.of(answers, settings.newcomers, former_learners(earlier) if earlier else {})
        if not (~learners.newcomer).any():
            raise FusionError(
                "there is no learner to cluster: " + ("all are newcomers" if learners.names else "none showed a model")
            )

        rng = np.random.default_rng([self.seed + repetition, 2])
        senders = self._senders(learners, rng)
        exchange = Exchange(
            tuple(senders),
            tuple(learners.shown[name].model for name in senders),
            settings.standardize,
            keep=not settings.pooled,
        )
        present = [name for name in learners.names if name in answers]
        losses: dict[str, Losses] = yield Tell(
            dict.fromkeys(present, exchange),
            check=_check_losses(len(senders)),
            measure={"learners": float(len(learners.names)), "models": float(len(senders))},
        )
        grouping = group(learners, learners.losses(senders, losses), settings, earlier, rng)

        truth = self.reference.truth(repetition) if self.reference.truth else {}
        tried = {
            name: mixtures(name, learners, grouping.labels, senders, pooled=settings.pooled, truth=truth)
            for name in losses
        }
        asks = {name: _ask(name, learners, grouping, mixture, settings) for name, mixture in tried.items()}
        errors: dict[str, Errors] = yield Tell(asks, check=_check_errors(asks), measure=grouping.measure)
        return Outcome(
            learners=learners,
            grouping=grouping,
            errors={name: _named(asks[name], answer) for name, answer in errors.items()},
            center_errors=self._on_own_test_rows(learners, grouping.labels),
            truth=np.array([truth.get(name, -1) for name in learners.names], np.int64),
        )

    def _senders(self, learners: Learners, rng: np.random.Generator) -> list[str]:
        """Whose models everybody tries: all, or the landmarks of the clustered learners."""
        names = np.array(learners.names)
        if self.settings.exchange == "all":
            return [str(name) for name in names]
        clustered = names[~learners.newcomer]
        return [str(name) for name in clustered[choose_landmarks(len(clustered), self.settings.landmarks, rng)]]

    def _on_own_test_rows(self, learners: Learners, labels: Int64[np.ndarray, "L"]) -> dict[str, dict[str, float]]:
        columns = self.reference.test
        if not columns:
            return {}
        features = next(iter(learners.shown.values())).features
        for name in (*features, self.target):
            if name not in columns:
                raise FusionError(f"the center's test file has no column of numbers {name!r}, which the learners use")
        x = np.column_stack([columns[name] for name in features])
        return on_test_rows(learners, labels, x, columns[self.target], pooled=self.settings.pooled)

    # -- checks -------------------------------------------------------------------------------------------------------

    def _check_fitted(self, site: str, answer: Fitted) -> None:
        def refuse(field: str, problem: str) -> None:
            raise PayloadError(answer.title(), field, problem)

        if answer.n < 2:
            refuse("n", "a model cannot be selected on fewer than two rows")
        if answer.error < 0:
            refuse("error", "a mean squared error is not negative")
        if len(answer.method) > _MOST_METHOD or not answer.method.isprintable():
            refuse("method", f"is longer than {_MOST_METHOD} characters, or holds others than printable ones")
        if not answer.features or len(set(answer.features)) < len(answer.features):
            refuse("features", "there is none, or one comes twice")
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


def from_config(config: Mapping[str, Any], **common: Any) -> SEC:
    """The strategy that a run configuration asks for (server/config.py); `common` goes to `FusionStrategy`."""
    given = {
        field.name: config[f"sec.{field.name.replace('_', '-')}"]
        for field in fields(Settings)
        if field.name != "newcomers"
    }
    settings = replace(
        Settings(newcomers=tuple(str(config["sec.newcomers"]).replace(",", " ").split())),
        **{name: value for name, value in given.items() if value not in ("", 0)},
    )
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
        rows=learners.n[same],
        standardize=settings.standardize,
    )


def _named(ask: Predict, answer: Errors) -> dict[str, float]:
    """A learner's errors by combination; infinite where a prediction was not finite, empty without test rows."""
    if not answer.n_test:
        return {}
    values: Float64[np.ndarray, "combinations"] = np.where(answer.finite, answer.errors, np.inf)
    return dict(zip(ask.combinations, values.tolist(), strict=True))


def _check_losses(models: int) -> Any:
    def check(site: str, answer: Losses) -> None:
        if len(answer.losses) != models:
            raise PayloadError(answer.title(), "losses", f"expected {models} numbers, got {len(answer.losses)}")
        if (answer.losses < 0).any():
            raise PayloadError(answer.title(), "losses", "a mean squared error is not negative")

    return check


def _check_errors(asks: Mapping[str, Predict]) -> Any:
    def check(site: str, answer: Errors) -> None:
        expected = len(asks[site].combinations)
        if len(answer.errors) != expected:
            raise PayloadError(answer.title(), "errors", f"expected {expected} numbers, got {len(answer.errors)}")
        if answer.n_test < 0 or (answer.errors < 0).any():
            raise PayloadError(answer.title(), "errors", "a count or a mean squared error is negative")

    return check
