"""Steps of the sequential algorithms, one agent at a time (Zheng, Kulkarni and Poor 2010, Algorithm 1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

_LIKELY = 0.9
"""The next winner of eq. (23) gains at least this share of the largest gain that is known."""


class Projection(NamedTuple):
    """State after an agent's step.

    Attributes
    ----------
    residual : ndarray
        ``(n,)`` residual of all rows after the step.
    own_sum : ndarray
        ``(N,)`` sum of the agent's steps on the training rows.
    step_power : float
        Mean square of the step.
    sum_power : float
        Variance of the sum.
    """

    residual: Float64[np.ndarray, "n"]
    own_sum: Float64[np.ndarray, "N"]
    step_power: float
    sum_power: float


def project(
    residual: Float64[np.ndarray, "n"], own_sum: Float64[np.ndarray, "N"], step: Float64[np.ndarray, "n"]
) -> Projection:
    """Subtract an agent's step from the residual and add it to the agent's sum (lines 6 and 7 of Algorithm 1).

    Parameters
    ----------
    residual : ndarray
        ``(n,)`` residual of all rows, training rows first.
    own_sum : ndarray
        ``(N,)`` sum of the agent's earlier steps on the training rows.
    step : ndarray
        ``(n,)`` the agent's predictions of the residual, times the shrinkage.

    Examples
    --------
    >>> project(np.array([2.0, -2.0, 1.0]), np.zeros(2), np.array([1.0, -1.0, 0.5]))
    Projection(residual=array([ 1. , -1. ,  0.5]), own_sum=array([ 1., -1.]), step_power=1.0, sum_power=1.0)
    """
    fitted = step[: len(own_sum)]
    total = own_sum + fitted
    return Projection(residual - step, total, float(fitted @ fitted / len(fitted)), float(total.var()))


def gains(power: float, errors: Float64[np.ndarray, "D"]) -> Float64[np.ndarray, "D"]:
    """Return how much each agent's step would reduce the sum of squares; 0 for an agent without an answer.

    Parameters
    ----------
    power : float
        Sum of squares of the present residual.
    errors : ndarray
        ``(D,)`` sums of squares that the agents' steps would leave; infinite without an answer.

    Examples
    --------
    >>> gains(10.0, np.array([4.0, np.inf, 9.0]))
    array([6., 0., 1.])
    """
    return np.where(np.isfinite(errors), power - errors, 0.0)


def winner(power: float, errors: Float64[np.ndarray, "D"]) -> int | None:
    """Return the agent whose step leaves the smallest error (eq. 23), the first of equal ones; None if none gains.

    Parameters as in `gains`.

    Examples
    --------
    >>> winner(10.0, np.array([np.inf, 4.0, 4.0]))
    1
    """
    best = int(np.argmin(errors))
    return best if errors[best] < power else None


def bar(power: float, gains: Float64[np.ndarray, "D"]) -> float:
    """Return the error below which an agent is likely the winner, so that it sends its predictions at once.

    Parameters
    ----------
    power : float
        Sum of squares of the present residual.
    gains : ndarray
        ``(D,)`` gains at the last step.

    Examples
    --------
    >>> bar(10.0, np.array([5.0, 1.0]))
    5.5
    """
    return power - _LIKELY * float(gains.max())
