"""Weights by which one learner mixes the models of all learners for itself alone."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

_FAR = 1e4
"""A model whose error is so many times that of the best one gets no weight."""
_MOST_STEPS = 30
"""Steps of the search for each model; it needs three at most as a rule."""


def personal_weights(
    predictions: Float64[np.ndarray, "models n"], y: Float64[np.ndarray, "n"]
) -> Float64[np.ndarray, "models"]:
    """Return the weights with which the models together predict the rows best: not negative, with the sum 1.

    Stacking of Breiman (1996), "Stacked regressions", whose models do not know the rows. The sum of 1 makes the weights
    the same whatever the outcome's zero and unit are.

    Parameters
    ----------
    predictions : ndarray
        ``(models, n)`` of rows that none of the models was fitted to. A model that predicts a number that is not finite
        gets no weight; at least one model predicts finite numbers.
    y : ndarray
        ``(n,)`` outcomes.

    Returns
    -------
    ndarray
        ``(models,)``.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 9)
    >>> personal_weights(np.stack([x, x**2, -x]), 0.25 * x + 0.75 * x**2).round(6)
    array([0.25, 0.75, 0.  ])
    """
    from scipy.optimize import nnls  # importing it takes a while, and later asks of a run need only the weights

    weights = np.zeros(len(predictions))
    usable = np.flatnonzero(np.isfinite(predictions).all(axis=1))
    with np.errstate(over="ignore"):
        residuals = (predictions[usable] - y).T
        sizes = np.sqrt(np.square(residuals).mean(axis=0))
    best = sizes.min()
    # A model whose errors are so large that their squares would drown the others' gets no weight.
    near = sizes <= _FAR * best if best > 0 else sizes == 0
    usable, residuals = usable[near], residuals[:, near]
    if best == 0:
        weights[usable] = 1 / len(usable)
        return weights
    if len(y) > len(usable):
        residuals = np.linalg.qr(residuals, mode="r")
    # The sum's own row makes it 1 up to a factor, on which the best proportions do not depend.
    system = np.vstack([residuals / (best * np.sqrt(len(y))), np.ones(len(usable))])
    target = np.zeros(len(system))
    target[-1] = 1.0
    solution, _ = nnls(system, target, maxiter=_MOST_STEPS * len(usable))
    weights[usable] = solution / solution.sum()
    return weights
