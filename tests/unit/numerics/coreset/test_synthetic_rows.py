"""Synthetic rows: they keep what is known of the rows, and their weights follow sums over these."""

from __future__ import annotations

import numpy as np
import pytest

from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.price_response import price_points, soft_shares
from numerics.coreset.synthetic_rows import SyntheticRows, draw_rows
from numerics.coreset.weighted_points import WeightedPoints, moments
from numerics.shared.distances import squared_distances


def points_of(m: int = 60, weight: int = 5) -> WeightedPoints:
    rng = np.random.default_rng(5)
    x = np.stack([rng.normal(size=m), np.where(rng.random(m) < 0.1, 3.0, 0.0), np.ones(m)], axis=1)
    weights = rng.integers(weight, 2 * weight, m)
    return WeightedPoints(x, weights, np.arange(m) % 2, np.array([40.0, 200.0, 0.0]))


@pytest.mark.parametrize("most", [10_000, 150])
def test_rows_keep_points_and_movement(most: int) -> None:
    points = points_of()
    rows = draw_rows(points, most, np.random.default_rng(0))
    assert len(rows.x) == (points.weights.sum() if most > 1000 else 120)
    one = WeightedPoints(rows.x, rows.weights, rows.groups, np.zeros(3))  # type: ignore[arg-type]
    for own, expected in zip(moments(one), moments(points), strict=True):
        np.testing.assert_allclose(own, expected, atol=1e-9, rtol=0.05)
    np.testing.assert_allclose(
        np.bincount(rows.groups, rows.weights), np.bincount(points.groups, points.weights), rtol=1e-12
    )


def test_more_points_than_rows_are_the_rows() -> None:
    points = points_of()
    rows = draw_rows(points, 10, np.random.default_rng(0))
    np.testing.assert_allclose(rows.x, points.points, atol=1e-12)
    np.testing.assert_array_equal(rows.weights, points.weights)


def test_raked_weights_approach_the_numbers_of_rows_and_prices_are_fair() -> None:
    rows = draw_rows(points_of(), 10_000, np.random.default_rng(0))
    centers = np.array([[-1.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 3.0, 1.0]])
    squared, total = squared_distances(rows.x, centers), np.bincount(rows.groups, rows.weights)
    true = total[:, np.newaxis] * np.array([[0.3, 0.6, 0.1], [0.5, 0.4, 0.1]])
    prices = np.zeros((2, 3))
    for _ in range(10):
        shares = soft_shares(squared, rows.groups, prices, 0.1)
        rows = rows.raked(shares, true)
    found = price_points(squared, rows.weights, rows.groups, prices, 0.1)
    np.testing.assert_allclose(found.masses, true, rtol=0.1, atol=1.0)
    means, size = rows.means(soft_shares(squared, rows.groups, prices, 0.1))
    np.testing.assert_allclose(size, found.masses.sum(axis=0), rtol=1e-9)
    assert np.abs(means[:, 0] - centers[:, 0]).max() < 1
    bounds = Bounds.of(total / total.sum(), 1.0)
    fair = rows.fair_prices(squared, bounds, prices)
    assert np.abs(bounds.excess(price_points(squared, rows.weights, rows.groups, fair, 0.004).masses)).sum() < 5


def test_a_group_without_rows_has_no_weight() -> None:
    rows = SyntheticRows(np.zeros((2, 1)), np.ones(2), np.zeros(2, np.int64))
    assert rows.scaled(np.array([6, 0])).weights.tolist() == [3.0, 3.0]
    raked = rows.scaled(np.array([6, 0])).raked(np.eye(2), np.array([[2.0, 4.0], [0.0, 0.0]]))
    assert raked.weights.tolist() == [2.0, 4.0]
