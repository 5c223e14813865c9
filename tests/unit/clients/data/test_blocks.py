"""A site's own data in blocks: the same rows as when read whole, whatever the block, and the same messages."""

from __future__ import annotations

import csv
import gzip
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.data import DataError, Table, read_table
from clients.data import blocks as blocks_module
from clients.data.blocks import Blocks, open_blocks
from clients.data.column_selection import cell_name
from tests.support.examples import examples
from tests.support.parameters import few

ENDINGS = (".csv", ".csv.gz", ".parquet", ".npz")
FRAME = pd.DataFrame(
    {
        "age": [41.0, 7.5, 30.0, 22.0, 0.25, 1e-300, 3.0],
        "n": [1, 2, 3, 4, 5, 6, 7],
        "sex": ["Female", "Male", "Female", "?", "NA", "Male", "é"],
    }
)


def refusal(action: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(DataError) as caught:
        action()
    assert "\n" not in str(caught.value)
    return str(caught.value), caught.value.code


def write(path: Path, frame: pd.DataFrame = FRAME) -> Path:
    name = path.name.lower()
    if name.endswith(".npz"):
        np.savez(path, **{str(column): frame[column].to_numpy("U" if column == "sex" else None) for column in frame})
    elif name.endswith(".parquet"):
        frame.to_parquet(path, row_group_size=4)
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.fixture(params=[1, 2, 3, 1000])
def rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Rows of a block."""
    monkeypatch.setattr(blocks_module, "BLOCK_ROWS", request.param)
    return int(request.param)


def blocks_of(path: Path) -> Blocks:
    return open_blocks({"data": str(path)})


def everything(tables: list[Table]) -> dict[str, list[object]]:
    """The cells of all blocks; None where one is empty (a block of empty cells only is one of numbers)."""
    cells = {
        name: np.concatenate([table.columns[name].astype(object) for table in tables]) for name in tables[0].columns
    }
    return {name: [None if pd.isna(cell) else cell for cell in each] for name, each in cells.items()}


def text_blocks(tmp_path: Path, text: str | bytes) -> list[Table]:
    """All blocks of a CSV file with the columns ``a`` (numbers) and ``b`` (text)."""
    path = tmp_path / "site.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return list(blocks_of(path).tables(["a"], ["b"]))


# --- The same rows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ENDINGS)
def test_blocks_are_the_whole_table_in_order_as_often_as_wanted(tmp_path: Path, rows: int, ending: str) -> None:
    path = write(tmp_path / f"site{ending}")
    whole, blocks = read_table(path), blocks_of(path)
    assert {name: cells.dtype for name, cells in blocks.schema.columns.items()} == {
        name: cells.dtype for name, cells in whole.columns.items()
    }
    for _ in range(2):
        tables = list(blocks.tables(["n", "age"], ["sex"]))
        assert [table.n for table in tables[:-1]] == [rows] * (len(tables) - 1)
        assert 1 <= tables[-1].n <= rows
        assert everything(tables) == {name: cells.tolist() for name, cells in whole.columns.items()}
        where = [cell_name(table, "n", row) for table in tables for row in range(table.n)]
        assert where == [cell_name(whole, "n", row) for row in range(whole.n)]


@pytest.mark.parametrize("ending", ENDINGS)
def test_only_the_wanted_columns(tmp_path: Path, ending: str) -> None:
    blocks = blocks_of(write(tmp_path / f"site{ending}"))
    assert list(blocks.schema.columns) == ["age", "n", "sex"]
    assert blocks.schema.n == 0
    assert [list(table.columns) for table in blocks.tables(["n"], ["sex"])] == [["n", "sex"]]


def test_many_columns_make_blocks_of_fewer_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "BLOCK_CELLS", 9)
    for ending in ENDINGS:
        tables = blocks_of(write(tmp_path / f"site{ending}")).tables(["n"])
        assert [table.n for table in tables] == [3, 3, 1]


@pytest.mark.parametrize("change", [("\n", "\r\n"), ("\n", "\r"), ("a,b", "\ufeffa,b"), ("x\n", "x\n\n\n\n")])
def test_line_ends_byte_order_mark_and_blank_lines_at_the_end(
    tmp_path: Path, rows: int, change: tuple[str, str]
) -> None:
    tables = text_blocks(tmp_path, "a,b\n1,u\n2,v\n3,x\n".replace(*change))
    assert everything(tables) == {"a": [1, 2, 3], "b": ["u", "v", "x"]}


def test_lines_are_the_file_s_own_after_quoted_line_breaks(tmp_path: Path, rows: int) -> None:
    text = '"a",b\n1,"two\nlines"\n2,plain\n3,"three\n\nlines"\n4,5" pipe\n5,"6"" pipe"\n'
    tables = text_blocks(tmp_path, text)
    assert everything(tables) == {
        "a": [1, 2, 3, 4, 5],
        "b": ["two\nlines", "plain", "three\n\nlines", '5" pipe', '6" pipe'],
    }
    assert [t.where(row) for t in tables for row in range(t.n)] == [f"line {line}" for line in (2, 4, 5, 8, 9)]


def test_a_column_read_as_text_keeps_its_cells_and_one_of_numbers_is_text_only_where_it_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks_module, "BLOCK_ROWS", 2)
    tables = text_blocks(tmp_path, "a,b\n1,1\n2,007\n3.5,\n4,1.0\n5,True\nx,NA\n")
    assert everything(tables)["b"] == ["1", "007", None, "1.0", "True", "NA"]
    assert [table.columns["a"].dtype.kind for table in tables] == ["i", "f", "O"]


def test_codes_are_text_where_columns_are_looked_at_first(tmp_path: Path) -> None:
    path = tmp_path / "site.csv"
    path.write_text("code,a\n0012,1\n0100,2\n")
    blocks = blocks_of(path)
    assert [blocks.schema.columns[name].dtype.kind for name in ("code", "a")] == ["O", "i"]
    assert [table.columns["code"].tolist() for table in blocks.tables([], ["code"])] == [["0012", "0100"]]


@examples(60)
@given(
    st.lists(
        st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.text("ab,\"'\n\r é1", max_size=6)),
        min_size=2,
        max_size=20,
    ),
    st.integers(1, 7),
)
def test_any_csv_is_read_as_when_whole(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[float, str]], most: int
) -> None:
    path = tmp_path_factory.mktemp("csv") / "site.csv"
    pd.DataFrame(cells, columns=["a", "b"]).to_csv(path, index=False, quoting=csv.QUOTE_NONNUMERIC)
    whole = read_table(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks_module, "BLOCK_ROWS", most)
        tables = list(blocks_of(path).tables(["a"], ["b"]))
    assert everything(tables)["a"] == whole.columns["a"].tolist()
    text = pd.read_csv(path, dtype=str, keep_default_na=False, na_values=[""]).astype(object)["b"]
    assert everything(tables)["b"] == [None if pd.isna(cell) else cell for cell in text]
    assert [t.where(row) for t in tables for row in range(t.n)] == [whole.where(row) for row in range(whole.n)]


# --- Bad files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "a,b\n",
        "a,b\n\n\n",
        "a,b\n1,2\n",
        "a,b\n1,2\n3,4,5\n",
        "a,b\n1,2\n3\n5,6\n",
        "a,b\n1,2\n3,4\n5,6\n\n7,8\n",
        'a,b\n"1\n1",2\n3,4\n5\n',
        "a,b,a\n1,2,3\n4,5,6\n",
        ",a\n0,1\n1,2\n",
        "\n\na,b\n1,2\n3,4\n",
        'a,b\n1,2\n3,4\n1,"2\n3,4\n',
        "a,b\n1,2\n3,4\n5,6\n".encode("utf-16"),
        b"a,b\n1,2\n3,4\n5,\xe9\n",
    ],
)
def test_bad_csv_is_refused_as_when_whole(tmp_path: Path, rows: int, text: str | bytes) -> None:
    found = refusal(lambda: text_blocks(tmp_path, text))
    assert found == refusal(lambda: read_table(tmp_path / "site.csv"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv.gz", b"a,b\n1,2\n3,4\n"),
        ("a.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 200, mtime=0)[:-9]),
        ("a.parquet", b"PAR1 is not enough"),
        ("a.parquet", b""),
        ("a.npz", b"PK\x03\x04 broken"),
        ("a.npz", b"text"),
        ("a.xlsx", b"text"),
    ],
)
def test_damaged_files_are_refused_as_when_whole(tmp_path: Path, rows: int, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    found = refusal(lambda: list(blocks_of(path).tables(["a"], ["b"])))
    assert found == refusal(lambda: read_table(path))
    assert found[1] == "unreadable"


def test_damage_behind_the_first_block_shows_when_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "BLOCK_ROWS", 2)
    path = tmp_path / "site.csv"
    path.write_text("a,b\n1,2\n3,4\n5\n")
    tables = blocks_of(path).tables(["a"], ["b"])
    assert next(tables).n == 2
    assert refusal(lambda: next(tables)) == (
        f"{path}, line 4: has 1 cells, but the header names 2 columns",
        "bad-shape",
    )


def test_bad_parquet_and_npz(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "site.parquet"
    pq.write_table(pa.table([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"]), path)
    assert refusal(lambda: blocks_of(path)) == (f"{path}: two columns are named 'a'; rename one", "bad-shape")
    pq.write_table(pa.table([pa.array([[1], [2, 3]])], names=["nested"]), path)
    assert "column 'nested': holds objects" in refusal(lambda: blocks_of(path))[0]
    for n, says in ((0, "has no rows; at least two"), (1, "has one row; any statistic")):
        pq.write_table(pa.table({"a": pa.array([1.0] * n)}), path)
        message, code = refusal(lambda: blocks_of(path))
        assert message.startswith(f"{path}: {says}")
        assert code == "too-few-rows"
    np.savez(tmp_path / "site.npz", a=np.arange(3), b=np.arange(4))
    assert refusal(lambda: blocks_of(tmp_path / "site.npz"))[1] == "bad-shape"


def test_a_parquet_file_with_nulls_dots_and_an_index(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "site.parquet"
    frame = pd.DataFrame({"a": pd.array([1, None, 3], "Int64"), "a.b": ["x", None, "z"]}, index=[7, 8, 9])
    frame.assign(kind=pd.Categorical(["u", "v", "u"], ["v", "u"]).astype(object)).to_parquet(path)
    tables = list(blocks_of(path).tables(["a"], ["kind"]))
    assert list(tables[0].columns) == ["a", "kind"]
    assert everything(tables) == {"a": [1, None, 3], "kind": ["u", "v", "u"]}
    assert everything(list(blocks_of(path).tables([], ["a.b"])))["a.b"] == ["x", None, "z"]


def test_a_setting_and_a_file_are_needed(tmp_path: Path) -> None:
    assert refusal(lambda: open_blocks({}))[1] == "bad-configuration"
    path = tmp_path / "no.csv"
    assert refusal(lambda: blocks_of(path)) == (f"{path}: there is no such file", "no-data-file")


# --- A site's own function ----------------------------------------------------------------------------------------

MODULE = """
import numpy as np, pandas as pd
from clients.data import DataError, read_table
from numerics.bc3e.ensemble import Ensemble
calls = []
def whole(config): calls.append("whole"); return {"a": np.arange(5), "b": list("uvwxy")}
def stream(config):
    calls.append("stream")
    yield {"a": [0, 1], "b": ["u", "v"]}
    yield {"b": [], "a": np.zeros(0, int)}
    yield pd.DataFrame({"b": ["w"], "a": [2]})
    yield {"a": [3, 4], "b": ["x", "y"]}
def tables(config): return [{"a": [0], "b": ["u"]}, {"a": [1, 2], "b": ["v", "w"]}, {"a": [3, 4], "b": ["x", "y"]}]
def files(config): return (read_table(path) for path in config["paths"])
def nothing(config): return iter(())
def one(config): yield {"a": [1], "b": ["u"]}
def other(config): return 3
def text(config): return "ab"
def numbers(config): return [1, 2]
def ensemble(config): return Ensemble(n=2, classifiers={"class_a": np.array([0, 1])})
def lacks(config): yield {"a": [1, 2], "b": ["u", "v"]}; yield {"a": [1, 2]}
def more(config): yield {"a": [1, 2]}; yield {"a": [1, 2], "b": ["u", "v"]}
def uneven(config): yield {"a": [1, 2]}; yield {"a": [1, 2], "b": ["u"]}
def fails(config): yield {"a": [1, 2], "b": ["u", "v"]}; raise KeyError("ward")
def refuses(config): raise DataError("no rows today", "too-few-rows")
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Blocks]:
    (tmp_path / "ward_blocks.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ward_blocks", raising=False)
    return lambda name, **config: open_blocks({"data": f"ward_blocks:{name}", **config})


@pytest.mark.parametrize("name", ["whole", "stream", "tables"])
def test_a_function_returns_a_table_or_tables(own: Callable[..., Blocks], rows: int, name: str) -> None:
    blocks = own(name)
    for _ in range(2):
        tables = list(blocks.tables(["a"], ["b"]))
        assert max(table.n for table in tables) <= rows
        assert everything(tables) == {"a": [0, 1, 2, 3, 4], "b": ["u", "v", "w", "x", "y"]}
        where = [cell_name(table, "a", row) for table in tables for row in range(table.n)]
        assert where == [f"ward_blocks:{name}, row {row}, column 'a'" for row in range(1, 6)]


def test_what_a_function_returns_in_one_piece_is_kept_and_an_iterable_is_asked_for_anew(
    own: Callable[..., Blocks],
) -> None:
    for name in ("whole", "stream"):
        blocks = own(name)
        called = sys.modules["ward_blocks"].calls
        called.clear()
        for _ in range(2):
            list(blocks.tables(["a"]))
        assert called == ([] if name == "whole" else [name, name])


def test_tables_of_files_are_told_by_their_own_lines(own: Callable[..., Blocks], tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("east.csv", "west.csv")]
    for path in paths:
        path.write_text("a,b\n1,u\n2,v\n")
    tables = list(own("files", paths=paths).tables(["a"]))
    assert [cell_name(table, "a", 1) for table in tables] == [f"{path}, line 3, column 'a'" for path in paths]


@pytest.mark.parametrize(
    ("name", "message", "code"),
    [
        ("nothing", ": has no rows; at least two are needed", "too-few-rows"),
        ("one", ": has one row; any statistic of it would disclose that row", "too-few-rows"),
        ("other", ": the function returned int; it must return a Table, a mapping of column names", "bad-shape"),
        ("text", ": the function returned str; it must return", "bad-shape"),
        ("ensemble", ": the function returned Ensemble; it must return", "bad-shape"),
        ("numbers", ": the function gave int as its table 1; it must give a Table", "bad-shape"),
        ("lacks", ": table 2 lacks the column 'b'; all tables must have the same columns, 'a', 'b'", "bad-shape"),
        ("more", ": table 2 has, beside those of the first, the column 'b'; all", "bad-shape"),
        ("uneven", ": 'b' has 1 rows, but 'a' has 2", "bad-shape"),
        ("fails", ": the function raised KeyError: 'ward'", "function-failed"),
        ("refuses", ": the function raised DataError: no rows today", "too-few-rows"),
        ("absent", ": ward_blocks has no function absent", "bad-configuration"),
    ],
)
def test_a_function_fails(own: Callable[..., Blocks], name: str, message: str, code: str) -> None:
    found = refusal(lambda: list(own(name).tables(["a"], ["b"])))
    assert found[0].startswith(f"ward_blocks:{name}{message}")
    assert found[1] == code


# --- Memory -------------------------------------------------------------------------------------------------------

PEAK = r"""
import re, sys
from pathlib import Path
import pandas, pyarrow.parquet
from clients.data import read_table
from clients.data.blocks import open_blocks
# Not getrusage's maximum, which begins with that of the process that started this one.
peak = lambda: int(re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024
before, path = peak(), sys.argv[1]
blocks = open_blocks({"data": path})
names = [name for name in blocks.schema.columns if name != "sex"]
n = sum(table.n for table in blocks.tables(names, ["sex"]))
of_blocks = peak() - before
read_table(path)
print(n, of_blocks, peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from Linux")
@pytest.mark.parametrize("ending", few([".parquet", ".csv"]))
def test_memory_is_that_of_a_block_and_not_of_the_file(tmp_path: Path, ending: str) -> None:
    """300,000 rows of 16 columns are 37 MiB of numbers, and as text 92 MB."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300_000, 15)), columns=[f"x{j}" for j in range(15)])
    frame["sex"] = rng.choice(["Female", "Male"], len(frame))
    path = tmp_path / f"site{ending}"
    if ending == ".csv":
        header, lines = frame[:3000].to_csv(index=False).split("\n", 1)
        path.write_text(f"{header}\n{lines * 100}")
    else:
        frame.to_parquet(path)
    command = [sys.executable, "-c", PEAK, str(path)]
    done = subprocess.run(command, cwd=Path(__file__).parents[4], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    n, of_blocks, of_whole = map(float, done.stdout.split())
    assert n == 300_000
    assert of_blocks < 130
    assert of_whole > (3 if ending == ".csv" else 1.3) * of_blocks
