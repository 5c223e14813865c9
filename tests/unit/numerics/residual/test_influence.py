"""Errors without an agent equal those of a combination of the others, and chance harms nobody."""

from __future__ import annotations

import numpy as np
import pytest

from numerics.residual.influence import without_each
from numerics.residual.linear import combine
from numerics.residual.split import Split

SPLIT = Split(40, 10, 20)


def predictions(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(4, SPLIT.n)), rng.normal(size=SPLIT.n)


@pytest.mark.parametrize("ridge", [0.0, 1e-3])
def test_errors_without_an_agent_are_those_of_a_run_of_the_others(ridge: float) -> None:
    F, y = predictions()
    without = without_each(F, y, SPLIT, ridge).errors
    for j in range(len(F)):
        rest = np.delete(F, j, axis=0)
        beta = combine(rest[:, : SPLIT.n_fit], y[: SPLIT.n_fit], ridge).beta
        np.testing.assert_allclose(without[j], SPLIT.errors(y - beta @ rest), rtol=1e-9)


def test_edges() -> None:
    F, y = predictions()
    alone = without_each(F[:1], y, SPLIT, 1e-6).errors
    np.testing.assert_allclose(alone[0], SPLIT.errors(y), rtol=1e-12, err_msg="without its only agent it predicts 0")
    assert np.isnan(without_each(F, y, Split(SPLIT.n, 0, 0), 0.0).errors[:, 1:]).all()
    assert np.isfinite(without_each(0 * F, y, SPLIT, 1e-6).errors).all()
    both = without_each(np.vstack([F[:1], F[:1]]), y, SPLIT, 1e-6).errors
    np.testing.assert_allclose(both[0], both[1], rtol=1e-9, err_msg="one of two equal agents changes nothing")


def test_agents_of_pure_noise_harm_by_no_more_than_chance_and_a_flipped_sign_harms() -> None:
    rng = np.random.default_rng(1)
    split = Split(200, 50, 100)
    for _ in range(20):
        F, y = rng.standard_t(2, size=(4, split.n)), rng.standard_t(2, split.n)
        each = without_each(F, y, split, 1e-6)
        assert (each.harm <= 0.05 * split.errors(y)).all()
    y = rng.normal(size=split.n)
    F[0] = y + 0.1 * rng.normal(size=split.n)
    F[0, split.n_fit :] *= -1
    harm = without_each(F, y, split, 1e-6).harm
    assert (harm[0, 1:] > 0).all()
    assert (harm[1:] <= 0.05 * split.errors(y)).all()
