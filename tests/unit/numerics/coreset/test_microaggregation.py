"""Points of too few rows are joined to groups of hardly more rows than needed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numerics.coreset import microaggregation
from numerics.coreset.grouped_rows import GroupedRows
from numerics.coreset.microaggregation import microaggregate
from numerics.coreset.summary import summarize
from numerics.coreset.weighted_points import WeightedPoints


def drawn(n: int, seed: int = 0, largest: int = 1, groups: int = 1) -> WeightedPoints:
    rng = np.random.default_rng(seed)
    points, weights = rng.normal(size=(n, 3)), rng.integers(1, largest + 1, n)
    return WeightedPoints(points, weights, rng.integers(0, groups, n), np.zeros(3))


def assert_promised(before: WeightedPoints, min_weight: int, after: microaggregation.Microaggregation) -> None:
    """Every point has rows enough, of one group; it is their centroid, and the movement is theirs."""
    kept, mass = after.point >= 0, np.bincount(before.groups, before.weights)
    assert np.array_equal(kept, mass[before.groups] >= min_weight)
    assert after.n_withheld == before.weights[~kept].sum()
    coreset, place, weights = after.coreset, after.point[kept], before.weights[kept]
    assert np.array_equal(np.bincount(place, weights, len(coreset.weights)), coreset.weights)
    assert coreset.weights.min(initial=min_weight) >= min_weight
    assert np.array_equal(coreset.groups[place], before.groups[kept])
    x = before.points[kept]
    for j, column in enumerate(x.T):
        np.testing.assert_allclose(np.bincount(place, weights * column), coreset.weights * coreset.points[:, j])
    np.testing.assert_allclose(coreset.movement, weights @ (x - coreset.points[place]) ** 2, atol=1e-12)


def test_light_points_join_the_nearest_of_their_group() -> None:
    x = np.array([[0.0], [0.1], [5.0], [5.2], [5.3], [100.0], [7.0]])
    coreset = WeightedPoints(x, np.array([9, 1, 2, 2, 1, 8, 4]), np.array([0, 0, 0, 0, 0, 0, 1]), np.array([3.0]))
    merged = microaggregate(coreset, 5, np.ones(1))
    assert merged.point.tolist() == [0, 0, 1, 1, 1, 2, -1]
    assert merged.coreset.weights.tolist() == [10, 5, 8]
    np.testing.assert_allclose(merged.coreset.points[:, 0], [0.01, 25.7 / 5, 100])
    moved = 0.9 * 0.1**2 + 2 * (5 - 5.14) ** 2 + 2 * (5.2 - 5.14) ** 2 + (5.3 - 5.14) ** 2
    np.testing.assert_allclose(merged.coreset.movement, 3 + moved)
    assert (merged.n_merged, merged.n_withheld) == (4, 4)


def test_a_point_withheld_with_a_rare_group_leaves_the_movement_of_the_others() -> None:
    """The center checks all later sums by it; without it an honest site would be refused."""
    before = WeightedPoints(drawn(30).points, np.ones(30, np.int64), np.repeat([1, 0], [2, 28]), np.zeros(3))
    after = microaggregate(before, 3, np.ones(3), min_withheld=5)
    assert after.n_withheld >= 5
    kept = after.point >= 0
    moved = ((before.points[kept] - after.coreset.points[after.point[kept]]) ** 2).sum(axis=0)
    assert (after.coreset.movement >= moved - 1e-12).all()


@given(st.integers(1, 60), st.integers(1, 8), st.integers(1, 6), st.integers(1, 3), st.integers(0, 10**6))
def test_every_point_stands_for_enough_rows_of_its_group(
    n: int, min_weight: int, largest: int, groups: int, seed: int
) -> None:
    before = drawn(n, seed, largest, groups)
    assert_promised(before, min_weight, microaggregate(before, min_weight, np.ones(3)))


@pytest.mark.parametrize("block", [2000, 40])
def test_single_rows_are_joined_in_fives_to_nines(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """As few as allowed (Domingo-Ferrer and Mateo-Sanz 2002): from the minimum to twice it less one."""
    monkeypatch.setattr(microaggregation, "_BLOCK", block)
    before = drawn(1003)
    after = microaggregate(before, 5, np.ones(3))
    assert_promised(before, 5, after)
    assert len(after.coreset.weights) >= 1003 / 5.5
    assert np.quantile(after.coreset.weights, 0.9) <= 9


def test_fives_that_lie_together_are_found() -> None:
    """Twenty heaps of five rows, far from one another: each is a point, and hardly anything moves."""
    rng = np.random.default_rng(1)
    heap = rng.permutation(np.repeat(np.arange(20), 5))
    x = np.stack([100.0 * (heap % 5), 100.0 * (heap // 5)], axis=1) + rng.normal(size=(100, 2))
    coreset = WeightedPoints(x, np.ones(100, np.int64), np.zeros(100, np.int64), np.zeros(2))
    after = microaggregate(coreset, 5, np.ones(2))
    assert len(np.unique(np.stack([after.point, heap]), axis=1).T) == 20


@pytest.mark.parametrize("min_weight", [1, 5, 300, 5000])
def test_of_a_group_that_is_withheld_no_movement_is_left(min_weight: int) -> None:
    rng = np.random.default_rng(2)
    x, group = rng.normal(size=(2000, 3)), rng.integers(0, 2, 2000)
    group[[3, 500, 501]] = 2
    rows = GroupedRows.of(x, group, ("a", "b", "c"))
    found = summarize(rows, 200, rng=np.random.default_rng(0))
    merged = microaggregate(found.coreset, min_weight, x.std(axis=0), found.movement_by_group)
    place = merged.point[found.point]
    kept = place >= 0
    assert np.array_equal(kept, np.bincount(group)[group] >= min_weight)
    assert merged.n_withheld == (~kept).sum()
    moved = ((x[kept] - merged.coreset.points[place[kept]]) ** 2).sum(axis=0)
    np.testing.assert_allclose(merged.coreset.movement, moved)


def test_a_constant_column_and_equal_rows_do_no_harm() -> None:
    before = WeightedPoints(np.ones((12, 2)), np.ones(12, np.int64), np.zeros(12, np.int64), np.zeros(2))
    after = microaggregate(before, 5, np.zeros(2))
    assert_promised(before, 5, after)
    assert not after.coreset.movement.any()


def plain_mdav(x: np.ndarray, least: int) -> set[frozenset[int]]:
    """Return the groups of MDAV for single rows (Domingo-Ferrer and Mateo-Sanz 2002), step by step."""
    free, groups, seed = list(range(len(x))), [], -1
    while len(free) >= least:
        center = x[free].mean(axis=0) if seed < 0 else x[seed]
        start = free[int(((x[free] - center) ** 2).sum(axis=1).argmax())]
        nearest = np.argsort(((x[free] - x[start]) ** 2).sum(axis=1), kind="stable")[:least]
        groups.append({free[place] for place in nearest})
        free = [place for place in free if place not in groups[-1]]
        seed = start if seed < 0 else -1
    joined = sorted(set(range(len(x))) - set(free))
    for place in free:
        neighbor = joined[int(((x[joined] - x[place]) ** 2).sum(axis=1).argmin())]
        next(group for group in groups if neighbor in group).add(place)
    return {frozenset(group) for group in groups}


@pytest.mark.parametrize("n", [9, 30, 64])
def test_single_rows_are_first_joined_as_by_mdav(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setattr(microaggregation, "regroup", lambda *_: None)
    before = drawn(n, seed=n)
    place = microaggregate(before, 4, np.ones(3)).point
    groups = {frozenset(np.flatnonzero(place == each).tolist()) for each in np.unique(place)}
    assert groups == plain_mdav(before.points, 4)


@given(st.integers(5, 60), st.integers(2, 6), st.integers(1, 6), st.integers(0, 10**6))
def test_regrouping_brings_rows_no_farther_from_their_points(n: int, least: int, largest: int, seed: int) -> None:
    before = drawn(n, seed, largest)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(microaggregation, "regroup", lambda *_: None)
        first = microaggregate(before, least, np.ones(3))
    moved = microaggregate(before, least, np.ones(3)).coreset.movement.sum()
    assert moved <= first.coreset.movement.sum() * (1 + 1e-9)


def test_heaps_of_any_size_keep_their_rows_to_themselves() -> None:
    """MDAV joins what is left of several heaps, which are far apart: 6 to 9 rows are no multiple of 5."""
    rng = np.random.default_rng(1)
    heap = rng.permutation(np.repeat(np.arange(20), rng.integers(6, 10, 20)))
    x = np.stack([100.0 * (heap % 5), 100.0 * (heap // 5)], axis=1) + rng.normal(size=(len(heap), 2))
    before = WeightedPoints(x, np.ones(len(heap), np.int64), np.zeros(len(heap), np.int64), np.zeros(2))
    after = microaggregate(before, 5, np.ones(2))
    assert len(np.unique(np.stack([after.point, heap]), axis=1).T) == 20
