"""Classes in the report of any protocol: meanings of the scores, arrays of a run, and a table of the classes.

The arrays have the same names in all protocols: `classes`, and where predictions were compared with known classes
`confusion` (rows by true class and predicted class) and `reliability` (`numerics.shared.classification.Reliability`,
one line a field).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int64, Shaped

from numerics.shared.classification import Reliability
from server.report.protocol import Meaning, higher, lower

_SCORES: Mapping[str, Meaning] = {
    "log_loss": lower("log loss (probabilities clipped at 1e-6)"),
    "accuracy": higher("accuracy", share=True),
    "balanced_accuracy": higher("balanced accuracy (mean share of each class that is recognized)", share=True),
    "auc": higher("area under the ROC curve (several classes: mean of each against the rest)"),
    "brier": lower("Brier score"),
    "calibration_error": lower("expected calibration error", share=True),
}

SCORE_WORDS: Mapping[str, str] = {
    "log_loss": "log loss",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "auc": "AUC",
    "brier": "Brier score",
    "calibration_error": "calibration error",
}
"""Scores in a few words."""


def score_meanings(ways: Mapping[str, str]) -> dict[str, Meaning]:
    """Return the meanings of the metrics ``SCORE_WAY``, of `numerics.shared.classification.as_metrics`.

    Parameters
    ----------
    ways : Mapping[str, str]
        Ways to predict, by the suffix of their metrics, in words; an empty suffix: none.

    Examples
    --------
    >>> score_meanings({"alone": "every learner alone"})["auc_alone"].words
    'area under the ROC curve (several classes: mean of each against the rest), every learner alone'
    """
    return {
        f"{name}_{way}" if way else name: Meaning(
            f"{each.words}, {words}" if words else each.words, each.better, each.share
        )
        for way, words in ways.items()
        for name, each in _SCORES.items()
    }


def reliability_of(arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> Reliability:
    """Return the points of the reliability diagram from the arrays of a run."""
    return Reliability(*np.asarray(arrays["reliability"], np.float64))


def class_table(classes: Sequence[str], counts: Int64[np.ndarray, "k k"]) -> list[dict[str, Any]]:
    """Return a row for every class: how often it is true, predicted, recognized where true, and true where predicted.

    Examples
    --------
    >>> class_table(("no", "yes"), np.array([[3, 1], [0, 2]]))[1]
    {'class': 'yes', 'rows': 2, 'predicted': 3, 'recognized': 1.0, 'right': 0.667}
    """

    def share(part: int, whole: int) -> float | None:
        return round(part / whole, 3) if whole else None

    return [
        {
            "class": label,
            "rows": int(counts[place].sum()),
            "predicted": int(counts[:, place].sum()),
            "recognized": share(int(counts[place, place]), int(counts[place].sum())),
            "right": share(int(counts[place, place]), int(counts[:, place].sum())),
        }
        for place, label in enumerate(classes)
    ]
