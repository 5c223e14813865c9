"""The vectors gamma of instances: their update, their part of the bound, and their convergence (eqs. 3 and 6)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from numerics.bc3e.ensemble import Counts
from numerics.bc3e.grid import add_up, from_grid, to_grid
from numerics.bc3e.responsibilities import max_classes, sum_classes

Gamma = Float64[np.ndarray, "k n"]


def log_theta(gamma: Gamma) -> Float64[np.ndarray, "k n"]:
    """Compute E[log theta_ni] = psi(gamma_ni) - psi(sum_i gamma_ni)."""
    from scipy.special import psi

    return np.asarray(psi(gamma) - psi(sum_classes(gamma)))


def dirichlet_bound(alpha: Float64[np.ndarray, "k"], gamma: Gamma, bits: int, counts: Counts = None) -> int:
    """Compute the bound's terms of theta, each instance's on the grid.

    With gamma = alpha + C + sum_m phi_m (eq. 6) the expectations E[log theta] cancel. Eq. (3) is then the clusters'
    part (`shares`) plus ``ln B(gamma_n) - ln B(alpha)``, B the multivariate beta function.
    """
    from scipy.special import gammaln

    prior = float(gammaln(alpha.sum()) - gammaln(alpha).sum())
    return int(add_up(to_grid(prior - gammaln(sum_classes(gamma)) + sum_classes(gammaln(gamma)), bits), counts))


def center_part(
    alpha: Float64[np.ndarray, "k"], gamma: Gamma, bits: int, counts: Counts = None
) -> tuple[Int64[np.ndarray, "k"], int]:
    """Compute ``s`` and the Dirichlet part of the bound for instances of known gamma, on the grid."""
    return add_up(to_grid(log_theta(gamma), bits), counts), dirichlet_bound(alpha, gamma, bits, counts)


def add_alpha(alpha: Float64[np.ndarray, "k"], total: Int64[np.ndarray, "k n"], bits: int) -> Gamma:
    """Apply eq. (6): gamma_n = alpha + C_n + sum_m phi_nm."""
    return np.asarray(alpha[:, None] + from_grid(total, bits))


def converged(before: Gamma, after: Gamma, tolerance: float, bits: int) -> Shaped[np.ndarray, "n"]:
    """Mask the instances whose gamma moved by no more than `tolerance`, or one step of the grid if that is coarser."""
    limit = max(tolerance, 1.5 * np.ldexp(1.0, -bits))
    return np.asarray(max_classes(np.abs(after - before)) <= limit)
