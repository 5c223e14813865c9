"""Predictions of new rows by the models of the clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Shaped

from clients.data import DataError, Table, numeric, read_table
from clients.data import setting as text_setting
from clients.data.target import class_names, rows_with_class
from common.grouping import list_names
from common.settings import Settings, setting
from common.value_ranges import at_least, below
from consilience.predict.interface import LearnedRun, Predictions, RequestError
from numerics.sec.sharpening import sharpened
from numerics.shared.classification import classification_scores, prediction_columns
from protocols.models import ModelError
from protocols.sec import settings as sec
from server.report.classification import SCORE_WORDS
from server.report.formatting import counted, with_error
from strategies.sec.classes import all_probabilities, mix_classes, predict_classes_by_cluster
from strategies.sec.learners import Learners, learners_of
from strategies.sec.mixtures import predict_by_cluster, predict_by_weights
from strategies.sec.retraining import retraining_of


@dataclass(frozen=True)
class Options(Settings):
    """Choice of the predicting cluster, learner or weights."""

    cluster: int = setting(-1, "predict by this cluster", at_least(-1), words="by all")
    learner: str = setting("", "predict as the run recommends to this learner", words="by all clusters")
    weights: str = setting("", "predict by the learners and weights of this file (personal.csv)", path=True)
    threshold: float = setting(
        0.0, "two classes: probability of the second one from which on to predict it", below(1), words="1/2"
    )


@dataclass(frozen=True)
class _Mixture:
    """Weights of the models of all learners, and of classes a power of the probabilities (`personal.csv`)."""

    who: str
    shares: Float64[np.ndarray, "L"]
    power: float = 1.0


def predict(run: LearnedRun, table: Table, options: Options) -> Predictions:
    """Predict by every cluster, as the options name, or as the run recommends (`consilience.predict.interface`)."""
    folder, config, arrays = run.folder, run.config, run.arrays
    settings = sec.Settings.of(config)
    if settings.standardize == "learner":
        raise RequestError(
            f"{folder}: every learner has standardized its rows by means and scales of its own, which nobody else has"
            " (sec.standardize=learner); learn again with sec.standardize=model, where scales are inside the models"
        )
    learners, labels = learners_of(arrays), arrays["labels"]
    clusters = _chosen(folder, learners.names, labels, options)
    mixture, advice = _mixture(options, folder, learners, arrays)
    clusters = [0] if mixture else clusters
    x = np.column_stack([numeric(table, str(name), allow_missing=False) for name in arrays["features"]])
    single = options.cluster >= 0 or bool(options.learner or options.weights)
    names_of = {each: "prediction" if single else f"cluster_{each}" for each in clusters}
    who = [mixture.who] if mixture else [f"cluster_{each}" for each in clusters]
    try:
        if learners.classes:
            probabilities = (
                sharpened(mix_classes(mixture.shares[np.newaxis], all_probabilities(learners, x))[0], mixture.power)[
                    np.newaxis
                ]
                if mixture
                else predict_classes_by_cluster(learners, labels, x)
            )
            columns = _class_columns(learners, probabilities, names_of, options.threshold)
            errors = _scores(config, table, learners, dict(zip(who, probabilities[clusters], strict=True)))
            values = [each.max(axis=1) for each in probabilities[clusters]]
        else:
            if options.threshold:
                raise RequestError(f"{folder}: threshold is for two classes, and the run has amounts; leave it out")
            predictions = (
                predict_by_weights(learners, mixture.shares[np.newaxis], x)
                if mixture
                else predict_by_cluster(learners, labels, x, pooled=settings.pooled, retraining=retraining_of(arrays))
            )
            columns = {names_of[each]: predictions[each] for each in clusters}
            values = list(columns.values())
            errors = _errors(config, table, who, values)
    except (ModelError, ValueError) as error:  # of a model that takes other rows than the run's
        raise RequestError(f"{folder}: a model cannot be used here: {error}") from error
    lines = []
    for each, word, predicted in zip(clusters, who, values, strict=True):
        members = mixture.shares > 0 if mixture else ~learners.newcomer & (labels == each)
        names = [name for name, own in zip(learners.names, members, strict=True) if own]
        lines.append(f"{word}: {list_names(names)}{_not_finite(predicted)}")
    return Predictions(columns, [*lines, *advice, *errors])


def _class_columns(
    learners: Learners,
    probabilities: Float64[np.ndarray, "clusters n k"],
    names: Mapping[int, str],
    threshold: float,
) -> dict[str, Shaped[np.ndarray, "n"]]:
    """Return by cluster the predicted class of each row, and the probability of each class."""
    classes = learners.classes
    if threshold and len(classes) != 2:
        raise RequestError(f"threshold is for two classes, and the run has {len(classes)}; leave it out")
    columns: dict[str, Shaped[np.ndarray, "n"]] = {}
    for cluster, name in names.items():
        columns |= prediction_columns(probabilities[cluster], classes, name, threshold)
    return columns


def _scores(
    config: Mapping[str, Any],
    table: Table,
    learners: Learners,
    predicted: Mapping[str, Float64[np.ndarray, "n k"]],
) -> list[str]:
    """Return the scores of every prediction, over the rows with an outcome in the file."""
    target = text_setting(config, "target")
    if not target or target not in table.columns:
        return []
    places = {label: place for place, label in enumerate(learners.classes)}
    known = rows_with_class(table, target)
    labels = class_names(table, target, known)
    if not labels:
        return []
    if unknown := sorted(set(labels) - set(places)):
        return [f"{target} has the class {unknown[0]!r}, which no site had: no scores"]
    y = np.array([places[label] for label in labels], np.int64)
    lines = []
    for name, probabilities in predicted.items():
        scores = classification_scores(probabilities[known], y)
        words = ", ".join(
            f"{SCORE_WORDS[score]} {with_error(each.value, each.se) if np.isfinite(each.se) else f'{each.value:.3g}'}"
            for score, each in scores.items()
            if np.isfinite(each.value)
        )
        lines.append(f"{name} on {counted(len(y), 'row')}: {words}")
    return lines


def _chosen(folder: Path, names: Sequence[str], labels: Shaped[np.ndarray, "L"], options: Options) -> list[int]:
    """Return the clusters to predict by."""
    cluster, learner = options.cluster, options.learner
    if options.weights and (learner or cluster >= 0):
        raise RequestError("weights and learner or cluster choose different predictions; set one")
    n_clusters = int(labels.max(initial=-1)) + 1
    if not n_clusters:
        raise RequestError(f"{folder}: no learner belongs to a cluster")
    if learner and cluster >= 0:
        raise RequestError("cluster and learner both choose a cluster; set one")
    if learner:
        if learner not in names:
            raise RequestError(f"{folder}: no learner is called {learner!r}; there are: {list_names(names)}")
        cluster = int(labels[names.index(learner)])
        if cluster < 0:
            raise RequestError(f"{folder}: {learner} belongs to no cluster")
        return [cluster]
    if cluster < 0:
        return list(range(n_clusters))
    if cluster >= n_clusters:
        raise RequestError(f"{folder}: there is no cluster {cluster}; they are numbered from 0 to {n_clusters - 1}")
    return [cluster]


def _mixture(
    options: Options, folder: Path, learners: Learners, arrays: Mapping[str, Shaped[np.ndarray, "..."]]
) -> tuple[_Mixture | None, list[str]]:
    """Return the mixture of models to predict by, None for clusters, and a sentence on what is recommended."""
    if options.weights:
        return _read_mixture(options.weights, learners), []
    recommended = dict(zip(learners.names, arrays["recommended"].tolist(), strict=True))
    if not options.learner:
        ways = Counter(way for way in recommended.values() if way and options.cluster < 0)
        counts = ", ".join(f"{way} to {counted(n, 'learner')}" for way, n in sorted(ways.items()))
        return None, [f"recommended: {counts}; learner=NAME predicts so"] if counts else []
    name, way = options.learner, recommended[options.learner]
    if way == "alone":
        return _Mixture(f"{name} alone", (np.array(learners.names) == name).astype(np.float64)), []
    if way != "personal":
        return None, []
    file = folder / "sites" / name / "personal.csv"
    if file.is_file():
        return _read_mixture(str(file), learners), []
    return None, [f"recommended to {name}: its personal weights, which only it has; set weights=FILE, its personal.csv"]


def _read_mixture(file: str, learners: Learners) -> _Mixture:
    """Read the learners and weights of a file, which have the sum 1, and the power of classes."""
    try:
        table = read_table(file, own=False, text=["learner"])
        weights = dict(
            zip(table.columns["learner"].tolist(), numeric(table, "weight", allow_missing=False), strict=True)
        )
        powers = numeric(table, "power", allow_missing=False) if learners.classes else np.ones(1)
    except (DataError, KeyError) as error:
        raise RequestError(f"weights={file}: {error}; name a personal.csv of this run") from None
    if unknown := sorted(set(weights) - set(learners.names)):
        raise RequestError(f"weights={file}: the run has no learner {unknown[0]!r}")
    shares = np.array([weights.get(name, 0.0) for name in learners.names])
    if (shares < 0).any() or not np.isclose(shares.sum(), 1.0):
        raise RequestError(f"weights={file}: the weights are not 0 or greater with the sum 1")
    if (powers <= 0).any() or np.ptp(powers) > 0:
        raise RequestError(f"weights={file}: the power is not one number above 0")
    return _Mixture("personal", shares, float(powers[0]))


def _not_finite(values: Float64[np.ndarray, "n"]) -> str:
    lost = int((~np.isfinite(values)).sum())
    return f"; {lost} rows are beyond what its models can predict (inf)" if lost else ""


def _errors(
    config: Mapping[str, Any], table: Table, names: Sequence[str], predictions: Sequence[Float64[np.ndarray, "n"]]
) -> list[str]:
    """Return mean squared errors over the rows with an outcome in the file."""
    target = text_setting(config, "target")
    if not target or target not in table.columns:
        return []
    y = numeric(table, target, allow_missing=True)
    known = ~np.isnan(y)
    if not known.any():
        return []
    with np.errstate(over="ignore"):  # the error is then infinite
        losses = [float(np.mean((values[known] - y[known]) ** 2)) for values in predictions]
    errors = [f"{name} {loss:.6g}" for name, loss in zip(names, losses, strict=True)]
    return [f"mean squared error of {target} on {counted(known.sum(), 'row')}: {', '.join(errors)}"]
