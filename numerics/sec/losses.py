"""Losses by which predictions are judged: squared errors of amounts, log losses of classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from numerics.sec.mixture import mean_squared_errors
from numerics.sec.personal_weights import CLUSTER_ROWS
from numerics.shared.classes import SMALLEST_PROBABILITY
from numerics.shared.classification import log_losses_of

_TINY = 1e-300


@dataclass(frozen=True)
class Loss:
    """The loss of a row, and the kind of prediction that it is computed from.

    For amounts, a prediction is the amount, and the loss its squared error. For classes, a prediction is the
    probability of the row's own class, and the loss minus its logarithm, 13.8 at most. A mixture of models gives the
    row's class the mixture of their probabilities, so both kinds need one prediction for each model and row.

    Attributes
    ----------
    n_classes : int
        Number of classes; 0 for amounts.

    Examples
    --------
    >>> Loss().means(np.array([[1.0, 3.0]]), np.array([1.0, 1.0])), Loss(2).means(np.array([[1.0, 0.5]]), np.zeros(2))
    (array([2.]), array([0.34657359]))
    """

    n_classes: int = 0

    def values(
        self, predictions: Float64[np.ndarray, "*models n"], y: Float64[np.ndarray, "n"]
    ) -> Float64[np.ndarray, "*models n"]:
        """Compute the loss of every row; NaN where a prediction is NaN."""
        return log_losses_of(predictions) if self.n_classes else np.asarray(np.square(predictions - y))

    def means(
        self, predictions: Float64[np.ndarray, "models n"], y: Float64[np.ndarray, "n"]
    ) -> Float64[np.ndarray, "models"]:
        """Compute the mean loss of every model; infinite if a prediction is not finite."""
        if not self.n_classes:
            return mean_squared_errors(predictions, y)
        means = self.values(predictions, y).mean(axis=1)
        return np.asarray(np.where(np.isfinite(predictions).all(axis=1), means, np.inf))

    def predict(
        self, model: Any, x: Float64[np.ndarray, "n p"], y: Float64[np.ndarray, "n"], n_rows: int
    ) -> Float64[np.ndarray, "n"]:
        """Predict rows by a learner's own model, which was fitted to `n_rows` rows."""
        if not self.n_classes:
            from numerics.sec.predictors import Predictors

            return np.asarray(Predictors([model]).predict(x)[0])
        return np.asarray(right_probabilities(self.probabilities(model, x, n_rows)[np.newaxis], y)[0])

    def distances(
        self, models: Sequence[Any], x: Float64[np.ndarray, "n p"], n_rows: int
    ) -> Float64[np.ndarray, "m m"]:
        """Return the mean distances of models of `n_rows` rows each, in units of the loss.

        For amounts it is the squared difference. For classes it is half of Jeffreys' divergence. To second order, both
        are the sum of what two models lose by their distances from a truth between them.
        """
        apart = np.zeros((len(models), len(models)))
        if self.n_classes:
            predicted = [self.probabilities(model, x, n_rows) for model in models]
            scales = [np.log(np.maximum(each, SMALLEST_PROBABILITY)) / 2 for each in predicted]
        else:
            predicted = scales = [np.asarray(model.predict(x))[:, np.newaxis] for model in models]
        for i, j in combinations(range(len(models)), 2):
            products = (predicted[i] - predicted[j]) * (scales[i] - scales[j])
            apart[i, j] = apart[j, i] = float(products.sum(axis=1).mean())
        return apart

    def probabilities(self, model: Any, x: Float64[np.ndarray, "n p"], n_rows: int) -> Float64[np.ndarray, "n k"]:
        """Predict the probabilities of a learner's own classes by its own model, which was fitted to `n_rows` rows."""
        from numerics.shared.classifiers import class_probabilities

        return class_probabilities(model, x, np.arange(self.n_classes), self.n_classes, n_rows)

    def to_scale(self, predictions: Float64[np.ndarray, "*rows"]) -> Float64[np.ndarray, "*rows"]:
        """Return predictions on the scale on which a difference has a bounded effect on the loss: log probabilities."""
        if not self.n_classes:
            return predictions
        return np.asarray(np.log(np.clip(predictions, SMALLEST_PROBABILITY, 1.0)))

    def from_scale(self, values: Float64[np.ndarray, "*rows"]) -> Float64[np.ndarray, "*rows"]:
        """Undo `to_scale`."""
        return np.asarray(np.exp(values)) if self.n_classes else values


def right_probabilities(
    probabilities: Float64[np.ndarray, "models n k"], y: Float64[np.ndarray, "n"] | Int64[np.ndarray, "n"]
) -> Float64[np.ndarray, "models n"]:
    """Return the probability that every model gives to the class of each row.

    Examples
    --------
    >>> right_probabilities(np.array([[[0.9, 0.1], [0.2, 0.8]]]), np.array([0, 1]))
    array([[0.9, 0.8]])
    """
    return np.asarray(probabilities[:, np.arange(len(y)), np.asarray(y, np.int64)])


def mixture_weights(
    right: Float64[np.ndarray, "models n"], cluster: Float64[np.ndarray, "models"]
) -> Float64[np.ndarray, "models"]:
    """Return the mixture weights of least log loss, shrunk to those of the learner's cluster.

    The EM algorithm for the proportions of a mixture (Dempster, Laird and Rubin 1977) increases the likelihood in every
    step; it ends after 500 steps, or when a step gains less than 1e-6 per row. As in `numerics.sec.personal_weights`,
    the weights of the cluster count as eight more rows, divided among the models in proportion. A model with a
    probability that is not finite gets no weight. The weights sum to 1.

    Parameters
    ----------
    right : ndarray
        ``(models, n)`` probabilities of the classes of rows that no model was fitted to.
    cluster : ndarray
        ``(models,)`` weights of the cluster's prediction, not negative.

    Examples
    --------
    >>> right = np.array([[0.9, 0.9, 0.2], [0.5, 0.5, 0.5], [0.1, 0.1, 0.1]])
    >>> [mixture_weights(np.tile(right, times), np.array([0, 1, 0.0])).round(1).tolist() for times in (1, 1000)]
    [[0.0, 1.0, 0.0], [0.7, 0.3, 0.0]]
    """
    weights = np.zeros(len(right))
    usable = np.flatnonzero(np.isfinite(right).all(axis=1))
    p, n = np.maximum(right[usable], SMALLEST_PROBABILITY), right.shape[1]
    center = cluster[usable]
    center = center / center.sum() if center.sum() > 0 else np.full(len(p), 1 / len(p))
    shares, before = (center + 1 / len(p)) / 2, -np.inf
    for _ in range(500):
        mixed = shares @ p
        gain = float(np.log(mixed).sum() + CLUSTER_ROWS * (center @ np.log(np.maximum(shares, _TINY)))) / (
            n + CLUSTER_ROWS
        )
        if gain - before < 1e-6:
            break
        before = gain
        shares = (shares * (p / mixed).sum(axis=1) + CLUSTER_ROWS * center) / (n + CLUSTER_ROWS)
    weights[usable] = shares / shares.sum()
    return weights


def places_are_sound(places: Sequence[Int64[np.ndarray, "_"]], n_classes: int) -> bool:
    """Return whether each list has different places, in order, in a class list of this length.

    Examples
    --------
    >>> places_are_sound([np.array([0, 2])], 3), places_are_sound([np.array([2, 0])], 3)
    (True, False)
    """
    return all(
        len(each) > 0 and each[0] >= 0 and each[-1] < n_classes and bool((np.diff(each) > 0).all()) for each in places
    )
