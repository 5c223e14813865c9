"""The outcome of a run of SEC, and what the report says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64
from sklearn.metrics import adjusted_rand_score

from numerics.sec.cluster_assignment import same_partition
from strategies.column_names import list_names
from strategies.sec.learner_clusters import LearnerClusters
from strategies.sec.learners import Learners

_WORSE = 2.0
"""Ratio of a learner's error with its cluster to its error alone above which a note says so."""
_MOST_LISTED = 12
"""Names in one cell of the table."""


@dataclass(frozen=True)
class SECOutcome:
    """Clusters of learners, and the errors with and without them.

    Attributes
    ----------
    learners : Learners
        All L of them.
    clusters : LearnerClusters
        Their clusters.
    errors : dict[str, dict[str, float]]
        By learner and combination, mean squared error on the rows it held out; a learner without such rows has none.
    center_errors : dict[str, dict[str, float]]
        Likewise on the center's own test rows.
    truth : ndarray
        ``(L,)`` true clusters, -1 where unknown.
    usable : ndarray
        ``(L,)`` mask of the learners whose model predicted finite numbers wherever it was tried.
    """

    learners: Learners
    clusters: LearnerClusters
    errors: dict[str, dict[str, float]]
    center_errors: dict[str, dict[str, float]]
    truth: Int64[np.ndarray, "L"]
    usable: Bool[np.ndarray, "L"]

    @property
    def measure(self) -> dict[str, float]:
        """For the progress line of the last round."""
        return {**self.clusters.measure, **mean_errors(self.errors)}


def mean_errors(errors: Mapping[str, Mapping[str, float]], prefix: str = "mse_") -> dict[str, float]:
    """Return the mean error over the learners by combination, without learners that have an infinite error.

    All combinations are averaged over the same learners, or they could not be compared.
    """
    finite = _finite(errors)
    names = [name for name in (finite[0] if finite else ()) if all(name in each for each in finite)]
    return {f"{prefix}{name}": float(np.mean([each[name] for each in finite])) for name in names}


def _finite(errors: Mapping[str, Mapping[str, float]]) -> list[Mapping[str, float]]:
    """Return the errors of the learners whose errors are all finite."""
    return [each for each in errors.values() if each and np.isfinite(list(each.values())).all()]


def metrics_of(outcome: SECOutcome) -> dict[str, float]:
    """Return names and numbers of `report.json` (docs/sec.md)."""
    labels = outcome.clusters.labels
    metrics = {
        "n_clusters": float(outcome.clusters.n_clusters),
        "n_learners": float(len(labels)),
        "n_measured": float(len(_finite(outcome.errors))),
        **mean_errors(outcome.errors),
        **mean_errors(outcome.center_errors, "mse_test_"),
    }
    if (labels < 0).any():
        metrics["n_unclustered"] = float((labels < 0).sum())
    judged = ~outcome.learners.newcomer & (outcome.truth >= 0)
    if judged.any():
        metrics["clusters_correct"] = float(same_partition(labels[judged], outcome.truth[judged]))
        metrics["adjusted_rand"] = float(adjusted_rand_score(outcome.truth[judged], labels[judged]))
    return metrics


def notes_on(outcome: SECOutcome) -> list[str]:
    """Return sentences for the reader: which learners were not compared, stand alone, or predict worse together."""
    names, labels = np.array(outcome.learners.names), outcome.clusters.labels
    old = ~outcome.learners.newcomer
    notes = []
    if not outcome.usable.all():
        who = list_names([str(name) for name in names[~outcome.usable]], _MOST_LISTED)
        notes.append(f"{who}: the model's predictions are not finite for everybody; left out of 'all'")
    if (labels < 0).any():
        who = list_names([str(name) for name in names[labels < 0]], _MOST_LISTED)
        notes.append(f"{who}: too little is known to say whom they belong with")
    if (old & (labels >= 0)).sum() == 2:
        notes.append("two learners have one dissimilarity, which says nothing of its size: set sec.k to 1 or 2")
    if n_completed := outcome.clusters.n_completed:
        pairs = "a pair was" if n_completed == 1 else f"{n_completed} pairs were"
        notes.append(f"{pairs} not compared, but completed from the others' similarities")
    sizes = np.bincount(labels[old & (labels >= 0)])
    alone = [str(names[old & (labels == label)][0]) for label in np.flatnonzero(sizes == 1)]
    if alone and len(sizes) < 4 and sizes.sum() > 3:
        notes.append(
            f"{list_names(alone, _MOST_LISTED)}: alone in a cluster; one learner that is far off can hide other"
            " clusters: look at its data (units? rows?), or leave it out"
        )
    worse = [
        name
        for name, each in outcome.errors.items()
        if each and np.isfinite(each["cluster"]) and each["cluster"] > _WORSE * each["alone"]
    ]
    if worse:
        notes.append(
            f"{list_names(worse, _MOST_LISTED)}: predict worse with their cluster than alone on the rows they held out"
        )
    return notes


def table_of(outcome: SECOutcome) -> list[dict[str, Any]]:
    """Return a row for every cluster, and one for the learners that belong to none."""
    rows = []
    names = np.array(outcome.learners.names)
    profiles = list(outcome.learners.profiles.values())
    for label in sorted(set(outcome.clusters.labels.tolist()), key=lambda label: (label < 0, label)):
        members = np.flatnonzero(outcome.clusters.labels == label)
        row: dict[str, Any] = {
            "cluster": "none" if label < 0 else label,
            "learners": len(members),
            "rows": sum(profiles[i].n for i in members),
            "methods": _list_counts(Counter(profiles[i].method for i in members)),
        }
        inside = {str(name): outcome.errors.get(str(name), {}) for name in names[members]}
        row |= mean_errors(inside)
        center = {str(name): outcome.center_errors.get(str(name), {}) for name in names[members]}
        row |= mean_errors(center, "mse_test_")
        row["who"] = list_names([str(name) for name in names[members]], _MOST_LISTED)
        rows.append(row)
    return rows


def _list_counts(methods: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(methods.items(), key=lambda each: (-each[1], each[0])))
