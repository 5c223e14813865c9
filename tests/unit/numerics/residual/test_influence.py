"""Errors without an agent, from products of predictions, equal those of the rows themselves."""

from __future__ import annotations

import numpy as np
import pytest

from numerics.residual.influence import Moments
from numerics.residual.linear import combine
from numerics.residual.rules import Split

SPLIT = Split(40, 10, 20)


def predictions(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(4, SPLIT.n)), rng.normal(size=SPLIT.n)


@pytest.mark.parametrize("ridge", [0.0, 1e-3])
def test_errors_without_an_agent_are_those_of_a_run_of_the_others(ridge: float) -> None:
    F, y = predictions()
    without = Moments.of(F, y, SPLIT).errors_without(ridge)
    for j in range(len(F)):
        rest = np.delete(F, j, axis=0)
        beta = combine(rest[:, : SPLIT.n_fit], y[: SPLIT.n_fit], ridge).beta
        np.testing.assert_allclose(without[j], SPLIT.errors(y - beta @ rest), rtol=1e-9)


def test_one_changed_agent_gives_the_products_of_all() -> None:
    F, y = predictions()
    before = Moments.of(F, y, SPLIT)
    F[2] = 7.0
    for got, wanted in zip(
        vars(before.after(2, F, y, SPLIT)).values(), vars(Moments.of(F, y, SPLIT)).values(), strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


def test_edges() -> None:
    F, y = predictions()
    alone = Moments.of(F[:1], y, SPLIT).errors_without(1e-6)
    np.testing.assert_allclose(alone[0], SPLIT.errors(y), rtol=1e-12, err_msg="without its only agent it predicts 0")
    assert np.isnan(Moments.of(F, y, Split(SPLIT.n, 0, 0)).errors_without(0.0)[:, 1:]).all()
    assert np.isfinite(Moments.of(0 * F, y, SPLIT).errors_without(1e-6)).all()
    both = Moments.of(np.vstack([F[:1], F[:1]]), y, SPLIT).errors_without(1e-6)
    np.testing.assert_allclose(both[0], both[1], rtol=1e-9, err_msg="one of two equal agents changes nothing")
