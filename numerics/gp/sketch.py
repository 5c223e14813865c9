"""Covariances between the experts' predictions, from features of each prediction at public landmarks.

Experts i and j observe the same function at different rows. Their predictions at a query point x* depend on each other
through the function's value there, and through the rest of the function. ``Cov(mu_i, mu_j)`` is ``r_i r_j / k**``, the
part due to the value, plus the covariance of the residuals given the value. The latter is approximated by projection
on the residuals of the function at D landmarks Z around the point:

- ``C = k(Z, Z) - k(Z, x*) k(x*, Z) / k**``, with Cholesky factor L;
- ``w_i = L^-1 (k(Z, X_i) A_i - k(Z, x*) r_i / k**)``, with the weights A_i of expert i's rows;
- ``R_ij = r_i r_j / k** + w_i' w_j`` and ``R_ii = r_i``.

This is the anchor of docs/gp.md, where x* is one more landmark, which is eliminated first. The residual of a prediction
has the variance ``r_i - r_i^2 / k**``, and w_i is not longer than its square root. A site sends w_i divided by this
root, a direction of length 1 at most. R is therefore positive semidefinite whatever a site sends, and the center needs
no landmark to compute it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64
from scipy.linalg import solve_triangular

from numerics.gp.coarse_answers import effective_rows
from numerics.gp.expert import Expert, blocks
from numerics.gp.kernels import Kernel
from numerics.gp.radial_kernels import Matern, SquaredExponential

_JITTER = 1e-9
"""Added to the residual variances at the landmarks, as a share of the prior variance."""
_TINY = float(np.finfo(np.float64).tiny)
_NOTHING = 1e-30
_LARGEST = 300.0
"""Largest exponent at which a product of two exponentials neither overflows nor underflows."""

_Points = Float64[np.ndarray, "q d"]
_Offsets = Float64[np.ndarray, "D d"]


class Sketch(NamedTuple):
    """An expert's answer about q query points.

    Attributes
    ----------
    mean, explained : ndarray
        ``(q,)`` (`numerics.gp.expert.WeightedPrediction`).
    directions : ndarray
        ``(q, D)``, each of length 1 at most; half precision suffices on the wire.
    rows : ndarray
        ``(q,)`` number of rows that the answer rests on (`numerics.gp.coarse_answers.effective_rows`).
    """

    mean: Float64[np.ndarray, "q"]
    explained: Float64[np.ndarray, "q"]
    directions: Float64[np.ndarray, "q D"]
    rows: Float64[np.ndarray, "q"]


def features(
    expert: Expert, points: Float[np.ndarray, "q d"], offsets: Float[np.ndarray, "D d"], n_shared: int = 0
) -> Sketch:
    """Compute predictions and directions of an expert.

    Parameters
    ----------
    expert : Expert
        Expert that predicts.
    points : ndarray
        ``(q, d)`` query points in standardized units.
    offsets : ndarray
        ``(D, d)`` landmarks relative to every point, the same for all experts (`numerics.gp.landmarks`); none: the
        directions are empty.
    n_shared : int
        Number of the expert's first rows that everybody knows; they do not count in `rows`.

    Returns
    -------
    Sketch

    Examples
    --------
    >>> expert = Expert(SquaredExponential(1), np.log([1.0, 1.0, 0.1]), np.array([[0.0], [0.5]]), np.zeros(2))
    >>> sketch = features(expert, np.array([[0.2], [0.4], [9.0]]), np.array([[-1.0], [1.0]]))
    >>> sketch.directions.shape
    (3, 2)
    """
    points, offsets = np.asarray(points, dtype=np.float64), np.asarray(offsets, dtype=np.float64)
    D = len(offsets)
    mean, explained, directions = np.empty(len(points)), np.empty(len(points)), np.empty((len(points), D))
    rows = np.empty(len(points))
    for some in blocks(len(points), max(len(expert.x), 2 * (D + 1) ** 2)):
        answer = expert.answer(points[some])
        mean[some], explained[some] = answer.mean, answer.explained
        rows[some] = effective_rows(answer.weights[n_shared:])
        if D:
            around = _around(expert, points[some], offsets, answer.weights)
            directions[some] = directions_of(
                expert.kernel, expert.params, points[some], offsets, answer.explained, around
            )
    return Sketch(mean, explained, directions, rows)


def covariance_of(
    explained: Float64[np.ndarray, "N K"],
    directions: Float[np.ndarray, "N K D"],
    prior: Float64[np.ndarray, "N"],
) -> Float64[np.ndarray, "N K K"]:
    """Compute the covariances between the predictions of K experts at each of N points.

    Parameters
    ----------
    explained : ndarray
        ``(N, K)`` variances of the predictions, from 0 to k**.
    directions : ndarray
        ``(N, K, D)``; a direction longer than 1 is shortened to length 1.
    prior : ndarray
        ``(N,)`` prior variance k** at the points.

    Returns
    -------
    ndarray
        ``(N, K, K)``, positive semidefinite, also jointly with the function's value at the point.

    Examples
    --------
    With orthogonal directions, only the function's value at the point correlates the predictions:

    >>> covariance_of(np.full((1, 2), 0.5), np.eye(2)[np.newaxis], np.ones(1))
    array([[[0.5 , 0.25],
            [0.25, 0.5 ]]])
    """
    prior = np.maximum(prior, _TINY)
    share = np.clip(explained / prior[:, None], 0.0, 1.0)
    residuals = bounded(directions) * np.sqrt(explained * (1.0 - share))[:, :, None]
    through = explained / np.sqrt(prior)[:, None]
    covariance: Float64[np.ndarray, "N K K"] = residuals @ residuals.transpose(0, 2, 1)
    covariance += through[:, :, None] * through[:, None, :]
    np.einsum("nkk->nk", covariance)[...] = explained
    return covariance


def bounded(directions: Float[np.ndarray, "... D"]) -> Float64[np.ndarray, "... D"]:
    """Convert directions to double precision, and shorten those longer than 1 to length 1.

    Examples
    --------
    >>> bounded(np.array([[3.0, 4.0], [0.3, 0.4]], np.float16)).round(2)
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """
    directions = np.asarray(directions, dtype=np.float64)
    length = np.sqrt(np.einsum("...d,...d->...", directions, directions))
    shortened: Float64[np.ndarray, "... D"] = directions / np.maximum(length, 1.0)[..., None]
    return shortened


def directions_of(
    kernel: Kernel,
    params: Float64[np.ndarray, "p"],
    points: _Points,
    offsets: _Offsets,
    explained: Float64[np.ndarray, "q"],
    around: Float64[np.ndarray, "q D"],
) -> Float64[np.ndarray, "q D"]:
    """Compute the directions of predictions from their covariances with the function at the landmarks.

    Parameters
    ----------
    kernel, params
        Kernel and its parameters.
    points, offsets : ndarray
        ``(q, d)`` points, and ``(D, d)`` the landmarks' offsets from each of them.
    explained : ndarray
        ``(q,)`` explained variances of the predictions.
    around : ndarray
        ``(q, D)`` covariance of each prediction with the function at each of its landmarks.
    """
    prior = np.maximum(kernel.diagonal(params, points), _TINY)
    share = explained / prior
    lower, to_point = residual_factor(kernel, params, points, offsets)
    residual = around - to_point * share[:, None]
    if isinstance(kernel, SquaredExponential | Matern):
        features = solve_triangular(lower[0], residual.T, lower=True, check_finite=False).T
    else:
        features = np.linalg.solve(lower, residual[:, :, None])[:, :, 0]
    # Where the residual is almost 0, its direction does not matter.
    longest = np.sqrt(prior * np.maximum(share * (1.0 - share), _NOTHING))
    return bounded(features / longest[:, None])


def residual_factor(
    kernel: Kernel, params: Float64[np.ndarray, "p"], points: _Points, offsets: _Offsets
) -> tuple[Float64[np.ndarray, "q D D"], Float64[np.ndarray, "q D"]]:
    """Compute the Cholesky factor L of the residuals at each point's landmarks, and their covariance with the point.

    With a stationary kernel they are the same around every point: the first dimension is then 1.
    """
    D = len(offsets)
    if isinstance(kernel, SquaredExponential | Matern):
        points = np.zeros((1, offsets.shape[1]))
    joint = kernel.batch(params, points[:, None, :] + np.concatenate([offsets, np.zeros((1, offsets.shape[1]))]))
    to_point, prior = joint[:, :D, D], np.maximum(joint[:, D, D], _TINY)[:, None]
    residuals = joint[:, :D, :D] - to_point[:, :, None] * (to_point / prior)[:, None, :]
    # The variance of a sum of kernels may be larger at a landmark than at the point.
    scale = np.maximum(prior, np.einsum("qdd->qd", residuals).max(axis=1, keepdims=True))
    np.einsum("qdd->qd", residuals)[...] += _JITTER * scale
    return np.linalg.cholesky(residuals), to_point


def _around(
    expert: Expert, points: _Points, offsets: _Offsets, weights: Float64[np.ndarray, "n q"]
) -> Float64[np.ndarray, "q D"]:
    """Compute the covariance of the prediction with the function at each landmark, ``A' k(X, x* + offset)``."""
    kernel, params = expert.kernel, expert.params
    if isinstance(kernel, SquaredExponential):
        # With lengths of 1, exp(-|x - x* - o|^2 / 2) = exp(-|x - x*|^2 / 2) exp(x'o) exp(-x*'o - |o|^2 / 2): a product
        # of matrices replaces n q D exponentials.
        length, center = kernel.lengths(params), expert.x.mean(axis=0)
        units = offsets / length
        rows, places = ((x - center) / length @ units.T for x in (expert.x, points))
        if max(np.abs(rows).max(), np.abs(places).max(initial=0.0)) < _LARGEST:
            near = weights * kernel.matrix(params, expert.x, points)
            separated: Float64[np.ndarray, "q D"] = near.T @ np.exp(rows)
            separated *= np.exp(-places - 0.5 * np.sum(units**2, axis=1))
            return separated
    n, (D, d) = len(expert.x), offsets.shape
    around = np.empty((len(points), D))
    for some in blocks(len(points), 2 * n * D):
        landmarks = (points[some, None, :] + offsets).reshape(-1, d)
        cross = kernel.matrix(params, expert.x, landmarks).reshape(n, -1, D)
        around[some] = np.matmul(cross.transpose(1, 2, 0), weights.T[some, :, None])[:, :, 0]
    return around
