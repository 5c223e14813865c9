"""What a run of SEC found, in numbers and as a table."""

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
from strategies.sec.grouping import Grouping
from strategies.sec.learners import Learners

_WORSE = 2.0
"""How many times its own error a learner's error with its cluster is when the reader is told."""
_SHOWN = 12
"""Names in one cell of the table."""


@dataclass(frozen=True)
class Outcome:
    """What SEC learnt.

    Attributes
    ----------
    learners : Learners
        What each showed.
    grouping : Grouping
        Their clusters.
    errors : dict[str, dict[str, float]]
        By learner and combination, mean squared error on the rows it held out; a learner without such rows has none.
    center_errors : dict[str, dict[str, float]]
        Likewise on the center's own test rows.
    truth : ndarray
        ``(L,)`` true clusters, -1 where unknown.
    fit : ndarray
        ``(L,)``, whose model predicted finite numbers wherever it was tried.
    """

    learners: Learners
    grouping: Grouping
    errors: dict[str, dict[str, float]]
    center_errors: dict[str, dict[str, float]]
    truth: Int64[np.ndarray, "L"]
    fit: Bool[np.ndarray, "L"]

    @property
    def measure(self) -> dict[str, float]:
        """For the progress line of the last round."""
        return {**self.grouping.measure, **mean_errors(self.errors)}


def mean_errors(errors: Mapping[str, Mapping[str, float]], prefix: str = "mse_") -> dict[str, float]:
    """Mean over the learners of their errors, by combination; learners with an error that is not finite are left out.

    All combinations are averaged over the same learners, or they could not be compared.
    """
    usable = _measured(errors)
    names = [name for name in (usable[0] if usable else ()) if all(name in each for each in usable)]
    return {f"{prefix}{name}": float(np.mean([each[name] for each in usable])) for name in names}


def _measured(errors: Mapping[str, Mapping[str, float]]) -> list[Mapping[str, float]]:
    """The learners whose errors are all finite."""
    return [each for each in errors.values() if each and np.isfinite(list(each.values())).all()]


def metrics_of(outcome: Outcome) -> dict[str, float]:
    """Names and numbers of `report.json` (docs/sec.md)."""
    labels = outcome.grouping.labels
    found = {
        "n_clusters": float(outcome.grouping.n_clusters),
        "n_learners": float(len(labels)),
        "n_measured": float(len(_measured(outcome.errors))),
        **mean_errors(outcome.errors),
        **mean_errors(outcome.center_errors, "mse_test_"),
    }
    if (labels < 0).any():
        found["n_unclustered"] = float((labels < 0).sum())
    judged = ~outcome.learners.newcomer & (outcome.truth >= 0)
    if judged.any():
        found["clusters_correct"] = float(same_partition(labels[judged], outcome.truth[judged]))
        found["adjusted_rand"] = float(adjusted_rand_score(outcome.truth[judged], labels[judged]))
    return found


def notes_on(outcome: Outcome) -> list[str]:
    """Sentences for the reader: who could not be compared, stands alone, or is worse off with its cluster."""
    names, labels = np.array(outcome.learners.names), outcome.grouping.labels
    old = ~outcome.learners.newcomer
    found = []
    if not outcome.fit.all():
        who = list_names([str(name) for name in names[~outcome.fit]], _SHOWN)
        found.append(f"{who}: the model's predictions are not finite for everybody; left out of 'all'")
    if (labels < 0).any():
        who = list_names([str(name) for name in names[labels < 0]], _SHOWN)
        found.append(f"{who}: too little is known to say whom they belong with")
    if (old & (labels >= 0)).sum() == 2:
        found.append("two learners have one dissimilarity, which says nothing of its size: set sec.k to 1 or 2")
    if guessed := outcome.grouping.n_completed:
        pairs = "a pair was" if guessed == 1 else f"{guessed} pairs were"
        found.append(f"{pairs} not compared, but completed from the others' similarities")
    sizes = np.bincount(labels[old & (labels >= 0)])
    alone = [str(names[old & (labels == label)][0]) for label in np.flatnonzero(sizes == 1)]
    if alone and len(sizes) < 4 and sizes.sum() > 3:
        found.append(
            f"{list_names(alone, _SHOWN)}: alone in a cluster; one learner that is far off can hide other groups: look"
            " at its data (units? rows?), or leave it out"
        )
    worse = [
        name
        for name, each in outcome.errors.items()
        if each and np.isfinite(each["cluster"]) and each["cluster"] > _WORSE * each["alone"]
    ]
    if worse:
        found.append(
            f"{list_names(worse, _SHOWN)}: predict worse with their cluster than alone on the rows they held out"
        )
    return found


def table_of(outcome: Outcome) -> list[dict[str, Any]]:
    """A row for every cluster, and one for those who belong to none."""
    rows = []
    names = np.array(outcome.learners.names)
    shown = list(outcome.learners.shown.values())
    for label in sorted(set(outcome.grouping.labels.tolist()), key=lambda label: (label < 0, label)):
        members = np.flatnonzero(outcome.grouping.labels == label)
        row: dict[str, Any] = {
            "cluster": "none" if label < 0 else label,
            "learners": len(members),
            "rows": sum(shown[i].n for i in members),
            "methods": _counted(Counter(shown[i].method for i in members)),
        }
        inside = {str(name): outcome.errors.get(str(name), {}) for name in names[members]}
        row |= mean_errors(inside)
        center = {str(name): outcome.center_errors.get(str(name), {}) for name in names[members]}
        row |= mean_errors(center, "mse_test_")
        row["who"] = list_names([str(name) for name in names[members]], _SHOWN)
        rows.append(row)
    return rows


def _counted(methods: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(methods.items(), key=lambda each: (-each[1], each[0])))
