"""Preparation of a site's table before any protocol sees it: missing cells, numbers written as people write them,
categories.

Nothing happens unless a setting asks for it. What is computed from rows, such as a median, stays at the site.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import numpy as np
from jaxtyping import Bool, Float64, Int64

from clients.data.cells import TRUTH_WORDS, Cells, example_of, numbers_of, text_of
from clients.data.column_selection import cell_name, split_patterns
from clients.data.table import GLOB, UNKNOWN, DataError, Table, quote, setting

SEPARATORS = {"categories": "|", "ordinal": "<"}
"""What stands between the values of a column, by key."""

KEYS_OF_NUMBERS = ("missing", "indicators", "categories")
"""Settings that ask for a preparation of columns of numbers, and have no meaning for labels."""
KEYS = (*KEYS_OF_NUMBERS, "ordinal")
"""Settings that ask for a preparation."""
MISSING = ("refuse", "drop", "impute")
MOST_VALUES = 50
"""Most values of a category."""
REST = "*"
"""Stands for all values of a category that are not named."""


@dataclass(frozen=True)
class Category:
    """A column of categories, with the values that all sites agreed on.

    Attributes
    ----------
    column : str
        Its name.
    values : tuple of str
        Its values, in order; `REST` last if all others have a column of their own.
    ordinal : bool
        Whether the values become 0, 1, 2, ... in one column, instead of a column each.
    """

    column: str
    values: tuple[str, ...]
    ordinal: bool = False


@dataclass(frozen=True, eq=False)
class PreparedTable:
    """A table after preparation.

    Attributes
    ----------
    table : Table
        Its columns and rows; `Table.lines` still names those of the source.
    notes : list of str
        What was done, with counts, for the site's own eyes.
    empty : list of str
        Columns of categories that are 0 in all rows: another site may have the value.
    """

    table: Table
    notes: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)


def is_wanted(config: Mapping[str, object], *keys: str) -> bool:
    """Whether a setting, or one of these, asks for a preparation.

    Examples
    --------
    >>> is_wanted({"missing": "refuse"}), is_wanted({"categories": "sex=f|m"})
    (False, True)
    """
    return any(setting(config, key) not in ("", "refuse") for key in keys or KEYS)


def prepare(table: Table, config: Mapping[str, object], *, whole: bool = True) -> PreparedTable:
    """Return a table with its missing cells and categories dealt with as the settings say.

    Parameters
    ----------
    table : Table
        As it was read.
    config : Mapping
        Run or node configuration. ``missing``: ``refuse`` leaves all cells as they are; ``drop`` leaves out rows
        without some number; ``impute`` fills it with the median of the site's own column. Both leave out rows without
        an outcome, and read words for unknown values (`NA`), thousands (`1,234.5`), units (`45 y`), and yes and no as
        numbers. ``indicators``: columns that get another one, ``NAME_missing``, which is 1 where the cell was empty: at
        every site, so that all have the same columns. ``categories``: values of columns of text by name,
        ``sex=f|m; ward=north|south|*``: each becomes a column of 0 and 1. ``ordinal``: the same for values in order,
        ``grade=low<mid<high``, which become 0, 1, 2 in one column. A glob names several columns:
        ``class_*=well<sick``.
    whole : bool
        Whether these are all rows; of the first ones, only the columns are prepared.

    Raises
    ------
    DataError
        If a setting cannot be read, names a column that is missing, or a column has no known number at all.

    Examples
    --------
    >>> table = Table("ward.csv", {"age": np.array(["41 y", None], object), "sex": np.array(["f", "m"], object)}, 2)
    >>> done = prepare(table, {"missing": "impute", "categories": "sex=f|m"})
    >>> {name: cells.tolist() for name, cells in done.table.columns.items()}
    {'age': [41.0, 41.0], 'sex=f': [1.0, 0.0], 'sex=m': [0.0, 1.0]}
    >>> done.notes[0]
    "'age': read as numbers, such as '41 y' as 41"
    """
    if not is_wanted(config):
        return PreparedTable(table)
    way = setting(config, "missing") or "refuse"
    if way not in MISSING:
        raise DataError(f"configuration: missing must be one of {', '.join(MISSING)}, not {way!r}", "bad-configuration")
    notes: list[str] = []
    categories = [
        replace(each, column=name) for each in categories_of(config) for name in _columns_of(each.column, table)
    ]
    if way != "refuse":
        table = _read_numbers(table, config, {each.column for each in categories}, notes)
    empty = {name: _is_missing(cells) for name, cells in table.columns.items()}
    table = _indicated(table, config, empty)
    before = table.columns.keys()
    for category in categories:
        table = _encoded(table, category, notes)
    zero = [name for name in table.columns if name not in before and not table.columns[name].any()]
    if whole and way != "refuse":
        table = _complete(table, config, way, notes)
    return PreparedTable(table, notes, [name for name in zero if not name.endswith(f"={REST}")])


def empty_columns(names: Sequence[str], who: str = "no row") -> list[str]:
    """Return a line on columns of categories that are 0 in all rows; none without such a column.

    Examples
    --------
    >>> empty_columns(["sex=male"])
    ["no row has 'sex=male', which categories names: the column is 0"]
    """
    are = "the column is" if len(names) == 1 else "the columns are"
    return [f"{who} has {quote(names)}, which categories names: {are} 0"] if names else []


def prepare_new_rows(table: Table, config: Mapping[str, object], medians: Mapping[str, float]) -> Table:
    """Return rows to predict, prepared as the rows were that a model was learned from. No row is left out.

    Parameters
    ----------
    table : Table
        As it was read. Columns that the settings name may be missing: what is to be predicted may need others only.
    config : Mapping
        As of `prepare`.
    medians : Mapping
        `Table.medians` of the rows that were learned from: they fill empty cells, not those of the new rows.

    Examples
    --------
    >>> table = Table("new.csv", {"age": np.array(["NA"], object), "sex": np.array(["m"], object)}, 2)
    >>> done = prepare_new_rows(table, {"missing": "impute", "categories": "sex=f|m"}, {"age": 41.0})
    >>> {name: cells.tolist() for name, cells in done.columns.items()}
    {'age': [41.0], 'sex=f': [0.0], 'sex=m': [1.0]}
    """
    here = {
        "indicators": " ".join(name for name in split_patterns(setting(config, "indicators")) if name in table.columns),
        "categories": _of_columns(setting(config, "categories"), table),
        "ordinal": _of_columns(setting(config, "ordinal"), table),
    }
    return filled(prepare(table, {**config, **here}, whole=False).table, medians)


def filled(table: Table, medians: Mapping[str, float]) -> Table:
    """Fill the empty cells of columns of numbers that have a median.

    Examples
    --------
    >>> filled(Table("new.csv", {"age": np.array([np.nan, 30.0])}), {"age": 41.0}).columns["age"].tolist()
    [41.0, 30.0]
    """
    columns = dict(table.columns)
    for name in medians.keys() & columns.keys():
        missing = _is_missing(columns[name])
        if missing.all():
            columns[name] = np.full(table.n, medians[name])
        elif columns[name].dtype.kind == "f":
            columns[name] = np.where(missing, medians[name], columns[name])
    return replace(table, columns=columns)


def _columns_of(pattern: str, table: Table) -> list[str]:
    """Return the columns that a name or glob matches; of a name that no column has, the name."""
    matching = [name for name in table.columns if fnmatchcase(name, pattern)]
    return [pattern] if pattern in table.columns or not matching else matching


def _of_columns(text: str, table: Table) -> str:
    """Return the parts of ``categories`` or ``ordinal`` whose columns a table has."""
    parts = [part for part in text.split(";") if _columns_of(part.partition("=")[0].strip(), table)[0] in table.columns]
    return ";".join(parts)


def _read_numbers(table: Table, config: Mapping[str, object], categories: set[str], notes: list[str]) -> Table:
    """Read columns of text and of truth values as numbers, where all of a column are; codes with zeros stay."""
    columns = dict(table.columns)
    for name in _content_columns(table, config):
        cells = columns[name]
        is_class = name == setting(config, "target") and _has_truth_words(cells)
        if name in categories or is_class or _is_coded(cells) or (numbers := numbers_of(cells)) is None:
            continue
        columns[name] = numbers
        if example := example_of(cells, numbers)[1]:
            notes.append(f"{name!r}: read as numbers, such as {example}")
    return replace(table, columns=columns)


def _has_truth_words(cells: Cells) -> bool:
    """Whether a column holds yes and no, or true and false: as an outcome, these are classes."""
    words = {cell.strip().lower() for cell in cells.tolist() if cell} if cells.dtype == object else set()
    return cells.dtype == np.bool_ or not words.isdisjoint(TRUTH_WORDS)


def _is_coded(cells: Cells) -> bool:
    """Whether a column of text holds numbers with leading zeros, which are codes."""
    return cells.dtype == object and any(
        cell is not None and re.match(r"\s*[+-]?0\d", cell) is not None for cell in cells.tolist()
    )


def _content_columns(table: Table, config: Mapping[str, object]) -> list[str]:
    """Return the columns that hold content: not names of rows, nor sensitive ones, nor true classes."""
    patterns = [setting(config, "id"), setting(config, "truth"), setting(config, "group")]
    patterns += split_patterns(setting(config, "sensitive"))
    return [name for name in table.columns if not any(pattern and fnmatchcase(name, pattern) for pattern in patterns)]


def _is_missing(cells: Cells) -> Bool[np.ndarray, "n"]:
    if cells.dtype == object:
        return np.array([cell is None or cell.strip().lower() in UNKNOWN for cell in cells.tolist()], np.bool_)
    return np.isnan(cells) if cells.dtype.kind == "f" else np.zeros(len(cells), np.bool_)


# --- Missing cells ------------------------------------------------------------------------------------------------


def _indicated(table: Table, config: Mapping[str, object], empty: Mapping[str, Bool[np.ndarray, "n"]]) -> Table:
    """Add a column of 0 and 1 for every column that `indicators` names."""
    columns = dict(table.columns)
    for pattern in split_patterns(setting(config, "indicators")):
        if not GLOB.search(pattern):
            table.column(pattern)
        for name in table.columns:
            if fnmatchcase(name, pattern):
                columns[f"{name}_missing"] = empty[name].astype(np.float64)
    return replace(table, columns=columns)


def _complete(table: Table, config: Mapping[str, object], way: str, notes: list[str]) -> Table:
    """Leave out rows without an outcome, and rows or cells without a number."""
    target = setting(config, "target")
    used = [name for name in _used_columns(table, config) if name != target]
    keep = _has_outcome(table, config)
    if n := int((~keep).sum()):
        notes.append(f"{n} of {table.n} rows left out: {target!r} is empty")
    missing = {name: _is_missing(table.columns[name]) for name in used}
    missing = {name: cells for name, cells in missing.items() if (cells & keep).any()}
    if way == "drop":
        before = keep.sum()
        for cells in missing.values():
            keep &= ~cells
        if n := int(before - keep.sum()):
            names = quote(name for name in missing)
            notes.append(f"{n} of {table.n} rows left out: a number is missing in {names}")
        missing = {}
    columns = {name: cells[keep] for name, cells in table.columns.items()}
    medians = _medians(table, {name: columns[name] for name in used}) if way == "impute" else {}
    for name, cells in missing.items():
        columns[name] = np.where(cells[keep], medians[name], columns[name])
        notes.append(f"{name!r}: {int(cells[keep].sum())} of {int(keep.sum())} cells filled with the median")
    return replace(table, columns=columns, lines=_lines(table, keep), medians=medians)


def first_rows(table: Table, config: Mapping[str, object]) -> Table:
    """Return the first rows of a file, prepared as far as its columns: without the rows that have no outcome.

    Parameters are those of `prepare`.

    Examples
    --------
    >>> table = Table("ward.csv", {"stay": np.array([3.0, np.nan]), "age": np.array([np.nan, 50.0])})
    >>> first_rows(table, {"missing": "impute", "target": "stay"}).columns["age"].tolist()
    [nan]
    """
    table = prepare(table, config, whole=False).table
    if setting(config, "missing") in ("", "refuse"):
        return table
    keep = _has_outcome(table, config)
    columns = {name: cells[keep] for name, cells in table.columns.items()}
    return replace(table, columns=columns, lines=_lines(table, keep))


def _lines(table: Table, keep: Bool[np.ndarray, "n"]) -> Int64[np.ndarray, "n"] | None:
    """Return the lines of the source in which the kept rows stand; None: as before."""
    lines = table.lines if table.lines is not None else np.arange(table.n) + table.first_line
    return table.lines if keep.all() else lines[keep]


def _has_outcome(table: Table, config: Mapping[str, object]) -> Bool[np.ndarray, "n"]:
    target = setting(config, "target")
    return ~_is_missing(table.columns[target]) if target in table.columns else np.ones(table.n, np.bool_)


def _used_columns(table: Table, config: Mapping[str, object]) -> list[str]:
    """Return the columns of numbers that a protocol may use: those that ``features`` names, else all."""
    patterns = split_patterns(setting(config, "features"))
    return [
        name
        for name in _content_columns(table, config)
        if table.columns[name].dtype.kind in "iuf"
        and (not patterns or any(fnmatchcase(name, pattern) for pattern in patterns))
    ]


def _medians(table: Table, columns: Mapping[str, Cells]) -> dict[str, float]:
    """Return the median of the known cells of every column."""
    for name, cells in columns.items():
        if len(cells) and _is_missing(cells).all():
            raise DataError(
                f"{table.source}, column {name!r}: has no number; leave it out of features", "missing-value"
            )
    return {name: float(np.nanmedian(cells)) for name, cells in columns.items() if len(cells)}


# --- Categories ---------------------------------------------------------------------------------------------------


def categories_of(config: Mapping[str, object]) -> list[Category]:
    """Return the categories that ``categories`` and ``ordinal`` name.

    Raises
    ------
    DataError
        If they cannot be read.

    Examples
    --------
    >>> categories_of({"categories": "sex=f|m; ward=a|*", "ordinal": "grade=low<high"})[1]
    Category(column='ward', values=('a', '*'), ordinal=False)
    """
    categories = []
    for key, separator in SEPARATORS.items():
        for part in filter(None, map(str.strip, setting(config, key).split(";"))):
            column, _, text = part.partition("=")
            values = tuple(map(str.strip, text.split(separator)))
            if not text or len(set(values)) != len(values) or not all(values) or len(values) > MOST_VALUES:
                raise DataError(
                    f"configuration: {key} has {part!r}; write NAME=VALUE{separator}VALUE, each value once, at most"
                    f" {MOST_VALUES}, columns separated by ;",
                    "bad-configuration",
                )
            categories.append(Category(column.strip(), values, ordinal=key == "ordinal"))
    return categories


def categories_text(categories: Sequence[Category]) -> str:
    """Return categories as the key ``categories`` has them.

    Examples
    --------
    >>> categories_text([Category("sex", ("f", "m")), Category("ward", ("a", "*"))])
    'sex=f|m; ward=a|*'
    """
    return "; ".join(f"{each.column}={'|'.join(each.values)}" for each in categories)


def _encoded(table: Table, category: Category, notes: list[str]) -> Table:
    """Put columns of numbers in the place of a column of categories."""
    cells = text_of(table.column(category.column))
    values = [value for value in category.values if value != REST]
    place = {value: j for j, value in enumerate(values)}
    codes = np.array([place.get(cell, -1) for cell in cells])
    other = np.array([cell not in place and cell != "" for cell in cells])
    encoded: dict[str, Float64[np.ndarray, "n"]] = {}
    if category.ordinal:
        for row in np.flatnonzero(other)[:1]:
            raise DataError(
                f"{cell_name(table, category.column, int(row))}: {cells[row]!r} is none of {quote(values)}",
                "label-out-of-range",
            )
        encoded[category.column] = np.where(codes < 0, np.nan, codes.astype(np.float64))
    else:
        encoded = {f"{category.column}={value}": (codes == j).astype(np.float64) for j, value in enumerate(values)}
        if REST in category.values:
            encoded[f"{category.column}={REST}"] = other.astype(np.float64)
        if n := int(other.sum()):
            columns_for_rest = "one column" if REST in category.values else "no column"
            notes.append(
                f"{category.column!r}: {n} of {table.n} cells have other values, which have {columns_for_rest}"
            )
    columns: dict[str, Cells] = {}
    for name, old in table.columns.items():
        columns |= encoded if name == category.column else {name: old}
    return replace(table, columns=columns)
