"""Predictions of rows by models that were not fitted to them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge

from numerics.sec.left_out import LeftOut, leave_out


def draw(n: int, p: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p)) + 5
    return x, x.sum(axis=1) + rng.normal(size=n)


def left_out(method: BaseEstimator, x: np.ndarray, y: np.ndarray) -> LeftOut:
    def fit(x: np.ndarray, y: np.ndarray, person: np.ndarray | None = None) -> BaseEstimator:
        return type(method)(**method.get_params()).fit(x, y)

    linear = isinstance(method, LinearRegression)
    return leave_out(fit(x, y), fit, x, y, linear=linear, rng=np.random.default_rng(0))


@pytest.mark.parametrize("dependent", [False, True])
def test_linear_regression_leaves_out_one_row_after_the_other(dependent: bool) -> None:
    x, y = draw(12)
    if dependent:
        x = np.column_stack([x, x[:, 0] - 2 * x[:, 1], np.ones(12)])
    alone = [
        LinearRegression().fit(np.delete(x, row, 0), np.delete(y, row)).predict(x[[row]])[0] for row in range(len(y))
    ]
    found = left_out(LinearRegression(), x, y)
    np.testing.assert_allclose(found.predictions, alone, rtol=1e-8)
    assert found.error == pytest.approx(np.mean((np.array(alone) - y) ** 2), rel=1e-7)


def test_the_variance_of_linear_regression_is_that_over_many_draws() -> None:
    """Mean squared distance from the true function, over draws of 20 rows."""
    draws = [draw(20, seed=seed) for seed in range(400)]
    said = np.mean([left_out(LinearRegression(), x, y).variance for x, y in draws])
    seen = np.mean([np.mean((LinearRegression().fit(x, y).predict(x) - x.sum(axis=1)) ** 2) for x, y in draws])
    assert said == pytest.approx(seen, rel=0.1)


def test_a_row_that_decides_its_own_prediction_is_left_out_with_others() -> None:
    x, y = draw(12)
    x = np.column_stack([x, np.arange(12) == 4])
    found = left_out(LinearRegression(), x, y)
    assert np.isfinite(found.predictions).all()
    assert found.predictions[4] != pytest.approx(y[4], abs=1e-6)


def test_a_forest_predicts_rows_by_the_trees_that_did_not_draw_them() -> None:
    x, y = draw(60)
    forest = RandomForestRegressor(50, random_state=3, oob_score=True)
    np.testing.assert_allclose(left_out(forest, x, y).predictions, forest.fit(x, y).oob_prediction_, rtol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 11])
def test_another_method_never_predicts_a_row_that_it_was_fitted_to(n: int) -> None:
    """Without an intercept and a second row of its kind, an input that a single row has predicts nothing of it."""
    found = left_out(Ridge(alpha=1e-9, fit_intercept=False), np.eye(n), np.arange(1.0, n + 1))
    np.testing.assert_allclose(found.predictions, 0.0, atol=1e-12)


def test_few_rows_tell_the_error_and_the_variance_of_the_model_of_all_rows() -> None:
    """50 rows of 20 inputs: ten parts are hardly too pessimistic, and their models vary as models of other rows do."""
    n, p, deviation = 50, 20, 0.5
    slopes = np.random.default_rng(1).normal(size=p)
    told, true, variances, predictions = [], [], [], []
    fresh = np.random.default_rng(2).normal(size=(2000, p))
    for seed in range(25):
        rng = np.random.default_rng([3, seed])
        x = rng.normal(size=(n, p))
        y = x @ slopes + deviation * rng.normal(size=n)
        found = left_out(Ridge(0.1), x, y)
        predictions.append(Ridge(0.1).fit(x, y).predict(fresh))
        told.append(found.error)
        true.append(np.mean((predictions[-1] - fresh @ slopes) ** 2) + deviation**2)
        variances.append(found.variance)
    assert np.mean(told) == pytest.approx(np.mean(true), rel=0.2)
    assert np.mean(variances) == pytest.approx(np.var(predictions, axis=0, ddof=1).mean(), rel=0.4)
