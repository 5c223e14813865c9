"""Personal weights against a general solver, and what they do not depend on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from numerics.sec.personal_weights import personal_weights


def draw(n: int, models: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n) * 3 + 20
    return y + rng.normal(size=(models, n)) * rng.uniform(0.5, 3, (models, 1)), y


@pytest.mark.parametrize(("n", "models"), [(40, 3), (12, 12), (200, 5)])
def test_they_are_the_best_on_the_simplex(n: int, models: int) -> None:
    predictions, y = draw(n, models, n)
    found = personal_weights(predictions, y)

    def loss(weights: np.ndarray) -> float:
        return float(np.mean((weights @ predictions - y) ** 2))

    reference = minimize(
        loss,
        np.full(models, 1 / models),
        bounds=[(0, 1)] * models,
        constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 2000},
    )
    assert loss(found) <= reference.fun * (1 + 1e-6)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1)


@given(st.integers(0, 50), st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_zero_and_unit_of_the_outcome_do_not_matter(seed: int, zero: float, unit: float) -> None:
    predictions, y = draw(30, 4, seed)
    moved = personal_weights(unit * predictions + zero, unit * y + zero)
    spread = abs(zero) / unit  # what is lost when a small outcome is added to a large zero
    np.testing.assert_allclose(moved, personal_weights(predictions, y), atol=1e-6 + 1e-9 * spread)


def test_models_without_finite_or_near_predictions_get_nothing() -> None:
    predictions, y = draw(30, 4, 0)
    predictions[1, 3] = np.nan
    predictions[2, :] = 1e200
    found = personal_weights(predictions, y)
    assert found[[1, 2]].tolist() == [0, 0]
    assert found.sum() == pytest.approx(1)


def test_exact_models_share() -> None:
    y = np.arange(5.0)
    assert personal_weights(np.stack([y, y + 1, y]), y).tolist() == [0.5, 0, 0.5]
