"""Rows of a site exchange clusters: numbers of groups stay, and costs fall."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import clients.coreset.rows
from clients.coreset.rows import SummarizedRows, cost_of_rows, count_rows, exchange_rows, follow_points
from numerics.coreset.fairness.apportionment import PointMasses
from numerics.coreset.grouped_rows import GroupedRows


@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 3), st.integers(0, 10**6))
def test_no_number_changes_and_no_cost_rises(n: int, k: int, n_groups: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, group, labels = rng.normal(size=(n, 2)), rng.integers(0, n_groups, n), rng.integers(0, k, n)
    names = tuple(f"g{place}" for place in range(n_groups))
    rows = SummarizedRows(GroupedRows.of(x, group, names), np.zeros(n, int), names, rng.normal(size=(k, 2)), np.ones(2))
    exchanged = exchange_rows(rows, labels)
    np.testing.assert_array_equal(count_rows(rows, exchanged), count_rows(rows, labels))
    before, after = (cost_of_rows(rows, each, rows.centers)[0] for each in (labels, exchanged))
    assert after <= before
    # Nobody gains by changing places with one of the own group.
    squares = ((x[:, np.newaxis] - rows.centers) ** 2).sum(axis=2)
    own, other = squares[np.arange(n), exchanged], squares[:, exchanged]
    gain = own[:, np.newaxis] + own - other - other.T
    assert gain[group[:, np.newaxis] == group].max() <= 1e-6 * (1 + own.max())


def test_rows_of_points_with_several_centers_may_be_divided_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    n, n_points = 300, 12
    x, point = rng.normal(size=(n, 2)), rng.integers(-1, n_points, n)
    rows = SummarizedRows(GroupedRows.of(x, np.zeros(n, int), ("all",)), point, ("all",), x[:3], np.ones(2))
    weights = rows.weights()
    half = weights // 2
    # Points with an even number have two centers.
    split = np.arange(0, n_points, 2)
    whole = np.where(np.arange(n_points) % 2 == 0, weights - half, weights)
    shares = PointMasses(
        np.r_[np.arange(n_points), split], np.r_[np.arange(n_points) % 3, (split + 1) % 3], np.r_[whole, half[split]]
    )
    labels = follow_points(rows, shares)
    for place, center, mass in zip(shares.point, shares.center, shares.mass, strict=True):
        assert np.sum(labels[point == place] == center) == mass
    for most in (1, 40):
        monkeypatch.setattr(clients.coreset.rows, "MOST_CONTESTED", most)
        np.testing.assert_array_equal(follow_points(rows, shares), labels)
