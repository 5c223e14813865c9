"""The coreset of fair k-means: exact sums, measured movement, groups apart, and a size that holds for any rows."""

import gzip
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from numerics.coreset.features import Features
from numerics.coreset.grouped_rows import GroupedRows, RowBlock
from numerics.coreset.nearest_neighbors import nearest
from numerics.coreset.reduction import reduce, union
from numerics.coreset.summary import CONSTRUCTIONS, ShardCoreset, summarize
from numerics.coreset.weighted_points import WeightedPoints, moments
from tests.support.examples import examples

SHARED = Path(os.environ.get("CONSILIENCE_DATA") or Path(__file__).resolve().parents[5] / "shared" / "data")
ADULT = SHARED / "adult.csv.gz"


def generator(seed=0):
    return np.random.default_rng(seed)


def cloud(n=3000, d=4, n_groups=3, seed=0):
    """Rows of a mixture far from the origin, in columns of very different units, and their groups."""
    rng = generator(seed)
    centers = rng.normal(size=(6, d)) * 4
    x = (centers[rng.integers(6, size=n)] + rng.normal(size=(n, d))) * 10.0 ** np.arange(d) + 1000
    return x, rng.integers(n_groups, size=n)


def points_of(x, group, cuts=()):
    """Points that are read in blocks cut at some rows."""
    names = tuple(f"group {h}" for h in range(int(group.max()) + 1))

    def blocks():
        for part in np.split(np.arange(len(x)), cuts):
            seen = names[: int(group[: part.max(initial=-1) + 1].max(initial=0)) + 1]
            yield RowBlock(x[part], group[part], seen)

    return GroupedRows(tuple(f"x_{j}" for j in range(x.shape[1])), blocks)


def summary(x, group, size, cuts=(), seed=0, **how) -> ShardCoreset:
    return summarize(points_of(x, group, cuts), size, rng=generator(seed), **how)


def assert_exact(x, group, coreset: WeightedPoints, place):
    """The coreset is what its definition says of the rows that its points stand for."""
    assert coreset.weights.dtype == np.int64
    assert np.array_equal(np.bincount(place, minlength=len(coreset.points)), coreset.weights)
    assert coreset.weights.min() >= 1
    assert np.array_equal(coreset.groups[place], group)
    for h in range(int(group.max()) + 1):
        own = coreset.groups == h
        np.testing.assert_allclose(coreset.weights[own] @ coreset.points[own], x[group == h].sum(axis=0), rtol=1e-11)
    np.testing.assert_allclose(coreset.movement, ((x - coreset.points[place]) ** 2).sum(axis=0), rtol=1e-9, atol=1e-12)
    assert (coreset.movement >= 0).all()
    mean, variance = moments(coreset)
    np.testing.assert_allclose(mean, x.mean(axis=0), rtol=1e-11)
    np.testing.assert_allclose(variance, x.var(axis=0), rtol=1e-9)


@pytest.mark.parametrize("construction", CONSTRUCTIONS)
@pytest.mark.parametrize("projection", [0, 2])
def test_sums_are_exact_however_locations_are_found(construction, projection):
    x, group = cloud()
    found = summary(x, group, 100, (700, 1500), construction=construction, projection=projection)
    assert found.n_rows == len(x)
    assert len(found.coreset.points) <= 300
    assert_exact(x, group, found.coreset, found.point)
    np.testing.assert_allclose(found.movement_by_group.sum(axis=0), found.coreset.movement)
    for h in range(3):
        own = group == h
        moved = ((x[own] - found.coreset.points[found.point[own]]) ** 2).sum(axis=0)
        np.testing.assert_allclose(found.movement_by_group[h], moved, rtol=1e-9)


@examples(40)
@given(data=st.data())
def test_any_blocks_and_any_order_give_a_valid_coreset(data):
    n = data.draw(st.integers(1, 400))
    # Few different values: duplicates, equal distances, constant columns.
    values = st.integers(0, data.draw(st.sampled_from([0, 2, 50])))
    rows = data.draw(st.lists(st.tuples(values, values, st.integers(0, 3)), min_size=n, max_size=n))
    table = np.array(rows, dtype=np.float64)
    x, group = table[:, :2], table[:, 2].astype(np.int64)
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=4)))
    size = data.draw(st.integers(1, 60))
    found = summary(x, group, size, cuts, seed=data.draw(st.integers(0, 5)))
    n_distinct = len(np.unique(x, axis=0))
    n_locations = len(found.coreset.points)
    assert n_locations <= size * 4
    assert_exact(x, group, found.coreset, found.point)
    if n_distinct <= size:
        assert not found.coreset.movement.any()
        assert n_locations == len(np.unique(table, axis=0))


def test_the_cost_of_rows_that_follow_their_points_is_that_of_the_coreset_and_the_movement():
    """Sum over rows of |x - c(point)|^2 = coreset cost + movement, for any centers: the bound of spec and report."""
    x, group = cloud()
    found = summary(x, group, 50)
    points, weights = found.coreset.points, found.coreset.weights
    for seed in range(5):
        centers = x[generator(seed).integers(len(x), size=7)]
        to = ((points[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
        cost = ((x - centers[to[found.point]]) ** 2).sum()
        on_coreset = weights @ ((points - centers[to]) ** 2).sum(axis=1)
        assert cost == pytest.approx(on_coreset + found.coreset.movement.sum(), rel=1e-9)
        free = ((x[:, None] - centers) ** 2).sum(axis=2).min(axis=1).sum()
        assert free <= cost * (1 + 1e-12)


def test_a_union_of_coresets_is_a_coreset_of_the_union():
    """Lemma 6, with shards of one group each, and again after the center compressed it."""
    x, group = cloud()
    parts = [summary(x[group == h], np.full((group == h).sum(), h), 60, seed=h) for h in range(3)]
    rows = np.concatenate([x[group == h] for h in range(3)])
    groups = np.sort(group)
    together = union([part.coreset for part in parts])
    starts = np.cumsum([0] + [len(part.coreset.points) for part in parts[:-1]])
    place = np.concatenate([part.point + start for part, start in zip(parts, starts, strict=True)])
    assert_exact(rows, groups, together, place)
    smaller, index = reduce(together, 40, generator(), moments(together)[1] ** 0.5)
    assert len(smaller.points) <= 120
    assert_exact(rows, groups, smaller, index[place])
    same, index = reduce(together, 1000, generator(), np.ones(4))
    assert same is together
    assert np.array_equal(index, np.arange(len(together.points)))


def test_groups_at_one_location_stay_apart():
    """Figure 1: two sites that each hold one place; whether their union is balanced there, only groups tell.

    With centers at 0 and 10 and as many rows of either group in all, an exactly fair assignment carries as many rows
    over as one group has more than the other at 0.
    """
    x = np.repeat([[0.0], [10.0]], 50, axis=0)

    def fair_cost(points, weights, groups):
        at_zero = points[:, 0] < 5
        return 100.0 * abs(weights[at_zero & (groups == 0)].sum() - weights[at_zero & (groups == 1)].sum())

    for group, cost in ((np.tile([0, 1], 50), 0.0), (np.repeat([0, 1], 50), 5000.0)):
        coreset = union([summary(x[:50], group[:50], 2).coreset, summary(x[50:], group[50:], 2, seed=1).coreset])
        assert fair_cost(coreset.points, coreset.weights, coreset.groups) == cost
        # Without groups all that is left is the ratio of all rows: both worlds look the same.
        blind = union([summary(part, np.zeros(50, np.int64), 2).coreset for part in np.split(x, 2)])
        halves = np.repeat(blind.weights / 2, 2)
        assert fair_cost(np.repeat(blind.points, 2, axis=0), halves, np.tile([0, 1], len(blind.points))) == 0.0


@pytest.mark.parametrize("grid", [None, 0, 2, 6])
def test_the_size_never_collapses(grid):
    """With 25 seeds: real numbers, or integers, whose distances are few and equal."""
    for seed in range(25):
        x = generator(seed).standard_t(2, size=(1500, 3))
        if grid is not None:
            x = np.rint(x * grid) if grid else np.rint(x[:, :1])
        features = Features(100, x.shape[1])
        features.insert(x)
        n_distinct = len(np.unique(x, axis=0))
        assert min(75, n_distinct) <= features.in_use <= 100


def test_no_feature_costs_more_than_the_threshold():
    x = generator().normal(size=(5000, 3))
    features = Features(200, 3)
    before = np.empty(0, np.int32)
    for part in np.split(x, 5):
        done = features.insert(part)
        before = np.concatenate([done.moved[before], done.slots])
    cost = np.zeros(200)
    np.add.at(cost, before, ((x - features.means[before]) ** 2).sum(axis=1))
    assert cost.max() <= features.threshold * (1 + 1e-9)


def test_a_weight_is_as_good_as_so_many_equal_rows():
    x, weights = generator().normal(size=(40, 2)), generator(1).integers(1, 9, 40)
    # With room for all, and with one place for all, nothing depends on the order of the rows.
    for size in (40, 1):
        weighted, repeated = Features(size, 2), Features(size, 2)
        weighted.insert(x, weights.astype(np.float64))
        repeated.insert(np.repeat(x, weights, axis=0))
        np.testing.assert_allclose(weighted.means, repeated.means)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_handful_of_features_is_enough(size):
    x = np.concatenate([generator().normal(size=(200, 2)), [[1e180, -1e180]]])
    features = Features(size, 2)
    features.insert(x)
    assert 1 <= features.in_use <= size


def test_edges():
    x, group = cloud(n=500)
    x[:, 1] = 1e6
    one_group = summary(x, np.zeros(500, np.int64), 40)
    assert_exact(x, np.zeros(500, np.int64), one_group.coreset, one_group.point)
    assert one_group.coreset.movement[1] == 0
    assert len(one_group.coreset.points) <= 40
    everybody = summary(x, group, 500)
    assert not everybody.coreset.movement.any()
    assert set(map(tuple, everybody.coreset.points)) == set(map(tuple, x))
    single = summary(x[:1], group[:1] * 0, 10)
    assert (single.coreset.weights.tolist(), single.point.tolist()) == ([1], [0])


def test_what_cannot_be_summarized_is_said():
    x, group = cloud(n=20)
    with pytest.raises(ValueError, match="'birch' is none of bico, kmeans"):
        summary(x, group, 5, construction="birch")
    with pytest.raises(ValueError, match="at least 1"):
        summary(x, group, 0)
    with pytest.raises(ValueError, match="no rows"):
        summarize(GroupedRows(("a",), lambda: iter(())), 5, rng=generator())


def test_the_same_seed_gives_the_same_coreset():
    x, group = cloud()
    one, same, other = (summary(x, group, 100, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.point, same.point)
    assert np.array_equal(one.coreset.points, same.coreset.points)
    assert not np.array_equal(one.point, other.point)


def test_memory_does_not_grow_with_the_rows():
    """But for the group of a row, two bytes here."""
    rng = generator()
    block = rng.normal(size=(5000, 4))
    peaks = []
    for n_blocks in (5, 40):
        stream = GroupedRows(
            ("a", "b", "c", "d"),
            lambda n=n_blocks: (RowBlock(block + i, np.arange(5000) % 2, ("x", "y")) for i in range(n)),
        )
        tracemalloc.start()
        found = summarize(stream, 400, rng=generator())
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert found.point.dtype == np.uint16
        assert found.n_rows == len(found.point) == 5000 * n_blocks
    # A row's place is there twice while its parts are joined; a block adds where its 800 points went.
    assert peaks[1] - peaks[0] < 35 * (2 * 5000 * 2 + 800 * 2) * 1.1


def test_nearest_is_the_nearest():
    rng = generator()
    points, x = rng.normal(size=(300, 37)), rng.normal(size=(50, 37))
    distances = ((x[:, None] - points) ** 2).sum(axis=2)
    assert np.array_equal(nearest(x, points), distances.argmin(axis=1))
    excluded = distances.argmin(axis=1)
    distances[np.arange(50), excluded] = np.inf
    assert np.array_equal(nearest(x, points, excluded), distances.argmin(axis=1))


@pytest.mark.skipif(not ADULT.is_file(), reason="the shared adult.csv.gz is absent")
def test_adult_the_error_of_the_coreset():
    """papers/fair_coresets.txt: at most 3.5 % at 200 k; here for k-means of all rows, bounded from both sides."""
    with gzip.open(ADULT, "rt") as file:
        table = pd.read_csv(file)
    columns = ["age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
    x = table[columns].to_numpy(np.float64)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    group = (table["sex"] == "Male").to_numpy(np.int64)
    found = summary(x, group, 200 * 4)
    points, weights = found.coreset.points, found.coreset.weights
    error = []
    for seed in range(3):
        centers = KMeans(4, n_init=1, random_state=seed).fit(points, sample_weight=weights).cluster_centers_
        cost = ((x[:, None] - centers) ** 2).sum(axis=2).min(axis=1).sum()
        on_coreset = weights @ ((points[:, None] - centers) ** 2).sum(axis=2).min(axis=1)
        assert on_coreset <= cost * (1 + 1e-9) or on_coreset == pytest.approx(cost, rel=0.035)
        assert cost <= on_coreset + found.coreset.movement.sum()
        error.append(abs(on_coreset + found.coreset.movement.sum() - cost) / cost)
    assert max(error) < 0.035
