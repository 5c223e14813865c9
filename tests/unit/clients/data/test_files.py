"""A site's own data: every format, and every bad input with the message it gives."""

import gzip
import io
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.bc3e.check import describe
from clients.bc3e.shard import check_together, ensemble_from_table, open_shard
from clients.data import DataError, Table, bombs, load, match_columns, numeric, read_table, site_files, site_name
from clients.data.blocks import open_blocks
from clients.data.cache import ObservedConfig
from clients.data.column_selection import patterns_text, split_patterns
from clients.data.regression import regression_rows
from clients.data.testset import center_columns, center_queries
from numerics.bc3e.ensemble import Ensemble
from tests.support.examples import examples

CSV = "id,age,grade,smoker,class_tree\na,41,?,True,0\nb,,None,False,\nc,7.5,NA,True,2\n"


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


@pytest.fixture
def csv(tmp_path: Path) -> Callable[[str], Table]:
    return lambda text: read_table(write(tmp_path / "site.csv", text))


def refusal(action: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(DataError) as caught:
        action()
    return str(caught.value), caught.value.code


# --- Formats ------------------------------------------------------------------------------------------------------


def assert_same(table: Table, columns: Mapping[str, list[object]]) -> None:
    assert list(table.columns) == list(columns)
    for name, values in columns.items():
        np.testing.assert_array_equal(table.columns[name], np.array(values, dtype=table.columns[name].dtype))


EXPECTED = {
    "id": ["a", "b", "c"],
    "age": [41.0, np.nan, 7.5],
    "grade": ["?", "None", "NA"],
    "smoker": [True, False, True],
    "class_tree": [0.0, np.nan, 2.0],
}


def test_csv_keeps_labels_that_look_missing(csv: Callable[[str], Table]) -> None:
    table = csv(CSV)
    assert_same(table, EXPECTED)
    assert (table.n, table.first_line, table.where(0)) == (3, 2, "line 2")
    assert [table.columns[name].dtype.kind for name in EXPECTED] == ["O", "f", "O", "b", "f"]


@pytest.mark.parametrize("ending", [".csv.gz", ".CSV.GZ"])
def test_gzip(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"site{ending}"
    path.write_bytes(gzip.compress(CSV.encode()))
    assert_same(read_table(path), EXPECTED)


@pytest.mark.parametrize("change", [("\n", "\r\n"), ("\n", "\r"), ("id,age", "\ufeffid,age"), ("2\n", "2\n\n\n")])
def test_csv_line_ends_byte_order_mark_and_blank_lines_at_the_end(
    csv: Callable[[str], Table], change: tuple[str, str]
) -> None:
    assert_same(csv(CSV.replace(*change)), EXPECTED)


def test_parquet(tmp_path: Path) -> None:
    frame = pd.read_csv(io.StringIO(CSV), keep_default_na=False, na_values=[""])
    frame["class_tree"] = frame["class_tree"].astype("Int64")
    frame["grade"] = frame["grade"].astype("category")
    folder = tmp_path / "ward=3"  # no column is made of a folder's name
    folder.mkdir()
    frame.index = pd.Index([5, 6, 7])  # nor of an unnamed row index
    frame.to_parquet(folder / "site.parquet")
    table = read_table(folder / "site.parquet")
    assert_same(table, EXPECTED)
    assert table.where(0) == "row 1"


def test_npz(tmp_path: Path) -> None:
    arrays = {"x": np.arange(6, dtype=np.float32).reshape(3, 2), "y": np.array([2, 0, 1], dtype=np.uint8)}
    np.savez(tmp_path / "site.npz", **arrays, name=np.array(["a", "", "c"]))
    table = read_table(tmp_path / "site.npz")
    assert_same(table, {"x_0": [0.0, 2.0, 4.0], "x_1": [1.0, 3.0, 5.0], "y": [2, 0, 1], "name": ["a", None, "c"]})
    assert table.columns["x_0"].dtype == np.float64
    assert table.columns["y"].dtype == np.int64


def test_zero_led_codes_stay_text_and_can_still_be_numbers(csv: Callable[[str], Table]) -> None:
    table = csv("id,x,y\n0012,0.5,0\n0100,1,10\n")
    assert table.columns["id"].tolist() == ["0012", "0100"]
    assert [table.columns[name].dtype.kind for name in "xy"] == ["f", "i"]
    assert numeric(table, "id", allow_missing=False).tolist() == [12.0, 100.0]


def test_whole_numbers_too_long_for_int64_stay_exact(csv: Callable[[str], Table]) -> None:
    long = ["12345678901234567890", "123456789012345678901234567890"]
    assert csv("id\n" + "\n".join(long) + "\n").columns["id"].tolist() == long
    assert csv(f"id\n{long[0]}\n18446744073709551615\n").columns["id"].tolist() == [long[0], "18446744073709551615"]


def test_lines_are_the_files_own_after_a_quoted_line_break(csv: Callable[[str], Table]) -> None:
    table = csv('note,x\n"two\nlines",1\nplain,2\nlast,bad\n')
    message, _ = refusal(lambda: numeric(table, "x", allow_missing=False))
    assert "line 5, column 'x': 'bad'" in message


def test_reading_npz_imports_neither_pandas_nor_flower(tmp_path: Path) -> None:
    np.savez(tmp_path / "site.npz", class_a=np.array([0, 1]))
    code = (
        f"from clients.data import read_table; from clients.bc3e.shard import ensemble_from_table; import sys\n"
        f"ensemble_from_table(read_table({str(tmp_path / 'site.npz')!r}), {{}})\n"
        "print([m for m in ('pandas', 'pyarrow', 'flwr') if m in sys.modules])"
    )
    root = Path(__file__).parents[4]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


# --- Bad files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code", "parts"),
    [
        ("", "too-few-rows", ["is empty"]),
        ("\n\n", "too-few-rows", ["is empty"]),
        ("a,b\n", "too-few-rows", ["no rows"]),
        ("a,b\n1,2\n", "too-few-rows", ["one row", "disclose"]),
        ("a,b\n1,2\n3,4,5\n", "bad-shape", ["line 3", "3 cells", "2 columns"]),
        ("a,b\n1,2,9\n3,4,9\n", "bad-shape", ["line 2", "3 cells", "2 columns"]),
        ("a,b\n1,2\n3\n5,6\n", "bad-shape", ["line 3", "1 cells", "2 columns"]),
        ("a,b\n1,2\n\n5,6\n", "bad-shape", ["line 3", "is empty"]),
        ('a,b\n"1\n1",2\n3\n', "bad-shape", ["line 4", "1 cells"]),
        ("a,b,a\n1,2,3\n4,5,6\n", "bad-shape", ["two columns", "'a'"]),
        (",a\n0,1\n1,2\n", "bad-shape", ["column 1 has no name", "index=False"]),
        ('a,b\n1,"2\n3,4\n', "unreadable", ["line 3", "not proper CSV"]),
    ],
)
def test_bad_csv(tmp_path: Path, text: str, code: str, parts: list[str]) -> None:
    path = write(tmp_path / "site.csv", text)
    message, given_code = refusal(lambda: read_table(path))
    assert given_code == code
    assert message.startswith(str(path))
    assert all(part in message for part in parts), message
    assert "\n" not in message


def test_missing_folder_and_unknown_ending(tmp_path: Path) -> None:
    assert refusal(lambda: read_table(tmp_path / "no.csv")) == (
        f"{tmp_path}/no.csv: there is no such file",
        "no-data-file",
    )
    message, code = refusal(lambda: read_table(tmp_path))
    assert "is a folder" in message
    assert code == "no-data-file"
    message, code = refusal(lambda: read_table(write(tmp_path / "site.xlsx", "x")))
    assert ".csv, .csv.gz, .parquet, .npz" in message
    assert code == "unreadable"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "a,b\n1,\u00e9\n2,x\n".encode("latin-1")),
        ("a.csv", "a,b\n1,2\n".encode("utf-16")),
        ("a.csv.gz", b"a,b\n1,2\n3,4\n"),
        ("a.csv.gz", gzip.compress(CSV.encode(), mtime=0)[:-9]),
        ("a.parquet", b"PAR1 is not enough"),
        ("a.parquet", b""),
        ("a.npz", b"PK\x03\x04 broken"),
        ("a.npz", b""),
        ("a.npz", b"text"),
    ],
)
def test_damaged_files(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    message, code = refusal(lambda: read_table(tmp_path / name))
    assert code == "unreadable"
    assert message.startswith(str(tmp_path / name))


def test_bad_npz(tmp_path: Path) -> None:
    path = tmp_path / "site.npz"
    cases = [
        ({"a": np.arange(3), "b": np.arange(4)}, "bad-shape", "'b' has 4 rows, but 'a' has 3"),
        ({"a": np.zeros((2, 2, 2))}, "bad-shape", "'a': has 3 dimensions"),
        ({"a": np.float64(1)}, "bad-shape", "'a': has 0 dimensions"),
        ({"x": np.zeros((3, 2)), "x_1": np.zeros(3)}, "bad-shape", "two columns are named 'x_1'"),
        ({"z": np.zeros(3, dtype=complex)}, "bad-shape", "column 'z': holds complex128"),
        ({"a": np.zeros(0)}, "too-few-rows", "no rows"),
        ({"a": np.zeros((1, 2))}, "too-few-rows", "one row"),
        ({}, "bad-shape", "has no columns"),
        ({"a": np.array([1, None])}, "unreadable", "store text as strings"),
    ]
    for arrays, code, part in cases:
        np.savez(path, **arrays)
        message, given_code = refusal(lambda: read_table(path))
        assert (given_code, part in message) == (code, True), message
    with path.open("wb") as stream:
        np.save(stream, np.arange(3))
    assert "single array" in refusal(lambda: read_table(path))[0]


def test_a_parquet_files_unused_columns_are_not_read(tmp_path: Path) -> None:
    labels = {"class_a": [0, 1, None, 1], "cluster_x": [2, 0, 0, 1], "soft:0": [0.5, 1.0, None, 0.25]}
    labels["soft:1"] = [None if each is None else 1 - each for each in labels["soft:0"]]
    columns = {"id": list("abcd"), **labels, "scan": [[1, 2]] * 4}
    pq.write_table(pa.table(columns), tmp_path / "site.parquet")
    config = {"data": str(tmp_path / "site.parquet"), "id": "id", "classes": "class_* soft:*"}
    ensemble = open_shard(config)
    assert list(ensemble.classifiers) == ["class_a", "soft"]
    np.testing.assert_array_equal(ensemble.classifiers["class_a"], [0, 1, -1, 1])
    with pytest.raises(DataError, match="'scan'"):
        read_table(config["data"])
    with pytest.raises(DataError, match=r"no column 'key'.*'scan'"):
        open_shard({**config, "id": "key"})
    pq.write_table(pa.table(columns | {"class_a": [0, 1, -3, 1]}), tmp_path / "site.parquet")
    with pytest.raises(DataError, match="row 3, column 'class_a': -3 is not a label"):
        open_shard(config)


def test_bad_parquet(tmp_path: Path) -> None:
    path = tmp_path / "site.parquet"
    pq.write_table(pa.table([pa.array([[1], [2, 3]])], names=["nested"]), path)
    assert "column 'nested': holds objects" in refusal(lambda: read_table(path))[0]
    pq.write_table(pa.table([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"]), path)
    assert "two columns are named 'a'" in refusal(lambda: read_table(path))[0]


# --- Columns ------------------------------------------------------------------------------------------------------


def test_match_columns(csv: Callable[[str], Table]) -> None:
    table = csv("b_2,a,b_1,x[1]\n1,2,3,4\n5,6,7,8\n")
    assert match_columns(table, "b_*, a b_1") == ["b_2", "a", "b_1"]
    assert match_columns(table, "x[1]") == ["x[1]"]
    assert match_columns(table, "B_*,none_*") == []
    assert match_columns(table, " , ") == []


def test_a_name_with_blanks_stands_in_quotes(csv: Callable[[str], Table]) -> None:
    table = csv("mean area,area,it's,a 'b'\n1,2,3,4\n5,6,7,8\n")
    assert match_columns(table, "'mean area', it's") == ["mean area", "it's"]
    assert match_columns(table, '"mean area" area') == ["mean area", "area"]
    assert split_patterns(patterns_text(table.columns)) == list(table.columns)
    message, code = refusal(lambda: match_columns(table, "mean area"))
    assert "no column 'mean'; did you mean 'mean area'? In a list of names, one with blanks stands in q" in message
    assert code == "missing-column"


def test_missing_column_names_the_nearest(csv: Callable[[str], Table]) -> None:
    table = csv("blood_pressure,age\n1,2\n3,4\n")
    message, code = refusal(lambda: match_columns(table, "blood_presure"))
    assert code == "missing-column"
    assert "site.csv: there is no column 'blood_presure'; did you mean 'blood_pressure'?" in message
    assert "it has 'blood_pressure', 'age'" in refusal(lambda: match_columns(table, "zzz"))[0]


@pytest.mark.parametrize(
    ("cell", "code", "part"),
    [
        ("abc", "not-numeric", "'abc' is text"),
        ("?", "not-numeric", "'?' is text where a number belongs; leave the row out"),
        ("NaN", "not-numeric", "'NaN' is text where a number belongs; leave the row out"),
        ("1_000", "not-numeric", "'1_000' is text"),
        ('"1,5"', "not-numeric", "'1,5' is text"),
        ("x" * 50, "not-numeric", f"'{'x' * 20}...' is text"),
        ("inf", "not-finite", "is infinite"),
        ("-Infinity", "not-finite", "is infinite"),
        ("1e999", "not-finite", "is infinite"),
        ("", "missing-value", "is empty"),
    ],
)
def test_not_a_number(csv: Callable[[str], Table], cell: str, code: str, part: str) -> None:
    for others in ("1", "01"):  # a column of numbers, and one of text that could be numbers
        table = csv(f"id,age\na,{others}\nb,{cell}\nc,{cell}\n")
        message, given_code = refusal(lambda table=table: numeric(table, "age", allow_missing=False))
        assert given_code == code
        assert f"site.csv, line 3, column 'age': {part}" in message


def test_rows_of_other_formats_count_from_one(tmp_path: Path) -> None:
    np.savez(tmp_path / "site.npz", x=np.array([1.0, np.nan, np.inf]))
    table = read_table(tmp_path / "site.npz")
    assert "row 3, column 'x': is infinite" in refusal(lambda: numeric(table, "x", allow_missing=True))[0]
    np.savez(tmp_path / "site.npz", x=np.array([1.0, np.nan]))
    table = read_table(tmp_path / "site.npz")
    assert "row 2, column 'x': is empty" in refusal(lambda: numeric(table, "x", allow_missing=False))[0]
    np.testing.assert_array_equal(numeric(table, "x", allow_missing=True), [1.0, np.nan])


def test_truth_values_are_numbers(csv: Callable[[str], Table]) -> None:
    table = csv("a,b\nTrue,True\nFalse,\n")
    assert numeric(table, "a", allow_missing=False).tolist() == [1.0, 0.0]
    np.testing.assert_array_equal(numeric(table, "b", allow_missing=True), [1.0, np.nan])


# --- A site's own function ----------------------------------------------------------------------------------------

MODULE = """
import numpy as np, pandas as pd
from clients.data import DataError, Table
from numerics.bc3e.ensemble import Ensemble
def mapping(config): return {"x": [1, 2, 3], "name": ["a", None, "c"], "seen": config["seen"], "site": [1.5, None, 2]}
def frame(config): return pd.DataFrame({"d": pd.to_datetime(["2020-01-02", None]), "i": pd.array([1, None])})
def ensemble(config): return Ensemble(n=2, classifiers={"class_a": np.array([0, 1])})
def table(config): return Table("mine", {"x": np.array([1, 2], dtype=np.int8)})
def masked(config): return {"x": np.ma.masked_array([1, 2, 3], mask=[False, True, False])}
def one_row(config): return {"x": [1]}
def uneven(config): return {"x": [1, 2], "y": [1, 2, 3]}
def ragged(config): return {"x": [[1], [2, 3]]}
def unnamed(config): return {3: [1, 2]}
def twice(config): return pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"])
def other(config): return [1, 2]
def mixed(config): return {"x": [1.5, "a", {}]}
def nothing(config): return {}
def fails(config): raise KeyError("ward")
def refuses(config): raise DataError("no rows today", "too-few-rows")
class Reader:
    @staticmethod
    def read(config): return {"x": [1, 2]}
number = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Table | Ensemble]:
    package = tmp_path / "hospital"
    package.mkdir()
    write(package / "records.py", MODULE)
    write(package / "broken.py", "1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "hospital"]:
        monkeypatch.delitem(sys.modules, name)
    return lambda reference: load({"data": f"hospital.{reference}", "seen": [True, False, None]}, Ensemble)


def test_function_returns_columns(own: Callable[[str], Table]) -> None:
    table = own("records:mapping")
    expected = {"x": [1, 2, 3], "name": ["a", None, "c"], "seen": [1.0, 0.0, np.nan], "site": [1.5, np.nan, 2.0]}
    assert_same(table, expected)
    assert (table.source, table.where(1)) == ("hospital.records:mapping", "row 2")
    frame = own("records:frame")
    assert frame.columns["d"][0].startswith("2020-01-02")
    assert frame.columns["d"][1] is None
    np.testing.assert_array_equal(frame.columns["i"], [1.0, np.nan])
    assert own("records:table").source == "mine"
    assert own("records:table").columns["x"].dtype == np.int64
    np.testing.assert_array_equal(own("records:masked").columns["x"], [1.0, np.nan, 3.0])
    assert own("records:Reader.read").n == 2


def test_function_returns_an_ensemble_as_it_is_where_the_protocol_takes_one(own: Callable[[str], Ensemble]) -> None:
    config = {"data": "hospital.records:ensemble"}
    ensemble = own("records:ensemble")
    assert isinstance(ensemble, Ensemble)
    assert open_shard(config).n == ensemble.n
    message, code = refusal(lambda: load(config))
    assert "the function returned Ensemble; it must return a Table" in message
    assert code == "bad-shape"
    lines = "\n".join(describe(ensemble, None, {"data": "hospital.records:ensemble"}))
    assert "hospital.records:ensemble: 2 rows" in lines
    assert "columns not used" not in lines


@pytest.mark.parametrize(
    ("reference", "code", "part"),
    [
        ("records:one_row", "too-few-rows", "one row"),
        ("records:uneven", "bad-shape", "'y' has 3 rows, but 'x' has 2"),
        ("records:ragged", "bad-shape", "column 'x': is not an array"),
        ("records:unnamed", "bad-shape", "column 1 is named 3"),
        ("records:twice", "bad-shape", "two columns are named 'a'"),
        ("records:other", "bad-shape", "returned list"),
        ("records:mixed", "bad-shape", "column 'x': holds objects"),
        ("records:nothing", "bad-shape", "has no columns"),
        ("records:fails", "function-failed", "raised KeyError: 'ward'"),
        ("records:refuses", "too-few-rows", "no rows today"),
        ("records:absent", "bad-configuration", "has no function absent"),
        ("records:number", "bad-configuration", "has no function number"),
        ("absent:f", "function-failed", "PYTHONPATH"),
        ("broken:f", "function-failed", "ZeroDivisionError"),
    ],
)
def test_function_fails(own: Callable[[str], Table], reference: str, code: str, part: str) -> None:
    message, given_code = refusal(lambda: own(reference))
    assert message.startswith(f"hospital.{reference}")
    assert (given_code, part in message) == (code, True), message


def test_the_functions_own_error_is_the_cause(own: Callable[[str], Table]) -> None:
    with pytest.raises(DataError) as caught:
        own("records:fails")
    assert isinstance(caught.value.__cause__, KeyError)


def test_load_reads_a_file_and_needs_a_setting(tmp_path: Path) -> None:
    assert_same(load({"data": str(write(tmp_path / "a.csv", CSV))}), EXPECTED)
    for config in ({}, {"data": " "}, {"data": 3}):
        message, code = refusal(lambda config=config: load(config))
        assert code == "bad-configuration"
        assert "data" in message


# --- A folder of sites --------------------------------------------------------------------------------------------


def test_site_files(tmp_path: Path) -> None:
    for name in ["b.csv", "a.csv.gz", "c.v2.NPZ", "_test.csv", ".hidden.csv", "README.md", "d.parquet"]:
        write(tmp_path / name, "")
    (tmp_path / "folder.csv").mkdir()
    files = site_files(tmp_path)
    assert [path.name for path in files] == ["a.csv.gz", "b.csv", "c.v2.NPZ", "d.parquet"]
    assert [site_name(path) for path in files] == ["a", "b", "c.v2", "d"]


def test_bad_folders(tmp_path: Path) -> None:
    message, code = refusal(lambda: site_files(tmp_path / "none"))
    assert "no such folder" in message
    assert code == "no-data-file"
    write(tmp_path / "_test.csv", "")
    message, code = refusal(lambda: site_files(tmp_path))
    assert "holds no file of a site" in message
    assert code == "no-data-file"
    write(tmp_path / "a.csv", "")
    write(tmp_path / "a.npz", "")
    message, code = refusal(lambda: site_files(tmp_path))
    assert "a.csv and a.npz would both be site 'a'" in message
    assert code == "bad-configuration"


# --- Labels -------------------------------------------------------------------------------------------------------

LABELS = (
    "key,y,class_b,class_a:1,class_a:0,cluster_x,cluster_s:0,cluster_s:1,class_y,age\n"
    "p1,0,1,0.25,0.75,0,1,0,0,30\n"
    "p2,,,,,3,0.5,0.5,1,31\n"
    "p3,2,0,1,0,,,,2,32\n"
)
ROLES = {"id": "key", "truth": "y", "classes": "class_a:*, class_b"}


def test_ensemble(csv: Callable[[str], Table]) -> None:
    ensemble = ensemble_from_table(csv(LABELS), ROLES)
    assert list(ensemble.classifiers) == ["class_a", "class_b"]
    assert list(ensemble.clusterings) == ["cluster_s", "cluster_x"]
    assert ensemble.classifiers["class_a"].tolist() == [[0.75, 0.25], [0.0, 0.0], [0.0, 1.0]]
    assert ensemble.classifiers["class_b"].tolist() == [1, -1, 0]
    assert ensemble.clusterings["cluster_x"].tolist() == [0, 3, -1]
    assert ensemble.clusterings["cluster_s"].tolist() == [[1.0, 0.0], [0.5, 0.5], [0.0, 0.0]]
    assert ensemble.truth is not None
    assert ensemble.truth.tolist() == [0, -1, 2]
    assert ensemble.entity is not None
    assert ensemble.entity.tolist() == ["p1", "p2", "p3"]
    assert ensemble.classifiers["class_b"].dtype == np.int8, "the smallest that holds the labels"


def test_truth_and_id_are_no_models_whatever_the_globs_say(csv: Callable[[str], Table]) -> None:
    text = "class_id,class_true,class_a\n1,0,0\n2,1,1\n"
    ensemble = ensemble_from_table(csv(text), {"truth": "class_true", "id": "class_id"})
    assert list(ensemble.classifiers) == ["class_a"]
    message, code = refusal(lambda: ensemble_from_table(csv(text), {"truth": "class_true", "classes": "class_true"}))
    assert "'class_true' is named as a model and as truth or id" in message
    assert code == "bad-configuration"


def test_labels_are_read_in_blocks_as_in_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks differ in their types; the id matches the glob of models, and is none; no other setting is read."""
    monkeypatch.setattr("clients.data.blocks.BLOCK_ROWS", 3)
    path = tmp_path / "a.parquet"
    columns = {
        "class_id": [3, 1, 2, 9, 8, 7, 5],
        "class_a": [0, 1, 1, None, 0, 200, 1],
        "cluster_s:0": [0.5, 1, 0] * 2 + [1],
    }
    columns |= {"cluster_s:1": [0.5, 0, 1] * 2 + [0], "y": [1, 0, 1, 0, None, 1, 1]}
    pd.DataFrame(columns).to_parquet(path)
    config = ObservedConfig({"data": str(path), "id": "class_id", "truth": "y", "seed": 3})
    blocks, one = open_shard(config), ensemble_from_table(read_table(path), {"id": "class_id", "truth": "y"})
    assert "seed" not in config.used
    assert list(blocks.classifiers) == ["class_a"]
    for models in ("classifiers", "clusterings"):
        for name, labels in getattr(one, models).items():
            np.testing.assert_array_equal(getattr(blocks, models)[name], labels)
    assert blocks.truth is not None
    assert blocks.entity is not None
    assert blocks.truth.tolist() == [1, 0, 1, 0, -1, 1, 1]
    assert blocks.entity.tolist() == ["3", "1", "2", "9", "8", "7", "5"]


def test_entities_of_different_files_compare(tmp_path: Path, csv: Callable[[str], Table]) -> None:
    pd.DataFrame({"key": [7, 12], "class_a": [0, 1]}).to_parquet(tmp_path / "a.parquet")
    np.savez(tmp_path / "a.npz", key=np.array([7.0, 12.0]), class_a=np.array([0, 1]))
    tables = [csv("key,class_a\n7,0\n12,1\n"), read_table(tmp_path / "a.parquet"), read_table(tmp_path / "a.npz")]
    for table in tables:
        entity = ensemble_from_table(table, {"id": "key"}).entity
        assert entity is not None
        assert entity.tolist() == ["7", "12"]


def test_probabilities_are_normalized_exactly(csv: Callable[[str], Table]) -> None:
    labels = ensemble_from_table(csv("class_a:0,class_a:1,class_a:2\n0.3333333,0.3333333,0.3333333\n1,0,0\n"), {})
    np.testing.assert_allclose(labels.classifiers["class_a"].sum(axis=1), 1.0, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("text", "config", "code", "parts"),
    [
        ("class_a\n0\n-1\n", {}, "label-out-of-range", ["line 3", "'class_a'", "-1 is not a label"]),
        ("class_a\n0\n1.5\n", {}, "label-out-of-range", ["line 3", "'class_a'", "1.5"]),
        ("cluster_a\n0\n99999999\n", {}, "label-out-of-range", ["line 3", "'cluster_a'", "99999999"]),
        ("class_a\n0\nbenign\n", {}, "not-numeric", ["line 3", "'class_a'", "'benign' is text"]),
        ("class_a,y\n0,0\n1,-2\n", {"truth": "y"}, "label-out-of-range", ["line 3", "'y'", "-2"]),
        ("class_a,y\n0,0\n1,2\n", {"truth": "z"}, "missing-column", ["no column 'z'"]),
        ("class_a,k\n0,a\n1,b\n0,a\n", {"id": "k"}, "duplicate-entity", ["line 4", "'k'", "'a'", "line 2"]),
        ("class_a,k\n0,a\n1,\n", {"id": "k"}, "missing-value", ["line 3", "'k'", "is empty"]),
        ("class_a,k\n0,1\n1,\n", {"id": "k"}, "missing-value", ["line 3", "'k'", "is empty"]),
        ("class_a,k\n0,1\n1,2.5\n", {"id": "k"}, "bad-shape", ["line 3", "'k'", "2.5"]),
        ("class_a:0,class_a:1\n1,0\n0.5,0.4\n", {}, "label-out-of-range", ["line 3", "'class_a'", "sum to 0.9"]),
        ("class_a:0,class_a:1\n1,0\n0,0\n", {}, "label-out-of-range", ["line 3", "sum to 0;"]),
        ("class_a:0,class_a:1\n1,0\n1.5,-0.5\n", {}, "label-out-of-range", ["line 3", "'class_a:1'", "negative"]),
        ("class_a:0,class_a:1\n1,0\n1,\n", {}, "missing-value", ["line 3", "'class_a:1'", "is empty"]),
        ("class_a:0,class_a:1\n1,0\nx,1\n", {}, "not-numeric", ["line 3", "'class_a:0'", "'x'"]),
        ("class_a:0,class_a:2\n1,0\n0,1\n", {}, "missing-column", ["'class_a:2'", "'class_a:1' does not"]),
        ("class_a,class_a:0\n1,1\n0,1\n", {}, "bad-shape", ["'class_a' has hard", "'class_a:0'"]),
        ("age,kind\n1,2\n3,4\n", {}, "missing-column", ["class_*", "cluster_*", "'age', 'kind'"]),
        ("age,kind\n1,2\n3,4\n", {"classes": "", "clusters": "k_*"}, "missing-column", ["classes=''", "k_*"]),
        ("a,b\n1,0\n0,1\n", {"classes": "a", "clusters": "*"}, "bad-configuration", ["'a'", "classes", "clusters"]),
        ("a,b\n1,0\n0,1\n", {"classes": 3}, "bad-configuration", ["classes must be text"]),
    ],
)
def test_bad_labels(
    csv: Callable[[str], Table], text: str, config: dict[str, str], code: str, parts: list[str]
) -> None:
    message, given_code = refusal(lambda: ensemble_from_table(csv(text), config))
    assert given_code == code
    assert all(part in message for part in parts), message
    assert "site.csv" in message or message.startswith("configuration")


@examples(60)
@given(st.lists(st.floats(-1e50, 1e50), min_size=2, max_size=20))
def test_numbers_survive_csv_to_the_last_bit(tmp_path_factory: pytest.TempPathFactory, values: list[float]) -> None:
    path = write(tmp_path_factory.mktemp("csv") / "site.csv", "x\n" + "\n".join(map(repr, values)) + "\n")
    assert numeric(read_table(path), "x", allow_missing=False).tolist() == values


@examples(60)
@given(
    st.integers(2, 12).flatmap(
        lambda n: st.dictionaries(
            st.tuples(st.sampled_from(["class", "cluster"]), st.text("abxyz", min_size=1, max_size=4)).map("_".join),
            st.lists(st.integers(-1, 9), min_size=n, max_size=n),
            min_size=1,
            max_size=4,
        )
    )
)
def test_hard_labels_survive_csv(tmp_path_factory: pytest.TempPathFactory, models: dict[str, list[int]]) -> None:
    path = tmp_path_factory.mktemp("csv") / "site.csv"
    frame = pd.DataFrame({name: pd.array(labels, dtype="Int64") for name, labels in models.items()})
    frame.mask(frame < 0).to_csv(path, index=False)
    ensemble = ensemble_from_table(read_table(path), {})
    read = {**ensemble.classifiers, **ensemble.clusterings}
    assert {name: labels.tolist() for name, labels in read.items()} == models
    assert list(ensemble.classifiers) == sorted(name for name in models if name.startswith("class_"))


# --- What a site is told ------------------------------------------------------------------------------------------


def test_describe_names_every_column_and_counts_what_leaves(csv: Callable[[str], Table]) -> None:
    table = csv(LABELS)
    text = "\n".join(describe(ensemble_from_table(table, ROLES), table, ROLES))
    assert "site.csv: 3 rows" in text
    assert "classifier class_a: probabilities of 2 classes, 33.3% of the rows without one" in text
    assert "clustering cluster_x: labels of 4 clusters" in text
    assert "truth y: known for 2 of 3 rows" in text
    assert "entity key" in text
    assert "columns not used: class_y, age" in text
    assert "cluster_x: a table of 2 x 4 expected counts" in text
    assert "the numbers of its labels (1 of your rows have the rarest)" in text
    assert "the joint counts of all labels" in text
    assert "cluster_s: a table of 2 x 2 expected counts" in text
    assert f"together {2 * 4 + 2 * 2 + 2 * 4 + 2 + 1 + 1} numbers a round" in text
    assert "bc3e, vote, class_a, class_b" in text
    assert "a secret that only the sites share prevents that: align-key-file" in text
    never = text.splitlines()[-1]
    assert all(word in never for word in ("rows", "cluster labels", "probabilities", "true classes", "names"))


def test_describe_does_not_warn_of_guessed_names_where_there_is_a_secret_or_no_name(
    csv: Callable[[str], Table],
) -> None:
    table = csv(LABELS)
    for config in ({**ROLES, "align-key-file": "secret.key"}, {**ROLES, "id": ""}):
        assert "guesses" not in "\n".join(describe(ensemble_from_table(table, config), table, config))


def test_describe_says_when_votes_give_the_labels_of_a_classifier_away(csv: Callable[[str], Table]) -> None:
    for text, told in (("class_a,cluster_x\n0,1\n1,0\n", True), ("class_a,class_b\n0,1\n1,0\n", False)):
        table = csv(text)
        lines = "\n".join(describe(ensemble_from_table(table, {}), table, {}))
        assert ("these votes are that classifier's labels" in lines) is told


def test_row_numbers_are_names_only_where_all_sites_have_as_many() -> None:
    """Otherwise row 3 of one site and row 3 of another would be one instance."""
    sites = {name: Ensemble(n, {"class_a": np.zeros(n, int)}) for name, n in (("a", 4), ("b", 3))}
    with pytest.raises(DataError, match="have 3 to 4 rows: name the instances in id"):
        check_together(sites, {}, {"bc3e.distribution": "arbitrary"})
    check_together(sites, {}, {"bc3e.distribution": "row"})
    check_together({"a": sites["a"], "c": sites["a"]}, {}, {"bc3e.distribution": "arbitrary"})
    named = {name: replace(each, entity=np.arange(each.n).astype(str)) for name, each in sites.items()}
    check_together(named, {}, {"bc3e.distribution": "arbitrary"})


def test_describe_names_classifiers_that_are_copies(csv: Callable[[str], Table]) -> None:
    table = csv("class_a,class_b,class_c,cluster_x,cluster_y\n0,1,0,1,1\n1,1,1,0,0\n,0,,1,1\n")
    text = "\n".join(describe(ensemble_from_table(table, {}), table, {}))
    assert text.count("equal to") == text.count("equal to class_a") == 1


def test_describe_names_near_copies_but_no_raters_that_err_independently() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=300)
    labels = {f"class_{i}": np.where(rng.random(300) < 0.2, rng.integers(3, size=300), truth) for i in range(4)}
    assert "nearly" not in "\n".join(describe(Ensemble(300, labels), None, {}))
    near = np.where(rng.random(300) < 0.05, rng.integers(3, size=300), labels["class_2"])
    text = "\n".join(describe(Ensemble(300, {**labels, "class_9": near}), None, {}))
    assert text.count("nearly") == text.count("nearly class_2: differs in") == 1
    rare = {name: np.where(np.arange(300) % 4 == place, own, -1) for place, (name, own) in enumerate(labels.items())}
    assert "nearly" not in "\n".join(describe(Ensemble(300, {**rare, "class_9": near}), None, {})), "no third"


def test_describe_without_classifiers_and_with_a_single_model(csv: Callable[[str], Table]) -> None:
    table = csv("cluster_x\n0\n1\n")
    text = "\n".join(describe(ensemble_from_table(table, {}), table, {}))
    assert "no classifier" in text
    assert "a table of k x 2" in text
    assert "k x 3 + 2 numbers a round" in text
    assert "bc3e.allow-single-model" in text
    assert "truth: not known" in text
    assert "columns not used: none" in text
    assert "at the end" not in text


@pytest.mark.parametrize("name", ["my hospital.csv", "hôpital.csv", f"{'a' * 65}.csv"])
def test_a_file_whose_name_cannot_be_a_sites(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("class_a\n0\n1\n")
    with pytest.raises(DataError, match="rename the file") as refused:
        site_files(tmp_path)
    assert str(refused.value).startswith(f"{tmp_path / name}: ")
    assert refused.value.code == "bad-configuration"


# --- Rows of a regression -----------------------------------------------------------------------------------------

ROWS = "b,y,key,a,race,note,flag\n1,10,7,4,0,x,True\n2,20,8,5,1,y,False\n3,30,9,6.5,1,z,True\n"


def test_inputs_are_the_other_columns_of_numbers_by_name(csv: Callable[[str], Table]) -> None:
    rows = regression_rows(csv(ROWS), {"target": "y"})
    assert rows.features == ("a", "b", "key", "race")
    np.testing.assert_array_equal(rows.x, [[4, 1, 7, 0], [5, 2, 8, 1], [6.5, 3, 9, 1]])
    np.testing.assert_array_equal(rows.y, [10, 20, 30])
    assert rows.x_test.shape == (0, 4)
    assert len(rows.y_test) == 0


def test_a_column_with_another_role_is_no_input(csv: Callable[[str], Table]) -> None:
    config = {"target": "y", "id": "key", "sensitive": "race", "truth": "b"}
    assert regression_rows(csv(ROWS), config).features == ("a",)


@pytest.mark.parametrize(
    ("features", "names"),
    [("b a", ("a", "b")), ("*", ("a", "b", "key", "race")), ("race,key", ("key", "race")), ("a flag", ("a", "flag"))],
)
def test_inputs_that_are_named_are_those_whatever_their_order(
    csv: Callable[[str], Table], features: str, names: tuple[str, ...]
) -> None:
    text = ROWS if features != "*" else "\n".join(line.rsplit(",", 2)[0] for line in ROWS.splitlines())
    assert regression_rows(csv(text), {"target": "y", "features": features}).features == names


def test_the_order_of_the_columns_in_a_file_does_not_matter(csv: Callable[[str], Table]) -> None:
    one = regression_rows(csv("y,a,b\n1,2,3\n4,5,7\n"), {"target": "y"})
    two = regression_rows(csv("b,y,a\n3,1,2\n7,4,5\n"), {"target": "y"})
    assert one.features == two.features
    np.testing.assert_array_equal(one.x, two.x)


@pytest.mark.parametrize(
    ("text", "config", "code", "message"),
    [
        (
            "a,y\n1,2\n3,4\n", {}, "bad-configuration",
            "configuration: target is not set; name the outcome's column, one of 'a', 'y'",
        ),
        ("a,y\n1,2\n3,4\n", {"target": 3}, "bad-configuration", "configuration: target must be text, not 3"),
        (
            "a,yield\n1,2\n3,4\n", {"target": "yeild"}, "missing-column",
            "FILE: there is no column 'yeild'; did you mean 'yield'?",
        ),
        (
            "a,y\n1,2\n3,\n", {"target": "y"}, "missing-value",
            "FILE, line 3, column 'y': is empty; fill it, or set missing=impute",
        ),
        (
            "a,y\n1,2\n3,high\n", {"target": "y"}, "not-numeric",
            "FILE, line 3, column 'y': 'high' is text where a number belongs",
        ),
        (
            "a,y\n1,inf\n3,4\n", {"target": "y"}, "not-finite",
            "FILE, line 2, column 'y': is infinite; give a finite number or leave out the row",
        ),
        (
            "a,y\n1,2\n,4\n", {"target": "y"}, "missing-value",
            "FILE, line 3, column 'a': is empty; fill it, or set missing=impute",
        ),
        (
            "a,y\n1,2\n-inf,4\n", {"target": "y"}, "not-finite",
            "FILE, line 3, column 'a': is infinite; give a finite number or leave out the row",
        ),
        (
            "a,y\n1,2\n?,4\n", {"target": "y", "features": "a"}, "not-numeric",
            "FILE, line 3, column 'a': '?' is text where a number belongs; leave the row out where nothing is known",
        ),
        (
            "a,y\n1,2\n3,4\n", {"target": "y", "features": "b"}, "missing-column",
            "FILE: there is no column 'b'; it has 'a', 'y'",
        ),
        (
            "a,y\n1,2\n3,4\n", {"target": "y", "features": "q*"}, "missing-column",
            "FILE: no column beside the target matches features='q*'; it has 'a', 'y'",
        ),
        (
            "a,y\nu,2\nv,4\n", {"target": "y"}, "missing-column",
            "FILE: no column beside the target holds numbers; it has 'a', 'y'",
        ),
    ],
)  # fmt: skip
def test_rows_that_are_none_of_a_regression(
    csv: Callable[[str], Table], tmp_path: Path, text: str, config: dict[str, object], code: str, message: str
) -> None:
    expected = message.replace("FILE", str(tmp_path / "site.csv"))
    assert refusal(lambda: regression_rows(csv(text), config)) == (expected, code)


def test_an_outcome_that_is_named_as_an_input_too_is_none(csv: Callable[[str], Table]) -> None:
    message, _ = refusal(lambda: regression_rows(csv("a,y\n1,2\n3,4\n"), {"target": "y", "features": "y"}))
    assert message.endswith("site.csv: no column beside the target matches features='y'; it has 'a', 'y'")


# --- The center's own test rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet", ".npz", ".CSV"])
def test_the_center_s_test_rows_in_every_format(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"_test{ending}"
    frame = pd.DataFrame({"a": [1.5, 2.0], "n": [3, 4], "note": ["x", "y"]})
    if ending == ".npz":
        np.savez(path, **{name: frame[name].to_numpy("U" if name == "note" else None) for name in frame})
    elif ending == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    found = center_columns({"data": str(tmp_path), "target": "n"})
    assert {name: values.tolist() for name, values in found.items()} == {"a": [1.5, 2.0], "n": [3.0, 4.0]}
    assert {values.dtype for values in found.values()} == {np.dtype(float)}


def test_no_test_rows_without_such_a_file(tmp_path: Path) -> None:
    write(tmp_path / "lab.csv", "a\n1\n2\n")
    for config in ({}, {"data": ""}, {"data": str(tmp_path), "target": "y"}, {"data": str(tmp_path / "none")}):
        assert center_columns(config) == {}


def test_two_files_of_test_rows_are_refused(tmp_path: Path) -> None:
    for name in ("_test.csv", "_test.npz"):
        write(tmp_path / name, "a\n1\n2\n")
    assert refusal(lambda: center_columns({"data": str(tmp_path)})) == (
        f"{tmp_path}: holds _test.csv and _test.npz; keep one",
        "bad-configuration",
    )


@pytest.mark.parametrize(
    ("text", "code", "part"),
    [
        ("a,z\n1,2\n3,4\n", "missing-column", ": there is no column 'y'"),
        ("a,y\n1,2\n,4\n", "missing-value", ", line 3, column 'a': is empty"),
        ("a,y\n1,2\n3,x\n", "not-numeric", ", line 3, column 'y': 'x' is text"),
        ("a,y\n1,2\ninf,4\n", "not-finite", ", line 3, column 'a': is infinite"),
        ("a,y\n1\n3,4\n", "bad-shape", ", line 2: has 1 cells"),
    ],
)
def test_bad_test_rows(tmp_path: Path, text: str, code: str, part: str) -> None:
    path = write(tmp_path / "_test.csv", text)
    message, given_code = refusal(lambda: center_columns({"data": str(tmp_path), "target": "y"}))
    assert message.startswith(f"{path}{part}")
    assert given_code == code


@pytest.mark.parametrize(("missing", "x"), [("drop", [1.0, 7.0]), ("impute", [1.0, 4.0, 7.0])])
def test_test_rows_with_empty_cells_are_prepared_as_a_sites_are(tmp_path: Path, missing: str, x: list[float]) -> None:
    write(tmp_path / "_test.csv", "x,y,other,alley\n1,2,,\n,4,3,\n3,,1,\n7,8,,\n")
    config = {"data": str(tmp_path), "target": "y", "features": "x", "missing": missing}
    found = center_columns(config)
    assert found["x"].tolist() == x
    assert found["y"].tolist() == [2.0, 4.0, 8.0][: len(x)] if missing == "impute" else [2.0, 8.0]


@pytest.mark.parametrize(
    ("cells", "outcomes"),
    [
        (["2.5", ""], [2.5, None]),
        (["", "7"], [None, 7.0]),
        (["", ""], [None, None]),
        (["well", ""], ["well", None]),
        (["", "well"], [None, "well"]),
        (["well", "?"], ["well", None]),
    ],
)
def test_points_to_predict_may_lack_an_outcome(tmp_path: Path, cells: list[str], outcomes: list[object]) -> None:
    write(tmp_path / "_test.csv", f"x,y\n1,{cells[0]}\n2,{cells[1]}\n")
    columns = center_queries({"data": str(tmp_path), "target": "y"}, "", ("regression", "classification"))
    assert columns["x"].tolist() == [1.0, 2.0]
    assert [None if cell != cell else cell for cell in columns["y"].tolist()] == outcomes


def test_a_word_among_amounts_at_points_to_predict_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "_test.csv", "x,y\n1,2\n2,high\n3,4\n4,\n")
    message, code = refusal(lambda: center_queries({"data": str(tmp_path), "target": "y", "task": "regression"}, ""))
    assert message.startswith(f"{path}, line 3, column 'y': 'high' is text")
    assert code == "not-numeric"


@pytest.fixture
def small_bombs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a megabyte count as large, so that a test need not inflate a hundred."""
    monkeypatch.setattr(bombs, "_ANY_SIZE", 10**6)


def test_an_archive_that_is_a_bomb_is_refused_before_it_is_read(tmp_path: Path, small_bombs: None) -> None:
    """Sizes stand in the archive's directory; zeros of 3 MB are three kilobytes."""
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(2 * 10**5), y=np.zeros(2 * 10**5))
    message, code = refusal(lambda: read_table(tmp_path / "a.npz"))
    assert code == "unreadable"
    assert "would become 3,200,256 in memory" in message


def test_a_compressed_text_that_is_a_bomb_is_refused_before_it_is_read(
    tmp_path: Path, small_bombs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "a,b\n" + "0,0\n" * 500_000
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setattr(gzip.GzipFile, "read1", None)  # it is never read
    message, code = refusal(lambda: read_table(tmp_path / "a.csv.gz"))
    assert code == "unreadable"
    assert f"would become {len(text):,} in memory" in message


@pytest.mark.parametrize("read", [read_table, lambda path: list(open_blocks({"data": str(path)}).tables(["a"]))])
def test_a_compressed_text_that_hides_its_size_is_refused_where_it_grows_too_large(
    tmp_path: Path, small_bombs: None, read: Callable[[Path], object]
) -> None:
    """Two compressed parts one after the other are one text, and the size at the end is that of the last one."""
    whole = gzip.compress(b"a,b\n" + b"0,0\n" * 500_000) + gzip.compress(b"1,1\n")
    (tmp_path / "a.csv.gz").write_bytes(whole)
    message, code = refusal(lambda: read(tmp_path / "a.csv.gz"))
    assert code == "unreadable"
    assert f"{len(whole):,} bytes would become 1,0" in message


def test_a_parquet_file_that_is_a_bomb_is_refused_before_it_is_read(
    tmp_path: Path, small_bombs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of equal numbers is stored as one, and so the file's own uncompressed size says nothing of it."""
    pq.write_table(pa.table({"a": np.zeros(10**6), "b": np.zeros(10**6, np.int32)}), tmp_path / "a.parquet")
    monkeypatch.setattr(pq.ParquetFile, "read", None)  # it is never read
    message, code = refusal(lambda: read_table(tmp_path / "a.parquet"))
    assert code == "unreadable"
    assert "would become 12,000,000 in memory" in message


@pytest.mark.parametrize("name", ["a.csv.gz", "a.parquet", "a.npz"])
def test_a_file_of_numbers_is_no_bomb(tmp_path: Path, small_bombs: None, name: str) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": rng.integers(0, 2, 60_000), "age": rng.integers(0, 100, 60_000)})
    if name.endswith("npz"):
        np.savez_compressed(tmp_path / name, **{column: frame[column].to_numpy() for column in frame})
    elif name.endswith("parquet"):
        frame.to_parquet(tmp_path / name)
    else:
        frame.to_csv(tmp_path / name, index=False)
    assert read_table(tmp_path / name).n == 60_000


def test_a_gzip_file_shorter_than_a_size_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(b"\x1f\x8b")
    assert refusal(lambda: read_table(tmp_path / "a.csv.gz"))[1] == "unreadable"
