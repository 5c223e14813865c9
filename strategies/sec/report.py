"""Outcome of a run of SEC, and its metrics, notes and table for the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped
from sklearn.metrics import adjusted_rand_score

from common.grouping import list_names
from numerics.sec.cluster_assignment import same_partition
from numerics.sec.recommendation import first_choice, is_reliable, is_same, noise_factor, recommend
from protocols.sec.payloads import Errors, Predict
from strategies.sec.classes import CenterScores, held_out_arrays, held_out_scores, mean_scores
from strategies.sec.learner_clusters import LearnerClusters
from strategies.sec.learners import Learners
from strategies.sec.retraining import Retraining

_MOST_LISTED = 12
"""Largest number of names in a note or in one cell of the table."""


@dataclass(frozen=True)
class SECOutcome:
    """Clusters of learners, and the errors with and without them.

    Attributes
    ----------
    learners : Learners
        All L learners.
    clusters : LearnerClusters
        Their clusters.
    errors : dict[str, dict[str, float]]
        Mean squared errors on the rows that a learner held out, by learner and combination; empty for a learner that
        held out none.
    untested : dict[str, str]
        By learner, the recommendation without such rows (`numerics.sec.recommendation.first_choice`).
    n_test : dict[str, int]
        Number of these rows by learner.
    noise : dict[str, float]
        Standard deviation of the noise in each of a learner's errors, in units of the most that one row can add.
    deviations : dict[str, dict[str, float]]
        Standard errors of the differences between these errors and that of the learner's `untested` choice.
    center : CenterScores
        Scores on the center's own test rows.
    truth : ndarray
        ``(L,)`` true clusters, -1 where unknown.
    senders : Mapping[str, tuple of str]
        By present learner, those whose models it got.
    usable : ndarray
        ``(L,)`` mask of the learners whose model predicted finite numbers on the rows of every site that tried it.
    retraining : Retraining
        Models of pooled rows.
    kept_rows : list of str
        Learners that were asked for rows and kept them.
    scores : dict[str, dict[str, list of float]]
        For classes, the scores on the rows that learners held out, by learner and combination.
    class_arrays : dict[str, ndarray]
        For classes, confusion matrix and reliability on the center's own test rows, else on rows that learners held
        out.
    """

    learners: Learners
    clusters: LearnerClusters
    errors: dict[str, dict[str, float]]
    deviations: dict[str, dict[str, float]]
    untested: dict[str, str]
    n_test: dict[str, int]
    noise: dict[str, float]
    center: CenterScores
    truth: Int64[np.ndarray, "L"]
    senders: Mapping[str, tuple[str, ...]]
    usable: Bool[np.ndarray, "L"]
    retraining: Retraining
    kept_rows: list[str]
    scores: dict[str, dict[str, list[float]]]
    class_arrays: dict[str, Shaped[np.ndarray, "..."]]

    @classmethod
    def of(
        cls,
        learners: Learners,
        clusters: LearnerClusters,
        asks: Mapping[str, Predict],
        answers: Mapping[str, Errors],
        center: CenterScores,
        **known: Any,
    ) -> SECOutcome:
        """Return the outcome of a run from the answers to its last asks; `known`: the other attributes."""
        return cls(
            learners,
            clusters,
            errors={name: _by_combination(asks[name], answer, answer.errors) for name, answer in answers.items()},
            deviations={
                name: _by_combination(asks[name], answer, answer.deviations) for name, answer in answers.items()
            },
            untested={name: first_choice(asks[name].combinations) for name in answers},
            n_test={name: answer.n_test for name, answer in answers.items()},
            noise={name: answer.noise for name, answer in answers.items()},
            center=center,
            scores=held_out_scores(asks, answers),
            class_arrays=center.arrays or held_out_arrays(answers),
            **known,
        )

    @property
    def prefix(self) -> str:
        """Prefix of the names of the metrics that are errors."""
        return "log_loss_" if self.learners.classes else "mse_"

    @cached_property
    def recommendations(self) -> dict[str, str]:
        """Recommended combination of each learner, by its held-out rows; without any, the first choice."""
        squared = not self.learners.classes
        return {
            name: recommend(each, self.deviations[name], self.n_test[name], self.noise[name], squared=squared)
            if each
            else self.untested[name]
            for name, each in self.errors.items()
        }

    @property
    def measure(self) -> dict[str, float]:
        """Numbers for the progress line of the last round."""
        return {**self.clusters.measure, **mean_errors(self.errors, self.prefix)}


def _by_combination(ask: Predict, answer: Errors, numbers: Float64[np.ndarray, "combinations"]) -> dict[str, float]:
    """Return a learner's numbers by combination: infinite where a prediction was not finite; none without test rows."""
    if not answer.n_test:
        return {}
    values: Float64[np.ndarray, "combinations"] = np.where(answer.finite, numbers, np.inf)
    return dict(zip(ask.combinations, values.tolist(), strict=True))


def mean_errors(errors: Mapping[str, Mapping[str, float]], prefix: str = "mse_") -> dict[str, float]:
    """Return the mean error over the learners by combination, without learners that have an infinite error.

    All combinations are averaged over the same learners, so that they can be compared.

    Examples
    --------
    >>> mean_errors({"a": {"alone": 4.0, "cluster": 2.0}, "b": {"alone": 2.0, "cluster": 1.0}, "c": {}})
    {'mse_alone': 3.0, 'mse_cluster': 1.5}
    """
    finite = _finite(errors)
    names = [name for name in (finite[0] if finite else ()) if all(name in each for each in finite)]
    return {f"{prefix}{name}": float(np.mean([each[name] for each in finite])) for name in names}


_Numbers = TypeVar("_Numbers")


def with_recommendation(
    numbers: Mapping[str, Mapping[str, _Numbers]], recommendations: Mapping[str, str]
) -> dict[str, dict[str, _Numbers]]:
    """Add to each learner's numbers by way that of the recommended way, as ``recommendation``.

    Examples
    --------
    >>> with_recommendation({"a": {"alone": 4.0, "cluster": 2.0}, "b": {}}, {"a": "cluster"})
    {'a': {'alone': 4.0, 'cluster': 2.0, 'recommendation': 2.0}, 'b': {}}
    """
    return {
        name: {**each, **({"recommendation": each[recommendations[name]]} if each and name in recommendations else {})}
        for name, each in numbers.items()
    }


def _finite(errors: Mapping[str, Mapping[str, float]]) -> list[Mapping[str, float]]:
    """Return the errors of the learners whose errors are all finite."""
    return [each for each in errors.values() if each and np.isfinite(list(each.values())).all()]


def paired_of(outcome: SECOutcome) -> dict[str, Float64[np.ndarray, "3"]]:
    """Compare the recommended error with that alone and that of all: difference, its standard error, held-out rows.

    The difference is a mean over the learners, whose samples are independent. A learner sends standard errors of
    differences from one way; that of a difference between two others is at most their sum. If a site's noise is large,
    its standard error is not reliable, and counts at least as much as that of two independent means of squared normal
    numbers.
    """
    errors = {name: each for name, each in outcome.errors.items() if each in _finite(outcome.errors)}
    pairs = {}
    for way in ("alone", "all"):
        if not errors or not all(way in each and way in outcome.deviations[name] for name, each in errors.items()):
            continue
        variances, differences = [], []
        for name, each in errors.items():
            best, n, noise = outcome.recommendations[name], outcome.n_test[name], outcome.noise[name]
            if best == way:
                continue
            apart = sum(outcome.deviations[name][one] for one in (best, way))
            variance = apart**2 * noise_factor(n, noise)
            if not is_reliable(noise):
                variance = max(variance, 4 / n * max(each[way], each[best]) ** 2)
            variances.append(variance)
            differences.append(each[best] - each[way])
        total = sum(outcome.n_test[name] for name in errors)
        error = float(np.sqrt(sum(variances))) / len(errors)
        pairs[f"paired_{outcome.prefix}{way}"] = np.array([sum(differences) / len(errors), error, total], float)
    return pairs


def metrics_of(outcome: SECOutcome) -> dict[str, float]:
    """Return the metrics of `report.json` by name (docs/sec.md)."""
    labels = outcome.clusters.labels
    metrics = {
        "n_clusters": float(outcome.clusters.n_clusters),
        "n_learners": float(len(labels)),
        "n_measured": float(len(_finite(outcome.errors))),
        **mean_errors(with_recommendation(outcome.errors, outcome.recommendations), outcome.prefix),
        **mean_errors(outcome.center.errors, f"{outcome.prefix}test_"),
        **mean_scores(with_recommendation(outcome.scores, outcome.recommendations)),
        **outcome.center.metrics,
    }
    if outcome.learners.classes:
        metrics["n_classes"] = float(len(outcome.learners.classes))
    if (labels < 0).any():
        metrics["n_unclustered"] = float((labels < 0).sum())
    known = ~outcome.learners.newcomer & (outcome.truth >= 0)
    if known.any():
        metrics["clusters_correct"] = float(same_partition(labels[known], outcome.truth[known]))
        metrics["adjusted_rand"] = float(adjusted_rand_score(outcome.truth[known], labels[known]))
    return metrics


def notes_on(outcome: SECOutcome) -> list[str]:
    """Return sentences on learners that were not compared, are alone, or predict worse with their cluster."""
    names, labels = np.array(outcome.learners.names), outcome.clusters.labels
    old = ~outcome.learners.newcomer
    notes = []
    if not outcome.usable.all():
        who = list_names([str(name) for name in names[~outcome.usable]], _MOST_LISTED)
        notes.append(f"{who}: left out of 'all', because the model's predictions are not finite at every site")
    if (labels < 0).any():
        who = list_names([str(name) for name in names[labels < 0]], _MOST_LISTED)
        notes.append(f"{who}: in no cluster, because too few losses compare them with others")
    guessed = not outcome.clusters.by_prediction
    if guessed and (old & (labels >= 0)).sum() == 2:
        notes.append("two learners have one dissimilarity, and nothing to compare it with: set sec.k to 1 or 2")
    if n_completed := outcome.clusters.n_completed:
        pairs = "a pair was" if n_completed == 1 else f"{n_completed} pairs were"
        notes.append(f"{pairs} not compared; the similarity was completed from those of the others")
    sizes = np.bincount(labels[old & (labels >= 0)])
    alone = [str(names[old & (labels == label)][0]) for label in np.flatnonzero(sizes == 1)]
    if guessed and alone and len(sizes) < 4 and sizes.sum() > 3:
        notes.append(
            f"{list_names(alone, _MOST_LISTED)}: alone in a cluster; one learner that is far from all others can hide"
            " other clusters: check its data (units? rows?), or leave it out"
        )
    sampled = [
        f"{name} ({each.n_fitted} of {each.sampled_from} rows)"
        for name, each in outcome.learners.profiles.items()
        if each.sampled_from
    ]
    if sampled:
        notes.append(f"{list_names(sampled, _MOST_LISTED)}: learned from a sample, which is the same in all runs")
    if outcome.kept_rows:
        who = list_names(outcome.kept_rows, _MOST_LISTED)
        notes.append(f"{who}: kept the rows (allow-pooling is not set there); the model that was sent counts instead")
    return [*notes, *_refutations(outcome)]


def _refutations(outcome: SECOutcome) -> list[str]:
    """Return a sentence on the learners that predict better without their cluster."""
    sizes = Counter(outcome.clusters.labels.tolist())
    labels = dict(zip(outcome.learners.names, outcome.clusters.labels.tolist(), strict=True))
    who = [
        name
        for name, way in outcome.recommendations.items()
        if way == "alone" and _is_refuted(outcome.errors[name]) and sizes[labels[name]] > 1
    ]
    if not who:
        return []
    return [
        f"{list_names(who, _MOST_LISTED)}: better alone; on the rows held out there the error with others is larger by"
        " more than chance explains"
    ]


def _is_refuted(errors: Mapping[str, float]) -> bool:
    """Return whether the error alone is smaller by more than rounding, unlike where sites have the same rows."""
    return bool(errors) and not is_same(errors["alone"], errors[first_choice(errors)])


def table_of(outcome: SECOutcome) -> list[dict[str, Any]]:
    """Return a row for every cluster, and one for the learners without a cluster."""
    rows = []
    names = np.array(outcome.learners.names)
    profiles = list(outcome.learners.profiles.values())
    for label in sorted(set(outcome.clusters.labels.tolist()), key=lambda label: (label < 0, label)):
        members = np.flatnonzero(outcome.clusters.labels == label)
        row: dict[str, Any] = {
            "cluster": "none" if label < 0 else label,
            "learners": len(members),
            "who": list_names([str(name) for name in names[members]], _MOST_LISTED),
        }
        best = Counter(
            outcome.recommendations[str(name)] for name in names[members] if str(name) in outcome.recommendations
        )
        if best:
            row["recommended"] = _list_counts(best)
        row["rows"] = sum(profiles[i].n_fitted for i in members)
        row["methods"] = _list_counts(Counter(profiles[i].method for i in members))
        held_out_errors = {str(name): outcome.errors.get(str(name), {}) for name in names[members]}
        row |= mean_errors(with_recommendation(held_out_errors, outcome.recommendations), outcome.prefix)
        center_errors = {str(name): outcome.center.errors.get(str(name), {}) for name in names[members]}
        row |= mean_errors(center_errors, f"{outcome.prefix}test_")
        rows.append(row)
    return rows


def _list_counts(methods: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(methods.items(), key=lambda each: (-each[1], each[0])))
