"""A site's data from its own database: the rows of a query, block by block.

The connection string is the site's own (``database`` in its node configuration): ``sqlite:///PATH``, or anything that
libpq takes, such as ``postgresql://HOST/NAME`` or ``service=NAME``. Python brings SQLite; PostgreSQL takes the extra
``postgres``. Passwords belong into libpq's password file, not into the string. Connections only read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from clients.data.table import DataError, Table, make_table, setting
from common.data_places import shown_place
from common.extras import MissingLibraryError, require

MOST_ROWS = 2**31 - 1
"""Most rows of a block."""
_SQLITE = "sqlite:///"


def query_blocks(query: str, config: Mapping[str, object], rows: int) -> Iterator[Table]:
    """Yield the rows of a query in blocks of `rows`; if there are none, one table without rows.

    Each pass runs the query anew, so it must state an order, in which rows keep their places.

    Raises
    ------
    DataError
        If there is no connection string, no connection, no order, or no such table; or as `make_table`.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "ward.db"
    >>> with closing(sqlite3.connect(file)) as database:
    ...     _ = database.executescript("create table ward (age int, code text); insert into ward values (41, '007')")
    >>> block, = query_blocks("select * from ward order by code", {"database": f"sqlite:///{file}"}, 100)
    >>> block.column("age").tolist(), block.column("code").tolist()
    ([41], ['007'])
    """
    source = shown_place(query)
    if "order by" not in " ".join(query.lower().split()):
        raise DataError(
            f"{source}: has no order by; without it a database may give the rows in another order each time",
            "bad-configuration",
        )
    before = 0
    for names, records in _records(source, query, setting(config, "database"), rows):
        columns = np.empty((len(names), len(records)), object)
        for place, record in enumerate(records):
            columns[:, place] = record
        numbers = np.arange(before + 1, before + 1 + len(records))
        yield make_table(source, zip(names, columns, strict=True), lines=numbers, whole=False)
        before += len(records)


def _records(source: str, query: str, database: str, rows: int) -> Iterator[tuple[list[str], list[Any]]]:
    """Yield column names and records of the query, at least once."""
    if not database:
        raise DataError(
            f"{source}: is a query; set database in the site's own configuration, to sqlite:///PATH or postgresql://...",
            "bad-configuration",
        )
    library = sqlite3 if database.startswith(_SQLITE) else _postgres()
    try:
        with closing(_connect(database)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(query)
            if cursor.description is None:
                raise DataError(f"{source}: gives no rows; write a select", "bad-configuration")
            names = [str(column[0]) for column in cursor.description]
            records = cursor.fetchmany(rows)
            yield names, records
            while records := cursor.fetchmany(rows):
                yield names, records
    except library.Error as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{source}: the database says: {reason}", "unreadable") from error


def _connect(database: str) -> Any:
    """Return a connection that only reads."""
    if not database.startswith(_SQLITE):
        return _postgres().connect(database, options="-c default_transaction_read_only=on")
    path = Path(database.removeprefix(_SQLITE)).expanduser()
    if not path.is_file():
        raise DataError(f"{path}: there is no such file", "no-data-file")
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _postgres() -> Any:
    try:
        require("psycopg", "a query of PostgreSQL")
    except MissingLibraryError as error:
        raise DataError(str(error), "missing-library") from error
    import psycopg

    return psycopg
