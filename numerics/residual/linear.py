"""The best linear combination of the agents' predictions, and the direction in which they should change.

Notation of the paper: row j of ``F`` (D x N) is agent j's prediction of the N rows learned from (the paper's column j),
``y`` their outcomes about their mean, ``r = y - F' beta`` the ensemble's residual.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from numerics.shared.threads import single_threaded

ALPHA = 0.25
"""Of Algorithm 4: share of the slope that a step must gain; between 0 and 0.5."""
_HALVINGS = 60
_NEGLIGIBLE = 1e-12
"""Size of a prediction, beside the largest, that is a rounding error."""
_MOST_DIGITS = 300


@dataclass(frozen=True)
class LinearCombination:
    """The best linear combination of given predictions.

    Attributes
    ----------
    beta : ndarray
        ``(D,)`` coefficients.
    gram : ndarray
        ``(D, D)``, ``F F'`` with the ridge on its diagonal.
    power : ndarray
        ``(D,)`` of the agents' parts, ``|beta_j f_j|^2 / N`` (eqs. 44 and 45) about their means: a constant says
        nothing of any row.
    """

    beta: Float64[np.ndarray, "D"]
    gram: Float64[np.ndarray, "D D"]
    power: Float64[np.ndarray, "D"]


def combine(F: Float64[np.ndarray, "D N"], y: Float64[np.ndarray, "N"], ridge: float) -> LinearCombination:
    """Least squares with a ridge (Zheng, Kulkarni and Poor 2010, eq. 35; line 3 of Algorithm 3, transposed).

    Parameters
    ----------
    F, y : ndarray
        Predictions and outcomes of the rows learned from.
    ridge : float
        lambda over the mean of the agents' powers. With 0 the solution of minimum norm: two agents that predict the
        same share the coefficient, and one that predicts nothing has 0.
    """
    n = F.shape[1]
    gram, mean = F @ F.T, F @ np.full(n, 1 / n)
    own = np.diag(gram).copy()
    if ridge:
        gram[np.diag_indices_from(gram)] += ridge * own.mean()
    beta = solve(gram, F @ y)
    return LinearCombination(beta, gram, beta**2 * np.maximum(own / n - mean**2, 0.0))


def solve(gram: Float64[np.ndarray, "D D"], right: Float64[np.ndarray, "D"]) -> Float64[np.ndarray, "D"]:
    """The solution of minimum norm; an agent whose predictions are 0, but for rounding, has 0."""
    import scipy.linalg  # here: few asks of a site combine anything

    scale = np.sqrt(np.diag(gram))
    there = scale > _NEGLIGIBLE * scale.max(initial=0.0)
    solution: Float64[np.ndarray, "D"] = np.zeros(len(right))
    if there.any():
        # Scaled, so that what counts as singular does not depend on an agent's units.
        scale = scale[there]
        scaled = gram[np.ix_(there, there)] / np.outer(scale, scale)
        with single_threaded():  # SciPy's BLAS may be new to the process
            solution[there] = scipy.linalg.lstsq(scaled, right[there] / scale, cond=1e-12)[0] / scale
    return solution


def direction(beta: Float64[np.ndarray, "D"], power: float) -> Float64[np.ndarray, "D"]:
    """``W_j = sgn(beta_j) |beta_j|^p`` (eq. 37): what share of the residual each agent is given.

    Where the coefficients are so small or large that this is 0 or infinite in floating point, the shares are those of
    the coefficients over the largest of them, times that one.
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
    """How far the predictions should go along ``r W'`` (Algorithm 4); 0: no step gains anything.

    ``E(F + delta r W')``, the part of y that the combination explains, is known in closed form, because the residual is
    orthogonal to every prediction (where predictions are collinear otherwise than by being equal, E is this at least)::

        E = |y|^2 - |r|^2 (1 - delta W.beta)^2 / (1 + delta^2 |r|^2 W' (F'F)^-1 W)

    so that no trial touches a row. delta is halved from 1 until E gains ``ALPHA delta |r|^2 W.beta``: for p = 1 that is
    Algorithm 4 as printed; for p > 1 the printed test cannot pass where some coefficient exceeds 1, and this one can.

    Parameters
    ----------
    combination : LinearCombination
        Of the present predictions.
    shares : ndarray
        ``(D,)``, `direction`.
    residual_power : float
        ``|r|^2``.
    search : bool
        False: ``delta = 1 / W.beta``, with which the wanted predictions explain y exactly.
    """
    slope = float(shares @ combination.beta)
    if not (slope > 0 and residual_power > 0):
        return 0.0
    if not search:
        return 1.0 / slope if np.isfinite(1.0 / slope) else 0.0
    spread = residual_power * float(shares @ solve(combination.gram, shares))
    delta = 0.5 ** np.arange(_HALVINGS + 1)
    gain = residual_power * (1 - (1 - delta * slope) ** 2 / (1 + delta**2 * spread))
    passed = np.flatnonzero(gain >= ALPHA * delta * residual_power * slope)
    return float(delta[passed[0]]) if len(passed) else 0.0
