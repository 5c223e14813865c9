"""What Python asks for: settings objects, keywords and DataFrames as one request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import consilience as cs
from clients.data import load
from clients.data.simulated_sites import simulated_sites
from common.data_places import paths_by_site
from common.extras import MissingLibraryError
from common.settings import ConfigError
from consilience.python_request import PythonRequest, python_request

pytestmark = pytest.mark.usefixtures("unseen_files")  # what is asked for; tests of the server ask whether it fits

FRAME = pd.DataFrame({"x": [1.0, 2.0, 4.0], "y": [1.0, 3.0, 2.0]})
FRAMES = {"south": FRAME, "north": FRAME + 1}


def request(what: Any, *more: Any, data: Any = None, sites: int | None = None, **keywords: Any) -> PythonRequest:
    rows = {name: keywords.pop(name) for name in ("test", "labels", "queries") if name in keywords}
    return python_request(what, more, data=data, sites=sites, rows=rows, keywords=keywords)


def load_of(place: int, n_sites: int) -> pd.DataFrame:
    """A module's function."""
    return FRAME + place


# --- What is run ------------------------------------------------------------------------------------------------------


def test_a_scenario() -> None:
    made = request("bc3e-wine", cs.BC3E(max_rounds=3), sites=3, seed=1).request
    assert made.sites == 3
    assert {key: made.settings[key] for key in ("scenario", "seed", "bc3e.max-rounds")} == {
        "scenario": "bc3e-wine",
        "seed": 1,
        "bc3e.max-rounds": 3,
    }


def test_values_of_text_are_a_dictionary() -> None:
    given = request(
        cs.SEC(), data=[FRAME, FRAME], categories={"sex": ["f", "m"], "ward": [1, "*"]}, ordinal={"g": "ab"}
    )
    settings = given.request.settings
    assert (settings["categories"], settings["ordinal"]) == ("sex=f|m; ward=1|*", "g=a<b")


def test_what_is_given_counts_as_given_at_its_default() -> None:
    """A scenario sets the kernel only where nobody has."""
    default = cs.GP().kernel
    assert request("gp-synthetic", cs.GP(kernel=default)).request.settings["gp.kernel"] == default
    assert "gp.kernel" not in request("gp-synthetic", cs.GP()).request.settings


def test_a_protocol_on_own_data() -> None:
    made = request(cs.SEC(k=2), data=FRAMES, target="y", id="name", features=["x", "z"])
    settings = made.request.settings
    assert made.request.sites == 2
    assert (settings["protocol"], settings["sec.k"], settings["target"], settings["id"]) == ("sec", 2, "y", "name")
    assert settings["features"] == "x, z"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: cs.GP(kernal="se"), "gp: there is no setting 'kernal'; did you mean kernel?"),
        (lambda: cs.GP(landmarks=0.5), "gp.landmarks must be a whole number, got 0.5"),
        (lambda: cs.GP(gate="neural"), "gp.gate must be empty (not set), or one of 'knn'"),
        (lambda: request("gp"), "'gp' is a protocol: give its settings, consilience.GP(), or a scenario's name"),
        (lambda: request(cs.GP), "give settings, not their class: consilience.GP()"),
        (lambda: request(cs.GP()), "gp on own data needs data="),
        (lambda: request(cs.GP(), cs.SEC(), data=FRAMES), "a run has one protocol, not gp and sec"),
        (lambda: request("bc3e-wine", cs.GP()), "bc3e-wine is one of bc3e; settings of gp are not for it"),
        (lambda: request("bc3e-wine", data=FRAMES), "bc3e-wine has data of its own"),
        (lambda: request("predict", data=FRAME), "predict needs from_=: the run that has learned"),
        (lambda: request(cs.SEC(), data=FRAMES, sites=3), "what was given in Python holds the data of 2 sites, not 3"),
        (lambda: request("bc3e-wine", sede=1), "there is no setting 'sede'; did you mean seed?"),
        (lambda: request("bc3e-wine", alpha=1.0), "'alpha'; it is one of bc3e: give it in that protocol's settings"),
        (lambda: request("bc3e-wine", seed=-1), "seed must be 0 or greater, got -1"),
        (lambda: request(cs.SEC(), data=FRAMES, queries=FRAME), "queries is for another protocol than sec"),
        (lambda: request(cs.SEC(), data=FRAMES, test=FRAME, **{"test_": "a.csv"}), "test is given twice"),
        (lambda: request("bc3e-wine", cs.BC3E(alpha=2.0), **{"bc3e.alpha": 1.0}), "bc3e.alpha is given twice"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(ask: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ask()
    assert message in str(caught.value)


# --- Data -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{"sites": 0}, {"sites": 2.5}, {"workers": "2"}, {"workers": 0}])
def test_numbers_of_sites_and_workers_are_whole(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"(sites|workers) is a whole number of at least 1, not "):
        cs.run("bc3e-wine", **given)


def data_of(data: Any, sites: int | None = None) -> tuple[str, list[list[float]], PythonRequest]:
    """What the key `data` is set to, the column x of every site in order, and the request, which keeps the rows."""
    made = request(cs.SEC(), data=data, sites=sites)
    text = str(made.request.settings["data"])
    places, n_sites = simulated_sites(text), made.request.sites
    columns = [load(places.config(place, n_sites, {})).columns["x"].tolist() for place in range(n_sites)]
    return text, columns, made


def test_frames_by_site() -> None:
    text, columns, made = data_of(FRAMES)
    assert simulated_sites(text).names == ("north", "south")
    assert columns == [[2.0, 3.0, 5.0], [1.0, 2.0, 4.0]]
    assert data_of(dict(FRAMES))[0] == text, "equal data, equal name"
    assert made.tables.keys() == {"data"}


def test_tables_of_arrow_and_an_index_that_is_a_column_too() -> None:
    pa = pytest.importorskip("pyarrow")
    arrow = {name: pa.Table.from_pandas(frame) for name, frame in FRAMES.items()}
    indexed = {name: frame.set_index("x", drop=False) for name, frame in FRAMES.items()}
    assert data_of(arrow)[1] == data_of(indexed)[1] == data_of(FRAMES)[1]


def test_a_list_of_columns_by_name() -> None:
    text, columns, _ = data_of([{"x": [1, 2]}, {"x": [3, 4]}])
    assert simulated_sites(text).names == ("site-0", "site-1")
    assert columns == [[1, 2], [3, 4]]


def test_a_folder_and_paths_by_site(tmp_path: Path) -> None:
    for name, frame in FRAMES.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    text, columns, made = data_of(tmp_path)
    assert (text, made.tables) == (str(tmp_path), {})
    paths = {"b": tmp_path / "north.csv", "a": str(tmp_path / "south.csv")}
    text, by_path, made = data_of(paths)
    assert paths_by_site(text) == {name: str(path) for name, path in paths.items()}
    assert (by_path, made.tables) == (columns[::-1], {})
    assert data_of({"north": FRAMES["north"], "south": tmp_path / "south.csv"})[1] == columns


def test_functions() -> None:
    text, columns, made = data_of(load_of, sites=2)
    assert (text, made.tables) == (f"{__name__}:load_of", {})
    assert columns == [[1.0, 2.0, 4.0], [2.0, 3.0, 5.0]]
    text, of_lambda, made = data_of(lambda place, n_sites: load_of(place, n_sites), sites=2)
    assert (of_lambda, list(made.tables)) == (columns, ["data"])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (FRAME, "data are the rows of one site; give those of every site"),
        ({"x": [1, 2]}, "data are the rows of one site"),
        ({}, "data must be rows by site"),
        (3, "not int"),
        ({"the north": FRAME}, "'the north' is no site's name"),
        ({"north": FRAME.to_numpy(), "south": FRAME.to_numpy()}, "north: rows are .*, not ndarray"),
        ({"north": FRAME.to_dict("records")}, "north: rows are .*, not list"),
        ({"north": FRAME, "south": 3}, "south: rows are a DataFrame, columns by name, or a path"),
        ({"north": FRAME.iloc[:1]}, "north: has one row"),
        ({"north": FRAME.rename(columns={"x": 1})}, r"north: column 1 is named 1; .* frame.columns.map\(str\)"),
        (lambda config: FRAME, "say for how many sites with sites="),
        (lambda place, n_sites: FRAME, "say for how many sites with sites="),
    ],
)
def test_data_that_cannot_be_used(data: Any, message: str) -> None:
    with pytest.raises(cs.DataError, match=message):
        request(cs.SEC(), data=data)


def test_rows_of_the_center() -> None:
    made = request(cs.GP(), data=FRAMES, target="y", queries=FRAME, test="rows.csv")
    settings = made.request.settings
    assert load({"data": settings["gp.queries"]}).columns["x"].tolist() == [1.0, 2.0, 4.0]
    assert settings["test"] == str(Path("rows.csv").absolute())
    assert sorted(made.tables) == ["data", "gp.queries"]


def test_tables_without_pyarrow_stay_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("common.extras.is_installed", lambda library: library != "pyarrow")
    with pytest.raises(
        MissingLibraryError, match=r"for Flower's engine needs pyarrow: pip install 'consilience\[parquet\]"
    ):
        request(cs.GP(), data=FRAMES, target="y").with_files(tmp_path)


def test_tables_become_files_for_other_processes(tmp_path: Path) -> None:
    made = request(cs.GP(), data=FRAMES, target="y", queries=FRAME)
    settings = made.with_files(tmp_path).settings
    places = simulated_sites(str(settings["data"]))
    assert places.names == ("north", "south")
    assert load(places.config(0, 2, {})).columns["x"].tolist() == [2.0, 3.0, 5.0]
    assert load({"data": settings["gp.queries"]}).columns["y"].tolist() == [1.0, 3.0, 2.0]
