"""Exact covariances between the experts' predictions, for a center that sites have disclosed their inputs to.

Source: Jalali and Kasneci 2022, eq. 6, with the noise that belongs to an expert's own variance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float64, Int64
from scipy.linalg import cho_solve

from numerics.gp.kernels import Kernel
from numerics.gp.likelihood import factor

MEMORY = 64_000_000
"""Numbers that the weights of the experts' rows may take: half a GB."""


def covariances(
    kernel: Kernel,
    theta: Float64[np.ndarray, "p"],
    inputs: Sequence[Float64[np.ndarray, "n d"]],
    points: Float[np.ndarray, "N d"],
    selected: Int64[np.ndarray, "N K"],
) -> Float64[np.ndarray, "N K K"]:
    """Covariances of the predictions of the experts that were selected for each point.

    ``R_ij = A_i' k(X_i, X_j) A_j`` with ``A_i = (K_i + sigma^2 I)^-1 k(X_i, x*)``, and ``R_ii`` with the noise, which
    is what expert i explains. The work is that of a product ``k(X_i, X_j) A_j`` a pair of experts, over the points
    that selected both.

    Parameters
    ----------
    kernel, theta
        Of all experts.
    inputs : sequence of ndarray
        ``(n_i, d)`` of each expert, standardised.
    points : ndarray
        ``(N, d)`` query points, standardised.
    selected : ndarray
        ``(N, K)`` experts' numbers; -1: none, whose covariances are 0. No expert twice at a point.

    Returns
    -------
    ndarray
        ``(N, K, K)``, in the order of `selected`.
    """
    points = np.asarray(points, dtype=np.float64)
    N, K = selected.shape
    result = np.zeros((N, K, K))
    rows = max((len(x) for x in inputs), default=1)
    size = max(1, MEMORY // (K * rows))
    factors = [factor(kernel, theta, x) for x in inputs]
    for start in range(0, N, size):
        some = slice(start, start + size)
        _fill(result[some], kernel, theta[:-1], inputs, factors, points[some], selected[some])
    return result


def _fill(
    result: Float64[np.ndarray, "N K K"],
    kernel: Kernel,
    params: Float64[np.ndarray, "p-1"],
    inputs: Sequence[Float64[np.ndarray, "n d"]],
    factors: Sequence[Float64[np.ndarray, "n n"]],
    points: Float64[np.ndarray, "N d"],
    selected: Int64[np.ndarray, "N K"],
) -> None:
    """`covariances` of a block of points, pair by pair of experts, in place."""
    place = np.full((len(points), len(inputs)), -1)
    at, column = np.nonzero(selected >= 0)
    place[at, selected[at, column]] = column
    asked = [np.flatnonzero(place[:, i] >= 0) for i in range(len(inputs))]
    weights = []
    for i, (x, lower) in enumerate(zip(inputs, factors, strict=True)):
        cross = kernel.matrix(params, x, points[asked[i]])
        weights.append(cho_solve((lower, True), cross, check_finite=False))
        own = place[asked[i], i]
        result[asked[i], own, own] = np.einsum("nq,nq->q", cross, weights[i])
    for i, x in enumerate(inputs):
        for j in range(i):
            both, of_i, of_j = np.intersect1d(asked[i], asked[j], assume_unique=True, return_indices=True)
            if len(both):
                shared = kernel.matrix(params, x, inputs[j]) @ weights[j][:, of_j]
                value = np.einsum("nq,nq->q", weights[i][:, of_i], shared)
                result[both, place[both, i], place[both, j]] = value
                result[both, place[both, j], place[both, i]] = value
