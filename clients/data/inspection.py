"""Warnings about a table before a run: columns that mislead a model, or that it would not use."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from clients.data.categories import MOST_VALUES, REST, Category, can_be_named, categories_of, categories_text
from clients.data.cells import Cells, example_of, number_of, numbers_of, text_of
from clients.data.column_selection import cell_name, sensitive_columns, split_patterns
from clients.data.copies import FEW, copied_rows
from clients.data.preparation import prepare
from clients.data.table import MOST_SHOWN, Table, setting
from clients.data.target import TASKS, task_of
from common.grouping import list_names

_IDENTIFIER = re.compile(r"(^|[_\W])(id|ids|uuid|mrn|nr|no|number|key|code|subject|patient|person)#?$", re.IGNORECASE)
"""Names of columns that identify rows."""
_ROW_NUMBER = re.compile(r"(unnamed: ?0|row[_. ]?(names?|nr|no|number|index)|index|obs)", re.IGNORECASE)
"""Names that programs give to the numbers of rows when they write them into a file."""
_PERSON = re.compile(
    r"(^|[_\W])(patient|person|subject|customer|client|user|member)([_\W]?(id|nr|no|number))?#?$", re.I
)
_FEWEST_IN_CATEGORY = 5
_COPY = 0.9999
"""Correlation with the target above which a column is nearly a copy of it."""
_TOTAL = 1e-6
"""Largest relative difference of a total, which spreadsheets compute from unrounded numbers."""
_MOST = 6
"""Most names in a line."""


class Inspection(NamedTuple):
    """Warnings about a site's table.

    Attributes
    ----------
    warnings : list of str
        All of them.
    cautions : list of str
        Warnings about columns and rows that make errors look too small or too large.
    """

    warnings: list[str]
    cautions: list[str]


def inspect(table: Table, config: Mapping[str, object]) -> Inspection:
    r"""Inspect a site's table.

    Parameters
    ----------
    table : Table
        The table before preparation.
    config : Mapping
        Run or node configuration, which names the columns with a role.

    Examples
    --------
    >>> x = np.arange(6.0)
    >>> table = Table("ward.csv", {"patient id": x, "dose": 2 * x, "y": 4 * x + 1, "unit": np.ones(6)})
    >>> print(*inspect(table, {"target": "y"}).warnings, sep="\n")
    'patient id' looks like an identifier: leave it out of features, or set id
    'dose' and 'patient id' are nearly copies of the target: would you know them before it?
    'unit' is constant, and tells nothing
    'dose' is the same as 'patient id' up to its unit
    >>> inspect(table, {"target": "y", "features": "dose unit"}).cautions
    ["'dose' is nearly a copy of the target: would you know it before it?"]
    """
    table = _as_read(table, config)
    content = _content(table, config)
    categories = {each.column for each in categories_of(config)}
    texts = {name: cells for name, cells in content.items() if cells.dtype.kind in "bO" and name not in categories}
    numbers = _numbers(content)
    way = setting(config, "missing") or "refuse"
    cautions = _cautions(table, numbers, config)
    return Inspection(
        [*_text_columns(table, texts, config, way), *_missing(numbers, way), *cautions, *_idle(numbers)], cautions
    )


def _cautions(table: Table, numbers: dict[str, Float64[np.ndarray, "n"]], config: Mapping[str, object]) -> list[str]:
    return [
        *(
            f"{name!r} looks like an identifier: leave it out of features, or set id"
            for name in _identifiers(numbers, table.n)
        ),
        *_copies(_copies_of_target(table, numbers | _indicators(table, config), setting(config, "target"))),
        *_constant_target(table, setting(config, "target")),
        *_copied_rows(table, numbers, config),
        *_persons(table, config),
        *_totals(table),
    ]


def _as_read(table: Table, config: Mapping[str, object]) -> Table:
    """Return the table with the texts as numbers that ``missing`` reads so; nothing is filled or left out."""
    others = {"indicators", "categories", "ordinal"}
    return prepare(table, {key: value for key, value in config.items() if key not in others}, whole=False).table


def _content(table: Table, config: Mapping[str, object]) -> dict[str, Cells]:
    """Return the columns that a protocol may use: without a role, and among `features` if that is set."""
    roles = {setting(config, key) for key in ("target", "id", "truth", "group")}
    roles |= set(split_patterns(setting(config, "sensitive")))
    features = split_patterns(setting(config, "features"))
    categories = {each.column for each in categories_of(config)}
    return {
        name: cells
        for name, cells in table.columns.items()
        if name not in roles
        and (not features or name in categories or any(fnmatchcase(name, pattern) for pattern in features))
    }


def _numbers(columns: Mapping[str, Cells]) -> dict[str, Float64[np.ndarray, "n"]]:
    return {name: cells.astype(np.float64) for name, cells in columns.items() if cells.dtype.kind in "iuf"}


def _indicators(table: Table, config: Mapping[str, object]) -> dict[str, Float64[np.ndarray, "n"]]:
    """Return a column of 0 and 1 for each value that ``categories`` names, and ``features``, if that is set, allows."""
    features = split_patterns(setting(config, "features"))
    columns = {}
    for category in categories_of(config):
        for name, cells in _content(table, config).items():
            if category.ordinal or not fnmatchcase(name, category.column):
                continue
            texts = np.array(text_of(cells), object)
            for value in category.values:
                column = f"{name}={value}"
                if value != REST and (not features or any(fnmatchcase(column, each) for each in features)):
                    columns[column] = (texts == value).astype(np.float64)
    return columns


def misleading(table: Table, config: Mapping[str, object]) -> dict[str, str]:
    """Return columns that a model should not learn from, and why; parameters as of `inspect`.

    Those are columns of numbers, and values of a column that ``categories`` names (``discharge=deceased``).

    Examples
    --------
    >>> table = Table("a.csv", {"id": np.arange(9.0), "x": np.sin(np.arange(9.0)), "y": np.ones(9)})
    >>> misleading(table, {"target": "y"})
    {'id': 'looks like an identifier'}
    """
    numbers = _numbers(_content(table, config))
    reasons = dict.fromkeys(_identifiers(numbers, table.n), "looks like an identifier")
    columns = numbers | _indicators(table, config)
    return reasons | dict.fromkeys(_copies_of_target(table, columns, setting(config, "target")), "is nearly the target")


def suggested_categories(tables: list[Table], config: Mapping[str, object]) -> str:
    """Return the setting ``categories`` that fits text columns of these tables; empty if there are none.

    A value is named if it has five rows at some site; all others share a column.

    Examples
    --------
    >>> sex = np.array(["f", "m"] * 5 + ["x"], object)
    >>> suggested_categories([Table("a.csv", {"sex": sex, "age": np.arange(11.0)})], {})
    'sex=f|m|*'
    """
    roles = {setting(config, key) for key in ("target", "id", "truth", "group")}
    roles |= set(split_patterns(setting(config, "sensitive")))
    suggestions = []
    for name in [name for name in tables[0].columns if name not in roles]:
        counts = [Counter(text_of(table.columns[name])) for table in tables if name in table.columns]
        if len(counts) < len(tables) or not any(_is_category(table, name) for table in tables):
            continue
        common = sorted({value for each in counts for value, n in each.items() if n >= _FEWEST_IN_CATEGORY and value})
        if not all(map(can_be_named, common)) or not 1 < len(common) < MOST_VALUES:
            continue
        rest = {value for each in counts for value in each if value} - set(common)
        suggestions.append(Category(name, (*common, "*") if rest else tuple(common)))
    return categories_text(suggestions)


def _is_category(table: Table, name: str) -> bool:
    """Whether a column holds text other than numbers, with repeated values."""
    cells = table.columns[name]
    if cells.dtype != object or numbers_of(cells) is not None:
        return False
    values = {value for value in text_of(cells) if value}
    return 1 < len(values) <= min(MOST_VALUES, max(2, table.n // 2))


def _text_columns(
    table: Table, texts: Mapping[str, np.ndarray], config: Mapping[str, object], missing: str
) -> Iterator[str]:
    """Yield warnings about unused columns of text, and the settings that would use them."""
    for name, cells in texts.items():
        numbers = numbers_of(cells)
        if numbers is not None and missing == "refuse":
            row, example = example_of(cells, numbers)
            yield f"{cell_name(table, name, row)}: the column is text; missing=drop or impute reads it, {example}"
        elif numbers is None and (odd := _text_among_numbers(cells)):
            cell = f"{cell_name(table, name, odd[0])}: {str(cells[odd[0]])[:MOST_SHOWN]!r}"
            yield f"{cell} is text among numbers" + (f", as are {len(odd) - 1} more" if odd[1:] else "")
    categories = [name for name in texts if _is_category(table, name)]
    if categories and not setting(config, "features"):  # else they are used, or an error
        line = f"{_names(categories)}: text, not used unless categories names the values, the same at every site"
        suggestion = suggested_categories([table], config)
        yield f"{line} (of this one: categories={suggestion!r})" if suggestion else line


def _text_among_numbers(cells: Cells) -> list[int]:
    """Return the rows of the few cells without which the column is one of numbers; empty if they are more than few."""
    texts = {row: text for row, text in enumerate(text_of(cells)) if text}
    odd = [row for row, text in texts.items() if number_of(text) is None]
    return odd if len(odd) <= FEW * len(texts) else []


def _missing(numbers: Mapping[str, Float64[np.ndarray, "n"]], missing: str) -> Iterator[str]:
    counts = {name: int(np.isnan(cells).sum()) for name, cells in numbers.items()}
    empty = {name: n for name, n in counts.items() if n}
    if not empty or missing != "refuse":
        return
    rows = int(np.any([np.isnan(numbers[name]) for name in empty], axis=0).sum())
    listed = list_names([f"{name!r} {n}" for name, n in empty.items()], _MOST)
    yield f"empty cells: {listed}; missing=drop leaves out {rows} rows, missing=impute fills them with medians"


def _identifiers(numbers: Mapping[str, Float64[np.ndarray, "n"]], n: int) -> Iterator[str]:
    for name, cells in numbers.items():
        whole = bool(np.isfinite(cells).all() and (cells == np.round(cells)).all())
        steps = np.diff(np.sort(cells)) if whole else np.zeros(0)
        different = whole and n > 5 and len(set(cells.tolist())) == n
        counted = different and bool((steps == 1).all() or _ROW_NUMBER.fullmatch(name))
        if _IDENTIFIER.search(name) or counted:
            yield name


def _copies_of_target(table: Table, numbers: Mapping[str, Float64[np.ndarray, "n"]], target: str) -> list[str]:
    if target not in table.columns:
        return []
    outcome = table.columns[target]
    y = outcome.astype(np.float64) if outcome.dtype.kind in "biuf" else numbers_of(outcome)
    if y is None:
        labels = text_of(outcome)
        y = np.array([sorted(set(labels)).index(label) for label in labels], np.float64)
        if len(set(labels)) > 2:
            return []
    return sorted(name for name, cells in numbers.items() if abs(_correlation(cells, y)) > _COPY)


def _constant_target(table: Table, target: str) -> Iterator[str]:
    values = set(text_of(table.columns[target])) if target in table.columns else set()
    if len(values) == 1:
        yield f"the target {target!r} is {values.pop()!r} in every row: nothing can be learned about it here"


def _copied_rows(
    table: Table, numbers: Mapping[str, Float64[np.ndarray, "n"]], config: Mapping[str, object]
) -> list[str]:
    """Return a warning about rows that equal another one; none if chance explains them."""
    target = setting(config, "target")
    if target not in table.columns or not numbers:
        return []
    _, place = np.unique(text_of(table.columns[target]), return_inverse=True)
    categories = [text_of(table.columns[each.column]) for each in categories_of(config) if each.column in table.columns]
    n = int(copied_rows(np.column_stack(list(numbers.values())), place.astype(np.float64), categories).sum())
    line = (
        f"{n} of {table.n} rows are copies of others in all inputs and the target; copies count once, unless ids tell"
        " them apart: then errors look small, so leave them out"
    )
    return [line] if n else []


def _copies(copies: list[str]) -> Iterator[str]:
    if copies:
        are = "is nearly a copy" if len(copies) == 1 else "are nearly copies"
        yield f"{_names(copies)} {are} of the target: would you know {'it' if len(copies) == 1 else 'them'} before it?"


def _correlation(a: Float64[np.ndarray, "n"], b: Float64[np.ndarray, "n"]) -> float:
    known = np.isfinite(a) & np.isfinite(b)
    a, b = a[known], b[known]
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    a, b = (a - a.mean()) / a.std(), (b - b.mean()) / b.std()
    return float(np.mean(a * b))


def _idle(numbers: Mapping[str, Float64[np.ndarray, "n"]]) -> Iterator[str]:
    """Yield warnings about columns that are constant, or the same as another."""
    varying = {}
    for name, cells in numbers.items():
        known = cells[np.isfinite(cells)]
        if len(known) and np.ptp(known) == 0:
            yield f"{name!r} is constant, and tells nothing"
        elif len(known):
            varying[name] = cells
    seen: dict[bytes, str] = {}
    for name, cells in varying.items():
        with np.errstate(all="ignore"):
            scaled = np.round((cells - np.nanmean(cells)) / np.nanstd(cells), 9) + 0.0
        key = scaled.tobytes()
        if key in seen:
            yield f"{name!r} is the same as {seen[key]!r} up to its unit"
        seen.setdefault(key, name)


def _persons(table: Table, config: Mapping[str, object]) -> Iterator[str]:
    """Yield warnings about columns of persons with several rows, if the run predicts an outcome."""
    if not setting(config, "target"):
        return
    for name in table.columns:
        if name == setting(config, "group") or not (_PERSON.search(name) or name == setting(config, "id")):
            continue
        counts = Counter(value for value in text_of(table.columns[name]) if value)
        repeated = sum(n > 1 for n in counts.values())
        if repeated:
            yield (
                f"{name!r}: {repeated} of {len(counts)} names have several rows; rows of one person on both sides of a"
                f" hold-out make errors look small: set group={name!r}"
            )


def _totals(table: Table) -> Iterator[str]:
    """Yield a warning about a row of totals below the others: a number there is the sum of those above."""
    for name, cells in _numbers(table.columns).items():
        known = np.flatnonzero(np.isfinite(cells))
        if len(known) < 10 or np.count_nonzero(cells[known]) < len(known) / 2:
            continue
        above, last = cells[known[:-1]], float(cells[known[-1]])
        if abs(last) > np.abs(above).max() and abs(last - above.sum()) <= _TOTAL * abs(last):
            yield f"{cell_name(table, name, int(known[-1]))}: is the sum of the rows above: leave out a row of totals"
            return


def person_column(tables: Sequence[Table]) -> str:
    """Return the column that seems to name persons, some of them in several rows; empty without one.

    Examples
    --------
    >>> person_column([Table("a.csv", {"patient_id": np.array([1, 1, 2]), "dose": np.arange(3.0)})])
    'patient_id'
    """
    for name in tables[0].columns:
        if _PERSON.search(name) and all(name in table.columns for table in tables):
            names = [text_of(table.columns[name]) for table in tables]
            if all(map(all, names)) and any(len(set(each)) < len(each) for each in names):
                return name
    return ""


def unlike_values(sites: Mapping[str, Mapping[str, Collection[str]]]) -> Iterator[str]:
    """Yield warnings about values of a column that differ only in case, or that two sites have none of in common.

    Parameters
    ----------
    sites : Mapping
        `values_of` the table of each site, by the site's name.

    Examples
    --------
    >>> list(unlike_values({"a": {"sex": {"F", "M"}}, "b": {"sex": {"female"}}}))
    ["'sex': 'F' and 'M' at a, 'female' at b, and no value at both: write them alike, or they are taken for others"]
    """
    for column in dict.fromkeys(column for own in sites.values() for column in own):
        values = {name: own[column] for name, own in sites.items() if own.get(column)}
        for (site, own), (peer, others) in combinations(values.items(), 2):
            if {each.casefold() for each in own}.isdisjoint(each.casefold() for each in others):
                own_names, peer_names = (_names(sorted(each)) for each in (own, others))
                yield (
                    f"{column!r}: {own_names} at {site}, {peer_names} at {peer}, and no value at both: write them"
                    " alike, or they are taken for others"
                )
                break
        spellings: dict[str, list[str]] = {}
        for value in sorted(set().union(*values.values())):
            spellings.setdefault(value.casefold(), []).append(value)
        for alike in spellings.values():
            if len(alike) > 1:
                yield f"{column!r}: {_names(alike)} differ only in case, and are taken for others"


def values_of(table: Table, config: Mapping[str, object]) -> dict[str, set[str]]:
    """Return the values of categories, of the target's classes and of columns of groups; none of amounts.

    Examples
    --------
    >>> table = Table("a.csv", {"ill": np.array(["yes", "no", None], object)})
    >>> {name: sorted(values) for name, values in values_of(table, {"target": "ill"}).items()}
    {'ill': ['no', 'yes']}
    """
    columns = [each.column for each in categories_of(config)]
    columns += [*_target_of_classes(table, config), *sensitive_columns(table, config)]
    return {name: set(text_of(table.columns[name])) - {""} for name in columns if name in table.columns}


def _target_of_classes(table: Table, config: Mapping[str, object]) -> list[str]:
    """Return the target, if it holds classes."""
    name = setting(config, "target")
    if name not in table.columns:
        return []
    outcome = _as_read(Table(table.source, {name: table.columns[name]}), config)
    return [name] if task_of(outcome, config, TASKS) == "classification" else []


def _names(names: list[str]) -> str:
    return " and ".join(map(repr, names)) if len(names) < 3 else list_names([repr(name) for name in names], _MOST)
