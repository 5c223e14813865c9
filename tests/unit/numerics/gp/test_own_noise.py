"""A site's own noise is that of its rows, whatever the common one is."""

from __future__ import annotations

import numpy as np
import pytest

from numerics.gp.likelihood import evaluate
from numerics.gp.own_noise import FACTORS, with_own_noise
from numerics.gp.radial_kernels import SquaredExponential

KERNEL = SquaredExponential(1)


def rows(noise: float, n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.uniform(-3, 3, (n, 1))
    return x, np.sin(2 * x[:, 0]) + noise * rng.normal(size=n)


@pytest.mark.parametrize("noise", [0.05, 0.2, 0.9])
def test_it_is_the_noise_of_the_rows(noise: float) -> None:
    theta = np.log([0.8, 1.0, 0.3])
    own = with_own_noise(KERNEL, theta, [rows(noise)])
    np.testing.assert_array_equal(own[:-1], theta[:-1])
    assert np.exp(own[-1]) == pytest.approx(noise, rel=0.35)


def test_no_other_factor_is_likelier_over_all_parts() -> None:
    theta, parts = np.log([0.8, 1.0, 0.3]), [rows(0.1, 40), rows(0.5, 60)]
    own = with_own_noise(KERNEL, theta, parts)
    values = []
    for factor in FACTORS:
        candidate = np.append(theta[:-1], theta[-1] + np.log(factor))
        values.append(sum(evaluate(KERNEL, candidate, x, y).value for x, y in parts))
    best = sum(evaluate(KERNEL, own, x, y).value for x, y in parts)
    assert best == pytest.approx(max(values))


def test_the_common_noise_is_among_those_tried() -> None:
    assert np.abs(FACTORS - 1).min() < 1e-12
