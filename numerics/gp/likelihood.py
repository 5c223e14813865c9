"""The log marginal likelihood of one expert, its derivatives, and the fit of a single expert.

theta holds a kernel's parameters and, last, log sigma; ``Z = K + sigma^2 I``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.linalg import lapack

from numerics.gp.kernels import Kernel

SIGMA_BOUNDS = (1e-3, 1e3)
"""Of sigma, the deviation of the noise."""
START_LOG_SIGMA = 0.5 * math.log(0.1)

_JITTERS = (0.0, 1e-10, 1e-8, 1e-6)
"""Added to Z's diagonal one after the other, as a share of the kernel's own, until Z has a Cholesky factor."""
_LOG_2PI = math.log(2.0 * math.pi)
_UNREACHABLE = 1e10
"""Objective of a row where the likelihood cannot be evaluated: a line search must be able to calculate with it."""

_Theta = Float64[np.ndarray, "p"]
_Rows = Float64[np.ndarray, "n d"]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What one expert knows of one theta; of several experts with a common theta, each part adds up.

    Attributes
    ----------
    value : float
        Log marginal likelihood; ``-inf`` where it cannot be evaluated, and then the rest is 0.
    gradient : ndarray
        ``(p,)`` its derivatives by theta.
    information : ndarray
        ``(p, p)`` average information, positive semidefinite: the mean of what the data show and what the model expects
        of minus the second derivatives (Gilmour, Thompson, Cullis 1995).
    """

    value: float
    gradient: _Theta
    information: Float64[np.ndarray, "p p"]


def start_theta(kernel: Kernel) -> _Theta:
    """``(p,)`` the theta to begin a search with when nothing is known."""
    return np.append(kernel.start(), START_LOG_SIGMA)


def theta_bounds(kernel: Kernel) -> Float64[np.ndarray, "p 2"]:
    """``(p, 2)`` the least and the largest value of each entry of theta."""
    return np.vstack([kernel.bounds(), np.log([SIGMA_BOUNDS])])


def factor(kernel: Kernel, theta: _Theta, x: _Rows) -> Float64[np.ndarray, "n n"]:
    """Lower Cholesky factor ``(n, n)`` of Z at the rows x, with jitter where rounding leaves Z no factor.

    Raises
    ------
    numpy.linalg.LinAlgError
        If no jitter helps, as with a theta that is not finite.
    """
    return _cholesky(kernel.gram(theta[:-1], x).matrix, np.exp(2.0 * theta[-1]))


def evaluate(kernel: Kernel, theta: _Theta, x: _Rows, y: Float64[np.ndarray, "n"]) -> Evaluation:
    """Log marginal likelihood of one expert (Jalali and Kasneci 2022, eq. 1) with its derivatives.

    Parameters
    ----------
    kernel : Kernel
        Of d inputs.
    theta : ndarray
        ``(p,)``.
    x, y : ndarray
        ``(n, d)`` inputs and ``(n,)`` outputs, standardised; n at least 1.
    """
    gram, noise = kernel.gram(theta[:-1], x), np.exp(2.0 * theta[-1])
    try:
        L = _cholesky(gram.matrix, noise)
    except np.linalg.LinAlgError:
        return Evaluation(-np.inf, np.zeros(len(theta)), np.zeros((len(theta), len(theta))))
    a = lapack.dpotrs(L, y, lower=1)[0]
    value = -0.5 * float(y @ a) - float(np.log(np.diagonal(L)).sum()) - 0.5 * len(y) * _LOG_2PI

    # Columns (dZ / dtheta_q) a: they give the information and, with the traces of Z^-1 dZ / dtheta_q, the gradient.
    moved = np.column_stack([gram.tangent(a), 2.0 * noise * a])
    half = lapack.dtrtrs(L, moved, lower=1)[0]
    inverse = _inverse(L)
    traces = np.append(gram.contract(inverse), 2.0 * noise * np.trace(inverse))
    return Evaluation(value, 0.5 * (a @ moved - traces), 0.5 * (half.T @ half))


def fit_one(
    kernel: Kernel,
    x: _Rows,
    y: Float64[np.ndarray, "n"],
    start: _Theta | None = None,
    *,
    rows: int | None = None,
    rng: np.random.Generator | None = None,
    evaluations: int = 60,
) -> _Theta:
    """The theta of largest likelihood for one expert alone, by L-BFGS-B.

    Parameters
    ----------
    kernel : Kernel
        Of d inputs.
    x, y : ndarray
        ``(n, d)`` inputs and ``(n,)`` outputs, standardised; n at least 1.
    start : ndarray, optional
        ``(p,)`` the theta to begin with; `start_theta` if not given.
    rows : int, optional
        Learn from so many rows at most, drawn without replacement: enough for a start of a search elsewhere.
    rng : numpy.random.Generator, optional
        Draws the rows; needed only with `rows` below n.
    evaluations : int
        About how many times the likelihood is evaluated at most.

    Returns
    -------
    ndarray
        ``(p,)``.

    Raises
    ------
    ValueError
        If rows have to be drawn and there is no generator.
    """
    from scipy.optimize import Bounds, minimize  # which only the first ask of a run needs

    if rows is not None and rows < len(y):
        if rng is None:
            raise ValueError("rows can be drawn only with a random generator")
        drawn = np.sort(rng.choice(len(y), rows, replace=False))
        x, y = x[drawn], y[drawn]

    def loss(theta: _Theta) -> tuple[float, _Theta]:
        at = evaluate(kernel, theta, x, y)
        value = -at.value / len(y) if np.isfinite(at.value) else _UNREACHABLE
        return value, -at.gradient / len(y)

    box = theta_bounds(kernel)
    best = minimize(
        loss,
        np.clip(start_theta(kernel) if start is None else start, *box.T),
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(*box.T),
        options={"maxfun": evaluations, "maxcor": 20, "ftol": 1e-7, "gtol": 1e-5},
    )
    theta: _Theta = best.x
    return theta


def _cholesky(matrix: Float64[np.ndarray, "n n"], noise: float) -> Float64[np.ndarray, "n n"]:
    """Lower factor of ``matrix + noise I``."""
    unit = float(np.trace(matrix)) / len(matrix)
    for jitter in _JITTERS:
        # LAPACK works on columns; the transpose of a symmetric matrix of rows is that without a second copy.
        z = matrix.copy().T
        z[np.diag_indices_from(z)] += noise + jitter * unit
        L: Float64[np.ndarray, "n n"]
        L, failed = lapack.dpotrf(z, lower=1, overwrite_a=1)
        # Optimised LAPACKs let NaN pass.
        if not failed and np.isfinite(np.diagonal(L)).all():
            return L
    raise np.linalg.LinAlgError("Z has no Cholesky factor")


def _inverse(L: Float64[np.ndarray, "n n"]) -> Float64[np.ndarray, "n n"]:
    """``(L L^T)^-1``, symmetric to the bit; L is overwritten."""
    lower = lapack.dpotri(L, lower=1, overwrite_c=1)[0]
    inverse: Float64[np.ndarray, "n n"] = lower + lower.T
    inverse[np.diag_indices_from(inverse)] *= 0.5
    return inverse
