"""Synthetic data: half moons and Friedman's functions by hand."""

from __future__ import annotations

import numpy as np
import pytest

from scenarios.synthetic import friedman1, friedman2, friedman3, halfmoon


def test_halfmoon_without_noise_lies_on_two_half_circles() -> None:
    inputs, classes = halfmoon(101, 0.0, np.random.default_rng(0))
    centers = np.array([[0.0, 0.0], [1.0, 0.5]])
    np.testing.assert_allclose(np.linalg.norm(inputs - centers[classes], axis=1), 1)
    assert np.all(inputs[classes == 0, 1] >= -1e-12)
    assert np.all(inputs[classes == 1, 1] <= 0.5 + 1e-12)
    assert np.bincount(classes).tolist() == [50, 51]


def test_halfmoon_noise_has_the_asked_deviation() -> None:
    exact, _ = halfmoon(20_000, 0.0, np.random.default_rng(0))
    noisy, _ = halfmoon(20_000, 0.05, np.random.default_rng(0))
    # The standard error of a standard deviation of 40,000 draws is 0.05 / sqrt(80,000) = 0.0002.
    assert np.std(noisy - exact) == pytest.approx(0.05, abs=0.001)


def test_friedmans_functions_by_hand() -> None:
    x = np.array([[0.5, 1.0, 0.5, 0.1, 0.2], [1.0, 1.0, 1.0, 0.0, 0.0]])
    np.testing.assert_allclose(friedman1(x), [10 + 0 + 1 + 1, 5], atol=1e-12)
    x = np.array([[3.0, 2.0, 2.25, 1.0], [1.0, 1.0, 2.0, 1.0]])  # u = 4 and 1
    np.testing.assert_allclose(friedman2(x), [5.0, np.sqrt(2)])
    np.testing.assert_allclose(friedman3(x), [np.arctan(4 / 3), np.pi / 4])
