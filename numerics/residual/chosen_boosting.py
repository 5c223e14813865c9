"""Boosted trees for amounts or classes; validation rows choose their size and number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from numerics.shared.classes import align_probabilities
from numerics.shared.classification import log_losses
from numerics.shared.classifiers import class_probabilities

if TYPE_CHECKING:  # scikit-learn takes a second to import, and few asks need it
    from sklearn.base import BaseEstimator


@dataclass(frozen=True)
class TreeSize:
    """Most leaves of a tree, fewest rows of a leaf, and share of columns, drawn anew, that a split chooses among."""

    leaves: int
    min_leaf: int
    share: float

    def settings(self, min_leaf: int) -> dict[str, float]:
        """Return scikit-learn's settings, with `min_leaf` rows or more in a leaf."""
        least = max(self.min_leaf, min_leaf)
        return {"max_leaf_nodes": self.leaves, "min_samples_leaf": least, "max_features": self.share}


LARGE = TreeSize(31, 20, 1.0)
"""The trees of scikit-learn's defaults."""
OF_STEPS = (LARGE, TreeSize(8, 20, 1.0))
"""Sizes for columns that are steps, which agents have fitted to the same rows: with smaller leaves they overfit. Small
trees do better where effects add up."""
OF_COLUMNS = (TreeSize(31, 5, 0.5), TreeSize(8, 5, 0.5))
"""Sizes for columns as they are, or in bins: small leaves find steep places, and a random half of the columns does
better with few rows (Breiman 2001)."""
STAGES = (100, 400)
"""Number of trees that are fitted; the second if the error of the validation rows still falls at the first."""
MOST_FITS = (len(OF_COLUMNS) + 1) * len(STAGES) + 1
"""Most fits of `choose_boosting`."""
_STILL_FALLS = 0.8
"""Share of the fitted trees from which on, as the best number, the error counts as still falling."""


@dataclass(frozen=True, eq=False)
class Boosting:
    """Boosted trees.

    Attributes
    ----------
    model : estimator
        Fitted to all rows to learn from, validation rows among them.
    judged : ndarray
        Predictions of the validation rows by trees that have not seen them: ``(m,)`` amounts, or ``(m, k)``
        probabilities.
    n_rows : int
        Rows to learn from.
    places : ndarray
        Place of each of the model's classes in the class list; empty for amounts.
    n_classes : int
        Length of the class list; 0: the outcomes are amounts.
    """

    model: BaseEstimator
    judged: Float64[np.ndarray, "..."]
    n_rows: int
    places: Int64[np.ndarray, "own"]
    n_classes: int

    def predict(self, x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n c"]:
        """Predict rows: one column of amounts, or the probabilities of the classes."""
        if self.n_classes:
            return class_probabilities(self.model, x, self.places, self.n_classes, self.n_rows)
        return np.asarray(self.model.predict(x) if len(x) else np.zeros(0), np.float64)[:, np.newaxis]


def choose_boosting(
    x: Float64[np.ndarray, "n p"],
    y: Float64[np.ndarray, "n"],
    n_fit: int,
    *,
    n_classes: int = 0,
    weights: Float64[np.ndarray, "n"] | None = None,
    steps: bool = False,
    min_leaf: int = 1,
) -> Boosting:
    """Boost trees on the first rows, choose their size and number by the validation rows, and refit on all rows.

    The error is the mean squared error, or the log loss. Columns that are not steps get trees of scikit-learn's default
    size (`LARGE`) only if these lower the error by more than a standard error. Without validation rows the result has
    100 trees of that size.

    Parameters
    ----------
    x : ndarray
        ``(n, p)`` inputs; NaN is missing.
    y : ndarray
        ``(n,)`` outcomes, or places of classes.
    n_fit : int
        Number of training rows, the first, one at least; the others are validation rows.
    n_classes : int
        Length of the class list; 0: the outcomes are amounts.
    weights : ndarray or None
        ``(n,)`` weights of the rows, in fits and errors; None: all alike.
    steps : bool
        Whether the columns are steps, which agents have fitted to the same rows.
    min_leaf : int
        Fewest rows in a leaf of any tree.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(300, 1))
    >>> chosen = choose_boosting(x, 2.0 * (x[:, 0] > 0), 200)
    >>> chosen.model.predict(np.array([[-1.0], [1.0]])).round(1)
    array([0., 2.])
    """
    places = np.unique(y[:n_fit]).astype(np.int64) if n_classes else np.zeros(0, np.int64)
    learned, held = slice(n_fit), slice(n_fit, len(y))

    def weighed(values: Float64[np.ndarray, "m"]) -> Float64[np.ndarray, "m"]:
        return values if weights is None else values * weights[held]

    def fit(rows: slice, n_trees: int, size: TreeSize) -> Any:
        own = None if weights is None else weights[rows]
        settings = {"max_iter": n_trees, **size.settings(min_leaf), "random_state": 0}
        return _fit(x[rows], y[rows], own, settings, classes=bool(n_classes))

    def judge(model: Any, size: TreeSize) -> list[_Stage]:
        stages = []
        for place, predicted in enumerate(_stages(model, x[held])):
            if n_classes:
                predicted = align_probabilities(predicted, places, n_classes, n_fit)
                losses = log_losses(predicted, y[held].astype(np.int64))
            else:
                losses = np.square(y[held] - predicted)
            stages.append(_Stage(weighed(losses), predicted, place + 1, size))
        return stages

    def best_of(size: TreeSize) -> _Stage:
        best = min(judge(fit(learned, STAGES[0], size), size), key=_Stage.error)
        if best.n_trees < _STILL_FALLS * STAGES[0]:
            return best
        return min(best, *judge(fit(learned, STAGES[1], size), size), key=_Stage.error)

    if n_fit == len(y):
        none = np.zeros((0, n_classes) if n_classes else 0)
        return Boosting(fit(learned, STAGES[0], LARGE), none, n_fit, places, n_classes)
    chosen = min((best_of(size) for size in (OF_STEPS if steps else OF_COLUMNS)), key=_Stage.error)
    if not steps:
        large = best_of(LARGE)
        chosen = large if is_notable(chosen.losses - large.losses) else chosen
    every = np.unique(y).astype(np.int64) if n_classes else places
    return Boosting(fit(slice(None), chosen.n_trees, chosen.size), chosen.judged, len(y), every, n_classes)


@dataclass(frozen=True, eq=False)
class _Stage:
    """Weighted losses and predictions of the validation rows by the first `n_trees` trees."""

    losses: Float64[np.ndarray, "m"]
    judged: Float64[np.ndarray, "..."]
    n_trees: int
    size: TreeSize

    def error(self) -> float:
        return float(self.losses.mean())


def is_notable(gain: Float64[np.ndarray, "... m"], least: float = 1.0) -> Bool[np.ndarray, "..."]:
    """Return whether the mean gain of m rows exceeds `least` standard errors.

    Examples
    --------
    >>> is_notable(np.array([[1.0, 2.0, 3.0], [-1.0, 2.0, -0.5]]))
    array([ True, False])
    """
    m = gain.shape[-1]
    scatter = gain.std(axis=-1, ddof=1) / np.sqrt(m) if m > 1 else np.full(gain.shape[:-1], np.inf)
    return np.asarray(gain.mean(axis=-1) > least * scatter)


def _fit(
    x: Float64[np.ndarray, "n p"],
    y: Float64[np.ndarray, "n"],
    weights: Float64[np.ndarray, "n"] | None,
    settings: Mapping[str, Any],
    *,
    classes: bool,
) -> Any:
    from sklearn.dummy import DummyClassifier
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    if not classes:
        return HistGradientBoostingRegressor(**settings, early_stopping=False).fit(x, y, weights)
    own = np.unique(y, return_inverse=True)[1]
    if not own.any():  # one class
        return DummyClassifier(strategy="prior").fit(x, own)
    return HistGradientBoostingClassifier(**settings, early_stopping=False).fit(x, own, weights)


def _stages(model: Any, x: Float64[np.ndarray, "m p"]) -> Iterator[Float64[np.ndarray, "..."]]:
    """Predict by the first tree, by the first two, and so on."""
    if hasattr(model, "staged_predict_proba"):
        return iter(model.staged_predict_proba(x))
    if hasattr(model, "staged_predict"):
        return iter(model.staged_predict(x))
    return iter([model.predict_proba(x)])
