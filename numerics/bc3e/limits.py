"""Limits of BC3E's statistics that hold for all labels; an answer beyond them is false.

All limits are exact consequences of eqs. (3), (6), (7) of Acharya et al. (2011); the rounding of every summand to the
grid is allowed for. Nothing here is estimated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.special import psi

_LEAST_LOG_LIKELIHOOD = -1300.0
"""No class that takes a share of a label has a smaller log beta there. A share is at least half a step of the finest
grid, 2**-31, of which log is -21; class weights differ by exp(1020) at most, and the label's best class has -100."""

_ROUNDING = 1100.0
"""Largest derivative of the bound by a responsibility: psi(1e-3) is -1000."""


@dataclass(frozen=True)
class Limits:
    """Limits of sums over `n` instances, in steps of the grid.

    Attributes
    ----------
    mass : float
        Largest sum over one clustering's table, up to the rounding of each entry.
    log_theta : ndarray
        ``(k,)`` smallest `Statistics.log_theta`.
    bound : tuple of float
        Smallest and largest part of the evidence lower bound.
    """

    mass: float
    log_theta: Float64[np.ndarray, "k"]
    bound: tuple[float, float]


def private_limits(
    alpha: Float64[np.ndarray, "k"], n: int, n_classifiers: int, n_clusterings: int, bits: int
) -> Limits:
    """Return the limits of the statistics of private instances.

    A label adds 1 to gamma at most (eq. 6; a class with confusion matrices its draws), so psi(gamma_i) - psi(sum gamma)
    is at least psi(alpha_i) - psi(sum alpha + number of models). The bound is no larger than the log probability of the
    labels, which are discrete: 0. By Jensen's inequality its part in theta is at least E[log theta] under the prior,
    times the number of models.

    Parameters
    ----------
    alpha : ndarray
        ``(k,)`` of the E-step.
    n : int
        Number of instances.
    n_classifiers, n_clusterings : int
        Most models that label an instance; or the draws of its class in place of classifiers, if more.
    bits : int
        Fineness of the grid.

    Examples
    --------
    >>> limits = private_limits(np.ones(2), 10, n_classifiers=1, n_clusterings=0, bits=0)
    >>> limits.log_theta.round(1).tolist()
    [-31.0, -31.0]
    """
    step, models = 2.0**bits, n_classifiers + n_clusterings
    least = psi(alpha) - psi(alpha.sum() + models * (1 + len(alpha) / step))
    rounding = n * (n_clusterings + 1) * len(alpha) * _ROUNDING
    prior = models * float((psi(alpha) - psi(alpha.sum())).min())
    lowest = n * (prior + n_clusterings * _LEAST_LOG_LIKELIHOOD) * step - rounding
    return Limits(n * (step + len(alpha)), np.floor(n * (least * step - 1)), (lowest, rounding))


def shared_limits(k: int, n: int, n_clusterings: int, bits: int) -> Limits:
    """Return the limits of one sweep over shared instances: its part of the bound is ``sum phi (log beta - log phi)``.

    The entropy of the responsibilities of one label is at most log k. There is no `log_theta`: the fusion center
    computes it.
    """
    step = 2.0**bits
    rounding = n * (n_clusterings + 1) * k * _ROUNDING
    bound = (
        n * n_clusterings * _LEAST_LOG_LIKELIHOOD * step - rounding,
        n * n_clusterings * np.log(k) * step + rounding,
    )
    return Limits(n * (step + k), np.zeros(0), bound)
