"""Where to measure next: the point of largest integrated variance reduction (Seo, Wallat, Graepel and Obermayer 2000).

An observation at point c, with noise sigma^2, takes ``cov(t, c)^2 / (var(c) + sigma^2)`` from the variance at another
point t, whatever is observed. The covariances given all rows follow from the experts' joint answers about c: around c,
the function at t is its regression on the values g of `numerics.gp.joint_answers`, whose covariances with the function
at c the combination knows. Where the regression leaves more than the experts do, the covariance is mostly unknown: its
square counts in the proportion of what the experts leave to the sum of both, and is at most the product of variances.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from numerics.gp.expert import blocks
from numerics.gp.joint_answers import Frame
from numerics.gp.kernels import Kernel


def variance_reductions(
    kernel: Kernel,
    params: Float64[np.ndarray, "p"],
    points: Float64[np.ndarray, "N d"],
    targets: Float64[np.ndarray, "T d"],
    offsets: Float64[np.ndarray, "D d"],
    covariances: Float64[np.ndarray, "N D+1"],
    variances: Float64[np.ndarray, "T"],
    noise: float,
) -> Float64[np.ndarray, "N"]:
    """Compute the mean reduction of the variance at the targets by a measurement at each point.

    Parameters
    ----------
    kernel, params
        Kernel and its parameters.
    points, targets : ndarray
        ``(N, d)`` points where one may measure, and ``(T, d)`` points whose values matter.
    offsets : ndarray
        ``(D, d)`` landmarks of every point.
    covariances : ndarray
        ``(N, D + 1)`` covariances of g_0 to g_D with g_0, given all answers (`numerics.gp.joint_answers.combine`).
    variances : ndarray
        ``(T,)`` variances of the function at the targets, given all answers.
    noise : float
        Variance of the noise.

    Returns
    -------
    ndarray
        ``(N,)`` in the squared units of the function.

    Examples
    --------
    With no rows, a measurement at the point itself leaves a hundredth of its variance of 1:

    >>> from numerics.gp.radial_kernels import SquaredExponential
    >>> point, params = np.zeros((1, 1)), np.zeros(2)
    >>> nothing = np.array([[1.0, 0.0]])
    >>> variance_reductions(SquaredExponential(1), params, point, point, np.ones((1, 1)), nothing, np.ones(1), 0.01)
    array([0.99009901])
    """
    N, T, D = len(points), len(targets), len(offsets)
    reductions = np.empty(N)
    for some in blocks(N, 3 * T * (D + 1)):
        here = points[some]
        places = (here[:, np.newaxis] + offsets).reshape(-1, points.shape[1])
        to_points = kernel.matrix(params, here, targets)
        to_landmarks = kernel.matrix(params, targets, places).reshape(T, -1, D).transpose(1, 0, 2)
        frame = Frame.around(kernel, params, here, offsets)
        slopes = frame.whiten(to_points, to_landmarks)
        squares = np.einsum("qtd,qd->qt", slopes, covariances[some]) ** 2 * frame.prior
        own = frame.prior[:, 0] * covariances[some, 0]
        squares = np.minimum(squares, own[:, np.newaxis] * variances)
        missed = np.maximum(kernel.diagonal(params, targets) - np.einsum("qtd,qtd->qt", slopes, slopes), 0.0)
        reductions[some] = np.mean(squares * variances / (variances + missed), axis=1) / (own + noise)
    return reductions
