"""One iteration of the parallel algorithm (Zheng, Kulkarni and Poor 2010, Algorithm 3); notation as in `linear`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from numerics.residual.linear import LinearCombination, combine, direction, step_length
from numerics.residual.split import Split


@dataclass(frozen=True, eq=False)
class Iterate:
    """Best combination of the present predictions, and what it leaves of the outcome.

    Attributes
    ----------
    combination : LinearCombination
        Coefficients and powers, from the training rows.
    residual : ndarray
        ``(n,)`` residual of all rows.
    errors : ndarray
        ``(3,)`` mean squared errors by kind of row.
    """

    combination: LinearCombination
    residual: Float64[np.ndarray, "n"]
    errors: Float64[np.ndarray, "3"]


def evaluate(F: Float64[np.ndarray, "D n"], y: Float64[np.ndarray, "n"], split: Split, ridge: float) -> Iterate:
    """Combine predictions of all rows by the training rows (lines 10 and 5 of Algorithm 3).

    Parameters
    ----------
    F : ndarray
        ``(D, n)`` predictions of all rows: training, validation, test.
    y : ndarray
        ``(n,)`` outcomes minus the mean.
    split : Split
        Use of these rows.
    ridge : float
        As in `combine`.

    Examples
    --------
    >>> F = np.array([[1.0, -1.0, 1.0]])
    >>> evaluate(F, np.array([2.0, -2.0, 3.0]), Split(n_fit=2, n_validation=0, n_test=1), ridge=0).errors.round(12)
    array([ 0., nan,  1.])
    """
    combination = combine(F[:, : split.n_fit], y[: split.n_fit], ridge)
    residual = y - combination.beta @ F
    return Iterate(combination, residual, split.errors(residual))


def residual_shares(
    combination: LinearCombination, residual: Float64[np.ndarray, "N"], power: float, *, search: bool
) -> Float64[np.ndarray, "D"] | None:
    """Return each agent's share of the residual, ``delta W`` (line 6 of Algorithm 3); None if no step gains anything.

    Parameters
    ----------
    combination : LinearCombination
        Combination of the present predictions.
    residual : ndarray
        ``(N,)`` residual of the training rows.
    power : float
        p of eq. (37).
    search : bool
        As in `step_length`.
    """
    shares = direction(combination.beta, power)
    delta = step_length(combination, shares, float(residual @ residual), search=search)
    return delta * shares if delta else None


def improved_target(
    prediction: Float64[np.ndarray, "N"],
    residual: Float64[np.ndarray, "N"],
    share: float,
    out: Float64[np.ndarray, "N"],
) -> None:
    """Write an agent's next target to `out`: its prediction plus its share of the residual (line 7 of Algorithm 3).

    Examples
    --------
    >>> target = np.empty(2)
    >>> improved_target(np.array([1.0, 2.0]), np.array([4.0, -4.0]), 0.5, out=target)
    >>> target
    array([3., 0.])
    """
    np.multiply(residual, share, out=out)
    out += prediction


def quiet_iterations(
    quiet: Int64[np.ndarray, "D"], power: Float64[np.ndarray, "D"], idle_share: float, patience: int
) -> Int64[np.ndarray, "D"]:
    """Count the iterations in a row in which an agent's share of the power is small (section VI-B).

    An agent is idle, and stays so, when it has been quiet for `patience` iterations.

    Parameters
    ----------
    quiet : ndarray
        ``(D,)`` counts before this iteration.
    power : ndarray
        ``(D,)`` powers of the agents' parts.
    idle_share : float
        Share of all power below which an agent is quiet.
    patience : int
        Quiet iterations after which an agent is idle.

    Examples
    --------
    >>> quiet_iterations(np.array([0, 1, 3]), np.array([0.01, 0.5, 0.5]), idle_share=0.1, patience=3)
    array([1, 0, 4])
    """
    return np.where((power < idle_share * power.sum()) | (quiet >= patience), quiet + 1, 0)
