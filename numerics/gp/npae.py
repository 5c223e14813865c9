"""Nested pointwise aggregation of experts: the best linear combination of dependent predictions, at all points at once.

Source: Jalali and Kasneci 2022, eq. 5 to 7; Rullière, Durrande, Bachoc, Chevalier: Nested kriging predictions for
datasets with a large number of observations, 2018.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

JITTER = 1e-10
"""Added to the experts' correlation matrix, whose diagonal is 1."""
_SINGULAR = 1e-8
"""Added instead where that is not enough; what a matrix lacks to be positive comes on top, twice."""
_BORDER = 1e100
"""More than any solution's square, which the jitter bounds."""
_NEGLIGIBLE = 1e-60
"""Share of the prior variance up to which an expert explains nothing."""


def npae(
    mean: Float64[np.ndarray, "N K"],
    explained: Float64[np.ndarray, "N K"],
    covariance: Float64[np.ndarray, "N K K"],
    prior: Float64[np.ndarray, "N"],
) -> tuple[Float64[np.ndarray, "N"], Float64[np.ndarray, "N"]]:
    """Combine the predictions of K experts at each of N points.

    With ``r`` what the experts explain and ``R`` the covariances of their predictions: mean ``r' R^-1 mu``, variance
    ``k** - r' R^-1 r`` (eq. 7).

    Parameters
    ----------
    mean, explained : ndarray
        ``(N, K)`` the experts' predictions (`numerics.gp.expert.WeightedPrediction`). An expert that explains nothing
        at a point has no say there, so a missing one has 0.
    covariance : ndarray
        ``(N, K, K)`` between their predictions; the diagonal is taken from `explained`.
    prior : ndarray
        ``(N,)`` prior variance k** of the points.

    Returns
    -------
    tuple of ndarray
        ``(N,)`` means and ``(N,)`` variances of the latent function, without noise: at most k**, and more than 0 where
        k** is.
    """
    known = explained > _NEGLIGIBLE * prior[:, None]
    deviation = np.sqrt(np.where(known, explained, 1.0))
    correlation = covariance / (deviation[:, :, None] * deviation[:, None, :])
    correlation *= known[:, :, None] & known[:, None, :]
    scores = np.where(known, mean, 0.0) / deviation
    size = np.maximum(np.abs(scores).max(axis=1, initial=0.0), np.finfo(np.float64).tiny)
    targets = np.stack([scores / size[:, None], np.where(known, deviation, 0.0)], axis=1)
    answers, truth = np.moveaxis(_solved(correlation, targets), 1, 0)
    combined = size * np.einsum("nk,nk->n", answers, truth)
    removed = np.einsum("nk,nk->n", truth, truth)
    return combined, np.clip(prior - removed, np.finfo(np.float64).eps * prior, prior)


def _solved(
    correlation: Float64[np.ndarray, "N K K"], targets: Float64[np.ndarray, "N 2 K"]
) -> Float64[np.ndarray, "N 2 K"]:
    """``targets L^-T`` with ``L L' = correlation + jitter``: their products are those with the inverse.

    The targets border the matrix, below a diagonal so large that it is positive definite: the border of the Cholesky
    factor is then the solution, and no second batch of triangular systems is left to solve.
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
