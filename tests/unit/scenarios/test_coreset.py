"""Scenarios of fair clustering: splits that lose no row, equal groups, rows read by blocks, and clear messages."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numerics.coreset.grouped_rows import BLOCK_ROWS, GroupedRows
from scenarios import registry
from scenarios.coreset import synthetic
from scenarios.coreset.common import PooledRows, derived_metrics
from scenarios.coreset.split import SPLITS, group_edges
from scenarios.registry import ScenarioError
from tests.support.data_files import N_ROWS, tables
from tests.support.examples import examples
from tests.support.worlds import SYNTHETIC_ROWS, config_of

REAL = ("coreset-adult", "coreset-diabetes", "coreset-bank")
LARGER = {"coreset-adult": "Male", "coreset-diabetes": "Female", "coreset-bank": "yes"}


def shards_of(name: str, config: registry.Config, seed: int = 0, n_sites: int = 5) -> list[GroupedRows]:
    return registry.find(name).shards(config, seed, n_sites)


def read(points: GroupedRows) -> PooledRows:
    """All rows of a shard, in memory."""
    blocks = list(points.blocks())
    x = np.concatenate([block.x for block in blocks])
    return PooledRows(x, np.concatenate([block.group for block in blocks]), blocks[-1].group_names, points.features)


def entities(points: GroupedRows) -> np.ndarray:
    return np.concatenate([block.entity for block in points.blocks() if block.entity is not None])


def together(shards: list[GroupedRows]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All sites' rows in the order of their entities: these, coordinates and groups."""
    parts = [read(shard) for shard in shards]
    names = np.concatenate([entities(shard) for shard in shards])
    order = np.argsort(names, kind="stable")
    return (
        names[order],
        np.concatenate([part.x for part in parts])[order],
        np.concatenate([part.group for part in parts])[order],
    )


# -- all of them ------------------------------------------------------------------------------------------------------


def test_published_are_the_two_results_that_the_paper_states(folder: Path) -> None:
    published = {}
    for name in REAL:
        cells = registry.find(name).cells(config_of(name, folder))
        assert {cell.labels["part"] for cell in cells} == {"error", "weight", "split", "quality", "groups"}
        for cell in cells:
            for metric, value in cell.published.items():
                published[name, cell.labels["part"], metric, cell.labels["algorithm"]] = value
    assert published == {
        ("coreset-bank", "error", "error", "fair-kmeans++"): 0.035,
        ("coreset-diabetes", "quality", "gain", "fair-kmeans++"): 0.05,
    }


@pytest.fixture
def short_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams of synthetic rows of which a few thousand rows take several."""
    monkeypatch.setattr(synthetic, "_STREAM_ROWS", 4096)


@pytest.mark.usefixtures("short_streams")
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", [*REAL, "coreset-synthetic"])
def test_every_split_over_any_number_of_sites_holds_every_row_once(name: str, split: str, folder: Path) -> None:
    config = config_of(name, folder, **({"coreset__rows": 10_000} if name == "coreset-synthetic" else {}))
    whole = together(shards_of(name, config, n_sites=1))
    assert len(np.unique(whole[0])) == len(whole[0])
    for n_sites in (2, 3, 8):
        shards = shards_of(name, {**config, "coreset.split": split}, n_sites=n_sites)
        assert len(shards) == n_sites
        for one, other in zip(whole, together(shards), strict=True):
            np.testing.assert_array_equal(one, other)
        sizes = [len(entities(shard)) for shard in shards]
        assert min(sizes) >= 1
        if split != "group":
            assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("name", [*REAL, "coreset-synthetic"])
def test_shards_are_read_again_as_often_as_one_likes(name: str, folder: Path) -> None:
    for shard in shards_of(name, config_of(name, folder), n_sites=2):
        once, again = read(shard), read(shard)
        np.testing.assert_array_equal(once.x, again.x)
        np.testing.assert_array_equal(once.group, again.group)
        for block in shard.blocks():
            assert len(block.x) == len(block.group) <= BLOCK_ROWS
            assert (block.x.dtype, block.group.dtype) == (np.float64, np.int64)
            assert np.isfinite(block.x).all()


# -- splits -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.data())
@examples(200)
def test_sites_have_one_group_as_far_as_possible(counts: list[int], data: st.DataObject) -> None:
    n_sites = data.draw(st.integers(1, len(counts)) | st.integers(1, sum(counts)))
    order, edges = group_edges(np.array(counts), n_sites)
    assert sorted(order) == list(range(len(counts)))
    assert (edges[0], edges[-1], len(edges)) == (0, sum(counts), n_sites + 1)
    assert (np.diff(edges) > 0).all()
    held = np.repeat(order, np.array(counts)[order])
    groups = [set(held[first:last]) for first, last in pairwise(edges)]
    if n_sites >= len(counts):
        assert all(len(each) == 1 for each in groups)
        sites = np.bincount([each.pop() for each in groups])
        # The last site went to the group with most rows a site.
        assert all(n / (own - 1) >= (counts / sites).max() for n, own in zip(counts, sites, strict=True) if own > 1)
    else:  # no group is divided, and the last of a site, its smallest, went to the site with the fewest rows
        assert sum(len(each) for each in groups) == len(counts)
        rows = [[counts[group] for group in each] for each in groups]
        assert all(sum(each) - min(each) <= min(map(sum, rows)) for each in rows)


@pytest.mark.parametrize("name", REAL)
def test_along_a_column_sites_follow_one_another(name: str, folder: Path) -> None:
    config = config_of(name, folder, coreset__split="column", coreset__balanced="no")
    table = tables()[name.removeprefix("coreset-")]
    if "gender" in table:
        table = table[table["gender"] != "Unknown/Invalid"].reset_index(drop=True)
    ages = [table["age"].to_numpy()[entities(shard)] for shard in shards_of(name, config, n_sites=4)]
    assert all(max(one) <= min(other) for one, other in pairwise(ages))


def test_more_sites_than_rows_are_refused(folder: Path) -> None:
    config = config_of("coreset-adult", folder, coreset__rows=4)
    with pytest.raises(ScenarioError, match=r"coreset-adult: 4 rows cannot be split over 5 sites; use 1 to 4$"):
        shards_of("coreset-adult", config)


# -- real data --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REAL)
def test_two_groups_have_exactly_equal_numbers(name: str, folder: Path) -> None:
    file = registry.find(name)
    (everything,) = file.shards(config_of(name, folder, coreset__balanced="no"), 0, 1)
    natural = read(everything)
    assert len(natural.names) == 2
    larger = natural.names.index(LARGER[name])
    counts = np.bincount(natural.group)
    assert counts[larger] > counts[1 - larger]
    (balanced,) = file.shards(config_of(name, folder), 0, 1)
    assert np.bincount(read(balanced).group).tolist() == [counts.min()] * 2
    # All rows of the smaller group are there, and a draw of the larger.
    names, groups = entities(everything), natural.group
    np.testing.assert_array_equal(entities(balanced)[read(balanced).group == 1 - larger], names[groups == 1 - larger])


def test_fewer_rows_are_among_the_more(folder: Path) -> None:
    for balanced in ("yes", "no"):
        config = config_of("coreset-adult", folder, coreset__balanced=balanced)
        for few, more in ((10, 20), (20, 120)):
            one, other = (
                entities(shards_of("coreset-adult", {**config, "coreset.rows": n}, n_sites=1)[0]) for n in (few, more)
            )
            assert len(one) == few
            assert set(one) < set(other)


def test_several_columns_make_a_group_together(folder: Path) -> None:
    table = tables()["adult"]
    for typed in ("sex race", "race, sex"):
        (shard,) = shards_of("coreset-adult", config_of("coreset-adult", folder, sensitive=typed), n_sites=1)
        part = read(shard)
        assert len(part.names) == 6
        assert len(part.x) == N_ROWS  # more than two groups keep their own proportions
        expected = [f"race={race}, sex={sex}" for race, sex in zip(table["race"], table["sex"], strict=True)]
        assert [part.names[group] for group in part.group] == expected
        np.testing.assert_array_equal(part.x, table[list(part.features)].to_numpy(float))
    config = config_of("coreset-adult", folder, sensitive="race", coreset__balanced="yes")
    (shard,) = shards_of("coreset-adult", config, n_sites=1)
    counts = np.bincount(read(shard).group)
    assert counts.tolist() == [table["race"].value_counts().min()] * 3


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"sensitive": "sexes"}, "sensitive='sexes': coreset-adult has the columns of categories workclass, education"),
        ({"sensitive": "age"}, "sensitive='age': coreset-adult has the columns of categories"),
        ({"coreset__split": "rows"}, "coreset.split must be one of random, column, group, not 'rows'"),
        ({"coreset__balanced": "true"}, "coreset.balanced must be yes, no or empty, not 'true'"),
        ({"coreset__rows": -1}, "coreset.rows must be a finite number, 0 or greater, not -1"),
        ({"coreset__rows": 1}, "rows, equally many of each of its 2 groups: coreset.rows cannot be 1"),
        ({"coreset__rows": 299}, "rows, equally many of each of its 2 groups: coreset.rows cannot be 299"),
        ({"coreset__rows": 301, "coreset__balanced": "no"}, "has from 1 to 300 rows: coreset.rows cannot be 301"),
    ],
)
def test_wrong_settings_are_one_clear_line(chosen: dict[str, Any], message: str, folder: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        shards_of("coreset-adult", config_of("coreset-adult", folder, **chosen))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# -- synthetic data ---------------------------------------------------------------------------------------------------


def test_a_block_is_the_same_whatever_was_read_before() -> None:
    planted = synthetic.planted_of(SYNTHETIC_ROWS, 3)
    last = planted.stream(2)
    inorder = [planted.stream(block) for block in range(3)][2]
    for one, other in zip(last, inorder, strict=True):
        np.testing.assert_array_equal(one, other)
    # A site that begins in the middle of a stream has the rows that another would have there.
    row, x = (np.concatenate(each) for each in zip(*planted.streams(range(60_000, 140_000)), strict=True))
    np.testing.assert_array_equal(row, np.arange(60_000, 140_000))
    np.testing.assert_array_equal(x[-1000:], last[1][140_000 - 2 * 65_536 - 1000 : 140_000 - 2 * 65_536])
    assert list(planted.streams(range(65_536, 65_536))) == []


def test_fewer_synthetic_rows_are_the_first_of_more() -> None:
    config = {**SYNTHETIC_ROWS, "coreset.rows": 70_000}
    (few,), (more,) = (shards_of("coreset-synthetic", {**config, "coreset.rows": n}, 1, 1) for n in (3000, 70_000))
    np.testing.assert_array_equal(read(few).x[:3000], read(more).x[:3000])


def test_planted_clusters_have_equal_numbers_of_every_group_and_the_stated_positions() -> None:
    planted = synthetic.planted_of({"coreset.rows": 60_000, "coreset.groups": 3, "coreset.planted": 5}, 2)
    (shard,) = shards_of("coreset-synthetic", {"coreset.rows": 60_000, "coreset.groups": 3, "coreset.planted": 5}, 2, 1)
    part, rows = read(shard), entities(shard)
    cluster = planted.cluster(rows)
    assert np.unique(cluster * 3 + part.group, return_counts=True)[1].tolist() == [4000] * 15
    means = np.stack([part.x[cluster == c].mean(axis=0) for c in range(5)])
    np.testing.assert_allclose(means, planted.centers(), atol=5 / np.sqrt(12_000))
    # Groups differ in the second half of the columns alone, alike in all clusters.
    assert not planted.centers()[:, 5:].any()
    by_group = np.stack([part.x[part.group == h].mean(axis=0) for h in range(3)])
    assert np.ptp(by_group[:, :5], axis=0).max() < 0.1
    assert np.sqrt(np.mean(by_group[:, 5:] ** 2)) == pytest.approx(1, abs=0.05)


def test_rows_that_leave_groups_unequal_are_left_out() -> None:
    (shard,) = shards_of("coreset-synthetic", {"coreset.rows": 1001, "coreset.groups": 3}, n_sites=1)
    assert np.bincount(read(shard).group).tolist() == [333] * 3


def test_synthetic_sites_by_column_have_clusters_of_their_own_and_by_group_one_group() -> None:
    planted = synthetic.planted_of(SYNTHETIC_ROWS, 0)
    held = [
        {int(c) for c in planted.cluster(entities(shard))}
        for shard in shards_of("coreset-synthetic", {**SYNTHETIC_ROWS, "coreset.split": "column"}, n_sites=7)
    ]
    assert all(len(each) <= 3 for each in held)
    first = planted.centers()[:, 0]
    for one, other in pairwise(held):
        assert max(first[list(one)]) <= min(first[list(other)])
    by_group = shards_of("coreset-synthetic", {**SYNTHETIC_ROWS, "coreset.split": "group"}, n_sites=5)
    assert all(len(np.unique(read(shard).group)) == 1 for shard in by_group)


@pytest.mark.parametrize("split", SPLITS)
def test_synthetic_rows_are_never_all_in_memory(split: str) -> None:
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
        ({"coreset.rows": 3, "coreset.groups": 4}, "coreset.rows must be a finite number, from 4 to 1e+07, not 3"),
        ({"coreset.dimension": 1}, "coreset.dimension must be a finite number, from 2 to 1000, not 1"),
        ({"coreset.groups": 101}, "coreset.groups must be a finite number, from 1 to 100, not 101"),
        ({"coreset.planted": -1}, "coreset.planted must be a finite number, from 1 to 10000, not -1"),
    ],
)
def test_synthetic_rows_have_limits(chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        shards_of("coreset-synthetic", chosen)
    assert message in str(caught.value)


@pytest.mark.parametrize("scale", ["", "none"])
@pytest.mark.parametrize("n_rows", [100_000, 6])
def test_cost_of_the_planted_clusters_in_one_pass(scale: str, n_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "pooled_costs", lambda pooled, config, seed: {})
    config = {"coreset.rows": n_rows, "coreset.dimension": 4, "coreset.k": 6, "coreset.scale": scale}
    (shard,) = shards_of("coreset-synthetic", config, 1, 1)
    cluster = synthetic.planted_of(config, 1).cluster(entities(shard))
    x = read(shard).x
    if not scale:
        x = x / x.std(axis=0)
    means = {c: x[cluster == c].mean(axis=0) for c in np.unique(cluster)}
    expected = sum(((x[cluster == c] - mean) ** 2).sum() for c, mean in means.items())
    costs = registry.find("coreset-synthetic").baselines(config, 1)
    assert costs == {"cost_planted": pytest.approx(expected, rel=1e-9)}
    assert registry.find("coreset-synthetic").baselines({**config, "coreset.planted": 5}, 1) == {}


# -- baselines --------------------------------------------------------------------------------------------------------


def test_costs_of_all_rows_in_one_place(folder: Path) -> None:
    config = config_of("coreset-adult", folder, coreset__rows=60, coreset__k=4)
    costs = registry.find("coreset-adult").baselines(config, 0)
    assert set(costs) == {"cost_full", "cost_full_unfair", "cost_cklv", "cost_reassigned", "cost_fairlets"}
    assert costs["cost_fairlets"] <= costs["cost_full"] * (1 + 1e-9)
    assert costs["cost_reassigned"] <= costs["cost_cklv"] * (1 + 1e-9)
    assert costs["cost_full_unfair"] < costs["cost_full"]
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
        config = config_of("coreset-adult", folder, coreset__rows=60, coreset__k=3, **chosen)
        assert set(baselines(config, 0)) == {"cost_full", "cost_full_unfair"}


def test_many_rows_are_not_clustered_in_one_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.coreset.baselines.MOST_ROWS", 50)
    assert registry.find("coreset-adult").baselines(config_of("coreset-adult", folder, coreset__rows=60), 0) == {}


def test_derived_metrics_follow_from_the_costs() -> None:
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
