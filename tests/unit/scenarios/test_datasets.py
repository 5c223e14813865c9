"""The table of real data sets: files by the names of their columns, OpenML in place of a file, and clear messages."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from scenarios.data_set import DATA_VARIABLE, DataSet
from scenarios.datasets import DATA_SETS, load, locate
from scenarios.registry import ScenarioError
from scenarios.tables import Table
from tests.support.data_files import N_ROWS, N_TEST, SHARED, SONGS, ct_table, needs, tables

FROM_FILES = [name for name, data in DATA_SETS.items() if data.files]
FROM_OPENML = [name for name, data in DATA_SETS.items() if data.openml]


def read(name: str, path: Path) -> Table:
    """The data set in a directory or file, read anew."""
    return DATA_SETS[name].load(locate(name, {"data": str(path)}))


def refusal(call: Callable[[], Any]) -> str:
    """The message of a `ScenarioError`, which is one line."""
    with pytest.raises(ScenarioError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def unreachable(*args: object, **options: object) -> None:
    raise OSError("network is cut")


# -- all of them ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATA_SETS)
def test_a_row_says_what_the_data_are_and_where_they_come_from(name: str) -> None:
    data = DATA_SETS[name]
    assert data.title
    assert data.citation
    assert bool(data.files) == bool(data.file)
    columns = data.columns
    assert not data.files or bool(columns.target) != bool(columns.categories)
    assert set(columns.unknown) <= set(columns.categories)
    assert not set(columns.inputs) & {columns.target, *columns.categories, *columns.omitted}


@pytest.mark.parametrize("name", FROM_FILES)
def test_a_file_is_read_whole_and_no_row_is_changed(name: str, folder: Path) -> None:
    table, data, columns = tables()[name], read(name, folder), DATA_SETS[name].columns
    rows = {"song": np.concatenate([np.arange(part.start, part.stop) for part in SONGS])}.get(name, slice(None))
    table = table.iloc[rows]
    for column, mark in columns.unknown.items():
        table = table[table[column] != mark]
    assert data.x.dtype == np.float64
    assert len(data.features) == data.x.shape[1]
    named = list(table.columns[1:]) if name == "song" else list(data.features)
    np.testing.assert_array_equal(data.x, table[named].to_numpy(float))
    if columns.target and columns.target != "class":
        np.testing.assert_array_equal(data.outcome, table[columns.target])
    assert data.features not in ((), (columns.target,))
    assert not {columns.target, columns.unit, columns.split, *columns.omitted, *columns.categories} & set(data.features)


@pytest.mark.parametrize("name", FROM_FILES)
def test_a_file_is_found_by_its_name_its_directory_and_the_environment(
    name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = locate(name, {"data": str(folder)})
    assert path is not None
    assert locate(name, {"data": str(path)}) == path
    monkeypatch.setenv(DATA_VARIABLE, str(folder))
    assert locate(name, {}) == locate(name, {"data": ""}) == path
    # The run configuration comes before the environment, a file before a gzipped one.
    assert path.name in DATA_SETS[name].files
    (tmp_path / f"{path.name}.gz").touch()
    assert locate(name, {"data": str(tmp_path)}) == tmp_path / f"{path.name}.gz"
    (tmp_path / path.name).touch()
    assert locate(name, {"data": str(tmp_path)}) == tmp_path / path.name


@pytest.mark.parametrize("name", FROM_FILES)
def test_data_that_name_no_file_are_refused(name: str, tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "absent"):
        message = refusal(lambda place=place: locate(name, {"data": str(place)}))  # type: ignore[misc]
        listed = " or ".join(f"{file}[.gz]" for file in DATA_SETS[name].files)
        assert message == f"data={str(place)!r} is neither a CSV file nor a directory that holds {listed}"


@pytest.mark.parametrize("name", FROM_FILES)
def test_without_a_file_openml_has_it_or_a_message_says_what_to_set(name: str) -> None:
    data = DATA_SETS[name]
    if data.openml or data.optional:
        assert locate(name, {}) is None
    else:
        assert refusal(lambda: locate(name, {})) == (
            f"no file of the {data.title} data was found: set the run configuration's data to {data.file}, or"
            " CONSILIENCE_DATA to a directory that holds it"
        )


def test_contents_are_read_once(folder: Path) -> None:
    path = locate("airfoil", {"data": str(folder)})
    assert load("airfoil", path) is load("airfoil", path)


# -- OpenML -----------------------------------------------------------------------------------------------------------


def openml(name: str) -> SimpleNamespace:
    """What scikit-learn makes of OpenML's copy, which names some columns otherwise."""
    target = {"concrete": "strength", "parkinsons": "motor_UPDRS", "grid": "stab"}.get(
        name, DATA_SETS[name].columns.target
    )
    frame = tables()[name].rename(columns={"subject#": "subject.", "strength_mpa": "strength"})
    if name == "sarcos":
        frame = frame.iloc[:, :22]
    if name == "heart":
        frame["class"] = np.where(frame["class"] == 1, "absent", "present")
    if name == "adult":
        frame = frame.rename(columns=lambda column: column.replace("_", "-"))
    if DATA_SETS[name].columns.categories:
        return SimpleNamespace(frame=frame.replace("?", np.nan).astype({"race": "category"}))
    return SimpleNamespace(frame=frame, data=frame.drop(columns=target), target=frame[target])


@pytest.mark.parametrize("name", FROM_OPENML)
def test_data_of_openml_are_those_of_the_file(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = []

    def fetch(*, data_id: int, **options: Any) -> SimpleNamespace:
        numbers.append(data_id)
        return openml(name)

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    data, same = DATA_SETS[name].load(None), read(name, folder)
    assert numbers == [DATA_SETS[name].openml]
    np.testing.assert_array_equal(data.x, same.x)
    assert data.x.shape[1] == same.x.shape[1] == len(data.features)
    if same.y is not None:
        np.testing.assert_array_equal(data.outcome, same.outcome)
        assert data.outcome.dtype == same.outcome.dtype
    assert name == "song" or data.features == same.features
    assert {key: value.tolist() for key, value in data.categories.items()} == {
        key: value.tolist() for key, value in same.categories.items()
    }


@pytest.mark.parametrize("name", FROM_OPENML)
def test_without_file_and_network_a_message_says_where_to_get_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sklearn.datasets.fetch_openml", unreachable)
    data = DATA_SETS[name]
    assert refusal(lambda: data.load(None)) == (
        f"no file of the {data.title} data was found, and they cannot be fetched from OpenML (OSError: network is cut):"
        f" set the run configuration's data to {data.file}, or CONSILIENCE_DATA to a directory that holds it"
    )


@pytest.mark.parametrize("name", [name for name in FROM_OPENML if DATA_SETS[name].fetch is DATA_SETS["concrete"].fetch])
def test_a_data_set_of_openml_with_other_inputs_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bunch = openml(name)
    more = SimpleNamespace(frame=bunch.frame.assign(more=1.0), data=bunch.data.assign(more=1.0), target=bunch.target)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **options: more)
    data, n_inputs = DATA_SETS[name], DATA_SETS[name].columns.n_inputs
    assert refusal(lambda: data.load(None)) == (
        f"OpenML's data set {data.openml} has {n_inputs + 1} inputs, and the {data.title} data should have {n_inputs}:"
        f" {data.remedy}"
    )


def test_too_few_songs_of_openml_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = tables()["song"].iloc[:200]
    few = SimpleNamespace(frame=frame, data=frame.drop(columns="year"), target=frame["year"])
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **options: few)
    assert "OpenML's data set 44027 has 200 rows, too few: set" in refusal(lambda: DATA_SETS["song"].load(None))


def test_scikit_learn_accepts_the_call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """scikit-learn itself runs, so a call that it refuses cannot pass for a missing network."""
    monkeypatch.setattr("socket.getaddrinfo", unreachable)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # it tries again three times, a second later
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "cache"))
    with (
        pytest.warns(UserWarning, match="network error"),
        pytest.raises(ScenarioError, match=r"URLError.*network is cut.*data to a heart\.csv, or CONSILIENCE_DATA to a"),
    ):
        DATA_SETS["heart"].load(None)


# -- CSV with a header ------------------------------------------------------------------------------------------------

BAD = {
    "heart": [
        ("age,class\n1,1\nold,2\n", "line 3, column 'age': 'old' is no finite number"),
        ("age,bp,class\n1,2,1\n3,,2\n", "line 3, column 'bp': '' is no finite number"),
        ("age,class\n1,1\ninf,2\n", "line 3, column 'age': 'inf' is no finite number"),
        ("age,class\n1,1\n2,\n", "line 3, column 'class' is empty"),
        ("age,sick\n1,1\n", "no column 'class'"),
        ("class\n1\n2\n", "no column beside 'class'"),
        ("age,class\n1,1\n2,1\n", "fewer than two classes"),
        ("age,class\n", "fewer than two classes"),
        ("age,class\n1,2,1\n3,4,2\n", "Expected 2 fields in line 2, saw 3"),
        ("age,class\n1,1\n2\n", "line 3, column 'class' is empty"),
        ("age,age,class\n1,2,1\n3,4,2\n", "two columns have the same name"),
        ("", "cannot be read as CSV"),
    ],
    "grid": [
        ("tau1,stab,stabf\n1,2,stable\nfast,2,stable\n", "line 3, column 'tau1': 'fast' is no finite number"),
        ("tau1,stab\n1,2\n1,\n", "line 3, column 'stab': '' is no finite number"),
        ("tau1,stab\n1,2\n1,inf\n", "line 3, column 'stab': 'inf' is no finite number"),
        ("tau1,stab\n1,2\n1\n", "line 3, column 'stab': '' is no finite number"),
        ("tau1,stab\n1,2,3\n4,5,6\n", "Expected 2 fields in line 2, saw 3"),
        ("tau1,stab\nTrue,2\nFalse,3\n", "line 2, column 'tau1': 'True' is no finite number"),
        ("tau1,stabf\n1,stable\n", "has no column 'stab'"),
        ("stab,stabf\n1,stable\n", "has no column beside 'stab'"),
        ("tau1,tau1,stab\n1,2,3\n", "two columns have the same name"),
        ("tau1,stab\n", "has no rows below its header"),
        ("", "cannot be read as CSV"),
    ],
    "concrete": [
        ("a,b,strength\n1,2,3\n", "has no column 'strength_mpa'"),
        ("a,b,strength_mpa\n1,2,3\nx,2,3\n", "line 3, column 'a': 'x' is no finite number"),
        ("strength_mpa\n1\n", "no column beside 'strength_mpa'"),
    ],
    "ct": [("value0,reference\n1,2\n", "has no column 'patientId'")],
    "airfoil": [
        ("1\t2\t3\n4\t5\t6\n", "is no table of 6 columns"),
        ("1 2 3 4 5 6\n1 2 3 4 nan 6\n", "is no table of 6 columns"),
        ("a,b\n1,2\n", "has no column 'sound_pressure_db'"),
    ],
    "pumadyn": [("x,y,split\n1,2,test\n3,4,other\n", "line 3, column 'split': 'other' is neither train nor test")],
    "song": [
        ("2001,1\n", "is no table of 91 columns"),
        (f"{'1,' * 90}1\n" * 160, "cannot be read from line 191 on"),
        (f"{'1,' * 90}1\n" * 200, "has 200 rows, and needs 230 or more"),
    ],
}


@pytest.mark.parametrize(("name", "text", "message"), [(name, *case) for name, cases in BAD.items() for case in cases])
def test_a_bad_file_is_refused_by_line_and_column(name: str, text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / DATA_SETS[name].files[0]
    file.write_text(text)
    said = refusal(lambda: read(name, file))
    assert said.startswith(str(file))
    assert message in said


def test_a_damaged_gzip_is_refused(tmp_path: Path) -> None:
    (tmp_path / "heart.csv.gz").write_bytes(b"not gzip")
    assert "cannot be read as CSV" in refusal(lambda: read("heart", tmp_path))


def test_numbered_classes_are_sorted_as_numbers(tmp_path: Path) -> None:
    file = tmp_path / "heart.csv"
    file.write_text("class, age\n10,1.5\n2,3\n\n10,4\n")
    data = read("heart", file)
    assert data.x.tolist() == [[1.5], [3.0], [4.0]]
    assert data.outcome.tolist() == [1, 0, 1]


def test_a_blank_line_above_the_header_is_no_row(folder: Path, tmp_path: Path) -> None:
    path = folder / "Data_for_UCI_named.csv"
    (tmp_path / "grid_stability.csv").write_text("\n" + path.read_text())
    np.testing.assert_allclose(read("grid", tmp_path).x, read("grid", path).x, rtol=1e-15)


def test_a_gzipped_file_holds_the_same(folder: Path, tmp_path: Path) -> None:
    tables()["grid"].to_csv(tmp_path / "grid_stability.csv.gz", index=False)
    np.testing.assert_array_equal(read("grid", tmp_path).x, read("grid", folder).x)


def test_scans_are_units(folder: Path) -> None:
    data = read("ct", folder)
    np.testing.assert_array_equal(data.unit, ct_table()["patientId"])


# -- test rows and other files ----------------------------------------------------------------------------------------


def test_airfoil_with_a_header_and_as_at_the_repository(tmp_path: Path) -> None:
    table = tables()["airfoil"]
    table.to_csv(tmp_path / "airfoil.csv.gz", index=False)
    table.to_csv(tmp_path / "airfoil_self_noise.dat", sep="\t", index=False, header=False)
    for name in ("airfoil.csv.gz", "airfoil_self_noise.dat"):
        data = read("airfoil", tmp_path / name)
        np.testing.assert_array_equal(np.column_stack([data.x, data.outcome]), table.to_numpy())
        assert data.features == tuple(table.columns[:-1])
        assert data.test is None


@pytest.mark.parametrize(
    ("name", "usual", "other"), [("pole", "foo", "Target"), ("parkinsons", "total_UPDRS", "total.updrs")]
)
def test_the_target_may_have_another_name(folder: Path, tmp_path: Path, name: str, usual: str, other: str) -> None:
    tables()[name].rename(columns={usual: other}).to_csv(tmp_path / f"{name}.csv", index=False)
    expected, found = read(name, folder), read(name, tmp_path)
    np.testing.assert_array_equal(found.outcome, expected.outcome)
    np.testing.assert_array_equal(found.x, expected.x)
    assert found.features == expected.features


def test_inputs_that_never_vary_are_left_out(folder: Path) -> None:
    np.testing.assert_array_equal(read("pole", folder).x, tables()["pole"].iloc[:, :26])


def test_test_rows_of_the_makers(folder: Path, tmp_path: Path) -> None:
    pumadyn = read("pumadyn", folder)
    np.testing.assert_array_equal(pumadyn.test, tables()["pumadyn"]["split"] == "test")
    assert len(pumadyn.features) == 32
    tables()["pumadyn"].drop(columns="split").to_csv(tmp_path / "pumadyn32nm.csv", index=False)
    assert read("pumadyn", tmp_path).test is None
    np.testing.assert_array_equal(read("song", folder).test, np.arange(200) >= 160)


def test_sarcos_of_matlab_and_of_csv(folder: Path, tmp_path: Path) -> None:
    table, data = tables()["sarcos"], read("sarcos", folder)
    np.testing.assert_array_equal(np.column_stack([data.x, data.outcome]), table.iloc[:, :22])
    np.testing.assert_array_equal(data.test, np.arange(N_ROWS) >= N_ROWS - N_TEST)
    table.assign(split="train").to_csv(tmp_path / "sarcos.csv", index=False)
    same = read("sarcos", tmp_path)
    np.testing.assert_array_equal(same.x, data.x)
    np.testing.assert_array_equal(same.outcome, data.outcome)
    assert same.features == data.features
    assert not np.any(same.test)


def test_damaged_and_missing_files_of_matlab_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "sarcos_inv.mat"
    path.write_text("no matlab")
    assert "cannot be read as a MATLAB file of an array sarcos_inv" in refusal(lambda: read("sarcos", path))
    savemat(path, {"sarcos_inv": np.ones((3, 28))})
    assert refusal(lambda: read("sarcos", path)) == f"there is no {tmp_path / 'sarcos_inv_test.mat'}"


# -- categories -------------------------------------------------------------------------------------------------------


def test_identifiers_are_no_inputs_and_unknown_categories_are_left_out(folder: Path) -> None:
    diabetes, bank = read("diabetes", folder), read("bank", folder)
    assert diabetes.x.shape == (N_ROWS - 2, 8)
    assert set(diabetes.categories["gender"]) == {"Female", "Male"}
    assert set(diabetes.categories["race"]) == {"Caucasian", "?", "Asian"}
    assert not [name for name in diabetes.features if "id" in name.split("_") or "nbr" in name]
    assert len(bank.features) == 7
    assert set(bank.categories["married"][bank.categories["marital"] == "married"]) == {"yes"}
    assert set(bank.categories["married"][bank.categories["marital"] != "married"]) == {"no"}


def test_bank_with_commas_gzipped_and_in_its_additional_layout(tmp_path: Path, folder: Path) -> None:
    table = tables()["bank"]
    with gzip.open(tmp_path / "bank-full.csv.gz", "wt") as file:
        table.to_csv(file, index=False)
    np.testing.assert_array_equal(read("bank", tmp_path).x, read("bank", folder).x)
    names = ["emp.var.rate", "cons.price.idx", "cons.conf.idx", "euribor3m", "nr.employed"]
    additional = table.drop(columns=["balance", "day"]).assign(**dict.fromkeys(names, 1.5))
    additional.loc[4, "marital"] = "unknown"
    additional.to_csv(tmp_path / "bank-additional.csv", sep=";", index=False)
    assert read("bank", tmp_path / "bank-additional.csv").x.shape == (N_ROWS - 1, 10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop(columns="sex"), "has no column 'sex'"),
        (lambda table: table.drop(columns="age"), "has no column 'age'"),
        (lambda table: table.iloc[:0], "has no rows below its header"),
        (lambda table: table.assign(age=["x", *table["age"][1:]]), "line 2, column 'age': 'x' is no finite number"),
        (lambda table: table.assign(sex=[*table["sex"][:-1], " "]), "line 301, column 'sex' is empty"),
    ],
)
def test_a_bad_file_of_categories_is_refused(
    tmp_path: Path, change: Callable[[pd.DataFrame], pd.DataFrame], message: str
) -> None:
    change(tables()["adult"]).to_csv(tmp_path / "adult.csv", index=False)
    said = refusal(lambda: read("adult", tmp_path))
    assert said.startswith(str(tmp_path / "adult.csv"))
    assert message in said


# -- the real data ----------------------------------------------------------------------------------------------------


def test_wine_is_scikit_learns() -> None:
    data = load("wine", locate("wine", {"data": "of no concern"}))
    assert data.x.shape == (178, 13)
    assert data.x.dtype == np.float64
    assert np.bincount(data.outcome).tolist() == [59, 71, 48]
    assert data.outcome.dtype == np.int64


@needs("heart")
def test_heart_has_270_instances_of_two_classes() -> None:
    data = read("heart", SHARED)
    assert data.x.shape == (270, 13)
    assert np.bincount(data.outcome).tolist() == [150, 120]


def test_a_new_data_set_is_a_new_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    concrete = DATA_SETS["concrete"]
    row = DataSet("Beer", "Somebody (2026)", ("beer.csv",), "a beer.csv", columns=concrete.columns)
    monkeypatch.setitem(DATA_SETS, "beer", row)
    tables()["concrete"].to_csv(tmp_path / "beer.csv", index=False)
    assert read("beer", tmp_path).x.shape == (760, 8)


def test_classes_of_a_file_without_a_header_are_in_its_last_column(tmp_path: Path) -> None:
    """The repository's german.data-numeric has spaces, its pima-indians-diabetes.data commas."""
    for name, separator in (("german", "  "), ("pima", ",")):
        table = tables()[name]
        lines = [separator.join(map(str, row)) for row in table.to_numpy(float).tolist()]
        (tmp_path / DATA_SETS[name].files[-1]).write_text("\n".join(lines) + "\n")
        data = read(name, tmp_path)
        np.testing.assert_array_equal(data.x, table.drop(columns="class"))
        np.testing.assert_array_equal(data.outcome, table["class"] - table["class"].min())


def test_categories_of_openml_become_columns_of_0_and_1(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pd.DataFrame({"age": [30.0, 41.0], "purpose": pd.Categorical(["car", "education"])})
    bunch = SimpleNamespace(data=data, target=pd.Series(["good", "bad"]))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **options: bunch)
    table = DATA_SETS["german"].load(None)
    assert table.features == ("age", "purpose_car", "purpose_education")
    assert table.x.tolist() == [[30.0, 1.0, 0.0], [41.0, 0.0, 1.0]]
    assert table.outcome.tolist() == [1, 0]
