"""Exact covariances between the experts' predictions, from inputs that the sites have disclosed to the center.

Source: Jalali and Kasneci 2022, eq. 6. The noise is part of an expert's own variance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float64, Int64
from scipy.linalg import cho_solve

from numerics.gp.kernels import Kernel
from numerics.gp.likelihood import factor

MEMORY = 64_000_000
"""Largest number of entries of the experts' weights at a time: half a GB."""


def covariances(
    kernel: Kernel,
    theta: Float64[np.ndarray, "p"],
    inputs: Sequence[Float64[np.ndarray, "n d"]],
    points: Float[np.ndarray, "N d"],
    selected: Int64[np.ndarray, "N K"],
) -> Float64[np.ndarray, "N K K"]:
    """Compute the covariances of the predictions of the experts selected for each point.

    ``R_ij = A_i' k(X_i, X_j) A_j`` with ``A_i = (K_i + sigma^2 I)^-1 k(X_i, x*)``. ``R_ii`` includes the noise: it is
    the variance that expert i explains. Each pair of experts costs one product ``k(X_i, X_j) A_j`` over the points
    that selected both.

    Parameters
    ----------
    kernel : Kernel
        Kernel of all experts.
    theta : ndarray
        ``(p,)`` parameters of all experts; the last one is log sigma.
    inputs : sequence of ndarray
        ``(n_i, d)`` of each expert, standardized.
    points : ndarray
        ``(N, d)`` query points, standardized.
    selected : ndarray
        ``(N, K)`` numbers of experts, no expert twice at a point; -1 for none, with covariances 0.

    Returns
    -------
    ndarray
        ``(N, K, K)``, in the order of `selected`.

    Examples
    --------
    Two experts with the same row give the same prediction, so the covariance differs from the variance by noise alone:

    >>> from numerics.gp.radial_kernels import SquaredExponential
    >>> theta, row = np.log([1.0, 1.0, 0.1]), np.zeros((1, 1))
    >>> covariances(SquaredExponential(1), theta, [row, row], np.zeros((1, 1)), np.array([[0, 1]])).round(4)
    array([[[0.9901, 0.9803],
            [0.9803, 0.9901]]])
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
    """Write the covariances at a block of points into `result`, pair by pair of experts."""
    place = np.full((len(points), len(inputs)), -1)
    at, column = np.nonzero(selected >= 0)
    place[at, selected[at, column]] = column
    points_of = [np.flatnonzero(place[:, i] >= 0) for i in range(len(inputs))]
    weights = []
    for i, (x, lower) in enumerate(zip(inputs, factors, strict=True)):
        cross = kernel.matrix(params, x, points[points_of[i]])
        weights.append(cho_solve((lower, True), cross, check_finite=False))
        own = place[points_of[i], i]
        result[points_of[i], own, own] = np.einsum("nq,nq->q", cross, weights[i])
    for i, x in enumerate(inputs):
        for j in range(i):
            both, of_i, of_j = np.intersect1d(points_of[i], points_of[j], assume_unique=True, return_indices=True)
            if len(both):
                shared = kernel.matrix(params, x, inputs[j]) @ weights[j][:, of_j]
                value = np.einsum("nq,nq->q", weights[i][:, of_i], shared)
                result[both, place[both, i], place[both, j]] = value
                result[both, place[both, j], place[both, i]] = value
