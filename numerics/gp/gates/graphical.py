"""The same experts for all points, by how their predictions depend on one another (Jalali and Kasneci 2022, Alg. 1)."""

from __future__ import annotations

import warnings

import numpy as np
from jaxtyping import Float64
from sklearn.covariance import graphical_lasso
from sklearn.exceptions import ConvergenceWarning

PENALTY = 0.1
"""lambda of the graphical lasso, for predictions in standardised units."""
_TOLERANCE, _ROUNDS = 1e-8, 200
"""Of the regressions within: with scikit-learn's own 1e-4 it may go round for hundreds of times, with this for five."""


def scores(predictions: Float64[np.ndarray, "N M"]) -> Float64[np.ndarray, "N M"]:
    """The importance of every expert, the same at every point.

    Parameters
    ----------
    predictions : ndarray
        ``(N, M)`` means of all experts at all points, standardised units.

    Returns
    -------
    ndarray
        ``(N, M)``, the larger the better.
    """
    return np.tile(importance(predictions), (len(predictions), 1))


def importance(predictions: Float64[np.ndarray, "N M"]) -> Float64[np.ndarray, "M"]:
    """How strongly the predictions of every expert depend on those of the others (Definition 2).

    Parameters
    ----------
    predictions : ndarray
        ``(N, M)`` means of all experts at all points, standardised units; N and M are 1 or more.

    Returns
    -------
    ndarray
        ``(M,)`` sums of ``|Omega_ij|`` over j other than i, Omega the sparse precision matrix of the predictions.
    """
    centred = predictions - predictions.mean(axis=0)
    omega = _sparse_precision(centred.T @ centred / len(centred))
    np.fill_diagonal(omega, 0.0)
    return np.asarray(np.abs(omega).sum(axis=1))


def _sparse_precision(S: Float64[np.ndarray, "M M"]) -> Float64[np.ndarray, "M M"]:
    """Omega of eq. 8; with a larger lambda where experts are so alike that the solver fails."""
    identity = np.eye(len(S))
    largest = np.abs(S - np.diag(np.diag(S))).max()
    # Means vary no more than outputs do, whose variance is 1; if they yet do, in another unit.
    penalty = PENALTY * max(1.0, np.diag(S).max())
    while penalty < largest:
        try:
            with warnings.catch_warnings():
                # What is left to converge hardly changes the order of the experts.
                warnings.simplefilter("ignore", ConvergenceWarning)
                # Eq. 8 penalises the diagonal too, scikit-learn does not: the same as so much more variance.
                _, omega = graphical_lasso(S + penalty * identity, penalty, enet_tol=_TOLERANCE, max_iter=_ROUNDS)
            return np.array(omega)
        except FloatingPointError:
            penalty *= 2
    # From the largest covariance on, the solution is diagonal (Witten et al. 2011, Corollary 1).
    return np.diag(1 / (np.diag(S) + penalty))
