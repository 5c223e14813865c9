"""The same experts for all points, by how their predictions depend on one another (papers/gp_experts.txt, Alg. 1)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from sklearn.covariance import graphical_lasso

PENALTY = 0.1
"""lambda of the graphical lasso, for predictions in standardised units."""


def importance(predictions: Float64[np.ndarray, "N M"], penalty: float = PENALTY) -> Float64[np.ndarray, "M"]:
    """How strongly the predictions of every expert depend on those of the others (Definition 2).

    Parameters
    ----------
    predictions : ndarray
        ``(N, M)`` means of all experts at all points, standardised units.
    penalty : float
        lambda in eq. 8, positive.

    Returns
    -------
    ndarray
        ``(M,)`` sums of ``|Omega_ij|`` over j other than i, Omega the sparse precision matrix of the predictions.
    """
    M = predictions.shape[1]
    if M == 1:
        return np.zeros(1)
    S = np.cov(predictions, rowvar=False, bias=True)
    # Eq. 8 penalises the diagonal too, scikit-learn does not: the same as so much more variance. It also keeps the
    # problem well conditioned however alike the experts' predictions are.
    _, omega = graphical_lasso(S + penalty * np.eye(M), penalty, max_iter=500)
    np.fill_diagonal(omega, 0.0)
    return np.asarray(np.abs(omega).sum(axis=1))


def scores(predictions: Float64[np.ndarray, "N M"]) -> Float64[np.ndarray, "N M"]:
    """The importance of every expert, the same for every point.

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
