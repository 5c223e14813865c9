"""Personal weights against a general solver, and what they do not depend on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from numerics.sec.personal_weights import personal_weights, residual_factor


def draw(n: int, models: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n) * 3 + 20
    return y + rng.normal(size=(models, n)) * rng.uniform(0.5, 3, (models, 1)), y


def weights(predictions: np.ndarray, y: np.ndarray, cluster: np.ndarray) -> np.ndarray:
    return personal_weights(residual_factor(predictions, y), cluster, len(y))


@pytest.mark.parametrize(("n", "models"), [(40, 3), (12, 12), (200, 5)])
def test_they_minimize_the_error_and_the_distance_to_the_cluster(n: int, models: int) -> None:
    predictions, y = draw(n, models, n)
    cluster = np.where(np.arange(models) < 2, 0.5, 0.0)
    found = weights(predictions, y, cluster)
    least = min(float(np.mean((cluster @ predictions - y) ** 2)), float(np.mean((predictions - y) ** 2, axis=1).min()))

    def loss(w: np.ndarray) -> float:
        away = 8 / n * float(np.sum((w - cluster) ** 2 / (cluster + 1 / models)))
        return float(np.mean((w @ predictions - y) ** 2)) + least * away

    reference = minimize(
        loss,
        np.full(models, 1 / models),
        bounds=[(0, 1)] * models,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 2000},
    )
    assert loss(found) <= reference.fun * (1 + 1e-6)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1)


def test_a_factor_of_few_lines_is_as_good_as_all_rows() -> None:
    predictions, y = draw(200, 5, 0)
    factor = residual_factor(predictions, y)
    assert factor.shape == (5, 5)
    np.testing.assert_allclose(factor.T @ factor, (predictions - y) @ (predictions - y).T / 200, rtol=1e-9)


@given(st.integers(0, 50), st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_zero_and_unit_of_the_outcome_do_not_matter(seed: int, zero: float, unit: float) -> None:
    predictions, y = draw(30, 4, seed)
    cluster = np.array([0.5, 0.5, 0, 0])
    moved = weights(unit * predictions + zero, unit * y + zero, cluster)
    spread = abs(zero) / unit  # what is lost when a small outcome is added to a large zero
    np.testing.assert_allclose(moved, weights(predictions, y, cluster), atol=1e-6 + 1e-9 * spread)


def test_models_without_finite_or_near_predictions_get_nothing() -> None:
    predictions, y = draw(30, 4, 0)
    predictions[1, 3] = np.nan
    predictions[2, :] = 1e200
    for cluster in (np.full(4, 0.25), np.array([0, 0.5, 0.5, 0])):
        found = weights(predictions, y, cluster)
        assert found[[1, 2]].tolist() == [0, 0]
        assert found.sum() == pytest.approx(1)


def test_exact_models_share() -> None:
    y = np.arange(5.0)
    assert weights(np.stack([y, y + 1, y]), y, np.array([0.0, 1.0, 0.0])).tolist() == [0.5, 0, 0.5]
