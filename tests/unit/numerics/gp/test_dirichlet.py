"""Classes as latent regressions: against the plain formulas, and against closed forms where there are any."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from numerics.gp.dirichlet import (
    CONCENTRATION,
    SHARPNESS,
    best_sharpness,
    class_probabilities,
    largest_squares,
    latent_outputs,
    latent_units,
    least_noise,
)
from numerics.gp.expert import Expert
from numerics.gp.likelihood import evaluate
from numerics.gp.nearest_rows import NearestRows
from numerics.gp.radial_kernels import SquaredExponential

THETA = np.log([0.8, 1.2, 0.1])


def test_outputs_and_noise_are_those_of_the_log_normal_of_the_same_two_moments() -> None:
    y = np.array([0, 2, 1, 1])
    units = latent_units(np.bincount(y, minlength=3))
    outputs, noise = latent_outputs(y, units)
    alpha = np.eye(3)[y] + CONCENTRATION / 3
    variance, mean = noise * units.scale**2, outputs * units.scale + units.means
    np.testing.assert_allclose(np.exp(mean + variance / 2), alpha)
    np.testing.assert_allclose(np.expm1(variance) * np.exp(2 * mean + variance), alpha)
    assert least_noise(units) == pytest.approx(noise.min())
    np.testing.assert_allclose(np.mean(outputs**2), 1.0)
    largest = largest_squares(np.array([4]), units)[0]
    assert (largest >= (outputs**2 / noise).sum(axis=0)).all()
    np.testing.assert_allclose(largest[0], 4 * (outputs**2 / noise)[:, 0].max())


def test_without_knowledge_classes_are_as_probable_as_they_are_frequent() -> None:
    counts = np.array([80, 15, 4])
    units = latent_units(counts)
    found = class_probabilities(np.zeros((1, 3)), np.zeros((1, 3)), units, 3.0)[0]
    np.testing.assert_allclose(found, (counts + 1) / (counts.sum() + 3))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.7, 0.9])
def test_many_rows_at_one_place_give_about_the_share_of_their_labels(share: float) -> None:
    n = 2000
    y = (np.arange(n) < share * n).astype(np.int64)
    units = latent_units(np.array([n // 2, n // 2]))
    outputs, noise = latent_outputs(y, units)
    mean = (outputs / noise).sum(axis=0) / (1 / noise).sum(axis=0)
    assert class_probabilities(mean[np.newaxis], np.zeros((1, 2)), units)[0, 1] == pytest.approx(share, abs=0.03)


def test_probabilities_of_two_classes_are_those_of_the_integral() -> None:
    units = latent_units(np.array([30, 20]))
    mean, variance, sharpness = np.array([[0.4, -0.3]]), np.array([[0.3, 0.8]]), 1.3
    center = units.means[1] - units.means[0] + sharpness * units.scale * (mean[0, 1] - mean[0, 0])
    deviation = sharpness * units.scale * np.sqrt(variance.sum())
    exact = quad(lambda z: norm.pdf(z) / (1 + np.exp(-center - deviation * z)), -8, 8)[0]
    found = class_probabilities(mean, variance, units, sharpness)
    assert found[0, 1] == pytest.approx(exact, abs=3e-3)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_the_sharpness_is_near_1_where_rows_tell_little() -> None:
    losses = -np.log(SHARPNESS)  # the larger, the better
    assert best_sharpness(0.1 * losses) < 1.3
    assert best_sharpness(100 * losses) == SHARPNESS[-1]


def test_known_noise_of_rows_is_added_to_their_variances() -> None:
    rng = np.random.default_rng(0)
    kernel, x = SquaredExponential(1), rng.normal(size=(12, 1))
    y, noise = rng.normal(size=(12, 2)), rng.uniform(0.1, 2.0, (12, 2))
    z = kernel.gram(THETA[:-1], x).matrix + np.diag(noise[:, 0] + np.exp(2 * THETA[-1]))
    points = rng.normal(size=(3, 1))
    expected = kernel.matrix(THETA[:-1], x, points).T @ np.linalg.solve(z, y[:, 0])
    expert = Expert(kernel, THETA, x, y[:, 0], noise[:, 0])
    near = NearestRows(kernel, THETA, x, y[:, 0], 12, noise[:, 0])
    np.testing.assert_allclose(expert.predict(points)[0], expected)
    np.testing.assert_allclose(near.predict(points, np.zeros((0, 1))).mean, expected, rtol=1e-6)
    left_out = expert.left_out()
    others = np.arange(1, 12)
    alone = kernel.matrix(THETA[:-1], x[1:], x[:1]).T @ np.linalg.solve(z[np.ix_(others, others)], y[1:, 0])
    assert left_out.errors[0] == pytest.approx(y[0, 0] - alone[0])


def test_the_likelihood_of_several_outputs_is_the_sum_with_the_right_derivatives() -> None:
    rng = np.random.default_rng(1)
    kernel, x = SquaredExponential(1), rng.normal(size=(10, 1))
    y, noise = rng.normal(size=(10, 3)), rng.uniform(0.1, 2.0, (10, 3))
    found = evaluate(kernel, THETA, x, y, noise)
    total = 0.0
    for column, own in zip(y.T, noise.T, strict=True):
        z = kernel.gram(THETA[:-1], x).matrix + np.diag(own + np.exp(2 * THETA[-1]))
        sign, logarithm = np.linalg.slogdet(2 * np.pi * z)
        total += -0.5 * (column @ np.linalg.solve(z, column)) - 0.5 * sign * logarithm
    assert found.value == pytest.approx(total)
    for place in range(3):
        step = np.zeros(3)
        step[place] = 1e-5
        up, down = (evaluate(kernel, THETA + sign * step, x, y, noise).value for sign in (1, -1))
        assert found.gradient[place] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-6)
