"""Data given in Python: tables in this process, under a name that is a digest of their content.

``data`` is then set to the function ``clients.data.in_memory:held.TOKEN``. Equal tables have the same name, so that a
run can be resumed with the same data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from clients.data.simulated_sites import check_site_names
from clients.data.table import DataError, Table, frame_columns, make_table
from clients.digest import digest_of
from common.data_places import GIVEN_IN_PYTHON

if TYPE_CHECKING:
    import pandas as pd


class HeldTables:
    """The tables of a simulation's sites, or one table of the fusion center's own.

    Parameters
    ----------
    tables : Mapping[str, Table]
        By site.

    Attributes
    ----------
    sites : tuple of str
        Names of the sites, sorted, as files in a folder are.

    Examples
    --------
    >>> held = HeldTables({"south": Table("south", {}), "north": Table("north", {})})
    >>> held.sites, held(0, 2).source
    (('north', 'south'), 'north')
    """

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self.sites = tuple(sorted(tables))
        self.tables = dict(tables)
        words = digest_of({name: tables[name].columns for name in self.sites})
        self.token = "t" + "".join(f"{word:08x}" for word in words[:4])

    def __call__(self, place: Any = 0, n_sites: int = 1) -> Table:
        """Return the table of the site at a place; every place has a single table."""
        return self.tables[self.sites[place if len(self.sites) > 1 else 0]]

    @property
    def reference(self) -> str:
        """Value of ``data`` for these tables."""
        return f"{GIVEN_IN_PYTHON}{self.token}"


class _TableRegistry:
    """The tables that this process holds, as attributes by token."""

    def __init__(self) -> None:
        self.by_token: WeakValueDictionary[str, HeldTables] = WeakValueDictionary()

    def __getattr__(self, token: str) -> HeldTables:
        if token.startswith("__"):
            raise AttributeError(token)
        if token not in self.by_token:
            raise DataError(
                "the data of this run were given in Python and are gone; give the same data again",
                "no-data-file",
            )
        return self.by_token[token]


held = _TableRegistry()
"""Where ``clients.data.in_memory:held.TOKEN`` finds its tables."""


def hold(tables: Mapping[str, Table]) -> HeldTables:
    """Hold tables as long as the returned object lives.

    Examples
    --------
    >>> kept = hold({"north": Table("north", {"age": np.array([41, 52])})})
    >>> kept.sites, kept.reference.startswith("clients.data.in_memory:held.t")
    (('north',), True)
    """
    check_site_names("data", tables)
    holder = HeldTables(tables)
    return held.by_token.setdefault(holder.token, holder)


def table_of_frame(name: str, frame: pd.DataFrame, *, whole: bool = True) -> Table:
    """Copy a DataFrame into a table; a named index becomes a column, as in a Parquet file.

    Parameters
    ----------
    name : str
        Name of the table in messages.
    frame : pandas.DataFrame
        The rows.
    whole : bool
        Whether two rows are required.

    Raises
    ------
    DataError
        As `make_table`.
    """
    named = [each for each in frame.index.names if each is not None and each not in frame.columns]
    if named:
        frame = frame.reset_index(named)
    table = make_table(name, frame_columns(frame), whole=whole)
    return Table(name, {column: np.array(values) for column, values in table.columns.items()})


def export() -> list[HeldTables]:
    """Return all tables of this process, which can be pickled, for `adopt` in another process."""
    return list(held.by_token.values())


_adopted: list[HeldTables] = []


def adopt(tables: list[HeldTables]) -> None:
    """Hold tables that another process exported, as long as this process lives."""
    for each in tables:
        held.by_token[each.token] = each
        _adopted.append(each)
