"""Boosted trees whose size and number validation rows choose: of one outcome, or of classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Int64

from numerics.shared.classes import align_probabilities
from numerics.shared.classification import log_losses
from numerics.shared.classifiers import class_probabilities

if TYPE_CHECKING:  # scikit-learn takes a second to import, and few asks need it
    from sklearn.base import BaseEstimator

LEAVES = (31, 8)
"""Most leaves of a tree, of which one is chosen: small trees do better where effects add up."""
STAGES = (100, 400)
"""Trees that are fitted, and as many as are where the error of validation rows still falls at their end."""
MOST_FITS = len(LEAVES) * len(STAGES) + 1
"""Most fits of a choice."""
_STILL_FALLS = 0.8
"""Place of the best number among those fitted from which on the error still falls."""


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
        Of classes, the place of each of the model's in the class list; else empty.
    n_classes : int
        Length of the class list; 0: the outcomes are amounts.
    """

    model: BaseEstimator
    judged: Float64[np.ndarray, "..."]
    n_rows: int
    places: Int64[np.ndarray, "own"]
    n_classes: int

    def predict(self, x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n c"]:
        """Predict rows: a column of amounts, or one for the probability of each class."""
        if self.n_classes:
            return class_probabilities(self.model, x, self.places, self.n_classes, self.n_rows)
        return np.asarray(self.model.predict(x) if len(x) else np.zeros(0), np.float64)[:, np.newaxis]


def choose_boosting(
    x: Float64[np.ndarray, "n p"],
    y: Float64[np.ndarray, "n"],
    n_fit: int,
    *,
    min_leaf: int,
    seed: int,
    n_classes: int = 0,
    weights: Float64[np.ndarray, "n"] | None = None,
) -> Boosting:
    """Boost trees on the first rows, choose their size and number by the others, and fit as many to all of them.

    The error is the mean square, or the log loss. Without rows that judge, there are the 100 trees of 31 leaves that
    scikit-learn fits by default.

    Parameters
    ----------
    x : ndarray
        ``(n, p)`` inputs; NaN is missing.
    y : ndarray
        ``(n,)`` outcomes, or places of classes.
    n_fit : int
        Number of the rows before those that judge, one at least.
    min_leaf : int
        Fewest rows in a leaf.
    seed : int
        Seed of the models.
    n_classes : int
        Length of the class list; 0: the outcomes are amounts.
    weights : ndarray or None
        ``(n,)`` weights of the rows, in fits and errors; None: all alike.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(300, 1))
    >>> chosen = choose_boosting(x, 2.0 * (x[:, 0] > 0), 200, min_leaf=20, seed=0)
    >>> chosen.model.predict(np.array([[-1.0], [1.0]])).round(1)
    array([0., 2.])
    """
    places = np.unique(y[:n_fit]).astype(np.int64) if n_classes else np.zeros(0, np.int64)

    def fit(rows: slice, n_trees: int, leaves: int) -> Any:
        own = None if weights is None else weights[rows]
        settings = {"max_iter": n_trees, "max_leaf_nodes": leaves, "min_samples_leaf": min_leaf, "random_state": seed}
        return _fit(x[rows], y[rows], own, settings, classes=bool(n_classes))

    learned, held = slice(n_fit), slice(n_fit, len(y))
    if n_fit == len(y):
        none = np.zeros((0, n_classes) if n_classes else 0)
        return Boosting(fit(learned, STAGES[0], LEAVES[0]), none, n_fit, places, n_classes)

    def judge(model: Any) -> Iterator[tuple[float, Float64[np.ndarray, "..."]]]:
        own = None if weights is None else weights[held]
        for predicted in _stages(model, x[held]):
            if n_classes:
                aligned = align_probabilities(predicted, places, n_classes, n_fit)
                yield float(np.average(log_losses(aligned, y[held].astype(np.int64)), weights=own)), aligned
            else:
                yield float(np.average(np.square(y[held] - predicted), weights=own)), predicted

    best, size, judged = np.inf, (STAGES[0], LEAVES[0]), np.zeros(0)
    for leaves in LEAVES:
        for n_trees in STAGES:
            stages = list(judge(fit(learned, n_trees, leaves)))
            place = int(np.argmin([error for error, _ in stages]))
            if stages[place][0] < best:
                (best, judged), size = stages[place], (place + 1, leaves)
            if place + 1 < _STILL_FALLS * n_trees:
                break
    every = np.unique(y).astype(np.int64) if n_classes else places
    return Boosting(fit(slice(None), *size), judged, len(y), every, n_classes)


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
