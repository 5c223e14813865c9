"""From a party's table to the class and cluster labels that BC3E takes, and what a party is told about them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float64, Int64

from clients.data import DataError, Table, cell_name, match_columns, numeric, quoted, setting, split_patterns
from clients.data.entities import entity_names
from numerics.bc3e.ensemble import Ensemble, Labels, n_values, present

DEFAULT_CLASSES = "class_*"
DEFAULT_CLUSTERS = "cluster_*"

_SOFT = re.compile(r"(.+):(0|[1-9][0-9]*)")
_TOLERANCE = 1e-6  # a row of probabilities may miss 1 by what rounding to seven digits loses
_MOST_LABELS = 10_000
"""A label may be so large, or ten times the number of rows: tables have a column for every label up to the largest, and
identifiers of clusters in the place of their numbers would make them huge."""


def ensemble_from_table(table: Table, config: Mapping[str, object], n_classes: int | None = None) -> Ensemble:
    """The labels that a party's classifiers and clusterings gave to its instances.

    A column of integers from 0 is a model of hard labels; an empty cell means that the model gave none. Columns
    ``NAME:0``, ``NAME:1``, ... are one model ``NAME`` of soft labels: probabilities that sum to 1, all of a row empty
    where the model gave none. Models come in the order of their names.

    Parameters
    ----------
    table : Table
        One row an instance.
    config : Mapping
        ``classes`` and ``clusters``: names and globs (default ``class_*`` and ``cluster_*``; empty for none);
        ``truth``: the column of known classes, empty cells where unknown; ``id``: the column that names the
        instances. The last two are no models, whatever the globs say. ``from``: the run predicts, and `truth` need not
        be there.
    n_classes : int or None
        Number of classes where the run fixes it; None or 0: not fixed.

    Returns
    -------
    Ensemble
        `entity` as text, so that ``12`` of one file and ``"12"`` of another are the same instance.

    Raises
    ------
    DataError
        If there is no model, a column is no labels, or two rows are named alike.
    """
    truth, entity = setting(config, "truth"), setting(config, "id")
    if setting(config, "from") and truth not in table.columns:
        truth = ""  # what the run has learnt with was known; of new instances it seldom is
    roles = {name for name in (truth, entity) if name}
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
            f"{table.source}: no column of class labels ({patterns[0] or 'none asked for'}) and none of cluster "
            f"labels ({patterns[1] or 'none asked for'}); it has {quoted(table.columns)}",
            "missing-column",
        )
    return Ensemble(
        n=table.n,
        classifiers=_models(table, classes, n_classes or None),
        clusterings=_models(table, clusters, None),
        truth=_hard(table, truth, n_classes or None) if truth else None,
        entity=entity_names(table, entity)[0] if entity else None,
    )


def _model_columns(table: Table, patterns: str, roles: set[str]) -> list[str]:
    """The columns that hold labels by models: what `patterns` chooses, less the columns that have another role."""
    for name in split_patterns(patterns):
        if name in roles:
            raise DataError(
                f"configuration: column {name!r} is named as a model and as truth or id; it can be one only",
                "bad-configuration",
            )
    return [name for name in match_columns(table, patterns) if name not in roles]


def _models(table: Table, columns: Sequence[str], n_classes: int | None) -> dict[str, Labels]:
    """Labels by model, in the order of the models' names."""
    groups: dict[str, dict[int, str]] = {}
    for column in columns:
        soft = _SOFT.fullmatch(column)
        if soft:
            groups.setdefault(soft[1], {})[int(soft[2])] = column
    models: dict[str, Labels] = {name: _soft(table, name, group, n_classes) for name, group in groups.items()}
    for column in columns:
        if column in groups:
            raise DataError(
                f"{table.source}: {column!r} holds hard labels and {column + ':0'!r} and the like soft ones; keep "
                "one kind of a model, or rename one",
                "bad-shape",
            )
        if not _SOFT.fullmatch(column):
            models[column] = _hard(table, column, n_classes)
    return dict(sorted(models.items()))


def _hard(table: Table, name: str, n_classes: int | None) -> Int64[np.ndarray, "n"]:
    """Integers from 0 on, -1 where the cell is empty."""
    labels = numeric(table, name, allow_missing=True)
    known = ~np.isnan(labels)
    limit = n_classes or max(_MOST_LABELS, 10 * table.n)
    bad = known & ((labels < 0) | (labels >= limit) | (labels != np.floor(labels)))
    for row in np.flatnonzero(bad)[:1]:
        raise DataError(
            f"{cell_name(table, name, int(row))}: {labels[row]:.15g} is not a label; labels are whole numbers from 0 "
            f"to {limit - 1} (number them from 0), an empty cell where there is none",
            "label-out-of-range",
        )
    return np.where(known, labels, -1).astype(np.int64)


def _soft(table: Table, name: str, group: Mapping[int, str], n_classes: int | None) -> Float64[np.ndarray, "n k"]:
    """Rows of probabilities, a row of zeros where all cells are empty."""
    for j in range(len(group)):
        if j not in group:
            raise DataError(
                f"{table.source}: there is {f'{name}:{max(group)}'!r} but no column {f'{name}:{j}'!r}; number the "
                "probabilities of a model from 0 without a gap",
                "missing-column",
            )
    if n_classes is not None and len(group) > n_classes:
        raise DataError(
            f"{table.source}: {name!r} has probabilities of {len(group)} classes; the run has {n_classes}",
            "label-out-of-range",
        )
    columns = [group[j] for j in range(len(group))]
    values = np.stack([numeric(table, column, allow_missing=True) for column in columns], axis=1)
    empty = np.isnan(values)
    none = empty.all(axis=1)
    for row, j in np.argwhere(empty & ~none[:, np.newaxis])[:1]:
        raise DataError(
            f"{cell_name(table, columns[j], int(row))}: is empty; give all probabilities of {name!r} in a row, or none",
            "missing-value",
        )
    for row, j in np.argwhere(values < 0)[:1]:
        raise DataError(
            f"{cell_name(table, columns[j], int(row))}: {values[row, j]:.15g} is negative; it must be a probability",
            "label-out-of-range",
        )
    values[none] = 0.0
    total = values.sum(axis=1)
    for row in np.flatnonzero(~none & (np.abs(total - 1) > _TOLERANCE))[:1]:
        raise DataError(
            f"{table.source}, {table.where(int(row))}: the probabilities of {name!r} sum to {total[row]:.9g}; they "
            "must sum to 1, or all be empty",
            "label-out-of-range",
        )
    normalised: Float64[np.ndarray, "n k"] = values / np.where(none, 1.0, total)[:, np.newaxis]
    return normalised


# --- What a party is told -----------------------------------------------------------------------------------------


def describe(
    ensemble: Ensemble, table: Table | None, config: Mapping[str, object], n_classes: int | None = None
) -> list[str]:
    """What BC3E would use of a party's data, and what would leave the site, in plain words.

    Parameters
    ----------
    ensemble : Ensemble
        As `ensemble_from_table` made it of `table`, or as the party's function returned it.
    table : Table or None
        None if there was no table.
    config, n_classes
        As given to `ensemble_from_table`.

    Returns
    -------
    list of str
        Lines to print.
    """
    k = n_classes or max((n_values(labels) for labels in ensemble.classifiers.values()), default=0)
    used = [f"{table.source if table else setting(config, 'data')}: {ensemble.n} rows, one an instance", ""]
    used += ["What would be used"]
    used += _model_lines("classifier", "classes", ensemble.classifiers)
    used += _model_lines("clustering", "clusters", ensemble.clusterings)
    used += _role_lines(ensemble, table, config)
    return [
        *used,
        "",
        *_row_lines(ensemble, k),
        "",
        *_shared_lines(
            ensemble,
            k,
            secret=bool(setting(config, "align-key-file")),
            consent=bool(config.get("allow-single-model") or config.get("bc3e.allow-single-model")),
        ),
        "",
        *_private_lines(ensemble),
    ]


def _model_lines(kind: str, values: str, models: Mapping[str, Labels]) -> list[str]:
    """A line for each model: how many values, how many rows without a label."""
    lines = []
    for name, labels in models.items():
        form = "probabilities of" if labels.ndim == 2 else "labels of"
        missing = 1 - present(labels).mean() if len(labels) else 0.0
        without = f"{missing:.1%} of the rows without one" if missing else "in every row"
        lines.append(f"  {kind} {name}: {form} {n_values(labels)} {values}, {without}")
    return lines or [f"  no {kind}"]


def _role_lines(ensemble: Ensemble, table: Table | None, config: Mapping[str, object]) -> list[str]:
    """Truth, entity, and what is left over."""
    truth, entity = setting(config, "truth"), setting(config, "id")
    lines = ["  truth: not known, so nothing is evaluated here"]
    if ensemble.truth is not None:
        lines = [f"  truth{f' {truth}' if truth else ''}: known for {(ensemble.truth >= 0).sum()} of {ensemble.n} rows"]
    lines.append("  entity: none, the rows go by their numbers")
    if ensemble.entity is not None:
        lines[-1] = f"  entity{f' {entity}' if entity else ''}: names every row"
    if table is not None:
        models = {*ensemble.classifiers, *ensemble.clusterings}
        unused = [name for name in table.columns if name not in {*models, truth, entity} and _base(name) not in models]
        lines.append(f"  columns not used: {', '.join(unused) or 'none'}")
    return lines


def _base(column: str) -> str:
    """The model that a column of probabilities belongs to; else the column's own name."""
    soft = _SOFT.fullmatch(column)
    return soft[1] if soft else column


def _row_lines(ensemble: Ensemble, k: int) -> list[str]:
    """What leaves the site where each site holds instances of its own."""
    classes = str(k) if k else "k"
    lines = ["What would leave this site, row distribution (each site holds its own instances)"]
    lines += ["  once: the number of rows, the models' names with their numbers of classes or clusters, and whether"]
    lines += ["  truth is known; every round:"]
    for name, labels in ensemble.clusterings.items():
        size = n_values(labels)
        if labels.ndim == 2:
            sums = "the sums of its probabilities"
        else:
            counts = np.bincount(labels[labels >= 0], minlength=size)
            rarest = f" (the rarest stands for {counts[counts > 0].min()} of your rows)" if counts.any() else ""
            sums = f"the exact histogram of its labels{rarest}"
        lines += [f"    {name}: a table of {classes} x {size} expected counts, whose column sums are"]
        lines += [f"      {sums}"]
    total = sum(n_values(labels) for labels in ensemble.clusterings.values())
    lines += [f"    the number of instances, {ensemble.n}"]
    lines += [f"    {classes} numbers: the logarithms of the class probabilities, summed over all instances"]
    lines += ["    1 number: this site's part of the bound"]
    lines += [f"  together {k * (total + 1) + 2 if k else f'k x {total + 1} + 2'} numbers a round, however many rows"]
    if ensemble.truth is not None:
        methods = ", ".join(["bc3e", "vote", *ensemble.classifiers])
        lines += [f"  at the end: how many rows were counted and how many were right, for each of {methods}"]
    return lines


def _shared_lines(ensemble: Ensemble, k: int, *, secret: bool, consent: bool) -> list[str]:
    """What leaves the site where several sites hold labels of the same instances.

    `secret`: they share one. `consent`: to give a single model's labels away.
    """
    r1, r2 = len(ensemble.classifiers), len(ensemble.clusterings)
    each = f"{k} numbers" if k else "k numbers"
    lines = ["What would leave this site, column distribution (all sites hold the same instances, each its own models)"]
    named = "name" if ensemble.entity is not None else "row number"
    lines += [f"  once: as above, and a keyed hash of each instance's {named}, by which the sites' rows are matched"]
    if ensemble.entity is not None and not secret:
        lines += [
            "    (the fusion center knows the key and can test whether a name that it guesses is among yours, unless"
        ]
        lines += ["    the sites share a secret: align-key-file)"]
    lines += [f"  once, for each instance: {each}, its votes summed over this site's classifiers"]
    if r1 == 1:
        lines += ["    (this site has one classifier, so these votes are that classifier's labels)"]
    lines += [f"  every sweep, for each instance that still moves: {each}, its votes plus its cluster probabilities by"]
    lines += ["    class, summed over this site's models; and 1 number, this site's part of the bound"]
    if r1 + r2 == 1 and consent:
        lines += ["  These sums give the labels of a site with a single model away, and this site has one: it answers,"]
        lines += ["  because allow-single-model is set"]
    elif r1 + r2 == 1:
        lines += ["  These sums give the labels of a site with a single model away, and this site has one: it refuses"]
        lines += ["  unless its node configuration says allow-single-model (in a simulation: bc3e.allow-single-model)"]
    else:
        lines += [f"  These sums mix the labels of this site's {r1 + r2} models; with a single one they would give its"]
        lines += ["  labels away"]
    lines += ["  what each cluster says about the classes (beta) stays here, but for inner products of its changes, by"]
    lines += ["    which the fusion center saves rounds"]
    lines += ["", "What would leave this site, arbitrary distribution (any mixture of the two)"]
    lines += ["  as column for the instances that other sites hold too; another site that holds an instance can infer"]
    lines += ["  what this site adds to it; as row, in sums only, for the instances that this site alone holds; the"]
    lines += ["  table of a clustering leaves only if other sites hold labels of that clustering too"]
    return lines


def _private_lines(ensemble: Ensemble) -> list[str]:
    never = ["single rows", "their class and cluster labels", "their class probabilities"]
    if ensemble.truth is not None:
        never.append("their true classes")
    if ensemble.entity is not None:
        never.append("their names")
    return [
        "What never leaves this site, row distribution",
        f"  {', '.join(never)}, and every column not used",
    ]
