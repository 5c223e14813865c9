"""The fusion center of Select-Exchange-Cluster: it finds the learners that see the same relation (docs/sec.md)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from numerics.sec.similarity import choose_landmarks
from protocols.models import ModelError, check_model
from protocols.sec.payloads import (
    LARGEST_ERROR,
    MOST_ROWS,
    Errors,
    Exchange,
    Fitted,
    Losses,
    Pool,
    Predict,
    Rows,
    Select,
)
from protocols.sec.settings import Settings
from protocols.wire.payload import PayloadError
from strategies.column_names import check_names
from strategies.conversation import Broadcast, Check, Conversation, Tell
from strategies.errors import FusionError
from strategies.fusion import FusionStrategy
from strategies.sec.learner_clusters import LearnerClusters, cluster_learners
from strategies.sec.learners import Learners, arrays_of, former_learners
from strategies.sec.mixtures import Mixture, evaluate_on_test_rows, mix_models, partners_of
from strategies.sec.report import SECOutcome, metrics_of, notes_on, paired_of, table_of
from strategies.sec.retraining import Retraining, retrain

__all__ = ["SEC", "SECOutcome", "Settings"]

logger = logging.getLogger("flwr")

_MOST_NOISE = 1e3
"""Largest standard deviation of the noise in a loss: a site of five rows and a million models has one of 500."""
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
    **common
        Parameters of `FusionStrategy`. Its reference holds each site's true cluster (`truth`), the center's own test
        rows (`test`), and the arrays of a run whose clusters newcomers join (`earlier`).

    Examples
    --------
    >>> strategy = SEC(settings=Settings(k=2))
    >>> next(strategy.conversation()).ask.standardize
    'model'
    """

    def __init__(self, *, settings: Settings | None = None, target: str = "", **common: Any) -> None:
        super().__init__(**common)
        self.settings = settings or Settings()
        self.target = target

    def conversation(self, repetition: int = 0) -> Conversation[SECOutcome]:
        """Select, exchange, cluster; then predict within the clusters."""
        settings = self.settings
        select = Select(
            candidates=settings.candidates,
            selection=settings.selection,
            standardize=settings.standardize,
            min_leaf=settings.min_leaf,
            reference=settings.reference,
            moments=settings.pooled,
        )
        answers: dict[str, Fitted] = yield Broadcast(select, check=self._check_fitted)
        earlier = self.reference.earlier
        former = former_learners(earlier) if earlier else {}
        learners = Learners.of(answers, settings.newcomer_patterns, former, settings.weights)
        _check_learners(learners, settings.newcomer_patterns)

        rng = np.random.default_rng([self.seed + repetition, 2])
        senders = self._senders(learners, rng)
        exchanges = {names: self._exchange(names, learners) for names in set(senders.values())}
        answers_of_exchange: dict[str, Losses] = yield Tell(
            {name: exchanges[names] for name, names in senders.items()},
            check=_check_losses(senders),
            measure={"learners": float(len(learners.names)), "models": float(max(map(len, exchanges)))},
        )
        losses = learners.losses(senders, answers_of_exchange)
        noise = {name: answer.noise for name, answer in answers_of_exchange.items()}
        clusters = cluster_learners(learners, losses, settings, earlier, rng, noise)

        truth = self.reference.truth(repetition) if self.reference.truth else {}
        usable = ~np.isinf(losses).any(axis=1)
        labels, pooled = clusters.labels, settings.pooled
        rows: dict[str, Rows] = {}
        if asked := _asked_for_rows(learners, labels, everybody=bool(truth)) if settings.pools_rows else []:
            rows = yield Tell(dict.fromkeys(asked, Pool(settings.standardize)), check=_check_rows(learners))
        retraining = Retraining.none(len(labels))
        if rows:
            partners = [partners_of(name, learners, labels, usable, truth) for name in learners.names]
            groups = (members for each in partners for members in each.values())
            retraining = retrain(learners, rows, groups, settings, int(rng.integers(2**31)))
        asks = {}
        for name in answers_of_exchange:
            mixture = mix_models(
                name,
                learners,
                labels,
                senders[name],
                usable=usable,
                pooled=pooled,
                truth=truth,
                personal=not pooled,
                retraining=retraining,
            )
            asks[name] = _ask(name, learners, clusters, mixture, settings, retraining)
        errors: dict[str, Errors] = yield Tell(asks, check=_check_errors(asks), measure=clusters.measure)
        return SECOutcome(
            learners=learners,
            clusters=clusters,
            errors={name: _by_combination(asks[name], answer, answer.errors) for name, answer in errors.items()},
            deviations={
                name: _by_combination(asks[name], answer, answer.deviations) for name, answer in errors.items()
            },
            n_test={name: answer.n_test for name, answer in errors.items()},
            noise={name: answer.noise for name, answer in errors.items()},
            center_errors=self._errors_at_center(learners, clusters.labels, usable, retraining),
            truth=np.array([truth.get(name, -1) for name in learners.names], np.int64),
            usable=usable,
            retraining=retraining,
            kept_rows=[name for name, answer in rows.items() if not len(answer.y)],
        )

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
        return Exchange(senders, models, self.settings.standardize, keep=not self.settings.pooled)

    def _errors_at_center(
        self,
        learners: Learners,
        labels: Int64[np.ndarray, "L"],
        usable: Bool[np.ndarray, "L"],
        retraining: Retraining,
    ) -> dict[str, dict[str, float]]:
        """Return the errors on the center's own test rows by learner and combination; empty without such rows."""
        columns = self.reference.test
        if not columns:
            return {}
        features = next(iter(learners.profiles.values())).features
        for name in (*features, self.target):
            if name not in columns:
                raise FusionError(f"the center's test file has no column of numbers {name!r}, which the learners use")
        x = np.column_stack([columns[name] for name in features])
        y, pooled = columns[self.target], self.settings.pooled
        return evaluate_on_test_rows(learners, labels, x, y, usable=usable, pooled=pooled, retraining=retraining)

    # -- checks -------------------------------------------------------------------------------------------------------

    def _check_fitted(self, site: str, answer: Fitted) -> None:
        def refuse(field: str, problem: str) -> None:
            raise PayloadError(answer.title(), field, problem)

        if not 2 <= answer.n <= MOST_ROWS:
            refuse("n", f"expected a number of rows from 2 to {MOST_ROWS}")
        if answer.sampled_from and not answer.n < answer.sampled_from <= MOST_ROWS:
            refuse("sampled_from", f"expected 0, or more rows than the {answer.n} of the sample, {MOST_ROWS} at most")
        if not 0 <= answer.error <= LARGEST_ERROR:
            refuse("error", f"expected a mean squared error from 0 to {LARGEST_ERROR:g}")
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
            inputs = check_model(answer.model)
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
            **paired_of(outcome),
        }

    def table(self, metrics: Mapping[str, float], outcome: SECOutcome) -> list[dict[str, Any]]:
        """Return a row for every cluster: its learners, the methods that they chose, and their mean errors."""
        return table_of(outcome)

    def excluded(self, outcome: SECOutcome) -> Mapping[str, str]:
        """Return the learners that were left out, and why."""
        return outcome.learners.excluded

    def notes(self, outcome: SECOutcome) -> list[str]:
        """Return sentences on learners that were not compared, are alone, or predict worse with their cluster."""
        return notes_on(outcome)


def from_config(config: Mapping[str, Any], **common: Any) -> SEC:
    """Return the strategy for a run configuration; `common` goes to `FusionStrategy`."""
    settings = Settings.of(config)
    if settings.k_method == "held-out" and not settings.k and settings.reference != "left-out":
        raise FusionError(
            f"sec.k-method=held-out needs errors on rows left out of the fit: set sec.reference=left-out, not"
            f" {settings.reference!r}, or set sec.k or another sec.k-method"
        )
    reference = common.get("reference")
    if settings.pools_rows and settings.standardize == "learner":
        raise FusionError(
            "rows that every learner has standardized by itself cannot be pooled: set sec.standardize=model, or another"
            " sec.combine"
        )
    if settings.pools_rows and reference and reference.earlier:
        raise FusionError(
            "sec.join and sec.combine=pooled-rows do not go together: the rows of the earlier run are not kept; set"
            " sec.combine=average in both"
        )
    if reference and reference.test and settings.standardize == "learner":
        raise FusionError(
            "models of standardized rows cannot predict the center's test rows: set sec.standardize=model, or remove"
            " the test file"
        )
    return SEC(settings=settings, target=str(config["target"]).strip(), **common)


def _asked_for_rows(learners: Learners, labels: Int64[np.ndarray, "L"], *, everybody: bool) -> list[str]:
    """Return the learners whose rows are asked for: those of a cluster of several.

    Where the true clusters are known, `everybody`: then the true ones and all learners together predict likewise.
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
        retrained=mixture.retrained,
        standardize=settings.standardize,
    )


def _by_combination(ask: Predict, answer: Errors, numbers: Float64[np.ndarray, "combinations"]) -> dict[str, float]:
    """Return a learner's numbers by combination: infinite where a prediction was not finite; none without test rows."""
    if not answer.n_test:
        return {}
    values: Float64[np.ndarray, "combinations"] = np.where(answer.finite, numbers, np.inf)
    return dict(zip(ask.combinations, values.tolist(), strict=True))


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


def _check_noise(answer: Losses | Errors) -> None:
    if not 0 <= answer.noise <= _MOST_NOISE:
        raise PayloadError(answer.title(), "noise", f"expected a share from 0 to {_MOST_NOISE:g}")


def _check_rows(learners: Learners) -> Check:
    def check(site: str, answer: Rows) -> None:
        profile = learners.profiles[site]
        expected = len(profile.features)
        if answer.x.shape[1] != expected:
            raise PayloadError(answer.title(), "x", f"expected {expected} columns, got {answer.x.shape[1]}")
        if len(answer.y) not in (0, profile.n):
            raise PayloadError(
                answer.title(), "y", f"expected none or the {profile.n} rows it learned from, got {len(answer.y)}"
            )

    return check


def _check_losses(senders: Mapping[str, tuple[str, ...]]) -> Check:
    def check(site: str, answer: Losses) -> None:
        expected = len(senders[site])
        if len(answer.losses) != expected:
            raise PayloadError(answer.title(), "losses", f"expected {expected} numbers, got {len(answer.losses)}")
        if ((answer.losses < 0) | (answer.losses > LARGEST_ERROR)).any():
            raise PayloadError(answer.title(), "losses", f"expected mean squared errors from 0 to {LARGEST_ERROR:g}")
        _check_noise(answer)

    return check


def _check_errors(asks: Mapping[str, Predict]) -> Check:
    def check(site: str, answer: Errors) -> None:
        expected = len(asks[site].combinations)
        if len(answer.errors) != expected:
            raise PayloadError(answer.title(), "errors", f"expected {expected} numbers, got {len(answer.errors)}")
        if answer.n_test < 0 or ((answer.errors < 0) | (answer.errors > LARGEST_ERROR)).any():
            raise PayloadError(answer.title(), "errors", f"expected mean squared errors from 0 to {LARGEST_ERROR:g}")
        _check_noise(answer)
        if len(answer.deviations) != expected or ((answer.deviations < 0) | (answer.deviations > LARGEST_ERROR)).any():
            raise PayloadError(answer.title(), "deviations", f"expected {expected} numbers from 0 to {LARGEST_ERROR:g}")

    return check
