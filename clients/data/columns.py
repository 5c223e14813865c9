"""Columns of several sites' files: a check that each file has the needed columns, and that all have the same."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from clients.data.blocks import read_head
from clients.data.cells import example_of, numbers_of
from clients.data.column_selection import holds_numbers, sensitive_columns
from clients.data.files import read_table
from clients.data.simulated_sites import SimulatedSites
from clients.data.source import find_function
from clients.data.table import DataError, Table, quote, setting
from common.data_places import GIVEN_IN_PYTHON
from common.grouping import group_messages

_MOST_MESSAGES = 3

S = TypeVar("S")
T = TypeVar("T")

Tables = Mapping[str, Table]
"""Tables by their name in messages; the `source` of a file's table is its path."""


def of_each(tables: Tables, read: Callable[[Table], T]) -> dict[str, T]:
    """Return the result of `read` for each table; errors about several tables are raised as one.

    Raises
    ------
    DataError
        If `read` raises one.
    """
    return read_all(tables, read, {name: table.source for name, table in tables.items()})


def read_all(values: Mapping[str, S], read: Callable[[S], T], sources: Mapping[str, str]) -> dict[str, T]:
    """Return the result of `read` for each value; errors are raised as one, `sources` as in `one_error`."""
    results, errors = {}, {}
    for name, value in values.items():
        try:
            results[name] = read(value)
        except DataError as error:
            errors[name] = error
    if errors:
        raise one_error(errors, sources)
    return results


def one_error(errors: Mapping[str, DataError], sources: Mapping[str, str]) -> DataError:
    """Join the errors of several tables or files, by name; a message may begin with its source."""
    first = next(iter(errors.values()))
    if len(errors) == 1:
        return first
    said = {
        name: str(error).removeprefix(f"{sources[name]}: ").removeprefix(f"{sources[name]}, ")
        for name, error in errors.items()
    }
    if said[next(iter(said))].startswith("configuration: ") and len(set(said.values())) == 1:
        return first  # not about a file
    return DataError(_first(group_messages(said.items())), first.code)


def _first(messages: Sequence[str]) -> str:
    more = len(messages) - _MOST_MESSAGES
    return "; ".join(messages[:_MOST_MESSAGES]) + (f"; and {more} more messages" if more > 0 else "")


def check_alike(tables: Tables, used: Callable[[Table], Iterable[str]]) -> None:
    """Refuse tables whose used columns have different names.

    Parameters
    ----------
    tables : Mapping[str, Table]
        By name.
    used : Callable
        Returns the names of a table's columns that all tables must have.

    Raises
    ------
    DataError
        If `used` raises one; or, with the code ``bad-shape``, if the names differ.

    Examples
    --------
    >>> north, south = (Table(name, dict.fromkeys(names)) for name, names in (("n", ("age",)), ("s", ("aeg",))))
    >>> check_alike({"north.csv": north, "south.csv": south}, lambda table: table.columns)
    Traceback (most recent call last):
    clients.data.table.DataError: south.csv: there is no column 'age' (is it 'aeg'?); all need the same columns as
    north.csv: mend the files, or name those that all have in features
    """
    columns = {name: tuple(sorted(names)) for name, names in of_each(tables, used).items()}
    [(common, _)] = Counter(columns.values()).most_common(1)
    example = next(name for name, own in columns.items() if own == common)
    differences = {
        name: _difference(tables[name], own, common, tables[example]) for name, own in columns.items() if own != common
    }
    if differences:
        raise DataError(
            f"{_first(group_messages(differences.items()))}; all need the same columns as {example}: mend the files, or"
            " name those that all have in features",
            "bad-shape",
        )


def _difference(table: Table, own: Sequence[str], common: Sequence[str], example: Table) -> str:
    """Describe how a table's columns differ from the common ones, which `example` has."""
    lacking = [name for name in common if name not in own]
    further = [name for name in own if name not in common]
    for name in lacking:
        if name in table.columns:
            empty = table.columns[name].dtype.kind in "iuf"
            held = "is empty, and holds" if empty else f"holds {_text(table, name)}, and"
            return f"column {name!r} {held} numbers in the others"
        near = [each for each in further if each.lower() == name.lower()] or difflib.get_close_matches(
            name, further, n=1
        )
        is_it = f" (is it {near[0]!r}?)" if near else ""
        return f"there is no column {quote(lacking)}{is_it}"
    for name in further:
        if name in example.columns:
            empty = example.columns[name].dtype.kind in "iuf"
            return f"column {name!r} holds numbers, and {'is empty' if empty else _text(example, name)} in the others"
    return f"the column {quote(further)} is not in the others"


def _text(table: Table, name: str) -> str:
    """Describe a column of text, and what ``missing`` would read there."""
    cells = table.columns[name]
    numbers = numbers_of(cells)
    return "text" if numbers is None else f"text (missing=impute or drop reads {example_of(cells, numbers)[1]})"


def unused_columns(tables: Tables, config: Mapping[str, Any]) -> list[str]:
    """Return a line on the columns without numbers, which a protocol of all columns of numbers does not use.

    Examples
    --------
    >>> import numpy as np
    >>> table = Table("ward.csv", {"age": np.array([41.0]), "sex": np.array(["f"], object)})
    >>> print(*unused_columns({"ward.csv": table}, {}))
    not used, since they hold no numbers: 'sex' (categories makes numbers of texts; features names truth values)
    """
    if setting(config, "features"):
        return []
    roles = {setting(config, role) for role in ("target", "id", "truth", "group")}
    names = dict.fromkeys(
        name
        for table in tables.values()
        for name, cells in table.columns.items()
        if not holds_numbers(cells) and name not in roles and name not in sensitive_columns(table, config)
    )
    hint = "categories makes numbers of texts; features names truth values"
    return [f"not used, since they hold no numbers: {quote(names)} ({hint})"] if names else []


def check_sites(sites: SimulatedSites, check: Callable[[Tables], None]) -> None:
    """Check the columns of simulated sites by the first rows of their files, or by all rows of tables given in Python.

    A site's own function may take long, and is not called here but by the sites.

    Parameters
    ----------
    sites : SimulatedSites
        The sites.
    check : Callable
        Raises a `DataError` for tables that cannot be used together.

    Raises
    ------
    DataError
        If the first rows of a file cannot be read, or as `check`.
    """
    if sites.paths:
        by_name = {path.name: path for path in sites.paths}
        _check_files(
            by_name if len(by_name) == len(sites.paths) else dict(zip(sites.names, sites.paths, strict=True)), check
        )
    elif sites.data.startswith(GIVEN_IN_PYTHON):
        function: Any = find_function(sites.data)
        check(function.tables)


def _check_files(paths: Mapping[str, Path], check: Callable[[Tables], None]) -> None:
    heads = read_all(paths, read_head, {name: str(path) for name, path in paths.items()})
    try:
        check(heads)
    except DataError as error:
        if error.code != "bad-shape":
            raise
        # A column of numbers in the first rows may have text further down, and then no protocol uses it.
        check({name: read_table(path) for name, path in paths.items()})
