"""Sums of rows by center: those of the rows, up to rounding in which a row is lost."""

from __future__ import annotations

import numpy as np
import pytest

from clients.coreset.refinement import CenterSums, center_sums
from clients.coreset.rows import SummarizedRows
from numerics.coreset.grouped_rows import GroupedRows

LEAST = 5
CENTERS = np.array([[99.0, -1.0], [101.0, 1.0]])
SHIFTS, COLD = np.zeros((1, 2, 2)), np.array([1e-7])


def drawn(n: int = 400) -> np.ndarray:
    rng = np.random.default_rng(3)
    return rng.normal(size=(n, 2)) + CENTERS[rng.integers(0, 2, n)]


def sums_of(x: np.ndarray, point: np.ndarray | None = None) -> CenterSums:
    rows = GroupedRows.of(x, np.arange(len(x)) % 2, ("a", "b"))
    point = np.zeros(len(x), np.int64) if point is None else point
    return center_sums(SummarizedRows(rows, point, ("a", "b"), CENTERS, np.ones(2)), SHIFTS, COLD, CENTERS, LEAST)


def test_sums_are_those_of_the_rows_up_to_half_a_step() -> None:
    x = drawn()
    nearest = ((x[:, None] - CENTERS) ** 2).sum(axis=2).argmin(axis=1)
    found = sums_of(x)
    exact = np.stack([x[nearest == c].sum(axis=0) for c in (0, 1)])
    assert found.plain_rows.tolist() == np.bincount(nearest).tolist()
    for sums in (found.plain_sums, found.sums[0]):
        assert (np.abs(sums - exact) <= LEAST * x.std(axis=0) / 2 + 1e-6).all()
        steps = (sums - found.plain_rows[:, None] * x.mean(axis=0)) / (LEAST * x.std(axis=0))
        np.testing.assert_allclose(steps, np.rint(steps), atol=1e-5)


def test_fewer_rows_than_a_point_has_tell_nothing_unless_they_lie_far_out() -> None:
    """Wherever a row lies within two standard deviations, a center of it alone has the same sum: the mean."""
    cloud = CENTERS[1] + np.random.default_rng(0).normal(size=(200, 2))
    x = np.concatenate([cloud[(cloud - CENTERS.mean(axis=0)).sum(axis=1) > 0], CENTERS[:1]])
    sums = []
    for place in (CENTERS[0], CENTERS[0] + [-0.2, 0.1], CENTERS[0] + [0.3, 0.4]):
        x[-1] = place
        found = sums_of(x)
        assert found.plain_rows[0] == 1
        sums.append(found.plain_sums[0] - found.plain_rows[0] * x.mean(axis=0))
    np.testing.assert_allclose(sums, 0.0, atol=1e-9)


@pytest.mark.parametrize("constant", [0.0, 1e9])
def test_a_constant_column_and_rows_without_a_point_do_no_harm(constant: float) -> None:
    x = drawn()
    x[:, 1] = constant
    point = np.where(np.arange(len(x)) < 10, -1, 0)
    x[:10] = 1e30
    found = sums_of(x, point)
    assert found.plain_rows.sum() == len(x) - 10
    np.testing.assert_allclose(found.plain_sums[:, 1], found.plain_rows * constant, rtol=1e-9)
