"""Readers of data files, by the roles of their columns.

A reader takes the roles and the path, and returns a `scenarios.tables.Table`. Each data set of
`scenarios.datasets.DATA_SETS` names its reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float64

from scenarios.registry import ScenarioError
from scenarios.tables import (
    Table,
    check_columns,
    check_filled,
    has_header,
    number_classes,
    read_columns,
    read_headless,
    read_matlab,
    read_test_rows,
    read_text,
    to_numbers,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Columns:
    """Roles of a data set's columns and rows.

    Attributes
    ----------
    target : str
        Column of the outcome or the class.
    other_targets : tuple of str
        Other names of it in copies of the file; case does not matter.
    inputs : tuple of str
        Columns of the inputs; empty: all that have no role.
    n_inputs : int
        Number of inputs, which OpenML's copy must have.
    omitted : tuple of str
        Columns that are no inputs and may be missing.
    unit : str
        Column of the unit that a row belongs to, e.g. of the scan.
    split : str
        Column with ``train`` or ``test`` for each row, if a file has it.
    categories : tuple of str
        Columns of categories.
    unknown : Mapping[str, str]
        By column of categories, its mark for an unknown category; rows with it are left out.
    rows : tuple of range
        Training rows and test rows; empty: all rows.
    """

    target: str = ""
    inputs: tuple[str, ...] = ()
    n_inputs: int = 0
    omitted: tuple[str, ...] = ()
    unit: str = ""
    split: str = ""
    categories: tuple[str, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[range, ...] = ()
    other_targets: tuple[str, ...] = ()

    def target_in(self, names: Iterable[str]) -> str:
        """Return the name of the target among the columns of a file; its usual name if the file has none of them.

        Examples
        --------
        >>> Columns(target="foo", other_targets=("class",)).target_in(["f1", "Class"])
        'Class'
        """
        listed = [self.target, *self.other_targets]
        wanted = {name.lower(): place for place, name in reversed([*enumerate(listed)])}
        targets = [name for name in names if name.lower() in wanted]
        return min(targets, key=lambda name: wanted[name.lower()], default=self.target)


# -- CSV with a header ------------------------------------------------------------------------------------------------


def read_regression(columns: Columns, path: Path) -> Table:
    """Read a CSV file with a header and the outcome `target`; all columns without a role are inputs."""
    target = columns.target_in(read_text(path, rows=0).columns) if columns.other_targets else columns.target
    roles = (target, columns.unit) if columns.unit else (target,)
    x, features, (y, *unit) = read_columns(path, roles, (*columns.omitted, *filter(None, [columns.split])))
    test = read_test_rows(path, columns.split) if columns.split else None
    return Table(x, features, y, test, unit[0] if unit else None)


def read_classification(columns: Columns, path: Path) -> Table:
    """Read a CSV file with a header and the class in the column `target`; without a header, in the last column."""
    if not has_header(path):
        separator = "," if len(read_text(path, rows=0).columns) > 1 else r"\s+"
        numbers = read_headless(path, columns.n_inputs + 1, separator=separator)
        _, classes = np.unique(numbers[:, -1], return_inverse=True)
        features = tuple(f"x{j + 1}" for j in range(columns.n_inputs))
        return Table(np.ascontiguousarray(numbers[:, :-1]), features, classes.astype(np.int64))
    cells = read_text(path)
    check_columns(cells.columns, path, (columns.target,), n_inputs=cells.shape[1] - 1)
    inputs = cells.drop(columns=columns.target)
    return Table(to_numbers(inputs, path), tuple(inputs.columns), number_classes(cells[columns.target], path))


def read_grouping(columns: Columns, path: Path, separator: str = ",") -> Table:
    """Read a CSV file with a header, the columns `inputs` and the columns `categories`."""
    cells = read_text(path, separator=separator)
    check_columns(cells.columns, path, (*columns.inputs, *columns.categories), n_inputs=1)
    if cells.empty:
        raise ScenarioError(f"{path} has no rows below its header")
    for name in columns.categories:
        check_filled(cells[name], path)
    return known_rows(columns, to_numbers(cells[list(columns.inputs)], path), cells)


_BANK_ADDITIONAL = (
    *("age", "duration", "campaign", "pdays", "previous"),
    *("emp.var.rate", "cons.price.idx", "cons.conf.idx", "euribor3m", "nr.employed"),
)
"""Inputs of ``bank-additional.csv``."""


def read_bank(columns: Columns, path: Path) -> Table:
    """Read one of the four files of the UCI repository, which differ in their columns, or a copy with commas."""
    names = read_text(path, rows=0).columns
    separator = ";" if len(names) == 1 and ";" in names[0] else ","
    if "balance" not in read_text(path, rows=0, separator=separator).columns:
        columns = replace(columns, inputs=_BANK_ADDITIONAL)
    table = read_grouping(columns, path, separator)
    married = table.categories["marital"].eq("married").map({True: "yes", False: "no"})
    return replace(table, categories={**table.categories, "married": married})


# -- other files ------------------------------------------------------------------------------------------------------


def read_airfoil(columns: Columns, path: Path) -> Table:
    """Read a CSV file with a header, or the UCI repository's columns between tabs without one."""
    if has_header(path):
        return read_regression(columns, path)
    numbers = read_headless(path, len(columns.inputs) + 1, separator=r"\s+")
    return Table(np.ascontiguousarray(numbers[:, :-1]), columns.inputs, numbers[:, -1].copy())


def read_songs(columns: Columns, path: Path) -> Table:
    """Read the training rows and the test rows of the UCI repository's file: the year first, no header."""
    parts = [read_headless(path, columns.n_inputs + 1, first=rows.start, rows=len(rows)) for rows in columns.rows]
    numbers = np.concatenate(parts)
    features = tuple(f"timbre{j + 1}" for j in range(columns.n_inputs))
    return Table(np.ascontiguousarray(numbers[:, 1:]), features, numbers[:, 0].copy(), mark_test_rows(columns))


def read_sarcos(columns: Columns, path: Path) -> Table:
    """Read ``sarcos_inv.mat`` with ``sarcos_inv_test.mat`` beside it, or a CSV file with a header."""
    if path.suffix != ".mat":
        return read_regression(columns, path)
    p = columns.n_inputs
    train, test = (read_matlab(each, p + 1) for each in (path, path.with_name("sarcos_inv_test.mat")))
    rows = np.concatenate([train, test])
    features = tuple(f"V{j + 1}" for j in range(p))
    return Table(np.ascontiguousarray(rows[:, :p]), features, rows[:, p].copy(), np.arange(len(rows)) >= len(train))


# -- rows -------------------------------------------------------------------------------------------------------------


def known_rows(columns: Columns, x: Float64[np.ndarray, "n d"], cells: pd.DataFrame) -> Table:
    """Return inputs and categories without the rows whose category is unknown."""
    categories = cells[list(columns.categories)].apply(lambda column: column.str.strip())
    known = np.ones(len(cells), bool)
    for name, mark in columns.unknown.items():
        known &= (categories[name] != mark).to_numpy(bool)
    rows = categories[known].reset_index(drop=True)
    categories_by_name = {name: rows[name] for name in columns.categories}
    return Table(np.ascontiguousarray(x[known]), columns.inputs, categories=categories_by_name)


def mark_test_rows(columns: Columns) -> Bool[np.ndarray, "n"]:
    """Return which of the training rows and test rows are test rows."""
    train, test = columns.rows
    return np.arange(len(train) + len(test)) >= len(train)
