"""A gate with the same experts at all points, by the dependence of their predictions.

Source: Jalali and Kasneci 2022, Algorithm 1.
"""

from __future__ import annotations

import warnings

import numpy as np
from jaxtyping import Float64
from sklearn.covariance import graphical_lasso
from sklearn.exceptions import ConvergenceWarning

PENALTY = 0.1
"""lambda of the graphical lasso, for predictions in standardized units."""
_TOLERANCE, _ROUNDS = 1e-8, 200
"""Tolerance of the inner regressions, and most iterations; with scikit-learn's 1e-4, there may be hundreds."""


def scores(predictions: Float64[np.ndarray, "N M"]) -> Float64[np.ndarray, "N M"]:
    """Score every expert by its `importance`, the same at every point.

    Parameters
    ----------
    predictions : ndarray
        ``(N, M)`` means of all experts at all points, standardized units.

    Returns
    -------
    ndarray
        ``(N, M)``, the larger the better.
    """
    return np.tile(importance(predictions), (len(predictions), 1))


def importance(predictions: Float64[np.ndarray, "N M"]) -> Float64[np.ndarray, "M"]:
    """Measure how strongly each expert's predictions depend on those of the others (Definition 2).

    Parameters
    ----------
    predictions : ndarray
        ``(N, M)`` means of all experts at all points, standardized units; N and M are 1 or more.

    Returns
    -------
    ndarray
        ``(M,)`` sums of ``|Omega_ij|`` over j other than i, where Omega is the sparse precision matrix of the
        predictions.

    Examples
    --------
    The third expert's predictions are unrelated to those of the others:

    >>> importance(np.array([[1.0, 1.0, 1.0], [-1.0, -1.0, 1.0], [1.0, 1.0, -1.0], [-1.0, -1.0, -1.0]])).argmin()
    np.int64(2)
    """
    centered = predictions - predictions.mean(axis=0)
    omega = _sparse_precision(centered.T @ centered / len(centered))
    np.fill_diagonal(omega, 0.0)
    return np.asarray(np.abs(omega).sum(axis=1))


def _sparse_precision(S: Float64[np.ndarray, "M M"]) -> Float64[np.ndarray, "M M"]:
    """Solve eq. 8 for Omega; double lambda while experts are so similar that the solver fails."""
    identity = np.eye(len(S))
    largest = np.abs(S - np.diag(np.diag(S))).max()
    # Predictions vary at most as the outputs, whose variance is 1; otherwise the penalty is scaled.
    penalty = PENALTY * max(1.0, np.diag(S).max())
    while penalty < largest:
        try:
            with warnings.catch_warnings():
                # Further iterations hardly change the order of the experts.
                warnings.simplefilter("ignore", ConvergenceWarning)
                # Eq. 8 also penalizes the diagonal. scikit-learn does not; adding the penalty to S is equivalent.
                _, omega = graphical_lasso(S + penalty * identity, penalty, enet_tol=_TOLERANCE, max_iter=_ROUNDS)
            return np.array(omega)
        except FloatingPointError:
            penalty *= 2
    # From the largest covariance on, the solution is diagonal (Witten et al. 2011, Corollary 1).
    return np.diag(1 / (np.diag(S) + penalty))
