"""The target of a site's table: an amount, or a class by name.

The setting ``task`` chooses. With ``auto`` the column decides: text, true and false, and two to twenty different whole
numbers, each twice or more on average, are classes, if the protocol has classes; other numbers are amounts.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from clients.data.column_selection import cell_name, numeric
from clients.data.columns import Tables, one_error
from clients.data.table import NUMBER, UNKNOWN, DataError, Table, setting
from numerics.shared.classes import places_of, sort_classes
from protocols.classes import LONGEST_CLASS, MOST_CLASSES, ClassListError, agree_on_classes
from protocols.settings import TASK_OF_RUN

TASKS = ("regression", "classification")
"""Kinds of target: an amount or a class."""

MOST_WHOLE_NUMBERS = 20
"""Most different whole numbers that count as classes with ``task=auto``."""
_UNKNOWN = UNKNOWN - {"none", "-"}
"""Words for an unknown class; `none` is a class, for example the stage of a disease."""


class Target(NamedTuple):
    """Outcomes of a site's rows.

    Attributes
    ----------
    y : ndarray
        ``(n,)`` amounts, or places in `classes`.
    classes : tuple of str
        The classes of the rows, in order; empty for amounts.
    """

    y: Float64[np.ndarray, "n"]
    classes: tuple[str, ...]


def read_target(table: Table, config: Mapping[str, object], tasks: Collection[str]) -> Target:
    """Return the outcomes of a site's table.

    Parameters
    ----------
    table : Table
        The site's own.
    config : Mapping
        Run or node configuration: ``target`` names the column, ``task`` its kind.
    tasks : collection of str
        Kinds of target of the protocol (`protocols.settings.ProtocolSettings.tasks`).

    Raises
    ------
    DataError
        If the column is missing, a cell is empty or of the wrong kind, there are too many classes, or a run alone
        takes amounts for classes.

    Examples
    --------
    >>> table = Table("ward", {"ill": np.array(["yes", "no", "yes"], object), "age": np.array([41, 52, 63])})
    >>> read_target(table, {"target": "ill"}, TASKS)
    Target(y=array([1., 0., 1.]), classes=('no', 'yes'))
    >>> read_target(table, {"target": "age"}, TASKS)
    Target(y=array([41., 52., 63.]), classes=())
    """
    name = setting(config, "target")
    if not len(table.column(name)):
        raise DataError(
            f"{table.source}: no row is left, since {name!r}, or an input, is empty in each: fill it, or leave the site"
            " out",
            "too-few-rows",
        )
    if all(cell is None or cell != cell for cell in table.column(name).tolist()):
        raise DataError(
            f"{table.source}, column {name!r}: is empty in each row; name another target, or leave the site out",
            "missing-value",
        )
    if task_of(table, config, tasks) == "regression":
        may_be_classes = "classification" in tasks and setting(config, "task") != "regression"
        if may_be_classes and config.get(TASK_OF_RUN):
            raise DataError(
                f"{table.source}, column {name!r}: holds amounts, and the run has task=classification, which would tell"
                " each value; if they are classes, set task=classification in the node configuration",
                "task-not-allowed",
            )
        return Target(_amounts(table, name, or_classes=may_be_classes), ())
    labels = class_labels(table, name)
    classes = sort_classes(labels)
    return Target(places_of(labels.tolist(), classes).astype(np.float64), classes)


def _amounts(table: Table, name: str, *, or_classes: bool) -> Float64[np.ndarray, "n"]:
    try:
        return numeric(table, name, allow_missing=False)
    except DataError as error:
        if error.code != "not-numeric" or not or_classes:
            raise
        raise DataError(f"{error}; if the column holds classes, set task=classification", error.code) from None


def task_of(table: Table, config: Mapping[str, object], tasks: Collection[str]) -> str:
    """Return the kind of the table's target, ``regression`` or ``classification``.

    Examples
    --------
    >>> table = Table("ward", {"stage": np.array([1, 2, 1, 2])})
    >>> task_of(table, {"target": "stage"}, TASKS), task_of(table, {"target": "stage"}, ("regression",))
    ('classification', 'regression')
    """
    values = table.column(setting(config, "target"))
    if "classification" not in tasks:
        return "regression"
    task = setting(config, "task") or "auto"
    if task != "auto":
        return task
    if values.dtype == object:
        cells = [cell for cell in values.tolist() if cell is not None]
        n_numbers = sum(bool(NUMBER.fullmatch(cell)) for cell in cells)
        if n_numbers < len(cells) or not cells:
            # Numbers with a few cells of text among them are amounts, and an error will name the cell.
            return "regression" if 2 * n_numbers >= len(cells) > 0 else "classification"
        values = np.array(cells, np.float64)
    return "classification" if values.dtype == np.bool_ or _are_few(values) else "regression"


def _are_few(values: Shaped[np.ndarray, "n"]) -> bool:
    """Return whether numbers are whole, with few different values, each twice or more on average."""
    known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    numbers = np.unique(known)
    whole = bool(np.isfinite(numbers).all() and (numbers == np.rint(numbers)).all())
    return whole and 2 <= len(numbers) <= MOST_WHOLE_NUMBERS and 2 * len(numbers) <= len(known)


def class_labels(table: Table, name: str) -> Shaped[np.ndarray, "n"]:
    """Return the class of each row as text, the same for every type of column.

    Raises
    ------
    DataError
        If a cell is empty, unknown, or a number with decimals, or if there are more classes than a run can have, or
        than half of the rows.

    Examples
    --------
    >>> class_labels(Table("ward", {"stage": np.array([1.0, 2.0, 1.0, 1.0])}), "stage").tolist()
    ['1', '2', '1', '1']
    """
    labels = np.array(class_names(table, name, np.arange(table.n)), object)
    n_classes = len(set(labels.tolist()))
    if n_classes > MOST_CLASSES or n_classes > max(2, len(labels) // 2):
        raise DataError(
            f"{table.source}, column {name!r}: has {n_classes} different values in {len(labels)} rows; classes are"
            f" {MOST_CLASSES} at most, each of two rows on average: name another target",
            "label-out-of-range",
        )
    return labels


def rows_with_class(table: Table, name: str) -> Int64[np.ndarray, "m"]:
    """Return the rows whose class is known, ascending.

    Examples
    --------
    >>> rows_with_class(Table("ward", {"stage": np.array([1.0, np.nan, 2.0])}), "stage").tolist()
    [0, 2]
    """
    labels = [_label(cell) or "" for cell in table.column(name).tolist()]
    return np.array([row for row, label in enumerate(labels) if label and label.lower() not in _UNKNOWN], np.int64)


def class_names(table: Table, name: str, rows: Int64[np.ndarray, "n"]) -> list[str]:
    """Return the class of each of these rows as text; a `DataError` for a cell that cannot be a class."""
    values = table.column(name)
    labels: list[str] = []
    for row, cell in zip(rows.tolist(), values[rows].tolist(), strict=True):
        label = _label(cell)
        if label is None or label.lower() in _UNKNOWN:
            raise DataError(
                f"{cell_name(table, name, row)}: is {'empty' if not label else repr(label)}; every row needs a class:"
                " leave the row out where it is not known, or set missing=drop",
                "missing-value",
            )
        if "." in label and values.dtype.kind == "f":
            raise DataError(
                f"{cell_name(table, name, row)}: {label} has decimals and is no class; set task=regression for amounts",
                "not-numeric",
            )
        if len(label) > LONGEST_CLASS or not label.isprintable():
            raise DataError(
                f"{cell_name(table, name, row)}: a class has a name of {LONGEST_CLASS} printable characters at most;"
                " rename it",
                "label-out-of-range",
            )
        labels.append(label)
    if {label.lower() for label in labels} <= {"true", "false"}:
        return [label.lower() for label in labels]
    return labels


def _label(cell: object) -> str | None:
    if cell is None or isinstance(cell, str):
        return cell and unicodedata.normalize("NFC", cell.strip())
    if isinstance(cell, bool):
        return str(cell).lower()
    return None if cell != cell else f"{cell:.15g}"


def target_lines(table: Table, config: Mapping[str, object], tasks: Collection[str]) -> list[str]:
    r"""Return the lines of `consilience check` on the target, with the setting to change if ``task`` is not set.

    Examples
    --------
    >>> table = Table("ward", {"stage": np.array([1, 2, 1, 2])})
    >>> print("\n".join(target_lines(table, {"target": "stage"}, TASKS)))
    outcome stage: 2 classes, with their rows: 1 (2), 2 (2)
    whole numbers: are they amounts? Then every site, and the run, must have task=regression
    """
    name = setting(config, "target")
    if task_of(table, config, tasks) == "regression":
        return [f"outcome {name}"]
    counts = Counter(class_labels(table, name).tolist())
    rows = [f"{label} ({counts[label]})" for label in sort_classes(counts)]
    number = f"{len(rows)} class{'es' * (len(rows) > 1)}"
    lines = [f"outcome {name}: {number}, with their rows: {', '.join(rows)}"]
    if setting(config, "task") in ("", "auto") and table.column(name).dtype.kind in "iuf":
        lines.append("whole numbers: are they amounts? Then every site, and the run, must have task=regression")
    return lines


def numbers_as_classes(tables: Tables, config: Mapping[str, object], tasks: Collection[str]) -> list[str]:
    """Return a line if ``task`` is not set and more than two different whole numbers count as classes.

    Examples
    --------
    >>> numbers_as_classes({"ward": Table("ward", {"stage": np.array([1, 2, 3] * 2)})}, {"target": "stage"}, TASKS)
    ["the whole numbers of 'stage' are taken for classes; if they are amounts, set task=regression"]
    """
    name = setting(config, "target")
    columns = [table.columns[name] for table in tables.values() if name in table.columns]
    if not columns or setting(config, "task") not in ("", "auto"):
        return []
    classes = all(
        task_of(table, config, tasks) == "classification" for table in tables.values() if name in table.columns
    )
    if not classes or any(cells.dtype.kind not in "iuf" for cells in columns):
        return []
    if len(np.unique(np.concatenate(columns))) <= 2:
        return []
    return [f"the whole numbers of {name!r} are taken for classes; if they are amounts, set task=regression"]


def check_targets(tables: Tables, config: Mapping[str, object], tasks: Collection[str]) -> None:
    """Refuse targets that mix amounts and classes, have a single class, or are all unreadable.

    Few whole numbers at each site are too many for classes if they are other ones at the next, as amounts are.

    If some tables can be read, a run goes on without the others.

    Raises
    ------
    DataError
        As `read_target`; or, with the code ``bad-shape``, if the tables do not fit together.

    Examples
    --------
    >>> tables = {name: Table(name, {"y": np.array(values)}) for name, values in (("a", [1, 2, 1, 2]), ("b", [0.5, 1]))}
    >>> check_targets(tables, {"target": "y"}, TASKS)
    Traceback (most recent call last):
    clients.data.table.DataError: the target 'y' holds classes at a and amounts at b; set
    task=regression or task=classification
    """
    lists, errors = {}, {}
    for name, table in tables.items():
        try:
            lists[name] = read_target(table, config, tasks).classes
        except DataError as error:
            errors[name] = error
    if not lists:
        raise one_error(errors, {name: tables[name].source for name in errors})
    name = setting(config, "target")
    try:
        classes = agree_on_classes(lists, name)
    except ClassListError as error:
        raise DataError(str(error), "bad-shape") from error
    if not classes and setting(config, "class-weight") not in ("", "none"):
        raise DataError(
            f"class-weight is for classes, and {name!r} is an amount: leave it out, or set task=classification",
            "bad-configuration",
        )
    whole = all(re.fullmatch(r"-?\d+", label) for label in classes)
    if whole and len(classes) > MOST_WHOLE_NUMBERS and setting(config, "task") in ("", "auto"):
        raise DataError(
            f"the target {name!r} has {len(classes)} different whole numbers over all sites: set task=regression, or"
            " task=classification if they are classes",
            "bad-shape",
        )
