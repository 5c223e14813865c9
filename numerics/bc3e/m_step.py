"""The M-step of BC3E: beta in closed form, alpha by a safeguarded Newton iteration (Acharya et al. 2011, eqs. 7, 8).

SciPy is imported by the functions of alpha, which only the fusion center maximizes: a site that answers an ask in a
process of its own does not wait for it.
"""

from __future__ import annotations

import zlib

import numpy as np
from jaxtyping import Float64, Int64

from numerics.bc3e.grid import from_grid

ALPHA_MIN = 1e-3
ALPHA_MAX = 1e4
"""The box of alpha: with one class certain everywhere the optimum runs to infinity, with a class never seen to 0."""


def is_alpha(alpha: Float64[np.ndarray, "k"]) -> bool:
    """Return whether alpha lies in its box, up to rounding. Beyond it the sums of the E-step leave their grid.

    Examples
    --------
    >>> is_alpha(np.array([1.0, ALPHA_MAX])), is_alpha(np.array([1.0, 1e300]))
    (True, False)
    """
    return bool(((alpha > ALPHA_MIN / 2) & (alpha < 2 * ALPHA_MAX)).all())


def maximize_beta(mass: Int64[np.ndarray, "k k_m"], bits: int, smoothing: float = 0.0) -> Float64[np.ndarray, "k k_m"]:
    """Apply eq. (7): rows of beta proportional to the masses plus `smoothing`; a class without mass gets a uniform row.

    Parameters
    ----------
    mass : ndarray
        ``T_mij``, ``(k, k_m)``, on the grid of `bits`.
    bits : int
        Fineness of the grid.
    smoothing : float
        eta of a Dirichlet(1 + eta) prior on every row.

    Examples
    --------
    >>> maximize_beta(np.array([[3, 1], [0, 0]]), bits=0).tolist()
    [[0.75, 0.25], [0.5, 0.5]]
    """
    counts = from_grid(mass, bits) + smoothing
    totals = from_grid(mass.sum(axis=1, keepdims=True), bits) + smoothing * mass.shape[1]
    return np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), 1.0 / mass.shape[1])


def smoothing_bound(beta: Float64[np.ndarray, "k k_m"], smoothing: float) -> float:
    """Compute what the prior of `smoothing` adds to the bound: eta * sum log beta."""
    if smoothing == 0.0:
        return 0.0
    return float(smoothing * np.log(np.maximum(beta, 1e-300)).sum())


def initial_beta(name: str, k: int, k_m: int, start: int) -> Float64[np.ndarray, "k k_m"]:
    """Return a clustering's first beta: uniform rows (``start=0``), or rows drawn from Dirichlet(1) by seed and name.

    The draw depends on the clustering's name, not on its place in a list: all sites draw the same.
    """
    if start == 0:
        return np.full((k, k_m), 1.0 / k_m)
    rng = np.random.default_rng([start, zlib.crc32(name.encode())])
    return rng.dirichlet(np.ones(k_m), size=k)


def expected_log_prior(alpha: Float64[np.ndarray, "k"], n: int, log_theta: Float64[np.ndarray, "k"]) -> float:
    """Compute the bound's terms in alpha: eq. (8) with its signs corrected; `log_theta` is s, ``(k,)``."""
    from scipy.special import gammaln

    return float(n * (gammaln(alpha.sum()) - gammaln(alpha).sum()) + ((alpha - 1.0) * log_theta).sum())


def expected_log_likelihood(beta: Float64[np.ndarray, "k k_m"], mass: Float64[np.ndarray, "k k_m"]) -> float:
    """Compute the bound's terms in beta: ``sum T_mij log beta_mij``; an impossible label counts as certain."""
    return float((mass * np.log(np.where(beta > 0, beta, 1.0))).sum())


def alpha_objective(alpha: Float64[np.ndarray, "k"], mean_log_theta: Float64[np.ndarray, "k"]) -> float:
    """Compute eq. (8) divided by N, with the sign of its log-Gamma terms corrected."""
    return expected_log_prior(alpha, 1, mean_log_theta)


def maximize_alpha(
    alpha: Float64[np.ndarray, "k"], mean_log_theta: Float64[np.ndarray, "k"], max_iterations: int = 200
) -> Float64[np.ndarray, "k"]:
    """Maximize eq. (8) over the box by Minka's Newton iteration, linear in k, with step halving.

    The Hessian of eq. (8) is a diagonal plus a constant, so a Newton step costs O(k). Coordinates at a bound that the
    gradient pushes outward are held, and the step is solved on the free ones.

    Parameters
    ----------
    alpha : ndarray
        ``(k,)`` first iterate.
    mean_log_theta : ndarray
        ``s / N``, ``(k,)``: means of E[log theta]; all negative.
    max_iterations : int
        Most Newton steps.

    Returns
    -------
    ndarray
        The maximizer, ``(k,)``, gradient below 1e-12 relative to its terms (or no step improves any more).
    """
    from scipy.special import psi

    alpha = np.clip(alpha, ALPHA_MIN, ALPHA_MAX)
    value = alpha_objective(alpha, mean_log_theta)
    for _ in range(max_iterations):
        gradient = psi(alpha.sum()) - psi(alpha) + mean_log_theta
        held = ((alpha <= ALPHA_MIN) & (gradient < 0)) | ((alpha >= ALPHA_MAX) & (gradient > 0))
        free = ~held
        if not free.any() or np.max(np.abs(gradient[free] * alpha[free])) < 1e-12:
            break
        step = np.zeros_like(alpha)
        step[free] = _newton_step(alpha, gradient, free)
        moved = _line_search(alpha, step, value, mean_log_theta)
        if moved is None:
            break
        alpha, value = moved
    return alpha


def _newton_step(
    alpha: Float64[np.ndarray, "k"], gradient: Float64[np.ndarray, "k"], free: np.ndarray
) -> Float64[np.ndarray, "f"]:
    """Compute -H^-1 g on the free coordinates, H = diag(q) + z 1 1^T (Minka 2003, eqs. 15 to 18)."""
    from scipy.special import polygamma

    q = -polygamma(1, alpha[free])
    z = polygamma(1, alpha.sum())
    g = gradient[free]
    b = (g / q).sum() / (1.0 / z + (1.0 / q).sum())
    step = (b - g) / q
    if step @ g <= 0:  # rounding where H is nearly singular: the scaled gradient still ascends
        step = -g / q
    return np.asarray(step)


def _line_search(
    alpha: Float64[np.ndarray, "k"],
    step: Float64[np.ndarray, "k"],
    value: float,
    mean_log_theta: Float64[np.ndarray, "k"],
) -> tuple[Float64[np.ndarray, "k"], float] | None:
    """Halve the step until the objective does not fall; None when no step moves alpha.

    A fall of 1e-12 of the value is rounding: demanding strict ascent stalls the iteration at a gradient of 1e-8.
    """
    slack = 1e-12 * max(1.0, abs(value))
    length = 1.0
    for _ in range(60):
        trial = np.clip(alpha + length * step, ALPHA_MIN, ALPHA_MAX)
        if np.array_equal(trial, alpha):
            return None
        reached = alpha_objective(trial, mean_log_theta)
        if reached >= value - slack:
            return trial, reached
        length /= 2
    return None
