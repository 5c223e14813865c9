"""Scores of predicted class probabilities, with standard errors, which scikit-learn does not have.

The values are those of `sklearn.metrics`, whose functions refuse rows of a single class and take a second to import.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from numerics.shared.classes import SMALLEST_PROBABILITY, one_hot

BINS = 10
"""Bins of a reliability diagram, of equal width."""

SCORES = ("log_loss", "accuracy", "balanced_accuracy", "auc", "brier", "calibration_error")
"""Names of the scores of `classification_scores`."""


class Score(NamedTuple):
    """A score and its standard error over the rows; NaN where undefined, such as the AUC of rows of one class."""

    value: float
    se: float


class Reliability(NamedTuple):
    """Points of a reliability diagram.

    Attributes
    ----------
    counts : ndarray
        ``(bins,)`` number of rows whose predicted class has a probability in the bin.
    predicted : ndarray
        ``(bins,)`` sum of these probabilities.
    right : ndarray
        ``(bins,)`` number of these rows that have the predicted class.
    """

    counts: Float64[np.ndarray, "bins"]
    predicted: Float64[np.ndarray, "bins"]
    right: Float64[np.ndarray, "bins"]

    def error(self) -> float:
        """Return the expected calibration error (Naeini, Cooper and Hauskrecht 2015); NaN without rows."""
        total = self.counts.sum()
        return float(np.abs(self.right - self.predicted).sum() / total) if total else np.nan


def log_losses(probabilities: Float64[np.ndarray, "n k"], y: Int64[np.ndarray, "n"]) -> Float64[np.ndarray, "n"]:
    """Compute minus the logarithm of the probability of each row's class, clipped at 1e-6: between 0 and 13.8.

    Examples
    --------
    >>> log_losses(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0, 1])).round(3)
    array([ 0.693, 13.816])
    """
    return log_losses_of(probabilities[np.arange(len(y)), y])


def log_losses_of(right: Float64[np.ndarray, "*rows"]) -> Float64[np.ndarray, "*rows"]:
    """Compute `log_losses` from the probabilities of the rows' classes; NaN stays NaN."""
    return np.asarray(-np.log(np.clip(right, SMALLEST_PROBABILITY, 1.0)))


def smoothed_log_losses(
    probabilities: Float64[np.ndarray, "n k"], y: Int64[np.ndarray, "n"]
) -> Float64[np.ndarray, "n"]:
    """Compute log losses of smoothed labels: a row has its class by n parts in n + 1, and any class by the other one.

    One imaginary row counts for all classes alike (Perks 1947), as in `numerics.shared.classes.align_probabilities`. So
    a few rows that are all right do not ask for probabilities of 1 (Szegedy et al. 2016, section 7).

    Examples
    --------
    >>> surer = np.array([[0.9, 0.1], [0.999, 0.001]])
    >>> log_losses(surer, np.array([0, 0])).round(3), smoothed_log_losses(surer, np.array([0, 0])).round(3)
    (array([0.105, 0.001]), array([0.472, 1.152]))
    """
    logs, n = -np.log(np.clip(probabilities, SMALLEST_PROBABILITY, 1.0)), len(y)
    return np.asarray((n * logs[np.arange(n), y] + logs.mean(axis=1)) / (n + 1))


def brier_losses(probabilities: Float64[np.ndarray, "n k"], y: Int64[np.ndarray, "n"]) -> Float64[np.ndarray, "n"]:
    """Compute the squared distance of each row's probabilities from its class; with two classes, half of it.

    The Brier score of two classes is then the mean squared error of the probability, as in scikit-learn.

    Examples
    --------
    >>> brier_losses(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0, 1]))
    array([0.25, 1.  ])
    """
    n_classes = probabilities.shape[1]
    squares = np.square(probabilities - one_hot(y, n_classes)).sum(axis=1)
    return np.asarray(squares / 2 if n_classes == 2 else squares)


def predicted_classes(
    probabilities: Float64[np.ndarray, "n k"], threshold: float | None = None
) -> Int64[np.ndarray, "n"]:
    """Return the place of the most probable class; with a threshold, the second of two classes if it reaches that.

    Examples
    --------
    >>> p = np.array([[0.7, 0.3], [0.4, 0.6]])
    >>> predicted_classes(p), predicted_classes(p, threshold=0.25)
    (array([0, 1]), array([1, 1]))
    """
    if threshold is None or probabilities.shape[1] != 2:
        return np.asarray(probabilities.argmax(axis=1))
    return np.asarray((probabilities[:, 1] >= threshold).astype(np.int64))


def prediction_columns(
    predicted: Float64[np.ndarray, "n ..."], classes: Sequence[str], name: str = "prediction", threshold: float = 0.0
) -> dict[str, Shaped[np.ndarray, "n"]]:
    """Return the columns of a file of predictions: amounts, or each row's class and the probability of every class.

    Examples
    --------
    >>> {name: column.tolist() for name, column in prediction_columns(np.array([[0.25, 0.75]]), ("no", "yes")).items()}
    {'prediction': ['yes'], 'prediction_no': [0.25], 'prediction_yes': [0.75]}
    """
    if not len(classes):
        return {name: predicted}
    labels = np.array(classes)[predicted_classes(predicted, threshold or None)]
    return {name: labels, **{f"{name}_{label}": predicted[:, place] for place, label in enumerate(classes)}}


def best_threshold(probabilities: Float64[np.ndarray, "n k"], y: Int64[np.ndarray, "n"]) -> float:
    """Return the threshold on the probability of the second of two classes with the best balanced accuracy.

    The rows must not be those that the model learned from. A threshold is the middle of a gap between two
    probabilities. Of equally good ones, the nearest to 1/2 is returned; 1/2 if the rows have one class.

    Source: Youden (1950).

    Examples
    --------
    >>> p = np.array([0.1, 0.2, 0.3, 0.4])
    >>> best_threshold(np.column_stack([1 - p, p]), np.array([0, 0, 1, 1]))
    0.25
    """
    positive = probabilities[:, 1]
    values = np.unique(positive)
    if len(np.unique(y)) < 2 or len(values) < 2:
        return 0.5
    thresholds = (values[1:] + values[:-1]) / 2
    by_class = np.sort(positive[y == 1]), np.sort(positive[y == 0])
    sensitivity, false_positives = (1 - np.searchsorted(each, thresholds) / len(each) for each in by_class)
    youden = sensitivity - false_positives
    best = thresholds[youden >= youden.max() - 1e-12]
    return float(best[np.abs(best - 0.5).argmin()])


def confusion(y: Int64[np.ndarray, "n"], predicted: Int64[np.ndarray, "n"], n_classes: int) -> Int64[np.ndarray, "k k"]:
    """Count rows by true class (row of the result) and predicted class (column).

    Examples
    --------
    >>> confusion(np.array([0, 0, 1]), np.array([0, 1, 1]), 2)
    array([[1, 1],
           [0, 1]])
    """
    counts = np.bincount(y * n_classes + predicted, minlength=n_classes**2)
    return np.asarray(counts.reshape(n_classes, n_classes), np.int64)


def reliability(probabilities: Float64[np.ndarray, "n k"], y: Int64[np.ndarray, "n"]) -> Reliability:
    """Count rows by the probability of their predicted class, in `BINS` bins of equal width.

    Counts of several sites can be summed. With two classes the predicted one has a probability of 1/2 or more.

    Examples
    --------
    >>> reliability(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0])).error()
    0.45
    """
    predicted = probabilities.argmax(axis=1)
    sure = probabilities[np.arange(len(y)), predicted]
    bins = np.clip((sure * BINS).astype(np.int64), 0, BINS - 1)
    right = (predicted == y).astype(np.float64)
    return Reliability(*(np.bincount(bins, weight, BINS) for weight in (np.ones(len(y)), sure, right)))


def class_arrays(
    classes: Sequence[str],
    probabilities: Float64[np.ndarray, "n k"],
    y: Int64[np.ndarray, "n"],
) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Return the arrays of a run whose predictions are compared with known classes (`server.report.classification`).

    Examples
    --------
    >>> arrays = class_arrays(("no", "yes"), np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0]))
    >>> arrays["confusion"].tolist()
    [[1, 1], [0, 0]]
    """
    predicted = predicted_classes(probabilities)
    return {
        "classes": np.array(classes),
        "confusion": confusion(y, predicted, len(classes)),
        "reliability": np.stack(reliability(probabilities, y)),
    }


def auc(probabilities: Float64[np.ndarray, "n k"], y: Int64[np.ndarray, "n"]) -> Score:
    """Compute the area under the ROC curve: of two classes, or the mean over several, each against the rest.

    Classes that no row has, or all have, are left out. The standard error is that of DeLong, DeLong and Clarke-Pearson
    (1988), from the placement of each row; a row's placements against several classes are averaged.

    Examples
    --------
    >>> p = np.array([0.1, 0.4, 0.35, 0.8])
    >>> auc(np.column_stack([1 - p, p]), np.array([0, 0, 1, 1])).value
    0.75
    """
    from scipy.stats import rankdata  # importing it takes a while

    n_classes = probabilities.shape[1]
    areas, influences = [], []
    for place in range(n_classes) if n_classes > 2 else (1,):
        positive: Bool[np.ndarray, "n"] = y == place
        m, n = int(positive.sum()), int((~positive).sum())
        if not m or not n:
            continue
        scores = probabilities[:, place]
        ranks = rankdata(scores)
        # Share of the other class's rows against which a row is ranked correctly.
        placements = np.empty(len(y))
        placements[positive] = (ranks[positive] - rankdata(scores[positive])) / n
        placements[~positive] = 1 - (ranks[~positive] - rankdata(scores[~positive])) / m
        area = float(placements[positive].mean())
        areas.append(area)
        influences.append(np.where(positive, (placements - area) / m, (placements - area) / n))
    if not areas:
        return Score(np.nan, np.nan)
    return Score(float(np.mean(areas)), float(np.sqrt(np.square(np.mean(influences, axis=0)).sum())))


def classification_scores(probabilities: Float64[np.ndarray, "n k"], y: Int64[np.ndarray, "n"]) -> dict[str, Score]:
    """Compute all `SCORES` of predicted probabilities.

    Parameters
    ----------
    probabilities : ndarray
        ``(n, k)``, which sum to 1.
    y : ndarray
        ``(n,)`` places of the true classes.

    Returns
    -------
    dict of Score
        ``log_loss`` (clipped at 1e-6), ``accuracy``, ``balanced_accuracy`` (mean recall of the classes that the rows
        have), ``auc`` (macro, one against the rest), ``brier`` and ``calibration_error`` (without a standard error).

    Raises
    ------
    ValueError
        If there are no rows.

    Examples
    --------
    >>> scores = classification_scores(np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), np.array([0, 1, 1]))
    >>> {name: round(score.value, 3) for name, score in scores.items()}  # doctest: +NORMALIZE_WHITESPACE
    {'log_loss': 0.415, 'accuracy': 0.667, 'balanced_accuracy': 0.75, 'auc': 1.0, 'brier': 0.137,
     'calibration_error': 0.3}
    """
    if not len(y):
        raise ValueError("there is no row to score")
    n_classes = probabilities.shape[1]
    right = (predicted_classes(probabilities) == y).astype(np.float64)
    recalls = [right[y == place] for place in range(n_classes) if (y == place).any()]
    balanced = Score(
        float(np.mean([each.mean() for each in recalls])),
        float(np.sqrt(sum(_mean(each).se ** 2 for each in recalls)) / len(recalls)),
    )
    return {
        "log_loss": _mean(log_losses(probabilities, y)),
        "accuracy": _mean(right),
        "balanced_accuracy": balanced,
        "auc": auc(probabilities, y),
        "brier": _mean(brier_losses(probabilities, y)),
        "calibration_error": Score(reliability(probabilities, y).error(), np.nan),
    }


def score_row(probabilities: Float64[np.ndarray, "n k"], y: Int64[np.ndarray, "n"]) -> Float64[np.ndarray, "12"]:
    """Return the values of `SCORES`, then their standard errors, as numbers to send; -1 where one is not defined.

    Examples
    --------
    >>> row = score_row(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0]))
    >>> scores_in(row)["accuracy"].value, bool(np.isnan(scores_in(row)["auc"].value))
    (0.5, True)
    """
    scores = classification_scores(probabilities, y)
    values = np.array([[scores[name].value, scores[name].se] for name in SCORES]).T.ravel()
    return np.asarray(np.nan_to_num(values, nan=-1.0))


def scores_in(row: Float64[np.ndarray, "12"]) -> dict[str, Score]:
    """Return the scores in a row of `score_row`."""
    values, errors = np.where(row < 0, np.nan, row).reshape(2, -1).tolist()
    return {name: Score(value, se) for name, value, se in zip(SCORES, values, errors, strict=True)}


def as_metrics(scores: Mapping[str, Score], suffix: str = "") -> dict[str, float]:
    """Return scores as metrics of a report, ``NAME_SUFFIX``; those not defined are left out.

    Examples
    --------
    >>> as_metrics({"auc": Score(0.8, 0.1), "brier": Score(float("nan"), float("nan"))}, "alone")
    {'auc_alone': 0.8}
    """
    defined = {name: score.value for name, score in scores.items() if np.isfinite(score.value)}
    return {f"{name}_{suffix}" if suffix else name: value for name, value in defined.items()}


def _mean(values: Float64[np.ndarray, "n"]) -> Score:
    n = len(values)
    return Score(float(values.mean()), float(values.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan)
