"""Rows left out of a site's own fair clusters: their cost is that of new rows, which is more than that of old ones."""

from __future__ import annotations

import numpy as np

from numerics.coreset.alone import FOLDS, squares_left_out
from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.clustering import fair_clustering


def test_with_one_cluster_and_one_group_it_is_the_distance_from_the_mean_of_the_other_folds() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 2)) + 1e6
    squares = squares_left_out(x, np.zeros(20, np.int64), 1, 1.0, np.random.default_rng(7))
    fold = np.random.default_rng(7).permutation(20) % FOLDS
    expected = [((x[i] - x[fold != fold[i]].mean(axis=0)) ** 2).sum() for i in range(20)]
    assert squares is not None
    np.testing.assert_allclose(squares, expected, rtol=1e-6)


def test_rows_left_out_cost_more_than_rows_that_shaped_their_clusters() -> None:
    x, group = np.random.default_rng(1).normal(size=(40, 3)), np.arange(40) % 2
    squares = squares_left_out(x, group, 4, 0.8, np.random.default_rng(0))
    bounds = Bounds.of(np.full(2, 0.5), 0.8)
    fair = fair_clustering(x, np.ones(40, np.int64), group, bounds, 4, rng=np.random.default_rng(0))
    assert squares is not None
    assert squares.sum() > 1.1 * fair.cost


def test_too_few_rows_are_not_compared_and_equal_ones_cost_nothing() -> None:
    x, nobody = np.arange(2 * FOLDS, dtype=float)[:, None], np.zeros(2 * FOLDS, np.int64)
    for n, k in ((2 * FOLDS, 5), (2 * FOLDS - 1, 1)):
        assert squares_left_out(x[:n], nobody[:n], k, 1.0, np.random.default_rng(0)) is None
    squares = squares_left_out(np.zeros((40, 1)), np.arange(40) % 2, 3, 1.0, np.random.default_rng(0))
    assert squares is not None
    assert not squares.any()
