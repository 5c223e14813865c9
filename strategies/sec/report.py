"""What a run of SEC found, in numbers and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int64
from sklearn.metrics import adjusted_rand_score

from numerics.meta_clustering import same_partition
from strategies.sec.grouping import Grouping
from strategies.sec.learners import Learners

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
    """

    learners: Learners
    grouping: Grouping
    errors: dict[str, dict[str, float]]
    center_errors: dict[str, dict[str, float]]
    truth: Int64[np.ndarray, "L"]

    @property
    def measure(self) -> dict[str, float]:
        """For the progress line of the last round."""
        return {**self.grouping.measure, **mean_errors(self.errors)}


def mean_errors(errors: Mapping[str, Mapping[str, float]], prefix: str = "mse_") -> dict[str, float]:
    """Mean over the learners of their errors, by combination; learners with an error that is not finite are left out.

    All combinations are averaged over the same learners, or they could not be compared.
    """
    usable = [each for each in errors.values() if each and np.isfinite(list(each.values())).all()]
    names = [name for name in (usable[0] if usable else ()) if all(name in each for each in usable)]
    return {f"{prefix}{name}": float(np.mean([each[name] for each in usable])) for name in names}


def metrics_of(outcome: Outcome) -> dict[str, float]:
    """Names and numbers of `report.json` (docs/sec.md)."""
    labels = outcome.grouping.labels
    found = {
        "n_clusters": float(outcome.grouping.n_clusters),
        "n_learners": float(len(labels)),
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
        row["who"] = _listed([str(name) for name in names[members]])
        rows.append(row)
    return rows


def _counted(methods: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(methods.items(), key=lambda each: (-each[1], each[0])))


def _listed(names: list[str]) -> str:
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
