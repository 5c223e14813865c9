"""Scenarios of Gaussian process experts: splits that lose no row, published results, and clear messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from numerics.gp.kernel_names import COMPARED
from numerics.gp.measurements import Measurements
from scenarios import registry
from scenarios.gp import baselines, cells, synthetic
from scenarios.gp.common import PooledRows
from scenarios.registry import ScenarioError
from tests.support.data_files import tables
from tests.support.documentation import ROOT
from tests.support.worlds import config_of as whole_config_of

PAPER = ROOT.parent / "shared" / "papers" / "gp_experts.txt"
needs_paper = pytest.mark.skipif(not PAPER.is_file(), reason="the shared paper is absent")
SIZES = {"concrete": (927, 103), "airfoil": (1203, 300), "pumadyn": (7168, 1024), "protein": (40_000, 5730)}

REAL = ("concrete", "airfoil", "pumadyn", "parkinsons", "pole", "protein", "sarcos", "song")
NAMES = [f"gp-{name}" for name in ("synthetic", *REAL)]
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


def config_of(folder: Path, **changes: Any) -> dict[str, Any]:
    """Seven experts of 150 rows."""
    return whole_config_of("gp-airfoil", folder, **{"gp__parts": 7, **changes})


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


# -- worlds -----------------------------------------------------------------------------------------------------------


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


def test_sites_of_a_world_of_classes_have_the_list_of_those_that_they_have(folder: Path) -> None:
    shards = shards_of("gp-cancer", whole_config_of("gp-cancer", folder), n_sites=5)
    assert sum(shard.n for shard in shards) == 150
    assert {label for shard in shards for label in shard.classes} == {"benign", "malignant"}
    for shard in shards:
        assert shard.person is None
        assert set(shard.y.tolist()) == set(range(len(shard.classes)))


@pytest.mark.parametrize("name", NAMES)
def test_test_rows_are_no_training_rows_and_few_rows_are_a_subset_of_more(name: str, folder: Path) -> None:
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
        ({"gp__rows": 1204}, 3, "gp-airfoil has 1203 training rows at most: gp.rows cannot be 1204"),
        ({"gp__rows": 250}, 3, "has 240 training rows and 60 test rows, and needs 250 and 2"),
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
    tables()["airfoil"].assign(sound_pressure_db=1.0).to_csv(tmp_path / "airfoil.csv", index=False)
    with pytest.raises(ScenarioError, match="the same in all rows"):
        shards_of("gp-airfoil", config_of(tmp_path))


def test_the_curve_is_equation_9_with_noise_beyond_the_data() -> None:
    # By hand at 0: -0.5 sin(-0.5) + 4; at 1: 5 sin 12 + 0.5 sin 2.5 + 4 cos 2.
    expected = [0.5 * np.sin(0.5) + 4.0, 5 * np.sin(12.0) + 0.5 * np.sin(2.5) + 4 * np.cos(2.0)]
    np.testing.assert_allclose(synthetic.curve(np.array([0.0, 1.0])), expected, rtol=1e-14)
    config = {"gp.rows": 20_000}
    (shard,), points = shards_of("gp-synthetic", config, n_sites=1), queries_of("gp-synthetic", config)
    assert len(points.x) == 2000
    for x, y, low, high in ((shard.x, shard.y, 0.0, 1.0), (points.x, points.y, -0.2, 1.2)):
        assert low <= x.min() < low + 0.01 < high - 0.01 < x.max() <= high
        assert np.std(y - synthetic.curve(x[:, 0])) == pytest.approx(0.2, rel=0.05)


# -- tables -----------------------------------------------------------------------------------------------------------


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


# -- baselines --------------------------------------------------------------------------------------------------------


def test_one_process_of_all_rows_against_its_formulas(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equations 2 and 3 of the paper, SMSE and MSLL, written down again; in the data's own units."""
    config = config_of(folder, gp__kernel="se")
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

    def fitted(kernel: Any, x: np.ndarray, y: np.ndarray, *, noise: None) -> np.ndarray:
        asked.append(len(y))
        return np.append(kernel.start(), -1.0)

    monkeypatch.setattr("numerics.gp.likelihood.fit_one", fitted)
    assert set(registry.find("gp-protein").baselines(config_of(folder), 2)) == {"smse_full", "msll_full"}
    assert asked == [60] * len(COMPARED)


def test_pooled_rows_are_read_only() -> None:
    pooled = PooledRows(np.ones((2, 1)), np.ones(2), np.ones((2, 1)), np.ones(2), ("x",), (0, 0))
    with pytest.raises(ValueError, match="read-only"):
        pooled.x[0] = 2.0
