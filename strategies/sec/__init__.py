"""The fusion center of Select-Exchange-Cluster: it finds the learners that see the same relation (docs/sec.md)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64, Shaped

from numerics.sec.similarity import choose_landmarks
from protocols.center_inputs import unusable_input
from protocols.classes import ClassListError, check_classes
from protocols.models import ModelError, check_model
from protocols.sec.payloads import (
    LARGEST_ERROR,
    LARGEST_LOG_LOSS,
    MOST_ROWS,
    Errors,
    Exchange,
    FittedModel,
    Losses,
    Pool,
    Predict,
    Rows,
    Select,
)
from protocols.sec.settings import Settings
from protocols.wire.payload import PayloadError
from strategies.class_labels import class_places
from strategies.column_names import check_names
from strategies.conversation import Broadcast, Conversation, Tell
from strategies.errors import FusionError
from strategies.fusion import FusionStrategy
from strategies.influence import Influence
from strategies.sec.checks import check_errors, check_losses, check_rows
from strategies.sec.classes import CenterScores, score_on_test_rows
from strategies.sec.influence import influence_on_predictions
from strategies.sec.learner_clusters import LearnerClusters, cluster_learners
from strategies.sec.learners import Learners, arrays_of, former_learners
from strategies.sec.mixtures import Mixture, evaluate_on_test_rows, mix_models, partners_of
from strategies.sec.report import SECOutcome, metrics_of, notes_on, paired_of, table_of
from strategies.sec.retraining import Retraining, retrain

__all__ = ["SEC", "SECOutcome", "Settings"]

logger = logging.getLogger("flwr")

_MOST_METHOD = 200
"""Longest description of a method in characters: log and report show it."""


class SEC(FusionStrategy):
    """Find the learners that see the same relation, and let them predict together.

    Source: Ye, Ding and Ghanadan (2022), section III; docs/sec.md.

    Parameters
    ----------
    settings : Settings
        How models are chosen, compared, clustered and combined.
    target : str
        Name of the outcome among the center's test columns.
    class_weight : {"none", "balanced"}
        Weight of rows in fits of classes.
    **common
        Parameters of `FusionStrategy`. Its reference holds each site's true cluster (`truth`), the center's own test
        rows (`test`), and the arrays of a run whose clusters newcomers join (`earlier`).

    Examples
    --------
    >>> strategy = SEC(settings=Settings(k=2))
    >>> next(strategy.conversation()).ask.standardize
    'model'
    """

    def __init__(
        self, *, settings: Settings | None = None, target: str = "", class_weight: str = "none", **common: Any
    ) -> None:
        super().__init__(**common)
        self.settings = settings or Settings()
        self.target = target
        self.class_weight = class_weight

    def conversation(self, repetition: int = 0) -> Conversation[SECOutcome]:
        """Select, exchange, cluster; then predict within the clusters."""
        learners = yield from self._select()
        rng = np.random.default_rng([self.seed + repetition, 2])
        senders = self._senders(learners, rng)
        answers = yield from self._compare(learners, senders)
        losses = learners.losses(senders, answers)
        if self.settings.weights == "precision":
            learners = learners.by_precision(losses, self.reference.earlier)
        noise = {name: answer.noise for name, answer in answers.items()}
        clusters = cluster_learners(learners, losses, self.settings, self.reference.earlier, rng, noise)

        truth = self.reference.truth(repetition) if self.reference.truth else {}
        usable = ~np.isinf(losses).any(axis=1)
        retraining = Retraining.none(len(clusters.labels))
        kept_rows: list[str] = []
        if self.settings.pools_rows:
            retraining, kept_rows = yield from self._pool_rows(learners, clusters, usable, truth, rng)
        asks = {}
        for name in answers:
            mixture = mix_models(
                name,
                learners,
                clusters.labels,
                senders[name],
                usable=usable,
                pooled=self.settings.pooled,
                truth=truth,
                personal=not self.settings.pooled,
                retraining=retraining,
            )
            asks[name] = _ask(name, learners, clusters, mixture, self.settings, retraining)
        errors: dict[str, Errors] = yield Tell(asks, check=check_errors(asks, learners), measure=clusters.measure)
        center = self._scores_at_center(learners, clusters.labels, usable, retraining)
        return SECOutcome.of(
            learners,
            clusters,
            asks,
            errors,
            center,
            truth=np.array([truth.get(name, -1) for name in learners.names], np.int64),
            senders=senders,
            usable=usable,
            retraining=retraining,
            kept_rows=kept_rows,
        )

    def _select(self) -> Conversation[Learners]:
        """Ask each site for its model, and take the learners that fit together."""
        settings = self.settings
        select = Select(
            candidates=settings.candidates,
            selection=settings.selection,
            standardize=settings.standardize,
            min_leaf=settings.min_leaf,
            reference=settings.reference,
            moments=settings.pooled,
            class_weight=self.class_weight,
        )
        answers: dict[str, FittedModel] = yield Broadcast(select, check=self._check_fitted)
        earlier = self.reference.earlier
        former = former_learners(earlier) if earlier else {}
        try:
            learners = Learners.of(answers, settings.newcomer_patterns, former, self.target)
        except ClassListError as error:
            raise FusionError(str(error)) from None
        _check_learners(learners, settings.newcomer_patterns)
        if not learners.classes and self.class_weight != "none":
            raise FusionError(
                f"class-weight is for classes, and {self.target or 'the target'} is an amount: leave it out"
            )
        if learners.classes and settings.combine != "average":
            raise FusionError(
                f"sec.combine={settings.combine} is for amounts, and {self.target or 'the target'} has classes; set"
                " sec.combine=average, or task=regression"
            )
        return learners

    def _compare(self, learners: Learners, senders: Mapping[str, tuple[str, ...]]) -> Conversation[dict[str, Losses]]:
        """Let each present learner try the models of its senders."""
        exchanges = {names: self._exchange(names, learners) for names in set(senders.values())}
        answers: dict[str, Losses] = yield Tell(
            {name: exchanges[names] for name, names in senders.items()},
            check=check_losses(senders),
            measure={"learners": float(len(learners.names)), "models": float(max(map(len, exchanges)))},
        )
        return answers

    def _pool_rows(
        self,
        learners: Learners,
        clusters: LearnerClusters,
        usable: Bool[np.ndarray, "L"],
        truth: Mapping[str, int],
        rng: np.random.Generator,
    ) -> Conversation[tuple[Retraining, list[str]]]:
        """Ask the sites of clusters of two or more for rows, and fit a model to each cluster; name who sent none."""
        labels = clusters.labels
        sites = _asked_for_rows(learners, labels, everybody=bool(truth))
        if not sites:
            return Retraining.none(len(labels)), []
        rows: dict[str, Rows] = yield Tell(
            dict.fromkeys(sites, Pool(self.settings.standardize)), check=check_rows(learners)
        )
        if not rows:
            return Retraining.none(len(labels)), []
        partners = [partners_of(name, learners, labels, usable, truth) for name in learners.names]
        groups = (members for each in partners for members in each.values())
        retraining = retrain(learners, rows, groups, self.settings, int(rng.integers(2**31)))
        return retraining, [name for name, answer in rows.items() if not len(answer.y)]

    def _senders(self, learners: Learners, rng: np.random.Generator) -> dict[str, tuple[str, ...]]:
        """Return, by present learner, the learners whose models it tries: all learners, or a few landmarks.

        Landmarks are drawn from the clustered learners. A newcomer tries the models of all clustered learners, because
        its own cluster may hold no landmark.
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

    def _exchange(self, senders: tuple[str, ...], learners: Learners) -> Exchange:
        models = tuple(learners.profiles[name].model for name in senders)
        return Exchange(
            senders,
            models,
            self.settings.standardize,
            keep=not self.settings.pooled,
            classes=learners.classes,
            places=tuple(learners.places(name) for name in senders) if learners.classes else (),
            rows=np.array([learners.profiles[name].n_fitted for name in senders] if learners.classes else [], np.int64),
        )

    def _scores_at_center(
        self,
        learners: Learners,
        labels: Int64[np.ndarray, "L"],
        usable: Bool[np.ndarray, "L"],
        retraining: Retraining,
    ) -> CenterScores:
        """Return the errors on the center's own test rows by learner and combination; empty without such rows."""
        columns = self.reference.test
        if not columns:
            return CenterScores()
        features = next(iter(learners.profiles.values())).features
        wrong = unusable_input(columns, features)
        if self.target not in columns:
            wrong = f" has no column {self.target!r}, the target"
        if wrong:
            raise FusionError(f"the center's test file{wrong}")
        x = np.column_stack([columns[name] for name in features])
        y = columns[self.target]
        if learners.classes:
            return score_on_test_rows(learners, labels, x, class_places(y, learners.classes, self.target), usable)
        pooled = self.settings.pooled
        errors = evaluate_on_test_rows(learners, labels, x, y, usable=usable, pooled=pooled, retraining=retraining)
        return CenterScores(errors)

    # -- checks -------------------------------------------------------------------------------------------------------

    def _check_fitted(self, site: str, answer: FittedModel) -> None:
        def refuse(field: str, problem: str) -> None:
            raise PayloadError(answer.title(), field, problem)

        if not 2 <= answer.n <= MOST_ROWS:
            refuse("n", f"expected a number of rows from 2 to {MOST_ROWS}")
        if not 0 <= answer.held_out <= MOST_ROWS - answer.n:
            refuse("held_out", f"expected a number of rows, {MOST_ROWS} at most with the others")
        used = answer.n_fitted
        if answer.sampled_from and not used < answer.sampled_from <= MOST_ROWS:
            refuse("sampled_from", f"expected 0, or more rows than the {used} of the sample, {MOST_ROWS} at most")
        check_classes(answer, answer.classes)
        largest = LARGEST_LOG_LOSS if answer.classes else LARGEST_ERROR
        if not 0 <= answer.error <= largest:
            refuse(
                "error", f"expected a {'log loss' if answer.classes else 'mean squared error'} from 0 to {largest:g}"
            )
        if not 0 <= answer.variance <= LARGEST_ERROR:
            refuse("variance", f"expected a variance from 0 to {LARGEST_ERROR:g}")
        if len(answer.method) > _MOST_METHOD or not answer.method.isprintable():
            refuse("method", f"is longer than {_MOST_METHOD} characters, or has an unprintable character")
        check_names(answer, "features", answer.features)
        expected = len(answer.features) + 1 if self.settings.pooled else 0
        if len(answer.mean) != expected:
            refuse("mean", f"expected {expected} numbers, got {len(answer.mean)}")
        if (np.diag(answer.scatter) < 0).any() or not np.array_equal(answer.scatter, answer.scatter.T):
            refuse("scatter", "is not a matrix of sums of products")
        try:
            inputs = check_model(answer.model, len(answer.classes))
        except ModelError as error:
            refuse("model", str(error))
        else:
            if inputs != len(answer.features):
                refuse("model", f"takes {inputs} inputs, the learner has {len(answer.features)}")

    # -- what a run reports -------------------------------------------------------------------------------------------

    def metrics(self, outcome: SECOutcome) -> dict[str, float]:
        """Return names and numbers of `report.json`."""
        return metrics_of(outcome)

    def arrays(self, outcome: SECOutcome) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return names and arrays of `arrays.npz` (docs/sec.md); learners in the order of their names."""
        return {
            **outcome.clusters.arrays(),
            **arrays_of(outcome.learners),
            "newcomer": outcome.learners.newcomer,
            **outcome.retraining.arrays(outcome.learners, outcome.clusters.labels),
            **outcome.class_arrays,
            "recommended": np.array([outcome.recommendations.get(name, "") for name in outcome.learners.names], str),
            **paired_of(outcome),
        }

    def table(self, metrics: Mapping[str, float], outcome: SECOutcome) -> list[dict[str, Any]]:
        """Return a row for every cluster: its learners, the methods that they chose, and their mean errors."""
        return table_of(outcome)

    def excluded(self, outcome: SECOutcome) -> Mapping[str, str]:
        """Return the learners that were left out, and why."""
        return outcome.learners.excluded

    def influence(self, outcome: SECOutcome) -> Influence:
        """Return the weight of each learner's model in the others' predictions."""
        return influence_on_predictions(outcome.learners, outcome.clusters.labels, outcome.senders)

    def notes(self, outcome: SECOutcome) -> list[str]:
        """Return sentences on learners that were not compared, are alone, or predict worse with their cluster."""
        return notes_on(outcome)


def from_config(config: Mapping[str, Any], **common: Any) -> SEC:
    """Return the strategy for a run configuration; `common` goes to `FusionStrategy`."""
    settings = Settings.of(config)
    target, class_weight = str(config["target"]).strip(), str(config["class-weight"])
    return SEC(settings=settings, target=target, class_weight=class_weight, **common)


def _asked_for_rows(learners: Learners, labels: Int64[np.ndarray, "L"], *, everybody: bool) -> list[str]:
    """Return the learners to ask for rows: those in a cluster of two or more, or with `everybody` all that lend models.

    A scenario with true clusters asks everybody, since the true clusters and all learners together predict, too.
    """
    lends = ~learners.newcomer & (labels >= 0)
    sizes = np.bincount(labels[lends], minlength=int(labels.max(initial=-1)) + 1)
    several: Bool[np.ndarray, "L"] = lends & (everybody | (sizes[labels] > 1))
    return [name for name, each in zip(learners.names, several, strict=True) if each and name in learners.present]


def _ask(
    name: str,
    learners: Learners,
    clusters: LearnerClusters,
    mixture: Mixture,
    settings: Settings,
    retraining: Retraining,
) -> Predict:
    label = int(clusters.labels[learners.names.index(name)])
    same: Bool[np.ndarray, "L"] = (clusters.labels == label) & (label >= 0)
    return Predict(
        cluster=label,
        combinations=mixture.combinations,
        weights=mixture.weights,
        own=mixture.own,
        coefficients=mixture.coefficients,
        members=tuple(other for other, member in zip(learners.names, same, strict=True) if member),
        rows=np.where(learners.newcomer, 0, learners.n)[same],
        shares=learners.shares(same),
        pooled=retraining.among(~learners.newcomer & same)[same],
        models=mixture.models,
        pool_weights=mixture.pool_weights,
        standardize=settings.standardize,
    )


def _check_learners(learners: Learners, newcomers: Sequence[str]) -> None:
    """Refuse a run without a learner to cluster, or without a learner that takes part."""
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
