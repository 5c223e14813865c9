"""Leaves of every kind of trees are rounded in a copy, and predictions change by little."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from numerics.sec.coarse_leaves import with_coarse_leaves
from numerics.shared.candidates import parse_candidates
from numerics.shared.classifiers import fit_classes
from numerics.shared.regressors import fit

RNG = np.random.default_rng(2)
X = RNG.normal(size=(60, 2))
Y = 50 + 10 * X[:, 0] + RNG.normal(size=60)
FIT: dict[str, Any] = {"standardize": "model", "min_leaf": 7, "seed": 0, "group": 5}


@pytest.mark.parametrize("method", ["tree", "rf(n_estimators=5)", "gb(n_estimators=9)", "hgb(max_iter=9)"])
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_leaves_are_rounded_in_a_copy(method: str, n_classes: int) -> None:
    [candidate] = parse_candidates(method, classes=n_classes > 0)
    y = np.searchsorted(np.quantile(Y, np.linspace(0, 1, n_classes + 1)[1:-1]), Y) * 1.0 if n_classes else Y
    model: Any = (fit_classes if n_classes else fit)(candidate, X, y, **FIT)
    coarse = with_coarse_leaves(model, y, n_classes)
    exact, rounded = ((each.predict_proba if n_classes else each.predict)(X) for each in (model, coarse))
    assert 0 < np.abs(exact - rounded).max() < 0.03 * np.ptp(exact)
    if n_classes:
        np.testing.assert_allclose(rounded.sum(axis=1), 1.0)


def test_other_models_stay_as_they_are() -> None:
    for method in ("lr", "ridge", "nn"):
        model = fit(parse_candidates(method)[0], X, Y, **FIT)
        assert with_coarse_leaves(model, Y) is model
