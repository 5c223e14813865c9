"""A point is predicted from its nearest rows as by the process of these rows alone, however they are found."""

from __future__ import annotations

import numpy as np
import pytest

from numerics.gp import nearest_rows
from numerics.gp.calibration import histogram
from numerics.gp.expert import Expert
from numerics.gp.kernel_registry import kernel_of
from numerics.gp.landmarks import offsets
from numerics.gp.nearest_rows import NearestRows, learning_rows, neighborhoods
from numerics.gp.radial_kernels import SquaredExponential
from numerics.gp.sketch import features

THETA = np.log([0.7, 1.5, 1.2, 0.3])


def rows(n: int = 300, d: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, d))
    return x, np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize("kernel", ["se", "matern32"])
def test_of_all_rows_it_is_the_expert(kernel: str) -> None:
    (x, y), points = rows(80), np.random.default_rng(1).normal(size=(20, 2))
    around = offsets(16, np.exp(THETA[:2]), 0)
    expected = features(Expert(kernel_of(kernel, 2), THETA, x, y), points, around)
    found = NearestRows(kernel_of(kernel, 2), THETA, x, y, 1000).predict(points, around)
    for name, value in expected._asdict().items():
        np.testing.assert_allclose(getattr(found, name), value, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("d", [2, 14])
def test_a_point_is_predicted_by_the_rows_that_are_nearest_in_lengths(d: int) -> None:
    """By a tree where there are few inputs, and by all distances where there are many."""
    x, y = rows(600, d)
    lengths = np.linspace(1.0, 2.0, d)
    theta, kernel = np.log([*lengths, 1.2, 0.3]), SquaredExponential(d)
    expert = NearestRows(kernel, theta, x, y, 60)
    assert (expert._tree is None) == (d == 14)
    points = np.random.default_rng(2).normal(size=(15, d))
    found = expert.predict(points, np.zeros((0, d)))
    exact = []
    for point in points:
        near = np.argsort(np.sum(((x - point) / lengths) ** 2, axis=1))[:60]
        exact.append(Expert(kernel, theta, x[near], y[near]).predict(point[np.newaxis]))
    mean, explained = np.array(exact)[:, :, 0].T
    np.testing.assert_allclose(found.mean, mean, atol=1e-6)
    np.testing.assert_allclose(found.explained, explained, atol=1e-6)


def test_a_row_does_not_predict_itself() -> None:
    """Its residual is that of the process of all other rows, also where another row is the same."""
    x, y = rows(60)
    x[1] = x[0]
    whole = NearestRows(SquaredExponential(2), THETA, x, y, 59).left_out(np.random.default_rng(0)).residuals
    expected = Expert(SquaredExponential(2), THETA, x, y).left_out().residuals
    np.testing.assert_allclose(np.sort(whole), np.sort(expected), atol=1e-6)


def test_residuals_are_of_so_many_rows_and_calibrated() -> None:
    x, _ = rows(4000)
    kernel, rng = SquaredExponential(2), np.random.default_rng(0)
    some = rng.permutation(4000)[:1500]
    factor = np.linalg.cholesky(kernel.matrix(THETA[:-1], x[some], x[some]) + 1e-9 * np.eye(1500))
    y = factor @ rng.normal(size=1500) + 0.3 * rng.normal(size=1500)
    residuals = NearestRows(kernel, THETA, x[some], y, 60).left_out(rng).residuals
    assert histogram(residuals).sum() == 500
    assert residuals.std() == pytest.approx(1, abs=0.1)


def test_neighborhoods_are_rows_around_a_row() -> None:
    x, _ = rows(5000)
    places = neighborhoods(x, np.random.default_rng(0))
    assert places.shape == learning_rows(5000)
    for own in places:
        assert len(np.unique(own)) == len(own)
        middle = own[np.argmin(np.sum((x[own] - x[own].mean(axis=0)) ** 2, axis=1))]
        nearby = np.argsort(np.sum((x - x[middle]) ** 2, axis=1))[:100]
        assert np.isin(nearby, own).all()


@pytest.mark.parametrize("far", [0.0, 6.0])
def test_limits_by_a_sample_find_the_same_rows(monkeypatch: pytest.MonkeyPatch, far: float) -> None:
    """Also for points beyond all rows, and where the sample says too little, by chance or since it is in an order."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.normal(size=(3000, 12)), axis=0)
    points = rng.normal(size=(40, 12)) + far
    expected = nearest_rows._by_distances(x, points, 30)
    monkeypatch.setattr(nearest_rows, "_MANY_ROWS", 1000)
    found = nearest_rows._by_distances(x, points, 30)
    np.testing.assert_array_equal(np.sort(found, axis=1), np.sort(expected, axis=1))
    alike = nearest_rows._by_distances(np.zeros((3000, 12)), points, 30)
    assert all(len(set(each)) == 30 for each in alike.tolist())
