"""Tables: named columns of a site's data, which are checked when a table is made."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Bool, Int, Shaped

from common.grouping import list_names

if TYPE_CHECKING:
    import pandas as pd

Code = Literal[
    "bad-configuration",
    "bad-shape",
    "duplicate-entity",
    "function-failed",
    "label-out-of-range",
    "missing-column",
    "missing-value",
    "no-data-file",
    "not-finite",
    "not-numeric",
    "task-not-allowed",
    "too-few-rows",
    "unreadable",
    "missing-library",
]
"""Codes of data errors, the only part of them that the fusion center learns."""

NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
"""A number as text."""
GLOB = re.compile(r"[*?\[]")
"""Characters that distinguish a glob from a plain name."""
_SPREADSHEET_ERRORS = frozenset(
    {"#n/a", "#nv", "#div/0!", "#value!", "#wert!", "#num!", "#zahl!", "#ref!", "#bezug!", "#name?", "#null!"}
)
UNKNOWN = _SPREADSHEET_ERRORS | {"", "?", "-", "na", "n/a", "nan", "null", "none"}
"""Words that people and spreadsheets write for a missing value, in upper or lower case."""
_NO_CELL = (bytes, bytearray, complex, dict, frozenset, list, np.ndarray, set, tuple)
"""Types of objects that have no text which a person would read as one value."""
MOST_SHOWN = 20  # characters of a cell, or names of columns, in a message


class DataError(ValueError):
    """Error: a site cannot use its data, or its configuration of them.

    Parameters
    ----------
    message : str
        One sentence for the site's own log or terminal; it may name file, column and row, and show a cell.
    code : str
        The kind of error, one of `Code`; only this may travel to the fusion center.

    Examples
    --------
    >>> error = DataError("ward.csv, line 7, column 'age': is empty; fill it, or set missing=impute", "missing-value")
    >>> error.code
    'missing-value'
    """

    def __init__(self, message: str, code: Code) -> None:
        super().__init__(message)
        self.code: Code = code


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a site's data.

    Attributes
    ----------
    source : str
        Path, or ``package.module:function``, for messages.
    columns : dict[str, ndarray]
        By name, in file order, all ``(n,)``: ``bool``, ``int64``, ``float64`` (NaN where the cell is empty) or
        ``object`` (text: `str`, None where the cell is empty).
    first_line : int
        Line of the first row in the file (2 below a CSV header); 1 if rows are not lines.
    lines : ndarray or None
        ``(n,)`` first line of each row, if quoted line breaks make rows longer than a line; or each row's number from
        1, if these are some rows of a source without lines.
    places : ndarray or None
        ``(n,)`` places of the rows among those of the source, from 0, if some were left out; None: none was.
    medians : Mapping[str, float]
        By column, the median that has filled its empty cells; empty without imputation.

    Examples
    --------
    >>> table = Table("records.csv", {"age": np.array([41.0, 52.0])}, first_line=2)
    >>> table.n, table.where(1), table.column("age").tolist()
    (2, 'line 3', [41.0, 52.0])
    """

    source: str
    columns: dict[str, Shaped[np.ndarray, "n"]]
    first_line: int = 1
    lines: Int[np.ndarray, "n"] | None = None
    places: Int[np.ndarray, "n"] | None = None
    medians: Mapping[str, float] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()), ()))

    def where(self, row: int) -> str:
        """Return the name of a row in messages (`row` counts from 0): ``line 5`` of a CSV file, else ``row 4``."""
        line = self.first_line + row if self.lines is None else int(self.lines[row])
        return f"line {line}" if self.first_line > 1 else f"row {line}"

    def column(self, name: str) -> Shaped[np.ndarray, "n"]:
        """Return the column of that name; a `DataError` with the nearest names if there is none."""
        if name not in self.columns:
            near = difflib.get_close_matches(name, self.columns, n=3)
            if longer := [each for each in self.columns if name in each.split()]:
                hint = f"did you mean {longer[0]!r}? In a list of names, one with blanks stands in quotes"
                raise DataError(f"{self.source}: there is no column {name!r}; {hint}", "missing-column")
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"it has {quote(self.columns)}"
            raise DataError(f"{self.source}: there is no column {name!r}; {hint}", "missing-column")
        return self.columns[name]


def quote(names: Iterable[str]) -> str:
    """Return names for a message: quoted, separated by commas, the first 20 of them.

    Examples
    --------
    >>> quote(["age", "sex"])
    "'age', 'sex'"
    """
    return list_names([*map(repr, names)], MOST_SHOWN)


def setting(config: Mapping[str, object], key: str, default: str = "") -> str:
    """Return the text under `key`, or `default`; a `DataError` if the value is not text.

    Examples
    --------
    >>> setting({"target": " y "}, "target"), setting({}, "id", "row")
    ('y', 'row')
    """
    value = config.get(key, default)
    if not isinstance(value, str):
        raise DataError(f"configuration: {key} must be text, not {value!r}", "bad-configuration")
    return value.strip()


def own_number(config: Mapping[str, object], key: str, default: int) -> int:
    """Return the number that a site sets under `key`; a `DataError` if it is not a whole number, 1 or greater.

    Examples
    --------
    >>> own_number({"min-leaf": 60}, "min-leaf", 5), own_number({}, "min-leaf", 5)
    (60, 5)
    """
    value = config.get(key, default)
    if type(value) is not int or value < 1:
        raise DataError(
            f"configuration: {key} must be a whole number, 1 or greater, not {value!r}", "bad-configuration"
        )
    return value


# --- Into a table -------------------------------------------------------------------------------------------------


def make_table(
    source: str,
    arrays: Iterable[tuple[str, Any]],
    first_line: int = 1,
    lines: Int[np.ndarray, "n"] | None = None,
    *,
    whole: bool = True,
) -> Table:
    """Return a table of checked columns.

    Parameters
    ----------
    source : str
        Name of the table in messages.
    arrays : iterable of (str, array)
        One-dimensional columns in order; a two-dimensional ``x`` becomes the columns ``x_0``, ``x_1``, ...
    first_line, lines
        As in `Table`.
    whole : bool
        Whether these are all rows of the source, which must be two at least.

    Raises
    ------
    DataError
        If a column has no name, the name of another or another number of rows, or holds neither numbers nor text; or
        if the source has fewer than two rows.

    Examples
    --------
    >>> table = make_table("records", [("age", [41, 52]), ("ward", ["a", None])])
    >>> table.columns["age"].tolist(), table.columns["ward"].tolist()
    ([41, 52], ['a', None])
    """
    pairs = [pair for name, array in arrays for pair in _one_dimensional(source, name, array)]
    check_names(source, [name for name, _ in pairs])
    lengths = {name: len(values) for name, values in pairs}
    first, n = next(iter(lengths.items()))
    for name, length in lengths.items():
        if length != n:
            raise DataError(f"{source}: {name!r} has {length} rows, but {first!r} has {n}", "bad-shape")
    if whole:
        check_rows(source, n)
    return Table(source, {name: _convert(source, name, values) for name, values in pairs}, first_line, lines)


def check_rows(source: str, n: int) -> None:
    """Refuse a source of fewer than two rows.

    Examples
    --------
    >>> check_rows("ward.csv", 0)
    Traceback (most recent call last):
    clients.data.table.DataError: ward.csv: has no rows; at least two are needed
    """
    if n == 0:
        raise DataError(f"{source}: has no rows; at least two are needed", "too-few-rows")
    if n == 1:
        raise DataError(
            f"{source}: has one row; any statistic of it would disclose that row, so at least two are needed",
            "too-few-rows",
        )


def check_names(source: str, names: Iterable[object]) -> None:
    """Refuse columns whose name is not text, or that share a name.

    Examples
    --------
    >>> check_names("ward.csv", ["age", "age"])
    Traceback (most recent call last):
    clients.data.table.DataError: ward.csv: two columns are named 'age'; rename one
    """
    seen: set[str] = set()
    for position, name in enumerate(names, start=1):
        if not isinstance(name, str):
            hint = "a name must be text, as frame.columns.map(str) makes it"
            raise DataError(f"{source}: column {position} is named {name!r}; {hint}", "bad-shape")
        if not name.strip():
            hint = "name it, or leave it out (pandas: to_csv(index=False))"
            raise DataError(f"{source}: column {position} has no name; {hint}", "bad-shape")
        if name in seen:
            raise DataError(f"{source}: two columns are named {name!r}; rename one", "bad-shape")
        seen.add(name)
    if not seen:
        raise DataError(f"{source}: has no columns", "bad-shape")


def frame_columns(frame: pd.DataFrame) -> Iterator[tuple[str, Shaped[np.ndarray, "n"]]]:
    """Yield columns as NumPy arrays; types that NumPy lacks (nullable, categorical, text) as objects."""
    for position, name in enumerate(frame.columns):
        series = frame.iloc[:, position]
        yield name, series.to_numpy() if isinstance(series.dtype, np.dtype) else series.astype(object).to_numpy()


def _one_dimensional(source: str, name: str, array: Any) -> list[tuple[str, Shaped[np.ndarray, "n"]]]:
    """Return the columns that one array, list or pandas Series stands for."""
    if isinstance(array, np.ma.MaskedArray):
        mask, array = np.ma.getmaskarray(array), array.data.astype(object)
        array[mask] = None  # asarray would bring the masked values back
    try:
        values = np.asarray(array)
    except ValueError as error:
        raise DataError(f"{source}, column {name!r}: is not an array: {error}", "bad-shape") from error
    if values.ndim == 2:
        return [(f"{name}_{j}", values[:, j]) for j in range(values.shape[1])]
    if values.ndim != 1:
        raise DataError(f"{source}, column {name!r}: has {values.ndim} dimensions; a column has one", "bad-shape")
    return [(name, values)]


def _convert(source: str, name: str, values: Shaped[np.ndarray, "n"]) -> Shaped[np.ndarray, "n"]:
    """Return the column in one of the types of `Table.columns`."""
    kind = values.dtype.kind
    if kind == "b":
        return values
    if kind == "f":
        return values.astype(np.float64)
    if kind in "iu":
        # Larger numbers are identifiers; as text they stay exact.
        return _as_text(values) if values.max(initial=0) > np.iinfo(np.int64).max else values.astype(np.int64)
    if kind == "U":
        return _as_text(values)
    if kind == "m":
        import pandas as pd

        return _as_text(pd.Series(values).astype(object).to_numpy(), np.isnat(values))
    if kind == "M":
        return _as_text(np.datetime_as_string(values), np.isnat(values))
    typed = _convert_objects(values) if kind == "O" else None
    if typed is None:
        content = "objects such as lists or bytes" if kind == "O" else str(values.dtype)
        raise DataError(
            f"{source}, column {name!r}: holds {content}; a column holds numbers or text: write it as text, or leave it"
            " out",
            "bad-shape",
        )
    return typed


def _convert_objects(values: Shaped[np.ndarray, "n"]) -> Shaped[np.ndarray, "n"] | None:
    """Return objects as numbers or text; None if they are neither."""
    import pandas as pd

    kind = pd.api.types.infer_dtype(values, skipna=True)
    missing = np.asarray(pd.isna(values))
    if kind == "boolean" and not missing.any():
        return values.astype(np.bool_)
    if kind == "integer" and not missing.any():
        try:
            return values.astype(np.int64)
        except OverflowError:
            return _as_text(values)
    if kind in ("boolean", "integer", "floating", "mixed-integer-float", "decimal", "empty"):
        return np.where(missing, np.nan, values).astype(np.float64)
    # Texts among numbers, as spreadsheets have them, dates, periods, intervals: what one cell shows is its text.
    if any(isinstance(value, _NO_CELL) for value in values.tolist()):
        return None
    return _as_text(values, missing)


def _as_text(values: Shaped[np.ndarray, "n"], missing: Bool[np.ndarray, "n"] | None = None) -> Shaped[np.ndarray, "n"]:
    """Return an object array of `str`, None where the cell is missing or empty."""
    text = np.empty(len(values), dtype=object)
    text[:] = [str(value) or None for value in values]
    if missing is not None:
        text[missing] = None
    return text
