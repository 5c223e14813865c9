"""Columns of a table by name or pattern, and their numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from clients.data.cells import number_of
from clients.data.table import GLOB, MOST_SHOWN, NUMBER, UNKNOWN, DataError, Table, setting

_ITEM = re.compile(r"""'([^']+)'(?![^,\s])|"([^"]+)"(?![^,\s])|([^,\s]+)""")
LARGEST = 1e50
"""Largest number in a table: products of squares of larger ones could overflow."""
_INFINITY = re.compile(r"\s*[+-]?inf(inity)?\s*", re.ASCII | re.IGNORECASE)


def split_patterns(patterns: str) -> list[str]:
    """Return the column names and globs of a list separated by commas or spaces; names with these stand in quotes.

    Examples
    --------
    >>> split_patterns("age, class_* 'mean area'")
    ['age', 'class_*', 'mean area']
    """
    return [single or double or plain for single, double, plain in _ITEM.findall(patterns)]


def patterns_text(patterns: Iterable[str]) -> str:
    """Return names and globs as the text that `split_patterns` splits.

    Examples
    --------
    >>> patterns_text(["age", "mean area"])
    "age, 'mean area'"
    """
    return ", ".join(repr(each) if re.search(r"[,\s]", each) else each for each in patterns)


def match_columns(table: Table, patterns: str) -> list[str]:
    """Return the names of the columns that `patterns` stands for, in file order, each once.

    Parameters
    ----------
    table : Table
        The table.
    patterns : str
        Column names and globs (``*``, ``?``, ``[...]``; upper and lower case differ), separated by commas or spaces.

    Raises
    ------
    DataError
        If a plain name is not a column. A glob may match nothing.

    Examples
    --------
    >>> from clients.data.table import make_table
    >>> table = make_table("records", [("age", [1, 2]), ("x_0", [3, 4]), ("x_1", [5, 6])])
    >>> match_columns(table, "x_*, age")
    ['age', 'x_0', 'x_1']
    """
    chosen: set[str] = set()
    for pattern in split_patterns(patterns):
        if pattern not in table.columns and GLOB.search(pattern):
            chosen.update(name for name in table.columns if fnmatchcase(name, pattern))
        else:
            table.column(pattern)
            chosen.add(pattern)
    return [name for name in table.columns if name in chosen]


def holds_numbers(cells: Shaped[np.ndarray, "n"]) -> bool:
    """Whether a column is an input by default: its type is that of numbers, and not all of its cells are empty.

    An empty column may be one of text that nobody filled in here.

    Examples
    --------
    >>> [holds_numbers(np.array(cells)) for cells in ([41.0, np.nan], [np.nan, np.nan], ["f", "m"])]
    [True, False, False]
    """
    if cells.dtype.kind != "f":
        return cells.dtype.kind in "iu"
    return not len(cells) or not np.isnan(cells).all()


def sensitive_columns(table: Table, config: Mapping[str, object]) -> list[str]:
    """Return the names of the columns that ``sensitive`` stands for; a name that is no column stands for none.

    Examples
    --------
    >>> from clients.data.table import make_table
    >>> table = make_table("records", [("age", [41, 52]), ("sex", ["f", "m"])])
    >>> sensitive_columns(table, {"sensitive": "sex, race"})
    ['sex']
    """
    patterns = split_patterns(setting(config, "sensitive"))
    return [name for name in table.columns if any(fnmatchcase(name, pattern) for pattern in patterns)]


def numeric(table: Table, name: str, *, allow_missing: bool) -> Float64[np.ndarray, "n"]:
    """Return a column as finite numbers; NaN stands for an empty cell.

    Raises
    ------
    DataError
        For the first bad row: text (``not-numeric``), an infinity or a number beyond `LARGEST` (``not-finite``), or,
        unless `allow_missing`, an empty cell or NaN (``missing-value``).

    Examples
    --------
    >>> from clients.data.table import make_table
    >>> table = make_table("records", [("age", [41, None])])
    >>> numeric(table, "age", allow_missing=True).tolist()
    [41.0, nan]
    """
    values = table.column(name)
    if values.dtype == object:
        is_text = (cell is not None and not NUMBER.fullmatch(cell) for cell in values)
        if len(rows := np.flatnonzero(np.fromiter(is_text, np.bool_, table.n))):
            raise _text_error(table, name, _odd_one(values, rows), allow_missing=allow_missing)
    numbers = values.astype(np.float64)  # None becomes NaN
    for row in np.flatnonzero(np.isinf(numbers))[:1]:
        raise _infinite_error(table, name, int(row))
    for row in np.flatnonzero(np.abs(numbers) > LARGEST)[:1]:
        cell = f"{cell_name(table, name, int(row))}: {numbers[row]:g}"
        raise DataError(f"{cell} is too large; numbers up to {LARGEST:g} can be squared", "not-finite")
    if not allow_missing:
        for row in np.flatnonzero(np.isnan(numbers))[:1]:
            raise DataError(
                f"{cell_name(table, name, int(row))}: is empty; fill it, or set missing=impute", "missing-value"
            )
    return numbers


def _odd_one(values: Shaped[np.ndarray, "n"], rows: Int64[np.ndarray, "texts"]) -> int:
    """Return the first of the rows with text; in a column such as yes, no, perhaps the first that is none of these."""
    odd = (row for row in rows.tolist() if number_of(values[row]) is None)
    return int(next(odd, rows[0]))


def cell_name(table: Table, name: str, row: int) -> str:
    """Return the beginning of a message about one cell: file, line or row, column (`row` counts from 0).

    Examples
    --------
    >>> from clients.data.table import make_table
    >>> cell_name(make_table("records", [("age", [41, 52])]), "age", 1)
    "records, row 2, column 'age'"
    """
    return f"{table.source}, {table.where(row)}, column {name!r}"


def _text_error(table: Table, name: str, row: int, *, allow_missing: bool) -> DataError:
    cell = str(table.columns[name][row])
    if _INFINITY.fullmatch(cell):
        return _infinite_error(table, name, row)
    text = repr(cell if len(cell) <= MOST_SHOWN else cell[:MOST_SHOWN] + "...")
    unknown = cell.strip().lower() in UNKNOWN
    hint = f"; leave {'the cell empty' if allow_missing else 'the row out'} where nothing is known" if unknown else ""
    return DataError(
        f"{cell_name(table, name, row)}: {text} is text where a number belongs{hint}",
        "not-numeric",
    )


def _infinite_error(table: Table, name: str, row: int) -> DataError:
    return DataError(
        f"{cell_name(table, name, row)}: is infinite; give a finite number or leave out the row", "not-finite"
    )
