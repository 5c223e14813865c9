"""The worlds of Gaussian process experts: splits that lose no row, published figures, loaders, and clear messages."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from numerics.gp.measurements import Measurements
from protocols.settings import run_keys
from scenarios import registry, sources
from scenarios.gp import baselines, cells
from scenarios.gp import synthetic as drawn
from scenarios.gp.common import Pooled
from scenarios.registry import ScenarioError
from scenarios.sources import regressions

ROOT = Path(__file__).resolve().parents[3]
SHARED = Path(os.environ.get(sources.DATA_VARIABLE) or ROOT.parent / "shared" / "data")
PAPER = ROOT.parent / "shared" / "papers" / "gp_experts.txt"
SIZES = {"concrete": (927, 103), "airfoil": (1203, 300), "pumadyn": (7168, 1024), "protein": (40_000, 5730)}
FILES = {"concrete": "concrete", "airfoil": "airfoil", "pumadyn": "pumadyn32nm", "protein": "protein"}
needs_shared = pytest.mark.skipif(
    not all((SHARED / f"{name}.csv.gz").is_file() for name in FILES.values()), reason="the shared data are absent"
)
needs_paper = pytest.mark.skipif(not PAPER.is_file(), reason="the shared paper is absent")

MEASURED = ("concrete", "airfoil", "pumadyn", "parkinsons", "pole", "protein", "sarcos", "song")
NAMES = [f"gp-{name}" for name in ("synthetic", *MEASURED)]
N_FILE = 240
INPUTS = {
    "concrete": 8,
    "airfoil": 5,
    "pumadyn": 32,
    "parkinsons": 20,
    "pole": 26,
    "protein": 9,
    "sarcos": 21,
    "song": 90,
}
TEST_SONGS = 40
"""Of the songs, the first rows of those to test with; they begin after a gap."""


def made_tables() -> dict[str, pd.DataFrame]:
    """Small tables in the shape of the data sets, the outcome in the column where each has it."""
    rng = np.random.default_rng(6)

    def numbers(*names: str) -> pd.DataFrame:
        return pd.DataFrame(rng.normal(size=(N_FILE, len(names))).round(6), columns=list(names))

    pole = numbers(*(f"f{j}" for j in range(1, 49)), "foo")
    pole[[f"f{j}" for j in range(27, 49)]] = 3.0
    pumadyn = numbers(*(f"x{j + 1}" for j in range(32)), "y")
    pumadyn["split"] = np.where(np.arange(N_FILE) % 8 == 5, "test", "train")
    updrs = ["subject#", "age", "sex", "test_time", "motor_UPDRS", "total_UPDRS", *(f"voice{j}" for j in range(16))]
    return {
        "concrete.csv": numbers(*(f"c{j}" for j in range(8)), "strength_mpa"),
        "airfoil.csv": numbers(*regressions._AIRFOIL_INPUTS, "sound_pressure_db"),
        "pumadyn32nm.csv": pumadyn,
        "parkinsons_updrs.data": numbers(*updrs),
        "pole.csv": pole,
        "CASP.csv": numbers("RMSD", *(f"F{j + 1}" for j in range(9))),
        "sarcos": numbers(*(f"V{j + 1}" for j in range(28))),
        "YearPredictionMSD.txt": numbers("year", *(f"t{j}" for j in range(90))),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of small data files as they are at their sources, SARCOS as two of MATLAB, the songs headless."""
    path = tmp_path_factory.mktemp("data")
    for name, table in made_tables().items():
        if name == "sarcos":
            savemat(path / "sarcos_inv.mat", {"sarcos_inv": table.to_numpy()[: N_FILE - 30]})
            savemat(path / "sarcos_inv_test.mat", {"sarcos_inv_test": table.to_numpy()[N_FILE - 30 :]})
        else:
            table.to_csv(path / name, index=False, header=name != "YearPredictionMSD.txt")
    return path


@pytest.fixture(autouse=True)
def few_songs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SONG_LEARNT", 160), ("SONG_TEST", 190), ("SONG_TESTED", TEST_SONGS)):
        monkeypatch.setattr(regressions, name, value)
    monkeypatch.delenv(sources.DATA_VARIABLE, raising=False)


def config_of(folder: Path, **chosen: Any) -> dict[str, Any]:
    small = {"data": str(folder), "gp.parts": 7, "gp.rows": 150}
    return small | {key.replace("__", ".").replace("_", "-"): value for key, value in chosen.items()}


def shards_of(name: str, config: registry.Config, seed: int = 0, n_sites: int = 3) -> list[Measurements]:
    return registry.find(name).shards(config, seed, n_sites)


def queries_of(name: str, config: registry.Config, seed: int = 0) -> Any:
    queries = registry.find(name).queries
    assert queries is not None
    return queries(config, seed)


def rows_of(shards: list[Measurements]) -> np.ndarray:
    """All sites' rows, the output last, sorted."""
    rows = np.concatenate([np.column_stack([shard.x, shard.y]) for shard in shards])
    return rows[np.lexsort(rows.T)]


def digest(name: str, config: registry.Config, seed: int) -> str:
    """Hash of all shards and query points, bit for bit."""
    found = hashlib.sha256()
    for shard in shards_of(name, config, seed):
        assert shard.part is not None
        found.update(shard.x.tobytes() + shard.y.tobytes() + shard.part.tobytes())
    points = queries_of(name, config, seed)
    found.update(points.x.tobytes() + points.y.tobytes())
    return found.hexdigest()


# --- worlds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["", "random"])
@pytest.mark.parametrize("name", NAMES)
def test_experts_dealt_to_any_number_of_sites_hold_every_row_once(name: str, split: str, folder: Path) -> None:
    config = config_of(folder, gp__split=split)
    (whole,) = shards_of(name, config, n_sites=1)
    assert whole.part is not None
    sizes = np.bincount(whole.part)
    assert (len(sizes), whole.n) == (7, 150)
    assert sizes.min() >= 1
    assert split != "random" or np.ptp(sizes) <= 1
    for n_sites in (2, 3, 7):
        shards = shards_of(name, config, n_sites=n_sites)
        np.testing.assert_array_equal(rows_of(shards), rows_of([whole]))
        for site, shard in enumerate(shards):
            assert shard.part is not None
            assert shard.features == whole.features
            np.testing.assert_array_equal(np.unique(shard.part), np.arange(len(range(site, 7, n_sites))))
            np.testing.assert_array_equal(np.bincount(shard.part), sizes[site::n_sites])


@pytest.mark.parametrize("name", NAMES)
def test_test_rows_are_none_to_learn_from_and_few_rows_are_among_more(name: str, folder: Path) -> None:
    few, many = config_of(folder, gp__rows=50), config_of(folder, gp__rows=150)
    points = queries_of(name, many)
    assert points.features == shards_of(name, many)[0].features
    rows = {tuple(row) for row in rows_of(shards_of(name, many))}
    assert {tuple(row) for row in rows_of(shards_of(name, few))} < rows
    assert not rows & {tuple(row) for row in np.column_stack([points.x, points.y])}
    if name != "gp-synthetic":
        np.testing.assert_array_equal(queries_of(name, few).x, points.x)
        assert points.x.shape[1] == INPUTS[name[3:]]


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_is_another_world(name: str, folder: Path) -> None:
    config = config_of(folder)
    assert digest(name, config, 5) != digest(name, config, 6)


def test_the_same_in_another_process_without_heavy_libraries(folder: Path) -> None:
    named = [name for name in NAMES if name != "gp-song"]  # whose constants are this process's
    config = config_of(folder)
    code = f"""
import json, sys
from tests.unit.scenarios.test_gp import digest
print(json.dumps([{{name: digest(name, {config!r}, 5) for name in {named!r}}}, "torch" in sys.modules]))
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "7"}
    printed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, check=True)
    assert json.loads(printed.stdout) == [{name: digest(name, config, 5) for name in named}, False]


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_the_table_share_shards_that_nobody_can_change(name: str, folder: Path) -> None:
    first = shards_of(name, config_of(folder, gp__gate="knn"))
    second = shards_of(name, config_of(folder, gp__gate="all", gp__aggregation="poe"))
    for one, other in zip(first, second, strict=True):
        assert one is other
        for array in (one.x, one.y, one.part):
            assert array is not None
            assert not array.flags.writeable


@pytest.mark.parametrize(
    ("chosen", "n_sites", "message"),
    [
        ({}, 8, "gp-airfoil has 7 experts, which 8 sites cannot share: use 7 sites at most, or gp.parts=8"),
        ({"gp__parts": 151}, 3, "gp-airfoil has 150 rows: gp.parts cannot be 151"),
        ({"gp__rows": 1204}, 3, "gp-airfoil has 1203 rows to learn from at most: gp.rows cannot be 1204"),
        ({"gp__rows": 200}, 3, "has 192 rows to learn from and 48 to test with, and needs 200 and 2"),
        ({"gp__split": "column"}, 3, "gp.split must be one of kmeans, random, not 'column'"),
        ({"gp__parts": -1}, 3, "gp.parts must be a finite number, 0 or greater, not -1"),
        ({"data": "nowhere"}, 3, "neither a CSV file nor a directory that holds airfoil.csv[.gz]"),
    ],
)
def test_what_cannot_be_is_one_clear_line(chosen: dict[str, Any], n_sites: int, message: str, folder: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        shards_of("gp-airfoil", config_of(folder, **chosen), n_sites=n_sites)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_outcome_that_never_varies_is_refused(tmp_path: Path) -> None:
    made_tables()["airfoil.csv"].assign(sound_pressure_db=1.0).to_csv(tmp_path / "airfoil.csv", index=False)
    with pytest.raises(ScenarioError, match="the same in all rows"):
        shards_of("gp-airfoil", config_of(tmp_path))


@needs_shared
@pytest.mark.parametrize("name", FILES)
def test_as_many_rows_as_the_paper_has(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"data": str(SHARED), "gp.split": "random"}  # without the seconds that k-means of 40,000 rows takes
    (shard,) = shards_of(f"gp-{name}", config, n_sites=1)
    assert shard.part is not None
    assert (shard.n, len(queries_of(f"gp-{name}", config).x)) == SIZES[name]
    assert shard.part.max() + 1 == cells.EXPERTS.get(name, 10)
    assert shard.x.shape[1] == INPUTS[name]


def test_the_curve_is_equation_9_with_noise_beyond_the_data() -> None:
    # By hand at 0: -0.5 sin(-0.5) + 4; at 1: 5 sin 12 + 0.5 sin 2.5 + 4 cos 2.
    expected = [0.5 * np.sin(0.5) + 4.0, 5 * np.sin(12.0) + 0.5 * np.sin(2.5) + 4 * np.cos(2.0)]
    np.testing.assert_allclose(drawn.curve(np.array([0.0, 1.0])), expected, rtol=1e-14)
    config = {"gp.rows": 20_000}
    (shard,), points = shards_of("gp-synthetic", config, n_sites=1), queries_of("gp-synthetic", config)
    assert len(points.x) == 2000
    for x, y, low, high in ((shard.x, shard.y, 0.0, 1.0), (points.x, points.y, -0.2, 1.2)):
        assert low <= x.min() < low + 0.01 < high - 0.01 < x.max() <= high
        assert np.std(y - drawn.curve(x[:, 0])) == pytest.approx(0.2, rel=0.05)


# --- tables -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_registered_with_a_table_that_the_run_configuration_can_take(name: str, folder: Path) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    scenario, config = registry.find(name), {"data": str(folder)}
    assert (scenario.protocol, scenario.any_number) == ("gp", True)
    main, every = scenario.cells(config), scenario.cells({**config, "cells": "M=10"})
    assert main == every[: len(main)]
    assert len({tuple(cell.labels.items()) for cell in every}) == len(every)
    for cell in every:
        assert set(cell.published) <= set(scenario.columns)
        assert int(cell.labels["M"]) >= scenario.sites
        for key, value in (*cell.settings.items(), *cell.defaults.items()):
            section, _, short = key.rpartition(".")
            assert type(value) is type((declared[section] if section else declared)[short]), key
            assert run_keys()[key].check(value) == value
        asked = " ".join(f"{label}={value}" for label, value in cell.labels.items())
        (chosen,) = registry.select_cells(scenario, {**config, "cells": asked})
        assert chosen.labels == cell.labels


def test_parts_of_the_tables(folder: Path) -> None:
    found = {name: registry.find(name).cells({"data": str(folder), "cells": "K=6"}) for name in NAMES}
    parts = {name: list(dict.fromkeys(cell.labels["part"] for cell in rows)) for name, rows in found.items()}
    assert parts == {
        "gp-synthetic": ["figure11", "figure10", "rules"],
        "gp-concrete": ["table1", "figure2", "figure7"],
        "gp-pumadyn": ["table2"],
        **{f"gp-{name}": ["table4"] for name in cells.REAL_WORLD},
    }
    figure11 = [cell.labels for cell in found["gp-synthetic"] if cell.labels["part"] == "figure11"]
    assert {(row["M"], row["K"]) for row in figure11} == {(m, k) for m in (10, 15, 20) for k in (3, 5, "all")}


def test_what_a_table_does_not_vary_is_the_users(folder: Path) -> None:
    scenario = registry.find("gp-concrete")
    changed = registry.select_cells(scenario, {"data": str(folder), "gp.parts": 8, "gp.experts": "0.3"})
    assert {(cell.labels["M"], cell.labels["K"]) for cell in changed} == {(8, "0.3"), (8, "all")}
    assert not any({"gp.parts", "gp.experts"} & set(cell.settings) for cell in changed)
    assert not any(cell.published for cell in changed)
    others: list[dict[str, Any]] = [{"gp.rows": 100}, {"gp.kernel": "matern32"}, {"gp.split": "random"}]
    for other in others:
        assert not any(cell.published for cell in scenario.cells({"data": str(folder), **other}))
    same: dict[str, Any] = {"data": str(folder), "gp.parts": 10, "gp.experts": "6"}
    assert scenario.cells(same) == scenario.cells({"data": str(folder)})


@needs_paper
def test_published_are_the_figures_of_the_papers_tables(folder: Path) -> None:
    lines = PAPER.read_text().splitlines()

    def numbers_of(table: str, model: str) -> list[float | None]:
        """Numbers behind the first line of a table that begins with these words."""
        start = next(place for place, line in enumerate(lines) if line.startswith(f"TABLE {table}:"))
        after = [line for line in lines[start:] if line.startswith(model)]
        return [None if word == "-" else float(word) for word in after[0][len(model) :].split()]

    def published(name: str, **labels: Any) -> tuple[float | None, float | None]:
        rows = registry.find(name).cells({"data": str(folder), "cells": "M=10"})
        (row,) = [row for row in rows if labels.items() <= row.labels.items()]
        return row.published.get("smse"), row.published.get("msll")

    named = {"GPoE": ("gpoe", "all"), "RBCM": ("rbcm", "all"), "GRBCM": ("grbcm", "all"), "NPAE": ("npae", "all")}
    named |= {"GMM-5": ("npae", "ggm"), "KNN-5": ("npae", "knn"), "DNN-5": ("npae", "dnn")}
    for model, (rule, gate) in named.items():
        own = f"{model} ({'CI' if rule != 'npae' else 'D'})"
        for place, name in enumerate(cells.REAL_WORLD):
            expected = tuple(numbers_of(table, own)[place] for table in ("IV", "V"))
            if expected != (None, None):
                assert published(f"gp-{name}", rule=rule, gate=gate) == expected, (model, name)
    for model, rule, gate, share in (
        ("GPoE CI", "gpoe", "all", "all"),
        ("GRBCM CI", "grbcm", "all", "all"),
        ("NPAE D", "npae", "all", "all"),
        *((f"{gate_name}-{ten} D", "npae", gate, f"0.{ten}") for gate_name, gate, ten in GATE_ROWS),
    ):
        expected_row = numbers_of("II", model)
        for place, parts in enumerate((10, 15, 20)):
            found = published("gp-pumadyn", rule=rule, gate=gate, K=share, M=parts)
            assert found == tuple(expected_row[2 * place : 2 * place + 2]), (model, parts)
    start = next(place for place, line in enumerate(lines) if line.startswith("TABLE I:"))
    for offset, rule in ((2, "gpoe"), (4, "rbcm"), (6, "grbcm")):
        for line, gate in ((lines[start + offset], "all"), (lines[start + offset + 1], "knn")):
            smse, msll = (float(word) for word in re.findall(r" (-?\d\.\d+)", line)[:2])
            assert published("gp-concrete", part="table1", rule=rule, gate=gate) == (smse, msll)


GATE_ROWS = (
    *(("GMM", "ggm", 5), ("GGM", "ggm", 7)),  # the paper's spelling
    *(("KNN", "knn", 5), ("KNN", "knn", 7), ("DNN", "dnn", 5), ("DNN", "dnn", 7)),
)


# --- loaders ------------------------------------------------------------------------------------------------------


def test_airfoil_with_a_header_and_as_at_the_repository(tmp_path: Path) -> None:
    table = made_tables()["airfoil.csv"]
    table.to_csv(tmp_path / "airfoil.csv.gz", index=False)
    table.to_csv(tmp_path / "airfoil_self_noise.dat", sep="\t", index=False, header=False)
    for name in ("airfoil.csv.gz", "airfoil_self_noise.dat"):
        data, tested = sources.read_airfoil(sources.find_airfoil({"data": str(tmp_path / name)}))
        np.testing.assert_array_equal(np.column_stack([data.x, data.y]), table.to_numpy())
        assert data.features == tuple(table.columns[:-1])
        assert tested is None


def test_what_is_no_input_is_left_out(folder: Path) -> None:
    tables = made_tables()
    parkinsons, _ = sources.read_parkinsons(sources.find_parkinsons({"data": str(folder)}))
    np.testing.assert_array_equal(parkinsons.y, tables["parkinsons_updrs.data"]["total_UPDRS"])
    assert parkinsons.features[:4] == ("age", "sex", "test_time", "motor_UPDRS")
    pole, _ = sources.read_pole(sources.find_pole({"data": str(folder)}))
    np.testing.assert_array_equal(pole.x, tables["pole.csv"].iloc[:, :26])
    protein, _ = sources.read_protein(sources.find_protein({"data": str(folder)}))
    np.testing.assert_array_equal(protein.y, tables["CASP.csv"]["RMSD"])


def test_rows_that_the_makers_test_with(folder: Path, tmp_path: Path) -> None:
    tables = made_tables()
    data, tested = sources.read_pumadyn(sources.find_pumadyn({"data": str(folder)}))
    np.testing.assert_array_equal(tested, tables["pumadyn32nm.csv"]["split"] == "test")
    assert len(data.features) == 32
    tables["pumadyn32nm.csv"].drop(columns="split").to_csv(tmp_path / "pumadyn32nm.csv", index=False)
    assert sources.read_pumadyn(tmp_path / "pumadyn32nm.csv")[1] is None

    songs, tested = sources.read_song(sources.find_song({"data": str(folder)}))
    numbers = tables["YearPredictionMSD.txt"].to_numpy()[[*range(160), *range(190, 230)]]
    np.testing.assert_array_equal(np.column_stack([songs.y, songs.x]), numbers)
    np.testing.assert_array_equal(tested, np.arange(200) >= 160)


def test_sarcos_of_matlab_and_of_csv(folder: Path, tmp_path: Path) -> None:
    table = made_tables()["sarcos"]
    data, tested = sources.read_sarcos(sources.find_sarcos({"data": str(folder)}))
    np.testing.assert_array_equal(np.column_stack([data.x, data.y]), table.iloc[:, :22])
    np.testing.assert_array_equal(tested, np.arange(N_FILE) >= N_FILE - 30)
    table.assign(split="train").to_csv(tmp_path / "sarcos.csv", index=False)
    same, tested = sources.read_sarcos(sources.find_sarcos({"data": str(tmp_path)}))
    np.testing.assert_array_equal(same.x, data.x)
    np.testing.assert_array_equal(same.y, data.y)
    assert same.features == data.features
    assert not np.any(tested)


OPENML: dict[int, tuple[Callable[[None], Any], str, str, str]] = {
    44957: (sources.read_airfoil, "airfoil.csv", "sound_pressure_db", "airfoil_self_noise.dat"),
    44963: (sources.read_protein, "CASP.csv", "RMSD", "CASP.csv"),
    4531: (sources.read_parkinsons, "parkinsons_updrs.data", "motor_UPDRS", "parkinsons_updrs.data"),
    201: (sources.read_pole, "pole.csv", "foo", "pole.csv"),
    44976: (sources.read_sarcos, "sarcos", "V22", "sarcos_inv.mat"),
    44027: (sources.read_song, "YearPredictionMSD.txt", "year", "YearPredictionMSD.txt"),
}
"""By number: the loader, the table it has, the column that OpenML calls the target, the file asked for instead."""


@pytest.mark.parametrize("number", OPENML)
def test_data_from_openml_are_those_of_the_file(number: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, name, target, file = OPENML[number]
    frame = made_tables()[name].rename(columns={"subject#": "subject."})
    frame = frame.iloc[:, :22] if name == "sarcos" else frame

    def bunch(frame: pd.DataFrame) -> SimpleNamespace:
        return SimpleNamespace(frame=frame, data=frame.drop(columns=target), target=frame[target])

    def fetched(*args: Any, data_id: int, **kwargs: Any) -> SimpleNamespace:
        assert data_id == number
        return bunch(frame)

    monkeypatch.setattr("scenarios.sources.files.fetch_openml", fetched)
    (data, _), (same, _) = read(None), read(folder / ("sarcos_inv.mat" if name == "sarcos" else name))  # type: ignore[arg-type]
    np.testing.assert_array_equal(data.x, same.x)
    np.testing.assert_array_equal(data.y, same.y)

    monkeypatch.setattr("scenarios.sources.files.fetch_openml", lambda **_: bunch(frame.assign(more=1.0)))
    with pytest.raises(ScenarioError, match=rf"OpenML's data set {number} has \d+ inputs, and .* should have.*{file}"):
        read(None)

    def unreachable(*args: Any, **kwargs: Any) -> None:
        raise OSError("no network")

    monkeypatch.setattr("scenarios.sources.files.fetch_openml", unreachable)
    with pytest.raises(ScenarioError, match=rf"OpenML \(OSError: no network\).*{file}"):
        read(None)


def test_pumadyn_without_its_file_is_one_clear_line() -> None:
    for call in (registry.find("gp-pumadyn").cells, lambda config: shards_of("gp-pumadyn", config)):
        with pytest.raises(ScenarioError, match=r"set the run configuration's data to a pumadyn32nm\.csv"):
            call({})


@pytest.mark.parametrize(
    ("name", "content", "read", "message"),
    [
        ("airfoil_self_noise.dat", "1\t2\t3\n4\t5\t6\n", sources.read_airfoil, "is no table of 6 columns"),
        ("airfoil_self_noise.dat", "1 2 3 4 5 6\n1 2 3 4 nan 6\n", sources.read_airfoil, "is no table of 6 columns"),
        ("airfoil.csv", "a,b\n1,2\n", sources.read_airfoil, "has no column 'sound_pressure_db'"),
        (
            "pumadyn32nm.csv",
            "x,y,split\n1,2,test\n3,4,other\n",
            sources.read_pumadyn,
            "line 3, column 'split': 'other'",
        ),
        ("YearPredictionMSD.txt", "2001,1\n", sources.read_song, "is no table of 91 columns"),
        ("YearPredictionMSD.txt", f"{'1,' * 90}1\n" * 160, sources.read_song, "cannot be read from line 191 on"),
        ("YearPredictionMSD.txt", f"{'1,' * 90}1\n" * 200, sources.read_song, "has 200 rows, and needs 230 or more"),
        ("sarcos_inv.mat", "no matlab", sources.read_sarcos, "cannot be read as a MATLAB file of an array sarcos_inv"),
    ],
)
def test_files_that_are_none(
    name: str, content: str, read: Callable[[Path], Any], message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ScenarioError) as caught:
        read(tmp_path / name)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sarcos_without_its_test_rows(tmp_path: Path) -> None:
    savemat(tmp_path / "sarcos_inv.mat", {"sarcos_inv": np.ones((3, 28))})
    with pytest.raises(ScenarioError, match=r"there is no .*/sarcos_inv_test\.mat"):
        sources.read_sarcos(tmp_path / "sarcos_inv.mat")


# --- what there is to compare with --------------------------------------------------------------------------------


def test_one_process_of_all_rows_against_its_formulas(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equations 2 and 3 of the paper, SMSE and MSLL, written down again; in the data's own units."""
    config = config_of(folder)
    theta = np.log([0.9, 1.4, 0.7, 2.0, 1.1, 1.3, 0.3])
    monkeypatch.setattr("numerics.gp.likelihood.fit_one", lambda *args, **options: theta)
    found = registry.find("gp-airfoil").baselines(config, 3)

    (shard,), points = shards_of("gp-airfoil", config, 3, 1), queries_of("gp-airfoil", config, 3)
    scale, y = shard.x.std(axis=0), shard.y - shard.y.mean()

    def covariance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        apart = (a[:, None] - b[None]) / (scale * np.exp(theta[:5]))
        return np.asarray(shard.y.var() * np.exp(2 * theta[5]) * np.exp(-0.5 * (apart**2).sum(axis=2)))

    noise = shard.y.var() * np.exp(2 * theta[6])
    cross = covariance(points.x, shard.x)
    inverse = np.linalg.inv(covariance(shard.x, shard.x) + noise * np.eye(shard.n))
    mean = cross @ inverse @ y
    variance = np.diag(covariance(points.x, points.x)) - np.einsum("ij,jk,ik->i", cross, inverse, cross) + noise
    truth = points.y - shard.y.mean()
    loss = 0.5 * (np.log(variance) + (truth - mean) ** 2 / variance - np.log(y.var()) - truth**2 / y.var())
    assert found == pytest.approx(
        {"smse_full": np.mean((truth - mean) ** 2) / points.y.var(), "msll_full": loss.mean()}
    )


def test_no_process_of_many_rows(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(baselines, "MOST_ROWS", 100)
    assert registry.find("gp-protein").baselines(config_of(folder), 1) == {}


def test_rows_that_are_drawn_choose_the_hyperparameters_of_many(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(baselines, "ROWS_FIT", 100)
    monkeypatch.setattr(baselines, "ROWS_DRAWN", 60)
    asked: list[int] = []

    def fitted(kernel: Any, x: np.ndarray, y: np.ndarray, *, rows: int, rng: np.random.Generator) -> np.ndarray:
        asked.append(rows)
        return np.append(kernel.start(), -1.0)

    monkeypatch.setattr("numerics.gp.likelihood.fit_one", fitted)
    assert set(registry.find("gp-protein").baselines(config_of(folder), 2)) == {"smse_full", "msll_full"}
    assert asked == [60]


def test_pooled_rows_are_read_only() -> None:
    pooled = Pooled(np.ones((2, 1)), np.ones(2), np.ones((2, 1)), np.ones(2), ("x",), (0, 0))
    with pytest.raises(ValueError, match="read-only"):
        pooled.x[0] = 2.0
