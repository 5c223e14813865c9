"""Data files as tables of numbers: CSV with and without a header, and MATLAB.

Every error is a `ScenarioError` of one line that names the file and, where there is one, line and column.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from scenarios.registry import ScenarioError

if TYPE_CHECKING:
    import pandas as pd

_UNREADABLE = (OSError, EOFError, ValueError, zlib.error)
"""Exceptions of pandas for a file that is no table."""


@dataclass(frozen=True, eq=False)
class Table:
    """Contents of a data set, pooled.

    Attributes
    ----------
    x : ndarray
        ``(n, d)`` inputs, finite.
    features : tuple of str
        Names of the d inputs.
    y : ndarray or None
        ``(n,)`` outcomes, finite floats, or classes numbered from 0 in the sorted order of their names. None: there is
        no outcome.
    test : ndarray or None
        ``(n,)`` which rows are test rows. None: unknown.
    unit : ndarray or None
        ``(n,)`` number of the unit that a row belongs to, e.g. of the scan.
    categories : Mapping[str, pandas.Series]
        By column name, the category of each row as text. They are not among the inputs.

    Examples
    --------
    >>> table = Table(np.eye(2), ("a", "b"), y=np.array([1.0, 2.0]))
    >>> table.y.tolist(), table.test is None
    ([1.0, 2.0], True)
    """

    x: Float64[np.ndarray, "n d"]
    features: tuple[str, ...]
    y: Shaped[np.ndarray, "n"] | None = None
    test: Bool[np.ndarray, "n"] | None = None
    unit: Float64[np.ndarray, "n"] | None = None
    categories: Mapping[str, pd.Series] = field(default_factory=dict)

    @property
    def outcome(self) -> Shaped[np.ndarray, "n"]:
        """`y` of a table that has one."""
        assert self.y is not None  # noqa: S101 - the caller's table has outcomes
        return self.y


def is_omitted(name: str, omitted: Collection[str]) -> bool:
    """Whether a column is among the omitted ones; case and punctuation do not matter.

    Examples
    --------
    >>> is_omitted("Subject.", ("subject#",))
    True
    """
    return _plain(name) in {_plain(each) for each in omitted}


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


# -- CSV with a header ------------------------------------------------------------------------------------------------


def read_columns(
    path: Path, roles: tuple[str, ...], omitted: Collection[str] = ()
) -> tuple[Float64[np.ndarray, "n d"], tuple[str, ...], list[Float64[np.ndarray, "n"]]]:
    """Read a CSV file of numbers.

    Parameters
    ----------
    path : Path
        The file; it may be gzipped.
    roles : tuple of str
        Columns that are no inputs; the file must have them.
    omitted : collection of str
        Columns that may be missing or hold anything.

    Returns
    -------
    x : ndarray
        All other columns, the inputs.
    features : tuple of str
        Their names.
    columns : list of ndarray
        The columns of the roles.
    """
    names = read_text(path, rows=0).columns
    places = [place for place, name in enumerate(names) if not is_omitted(name, omitted)]
    columns = list(names[places])
    check_columns(names, path, roles, n_inputs=len(columns) - len(roles))
    numbers = _parse(path, len(names), places)
    if numbers is None:
        numbers = to_numbers(read_text(path).iloc[:, places], path)
    if not len(numbers):
        raise ScenarioError(f"{path} has no rows below its header")
    inputs = [place for place, name in enumerate(columns) if name not in roles]
    features = tuple(columns[place] for place in inputs)
    return (
        np.ascontiguousarray(numbers[:, inputs]),
        features,
        [numbers[:, columns.index(role)].copy() for role in roles],
    )


def read_test_rows(path: Path, column: str) -> Bool[np.ndarray, "n"] | None:
    """Return which rows a column calls ``test``, the others being ``train``; None if the file lacks the column."""
    import pandas as pd

    names = list(read_text(path, rows=0).columns)
    if column not in names:
        return None
    cells = pd.read_csv(path, header=None, skiprows=1, usecols=[names.index(column)], dtype=str, keep_default_na=False)
    marks = cells.iloc[:, 0].str.strip()
    bad = np.flatnonzero(~marks.isin(["train", "test"]))
    if len(bad):
        raise ScenarioError(
            f"{path}: line {bad[0] + 2}, column {column!r}: {marks[bad[0]]!r} is neither train nor test"
        )
    return (marks == "test").to_numpy(bool)


def read_text(path: Path, rows: int | None = None, separator: str = ",") -> pd.DataFrame:
    """Return the cells of a CSV file as text, with the names of its header; `rows`: the first ones only (None: all)."""
    import pandas as pd

    try:
        # With the header as its first row, a longer row is an error; below a header pandas would take the first field
        # of each row as its name and shift the columns. As text, a message can show what the file holds.
        cells = pd.read_csv(
            path,
            sep=separator,
            header=None,
            dtype=str,
            keep_default_na=False,
            nrows=None if rows is None else rows + 1,
        ).fillna("")
    except _UNREADABLE as error:
        raise ScenarioError(f"{path} cannot be read as CSV: {_one_line(error)}") from error
    return cells.iloc[1:].reset_index(drop=True).set_axis(cells.iloc[0].str.strip(), axis="columns")


def _parse(path: Path, width: int, places: list[int]) -> Float64[np.ndarray, "n d"] | None:
    """Return the finite numbers below a header of `width` cells; None if a cell is something else.

    The CT slices have 20 million cells: as text they would take gigabytes.
    """
    import pandas as pd

    try:
        # Without the header its cells cannot spoil a column's type; a row longer than the first is an error.
        frame = pd.read_csv(path, header=None, skiprows=1)
    except _UNREADABLE:
        return None
    if frame.shape[1] != width or any(frame.dtypes[place].kind not in "iuf" for place in places):
        return None
    numbers: Float64[np.ndarray, "n d"] = frame.iloc[:, places].to_numpy(np.float64)
    return numbers if np.isfinite(numbers).all() else None


def check_columns(names: pd.Index, path: Path, roles: Collection[str], n_inputs: int) -> None:
    """Refuse a header with equal names, without the columns of the roles, or without any input."""
    if not names.is_unique:
        raise ScenarioError(f"{path}: two columns have the same name")
    for role in roles:
        if role not in names:
            raise ScenarioError(f"{path} has no column {role!r}")
    if n_inputs < 1:
        raise ScenarioError(f"{path} has no column beside {' and '.join(map(repr, roles))}")


def to_numbers(table: pd.DataFrame, path: Path) -> Float64[np.ndarray, "n d"]:
    """Return all cells of a table of text as finite numbers; the first other cell in the file is an error."""
    import pandas as pd

    numbers: Float64[np.ndarray, "n d"] = table.apply(pd.to_numeric, errors="coerce").to_numpy(np.float64)
    bad = np.argwhere(~np.isfinite(numbers))
    if len(bad):
        row, column = bad[0]
        cell = str(table.iloc[row, column])
        raise ScenarioError(f"{path}: line {row + 2}, column {table.columns[column]!r}: {cell!r} is no finite number")
    return numbers


def number_classes(column: pd.Series, path: Path) -> Int64[np.ndarray, "n"]:
    """Return the classes in a column of text, numbered in sorted order; numbers are sorted as numbers."""
    import pandas as pd

    check_filled(column, path)
    numbers = pd.to_numeric(column, errors="coerce")
    classes, names = pd.factorize(column if numbers.isna().any() else numbers, sort=True)
    if len(names) < 2:
        raise ScenarioError(f"{path}: column {column.name!r} holds fewer than two classes")
    return classes.astype(np.int64)


def check_filled(column: pd.Series, path: Path) -> None:
    """Refuse a column of text with an empty cell."""
    empty = np.flatnonzero(column.str.strip() == "")
    if len(empty):
        raise ScenarioError(f"{path}: line {empty[0] + 2}, column {column.name!r} is empty")


# -- files without a header -------------------------------------------------------------------------------------------


def has_header(path: Path) -> bool:
    """Whether the first line of a file has letters that belong to no number."""
    first = " ".join(read_text(path, rows=0).columns).lower()
    return any(letter.isalpha() and letter != "e" for letter in first)


def read_headless(
    path: Path, width: int, *, separator: str = ",", first: int = 0, rows: int | None = None
) -> Float64[np.ndarray, "n c"]:
    """Read a file of `width` columns of numbers from row `first` on; `rows`: their number (None: all)."""
    import pandas as pd

    try:
        frame = pd.read_csv(path, sep=separator, header=None, skiprows=first, nrows=rows)
    except _UNREADABLE as error:
        raise ScenarioError(f"{path} cannot be read from line {first + 1} on: {_one_line(error)}") from error
    numeric = frame.shape[1] == width and all(kind.kind in "iuf" for kind in frame.dtypes)
    numbers: Float64[np.ndarray, "n c"] = frame.to_numpy(np.float64) if numeric else np.empty((0, width))
    if not len(numbers) or not np.isfinite(numbers).all():
        raise ScenarioError(f"{path} is no table of {width} columns of finite numbers without a header")
    if rows is not None and len(numbers) < rows:
        raise ScenarioError(f"{path} has {first + len(numbers)} rows, and needs {first + rows} or more")
    return numbers


def read_matlab(path: Path, width: int) -> Float64[np.ndarray, "n c"]:
    """Read the array of a MATLAB file that has the name of the file, and `width` columns or more."""
    if not path.is_file():
        raise ScenarioError(f"there is no {path}")
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        rows = np.asarray(loadmat(path, variable_names=[path.stem])[path.stem], np.float64)
    except (*_UNREADABLE, TypeError, LookupError, NotImplementedError, MatReadError) as error:
        reason = f"{type(error).__name__}: {_one_line(error)}"
        raise ScenarioError(f"{path} cannot be read as a MATLAB file of an array {path.stem}: {reason}") from error
    if rows.ndim != 2 or rows.shape[1] < width or not np.isfinite(rows).all():
        raise ScenarioError(f"{path}: {path.stem} is no table of {width} columns of finite numbers or more")
    return rows


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
