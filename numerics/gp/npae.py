"""Nested pointwise aggregation of experts (NPAE): the best linear combination of dependent predictions, vectorized.

Source: Jalali and Kasneci 2022, eq. 5 to 7; Rullière, Durrande, Bachoc, Chevalier: Nested kriging predictions for
datasets with a large number of observations, 2018.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

JITTER = 1e-10
"""Added to the experts' correlation matrix, whose diagonal is 1."""
_SINGULAR = 1e-8
"""Added instead if that is not enough, together with twice the negative part of the smallest eigenvalue."""
_BORDER = 1e100
"""Diagonal of the border: larger than the square of any solution, which the jitter bounds."""
_NEGLIGIBLE = 1e-60
"""Share of the prior variance below which an expert counts as explaining nothing."""


def npae(
    mean: Float64[np.ndarray, "N K"],
    explained: Float64[np.ndarray, "N K"],
    covariance: Float64[np.ndarray, "N K K"],
    prior: Float64[np.ndarray, "N"],
) -> tuple[Float64[np.ndarray, "N"], Float64[np.ndarray, "N"]]:
    """Combine the predictions of K experts at each of N points.

    The mean is ``r' R^-1 mu`` and the variance ``k** - r' R^-1 r`` (eq. 7), with the experts' means ``mu``, their
    explained variances ``r`` and the covariances ``R`` of their predictions.

    Parameters
    ----------
    mean, explained : ndarray
        ``(N, K)`` the experts' predictions (`numerics.gp.expert.WeightedPrediction`). An expert that explains 0 at a
        point, such as a missing one, does not count there.
    covariance : ndarray
        ``(N, K, K)`` covariances of the predictions; the diagonal is taken from `explained`.
    prior : ndarray
        ``(N,)`` prior variance k** at the points.

    Returns
    -------
    mean : ndarray
        ``(N,)``.
    variance : ndarray
        ``(N,)`` of the latent function, without noise: at most k**, and positive where k** is.

    Examples
    --------
    Two identical experts count as one:

    >>> mean, variance = npae(np.full((1, 2), 0.6), np.full((1, 2), 0.5), np.full((1, 2, 2), 0.5), np.ones(1))
    >>> mean.round(3), variance.round(3)
    (array([0.6]), array([0.5]))
    """
    informative = explained > _NEGLIGIBLE * prior[:, None]
    deviation = np.sqrt(np.where(informative, explained, 1.0))
    correlation = covariance / (deviation[:, :, None] * deviation[:, None, :])
    correlation *= informative[:, :, None] & informative[:, None, :]
    scores = np.where(informative, mean, 0.0) / deviation
    size = np.maximum(np.abs(scores).max(axis=1, initial=0.0), np.finfo(np.float64).tiny)
    targets = np.stack([scores / size[:, None], np.where(informative, deviation, 0.0)], axis=1)
    answers, truth = np.moveaxis(_solve(correlation, targets), 1, 0)
    combined = size * np.einsum("nk,nk->n", answers, truth)
    removed = np.einsum("nk,nk->n", truth, truth)
    return combined, np.clip(prior - removed, np.finfo(np.float64).eps * prior, prior)


def _solve(
    correlation: Float64[np.ndarray, "N K K"], targets: Float64[np.ndarray, "N 2 K"]
) -> Float64[np.ndarray, "N 2 K"]:
    """Compute ``targets L^-T`` with ``L L' = correlation + jitter``, whose products are those with the inverse.

    The matrix is bordered by the targets, with a diagonal so large that the whole is positive definite. The border of
    its Cholesky factor is the solution, so that no second batch of triangular systems has to be solved.
    """
    N, _, K = targets.shape
    bordered = np.zeros((N, K + 2, K + 2))
    bordered[:, :K, :K] = correlation
    bordered[:, K:, :K] = targets
    diagonal = np.einsum("nkk->nk", bordered)
    diagonal[:, :K] = 1.0 + JITTER
    diagonal[:, K:] = _BORDER
    try:
        return np.linalg.cholesky(bordered)[:, K:, :K]
    except np.linalg.LinAlgError:
        smallest = np.linalg.eigvalsh(bordered[:, :K, :K])[:, 0]
        failing = smallest < JITTER / 10
        diagonal[failing, :K] += (_SINGULAR - 2.0 * np.minimum(smallest[failing], 0.0))[:, None]
        return np.linalg.cholesky(bordered)[:, K:, :K]
