"""Values of configuration keys for data given in Python: DataFrames, paths, functions."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from clients.data import DataError, Table, make_table
from clients.data.files import ENDINGS, numbered_site, read_table
from clients.data.in_memory import HeldTables, hold, table_of_frame
from clients.data.simulated_sites import check_site_names
from clients.data.source import call_for_site, table_of
from common.data_places import as_text
from common.extras import require

if TYPE_CHECKING:
    import pandas as pd

Rows: TypeAlias = Union["pd.DataFrame", Mapping[str, Any], Table, str, Path]
"""Rows of one site: a DataFrame, columns by name, or the path of a file."""

Data: TypeAlias = Mapping[str, Rows] | Sequence[Rows] | Callable[[int, int], Any] | str | Path
"""Rows by site, a folder, or a function of a site's place and the number of sites."""

_NOT_DATA = (
    "data must be rows by site ({'north': frame, 'south': frame}), a folder, or a function of a site's place and the"
    " number of sites, not {}"
)


def named_data(data: Any, sites: int | None) -> tuple[str, HeldTables | None]:
    """Return the value of the key ``data``, and the tables that must live as long as it is in use.

    Parameters
    ----------
    data : Data
        The user's data.
    sites : int or None
        Number of sites, for a function without names of sites.

    Raises
    ------
    DataError
        If they are no data, or a table of them cannot be used.
    """
    if isinstance(data, str | Path):
        return str(data), None
    if callable(data):
        return _named_function(data, sites)
    if isinstance(data, Mapping) and data and not is_one_site(data):
        by_site = {str(name): rows for name, rows in data.items()}
    elif isinstance(data, list | tuple) and data:
        by_site = {numbered_site(place, len(data)): rows for place, rows in enumerate(data)}
    else:
        raise DataError(_wrong(data), "bad-configuration")
    check_site_names("data", by_site)
    if all(isinstance(rows, str | Path) for rows in by_site.values()):
        return as_text(by_site), None
    tables = hold({name: table_of_rows(name, rows) for name, rows in by_site.items()})
    return tables.reference, tables


def named_rows(name: str, rows: Rows) -> tuple[str, HeldTables | None]:
    """Return the value of a key for the fusion center's own rows, and the table that must live as long."""
    if isinstance(rows, str | Path):
        return str(rows), None
    tables = hold({name: table_of_rows(name, rows, whole=False)})
    return tables.reference, tables


def table_of_rows(name: str, rows: Any, *, whole: bool = True, text: Sequence[str] = ()) -> Table:
    """Return rows as a table.

    Parameters
    ----------
    name : str
        Name of the table in messages.
    rows : Rows
        The user's rows.
    whole : bool
        Whether two rows are required.
    text : sequence of str
        Columns of a CSV file to read as text.

    Raises
    ------
    DataError
        If they are not rows, or cannot be used.

    Examples
    --------
    >>> table_of_rows("north", {"age": [41, 52]}).columns["age"].tolist()
    [41, 52]
    """
    if isinstance(rows, str | Path):
        return read_table(rows, own=whole, text=text)
    if isinstance(rows, Table):
        return rows
    if is_frame(rows):
        return table_of_frame(name, rows.to_pandas() if hasattr(rows, "to_pandas") else rows, whole=whole)
    if isinstance(rows, Mapping):
        return make_table(name, rows.items(), whole=whole)
    kinds = f"a DataFrame, columns by name, or a path ({', '.join(ENDINGS)})"
    raise DataError(f"{name}: rows are {kinds}, not {type(rows).__name__}", "bad-configuration")


def is_frame(value: object) -> bool:
    """Whether a value is a DataFrame of pandas, or a table of pyarrow or polars, without importing any of them."""
    return type(value).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow") and hasattr(value, "columns")


def is_one_site(data: Mapping[Any, Any]) -> bool:
    """Whether a mapping has the columns of one site, instead of rows by site."""
    return all(_is_column(values) for values in data.values())


def _is_column(values: object) -> bool:
    if is_frame(values) or isinstance(values, Mapping | Table | str | Path) or getattr(values, "ndim", 1) != 1:
        return False
    return not isinstance(values, Sequence) or not values or not isinstance(values[0], Mapping)


def _wrong(data: Any) -> str:
    if is_frame(data) or (isinstance(data, Mapping) and data):
        return (
            "data are the rows of one site; give those of every site, {'north': frame, 'south': frame}, for instance"
            " dict(list(frame.groupby('site')))"
        )
    return _NOT_DATA.replace("{}", "nothing" if isinstance(data, Sequence | Mapping) else type(data).__name__)


def _named_function(function: Callable[..., Any], sites: int | None) -> tuple[str, HeldTables | None]:
    """Return a function's own name if another process can import it; else hold its result for every site."""
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if module not in ("", None, "__main__") and getattr(importlib.import_module(module), name, None) is function:
        return f"{module}:{name}", None
    names = check_site_names("data", getattr(function, "sites", ()))
    if not names and sites is None:
        raise DataError("data is a function: say for how many sites with sites=", "bad-configuration")
    n_sites = len(names) or int(sites or 0)
    names = names or tuple(numbered_site(place, n_sites) for place in range(n_sites))
    tables = hold({site: _answer(function, place, n_sites, site) for place, site in enumerate(names)})
    return tables.reference, tables


def _answer(function: Callable[..., Any], place: int, n_sites: int, site: str) -> Table:
    reference = getattr(function, "__qualname__", type(function).__name__)
    answer = call_for_site(reference, function, place, n_sites)
    table = table_of(site, answer)
    if table is None:
        raise DataError(
            f"{reference}: the function returned {type(answer).__name__}; it must return a DataFrame or a mapping of"
            " column names to arrays",
            "bad-shape",
        )
    return table


def write_tables(tables: HeldTables, folder: Path) -> None:
    """Write tables as Parquet files into a folder, one a site, for processes that do not share this one's memory.

    Raises
    ------
    MissingLibraryError
        If pyarrow, which writes them, is not installed.
    """
    require("pyarrow", "data given in Python for Flower's engine")
    import pyarrow as pa
    import pyarrow.parquet as pq

    for site, table in tables.tables.items():
        pq.write_table(pa.table(dict(table.columns)), folder / f"{site}.parquet")
