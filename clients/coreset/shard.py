"""A site's data in coreset: rows with groups, read in blocks, and the roles of their columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from clients.coreset.storage import keep_shard, read_shard
from clients.data import (
    DataError,
    Table,
    cell_name,
    holds_numbers,
    match_columns,
    numeric,
    quote,
    setting,
    split_patterns,
)
from clients.data.blocks import Blocks, open_blocks
from clients.data.columns import Tables, check_alike
from clients.shards import logged_fault
from numerics.coreset.grouped_rows import GroupedRows, RowBlock
from protocols.coreset.settings import ALL_EQUAL, Consents, Settings

__all__ = ["check_rows", "keep_shard", "open_shard", "read_shard"]

BUNDLES = 4000
"""Locations of the bundles of own rows. Points are unions of bundles, so those of two runs differ by whole bundles."""
MOST_VALUES = 50
"""Largest number of values of a sensitive column: a cluster cannot have a share of more groups."""

_WHOLE = re.compile(r"([+-]?\d+)\.0+", re.ASCII)
"""A whole number with a fraction of zeros, as some programs write it: ``1.0``."""


@dataclass(frozen=True, eq=False)
class Roles:
    """The roles of a site's columns.

    Attributes
    ----------
    features : tuple of str
        Columns of coordinates, in the order of their names, which is the same at every site.
    sensitive : tuple of str
        Columns whose values together are a row's group, in the order of their names.
    entity : str
        Column of the rows' names; empty if rows have no names.
    """

    features: tuple[str, ...]
    sensitive: tuple[str, ...]
    entity: str


def open_rows(config: Mapping[str, object]) -> GroupedRows:
    """Open a site's own rows with their groups, to be read in blocks.

    Parameters
    ----------
    config : Mapping
        Run configuration overridden by the node configuration. ``data``: as for `open_blocks`. ``sensitive``: names or
        globs of the columns of groups; a group's name is the text of the cell (``Female``, ``1``), and with several
        columns ``race=White, sex=Female``. ``features``: names or globs of the coordinates; by default, every column
        that holds numbers in the first block and has no other role (``target``, ``id``, ``sensitive``, ``truth``,
        ``group``).
        ``id``: the rows' names, which may repeat.

    Returns
    -------
    GroupedRows
        Groups are in the order in which they first appear. The blocks raise errors of the rows when they are read.

    Raises
    ------
    DataError
        If `sensitive` is not set, or if a column is missing or has two roles. Blocks raise it for the first bad row: a
        coordinate is empty, infinite or text; a row has no group or no name; or a sensitive column has more than
        `MOST_VALUES` values.
    """
    blocks = open_blocks(config)
    roles = roles_of(blocks.schema, config)
    quick = blocks.schema.source.endswith(".parquet")
    return GroupedRows(roles.features, lambda: grouped_blocks(blocks, roles), quick)


def open_shard(config: Mapping[str, object]) -> GroupedRows:
    """Open a site's own rows as `open_rows`; errors of blocks go to the site's log, and become a `SiteFault`."""
    rows = open_rows(config)

    def blocks() -> Iterator[RowBlock]:
        try:
            yield from rows.blocks()
        except DataError as error:
            raise logged_fault(error) from error

    return GroupedRows(rows.features, blocks, rows.quick)


class Extent(NamedTuple):
    """Number of rows of each group, and least and greatest value of each feature."""

    counts: Int64[np.ndarray, "G"]
    low: Float64[np.ndarray, "d"]
    high: Float64[np.ndarray, "d"]


def check_rows(config: Mapping[str, object]) -> Extent:
    """Read a site's own rows block by block, and return their extent; errors are those of `open_rows`."""
    counts, ends = np.zeros(0, np.int64), []
    for block in open_rows(config).blocks():
        here = np.bincount(block.group, minlength=len(block.group_names))
        here[: len(counts)] += counts
        counts = here
        ends.append((block.x.min(axis=0), block.x.max(axis=0)))
    low, high = (np.array(each) for each in zip(*ends, strict=True))
    return Extent(counts, low.min(axis=0), high.max(axis=0))


def check_together(shards: Mapping[str, Extent], center: Mapping[str, Any], config: Mapping[str, object]) -> None:
    """Refuse groups of which every site has too few rows for a point, and more clusters than there can be points."""
    settings = Settings.of(config)
    least = max(settings.min_weight, Consents.min_weight)
    largest = max(int(each.counts.max()) for each in shards.values())
    n_rows = sum(int(each.counts.sum()) for each in shards.values())
    if largest < least:
        raise DataError(
            f"configuration: no group of sensitive={setting(config, 'sensitive')!r} has {least} rows at a site"
            f" (coreset.min-weight), the largest {largest}: name a column of fewer values",
            "too-few-rows",
        )
    if settings.k > n_rows // least:
        raise DataError(
            f"configuration: {n_rows} rows cannot form coreset.k={settings.k} clusters of points that stand for {least}"
            " rows each (coreset.min-weight): set a smaller coreset.k",
            "bad-configuration",
        )
    low, high = np.array([each.low for each in shards.values()]), np.array([each.high for each in shards.values()])
    if settings.k > 1 and (low == low[0]).all() and (high == low[0]).all():
        raise DataError(f"configuration: {ALL_EQUAL}", "bad-configuration")


def check_columns(tables: Tables, config: Mapping[str, object]) -> None:
    """Refuse tables of sites that cannot be clustered together: all need the same sensitive columns and features."""

    def used_columns(table: Table) -> tuple[str, ...]:
        roles = roles_of(table, config)
        return (*roles.sensitive, *roles.features)

    check_alike(tables, used_columns)


# -- roles of columns -------------------------------------------------------------------------------------------------


def roles_of(schema: Table, config: Mapping[str, object]) -> Roles:
    """Return the roles of the columns of a schema (`Blocks`); settings and errors are those of `open_rows`.

    Examples
    --------
    >>> table = Table("clients", {"age": np.array([30.0]), "income": np.array([2.5]), "sex": np.array(["F"])})
    >>> roles_of(table, {"sensitive": "sex"})
    Roles(features=('age', 'income'), sensitive=('sex',), entity='')
    """
    sensitive = _sensitive(schema, config)
    entity = setting(config, "id")
    if entity:
        schema.column(entity)
    others = {name: role for role in ("target", "truth", "group") if (name := setting(config, role))}
    roles = others | dict.fromkeys(sensitive, "sensitive") | ({entity: "id"} if entity else {})
    if entity in sensitive:
        raise _two_roles(entity, "id", "sensitive")
    patterns = setting(config, "features")
    named = split_patterns(patterns)
    for name in named:
        if roles.get(name) in ("id", "sensitive", "group"):
            raise _two_roles(name, "one of features", roles[name])
    if patterns:
        features = [name for name in match_columns(schema, patterns) if name in named or name not in roles]
    else:
        features = [name for name, cells in schema.columns.items() if name not in roles and holds_numbers(cells)]
    if not features:
        what = f"matches features={patterns!r}" if patterns else "holds numbers"
        raise DataError(
            f"{schema.source}: no column beside {quote(name for name in roles if name in schema.columns)} {what}; it "
            f"has {quote(schema.columns)}",
            "missing-column",
        )
    return Roles(tuple(sorted(features)), tuple(sorted(sensitive)), entity)


def _sensitive(schema: Table, config: Mapping[str, object]) -> list[str]:
    patterns = setting(config, "sensitive")
    if not patterns:
        raise DataError(
            "configuration: sensitive is not set; fair clustering needs the column of the groups that get their share "
            f"of every cluster: one or several of {quote(schema.columns)}",
            "bad-configuration",
        )
    names = match_columns(schema, patterns)
    if not names:
        raise DataError(
            f"{schema.source}: no column matches sensitive={patterns!r}; it has {quote(schema.columns)}",
            "missing-column",
        )
    return names


def _two_roles(name: str, one: str, other: str) -> DataError:
    return DataError(
        f"configuration: column {name!r} is named as {one} and as {other}; it can be one only", "bad-configuration"
    )


# -- groups and coordinates -------------------------------------------------------------------------------------------


def grouped_blocks(blocks: Blocks, roles: Roles) -> Iterator[RowBlock]:
    """Yield all rows in one pass; errors are those of the blocks of `open_rows`."""
    groups = _Groups(roles.sensitive)
    text = [*roles.sensitive, *([roles.entity] if roles.entity else [])]
    for table in blocks.tables(roles.features, text):
        x = _coordinates(table, blocks.schema, roles.features)
        group = groups.of(table)
        yield RowBlock(x, group, groups.names, _entities(table, roles.entity))


def _coordinates(table: Table, schema: Table, features: Sequence[str]) -> Float64[np.ndarray, "b d"]:
    x = np.empty((table.n, len(features)))
    for j, name in enumerate(features):
        x[:, j] = numeric(table, name, allow_missing=False)
        _check_kind(table, schema, name)
    return x


def _check_kind(table: Table, schema: Table, name: str) -> None:
    """Refuse a column that holds truth values in some blocks and numbers in others."""
    kinds = [each.columns[name].dtype == np.bool_ for each in (schema, table)]
    if kinds[0] != kinds[1]:
        first, here = ("True or False" if kind else "numbers" for kind in kinds)
        cell = cell_name(table, name, 0)
        raise DataError(f"{cell}: the column begins with {first} and here has {here}; write it in one way", "bad-shape")


def groups_of(table: Table, sensitive: Sequence[str]) -> tuple[Int64[np.ndarray, "n"], tuple[str, ...]]:
    """Return the groups of a whole table, with the names that `open_rows` gives them.

    Parameters
    ----------
    table : Table
        Table with the sensitive columns.
    sensitive : Sequence of str
        Names of the sensitive columns, sorted.

    Returns
    -------
    group, names
        ``(n,)`` index of each row's group, and the names of the groups in the order in which they appear.

    Raises
    ------
    DataError
        As the blocks of `open_rows`.

    Examples
    --------
    >>> table = Table("clients", {"race": np.array(["White", "Black"]), "sex": np.array(["F", "F"])})
    >>> groups_of(table, ("race", "sex"))
    (array([0, 1]), ('race=White, sex=F', 'race=Black, sex=F'))
    """
    groups = _Groups(sensitive)
    return groups.of(table), groups.names


class _Groups:
    """Groups of one pass over the rows, numbered in the order in which they appear.

    Parameters
    ----------
    columns : sequence of str
        Names of the sensitive columns.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._values: dict[str, set[str]] = {name: set() for name in columns}
        self._numbers: dict[str, int] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the groups so far."""
        return tuple(self._numbers)

    def of(self, table: Table) -> Int64[np.ndarray, "b"]:
        """Return each row's group as an index of `names`."""
        import pandas as pd  # its `factorize` hashes, which is faster than NumPy's sort

        first, *others = self._values
        places, names = self._column(table, first)
        if others:
            names = [f"{first}={name}" for name in names]
        for column in others:
            more, values = self._column(table, column)
            places, pairs = pd.factorize(places * len(values) + more)
            names = [f"{names[pair // len(values)]}, {column}={values[pair % len(values)]}" for pair in pairs.tolist()]
        numbers = [self._numbers.setdefault(name, len(self._numbers)) for name in names]
        group: Int64[np.ndarray, "b"] = np.array(numbers, dtype=np.int64)[places]
        return group

    def _column(self, table: Table, name: str) -> tuple[Int64[np.ndarray, "b"], list[str]]:
        """Return every cell as an index of the different values of the block, and these values as text."""
        import pandas as pd

        places, cells = pd.factorize(table.columns[name])
        values = [text.strip() for text in _texts(cells.tolist())]
        blank = np.array([*(not value for value in values), True])  # the last is that of an empty cell, -1
        for row in np.flatnonzero(blank[places])[:1]:
            raise DataError(
                f"{cell_name(table, name, int(row))}: is empty; every row needs a group: write a name for missing "
                "values, such as unknown, or set missing=drop",
                "missing-value",
            )
        self._values[name].update(values)
        if len(self._values[name]) > MOST_VALUES:
            raise DataError(
                f"{table.source}, column {name!r}: has more than {MOST_VALUES} different values; a sensitive column "
                "needs few categories: merge them, or name another column",
                "bad-configuration",
            )
        return places.astype(np.int64), values


def _entities(table: Table, column: str) -> Shaped[np.ndarray, "b"] | None:
    """Return the rows' names as text: without a column of names their numbers, or None if no row was left out."""
    if not column:
        return None if table.places is None else table.places.astype(str)
    import pandas as pd

    cells = table.columns[column]
    for row in np.flatnonzero(pd.isna(cells))[:1]:
        raise DataError(f"{cell_name(table, column, int(row))}: is empty; every row needs a name", "missing-value")
    return np.array(_texts(cells.tolist()))


def _texts(cells: Iterable[object]) -> list[str]:
    """Return cells as text, and whole numbers without a fraction: ``1.0`` in one file is ``1`` in another."""
    texts = map(str, cells)
    return [whole[1] if (whole := _WHOLE.fullmatch(text)) else text for text in texts]
