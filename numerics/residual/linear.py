"""Best linear combination of the agents' predictions, and the direction in which the predictions should change.

Notation of Zheng, Kulkarni and Poor (2010): row j of ``F`` (D x N) has agent j's predictions of the N training rows
(the paper's column j), ``y`` their outcomes minus the mean, and ``r = y - F' beta`` is the residual.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from numerics.shared.threads import single_threaded

ALPHA = 0.25
"""Constant of Algorithm 4: share of the slope that a step must gain; between 0 and 0.5."""
_HALVINGS = 60
_NEGLIGIBLE = 1e-12
"""Norm of a prediction, relative to the largest, below which it is a rounding error."""
_MOST_DIGITS = 300


@dataclass(frozen=True)
class LinearCombination:
    """Best linear combination of given predictions.

    Attributes
    ----------
    beta : ndarray
        ``(D,)`` coefficients.
    gram : ndarray
        ``(D, D)``, ``F F'`` with the ridge on its diagonal.
    power : ndarray
        ``(D,)`` powers of the agents' parts: the variance of ``beta_j f_j`` over the rows, which is eqs. (44) and (45)
        divided by N, less the mean. A constant part has power 0.
    """

    beta: Float64[np.ndarray, "D"]
    gram: Float64[np.ndarray, "D D"]
    power: Float64[np.ndarray, "D"]


def combine(F: Float64[np.ndarray, "D N"], y: Float64[np.ndarray, "N"], ridge: float) -> LinearCombination:
    """Combine predictions by least squares with a ridge (eq. 35; line 3 of Algorithm 3, transposed).

    Parameters
    ----------
    F, y : ndarray
        Predictions and outcomes of the training rows.
    ridge : float
        lambda, relative to the mean of the agents' ``|f_j|^2``. With 0 the solution has minimum norm: two agents with
        equal predictions have equal coefficients, and an agent that predicts 0 has coefficient 0.

    Examples
    --------
    >>> F = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
    >>> combine(F, 2 * F[0] + 3 * F[1], ridge=0).beta.round(12)
    array([2., 3.])
    """
    n = F.shape[1]
    gram, mean = F @ F.T, F @ np.full(n, 1 / n)
    own = np.diag(gram).copy()
    if ridge:
        gram[np.diag_indices_from(gram)] += ridge * own.mean()
    beta = solve(gram, F @ y)
    return LinearCombination(beta, gram, beta**2 * np.maximum(own / n - mean**2, 0.0))


def solve(gram: Float64[np.ndarray, "D D"], right: Float64[np.ndarray, "D"]) -> Float64[np.ndarray, "D"]:
    """Solve ``gram @ beta = right`` with minimum norm; an agent whose predictions are 0, but for rounding, gets 0.

    Examples
    --------
    >>> solve(np.ones((2, 2)), np.array([2.0, 2.0])).round(12)
    array([1., 1.])
    """
    import scipy.linalg  # here: few asks of a site combine anything

    scale = np.sqrt(np.diag(gram))
    active = scale > _NEGLIGIBLE * scale.max(initial=0.0)
    solution: Float64[np.ndarray, "D"] = np.zeros(len(right))
    if active.any():
        # Scaled, so that an agent's units do not decide what counts as singular.
        scale = scale[active]
        scaled = gram[np.ix_(active, active)] / np.outer(scale, scale)
        with single_threaded():  # SciPy's BLAS may be new to the process
            solution[active] = scipy.linalg.lstsq(scaled, right[active] / scale, cond=1e-12)[0] / scale
    return solution


def direction(beta: Float64[np.ndarray, "D"], power: float) -> Float64[np.ndarray, "D"]:
    """Return ``W_j = sgn(beta_j) |beta_j|^p`` (eq. 37), each agent's share of the residual.

    If coefficients are so small or large that these powers would underflow or overflow, the result is
    ``sgn(beta_j) |beta_j / b|^p b`` with b the largest absolute coefficient.

    Examples
    --------
    >>> direction(np.array([2.0, -1.0, 0.0]), power=3)
    array([ 8., -1.,  0.])
    """
    largest = np.abs(beta).max(initial=0.0)
    if largest == 0:
        return np.zeros_like(beta)
    relative: Float64[np.ndarray, "D"] = np.sign(beta) * np.abs(beta / largest) ** power
    representable = abs((power + 1) * np.log10(largest)) < _MOST_DIGITS  # of W.beta
    return np.asarray((largest**power if representable else largest) * relative)


def step_length(
    combination: LinearCombination, shares: Float64[np.ndarray, "D"], residual_power: float, *, search: bool
) -> float:
    """Return the length delta of the step ``F + delta r W'`` (Algorithm 4); 0 if no step gains anything.

    ``E(F + delta r W')``, the part of y that the combination explains, has a closed form, because the residual is
    orthogonal to every prediction. No trial of the search touches a row::

        E = |y|^2 - |r|^2 (1 - delta W.beta)^2 / (1 + delta^2 |r|^2 W' (F'F)^-1 W)

    (If predictions are collinear without being equal, E is at least this.) The search halves delta, beginning with 1,
    until E gains ``ALPHA delta |r|^2 W.beta``. For p = 1 this is Algorithm 4 as printed. For p > 1 the printed test
    cannot pass if some coefficient exceeds 1; this one can.

    Parameters
    ----------
    combination : LinearCombination
        Combination of the present predictions.
    shares : ndarray
        ``(D,)`` W, from `direction`.
    residual_power : float
        ``|r|^2``.
    search : bool
        False: ``delta = 1 / W.beta``, for which the improved targets explain y exactly.

    Examples
    --------
    >>> combination = combine(np.array([[1.0, -1.0, 0.0]]), np.array([1.0, -1.0, 1.0]), ridge=0)
    >>> step_length(combination, direction(combination.beta, 1), residual_power=1.0, search=True)
    1.0
    """
    slope = float(shares @ combination.beta)
    if not (slope > 0 and residual_power > 0):
        return 0.0
    if not search:
        return 1.0 / slope if np.isfinite(1.0 / slope) else 0.0
    spread = residual_power * float(shares @ solve(combination.gram, shares))
    delta = 0.5 ** np.arange(_HALVINGS + 1)
    gain = residual_power * (1 - (1 - delta * slope) ** 2 / (1 + delta**2 * spread))
    sufficient = np.flatnonzero(gain >= ALPHA * delta * residual_power * slope)
    return float(delta[sufficient[0]]) if len(sufficient) else 0.0
