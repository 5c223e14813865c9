"""CSV files that we write: what a spreadsheet would take for a formula, and what is read back."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.csv_text import csv_rows, csv_text, escape, unescape
from consilience.finished_run import SiteFiles

ROOT = Path(__file__).parents[3]
FORMULAS = ["=1+1", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "'=1", "\t5"]


@pytest.mark.parametrize("cell", FORMULAS)
def test_a_text_that_begins_like_a_formula_gets_an_apostrophe(cell: str) -> None:
    assert escape(cell) == f"'{cell}"
    assert unescape(escape(cell)) == cell


@pytest.mark.parametrize("cell", ["", "a=1", "-5", "+4.5e-3", "'tis", "'-5", " =1", -5, 2.5, None])
def test_every_other_cell_stays(cell: object) -> None:
    assert escape(cell) == cell
    assert unescape(cell) == cell


@given(st.text(alphabet="=+-@\t\r'15a e", max_size=6))
def test_what_is_escaped_is_read_back_and_starts_no_formula(cell: str) -> None:
    assert unescape(escape(cell)) == cell
    written = escape(cell)
    if written[:1] in tuple("=+-@\t\r"):
        float(written)  # a number


def test_names_of_columns_are_escaped_and_numbers_are_read_back_exactly() -> None:
    values = np.array([1 / 3, -2e-300, 5e-324, 1e22])
    text = csv_text({"=name": ["@a", "b", "c,d", '"'], "value": values, "n": np.array([-1, 0, 1, 2])})
    header, *rows = csv.reader(io.StringIO(text))
    assert header == ["'=name", "value", "n"]
    assert [row[0] for row in rows] == ["'@a", "b", "c,d", '"']
    np.testing.assert_array_equal([float(row[1]) for row in rows], values)
    assert [row[2] for row in rows] == ["-1", "0", "1", "2"]


def test_numbers_are_written_as_pandas_writes_them() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=50) * 10.0 ** rng.integers(-300, 300, 50), [0.0, -0.0, 1e16, 123456789.0]])
    columns = {"entity": np.arange(len(values)), "value": values}
    assert csv_text(columns) == pd.DataFrame(columns).to_csv(index=False)
    assert csv_text(columns).endswith(csv_rows(columns.values()))


def test_columns_have_the_same_length() -> None:
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        csv_text({"a": [1, 2], "b": [1]})


def test_files_of_a_site_are_read_back_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "theta.csv").write_text(csv_text({"=who": ["=1", "'@b", "c"], "class": np.array([-1, 0, 1])}))
    frame = SiteFiles(tmp_path)["theta.csv"]
    assert frame.columns.tolist() == ["=who", "class"]
    assert frame["=who"].tolist() == ["=1", "'@b", "c"]
    assert frame["class"].tolist() == [-1, 0, 1]


@pytest.mark.parametrize("room", ["clients", "consilience", "server", "strategies", "common", "protocols"])
def test_no_other_module_writes_csv(room: str) -> None:
    writers = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / room).rglob("*.py")
        if any(word in path.read_text() for word in ("csv.writer(", ".to_csv(", "csv.DictWriter("))
    ]
    assert writers == (["common/csv_text.py"] if room == "common" else [])
