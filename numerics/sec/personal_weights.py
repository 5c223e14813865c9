"""Weights by which one learner mixes the models of all learners for its own predictions."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

_FAR = 1e4
"""A model whose root mean squared error is this times that of the best one gets no weight."""
_MOST_STEPS = 30
"""Most steps of the search for each model; it rarely needs more than three."""
CLUSTER_ROWS = 8.0
"""Number of rows that the weights of the cluster count for. From 4 to 16, errors of drawn worlds and real sites differ
by 4 % at most; with 0, personal weights lose up to 10 % where groups are clean (docs/sec-evidence.md)."""


def residual_factor(
    predictions: Float64[np.ndarray, "models n"], y: Float64[np.ndarray, "n"]
) -> Float64[np.ndarray, "q models"]:
    """Return a factor whose columns have the mean products of the models' errors as inner products.

    It has no more rows than there are models or predicted rows. The column of a model is NaN if a prediction of it is
    not finite.

    Examples
    --------
    >>> factor = residual_factor(np.array([[1.0, 3.0], [0.0, np.inf]]), np.array([0.0, 1.0]))
    >>> float(factor[:, 0] @ factor[:, 0]).__round__(6), bool(np.isnan(factor[:, 1]).all())
    (2.5, True)
    """
    usable = np.isfinite(predictions).all(axis=1)
    residuals = (predictions[usable] - y).T
    if len(y) > residuals.shape[1]:
        residuals = np.linalg.qr(residuals, mode="r")
    factor = np.full((len(residuals), len(predictions)), np.nan)
    factor[:, usable] = residuals / np.sqrt(len(y))
    return factor


def personal_weights(
    factor: Float64[np.ndarray, "q models"], cluster: Float64[np.ndarray, "models"], n: int
) -> Float64[np.ndarray, "models"]:
    """Return the stacking weights of all models, shrunk to the weights of the learner's cluster.

    They are not negative and sum to 1 (Breiman 1996, "Stacked regressions"); no model was fitted to the rows. Few rows
    determine many weights poorly. So ``8 / n sum_i (w_i - c_i)^2 / (c_i + 1 / m)`` times the least error of the m
    models is added to the mean squared error, c being the cluster's weights. This is a normal prior around c, with a
    variance like that of the shares of eight rows drawn from c.

    Parameters
    ----------
    factor : ndarray
        ``(q, models)`` of `residual_factor`, from rows that none of the models was fitted to; at least one model
        predicts finite numbers.
    cluster : ndarray
        ``(models,)`` c, the weights of the cluster's prediction, not negative.
    n : int
        Number of rows.

    Examples
    --------
    The more rows there are, the less the cluster's weights matter:

    >>> factor = residual_factor(np.array([[1.0, -1.0, 1.0, -1.0], [2.0, 2.0, -2.0, -2.0]]), np.zeros(4))
    >>> [personal_weights(factor, np.array([0.0, 1.0]), n).round(2).tolist() for n in (4, 40, 4000)]
    [[0.39, 0.61], [0.72, 0.28], [0.8, 0.2]]
    """
    from scipy.optimize import nnls  # importing it takes a while, and later asks of a run need only the weights

    weights = np.zeros(factor.shape[1])
    usable = np.flatnonzero(~np.isnan(factor).any(axis=0))
    with np.errstate(over="ignore"):
        sizes = np.sqrt(np.square(factor[:, usable]).sum(axis=0))
    best = sizes.min()
    # A model whose errors are so large that their squares would drown the others' gets no weight.
    usable = usable[sizes <= _FAR * best if best > 0 else sizes == 0]
    m = len(usable)
    if best == 0:
        weights[usable] = 1 / m
        return weights
    residuals, center = factor[:, usable] / best, cluster[usable]
    center = center / center.sum() if center.sum() > 0 else np.full(m, 1 / m)
    scale = min(1.0, float(np.linalg.norm(residuals @ center)))
    # Of weights with the sum 1, `w - c` is linear in w.
    away = scale * np.sqrt(CLUSTER_ROWS / n / (center + 1 / m))[:, np.newaxis] * (np.eye(m) - center[:, np.newaxis])
    # The last row brings the sum to 1 up to a factor, which does not affect the best proportions.
    system = np.vstack([residuals, away, np.ones(m)])
    target = np.zeros(len(system))
    target[-1] = 1.0
    solution, _ = nnls(system, target, maxiter=_MOST_STEPS * m)
    weights[usable] = solution / solution.sum()
    return weights
