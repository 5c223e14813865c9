"""A site's data in attribute-distributed regression: the columns that its agent learns from."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from clients.data import (
    DataError,
    Table,
    load,
    match_columns,
    numeric,
    quoted,
    read_table,
    sensitive_columns,
    setting,
    site_files,
    split_patterns,
)
from clients.data.columns import Tables, of_each
from clients.data.entities import entity_names
from clients.data.table import GLOB, NUMBER, UNKNOWN
from clients.data.testset import center_file
from clients.shards import is_simulated
from numerics.residual.columns_and_outcomes import Columns

MOST_CATEGORIES = 50
"""Of a column of text, so many of its values become columns: those that most rows have."""

_ROLES = ("target", "id", "truth")

Categories = Mapping[str, tuple[str, ...]]


def open_shard(config: Mapping[str, object]) -> Columns:
    """Return a site's own columns.

    Parameters
    ----------
    config : Mapping
        Run configuration overridden by the node configuration: ``data``, and as for `columns_of`.

    Raises
    ------
    DataError
        As `clients.data.load` and `columns_of`.
    """
    return columns_of(load(config), config)


def columns_of(table: Table, config: Mapping[str, object], categories: Categories | None = None) -> Columns:
    """What a party's agent learns from.

    Parameters
    ----------
    table : Table
        One row an entity.
    config : Mapping
        Run or node configuration. ``features``: names and globs (default: every column of numbers that has no other
        role); a column of text among them is one of categories. In a simulation, where the list is of all files
        together, a name may be another file's column. ``target``: the outcome; in a simulation, where all
        files share it, a file without that column holds none. ``labels``: the fusion center holds the outcomes, so
        that column is not read here. ``id``: the entities' names. ``residual.align``: with ``row-order`` these are not
        read. ``from``: rows to predict, of which no outcome is read.
    categories : Mapping or None
        Of `Columns` made before: these columns have the same categories again, in the same order; any other value is
        none of them.

    Returns
    -------
    Columns
        In the order of the columns' names, the categories of one in the order of theirs.

    Raises
    ------
    DataError
        If a column is missing or named for two roles, a number is missing, infinite or text, or an entity has no name,
        or another's.
    """
    return _columns(table, config, sorted(_feature_columns(table, config)), categories or {}, _outcome(table, config))


def columns_like(
    table: Table, config: Mapping[str, object], features: Iterable[str], categories: Categories
) -> Columns:
    """The columns that a kept model takes, of rows to predict.

    Parameters
    ----------
    table : Table
        One row an entity; other columns than the model's are not looked at.
    config : Mapping
        ``id`` and ``residual.align`` as in `columns_of`.
    features, categories
        Of the `Columns` that the model learned from.

    Returns
    -------
    Columns
        With these features in this order, and no outcome.

    Raises
    ------
    DataError
        If a column of the model is not there; else as `columns_of`.
    """
    wanted = tuple(features)
    made_of = {_feature(name, value): name for name, values in categories.items() for value in values}
    names = list(dict.fromkeys(made_of.get(feature, feature) for feature in wanted))
    for name in names:
        if name not in table.columns:
            raise DataError(
                f"{table.source}: there is no column {name!r}, which the kept model learned from; it has "
                f"{quoted(table.columns)}",
                "missing-column",
            )
    made = _columns(table, config, names, categories, None)
    if made.features != wanted:
        raise DataError(
            f"{table.source}: the kept model's columns cannot be made again of {quoted(names)}; train it anew",
            "bad-shape",
        )
    return made


def check_columns(tables: Tables, config: Mapping[str, object]) -> None:
    """Refuse tables of sites without inputs or names of entities, and those of which none holds the outcome."""
    id_column, target = _id_column(config), setting(config, "target")

    def check(table: Table) -> None:
        if id_column:
            table.column(id_column)
        if not setting(config, "from"):  # inputs of new rows are those of the site's kept model
            _feature_columns(table, {**config, "data": table.source, "partition-id": 0})

    of_each(tables, check)
    wanted = not (setting(config, "from") or setting(config, "labels") or center_file(config, "_labels"))
    if wanted and not (target and any(target in table.columns for table in tables.values())):
        is_it = f"no file has the column {target!r} that target names" if target else "target is not set"
        known = dict.fromkeys(name for table in tables.values() for name in table.columns)
        raise DataError(
            f"configuration: {is_it}; one site must hold the outcome, in one of {quoted(known)}, or labels name the"
            " fusion center's file of it",
            "missing-column",
        )


def _id_column(config: Mapping[str, object]) -> str:
    return setting(config, "id") if setting(config, "residual.align") != "row-order" else ""


# -- which columns ----------------------------------------------------------------------------------------------------


def _feature_columns(table: Table, config: Mapping[str, object]) -> list[str]:
    """Names of the columns that `features` stands for, or of those of numbers that have no role."""
    roles = dict.fromkeys(sensitive_columns(table, config), "sensitive")
    roles |= {name: role for role in _ROLES if (name := setting(config, role))}
    patterns = setting(config, "features")
    if not patterns:
        found = [name for name, cells in table.columns.items() if name not in roles and cells.dtype.kind in "iuf"]
        if not found and not _may_bring_the_outcome_alone(table, config):
            raise _no_column(table, roles)
        return found
    for name in split_patterns(patterns):
        if roles.get(name) in ("target", "id"):
            raise DataError(
                f"configuration: column {name!r} is named as one of features and as {roles[name]}; it can be one only",
                "bad-configuration",
            )
    simulated = is_simulated(config)
    named = [name for name in split_patterns(patterns) if not simulated or _is_here(name, table, config)]
    found = [name for name in match_columns(table, " ".join(named)) if name in named or name not in roles]
    if not found and not (simulated and _may_bring_the_outcome_alone(table, config)):
        raise DataError(
            f"{table.source}: no column matches features={patterns!r}; it has {quoted(table.columns)}", "missing-column"
        )
    return found


def _is_here(name: str, table: Table, config: Mapping[str, object]) -> bool:
    """Whether a name or glob is to be looked for in this file of a simulation, or names another file's column."""
    if name in table.columns or GLOB.search(name):
        return True
    folder = Path(setting(config, "data")).parent
    known = {other for path in site_files(folder) for other in _names_in(path, path.stat().st_mtime_ns)}
    if name in known:
        return False
    near = difflib.get_close_matches(name, sorted(known), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise DataError(f"configuration: no file in {folder} has the column {name!r} of features{hint}", "missing-column")


@lru_cache(maxsize=128)
def _names_in(path: Path, _changed: int) -> tuple[str, ...]:
    """Names of a file's columns; none where it cannot be read, which its own site tells."""
    try:
        return tuple(read_table(path).columns)
    except DataError:
        return ()


def _may_bring_the_outcome_alone(table: Table, config: Mapping[str, object]) -> bool:
    """Whether a party without inputs is of use: it holds the outcome, or held it, and names its rows."""
    if setting(config, "from"):
        return True
    target = setting(config, "target")
    return bool(target) and target in table.columns and not setting(config, "labels")


def _no_column(table: Table, roles: Mapping[str, str]) -> DataError:
    text = [name for name, cells in table.columns.items() if name not in roles and cells.dtype == object]
    hint = f"it has {quoted(table.columns)}"
    if text:
        hint = f"to use columns of text as categories, name them: features={' '.join(text[:3])!r}"
    beside = " and ".join(f"{role} {name!r}" for name, role in roles.items() if name in table.columns)
    return DataError(
        f"{table.source}: no column{f' beside {beside}' if beside else ''} holds numbers; {hint}", "missing-column"
    )


def _outcome(table: Table, config: Mapping[str, object]) -> Float64[np.ndarray, "n"] | None:
    """The outcomes, where this party is to bring them."""
    target = setting(config, "target")
    if not target or setting(config, "labels") or setting(config, "from"):
        return None
    if target in table.columns:
        return numeric(table, target, allow_missing=False)
    if is_simulated(config):  # a simulation: the target is of all files together
        return None
    try:
        table.column(target)
    except DataError as error:
        hint = f"{error}; leave target out where the party holds no outcome"
        raise DataError(hint, error.code) from None
    return None


# -- what they hold ---------------------------------------------------------------------------------------------------


def _columns(
    table: Table,
    config: Mapping[str, object],
    names: list[str],
    categories: Categories,
    y: Float64[np.ndarray, "n"] | None,
) -> Columns:
    """These columns of the table, in this order."""
    parts: list[Float64[np.ndarray, "n _"]] = []
    features: list[str] = []
    found: dict[str, tuple[str, ...]] = {}
    for name in names:
        if name in categories or _is_text(table, name):
            places, values = _distinct(table.column(name))
            found[name] = categories.get(name) or _most_frequent(table, name, places, values)
            parts.append(_indicators(places, values, found[name]))
            features += [_feature(name, value) for value in found[name]]
        else:
            parts.append(numeric(table, name, allow_missing=False)[:, np.newaxis])
            features.append(name)
    for name in features:
        if features.count(name) > 1:
            raise DataError(
                f"{table.source}: two inputs would be called {name!r}: a column, and a category of another column; "
                "rename the column",
                "bad-shape",
            )
    id_column = _id_column(config)
    entity, kind = entity_names(table, id_column) if id_column else (None, "")
    x = np.hstack(parts) if parts else np.zeros((table.n, 0))
    return Columns(x, tuple(features), entity, y, found, kind)


def _feature(column: str, category: str) -> str:
    return f"{column}={category}"


def _is_text(table: Table, name: str) -> bool:
    """Whether the column holds categories.

    Numbers, and among them words for what is not known, are no categories: `numeric` says what is wrong with them.
    """
    cells = table.column(name)
    if cells.dtype != object:
        return False
    values = [cell.strip().lower() for cell in set(cells.tolist()) if cell is not None]
    known = [cell for cell in values if cell not in UNKNOWN]
    return len(known) == len(values) or not all(NUMBER.fullmatch(cell) for cell in known)


def _distinct(cells: Shaped[np.ndarray, "n"]) -> tuple[Int64[np.ndarray, "n"], list[str]]:
    """The place of every cell among the distinct ones, -1 where it is empty, and these as text.

    Numbers too: a file of rows to predict may hold only such codes.
    """
    import pandas as pd  # which has read the file already, or typed its text; it hashes where NumPy would sort

    places, values = pd.factorize(cells)
    whole = (int(value) if isinstance(value, float) and value.is_integer() else value for value in values.tolist())
    return places.astype(np.int64), [str(value) for value in whole]


def _most_frequent(table: Table, name: str, places: Int64[np.ndarray, "n"], values: list[str]) -> tuple[str, ...]:
    """The categories of a column, in the order of their names."""
    if not values:
        raise DataError(
            f"{table.source}, column {name!r}: every cell is empty; leave it out of features", "missing-value"
        )
    counts = np.bincount(places[places >= 0]).tolist()
    by_frequency = sorted(zip(counts, values, strict=True), key=lambda each: (-each[0], each[1]))
    return tuple(sorted(value for _, value in by_frequency[:MOST_CATEGORIES]))


def _indicators(
    places: Int64[np.ndarray, "n"], values: list[str], categories: tuple[str, ...]
) -> Float64[np.ndarray, "n k"]:
    """A column of 0 and 1 for each category, in their order."""
    number = {category: j for j, category in enumerate(categories)}
    columns = np.array([*(number.get(value, -1) for value in values), -1])[places]  # the last is that of empty cells
    rows = np.flatnonzero(columns >= 0)
    indicators = np.zeros((len(places), len(categories)))
    indicators[rows, columns[rows]] = 1.0
    return indicators
