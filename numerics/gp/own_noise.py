"""The noise of a site's own instrument, beside the common values of all other hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64
from scipy.linalg import solve_triangular

from numerics.gp.kernels import Kernel
from numerics.gp.likelihood import SIGMA_BOUNDS, factor

FACTORS: Float64[np.ndarray, "f"] = np.geomspace(0.05, 20.0, 21)
"""Noises that are tried, relative to the common one: 1 is among them, each is 1.35 times the one before."""


def with_own_noise(
    kernel: Kernel,
    theta: Float64[np.ndarray, "p"],
    parts: Sequence[tuple[Float64[np.ndarray, "n d"], Float64[np.ndarray, "n"]]],
) -> Float64[np.ndarray, "p"]:
    """Return theta with the noise of largest likelihood for these rows among `FACTORS` of theta's.

    Parameters
    ----------
    kernel : Kernel
        Covariance of the process.
    theta : ndarray
        ``(p,)`` common hyperparameters, the logarithm of the noise's standard deviation last.
    parts : sequence of tuple
        Inputs and outputs of each of the site's experts.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the rows have no Cholesky factor with any of the noises.

    Examples
    --------
    >>> from numerics.gp.radial_kernels import SquaredExponential
    >>> x = np.linspace(-2, 2, 40)[:, np.newaxis]
    >>> theta = with_own_noise(SquaredExponential(1), np.log([1.0, 1.0, 0.5]), [(x, np.sin(x[:, 0]))])
    >>> bool(np.exp(theta[-1]) < 0.05)
    True
    """
    candidates = np.tile(theta, (len(FACTORS), 1))
    candidates[:, -1] = np.clip(theta[-1] + np.log(FACTORS), *np.log(SIGMA_BOUNDS))
    values = [sum(_log_likelihood(kernel, candidate, x, y) for x, y in parts) for candidate in candidates]
    if not np.isfinite(values).any():
        raise np.linalg.LinAlgError("no noise gives a Cholesky factor")
    best: Float64[np.ndarray, "p"] = candidates[int(np.argmax(values))]
    return best


def _log_likelihood(
    kernel: Kernel, theta: Float64[np.ndarray, "p"], x: Float64[np.ndarray, "n d"], y: Float64[np.ndarray, "n"]
) -> float:
    """Return the log marginal likelihood up to a constant; minus infinity if it cannot be computed."""
    try:
        lower = factor(kernel, theta, x)
    except np.linalg.LinAlgError:
        return -np.inf
    whitened = solve_triangular(lower, y, lower=True, check_finite=False)
    return -0.5 * float(whitened @ whitened) - float(np.log(np.diagonal(lower)).sum())
