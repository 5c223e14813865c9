"""Powers of class probabilities: what they keep, and what they are chosen by."""

from __future__ import annotations

import numpy as np
import pytest

from numerics.sec.sharpening import best_power, sharpened, with_right

RNG = np.random.default_rng(0)


def test_a_power_keeps_the_order_of_the_classes_and_the_sum_of_one() -> None:
    p = 0.9 * RNG.dirichlet(np.ones(4), 50) + 0.025
    for power in (0.3, 1.0, 3.0):
        powered = sharpened(p, power)
        np.testing.assert_allclose(powered.sum(axis=1), 1)
        assert (powered.argsort(axis=1) == p.argsort(axis=1)).all()
    np.testing.assert_allclose(sharpened(sharpened(p, 2.0), 0.5), p, rtol=1e-6)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_many_rows_tell_the_power_and_few_leave_it_near_one(power: float) -> None:
    p = RNG.dirichlet(np.ones(3), 4000)
    y = (sharpened(p, power).cumsum(axis=1) > RNG.random((4000, 1))).argmax(axis=1)
    assert best_power(p, y) == pytest.approx(power, rel=0.1)
    assert abs(np.log(best_power(p[:4], y[:4]))) < 0.3


def test_probabilities_agree_with_those_of_the_rows_own_classes() -> None:
    p, y = RNG.dirichlet(np.ones(3), (2, 20)), RNG.integers(3, size=20)
    own = p[:, np.arange(20), y]
    np.testing.assert_allclose(with_right(p, y, own), p)
    changed = with_right(p, y, own / 2)
    np.testing.assert_allclose(changed[:, np.arange(20), y], own / 2)
    np.testing.assert_allclose(changed.sum(axis=-1), 1)
    np.testing.assert_allclose(with_right(np.zeros((1, 3)), y[:1], np.array([0.4])).sum(), 1)
