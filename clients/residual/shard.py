"""A site's data in attribute-distributed regression: the columns that its agent learns from."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from clients.data import (
    DataError,
    Table,
    holds_numbers,
    load,
    match_columns,
    numeric,
    quote,
    sensitive_columns,
    setting,
    split_patterns,
)
from clients.data.column_selection import patterns_text
from clients.data.columns import Tables, of_each
from clients.data.entities import entity_names
from clients.data.persons import persons_of
from clients.data.simulated_sites import ALL_SITES, simulated_sites
from clients.data.source import is_simulated, partition_of
from clients.data.table import GLOB, NUMBER, UNKNOWN
from clients.data.target import Target, read_target
from clients.data.testset import center_source
from common.data_places import shown_place
from common.grouping import list_names
from numerics.residual.columns_and_outcomes import Columns
from protocols.residual.settings import Settings

MOST_CATEGORIES = 50
"""Most categories of a column of text: the most frequent values."""

_ROLES = ("target", "id", "truth", "group")

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


def columns_of(table: Table, config: Mapping[str, object]) -> Columns:
    """Select the columns that a site's agent learns from.

    Parameters
    ----------
    table : Table
        A row for each entity.
    config : Mapping
        Run or node configuration. ``features``: names and globs (default: every column of numbers without another
        role); a column of text among them is one of categories. In a simulation all files share ``features`` and
        ``target``: a name may be another file's column. ``target`` and ``task``: the outcome
        (`clients.data.target.read_target`). ``labels``: the fusion center holds the outcomes, so that column is not
        read. ``id``: the entities' names, not read with ``residual.align=row-order``. ``from``: these are rows to
        predict, and no outcome is read.

    Returns
    -------
    Columns
        In the order of the columns' names, and of the categories' names within a column.

    Raises
    ------
    DataError
        If a column is missing or has two roles, a number is missing, infinite or text, or an entity has no name or
        that of another one.

    Examples
    --------
    >>> from clients.data import Table
    >>> table = Table("shop.csv", {"customer": np.array([7, 8]), "city": np.array(["Rome", "Oslo"], dtype=object)})
    >>> columns = columns_of(table, {"id": "customer", "features": "city"})
    >>> columns.features, columns.x.tolist()
    (('city=Oslo', 'city=Rome'), [[0.0, 1.0], [1.0, 0.0]])
    """
    names, outcome = sorted(_feature_columns(table, config)), _outcome(table, config)
    elsewhere = is_simulated(config) and setting(config, "group") not in table.columns  # all files share the key
    person = None if setting(config, "from") or elsewhere else persons_of(table, config)
    return replace(_columns(table, config, names, {}, outcome), person=person)


def columns_like(
    table: Table, config: Mapping[str, object], features: Iterable[str], categories: Categories
) -> Columns:
    """Select the columns that a stored model takes, from rows to predict.

    Parameters
    ----------
    table : Table
        A row for each entity; other columns than the model's are ignored.
    config : Mapping
        ``id`` and ``residual.align`` as in `columns_of`.
    features, categories
        As in the `Columns` that the model learned from; any other value belongs to no category.

    Returns
    -------
    Columns
        These features in this order, without outcomes.

    Raises
    ------
    DataError
        If a column of the model is missing; else as `columns_of`.
    """
    wanted = tuple(features)
    column_of = {f"{name}={value}": name for name, values in categories.items() for value in values}
    names = list(dict.fromkeys(column_of.get(feature, feature) for feature in wanted))
    if absent := [name for name in names if name not in table.columns]:
        raise DataError(
            f"{table.source}: there is no column {absent[0]!r}, which the kept model learned from; it has "
            f"{quote(table.columns)}",
            "missing-column",
        )
    columns = _columns(table, config, names, categories, None)
    if columns.features != wanted:
        raise DataError(
            f"{table.source}: the kept model's columns cannot be made again of {quote(names)}; train it anew",
            "bad-shape",
        )
    return columns


def check_columns(tables: Tables, config: Mapping[str, object]) -> None:
    """Refuse tables of sites without inputs or names of entities, and those of which none holds the outcome."""
    id_column, target = _id_column(config), setting(config, "target")
    wanted = not (setting(config, "from") or center_source(config, "labels"))

    def check(table: Table) -> None:
        if id_column:
            table.column(id_column)
        if wanted and target in table.columns:
            _outcome(table, config)
        if not setting(config, "from"):  # inputs of new rows are those of the site's kept model
            place = {ALL_SITES: config["data"], "partition-id": 0, "num-partitions": len(tables)}
            _feature_columns(table, {**config, **place})

    of_each(tables, check)
    group = setting(config, "group")
    if group and not setting(config, "from") and not any(group in table.columns for table in tables.values()):
        next(iter(tables.values())).column(group)
    if wanted and not (target and any(target in table.columns for table in tables.values())):
        is_it = f"no file has the column {target!r} that target names" if target else "target is not set"
        known = dict.fromkeys(name for table in tables.values() for name in table.columns)
        raise DataError(
            f"configuration: {is_it}; one site must hold the outcome, in one of {quote(known)}, or labels name the"
            " fusion center's file of it",
            "missing-column",
        )
    holders = [name for name, table in tables.items() if target in table.columns] if wanted else []
    if len(holders) > 1:
        raise DataError(
            f"configuration: {len(holders)} sites hold the outcome {target!r} ({list_names(holders)}), and one may: the"
            " sites of residual have different columns of the same entities; leave the column out at the others",
            "bad-configuration",
        )


def check_together(shards: Mapping[str, Columns], center: Mapping[str, Any], config: Mapping[str, object]) -> list[str]:
    """Refuse sites that have no entity in common; return a note on names with zeros, or on a match by row."""
    if setting(config, "from"):  # sites may predict rows that others lack
        return []
    names = {site: set(each.entity.tolist()) for site, each in shards.items() if each.entity is not None}
    if len(names) == len(shards):
        zeros = _leading_zeros(names, _id_column(config))
        if not set.intersection(*names.values()):
            raise DataError(
                f"configuration: no entity is common to all of {list_names(list(shards))}: is {_id_column(config)!r}"
                f" the same column, written alike, everywhere?{''.join(f' {line}' for line in zeros)}",
                "bad-shape",
            )
        return zeros
    sizes = {name: each.n for name, each in shards.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {n}" for name, n in sizes.items())
        raise DataError(
            f"configuration: entities go by row, and the numbers of rows differ ({listed}): set id to the column that"
            " names them",
            "bad-shape",
        )
    if setting(config, "residual.align") == "row-order" or len(shards) == 1:
        return []
    return ["entities are matched by row number, which must be the same at every site: set id if a column names them"]


def _leading_zeros(names: Mapping[str, set[str]], column: str) -> list[str]:
    """Return a line on names that sites have in common only without leading zeros.

    Examples
    --------
    >>> _leading_zeros({"bank": {"00012", "7"}, "shop": {"12", "7"}}, "id")
    ["Without leading zeros 1 more name of 'id' is common to all ('00012' at bank, '12' at shop): write them alike"]
    """
    bare = {site: {name.lstrip("0"): name for name in own} for site, own in names.items()}
    more = set.intersection(*map(set, bare.values())) - {name.lstrip("0") for name in set.intersection(*names.values())}
    if not more:
        return []
    first = min(more)
    forms: dict[str, str] = {}
    for site, own in bare.items():
        forms.setdefault(own[first], site)
    apart = ", ".join(f"{form!r} at {site}" for form, site in list(forms.items())[:2])
    are = "more name of {!r} is" if len(more) == 1 else "more names of {!r} are"
    return [f"Without leading zeros {len(more)} {are.format(column)} common to all ({apart}): write them alike"]


def _id_column(config: Mapping[str, object]) -> str:
    return setting(config, "id") if setting(config, "residual.align") != "row-order" else ""


# -- which columns ----------------------------------------------------------------------------------------------------


def _feature_columns(table: Table, config: Mapping[str, object]) -> list[str]:
    """Return the names that `features` matches; without it those of all columns of numbers without a role."""
    roles = dict.fromkeys(sensitive_columns(table, config), "sensitive")
    roles |= {name: role for role in _ROLES if (name := setting(config, role))}
    patterns = setting(config, "features")
    if not patterns:
        selected = [name for name, cells in table.columns.items() if name not in roles and holds_numbers(cells)]
        if not selected and not _may_hold_outcome_alone(table, config):
            raise _no_column(table, roles)
        return selected
    for name in split_patterns(patterns):
        if roles.get(name) in ("target", "id", "group"):
            raise DataError(
                f"configuration: column {name!r} is named as one of features and as {roles[name]}; it can be one only",
                "bad-configuration",
            )
    simulated = is_simulated(config)
    named = [name for name in split_patterns(patterns) if not simulated or _is_here(name, table, config)]
    selected = [name for name in match_columns(table, patterns_text(named)) if name in named or name not in roles]
    if not selected and not (simulated and _may_hold_outcome_alone(table, config)):
        raise DataError(
            f"{table.source}: no column matches features={patterns!r}; it has {quote(table.columns)}",
            "missing-column",
        )
    return selected


def _is_here(name: str, table: Table, config: Mapping[str, object]) -> bool:
    """Return whether a name or glob is for this site of a simulation; False if it is another site's column."""
    if name in table.columns or GLOB.search(name):
        return True
    data, n_sites = setting(config, ALL_SITES), partition_of(config)[1]
    known = {other for place in range(n_sites) for other in _names_in(data, place, n_sites)}
    if name in known:
        return False
    near = difflib.get_close_matches(name, sorted(known), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    where = "no file in" if Path(data).is_dir() else "no site of"
    raise DataError(
        f"configuration: {where} {shown_place(data)} has the column {name!r} of features{hint}", "missing-column"
    )


def _names_in(data: str, place: int, n_sites: int) -> tuple[str, ...]:
    """Return the names of a simulated site's columns; none if its data cannot be read, which that site reports."""
    config = simulated_sites(data).config(place, n_sites, {})
    path = Path(config["data"])
    return _names_read(tuple(config.items()), path.stat().st_mtime_ns if path.is_file() else 0)


@lru_cache(maxsize=128)
def _names_read(config: tuple[tuple[str, object], ...], _changed: int) -> tuple[str, ...]:
    try:
        return tuple(load(dict(config)).columns)
    except DataError:
        return ()


def _may_hold_outcome_alone(table: Table, config: Mapping[str, object]) -> bool:
    """Return whether a site may have no inputs: it holds the outcome, or held it in the run whose models predict."""
    target = setting(config, "target")
    holds = bool(target) and target in table.columns and not setting(config, "labels")
    return holds or bool(setting(config, "from"))


def _no_column(table: Table, roles: Mapping[str, str]) -> DataError:
    text = [name for name, cells in table.columns.items() if name not in roles and cells.dtype == object]
    hint = f"it has {quote(table.columns)}"
    if text:
        hint = f"to use columns of text as categories, name them: features={' '.join(text[:3])!r}"
    beside = " and ".join(f"{role} {name!r}" for name, role in roles.items() if name in table.columns)
    return DataError(
        f"{table.source}: no column{f' beside {beside}' if beside else ''} holds numbers; {hint}", "missing-column"
    )


def _outcome(table: Table, config: Mapping[str, object]) -> Target | None:
    """Return the outcomes, if this site holds them."""
    target = setting(config, "target")
    if not target or setting(config, "labels") or setting(config, "from"):
        return None
    if target in table.columns:
        outcome = read_target(table, config, Settings.tasks)
        if len(outcome.classes) == 1:
            raise DataError(
                f"{table.source}, column {target!r}: every row has the class {outcome.classes[0]!r}; there is nothing"
                " to learn: name another target",
                "bad-shape",
            )
        return outcome
    if is_simulated(config):  # all files share the target
        return None
    try:
        table.column(target)
    except DataError as error:
        hint = f"{error}; leave target out where the site holds no outcome"
        raise DataError(hint, error.code) from None
    return None


# -- their content ----------------------------------------------------------------------------------------------------


def _columns(
    table: Table,
    config: Mapping[str, object],
    names: list[str],
    categories: Categories,
    outcome: Target | None,
) -> Columns:
    """Return these columns of the table, in this order."""
    parts: list[Float64[np.ndarray, "n _"]] = []
    features: list[str] = []
    categories_of: dict[str, tuple[str, ...]] = {}
    for name in names:
        if name in categories or _is_text(table, name):
            places, values = _distinct(table.column(name))
            categories_of[name] = categories.get(name) or _most_frequent(table, name, places, values)
            parts.append(_indicators(places, values, categories_of[name]))
            features += [f"{name}={value}" for value in categories_of[name]]
        else:
            parts.append(numeric(table, name, allow_missing=False)[:, np.newaxis])
            features.append(name)
    if twice := [name for name in features if features.count(name) > 1]:
        raise DataError(
            f"{table.source}: two inputs would be called {twice[0]!r}: a column, and a category of another column; "
            "rename the column",
            "bad-shape",
        )
    entity, kind = entity_names(table, id_column) if (id_column := _id_column(config)) else (None, "")
    x = np.hstack(parts) if parts else np.zeros((table.n, 0))
    y, classes = outcome or (None, ())
    return Columns(x, tuple(features), entity, y, categories_of, kind, classes=classes)


def _is_text(table: Table, name: str) -> bool:
    """Return whether the column holds categories.

    A column of numbers with words for unknown values has none: `numeric` reports these words.
    """
    cells = table.column(name)
    if cells.dtype != object:
        return False
    values = [cell.strip().lower() for cell in set(cells.tolist()) if cell is not None]
    known = [cell for cell in values if cell not in UNKNOWN]
    return len(known) == len(values) or not all(NUMBER.fullmatch(cell) for cell in known)


def _distinct(cells: Shaped[np.ndarray, "n"]) -> tuple[Int64[np.ndarray, "n"], list[str]]:
    """Return the index of every cell among the distinct values, -1 if empty, and these values as text.

    Numbers become text, too: in a file of rows to predict, all categories may be such codes.
    """
    import pandas as pd  # it has read the file already, and hashes where NumPy would sort

    places, values = pd.factorize(cells)
    whole = (int(value) if isinstance(value, float) and value.is_integer() else value for value in values.tolist())
    return places.astype(np.int64), [str(value) for value in whole]


def _most_frequent(table: Table, name: str, places: Int64[np.ndarray, "n"], values: list[str]) -> tuple[str, ...]:
    """Return the most frequent categories of a column, in the order of their names."""
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
    """Return a column of 0 and 1 for each category."""
    number = {category: j for j, category in enumerate(categories)}
    columns = np.array([*(number.get(value, -1) for value in values), -1])[places]  # the last is that of empty cells
    rows = np.flatnonzero(columns >= 0)
    indicators = np.zeros((len(places), len(categories)))
    indicators[rows, columns[rows]] = 1.0
    return indicators
