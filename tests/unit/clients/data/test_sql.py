"""Queries of a site's own database give the same table, bit for bit, as its CSV and Parquet files."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from clients.data import DataError, Table, load
from clients.data.blocks import open_blocks
from clients.data.simulated_sites import simulated_sites
from common.data_places import absolute_place, is_query, shown_place
from common.extras import is_installed

QUERY = 'select "case", age, dose, smoker, note from ward order by "case"'
COLUMNS = {"case": "text", "age": "integer", "dose": "double precision", "smoker": "integer", "note": "text"}


def rows(n: int = 50) -> pd.DataFrame:
    """Codes with leading zeros, whole numbers with gaps, every digit of a double, text with gaps."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "case": [f"{place:04}" for place in range(n)],
            "age": [None if place % 7 == 0 else int(rng.integers(20, 90)) for place in range(n)],
            "dose": rng.normal(0, 1, n) * 10.0 ** rng.integers(-30, 30, n),
            "smoker": rng.integers(2, size=n),
            "note": [None if place % 5 == 0 else f"visit, {place}" for place in range(n)],
        }
    ).astype({"age": object})


def records(table: pd.DataFrame) -> list[tuple[object, ...]]:
    """Python's own numbers and None, in another order than that of the files."""
    cells = table.astype(object).where(table.notna(), None).to_numpy()
    return [tuple(each.item() if isinstance(each, np.generic) else each for each in row) for row in cells[::-1]]


def assert_same(table: Table, other: Table) -> None:
    assert list(table.columns) == list(other.columns)
    for name, values in table.columns.items():
        assert values.dtype == other.columns[name].dtype
        if values.dtype == object:
            assert values.tolist() == other.columns[name].tolist()
        else:
            assert values.tobytes() == other.columns[name].tobytes()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows as CSV, Parquet and SQLite."""
    folder = tmp_path_factory.mktemp("ward")
    table = rows()
    table.to_csv(folder / "ward.csv", index=False)
    if is_installed("pyarrow"):
        table.to_parquet(folder / "ward.parquet")
    with closing(sqlite3.connect(folder / "ward.db")) as database:
        listed = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
        database.execute(f"create table ward ({listed})")
        database.executemany("insert into ward values (?, ?, ?, ?, ?)", records(table))
        database.commit()
    return folder


def of_database(files: Path) -> Mapping[str, object]:
    return {"data": QUERY, "database": f"sqlite:///{files / 'ward.db'}"}


# -- SQLite -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", pytest.param("parquet", marks=pytest.mark.skipif(
    not is_installed("pyarrow"), reason="no pyarrow"))])  # fmt: skip
def test_a_query_gives_what_a_file_gives(files: Path, ending: str) -> None:
    assert_same(load(of_database(files)), load({"data": str(files / f"ward.{ending}")}))


def test_blocks_are_those_of_a_file(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clients.data.blocks.BLOCK_ROWS", 20)
    ours, theirs = open_blocks(of_database(files)), open_blocks({"data": str(files / "ward.csv")})
    assert list(ours.schema.columns) == list(theirs.schema.columns)
    for _ in range(2):  # every pass gives the same rows
        blocks, others = list(ours.tables(["dose"])), list(theirs.tables(["dose"]))
        assert [block.n for block in blocks] == [20, 20, 10]
        for block, other in zip(blocks, others, strict=True):
            assert_same(block, other)
        assert blocks[1].where(0) == "row 21"


def test_a_connection_only_reads(files: Path) -> None:
    with pytest.raises(DataError, match="readonly"):
        load({**of_database(files), "data": "with x as (select 1) insert into ward (age) values (3) -- order by"})
    assert load(of_database(files)).n == 50


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"database": ""}, r"the query 'select \"case\".*': is a query; set database in the site's own configuration"),
        ({"database": "sqlite:////nowhere/ward.db"}, "/nowhere/ward.db: there is no such file"),
        ({"data": "select age from ward"}, "has no order by"),
        ({"data": "select weight from ward order by 1"}, "the database says: no such column: weight"),
        ({"data": "select age from ward where age > 900 order by 1"}, "has no rows"),
    ],
)
def test_what_cannot_be_read_is_said(files: Path, changes: dict[str, str], words: str) -> None:
    with pytest.raises(DataError, match=words):
        load({**of_database(files), **changes})


def test_a_simulation_takes_no_query() -> None:
    with pytest.raises(DataError, match="a simulation takes files"):
        simulated_sites(QUERY)


def test_what_a_query_is() -> None:
    assert is_query(QUERY)
    assert is_query("  WITH t AS (SELECT 1)\nSELECT * FROM t ORDER BY 1")
    assert not is_query("hospital.records:load")
    assert absolute_place(QUERY) == QUERY
    assert shown_place("select  *\n from ward") == "the query 'select * from ward'"


# -- PostgreSQL -------------------------------------------------------------------------------------------------------


def _programs() -> Path | None:
    """The folder of PostgreSQL's programs, as Debian installs them."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The connection string of a server on loopback, which this test starts and ends."""
    programs = _programs()
    if programs is None or not is_installed("psycopg") or (os.geteuid() == 0 and not shutil.which("setpriv")):
        pytest.skip("no PostgreSQL, or no psycopg")
    folder = Path(tempfile.mkdtemp(prefix="consilience-", dir="/tmp"))
    # The server refuses to run as root.
    user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []
    if user:
        shutil.chown(folder, "nobody", "nogroup")
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data, run = str(folder / "data"), {"check": True, "capture_output": True, "cwd": folder}
    subprocess.run([*user, programs / "initdb", "-D", data, "-U", "ward", "-A", "trust", "--no-sync"], **run)  # type: ignore[call-overload]
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
    log = str(folder / "log")
    subprocess.run([*user, programs / "pg_ctl", "-D", data, "-o", options, "-l", log, "-w", "start"], **run)  # type: ignore[call-overload]
    try:
        yield f"postgresql://ward@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run([*user, programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"], **run)  # type: ignore[call-overload]
        shutil.rmtree(folder, ignore_errors=True)


def test_postgres_gives_what_sqlite_gives(postgres: str, files: Path) -> None:
    import psycopg

    table = rows()
    with psycopg.connect(postgres, autocommit=True) as database:
        listed = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
        database.execute(f"create table ward ({listed})")  # type: ignore[arg-type]
        with database.cursor() as cursor:
            cursor.executemany("insert into ward values (%s, %s, %s, %s, %s)", records(table))
    config = {"data": QUERY, "database": postgres}
    assert_same(load(config), load(of_database(files)))
    with pytest.raises(DataError, match="the database says: relation"):
        load({**config, "data": "select * from nowhere order by 1"})
    with pytest.raises(DataError, match="read-only"):
        load({**config, "data": "with x as (delete from ward returning *) select * from x order by 1"})
