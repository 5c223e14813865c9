"""Preparation of a site's table for every protocol: missing cells, numbers with units or signs, categories.

Every step needs a setting. Numbers computed from rows, such as medians, stay at the site.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import numpy as np
from jaxtyping import Bool, Float64, Int64

from clients.data.categories import REST, Category, categories_of, column_of, parts_of
from clients.data.cells import TRUTH_WORDS, Cells, example_of, numbers_of, text_of
from clients.data.column_selection import cell_name, holds_numbers, patterns_text, sensitive_columns, split_patterns
from clients.data.table import GLOB, UNKNOWN, DataError, Table, quote, setting

KEYS_OF_NUMBERS = ("missing", "indicators", "categories")
"""Settings of the preparation of columns of numbers, without meaning for labels."""
KEYS = (*KEYS_OF_NUMBERS, "ordinal")
"""Settings of the preparation."""
MISSING = ("refuse", "drop", "impute")


@dataclass(frozen=True, eq=False)
class PreparedTable:
    """A table after preparation.

    Attributes
    ----------
    table : Table
        The prepared table; `Table.lines` still has the lines of the source.
    notes : list of str
        Steps of the preparation, with counts, for the site's own log.
    empty : list of str
        Columns of categories that are 0 in all rows: another site may have the value.
    """

    table: Table
    notes: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)


def is_wanted(config: Mapping[str, object], *keys: str) -> bool:
    """Whether some setting, or one of these keys, asks for a preparation.

    Examples
    --------
    >>> is_wanted({"missing": "refuse"}), is_wanted({"categories": "sex=f|m"})
    (False, True)
    """
    return any(setting(config, key) not in ("", "refuse") for key in keys or KEYS)


def prepare(table: Table, config: Mapping[str, object], *, whole: bool = True) -> PreparedTable:
    """Prepare the missing cells and the categories of a table.

    Parameters
    ----------
    table : Table
        The table before preparation.
    config : Mapping
        Run or node configuration.

        - ``missing``: ``refuse`` leaves all cells as they are; ``drop`` leaves out rows without some number; ``impute``
          fills it with the median of the site's own column. Both leave out rows without an outcome or group, and read
          words for unknown values (`NA`), thousands (`1,234.5`), units (`45 y`), and yes and no as numbers.
        - ``indicators``: columns that get a column ``NAME_missing``, which is 1 where the cell was empty. All sites add
          it, so that they have the same columns.
        - ``categories``: values of columns of text, ``sex=f|m; ward=north|south|*``; each becomes a column of 0 and 1.
        - ``ordinal``: ordered values, ``grade=low<mid<high``, which become 0, 1, 2 in one column.

        A glob names several columns: ``class_*=well<sick``.
    whole : bool
        Whether these are all rows; else they are the first ones, and only the columns are prepared.

    Raises
    ------
    DataError
        If a setting cannot be read or names a missing column, or a column has no known number.

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
    """Prepare rows to predict as the model's training rows were prepared. No row is left out.

    Parameters
    ----------
    table : Table
        The rows before preparation. Columns of the settings may be missing, if the model does not need them.
    config : Mapping
        As in `prepare`.
    medians : Mapping
        `Table.medians` of the training rows, which fill empty cells.

    Examples
    --------
    >>> table = Table("new.csv", {"age": np.array(["NA"], object), "sex": np.array(["m"], object)}, 2)
    >>> done = prepare_new_rows(table, {"missing": "impute", "categories": "sex=f|m"}, {"age": 41.0})
    >>> {name: cells.tolist() for name, cells in done.columns.items()}
    {'age': [41.0], 'sex=f': [0.0], 'sex=m': [1.0]}
    """
    here = {
        "indicators": patterns_text(
            name for name in split_patterns(setting(config, "indicators")) if name in table.columns
        ),
        "categories": _of_columns(setting(config, "categories"), table),
        "ordinal": _of_columns(setting(config, "ordinal"), table),
    }
    return filled(prepare(table, {**config, **here}, whole=False).table, medians)


def complete_rows(table: Table, config: Mapping[str, object], *, inputs: bool) -> Table:
    """Leave out rows with empty cells, or fill them, as ``missing`` says.

    Parameters
    ----------
    table : Table
        The fusion center's own, after `prepare_new_rows`.
    config : Mapping
        As in `prepare`.
    inputs : bool
        Whether the rows have inputs, which ``missing`` leaves out or fills, too; else only rows without an outcome are
        left out.

    Examples
    --------
    >>> table = Table("test.csv", {"stay": np.array([3.0, np.nan]), "age": np.array([np.nan, 50.0])})
    >>> done = complete_rows(table, {"missing": "impute", "target": "stay"}, inputs=False)
    >>> {name: cells.tolist() for name, cells in done.columns.items()}
    {'stay': [3.0], 'age': [nan]}
    """
    way = setting(config, "missing") or "refuse"
    if way == "refuse":
        return table
    return _complete(table, config, way, []) if inputs else _with_outcome(table, config)


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
    """Return the columns that a name or glob matches; the name itself if there is no such column."""
    matching = [name for name in table.columns if fnmatchcase(name, pattern)]
    return [pattern] if pattern in table.columns or not matching else matching


def _of_columns(text: str, table: Table) -> str:
    """Return the parts of ``categories`` or ``ordinal`` about columns of this table."""
    return "; ".join(part for part in parts_of(text) if _columns_of(column_of(part), table)[0] in table.columns)


def _read_numbers(table: Table, config: Mapping[str, object], categories: set[str], notes: list[str]) -> Table:
    """Read columns as numbers if all their cells are numbers or truth values; codes with leading zeros stay text."""
    columns = dict(table.columns)
    for name in _content_columns(table, config):
        cells = columns[name]
        is_class = name == setting(config, "target") and _has_truth_words(cells)
        if name in categories or is_class or (numbers := numbers_of(cells)) is None:
            continue
        columns[name] = numbers
        if (name == setting(config, "target") or _is_allowed(name, config)) and (
            example := example_of(cells, numbers)[1]
        ):
            notes.append(f"{name!r}: read as numbers, such as {example}")
    return replace(table, columns=columns)


def _has_truth_words(cells: Cells) -> bool:
    """Whether a column holds yes and no, or true and false, which are classes if it is the target."""
    words = {cell.strip().lower() for cell in cells.tolist() if cell} if cells.dtype == object else set()
    return cells.dtype == np.bool_ or not words.isdisjoint(TRUTH_WORDS)


def _content_columns(table: Table, config: Mapping[str, object]) -> list[str]:
    """Return the columns other than names of rows, persons, sensitive columns and true classes."""
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
    keep = _is_known(table, config)
    if n := int((~keep).sum()):
        empty = [name for name in _needed_columns(table, config) if _is_missing(table.columns[name]).any()]
        notes.append(f"{n} of {table.n} rows left out: {quote(empty)} {'is' if len(empty) == 1 else 'are'} empty")
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
    return replace(table, columns=columns, lines=_lines(table, keep), places=_places(keep), medians=medians)


def first_rows(table: Table, config: Mapping[str, object]) -> Table:
    """Prepare the columns of a file's first rows, and leave out rows without an outcome; parameters as in `prepare`.

    Examples
    --------
    >>> table = Table("ward.csv", {"stay": np.array([3.0, np.nan]), "age": np.array([np.nan, 50.0])})
    >>> first_rows(table, {"missing": "impute", "target": "stay"}).columns["age"].tolist()
    [nan]
    """
    table = prepare(table, config, whole=False).table
    if setting(config, "missing") in ("", "refuse"):
        return table
    return _with_outcome(table, config)


def _with_outcome(table: Table, config: Mapping[str, object]) -> Table:
    """Leave out the rows without an outcome, or group."""
    keep = _is_known(table, config)
    columns = {name: cells[keep] for name, cells in table.columns.items()}
    return replace(table, columns=columns, lines=_lines(table, keep), places=_places(keep))


def _lines(table: Table, keep: Bool[np.ndarray, "n"]) -> Int64[np.ndarray, "n"] | None:
    """Return the kept rows' lines in the source; as before if all rows are kept."""
    lines = table.lines if table.lines is not None else np.arange(table.n) + table.first_line
    return table.lines if keep.all() else lines[keep]


def _places(keep: Bool[np.ndarray, "n"]) -> Int64[np.ndarray, "kept"] | None:
    return None if keep.all() else np.flatnonzero(keep)


def _needed_columns(table: Table, config: Mapping[str, object]) -> list[str]:
    """Return the columns without which a row is of no use, and which no median can fill: outcome and groups."""
    target = setting(config, "target")
    return [name for name in table.columns if name == target or name in sensitive_columns(table, config)]


def _is_known(table: Table, config: Mapping[str, object]) -> Bool[np.ndarray, "n"]:
    """Return a mask of the rows with outcome and groups."""
    known = np.ones(table.n, np.bool_)
    for name in _needed_columns(table, config):
        known &= ~_is_missing(table.columns[name])
    return known


def _used_columns(table: Table, config: Mapping[str, object]) -> list[str]:
    """Return the columns of numbers that a protocol may use: those that ``features`` names, else all."""
    patterns = split_patterns(setting(config, "features"))
    return [
        name
        for name in _content_columns(table, config)
        if table.columns[name].dtype.kind in "iuf"
        and _is_allowed(name, config)
        and (patterns or holds_numbers(table.columns[name]))
    ]


def _is_allowed(name: str, config: Mapping[str, object]) -> bool:
    """Whether ``features`` names the column, or is not set."""
    patterns = split_patterns(setting(config, "features"))
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _medians(table: Table, columns: Mapping[str, Cells]) -> dict[str, float]:
    """Return the median of the known cells of every column."""
    for name, cells in columns.items():
        if len(cells) and _is_missing(cells).all():
            raise DataError(
                f"{table.source}, column {name!r}: has no number; leave it out of features", "missing-value"
            )
    return {name: float(np.nanmedian(cells)) for name, cells in columns.items() if len(cells)}


# --- Categories ---------------------------------------------------------------------------------------------------


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
