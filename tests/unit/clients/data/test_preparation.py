"""Preparation of a site's table: what is asked for is done, the same whatever the form of the file; else nothing is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clients.bc3e.shard import open_shard
from clients.coreset.shard import check_columns as coreset_columns
from clients.coreset.shard import open_rows, roles_of
from clients.data import DataError, Table, load, read_table
from clients.data.advice import advice_lines
from clients.data.blocks import open_blocks
from clients.data.cells import number_of, numbers_of
from clients.data.columns import check_alike
from clients.data.inspection import inspect, suggested_categories, unlike_values, values_of
from clients.data.preparation import filled, prepare, prepare_new_rows
from clients.data.regression import input_names, regression_rows
from clients.sec.shard import check_columns as sec_columns

MESSY = """subject#,age,income,sex,dose,y
1,45 y,"1,234.5",f,2.5,10
2,NA,900,m,,12
3,50 y,"2,000",f,3.5,
4,61 y,1100,x,4.5,15
"""


@pytest.fixture
def messy(tmp_path: Path) -> Path:
    path = tmp_path / "ward.csv"
    path.write_text(MESSY)
    return path


def test_nothing_is_done_unless_a_setting_asks_for_it(messy: Path) -> None:
    table = read_table(messy)
    assert prepare(table, {"missing": "refuse", "target": "y"}).table is table
    assert table.columns["age"].dtype == object


def test_rows_without_an_outcome_are_left_out_and_cells_get_the_median(messy: Path) -> None:
    config = {"data": str(messy), "target": "y", "missing": "impute", "indicators": "dose", "categories": "sex=f|m|*"}
    table = load(config)
    assert {name: cells.tolist() for name, cells in table.columns.items()} == {
        "subject#": [1, 2, 4],
        "age": [45.0, 53.0, 61.0],
        "income": [1234.5, 900.0, 1100.0],
        "sex=f": [1.0, 0.0, 0.0],
        "sex=m": [0.0, 1.0, 0.0],
        "sex=*": [0.0, 0.0, 1.0],
        "dose": [2.5, 3.5, 4.5],
        "y": [10.0, 12.0, 15.0],
        "dose_missing": [0.0, 1.0, 0.0],
    }
    assert table.where(2) == "line 5", "messages name the line of the file"
    assert "Prepared at this site" in advice_lines(config)
    assert "  1 of 4 rows left out: 'y' is empty" in advice_lines(config)


def test_rows_without_a_number_are_dropped(messy: Path) -> None:
    done = prepare(read_table(messy), {"target": "y", "missing": "drop"})
    assert done.table.columns["subject#"].tolist() == [1, 4]
    assert "1 of 4 rows left out: a number is missing in 'age', 'dose'" in done.notes
    assert prepare(read_table(messy), {"target": "y", "missing": "drop", "features": "income"}).table.n == 3


def test_blocks_are_prepared_as_the_whole_is(messy: Path) -> None:
    config = {"data": str(messy), "target": "y", "missing": "impute"}
    blocks = open_blocks(config)
    [table] = blocks.tables(["age", "dose"])
    whole = load(config)
    assert table.columns["age"].tolist() == whole.columns["age"].tolist()
    assert blocks.schema.columns.keys() == whole.columns.keys()


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("1,234.5", 1234.5),
        ("45 y", 45.0),
        ("45y", 45.0),
        ("12 %", 12.0),
        ("no", 0.0),
        ("3,75", 3.75),
        ("-2e3", -2000.0),
        ("1,234.50 €", 1234.5),
        ("EUR 1,234.50", 1234.5),
        ("-$80.00", -80.0),
        ("1'234.50", 1234.5),
        ("12\u202f345", 12345.0),
        ("\u22123.5", -3.5),
        ("(1,234.50)", -1234.5),
        ("12,00-", -12.0),
    ],
)
def test_numbers_as_people_write_them(cell: str, number: float) -> None:
    assert number_of(cell) == number


@pytest.mark.parametrize("cell", ["", "north", "12-13", "1,23,4", "3 4", "1.2.3", "CAT 12", "(3) 4", "ward 7"])
def test_other_text_is_no_number(cell: str) -> None:
    assert number_of(cell) is None


@pytest.mark.parametrize(
    ("setting", "word"),
    [
        ({"missing": "guess"}, "refuse, drop, impute"),
        ({"categories": "sex"}, "NAME=VALUE"),
        ({"categories": "sex=f|f"}, "each value once"),
        ({"categories": "sexx=f|m"}, "did you mean 'sex'"),
        ({"ordinal": "sex=f<m"}, "'x' is none of 'f', 'm'"),
        ({"indicators": "doze"}, "did you mean 'dose'"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(messy: Path, setting: dict[str, str], word: str) -> None:
    with pytest.raises(DataError, match=word):
        prepare(read_table(messy), setting)


def test_an_outcome_of_yes_and_no_stays_a_class() -> None:
    table = Table("a.csv", {"y": np.array(["yes", "no", None], object), "x": np.arange(3.0)})
    assert prepare(table, {"target": "y", "missing": "impute"}).table.columns["y"].tolist() == ["yes", "no"]


def test_labels_that_are_text_get_the_numbers_that_all_sites_agreed_on(tmp_path: Path) -> None:
    file = tmp_path / "ward.csv"
    file.write_text("class_a,class_b,truth\nwell,sick,well\nsick,,well\nwell,well,sick\n")
    config = {"data": str(file), "truth": "truth", "ordinal": "class_*=well<sick; truth=well<sick"}
    labels = open_shard(config)
    assert {name: column.tolist() for name, column in labels.classifiers.items()} == {
        "class_a": [0, 1, 0],
        "class_b": [1, -1, 0],
    }
    assert labels.truth is not None
    assert labels.truth.tolist() == [0, 0, 1]
    with pytest.raises(DataError, match=r"which label is 0, 1, ..., as in ordinal='class_a=sick<well'"):
        open_shard({**config, "ordinal": ""})
    with pytest.raises(DataError, match="missing is for columns of numbers, and these data are labels; leave it out"):
        open_shard({**config, "missing": "impute"})
    with pytest.raises(DataError, match="line 2, column 'class_b': 'sick' is none of 'well', 'ill'"):
        open_shard({**config, "ordinal": "class_a=well<sick; class_b=well<ill"})


def test_values_in_order_become_one_column() -> None:
    table = Table("a.csv", {"grade": np.array(["low", "high", None], object)})
    assert prepare(table, {"ordinal": "grade=low<mid<high"}).table.columns["grade"][:2].tolist() == [0.0, 2.0]


@pytest.mark.parametrize(
    "text", ["age;dose\n41;2,5\n52;3,5\n", "age\tdose\n41\t2.5\n52\t3.5\n", "age,dose\n41,2.5\n52,3.5\n"]
)
def test_semicolons_tabs_and_decimal_commas_are_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    columns = read_table(path).columns
    assert columns["age"].tolist() == [41, 52]
    assert columns["dose"].tolist() == [2.5, 3.5]


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["1.234,50", "1.234", "12,5", "800"], [1234.5, 1234.0, 12.5, 800.0]),
        (["1.234", "12.5"], [1.234, 12.5]),
        (["1.234,50 €", "80,00 €", "#N/A"], [1234.5, 80.0, np.nan]),
        (["1,234.5", "1.234,5"], None),
    ],
)
def test_a_column_has_one_decimal_sign(cells: list[str], numbers: list[float] | None) -> None:
    read = numbers_of(np.array(cells, object))
    if numbers is None:
        assert read is None
    else:
        np.testing.assert_equal(read, np.array(numbers))


def test_points_between_thousands_of_a_file_with_decimal_commas(tmp_path: Path) -> None:
    """`1.234` is a thousand there, and not 1.234; codes and dates stay text."""
    path = tmp_path / "a.csv"
    path.write_text(
        "n;dose;paid;code;day\n1.234;2,5;1.000,50;1.2.3;02.07.2022\n800;3,5;n/a;4.5.6;03.07.2022\n;1,5;7;;\n"
    )
    columns = read_table(path).columns
    np.testing.assert_equal(columns["n"], np.array([1234.0, 800.0, np.nan]))
    assert columns["dose"].tolist() == [2.5, 3.5, 1.5]
    assert columns["paid"].tolist() == ["1000.50", "n/a", "7"]
    assert columns["code"].tolist() == ["1.2.3", "4.5.6", None]
    assert columns["day"][0] == "02.07.2022"
    path.write_text("n;dose\n1.234;2.5\n0.8;3.5\n")
    assert read_table(path).columns["n"].tolist() == [1.234, 0.8]


def test_a_row_of_totals_is_a_caution() -> None:
    paid = np.arange(1.0, 13.0) ** 2
    columns = {"day": np.arange(13.0), "paid": np.append(paid, paid.sum()), "y": np.arange(13.0) % 3}
    [line] = inspect(Table("a.csv", columns, 2), {"target": "y", "features": "paid"}).cautions
    assert line == "a.csv, line 14, column 'paid': is the sum of the rows above: leave out a row of totals"
    assert not inspect(Table("a.csv", {"paid": paid, "y": paid % 3}), {"target": "y"}).cautions


def test_what_to_look_at(messy: Path) -> None:
    text = "\n".join(inspect(read_table(messy), {"target": "y"}).warnings)
    assert "line 2, column 'age': the column is text; missing=drop or impute reads it, '45 y' as 45" in text
    assert "'1,234.5' as 1234.5" in text
    assert "empty cells: 'dose' 1; missing=drop leaves out 1 rows" in text
    assert "'subject#' looks like an identifier" in text


def test_leaks_and_repeated_persons_are_named() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=60)
    columns = {"patient": np.arange(60) // 2, "x": rng.normal(size=60), "grams": 1000 * y + 3, "y": y}
    text = "\n".join(inspect(Table("a.csv", columns), {"target": "y"}).warnings)
    assert "'grams' is nearly a copy of the target" in text
    assert "'patient': 30 of 30 names have several rows" in text
    assert "'x'" not in text


def test_a_leak_in_words_is_named_once_missing_reads_them() -> None:
    words = np.array(["no", "yes", "yes"] * 4, object)
    table = Table("a.csv", {"dose": np.sin(np.arange(12.0)), "left": words, "y": words})
    assert "'left' is nearly a copy of the target" in inspect(table, {"target": "y", "missing": "impute"}).cautions[0]
    assert not inspect(table, {"target": "y"}).cautions, "text is no input"
    assert not inspect(table, {"target": "y", "missing": "impute", "features": "dose"}).cautions


def test_notes_are_about_columns_that_are_used() -> None:
    words = np.array(["no", "yes"] * 3, object)
    table = Table("a.csv", {"dose": np.array(["1 g", "2 g", "3 g"] * 2, object), "left": words, "y": np.arange(6.0)})
    notes = prepare(table, {"target": "y", "missing": "impute", "features": "dose"}).notes
    assert notes == ["'dose': read as numbers, such as '1 g' as 1"]


def test_classes_that_two_sites_write_otherwise_are_named() -> None:
    words, digits = (
        Table(name, {"y": np.array(cells)}) for name, cells in (("a", ["no", "yes"] * 3), ("b", [0, 1] * 3))
    )
    words.columns["y"] = words.columns["y"].astype(object)
    a, b = (values_of(table, {"target": "y"}) for table in (words, digits))
    line = "'y': 'no' and 'yes' at a, '0' and '1' at b, and no value at both: write them alike"
    assert next(unlike_values({"a": a, "b": b})).startswith(line)
    assert not list(unlike_values({"a": b, "b": b}))
    assert list(unlike_values({"a": a, "b": {"y": {"No", "Yes"}}})) == [
        "'y': 'No' and 'no' differ only in case, and are taken for others",
        "'y': 'Yes' and 'yes' differ only in case, and are taken for others",
    ]


def test_numbers_as_text_have_their_setting_named() -> None:
    table = Table("a.csv", {"age": np.array(["41", "NA"], object), "y": np.arange(2.0)})
    with pytest.raises(DataError, match=r"it has 'age', 'y'; missing=impute or missing=drop reads 'age' as numbers$"):
        input_names(table, {"target": "y"})


def test_categories_are_suggested_from_all_sites_with_few_values_together() -> None:
    tables = [
        Table("a.csv", {"ward": np.array(["n"] * 6 + ["rare"], object)}),
        Table("b.csv", {"ward": np.array(["n", "s"] * 5, object)}),
    ]
    assert suggested_categories(tables, {}) == "ward=n|s|*"


def test_new_rows_get_the_medians_of_the_rows_that_were_learned_from(messy: Path) -> None:
    config = {"target": "y", "missing": "impute", "categories": "sex=f|m|*", "indicators": "dose"}
    learned = prepare(read_table(messy), config).table
    assert learned.medians == {"subject#": 2.0, "age": 53.0, "income": 1100.0, "dose": 3.5} | {
        "sex=f": 0.0, "sex=m": 0.0, "sex=*": 0.0, "dose_missing": 0.0,
    }  # fmt: skip
    new = {
        "age": np.array(["NA", "99 y"], object),
        "sex": np.array(["m", "x"], object),
        "dose": np.array([np.nan, 9.0]),
    }
    table = prepare_new_rows(Table("new.csv", new), config, learned.medians)
    assert table.columns["age"].tolist() == [53.0, 99.0]
    assert table.columns["dose"].tolist() == [3.5, 9.0]
    assert table.columns["dose_missing"].tolist() == [1.0, 0.0]
    assert [table.columns[f"sex={value}"].tolist() for value in "fm*"] == [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    assert table.n == 2, "no row to predict is left out, though it has no outcome"


def test_what_a_site_has_learned_from_is_filled_to_the_bit_as_a_new_row_is(messy: Path) -> None:
    config = {"target": "y", "missing": "impute"}
    learned = load({**config, "data": str(messy)})
    again = prepare_new_rows(read_table(messy), config, learned.medians)
    for name in ("age", "dose", "income"):
        cells = again.columns[name][[0, 1, 3]]
        assert cells.tobytes() == learned.columns[name].tobytes()


def test_columns_without_a_median_stay_as_they_are() -> None:
    table = Table("new.csv", {"age": np.array([np.nan, 3.0]), "other": np.array([np.nan, 1.0])})
    assert np.isnan(filled(table, {"age": 2.0}).columns["other"][0])


def test_a_center_without_the_medians_refuses_an_empty_cell(messy: Path) -> None:
    from consilience.predict.new_rows import _medians, _refuse_empty

    table = Table("new.csv", {"age": np.array([3.0, np.nan])})
    with pytest.raises(DataError, match=r"row 2, column 'age': is empty; medians stay at the sites"):
        _refuse_empty(table, np.array(["age", "sex"]))
    (messy.parent / "medians.csv").write_text("column,median\nage,0.1\n")
    assert _medians(messy.parent, str(messy.parent / "medians.csv")) == {"age": 0.1}


def test_a_column_that_nobody_filled_in_here_is_no_input_unless_it_is_named() -> None:
    columns = {"age": np.array([41.0, 52.0, np.nan]), "alley": np.full(3, np.nan), "y": np.array([1.0, 2.0, 4.0])}
    table = Table("a.csv", columns)
    config = {"target": "y", "missing": "impute"}
    assert regression_rows(prepare(table, config).table, config).features == ("age",)
    assert prepare(table, {**config, "missing": "drop"}).table.n == 2
    with pytest.raises(DataError, match="column 'alley': has no number; leave it out of features"):
        prepare(table, {**config, "features": "age alley"})


def test_sites_whose_column_of_text_is_empty_or_not_are_alike(tmp_path: Path) -> None:
    """Of files, and of blocks of rows: as in tables of houses, where few have an alley."""
    for name, alley in {"a": ["", "", ""], "b": ["paved", "", "gravel"]}.items():
        rows = zip((41, 52, 63), alley, ("f", "m", "f"), (1, 2, 4), strict=True)
        lines = ["age,alley,sex,y", *(",".join(map(str, row)) for row in rows)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    tables = {name: read_table(tmp_path / f"{name}.csv") for name in "ab"}
    sec_columns(tables, {"target": "y"})
    coreset_columns(tables, {"sensitive": "sex"})
    blocks = open_blocks({"data": str(tmp_path / "a.csv"), "missing": "impute"})
    assert roles_of(blocks.schema, {"sensitive": "sex"}).features == ("age", "y")
    tables["b"] = replace(tables["b"], columns={**tables["b"].columns, "alley": np.arange(3.0)})
    with pytest.raises(DataError, match=r"^[ab]: column 'alley' (is empty, and holds|holds numbers, and is empty)"):
        sec_columns(tables, {"target": "y"})


def test_rows_without_a_group_are_left_out_with_those_that_lack_an_outcome() -> None:
    columns = {"age": np.array([41.0, np.nan, 63.0]), "sex": np.array(["f", "m", None], object)}
    done = prepare(Table("a.csv", columns), {"sensitive": "s*", "missing": "impute"})
    assert done.table.columns["sex"].tolist() == ["f", "m"]
    assert done.notes[0] == "1 of 3 rows left out: 'sex' is empty"


def test_rows_keep_their_number_where_others_are_left_out(tmp_path: Path) -> None:
    """Or nobody could tell whose cluster it is."""
    path = tmp_path / "a.csv"
    path.write_text("age,sex\n41,f\n,m\n63,\n50,m\n")
    for missing, numbers in {"drop": ["0", "3"], "impute": ["0", "1", "3"]}.items():
        (block,) = open_rows({"data": str(path), "sensitive": "sex", "missing": missing}).blocks()
        assert block.entity is not None
        assert block.entity.tolist() == numbers
    path.write_text("age,sex\n41,f\n,m\n50,m\n")
    (block,) = open_rows({"data": str(path), "sensitive": "sex", "missing": "impute"}).blocks()
    assert block.entity is None


@pytest.mark.parametrize("name", ["rownames", "Unnamed: 0", "row.names"])
def test_numbers_of_rows_that_a_program_wrote_are_an_identifier(name: str) -> None:
    rows = np.array([3, 7, 12, 13, 40, 41, 77])
    columns = {name: rows, "y": np.sin(rows)}
    assert inspect(Table("a.csv", columns), {"target": "y"}).cautions == [
        f"{name!r} looks like an identifier: leave it out of features, or set id"
    ]
    assert not inspect(Table("a.csv", {**columns, name: rows // 2}), {"target": "y"}).cautions, (
        "one number twice is no row's"
    )


@pytest.mark.parametrize(("y", "value"), [(np.ones(4), "1"), (np.array(["no"] * 4, object), "no")])
def test_a_target_that_is_the_same_in_every_row_is_cautioned_against(y: np.ndarray, value: str) -> None:
    table = Table("a.csv", {"x": np.arange(4.0), "y": y})
    [line] = inspect(table, {"target": "y"}).cautions
    assert line == f"the target 'y' is {value!r} in every row: nothing can be learned about it here"


def test_copies_of_rows_are_cautioned_against_where_chance_does_not_explain_them() -> None:
    x = np.random.default_rng(0).normal(size=20)
    rows = np.repeat(np.arange(20), 3)
    [line] = inspect(Table("a.csv", {"x": x[rows], "y": x[rows] ** 2}), {"target": "y"}).cautions
    assert line.startswith("40 of 60 rows are copies of others")
    table = Table("a.csv", {"x": rows % 3 / 1.0, "y": np.where(rows % 2, "yes", "no").astype(object)})
    assert not inspect(table, {"target": "y"}).cautions, "three values of an input repeat by chance"


def test_copies_of_rows_are_learned_from_once_unless_ids_tell_them_apart() -> None:
    x, rows = np.random.default_rng(0).normal(size=20), np.repeat(np.arange(20), 3)
    table = Table("a.csv", {"x": x[rows], "y": x[rows] ** 2, "visit": np.arange(60.0), "patient": rows.astype(float)})
    features = {"target": "y", "features": "x"}
    assert regression_rows(table, features).x[:, 0].tolist() == x.tolist()
    assert regression_rows(table, {**features, "group": "patient"}).person.tolist() == list(range(20))
    assert regression_rows(table, {**features, "id": "visit"}).n == 60


def test_rows_that_are_equal_by_chance_all_count() -> None:
    """Else a class that few of an age have would weigh as much as one that most have."""
    rng = np.random.default_rng(0)
    cost = np.where(rng.random(600) < 0.4, 0.0, rng.lognormal(3, 1, 600))
    for x in (rng.integers(0, 100, 600), rng.normal(100, 20, 600).round(1), cost):
        rare = (rng.random(600) < 0.02) & (x > 0)
        table = Table("a.csv", {"x": x.astype(float), "in inches": x / 2.54, "y": rare.astype(float)})
        assert regression_rows(table, {"target": "y"}).n == 600


def test_a_cell_of_text_among_numbers_is_named() -> None:
    cells = np.array([*["yes", "no"] * 20, "perhaps"], object)
    lines = inspect(Table("a.csv", {"ill": cells, "y": np.arange(41.0)}), {"target": "y"}).warnings
    assert "a.csv, row 41, column 'ill': 'perhaps' is text among numbers" in lines[0]


def test_amounts_with_a_currency_are_no_classes_that_sites_write_differently() -> None:
    tables = {name: Table(name, {"paid": np.array([f"{place}{n} €" for n in range(9)], object)}) for place, name in
              enumerate(("a", "b"))}  # fmt: skip
    config = {"target": "paid", "missing": "impute"}
    assert not list(unlike_values({name: values_of(table, config) for name, table in tables.items()}))


def test_a_code_at_one_site_and_a_number_at_another_are_named() -> None:
    codes, numbers = (
        Table(name, {"id": np.array(cells, kind)})
        for name, cells, kind in (("a.csv", ["12", "00013"], object), ("b.csv", [12, 13], np.float64))
    )
    with pytest.raises(DataError, match=r"'id' holds text, and numbers in the others"):
        check_alike(
            {"b.csv": numbers, "c.csv": numbers, "a.csv": codes},
            lambda table: [name for name, cells in table.columns.items() if cells.dtype != object],
        )


def test_groups_that_two_sites_write_otherwise_are_named() -> None:
    small, large = (values_of(Table("a", {"sex": np.array(cells, object)}), {"sensitive": "sex"}) for cells in
                    (["f", "m "], ["F", "m"]))  # fmt: skip
    [line] = unlike_values({"a": small, "b": large})
    assert line == "'sex': 'F' and 'f' differ only in case, and are taken for others"
