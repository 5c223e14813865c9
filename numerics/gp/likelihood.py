"""The log marginal likelihood of one expert, its derivatives, and the fit of a single expert.

theta contains the kernel's parameters and, as its last entry, log sigma; ``Z = K + sigma^2 I``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.linalg import lapack

from numerics.gp.kernels import Gram, Kernel

SIGMA_BOUNDS = (1e-3, 1e3)
"""Bounds of sigma, the standard deviation of the noise."""
START_LOG_SIGMA = 0.5 * math.log(0.1)

_JITTERS = (0.0, 1e-10, 1e-8, 1e-6)
"""Shares of the kernel's diagonal added to that of Z, in this order, until Z has a Cholesky factor."""
_LOG_2PI = math.log(2.0 * math.pi)
_UNREACHABLE = 1e10
"""Objective per row where the likelihood cannot be evaluated: finite, since a line search computes with it."""

_Theta = Float64[np.ndarray, "p"]
_Rows = Float64[np.ndarray, "n d"]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Likelihood and derivatives of one expert at one theta; those of several experts with a common theta add up.

    Attributes
    ----------
    value : float
        Log marginal likelihood; ``-inf`` if it cannot be evaluated, with zeros for the derivatives.
    gradient : ndarray
        ``(p,)`` derivatives by theta.
    information : ndarray
        ``(p, p)`` average information, positive semidefinite: the mean of the observed and the expected information
        (Gilmour, Thompson, Cullis 1995).
    """

    value: float
    gradient: _Theta
    information: Float64[np.ndarray, "p p"]


def start_theta(kernel: Kernel) -> _Theta:
    """Return the theta at the start of a search without any knowledge, ``(p,)``.

    Examples
    --------
    >>> from numerics.gp.radial_kernels import SquaredExponential
    >>> np.exp(start_theta(SquaredExponential(1))).round(2)
    array([1.  , 1.  , 0.32])
    """
    return np.append(kernel.start(), START_LOG_SIGMA)


def theta_bounds(kernel: Kernel) -> Float64[np.ndarray, "p 2"]:
    """Return the smallest and the largest value of each entry of theta, ``(p, 2)``.

    Examples
    --------
    >>> from numerics.gp.radial_kernels import SquaredExponential
    >>> theta_bounds(SquaredExponential(4)).shape
    (6, 2)
    """
    return np.vstack([kernel.bounds(), np.log([SIGMA_BOUNDS])])


def factor(
    kernel: Kernel, theta: _Theta, x: _Rows, noise: Float64[np.ndarray, "n"] | None = None
) -> Float64[np.ndarray, "n n"]:
    """Compute the lower Cholesky factor ``(n, n)`` of Z at the rows x, with jitter if rounding requires it.

    `noise` are the known variances of the rows' own noise, beside that of theta.

    Raises
    ------
    numpy.linalg.LinAlgError
        If no jitter helps, for instance because theta is not finite.

    Examples
    --------
    >>> from numerics.gp.radial_kernels import SquaredExponential
    >>> factor(SquaredExponential(1), np.log([1.0, 3.0, 4.0]), np.zeros((1, 1)))
    array([[5.]])
    """
    common = np.exp(2.0 * theta[-1])
    return _cholesky(kernel.gram(theta[:-1], x).matrix, common if noise is None else common + noise)


def evaluate(
    kernel: Kernel,
    theta: _Theta,
    x: _Rows,
    y: Float64[np.ndarray, "*columns"],
    noise: Float64[np.ndarray, "n k"] | None = None,
) -> Evaluation:
    """Evaluate the log marginal likelihood of one expert (Jalali and Kasneci 2022, eq. 1) with its derivatives.

    Parameters
    ----------
    kernel : Kernel
        Kernel of d inputs.
    theta : ndarray
        ``(p,)``.
    x, y : ndarray
        ``(n, d)`` inputs and ``(n,)`` outputs, standardized; n at least 1. Or ``(n, k)`` outputs of k functions, whose
        likelihoods are summed.
    noise : ndarray, optional
        ``(n, k)`` known variances of the noise of these outputs, beside that of theta.

    Returns
    -------
    Evaluation

    Examples
    --------
    One row has the normal density with variance s^2 + sigma^2, here 1:

    >>> from numerics.gp.radial_kernels import SquaredExponential
    >>> theta = np.log([1.0, 0.8, 0.6])
    >>> round(evaluate(SquaredExponential(1), theta, np.zeros((1, 1)), np.zeros(1)).value, 3)
    -0.919
    """
    gram, common = kernel.gram(theta[:-1], x), float(np.exp(2.0 * theta[-1]))
    try:
        if noise is None:
            return _evaluate(gram, common, y, _cholesky(gram.matrix, common))
        of_each = [
            _evaluate(gram, common, np.ascontiguousarray(column), _cholesky(gram.matrix, common + own))
            for column, own in zip(y.T, noise.T, strict=True)
        ]
    except np.linalg.LinAlgError:
        return Evaluation(-np.inf, np.zeros(len(theta)), np.zeros((len(theta), len(theta))))
    return Evaluation(
        sum(each.value for each in of_each),
        np.sum([each.gradient for each in of_each], axis=0),
        np.sum([each.information for each in of_each], axis=0),
    )


def _evaluate(gram: Gram, noise: float, y: Float64[np.ndarray, "n"], L: Float64[np.ndarray, "n n"]) -> Evaluation:
    """Evaluate one function's outputs; L is the factor of Z, and `noise` the variance of theta's noise."""
    a = lapack.dpotrs(L, y, lower=1)[0]
    value = -0.5 * float(y @ a) - float(np.log(np.diagonal(L)).sum()) - 0.5 * len(y) * _LOG_2PI

    # The columns (dZ / dtheta_q) a give the information and, with the traces of Z^-1 dZ / dtheta_q, the gradient.
    moved = np.column_stack([gram.tangent(a), 2.0 * noise * a])
    half = lapack.dtrtrs(L, moved, lower=1)[0]
    inverse = _inverse(L)
    traces = np.append(gram.contract(inverse), 2.0 * noise * np.trace(inverse))
    return Evaluation(value, 0.5 * (a @ moved - traces), 0.5 * (half.T @ half))


def fit_one(
    kernel: Kernel,
    x: _Rows,
    y: Float64[np.ndarray, "*columns"],
    start: _Theta | None = None,
    *,
    noise: Float64[np.ndarray, "n k"] | None = None,
    rows: int | None = None,
    rng: np.random.Generator | None = None,
    evaluations: int = 60,
) -> _Theta:
    """Fit theta of largest likelihood to one expert alone, by L-BFGS-B.

    Parameters
    ----------
    kernel : Kernel
        Kernel of d inputs.
    x, y, noise : ndarray
        As in `evaluate`.
    start : ndarray, optional
        ``(p,)`` start; by default `start_theta`.
    rows : int, optional
        Largest number of rows to use, sampled without replacement: enough for the start of another search.
    rng : numpy.random.Generator, optional
        Generator of the sample; needed only with `rows` below n.
    evaluations : int
        Approximate largest number of evaluations of the likelihood.

    Returns
    -------
    ndarray
        ``(p,)``.

    Raises
    ------
    ValueError
        If rows are to be sampled without a generator.

    Examples
    --------
    The noise of outputs that are a smooth function is small:

    >>> from numerics.gp.radial_kernels import SquaredExponential
    >>> x = np.linspace(-2, 2, 20)[:, np.newaxis]
    >>> bool(np.exp(fit_one(SquaredExponential(1), x, np.sin(x[:, 0]))[-1]) < 0.05)
    True
    """
    from scipy.optimize import Bounds, minimize  # which only the first ask of a run needs

    if rows is not None and rows < len(y):
        if rng is None:
            raise ValueError("rows can be drawn only with a random generator")
        sample = np.sort(rng.choice(len(y), rows, replace=False))
        x, y, noise = x[sample], y[sample], None if noise is None else noise[sample]

    def loss(theta: _Theta) -> tuple[float, _Theta]:
        at = evaluate(kernel, theta, x, y, noise)
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


def fit_best(
    kernel: Kernel,
    x: _Rows,
    y: Float64[np.ndarray, "*columns"],
    noise: Float64[np.ndarray, "n k"] | None = None,
) -> _Theta:
    """Fit theta of largest likelihood to one expert alone, from each of the kernel's starts (`fit_one`).

    Examples
    --------
    >>> from numerics.gp.radial_kernels import SquaredExponential
    >>> x = np.linspace(-2, 2, 20)[:, np.newaxis]
    >>> fit_best(SquaredExponential(1), x, np.sin(x[:, 0])).shape
    (3,)
    """
    optima = [fit_one(kernel, x, y, np.append(start, START_LOG_SIGMA), noise=noise) for start in kernel.starts()]
    return optima[int(np.argmax([evaluate(kernel, theta, x, y, noise).value for theta in optima]))]


def _cholesky(
    matrix: Float64[np.ndarray, "n n"], noise: float | Float64[np.ndarray, "n"]
) -> Float64[np.ndarray, "n n"]:
    """Compute the lower Cholesky factor of ``matrix + noise I``, or with a noise of each row."""
    unit = float(np.trace(matrix)) / len(matrix)
    for jitter in _JITTERS:
        # LAPACK stores columns; the transpose of a symmetric matrix avoids a second copy.
        z = matrix.copy().T
        z[np.diag_indices_from(z)] += noise + jitter * unit
        L: Float64[np.ndarray, "n n"]
        L, failed = lapack.dpotrf(z, lower=1, overwrite_a=1)
        # Some LAPACKs do not report NaN.
        if not failed and np.isfinite(np.diagonal(L)).all():
            return L
    raise np.linalg.LinAlgError("Z has no Cholesky factor")


def _inverse(L: Float64[np.ndarray, "n n"]) -> Float64[np.ndarray, "n n"]:
    """Compute ``(L L^T)^-1``, symmetric to the bit; L is overwritten."""
    lower = lapack.dpotri(L, lower=1, overwrite_c=1)[0]
    inverse: Float64[np.ndarray, "n n"] = lower + lower.T
    inverse[np.diag_indices_from(inverse)] *= 0.5
    return inverse
