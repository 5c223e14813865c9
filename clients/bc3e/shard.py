"""A site's data in bc3e: class and cluster labels, from its table or from its own function."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int

from clients.data import (
    DataError,
    Table,
    cell_name,
    load,
    match_columns,
    numeric,
    quote,
    setting,
    split_patterns,
)
from clients.data.blocks import parquet_tables
from clients.data.columns import Tables, of_each
from clients.data.entities import entity_names
from clients.data.files import data_file, parquet_schema
from clients.data.preparation import is_wanted
from numerics.bc3e.ensemble import Ensemble, Labels
from numerics.bc3e.reliability import is_confusion

DEFAULT_CLASSES = "class_*"
DEFAULT_CLUSTERS = "cluster_*"

SOFT_COLUMN = re.compile(r"(.+):(0|[1-9][0-9]*)")
"""Name of a column of probabilities: model and class."""
_Roles = tuple[list[str], list[str], str, str]
"""Columns of class labels and of cluster labels, and those of `truth` and `id`, empty if not set."""
_TOLERANCE = 1e-6
"""Largest difference of a sum of probabilities from 1; rounding to seven digits causes less."""
_MOST_LABELS = 10_000
"""Bound of a label, or ten times the number of rows if that is larger. Tables have a column for every label up to the
largest, so labels that are identifiers would make them huge."""
_SHOWN_LABELS = 6
_RESERVED = {"bc3e", "vote", "majority", "best_component"}
"""Names that the report uses for other accuracies than a classifier's."""


def open_shard(config: Mapping[str, object]) -> Ensemble:
    """Read the site's own labels.

    Parameters
    ----------
    config : Mapping
        Run configuration overridden by the node configuration: ``data``, which may be a function that returns an
        `Ensemble`, and the keys of `ensemble_from_table`.

    Raises
    ------
    DataError
        As `clients.data.load` and `ensemble_from_table`; or if a classifier has a name that the report uses.
    """
    path = Path(setting(config, "data"))
    if path.name.lower().endswith(".parquet") and not is_wanted(config):
        return labels_of(_ensemble_in_blocks(data_file(path), config), config)
    return labels_of(load(config, Ensemble), config)


def _ensemble_in_blocks(path: Path, config: Mapping[str, object]) -> Ensemble:
    """Read the labels in a Parquet file; one block of rows is in memory at a time, beside the labels of all."""
    schema, n = parquet_schema(path)
    classes, clusters, truth, entity = _roles(schema, config)
    numbers = [*classes, *clusters, *([truth] if truth else [])]
    parts, cells = [], []
    for table in parquet_tables(path, numbers, [entity] if entity else []):
        parts.append(_ensemble(table, (classes, clusters, truth, ""), n))
        if entity:
            cells.append(table.column(entity))
    names = replace(schema, columns={entity: np.concatenate(cells)}) if entity else None
    return Ensemble(
        n=n,
        classifiers={name: np.concatenate([part.classifiers[name] for part in parts]) for name in parts[0].classifiers},
        clusterings={name: np.concatenate([part.clusterings[name] for part in parts]) for name in parts[0].clusterings},
        truth=np.concatenate([part.truth for part in parts if part.truth is not None]) if truth else None,
        entity=entity_names(names, entity)[0] if names else None,
    )


def labels_of(loaded: Table | Ensemble, config: Mapping[str, object]) -> Ensemble:
    """Return the labels of a table, or of an ensemble; errors are those of `open_shard`."""
    ensemble = loaded if isinstance(loaded, Ensemble) else ensemble_from_table(loaded, config)
    for name in filter(is_confusion, ensemble.clusterings):
        raise DataError(f"a clustering cannot be called {name!r}; rename its column", "bad-configuration")
    for name in ensemble.classifiers:
        if name in _RESERVED or name.endswith("_se"):
            raise DataError(
                f"a classifier cannot be called {name!r} in the report; rename its column", "bad-configuration"
            )
    return ensemble


def ensemble_from_table(table: Table, config: Mapping[str, object]) -> Ensemble:
    """Return the labels that a site's classifiers and clusterings gave to its instances.

    A column of integers from 0 up has the hard labels of a model; an empty cell is no label. Columns ``NAME:0``,
    ``NAME:1``, ... have the soft labels of one model ``NAME``: probabilities that sum to 1; a row of empty cells is no
    label. Models are in the order of their names.

    Parameters
    ----------
    table : Table
        Table with one row per instance.
    config : Mapping
        ``classes`` and ``clusters``: names or globs of columns (default ``class_*`` and ``cluster_*``; empty for none).
        ``truth``: column of known classes, with empty cells where unknown. ``id``: column that names the instances.
        These two are never models, even if a glob matches them. ``from``: set in a run that predicts, where the
        column `truth` may be missing.

    Returns
    -------
    Ensemble
        Its `entity` is text, so that ``12`` in one file and ``"12"`` in another are the same instance.

    Raises
    ------
    DataError
        If there is no model, if a column does not hold labels, or if two rows have the same name.

    Examples
    --------
    >>> table = Table("wine", {"class_svm": np.array([0.0, np.nan]), "cluster_a": np.array([2, 0])})
    >>> ensemble = ensemble_from_table(table, {})
    >>> ensemble.classifiers["class_svm"].tolist(), ensemble.clusterings["cluster_a"].tolist()
    ([0, -1], [2, 0])
    """
    return _ensemble(table, _roles(table, config), table.n)


def _ensemble(table: Table, roles: _Roles, n: int) -> Ensemble:
    """Return the labels in a table that is all, or a part, of `n` rows."""
    classes, clusters, truth, entity = roles
    most = max(_MOST_LABELS, 10 * n)
    return Ensemble(
        n=table.n,
        classifiers=_models(table, classes, most),
        clusterings=_models(table, clusters, most),
        truth=_hard(table, truth, most) if truth else None,
        entity=entity_names(table, entity)[0] if entity else None,
    )


def check_columns(tables: Tables, config: Mapping[str, object]) -> None:
    """Refuse tables without a model, or without a column that the configuration names; sites may have other models."""
    roles = of_each(tables, lambda table: _roles(table, config))
    if not (config.get("bc3e.classes") or setting(config, "from") or any(classes for classes, *_ in roles.values())):
        patterns, known = setting(config, "classes", DEFAULT_CLASSES), next(iter(tables.values()))
        raise DataError(
            f"configuration: no site has a column of class labels (classes={patterns!r}): name them in classes, or set"
            f" bc3e.classes, the number of classes; {known.source} has {quote(known.columns)}",
            "missing-column",
        )


def check_together(shards: Mapping[str, Ensemble], center: Mapping[str, Any], config: Mapping[str, object]) -> None:
    """Refuse sites that would share instances by row number, and have unequal numbers of rows."""
    sizes = sorted({each.n for each in shards.values()})
    if config["bc3e.distribution"] == "arbitrary" and len(sizes) > 1 and any(s.entity is None for s in shards.values()):
        raise DataError(
            f"configuration: rows without a name are matched by their number, and the sites have {sizes[0]} to"
            f" {sizes[-1]} rows: name the instances in id",
            "bad-configuration",
        )


def _roles(table: Table, config: Mapping[str, object]) -> _Roles:
    """Return the columns of class labels and of cluster labels, and those of `truth` and `id` (empty if not set)."""
    truth, entity = setting(config, "truth"), setting(config, "id")
    if setting(config, "from") and truth not in table.columns:
        truth = ""  # the truth of new instances is seldom known
    roles = {name for name in (truth, entity) if name}
    for name in sorted(roles):
        table.column(name)
    patterns = setting(config, "classes", DEFAULT_CLASSES), setting(config, "clusters", DEFAULT_CLUSTERS)
    classes, clusters = (_model_columns(table, pattern, roles) for pattern in patterns)
    for name in classes:
        if name in clusters:
            raise DataError(
                f"{table.source}: column {name!r} is chosen by both classes={patterns[0]!r} and "
                f"clusters={patterns[1]!r}; change one",
                "bad-configuration",
            )
    if not classes and not clusters:
        raise DataError(
            f"{table.source}: no column of class labels (classes={patterns[0]!r}) and none of cluster labels "
            f"(clusters={patterns[1]!r}); it has {quote(table.columns)}",
            "missing-column",
        )
    return classes, clusters, truth, entity


def _model_columns(table: Table, patterns: str, roles: set[str]) -> list[str]:
    """Return the columns that match `patterns`, without those that have another role."""
    for name in split_patterns(patterns):
        if name in roles:
            raise DataError(
                f"configuration: column {name!r} is named as a model and as truth or id; it can be one only",
                "bad-configuration",
            )
    return [name for name in match_columns(table, patterns) if name not in roles]


def _models(table: Table, columns: Sequence[str], most: int) -> dict[str, Labels]:
    """Return labels by model, in the order of the models' names."""
    groups: dict[str, dict[int, str]] = {}
    for column in columns:
        soft = SOFT_COLUMN.fullmatch(column)
        if soft:
            groups.setdefault(soft[1], {})[int(soft[2])] = column
    models: dict[str, Labels] = {name: _soft(table, name, group) for name, group in groups.items()}
    for column in columns:
        if column in groups:
            raise DataError(
                f"{table.source}: column {column!r} has hard labels, and columns {column + ':0'!r}, ... have soft ones "
                "of the same model; remove one kind, or rename it",
                "bad-shape",
            )
        if not SOFT_COLUMN.fullmatch(column):
            models[column] = _hard(table, column, most)
    return dict(sorted(models.items()))


def label_numbers(table: Table, name: str) -> Float64[np.ndarray, "n"]:
    """Return a column of labels as numbers, NaN for an empty cell; of text the error says what to do."""
    try:
        return numeric(table, name, allow_missing=True)
    except DataError as error:
        if error.code != "not-numeric":
            raise
        texts = sorted({str(cell) for cell in table.columns[name].tolist() if cell is not None})[:_SHOWN_LABELS]
        hint = f"say which label is 0, 1, ..., as in ordinal='{name}={'<'.join(texts)}'; a glob names several columns"
        raise DataError(f"{error}; {hint}", error.code) from error


def _hard(table: Table, name: str, limit: int) -> Int[np.ndarray, "n"]:
    """Return ``(n,)`` integers from 0 up, below `limit`, and -1 for an empty cell, in the smallest type for them."""
    labels = label_numbers(table, name)
    known = ~np.isnan(labels)
    bad = known & ((labels < 0) | (labels >= limit) | (labels != np.floor(labels)))
    for row in np.flatnonzero(bad)[:1]:
        raise DataError(
            f"{cell_name(table, name, int(row))}: {labels[row]:.15g} is not a label; write whole numbers from 0 to "
            f"{limit - 1}, or leave the cell empty if there is no label",
            "label-out-of-range",
        )
    whole = np.where(known, labels, -1)
    return whole.astype(np.min_scalar_type(-1 - int(whole.max(initial=0))))


def _soft(table: Table, name: str, group: Mapping[int, str]) -> Float64[np.ndarray, "n k"]:
    """Return ``(n, k)`` probabilities, and a row of zeros if all cells are empty."""
    for j in range(len(group)):
        if j not in group:
            raise DataError(
                f"{table.source}: column {f'{name}:{max(group)}'!r} exists, but {f'{name}:{j}'!r} does not; number the "
                "probabilities of a model from 0 without a gap",
                "missing-column",
            )
    columns = [group[j] for j in range(len(group))]
    values = np.stack([numeric(table, column, allow_missing=True) for column in columns], axis=1)
    empty = np.isnan(values)
    unlabeled = empty.all(axis=1)
    for row, j in np.argwhere(empty & ~unlabeled[:, np.newaxis])[:1]:
        raise DataError(
            f"{cell_name(table, columns[j], int(row))}: is empty; give all probabilities of {name!r} in a row, or none",
            "missing-value",
        )
    for row, j in np.argwhere(values < 0)[:1]:
        raise DataError(
            f"{cell_name(table, columns[j], int(row))}: {values[row, j]:.15g} is negative; it must be a probability",
            "label-out-of-range",
        )
    values[unlabeled] = 0.0
    total = values.sum(axis=1)
    for row in np.flatnonzero(~unlabeled & (np.abs(total - 1) > _TOLERANCE))[:1]:
        raise DataError(
            f"{table.source}, {table.where(int(row))}: the probabilities of {name!r} sum to {total[row]:.9g}; they "
            "must sum to 1, or all be empty",
            "label-out-of-range",
        )
    normalized: Float64[np.ndarray, "n k"] = values / np.where(unlabeled, 1.0, total)[:, np.newaxis]
    return normalized
