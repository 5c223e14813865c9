"""New rows by the models of the clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Shaped

from clients.data import Table, numeric
from clients.data import setting as text_setting
from clients.data.target import class_labels
from common.grouping import list_names
from common.settings import Settings, setting
from common.value_ranges import at_least, below
from consilience.predict.interface import LearnedRun, Predictions, RequestError
from numerics.shared.classification import classification_scores, prediction_columns
from protocols.models import ModelError
from protocols.sec import settings as sec
from server.report.classification import SCORE_WORDS
from server.report.formatting import with_error
from strategies.sec.classes import predict_classes_by_cluster
from strategies.sec.learners import Learners, learners_of
from strategies.sec.mixtures import predict_by_cluster
from strategies.sec.retraining import retraining_of


@dataclass(frozen=True)
class Options(Settings):
    """Whose prediction is wanted."""

    cluster: int = setting(-1, "predict by this cluster", at_least(-1), words="by all")
    learner: str = setting("", "predict by this learner's cluster", words="by all")
    threshold: float = setting(
        0.0, "two classes: probability of the second one from which on to predict it", below(1), words="1/2"
    )


def predict(run: LearnedRun, table: Table, options: Options) -> Predictions:
    """Predict by every cluster, or by the one that the options name (`consilience.predict.interface`)."""
    folder, config, arrays = run.folder, run.config, run.arrays
    settings = sec.Settings.of(config)
    if settings.standardize == "learner":
        raise RequestError(
            f"{folder}: every learner has standardized its rows by means and scales of its own, which nobody else has"
            " (sec.standardize=learner); learn again with sec.standardize=model, where scales are inside the models"
        )
    learners, labels = learners_of(arrays), arrays["labels"]
    cluster, learner = options.cluster, options.learner
    clusters = _chosen(folder, learners.names, labels, cluster, learner)
    x = np.column_stack([numeric(table, str(name), allow_missing=False) for name in arrays["features"]])
    single = cluster >= 0 or bool(learner)
    names_of = {each: "prediction" if single else f"cluster_{each}" for each in clusters}
    try:
        if learners.classes:
            probabilities = predict_classes_by_cluster(learners, labels, x)
            columns = _class_columns(learners, probabilities, names_of, options.threshold)
            errors = _scores(config, table, learners, probabilities, clusters)
            values = [each.max(axis=1) for each in probabilities[clusters]]
        else:
            if options.threshold:
                raise RequestError(f"{folder}: threshold is for two classes, and the run has amounts; leave it out")
            predictions = predict_by_cluster(
                learners, labels, x, pooled=settings.pooled, retraining=retraining_of(arrays)
            )
            columns = {names_of[each]: predictions[each] for each in clusters}
            values = list(columns.values())
            errors = _errors(config, table, clusters, values)
    except (ModelError, ValueError) as error:  # of a model that takes other rows than the run's
        raise RequestError(f"{folder}: a model cannot be used here: {error}") from error
    members = ~learners.newcomer
    lines = []
    for each, predicted in zip(clusters, values, strict=True):
        names = [name for name, own in zip(learners.names, members & (labels == each), strict=True) if own]
        lines.append(f"cluster_{each}: {list_names(names)}{_not_finite(predicted)}")
    return Predictions(columns, [*lines, *errors])


def _class_columns(
    learners: Learners,
    probabilities: Float64[np.ndarray, "clusters n k"],
    names: Mapping[int, str],
    threshold: float,
) -> dict[str, Shaped[np.ndarray, "n"]]:
    """Return for every cluster the predicted class of each row, and the probability of each class."""
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
    probabilities: Float64[np.ndarray, "clusters n k"],
    clusters: Sequence[int],
) -> list[str]:
    """Return the scores of every cluster, where the file has the outcome of each row."""
    target = text_setting(config, "target")
    if not target or target not in table.columns:
        return []
    places = {label: place for place, label in enumerate(learners.classes)}
    labels = class_labels(table, target).tolist()
    if unknown := sorted(set(labels) - set(places)):
        return [f"{target} has the class {unknown[0]!r}, which no site had: no scores"]
    y = np.array([places[label] for label in labels], np.int64)
    lines = []
    for cluster in clusters:
        scores = classification_scores(probabilities[cluster], y)
        words = ", ".join(
            f"{SCORE_WORDS[name]} {with_error(each.value, each.se) if np.isfinite(each.se) else f'{each.value:.3g}'}"
            for name, each in scores.items()
            if np.isfinite(each.value)
        )
        lines.append(f"cluster_{cluster} on {len(y)} rows: {words}")
    return lines


def _chosen(
    folder: Path, names: Sequence[str], labels: Shaped[np.ndarray, "L"], cluster: int, learner: str
) -> list[int]:
    """Return the clusters to predict by."""
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


def _not_finite(values: Float64[np.ndarray, "n"]) -> str:
    lost = int((~np.isfinite(values)).sum())
    return f"; {lost} rows are beyond what its models can predict (inf)" if lost else ""


def _errors(
    config: Mapping[str, Any], table: Table, clusters: Sequence[int], predictions: Sequence[Float64[np.ndarray, "n"]]
) -> list[str]:
    """Return mean squared errors, where the file has the outcome; rows without one do not count."""
    target = text_setting(config, "target")
    if not target or target not in table.columns:
        return []
    y = numeric(table, target, allow_missing=True)
    known = ~np.isnan(y)
    if not known.any():
        return []
    with np.errstate(over="ignore"):  # the error is then infinite
        losses = [float(np.mean((values[known] - y[known]) ** 2)) for values in predictions]
    errors = [f"cluster_{cluster} {loss:.6g}" for cluster, loss in zip(clusters, losses, strict=True)]
    return [f"mean squared error of {target} on {known.sum()} rows: {', '.join(errors)}"]
