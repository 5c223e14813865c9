"""The fusion center's own files: test rows, and points to predict at."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from clients.data.column_selection import holds_numbers, numeric, split_patterns
from clients.data.files import ENDINGS, read_table, site_name
from clients.data.preparation import complete_rows, prepare_new_rows
from clients.data.source import load
from clients.data.table import DataError, Table, setting
from clients.data.target import class_labels, class_names, rows_with_class, task_of
from common.data_places import is_function
from protocols.center_inputs import unusable_input


def center_columns(
    config: Mapping[str, object], tasks: Collection[str] = ("regression",)
) -> dict[str, Shaped[np.ndarray, "t"]]:
    """Return the columns of numbers of the center's test rows by name; a target of classes as text.

    The file is that of ``test``, else ``_test`` in the folder ``data`` of a simulation; without a file there are no
    columns. With ``missing=drop`` or ``impute`` rows without an outcome are left out, and so are rows without some
    number, or it is filled with the median of the file's column. `tasks` are the protocol's kinds of target, as in
    `clients.data.target.read_target`.

    Raises
    ------
    DataError
        If the file cannot be read, lacks the column that `target` names, or has an empty cell in a column of numbers.
    """
    source = center_source(config, "test")
    if not source:
        return {}
    table = complete_rows(center_table(source, config), config, inputs=True)
    target = setting(config, "target")
    outcomes: dict[str, Shaped[np.ndarray, "t"]] = {}
    if target:
        classes = task_of(table, config, tasks) == "classification"
        outcomes[target] = class_labels(table, target) if classes else numeric(table, target, allow_missing=False)
    patterns = split_patterns(setting(config, "features"))
    return {
        name: numeric(table, name, allow_missing=False)
        for name, values in table.columns.items()
        if holds_numbers(values) and name not in outcomes
        if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
    } | outcomes


def center_queries(
    config: Mapping[str, object], file: str, tasks: Collection[str] = ("regression",)
) -> dict[str, Shaped[np.ndarray, "t"]]:
    """Return columns of the center's query points by name: those of numbers, and the names of the points.

    The column of ``target`` holds measured outcomes, and may be missing, or empty at some points or all: NaN, or None
    among classes. Classes are texts, or whole numbers if they look like amounts. Empty cells of other columns are NaN,
    because the inputs are not known yet.

    Parameters
    ----------
    config : Mapping
        Run configuration.
    file : str
        The file of the points; empty: that of `center_columns`. Without a file there are no columns.
    tasks : collection of str
        Kinds of target of the protocol, as in `clients.data.target.read_target`.

    Raises
    ------
    DataError
        If the file cannot be read or has no row, a column of numbers holds an infinity, or the target is neither empty
        nor a number in some row.
    """
    source = file or center_source(config, "test")
    if not source:
        return {}
    table = center_table(source, config, own=False)
    if not table.n:
        raise DataError(f"{table.source}: has no rows, which are the points to predict at", "too-few-rows")
    target = setting(config, "target")
    columns: dict[str, Shaped[np.ndarray, "t"]] = {
        name: numeric(table, name, allow_missing=True)
        for name, values in table.columns.items()
        if values.dtype.kind in "iuf" and name != target
    }
    if target in table.columns:
        columns[target] = _known_outcomes(table, target, task_of(table, config, tasks))
    names = setting(config, "id")
    if names in table.columns:
        columns[names] = table.columns[names].astype(str)
    return columns


def _known_outcomes(table: Table, target: str, task: str) -> Shaped[np.ndarray, "t"]:
    """Return the outcome at each point, NaN where it is not known; classes as text, or None."""
    if task == "regression":
        return numeric(table, target, allow_missing=True)
    known = rows_with_class(table, target)
    labels = np.full(table.n, None, object)
    labels[known] = class_names(table, target, known)
    return labels


def check_center_inputs(columns: Mapping[str, Shaped[np.ndarray, "t"]], inputs: Sequence[str], what: str) -> None:
    """Refuse rows of the fusion center that lack an input of the sites' models.

    Raises
    ------
    DataError
        Naming the input.
    """
    if columns and (wrong := unusable_input(columns, inputs)):
        raise DataError(f"{what}{wrong}", "missing-column")


def center_table(source: str, config: Mapping[str, object], *, own: bool = True) -> Table:
    """Return a table of the fusion center's own: of a file, or of a function that takes the configuration.

    Parameters
    ----------
    source : str
        Path of the file, or ``package.module:function``.
    config : Mapping
        Run configuration.
    own : bool
        Whether there must be two rows at least.
    """
    table = load({"data": source}, whole=own) if is_function(source) else read_table(source, own=own)
    return prepare_new_rows(table, config, {})


def center_source(config: Mapping[str, object], key: str) -> str:
    """Return what the key names, else the file ``_KEY`` in the folder of a simulation on own data; empty without both.

    Raises
    ------
    DataError
        If there are several files of that name, with different endings.
    """
    source = setting(config, key)
    folder, name = setting(config, "data"), f"_{key}"
    if source or not folder or not Path(folder).expanduser().is_dir():
        return source
    beside = sorted(Path(folder).expanduser().iterdir())
    paths = [p for p in beside if site_name(p) == name and p.name.lower().endswith(ENDINGS) and p.is_file()]
    if len(paths) > 1:
        raise DataError(f"{folder}: holds {' and '.join(p.name for p in paths)}; keep one", "bad-configuration")
    return str(paths[0]) if paths else ""
