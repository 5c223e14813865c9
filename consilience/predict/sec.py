"""New rows by the models of SEC's clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Shaped

from clients.data import Table, numeric, setting
from consilience.predict import Used, UseError, Wish
from protocols.models import ModelError
from protocols.sec.settings import Settings
from strategies.column_names import listed
from strategies.sec.learners import learners_of
from strategies.sec.mixtures import by_cluster


def predicted(
    folder: Path,
    config: Mapping[str, Any],
    arrays: Mapping[str, Shaped[np.ndarray, "..."]],
    table: Table,
    wish: Wish,
) -> Used:
    """What every cluster predicts, or the one that is wished for; errors as of `consilience.predict.use`.

    Parameters
    ----------
    folder : Path
        What messages call the results.
    config : Mapping
        Settings of the run.
    arrays : Mapping[str, ndarray]
        Its ``arrays.npz`` (docs/sec.md).
    table : Table
        New rows.
    wish : Wish
        Which clusters.
    """
    settings = Settings.of(config)
    if settings.standardize == "learner":
        raise UseError(
            f"{folder}: every learner has standardised its rows by means and scales of its own, which nobody else has"
            " (sec.standardize=learner); learn again with sec.standardize=model, where scales are inside the models"
        )
    learners, labels = learners_of(arrays), arrays["labels"]
    clusters = _wished(folder, learners.names, labels, wish)
    x = np.column_stack([numeric(table, str(name), allow_missing=False) for name in arrays["features"]])
    try:
        told = by_cluster(learners, labels, x, pooled=settings.pooled)
    except (ModelError, ValueError) as error:  # of a model that takes other rows than the run's
        raise UseError(f"{folder}: a model cannot be used here: {error}") from error
    single = wish.cluster is not None or bool(wish.learner)
    columns = {"prediction" if single else f"cluster_{cluster}": told[cluster] for cluster in clusters}
    members = ~learners.newcomer
    lines = []
    for cluster, values in zip(clusters, columns.values(), strict=True):
        names = [name for name, own in zip(learners.names, members & (labels == cluster), strict=True) if own]
        lines.append(f"cluster_{cluster}: {listed(names)}{_not_finite(values)}")
    return Used(columns, [*lines, *_errors(config, table, clusters, list(columns.values()))])


def _wished(folder: Path, names: Sequence[str], labels: Shaped[np.ndarray, "L"], wish: Wish) -> list[int]:
    """The clusters to tell of."""
    n_clusters = int(labels.max(initial=-1)) + 1
    if not n_clusters:
        raise UseError(f"{folder}: no learner belongs to a cluster")
    if wish.learner and wish.cluster is not None:
        raise UseError("--cluster and --learner both say whose prediction is wanted; give one")
    if wish.learner:
        if wish.learner not in names:
            raise UseError(f"{folder}: no learner is called {wish.learner!r}; there are: {listed(names)}")
        cluster = int(labels[names.index(wish.learner)])
        if cluster < 0:
            raise UseError(f"{folder}: {wish.learner} belongs to no cluster")
        return [cluster]
    if wish.cluster is None:
        return list(range(n_clusters))
    if not 0 <= wish.cluster < n_clusters:
        raise UseError(f"{folder}: there is no cluster {wish.cluster}; they are numbered from 0 to {n_clusters - 1}")
    return [wish.cluster]


def _not_finite(values: Float64[np.ndarray, "n"]) -> str:
    lost = int((~np.isfinite(values)).sum())
    return f"; {lost} rows are beyond what its models can predict (inf)" if lost else ""


def _errors(
    config: Mapping[str, Any], table: Table, clusters: Sequence[int], predictions: Sequence[Float64[np.ndarray, "n"]]
) -> list[str]:
    """Mean squared errors, where the file has the outcome; rows without one do not count."""
    target = setting(config, "target")
    if not target or target not in table.columns:
        return []
    y = numeric(table, target, allow_missing=True)
    known = ~np.isnan(y)
    if not known.any():
        return []
    with np.errstate(over="ignore"):  # then it is told to be infinite
        losses = [float(np.mean((values[known] - y[known]) ** 2)) for values in predictions]
    told = [f"cluster_{cluster} {loss:.6g}" for cluster, loss in zip(clusters, losses, strict=True)]
    return [f"mean squared error of {target} on {known.sum()} rows: {', '.join(told)}"]
