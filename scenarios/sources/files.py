"""Tables of numbers in CSV files, where they are looked for, and OpenML where there is no file."""

import http.client
import os
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64, Int64
from sklearn.datasets import fetch_openml

from scenarios.registry import Config, ScenarioError

Labelled = tuple[Float64[np.ndarray, "n d"], Int64[np.ndarray, "n"]]
"""Inputs ``(n, d)`` and classes ``(n,)``, numbered 0..k-1 in the sorted order of their names."""

DATA_VARIABLE = "CONSILIENCE_DATA"
"""Environment variable: a directory that holds data files."""


@dataclass(frozen=True)
class Regression:
    """A pooled regression.

    Attributes
    ----------
    x : ndarray
        ``(n, p)`` inputs, finite.
    y : ndarray
        ``(n,)`` their outcomes, finite.
    features : tuple of str
        Names of the inputs.
    """

    x: Float64[np.ndarray, "n p"]
    y: Float64[np.ndarray, "n"]
    features: tuple[str, ...]


Grouped = tuple[Regression, Float64[np.ndarray, "n"]]
"""A regression, and for each of its rows the number of the part (the scan) it belongs to."""


Divided = tuple[Regression, Bool[np.ndarray, "n"] | None]
"""A regression, and which of its rows are to test with; None: its source does not say."""


def find_file(config: Config, names: tuple[str, ...]) -> Path | None:
    """The file that `data` names or its directory holds; else the one in CONSILIENCE_DATA's directory, if any."""
    data = str(config.get("data", ""))
    if data:
        path = Path(data).expanduser().resolve()
        found = path if path.is_file() else _in_directory(path, names)
        if found is None:
            spoken = " or ".join(f"{name}[.gz]" for name in names)
            raise ScenarioError(f"data={data!r} is neither a CSV file nor a directory that holds {spoken}")
        return found
    directory = os.environ.get(DATA_VARIABLE, "")
    return _in_directory(Path(directory).expanduser().resolve(), names) if directory else None


def _in_directory(directory: Path, names: tuple[str, ...]) -> Path | None:
    candidates = (directory / f"{name}{suffix}" for name in names for suffix in ("", ".gz"))
    return next((path for path in candidates if path.is_file()), None)


def from_openml(what: str, file: str, *args: Any, **options: Any) -> Any:
    """A data set of OpenML; `what` it is and which `file` would do instead are for the message."""
    try:
        return fetch_openml(*args, n_retries=1, **options)
    # ValueError covers scikit-learn's OpenMLError and a damaged download.
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ScenarioError(
            f"{what} were found in no file and could not be had from OpenML ({reason}): set the run"
            f" configuration's data to {file}, or {DATA_VARIABLE} to a directory that holds one"
        ) from error


def of_frames(inputs: pd.DataFrame, outcomes: pd.Series) -> Regression:
    """What OpenML sent as a regression."""
    x = np.ascontiguousarray(inputs.to_numpy(np.float64))
    return Regression(x, outcomes.to_numpy(np.float64), tuple(map(str, inputs.columns)))


def openml_regression(
    number: int, what: str, file: str, n_inputs: int, target: str | None = None, *, ignored: str = ""
) -> Regression:
    """A data set of OpenML with so many inputs; `target`: its column, where it is not OpenML's own.

    Columns whose names begin with `ignored` are left out. The number of inputs tells a data set that is another, or was
    changed, since a number was noted here.
    """
    bunch = from_openml(what, file, data_id=number, as_frame=True)
    inputs, outcomes = bunch.data, bunch.target
    if target is not None:
        inputs, outcomes = bunch.frame.drop(columns=target), bunch.frame[target]
    if ignored:
        inputs = inputs.loc[:, [not str(name).lower().startswith(ignored) for name in inputs.columns]]
    if inputs.shape[1] != n_inputs:
        raise ScenarioError(
            f"OpenML's data set {number} has {inputs.shape[1]} inputs, and {what} should have {n_inputs}: set the run"
            f" configuration's data to {file}"
        )
    return of_frames(inputs, outcomes)


def read_regression(
    path: Path, target: str, *, others: tuple[str, ...] = (), ignored: Collection[str] = ()
) -> tuple[Regression, list[Float64[np.ndarray, "n"]]]:
    """A CSV file of numbers as a regression, and the columns `others`, which are no inputs.

    Columns of the names `ignored` may be missing, or hold anything.
    """
    names = read_text(path, rows=0).columns
    kept = [place for place, name in enumerate(names) if name not in ignored]
    columns, roles = list(names[kept]), (target, *others)
    check_columns(names, path, roles, n_free=len(columns) - len(roles))
    numbers = _parsed(path, len(names), kept)
    if numbers is None:
        numbers = to_numbers(read_text(path).iloc[:, kept], path)
    if not len(numbers):
        raise ScenarioError(f"{path} has no rows below its header")
    inputs = [place for place, name in enumerate(columns) if name not in roles]
    y, *rest = (numbers[:, columns.index(role)].copy() for role in roles)
    return Regression(np.ascontiguousarray(numbers[:, inputs]), y, tuple(columns[place] for place in inputs)), rest


def has_header(path: Path) -> bool:
    """Whether the first line has letters that are no number's."""
    first = " ".join(read_text(path, rows=0).columns).lower()
    return any(letter.isalpha() and letter != "e" for letter in first)


def read_headless(
    path: Path, width: int, *, separator: str = ",", first: int = 0, rows: int | None = None
) -> Float64[np.ndarray, "n c"]:
    """A file of numbers without a header, from row `first` on; `rows`: exactly so many (None: all)."""
    try:
        frame = pd.read_csv(path, sep=separator, header=None, skiprows=first, nrows=rows)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = " ".join(str(error).split())
        raise ScenarioError(f"{path} cannot be read from line {first + 1} on: {reason}") from error
    numeric = frame.shape[1] == width and all(kind.kind in "iuf" for kind in frame.dtypes)
    numbers: Float64[np.ndarray, "n c"] = frame.to_numpy(np.float64) if numeric else np.empty((0, width))
    if not len(numbers) or not np.isfinite(numbers).all():
        raise ScenarioError(f"{path} is no table of {width} columns of finite numbers without a header")
    if rows is not None and len(numbers) < rows:
        raise ScenarioError(f"{path} has {first + len(numbers)} rows, and needs {first + rows} or more")
    return numbers


def read_marks(path: Path) -> Bool[np.ndarray, "n"] | None:
    """Which rows the column ``split`` of a CSV file calls ``test``, the others being ``train``; None without it."""
    names = list(read_text(path, rows=0).columns)
    if "split" not in names:
        return None
    place = names.index("split")
    cells = pd.read_csv(path, header=None, skiprows=1, usecols=[place], dtype=str, keep_default_na=False)
    marks = cells.iloc[:, 0].str.strip()
    bad = np.flatnonzero(~marks.isin(["train", "test"]))
    if len(bad):
        raise ScenarioError(f"{path}: line {bad[0] + 2}, column 'split': {marks[bad[0]]!r} is neither train nor test")
    return (marks == "test").to_numpy(bool)


def _parsed(path: Path, width: int, kept: list[int]) -> Float64[np.ndarray, "n d"] | None:
    """Finite numbers below a header of `width` cells, read fast; None where `read_text` has to look what is wrong.

    CT slices have 20 million cells: as text they would take gigabytes.
    """
    try:
        # Without the header its cells cannot spoil a column's type; a row longer than the first is an error.
        frame = pd.read_csv(path, header=None, skiprows=1)
    except (OSError, EOFError, ValueError, zlib.error):
        return None
    if frame.shape[1] != width or any(frame.dtypes[place].kind not in "iuf" for place in kept):
        return None
    numbers: Float64[np.ndarray, "n d"] = frame.iloc[:, kept].to_numpy(np.float64)
    return numbers if np.isfinite(numbers).all() else None


def read_text(path: Path, rows: int | None = None, separator: str = ",") -> pd.DataFrame:
    """The cells of a CSV file as text, below the names of its header; `rows`: only so many (None: all)."""
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
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = " ".join(str(error).split())
        raise ScenarioError(f"{path} cannot be read as CSV: {reason}") from error
    return cells.iloc[1:].reset_index(drop=True).set_axis(cells.iloc[0].str.strip(), axis="columns")


def check_columns(names: pd.Index, path: Path, roles: Collection[str], n_free: int) -> None:
    """Names are unique, the columns of the roles are there, and one or more beside them."""
    if not names.is_unique:
        raise ScenarioError(f"{path}: two columns of one name in its header")
    for role in roles:
        if role not in names:
            raise ScenarioError(f"{path} has no column {role!r}")
    if n_free < 1:
        raise ScenarioError(f"{path} has no column beside {' and '.join(map(repr, roles))}")


def to_numbers(table: pd.DataFrame, path: Path) -> Float64[np.ndarray, "n d"]:
    """All columns as numbers; the first cell in the file that is none is an error."""
    numbers: Float64[np.ndarray, "n d"] = table.apply(pd.to_numeric, errors="coerce").to_numpy(np.float64)
    bad = np.argwhere(~np.isfinite(numbers))
    if len(bad):
        row, column = bad[0]
        cell = str(table.iloc[row, column])
        raise ScenarioError(f"{path}: line {row + 2}, column {table.columns[column]!r}: {cell!r} is no finite number")
    return numbers
