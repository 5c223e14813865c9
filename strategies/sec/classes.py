"""Classes at the fusion center of sec: predictions by mixtures of class probabilities, and their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from numerics.sec.mixture import mix
from numerics.shared.classification import (
    SCORES,
    classification_scores,
    confusion,
    predicted_classes,
    reliability,
)
from numerics.shared.classifiers import probabilities_of
from protocols.models import decode_model
from protocols.sec.payloads import Errors, Predict
from strategies.sec.learners import Learners
from strategies.sec.mixtures import mix_models


@dataclass(frozen=True)
class CenterScores:
    """Scores of the predictions on the center's own test rows.

    Attributes
    ----------
    errors : dict[str, dict[str, float]]
        Mean squared errors, or log losses, by learner and combination.
    metrics : dict[str, float]
        For classes, the other scores: means over the learners, by name.
    arrays : dict[str, ndarray]
        For classes, confusion matrix and reliability of the clusters' predictions, summed over the learners.
    """

    errors: dict[str, dict[str, float]] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, Shaped[np.ndarray, "..."]] = field(default_factory=dict)


def all_probabilities(learners: Learners, x: Float64[np.ndarray, "t p"]) -> Float64[np.ndarray, "L t k"]:
    """Predict rows by the models of all learners.

    Raises
    ------
    ModelError
        If a model cannot be read.
    """
    models = [decode_model(each.model, len(each.classes)) for each in learners.profiles.values()]
    places = [learners.places(name) for name in learners.names]
    return probabilities_of(models, x, places, len(learners.classes), [float(n) for n in learners.n])


def predict_classes_by_cluster(
    learners: Learners, labels: Int64[np.ndarray, "L"], x: Float64[np.ndarray, "t p"]
) -> Float64[np.ndarray, "clusters t k"]:
    """Predict the probabilities of all classes by every cluster, as `strategies.sec.mixtures.predict_by_cluster`."""
    clusters = [~learners.newcomer & (labels == cluster) for cluster in range(int(labels.max()) + 1)]
    weights = np.where(clusters, learners.weights, 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    return mix_classes(weights, all_probabilities(learners, x))


def mix_classes(
    weights: Float64[np.ndarray, "mixtures L"], probabilities: Float64[np.ndarray, "L t k"]
) -> Float64[np.ndarray, "mixtures t k"]:
    """Mix the class probabilities of all learners (eq. 5)."""
    flat = mix(weights, probabilities.reshape(len(probabilities), -1))
    return flat.reshape(-1, *probabilities.shape[1:])


def score_on_test_rows(
    learners: Learners,
    labels: Int64[np.ndarray, "L"],
    x: Float64[np.ndarray, "t p"],
    y: Int64[np.ndarray, "t"],
    usable: Bool[np.ndarray, "L"],
) -> CenterScores:
    """Score the predictions of the center's own test rows by each learner and combination."""
    probabilities, k = all_probabilities(learners, x), len(learners.classes)
    errors, scores = {}, {}
    counts, points = np.zeros((k, k), np.int64), np.zeros(np.shape(reliability(np.eye(k), np.arange(k))))
    for place, name in enumerate(learners.names):
        mixture = mix_models(name, learners, labels, learners.names, usable=usable, pooled=False, truth={})
        weights = mixture.weights.copy()
        weights[:, place] += mixture.own
        mixed = mix_classes(weights, probabilities)
        of_each = {way: classification_scores(p, y) for way, p in zip(mixture.combinations, mixed, strict=True)}
        errors[name] = {way: each["log_loss"].value for way, each in of_each.items()}
        scores[name] = {way: [each[score].value for score in SCORES] for way, each in of_each.items()}
        cluster = mixed[mixture.combinations.index("cluster")]
        counts += confusion(y, predicted_classes(cluster), k)
        points += np.stack(reliability(cluster, y))
    # No standard errors: the rows are the same for all learners.
    return CenterScores(errors, mean_scores(scores, "test_"), {"confusion": counts, "reliability": points})


def mean_scores(scores: Mapping[str, Mapping[str, Sequence[float]]], prefix: str = "") -> dict[str, float]:
    """Return the mean over the learners of each score but the log loss, by ``SCORE_WAY``.

    Learners for whom a score is not defined (an AUC of rows of one class) are left out of it, for all ways alike.

    Examples
    --------
    >>> scores = {"a": {"alone": [0.3, 0.9, 0.9, 0.95, 0.1, 0.0]}, "b": {"alone": [0.3, 0.8, 0.7, -1.0, 0.2, 0.1]}}
    >>> mean_scores(scores)["accuracy_alone"].__round__(3), mean_scores(scores)["auc_alone"]
    (0.85, 0.95)
    """
    metrics: dict[str, float] = {}
    tables = [each for each in scores.values() if each]
    ways = [way for way in (tables[0] if tables else ()) if all(way in each for each in tables)]
    for place, name in enumerate(SCORES):
        known = [each for each in tables if all(each[way][place] >= 0 for way in ways)]
        if name == "log_loss" or not known:
            continue
        for way in ways:
            metrics[f"{name}_{prefix}{way}"] = float(np.mean([each[way][place] for each in known]))
    return metrics


def held_out_scores(asks: Mapping[str, Predict], answers: Mapping[str, Errors]) -> dict[str, dict[str, list[float]]]:
    """Return the scores on the rows that learners held out by learner and combination, of learners that sent some."""
    return {
        name: dict(zip(asks[name].combinations, answer.scores.tolist(), strict=True))
        for name, answer in answers.items()
        if answer.scores.size
    }


def held_out_arrays(answers: Mapping[str, Errors]) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Return confusion matrix and reliability on the rows that learners held out, summed over the learners."""
    measured = [answer for answer in answers.values() if answer.confusion.size and answer.reliability.size]
    if not measured:
        return {}
    return {
        "confusion": np.sum([answer.confusion for answer in measured], axis=0),
        "reliability": np.sum([answer.reliability for answer in measured], axis=0),
    }
