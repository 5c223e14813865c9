"""The worlds of fair clustering: splits that lose no row, equal colours, rows made by blocks, and clear messages."""

import gzip
import hashlib
import json
import os
import subprocess
import sys
import tomllib
import tracemalloc
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numerics.coreset.grouped_rows import BLOCK_ROWS, GroupedRows
from protocols.settings import run_keys
from scenarios import registry, sources
from scenarios.coreset import synthetic as drawn
from scenarios.coreset.common import Pooled, derived_metrics
from scenarios.coreset.split import SPLITS, colour_edges
from scenarios.registry import ScenarioError
from server.evaluation import evaluate
from tests.support.examples import examples

ROOT = Path(__file__).resolve().parents[3]
SHARED = Path(os.environ.get(sources.DATA_VARIABLE) or ROOT.parent / "shared" / "data")
needs_shared = pytest.mark.skipif(
    not all((SHARED / f"{name}.csv.gz").is_file() for name in ("adult", "diabetes130")),
    reason="the shared adult.csv.gz and diabetes130.csv.gz are absent",
)

MEASURED = ("coreset-adult", "coreset-diabetes", "coreset-bank")
SENSITIVE = {"coreset-adult": "sex", "coreset-diabetes": "gender", "coreset-bank": "married"}
LARGER = {"coreset-adult": "Male", "coreset-diabetes": "Female", "coreset-bank": "yes"}
N_FILE = 300
SYNTHETIC = {"coreset.rows": 150_000, "coreset.dimension": 3, "coreset.colours": 3, "coreset.planted": 7}
"""More than two streams, and a last cycle of clusters that is begun and not ended."""


def made_tables() -> dict[str, pd.DataFrame]:
    """Small files in the shape of the three data sets; two of three rows have the larger colour."""
    rng = np.random.default_rng(5)

    def counts(*names: str) -> dict[str, np.ndarray]:
        return {name: rng.integers(0, 90, N_FILE) for name in names}

    def classes(**values: str) -> dict[str, np.ndarray]:
        return {name: rng.choice(np.array(listed.split(), object), N_FILE) for name, listed in values.items()}

    adult = {
        **counts("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"),
        **classes(workclass="Private ?", education="HS-grad 11th", marital_status="Divorced", occupation="Sales ?"),
        **classes(relationship="Wife Husband", race="White Black Other", sex="Male Male Female"),
        **classes(native_country="? Peru", income="<=50K >50K"),
    }
    diabetes = {
        **counts("encounter_id", "time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications"),
        **counts("number_outpatient", "number_emergency", "number_inpatient", "number_diagnoses"),
        **classes(race="Caucasian ? Asian", gender="Female Female Male", age="[10-20) [60-70) [70-80)"),
    }
    diabetes["gender"][[3, 8]] = "Unknown/Invalid"
    bank = {
        **counts("age", "balance", "day", "duration", "campaign", "pdays", "previous"),
        **classes(job="admin. services", marital="married married divorced single", education="primary unknown"),
        **classes(default="no yes", housing="no yes", loan="no yes", y="no yes"),
    }
    return {"adult.csv": pd.DataFrame(adult), "diabetes130.csv": pd.DataFrame(diabetes), "bank.csv": pd.DataFrame(bank)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of small data files, bank's with semicolons and quotes as the UCI repository has it."""
    path = tmp_path_factory.mktemp("data")
    for name, table in made_tables().items():
        table.to_csv(path / name, index=False, **({"sep": ";", "quoting": 2} if name == "bank.csv" else {}))
    return path


def shards_of(name: str, config: registry.Config, seed: int = 0, n_sites: int = 5) -> list[GroupedRows]:
    return registry.find(name).shards(config, seed, n_sites)


def read(points: GroupedRows) -> Pooled:
    """All rows of a shard, in memory."""
    blocks = list(points.blocks())
    x = np.concatenate([block.x for block in blocks])
    return Pooled(x, np.concatenate([block.group for block in blocks]), blocks[-1].group_names, points.features)


def entities(points: GroupedRows) -> np.ndarray:
    return np.concatenate([block.entity for block in points.blocks() if block.entity is not None])


def together(shards: list[GroupedRows]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All sites' rows in the order of their entities: these, coordinates and colours."""
    parts = [read(shard) for shard in shards]
    names = np.concatenate([entities(shard) for shard in shards])
    order = np.argsort(names, kind="stable")
    return (
        names[order],
        np.concatenate([part.x for part in parts])[order],
        np.concatenate([part.colour for part in parts])[order],
    )


def digest(shards: list[GroupedRows]) -> str:
    """Hash of everything that the shards hold, bit for bit."""
    found = hashlib.sha256()
    for shard in shards:
        part = read(shard)
        found.update(f"{part.names} {part.features} {part.x.dtype} {part.x.shape}".encode())
        found.update(part.x.tobytes() + part.colour.tobytes() + entities(shard).tobytes())
    return found.hexdigest()


def config_of(name: str, folder: Path, **chosen: Any) -> dict[str, Any]:
    own = SYNTHETIC if name == "coreset-synthetic" else {"data": str(folder)}
    return {**own, **{key.replace("__", ".").replace("_", "-"): value for key, value in chosen.items()}}


# --- all of them --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MEASURED)
def test_registered_with_a_table_that_the_run_configuration_can_take(name: str, folder: Path) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    scenario, config = registry.find(name), config_of(name, folder)
    assert (scenario.protocol, scenario.any_number) == ("coreset", True)
    cells = scenario.cells(config)
    assert len({tuple(cell.labels.items()) for cell in cells}) == len(cells)
    assert {cell.labels["part"] for cell in cells} == {"error", "weight", "split", "quality", "colours"}
    for cell in cells:
        assert set(cell.published) <= set(scenario.columns)
        for key, value in (*cell.settings.items(), *cell.defaults.items()):
            section, _, short = key.rpartition(".")
            assert type(value) is type((declared[section] if section else declared)[short]), key
            assert run_keys()[key].check(value) == value
        for label, value in cell.labels.items():  # each row can be asked for by what the table calls it
            asked = f"{label}={value}" if " " not in str(value) else f"part={cell.labels['part']}"
            assert cell.labels in [c.labels for c in registry.select_cells(scenario, {**config, "cells": asked})]


def test_published_are_the_two_figures_that_the_paper_states(folder: Path) -> None:
    found = {}
    for name in MEASURED:
        for cell in registry.find(name).cells(config_of(name, folder)):
            for metric, value in cell.published.items():
                found[name, cell.labels["part"], metric, cell.labels["algorithm"]] = value
    assert found == {
        ("coreset-bank", "error", "error", "fair-kmeans++"): 0.035,
        ("coreset-diabetes", "quality", "gain", "fair-kmeans++"): 0.05,
    }


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", [*MEASURED, "coreset-synthetic"])
def test_every_split_over_any_number_of_sites_holds_every_row_once(name: str, split: str, folder: Path) -> None:
    whole = together(shards_of(name, config_of(name, folder), n_sites=1))
    assert len(np.unique(whole[0])) == len(whole[0])
    for n_sites in (2, 3, 8):
        shards = shards_of(name, config_of(name, folder, coreset__split=split), n_sites=n_sites)
        assert len(shards) == n_sites
        for one, other in zip(whole, together(shards), strict=True):
            np.testing.assert_array_equal(one, other)
        sizes = [len(entities(shard)) for shard in shards]
        assert min(sizes) >= 1
        if split != "colour":
            assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("name", [*MEASURED, "coreset-synthetic"])
def test_the_same_in_another_process_and_others_for_another_seed(name: str, folder: Path) -> None:
    config = config_of(name, folder, coreset__split="colour")
    code = f"""
import json, sys
from scenarios import registry
from tests.unit.scenarios.test_coreset import digest
found = digest(registry.find({name!r}).shards({config!r}, 5, 4))
print(json.dumps([found, sorted({{"numba", "ortools"}} & set(sys.modules))]))
"""
    environment = {key: value for key, value in os.environ.items() if key != sources.DATA_VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    # A site of another protocol imports this package too, and must not wait for a compiler.
    assert json.loads(done.stdout) == [digest(shards_of(name, config, 5, 4)), []]
    assert digest(shards_of(name, config, 6, 4)) != digest(shards_of(name, config, 5, 4))


@pytest.mark.parametrize("name", [*MEASURED, "coreset-synthetic"])
def test_shards_are_read_again_as_often_as_one_likes(name: str, folder: Path) -> None:
    for shard in shards_of(name, config_of(name, folder), n_sites=2):
        once, again = read(shard), read(shard)
        np.testing.assert_array_equal(once.x, again.x)
        np.testing.assert_array_equal(once.colour, again.colour)
        for block in shard.blocks():
            assert len(block.x) == len(block.group) <= BLOCK_ROWS
            assert (block.x.dtype, block.group.dtype) == (np.float64, np.int64)
            assert np.isfinite(block.x).all()


# --- splits -------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.data())
@examples(200)
def test_sites_have_one_colour_as_far_as_possible(counts: list[int], data: st.DataObject) -> None:
    n_sites = data.draw(st.integers(1, sum(counts)))
    order, edges = colour_edges(np.array(counts), n_sites)
    assert sorted(order) == list(range(len(counts)))
    assert (edges[0], edges[-1], len(edges)) == (0, sum(counts), n_sites + 1)
    assert (np.diff(edges) > 0).all()
    held = np.repeat(order, np.array(counts)[order])
    colours = [set(held[first:last]) for first, last in pairwise(edges)]
    if n_sites >= len(counts):
        assert all(len(each) == 1 for each in colours)
    else:  # no colour is divided
        assert sum(len(each) for each in colours) == len(counts)


@pytest.mark.parametrize("name", MEASURED)
def test_along_a_column_sites_follow_one_another(name: str, folder: Path) -> None:
    config = config_of(name, folder, coreset__split="column", coreset__balanced="no")
    file = {"coreset-adult": "adult.csv", "coreset-diabetes": "diabetes130.csv", "coreset-bank": "bank.csv"}[name]
    table = made_tables()[file]
    if "gender" in table:
        table = table[table["gender"] != "Unknown/Invalid"].reset_index(drop=True)
    ages = [table["age"].to_numpy()[entities(shard)] for shard in shards_of(name, config, n_sites=4)]
    assert all(max(one) <= min(other) for one, other in pairwise(ages))


def test_more_sites_than_rows_are_refused(folder: Path) -> None:
    config = config_of("coreset-adult", folder, coreset__rows=4)
    with pytest.raises(ScenarioError, match=r"coreset-adult: 4 rows cannot be split over 5 sites; use 1 to 4$"):
        shards_of("coreset-adult", config)


# --- given data ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MEASURED)
def test_two_colours_have_exactly_equal_numbers(name: str, folder: Path) -> None:
    file = registry.find(name)
    (everything,) = file.shards(config_of(name, folder, coreset__balanced="no"), 0, 1)
    natural = read(everything)
    assert len(natural.names) == 2
    larger = natural.names.index(LARGER[name])
    counts = np.bincount(natural.colour)
    assert counts[larger] > counts[1 - larger]
    (balanced,) = file.shards(config_of(name, folder), 0, 1)
    assert np.bincount(read(balanced).colour).tolist() == [counts.min()] * 2
    # Of the smaller colour all rows are there, of the larger a draw.
    names, colours = entities(everything), natural.colour
    np.testing.assert_array_equal(entities(balanced)[read(balanced).colour == 1 - larger], names[colours == 1 - larger])


def test_fewer_rows_are_among_the_more(folder: Path) -> None:
    for balanced in ("yes", "no"):
        for few, more in ((10, 20), (20, 120)):
            one, other = (
                entities(
                    shards_of(
                        "coreset-adult", config_of("", folder, coreset__rows=n, coreset__balanced=balanced), n_sites=1
                    )[0]
                )
                for n in (few, more)
            )
            assert len(one) == few
            assert set(one) < set(other)


def test_several_columns_make_a_colour_together(folder: Path) -> None:
    table = made_tables()["adult.csv"]
    for typed in ("sex race", "race, sex"):
        (shard,) = shards_of("coreset-adult", config_of("", folder, sensitive=typed), n_sites=1)
        part = read(shard)
        assert len(part.names) == 6
        assert len(part.x) == N_FILE  # more than two colours keep their own proportions
        expected = [f"race={race}, sex={sex}" for race, sex in zip(table["race"], table["sex"], strict=True)]
        assert [part.names[colour] for colour in part.colour] == expected
        np.testing.assert_array_equal(part.x, table[list(part.features)].to_numpy(float))
    (shard,) = shards_of("coreset-adult", config_of("", folder, sensitive="race", coreset__balanced="yes"), n_sites=1)
    counts = np.bincount(read(shard).colour)
    assert counts.tolist() == [table["race"].value_counts().min()] * 3


def test_columns_are_quantities_alone_and_unknown_classes_are_left_out(folder: Path) -> None:
    (diabetes,) = shards_of("coreset-diabetes", config_of("", folder, coreset__balanced="no"), n_sites=1)
    part = read(diabetes)
    assert (len(part.features), len(part.x)) == (8, N_FILE - 2)
    assert part.names == ("Female", "Male")
    assert not [name for name in part.features if "id" in name.split("_") or "nbr" in name]
    bank = sources.read_bank(folder / "bank.csv")
    assert len(bank.features) == 7
    assert set(bank.classes["married"][bank.classes["marital"] == "married"]) == {"yes"}
    assert set(bank.classes["married"][bank.classes["marital"] != "married"]) == {"no"}


def test_bank_with_commas_gzipped_and_in_its_additional_layout(tmp_path: Path, folder: Path) -> None:
    table = made_tables()["bank.csv"]
    with gzip.open(tmp_path / "bank-full.csv.gz", "wt") as file:
        table.to_csv(file, index=False)
    data = sources.read_bank(sources.find_bank({"data": str(tmp_path)}))
    np.testing.assert_array_equal(data.x, sources.read_bank(folder / "bank.csv").x)
    names = ["emp.var.rate", "cons.price.idx", "cons.conf.idx", "euribor3m", "nr.employed"]
    additional = table.drop(columns=["balance", "day"]).assign(**dict.fromkeys(names, 1.5))
    additional.loc[4, "marital"] = "unknown"
    additional.to_csv(tmp_path / "bank-additional.csv", sep=";", index=False)
    data = sources.read_bank(tmp_path / "bank-additional.csv")
    assert data.x.shape == (N_FILE - 1, 10)


def test_data_from_openml(monkeypatch: pytest.MonkeyPatch, no_data_variable: None) -> None:
    tables, asked = made_tables(), []
    frames = {
        1590: tables["adult.csv"].rename(columns=lambda name: name.replace("_", "-")),
        4541: tables["diabetes130.csv"],
    }

    def fetched(*args: Any, data_id: int, **kwargs: Any) -> SimpleNamespace:
        asked.append(data_id)
        frame = frames[data_id].replace("?", np.nan)
        return SimpleNamespace(frame=frame.astype({"race": "category"}))

    monkeypatch.setattr("scenarios.sources.files.fetch_openml", fetched)
    adult, diabetes = sources.read_adult(sources.find_adult({})), sources.read_diabetes(sources.find_diabetes({}))
    assert asked == [1590, 4541]
    np.testing.assert_array_equal(adult.x, tables["adult.csv"][list(adult.features)].to_numpy(float))
    assert adult.classes["workclass"].tolist() == tables["adult.csv"]["workclass"].tolist()
    assert set(diabetes.classes["race"]) == {"Caucasian", "?", "Asian"}
    assert len(diabetes.x) == N_FILE - 2

    def unreachable(*args: Any, **kwargs: Any) -> None:
        raise OSError("no network")

    monkeypatch.setattr("scenarios.sources.files.fetch_openml", unreachable)
    for read_data, file in ((sources.read_adult, "adult.csv"), (sources.read_diabetes, "diabetic_data.csv")):
        with pytest.raises(ScenarioError, match=rf"OpenML \(OSError: no network\).*{file}"):
            read_data(None)


def test_bank_without_its_file_is_one_clear_line(no_data_variable: None) -> None:
    for call in ("cells", "shards"):
        with pytest.raises(
            ScenarioError, match=r"Bank Marketing .* in no file: set .* data to the bank\.csv"
        ) as caught:
            registry.find("coreset-bank").cells({}) if call == "cells" else shards_of("coreset-bank", {})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"sensitive": "sexes"}, "sensitive='sexes': coreset-adult has the columns of classes workclass, education"),
        ({"sensitive": "age"}, "sensitive='age': coreset-adult has the columns of classes"),
        ({"coreset__split": "rows"}, "coreset.split must be one of random, column, colour, not 'rows'"),
        ({"coreset__balanced": "true"}, "coreset.balanced must be yes, no or empty, not 'true'"),
        ({"coreset__rows": -1}, "coreset.rows must be a finite number, 0 or greater, not -1"),
        ({"coreset__rows": 1}, "rows, so many of each of its 2 colours: coreset.rows cannot be 1"),
        ({"coreset__rows": 299}, "rows, so many of each of its 2 colours: coreset.rows cannot be 299"),
        ({"coreset__rows": 301, "coreset__balanced": "no"}, "has from 1 to 300 rows: coreset.rows cannot be 301"),
    ],
)
def test_wrong_settings_are_one_clear_line(chosen: dict[str, Any], message: str, folder: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        shards_of("coreset-adult", config_of("", folder, **chosen))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


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
def test_a_wrong_file_is_one_clear_line(tmp_path: Path, change: Any, message: str) -> None:
    change(made_tables()["adult.csv"]).to_csv(tmp_path / "adult.csv", index=False)
    with pytest.raises(ScenarioError) as caught:
        shards_of("coreset-adult", {"data": str(tmp_path)})
    assert str(caught.value).startswith(str(tmp_path / "adult.csv"))
    assert message in str(caught.value)


def test_a_directory_without_the_file(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"neither a CSV file nor a directory that holds diabetes130\.csv"):
        registry.find("coreset-diabetes").cells({"data": str(tmp_path)})


@needs_shared
def test_the_shared_files_have_the_rows_that_are_known() -> None:
    adult = read(shards_of("coreset-adult", {"data": str(SHARED)}, n_sites=1)[0])
    assert np.bincount(adult.colour).tolist() == [16192, 16192]
    assert adult.x.shape[1] == 6
    diabetes = read(shards_of("coreset-diabetes", {"data": str(SHARED)}, n_sites=1)[0])
    assert np.bincount(diabetes.colour).tolist() == [47055, 47055]
    several = {"data": str(SHARED), "sensitive": "sex race"}
    assert len(read(shards_of("coreset-adult", several, n_sites=1)[0]).names) == 10


# --- made data ----------------------------------------------------------------------------------------------------


def test_a_block_is_the_same_whatever_was_read_before() -> None:
    planted = drawn.planted_of(SYNTHETIC, 3)
    last = planted.stream(2)
    inorder = [planted.stream(block) for block in range(3)][2]
    for one, other in zip(last, inorder, strict=True):
        np.testing.assert_array_equal(one, other)
    # A site that begins in the middle of a stream has the rows that another would have there.
    row, x = (np.concatenate(each) for each in zip(*planted.streams(range(60_000, 140_000)), strict=True))
    np.testing.assert_array_equal(row, np.arange(60_000, 140_000))
    np.testing.assert_array_equal(x[-1000:], last[1][140_000 - 2 * 65_536 - 1000 : 140_000 - 2 * 65_536])
    assert list(planted.streams(range(65_536, 65_536))) == []


def test_fewer_made_rows_are_the_first_of_the_more() -> None:
    (few,), (more,) = (shards_of("coreset-synthetic", {**SYNTHETIC, "coreset.rows": n}, 1, 1) for n in (3000, 70_000))
    np.testing.assert_array_equal(read(few).x[:3000], read(more).x[:3000])


def test_planted_clusters_have_equal_numbers_of_every_colour_and_lie_where_they_should() -> None:
    planted = drawn.planted_of({"coreset.rows": 60_000, "coreset.colours": 3, "coreset.planted": 5}, 2)
    (shard,) = shards_of(
        "coreset-synthetic", {"coreset.rows": 60_000, "coreset.colours": 3, "coreset.planted": 5}, 2, 1
    )
    part, rows = read(shard), entities(shard)
    cluster = planted.cluster(rows)
    assert np.unique(cluster * 3 + part.colour, return_counts=True)[1].tolist() == [4000] * 15
    means = np.stack([part.x[cluster == c].mean(axis=0) for c in range(5)])
    np.testing.assert_allclose(means, planted.centers(), atol=5 / np.sqrt(12_000))
    # Colours differ in the second half of the columns alone, alike in all clusters.
    assert not planted.centers()[:, 5:].any()
    by_colour = np.stack([part.x[part.colour == h].mean(axis=0) for h in range(3)])
    assert np.ptp(by_colour[:, :5], axis=0).max() < 0.1
    assert np.sqrt(np.mean(by_colour[:, 5:] ** 2)) == pytest.approx(1, abs=0.05)


def test_rows_that_leave_colours_unequal_are_left_out() -> None:
    (shard,) = shards_of("coreset-synthetic", {"coreset.rows": 1001, "coreset.colours": 3}, n_sites=1)
    assert np.bincount(read(shard).colour).tolist() == [333] * 3


def test_made_sites_by_column_have_clusters_of_their_own_and_by_colour_one_colour() -> None:
    planted = drawn.planted_of(SYNTHETIC, 0)
    held = [
        {int(c) for c in planted.cluster(entities(shard))}
        for shard in shards_of("coreset-synthetic", {**SYNTHETIC, "coreset.split": "column"}, n_sites=7)
    ]
    assert all(len(each) <= 3 for each in held)
    first = planted.centers()[:, 0]
    for one, other in pairwise(held):
        assert max(first[list(one)]) <= min(first[list(other)])
    by_colour = shards_of("coreset-synthetic", {**SYNTHETIC, "coreset.split": "colour"}, n_sites=5)
    assert all(len(np.unique(read(shard).colour)) == 1 for shard in by_colour)


@pytest.mark.parametrize("split", SPLITS)
def test_made_rows_are_never_all_in_memory(split: str) -> None:
    shard = shards_of("coreset-synthetic", {"coreset.split": split}, n_sites=2)[1]  # 40 MB of its million rows
    tracemalloc.start()
    n = sum(len(block.x) for block in shard.blocks())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert n == 500_000
    assert peak < 25e6


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"coreset.rows": 10_000_001}, "coreset.rows must be a finite number, from 2 to 1e+07, not 10000001"),
        ({"coreset.rows": 3, "coreset.colours": 4}, "coreset.rows must be a finite number, from 4 to 1e+07, not 3"),
        ({"coreset.dimension": 1}, "coreset.dimension must be a finite number, from 2 to 1000, not 1"),
        ({"coreset.colours": 101}, "coreset.colours must be a finite number, from 1 to 100, not 101"),
        ({"coreset.planted": -1}, "coreset.planted must be a finite number, from 1 to 10000, not -1"),
    ],
)
def test_made_rows_have_limits(chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        shards_of("coreset-synthetic", chosen)
    assert message in str(caught.value)


@pytest.mark.parametrize("scale", ["", "none"])
@pytest.mark.parametrize("n_rows", [100_000, 6])
def test_cost_of_the_planted_clusters_in_one_pass(scale: str, n_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "pooled_costs", lambda pooled, config, seed: {})
    config = {"coreset.rows": n_rows, "coreset.dimension": 4, "coreset.k": 6, "coreset.scale": scale}
    (shard,) = shards_of("coreset-synthetic", config, 1, 1)
    cluster = drawn.planted_of(config, 1).cluster(entities(shard))
    x = read(shard).x
    if not scale:
        x = x / x.std(axis=0)
    means = {c: x[cluster == c].mean(axis=0) for c in np.unique(cluster)}
    expected = sum(((x[cluster == c] - mean) ** 2).sum() for c, mean in means.items())
    found = registry.find("coreset-synthetic").baselines(config, 1)
    assert found == {"cost_planted": pytest.approx(expected, rel=1e-9)}
    assert registry.find("coreset-synthetic").baselines({**config, "coreset.planted": 5}, 1) == {}


# --- what there is to compare with --------------------------------------------------------------------------------


def test_costs_of_all_rows_in_one_place(folder: Path) -> None:
    config = config_of("", folder, coreset__rows=60, coreset__k=4)
    found = registry.find("coreset-adult").baselines(config, 0)
    assert set(found) == {"cost_full", "cost_full_unfair", "cost_cklv", "cost_reassigned", "cost_fairlets"}
    assert found["cost_fairlets"] <= found["cost_full"] * (1 + 1e-9)
    assert found["cost_reassigned"] <= found["cost_cklv"] * (1 + 1e-9)
    assert found["cost_full_unfair"] < found["cost_full"]
    # In units of the pooled standard deviation the whole costs n d; with one cluster, fair or not.
    one = registry.find("coreset-adult").baselines({**config, "coreset.k": 1}, 0)
    for name in ("cost_full", "cost_full_unfair", "cost_cklv", "cost_reassigned"):
        assert one[name] == pytest.approx(60 * 6)
    raw = registry.find("coreset-adult").baselines({**config, "coreset.k": 1, "coreset.scale": "none"}, 0)
    (shard,) = shards_of("coreset-adult", config, n_sites=1)
    assert raw["cost_full"] == pytest.approx(read(shard).x.var(axis=0).sum() * 60)


def test_the_papers_algorithms_are_left_out_where_they_do_not_apply(folder: Path) -> None:
    baselines = registry.find("coreset-adult").baselines
    for chosen in ({"sensitive": "race"}, {"coreset__balance": 0.8}, {"coreset__balanced": "no"}):
        config = config_of("", folder, coreset__rows=60, coreset__k=3, **chosen)
        assert set(baselines(config, 0)) == {"cost_full", "cost_full_unfair"}


def test_many_rows_are_not_clustered_in_one_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.coreset.baselines.MOST_ROWS", 50)
    assert registry.find("coreset-adult").baselines(config_of("", folder, coreset__rows=60), 0) == {}


@needs_shared
def test_fair_kmeans_gains_over_the_fairlets_on_diabetes() -> None:
    """Figure 4: at 1000 rows the paper's algorithms are in this order, and the fairlets bound them all."""
    config = {"data": str(SHARED), "coreset.rows": 1000, "coreset.k": 20, "coreset.restarts": 2}
    found = registry.find("coreset-diabetes").baselines(config, 0)
    assert found["cost_fairlets"] < found["cost_full"] < found["cost_reassigned"] < found["cost_cklv"]
    # An independent implementation saw .981 for k-means++ and .976 for the reassigned fairlets.
    assert found["cost_full"] / found["cost_cklv"] == pytest.approx(0.97, abs=0.03)


def test_derived_metrics_are_what_follows_from_the_costs() -> None:
    metrics = {"cost": 110.0, "cost_full": 100.0, "cost_full_unfair": 80.0, "cost_cklv": 125.0, "cost_fairlets": 50.0}
    metrics |= {"cost_reassigned": 120.0, "cost_planted": 88.0}
    assert derived_metrics(metrics) == pytest.approx(
        {
            "error": 0.1,
            "relative": 0.88,
            "fairlet_share": 0.4,
            "gain": 1 / 12,
            "price_of_fairness_full": 0.25,
            "excess": 0.25,
        }
    )
    assert derived_metrics({"cost": 1.0}) == {}
    assert derived_metrics({"cost": 1.0, "cost_full": 0.0}) == {}


def test_evaluation_derives_from_each_repetitions_metrics_and_baselines() -> None:
    """Means of ratios, which are no ratios of means."""
    base = {0: 100.0, 1: 50.0}
    scenario = registry.Scenario(
        name="x",
        protocol="coreset",
        sites=1,
        any_number=True,
        source="",
        summary="",
        shards=lambda config, seed, n_sites: [],
        baselines=lambda config, seed: {"cost_full": base[seed]},
        derived_metrics=derived_metrics,
    )

    class Strategy:
        seed = 0

        def __getattr__(self, name: str) -> Any:
            return lambda *args: {}

        def metrics(self, outcome: float) -> Mapping[str, float]:
            return {"cost": outcome}

    found = evaluate({}, scenario, Strategy(), [110.0, 100.0]).metrics  # type: ignore[arg-type]
    assert found["error"] == pytest.approx((0.1 + 1.0) / 2)
    assert found["cost"] == 105
