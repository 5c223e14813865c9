"""Fits in any units of the rows."""

from __future__ import annotations

import numpy as np
import pytest

from numerics.shared.candidates import parse_candidates
from numerics.shared.classifiers import fit_classes
from numerics.shared.regressors import fit

_DRAW = np.random.default_rng(0)
X = _DRAW.normal(size=(120, 2))
Y = X[:, 0] + X[:, 1] + 0.1 * _DRAW.normal(size=120)
UNITS = np.array([2.0**-30, 2.0**30])


@pytest.mark.parametrize("method", ["rf", "tree", "gb", "hgb", "lr"])
def test_a_regression_is_the_same_in_any_units(method: str) -> None:
    candidate = parse_candidates(f"{method}(n_estimators=5)" if method in ("rf", "gb") else method)[0]
    fits = [
        fit(candidate, x, y, standardize="model", min_leaf=5, seed=0, group=5)
        for x, y in ((X, Y), (X * UNITS, Y), (X, Y * UNITS[0]), (X * UNITS, Y * UNITS[0]))
    ]
    plain, of_x, of_y, of_both = fits
    expected = plain.predict(X)
    for found in (of_x.predict(X * UNITS), of_y.predict(X) / UNITS[0], of_both.predict(X * UNITS) / UNITS[0]):
        np.testing.assert_allclose(found, expected, rtol=0, atol=0 if method in ("rf", "tree") else 1e-9)


@pytest.mark.parametrize("method", ["rf", "tree", "gb", "lr"])
def test_classes_are_the_same_in_any_units(method: str) -> None:
    candidate = parse_candidates(f"{method}(n_estimators=5)" if method in ("rf", "gb") else method, classes=True)[0]
    plain, scaled = (
        fit_classes(candidate, x, (Y > 0) * 1.0, standardize="model", min_leaf=5, seed=0) for x in (X, X * UNITS)
    )
    np.testing.assert_allclose(scaled.predict_proba(X * UNITS), plain.predict_proba(X), rtol=0, atol=1e-9)


def test_usual_units_are_left_as_they_are() -> None:
    from sklearn.tree import DecisionTreeRegressor

    [candidate] = parse_candidates("tree")
    tree = fit(candidate, X, Y, standardize="model", min_leaf=5, seed=3)
    plain = DecisionTreeRegressor(min_samples_leaf=5, random_state=3).fit(X, Y)
    assert tree.tree_.threshold.tolist() == plain.tree_.threshold.tolist()
