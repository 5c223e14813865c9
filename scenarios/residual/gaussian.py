"""The world in which the limit of learning is known: residual-theorem2."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Float64
from numpy.polynomial.hermite_e import hermevander
from scipy.special import ndtri

from scenarios.common import frozen, number
from scenarios.registry import Cell, Config
from scenarios.residual.common import ROWS, THEOREM2, World, add, settings

RHO_DEFAULT = 0.7
CORRELATIONS = (0.3, 0.5, 0.7, 0.9)
DEGREE = 4

_N, _GENERATOR = 17711, 10946
"""Two Fibonacci numbers in a row: rows, and the step of the lattice in its second coordinate."""
_LEAST_STEP = 1e-8


def theorem2(config: Config, seed: int) -> World:
    """Two attributes, jointly Gaussian with correlation rho, and a polynomial of both as the outcome.

    Theorem 2: if two agents in turn take the conditional mean of what the other has left, the squared distance of an
    agent's function to its limit shrinks by rho^4 or more each time its turn comes. On Hermite polynomials the map is
    diagonal, with rho^(2n) for He_n, so after some turns the shrinking is that of He_1, rho^4 exactly. Each site holds
    He_1 to He_4 of its own attribute as columns: a linear regression on them is the conditional mean of any polynomial
    up to that degree. The outcome is ``x1 + (x1^2 - 1) + x2 + (x2^3 - 3 x2) / 2 + (x1 x2 - rho)``, which has mean 0
    and a part that no sum of functions of one attribute each can follow.

    The contraction is measured as the ratio of the mean squares of two consecutive steps of one agent: what an agent
    adds is the difference of its functions before and after, and from its second turn on T maps one of them to the
    next. The cells take as many iterations as bring a step's mean square down by 1e-8: then He_2, which shrinks by
    rho^8, no longer counts, and rounding does not yet.

    The theorem speaks of expectations. The rows are therefore no independent draws, which at this number would be off
    by 3 % or more, but a Fibonacci lattice in the unit square, shifted by a random amount and mapped to normal
    quantiles. All rho share the quantiles; there are no test rows.

    Parameters
    ----------
    config : Config
        Run configuration; used is `residual.correlation`, 0 for 0.7.
    seed : int
        Not negative; of the shift.

    Raises
    ------
    ScenarioError
        If the correlation is out of range.
    """
    return _gaussian(number(config, "residual.correlation", 0.0, 0.0, 0.999) or RHO_DEFAULT, seed)


@lru_cache(maxsize=32)  # 1.3 MB each
def _gaussian(rho: float, seed: int) -> World:
    z = _quantiles(seed)
    first, second = z[:, 0], rho * z[:, 0] + np.sqrt(1 - rho**2) * z[:, 1]
    y = first + (first**2 - 1) + second + (second**3 - 3 * second) / 2 + (first * second - rho)
    # Dealt out in turn, the columns of even places are the first site's.
    x = np.stack([hermevander(each, DEGREE)[:, 1:] for each in (first, second)], axis=2).reshape(_N, -1)
    frozen(x, y)
    features = tuple(f"He{n + 1}_x{j}" for n in range(DEGREE) for j in (1, 2))
    return World(x, y, features, (True,) * len(features), 0, (seed, THEOREM2))


def _quantiles(seed: int) -> Float64[np.ndarray, "n 2"]:
    """Two independent standard normal variables on the points of a shifted lattice."""
    points = np.outer(np.arange(_N), [1, _GENERATOR]) % _N / _N
    shift = np.random.default_rng([seed, THEOREM2, ROWS]).uniform(size=2)
    return np.asarray(ndtri((points + shift) % 1))


def n_iterations(rho: float) -> int:
    """Iterations, two a turn, after which the mean square of a step has shrunk to `_LEAST_STEP` of the first."""
    return 2 * (2 + int(np.ceil(np.log(_LEAST_STEP) / (4 * np.log(rho)))))


def _cells(config: Config) -> Sequence[Cell]:
    return [
        Cell(
            {"rho": rho},
            settings(algorithm="sip", agent="lr", correlation=rho, stop="rounds", rounds=n_iterations(rho)),
            {"contraction": rho**4},
        )
        for rho in CORRELATIONS
    ]


add(
    name="residual-theorem2",
    sites=2,
    any_number=False,
    source="drawn",
    summary="Polynomials of two Gaussian attributes: sip closes in by rho^4 a turn (Theorem 2)",
    draw=theorem2,
    compared=False,
    cells=_cells,
    at_once=5,
    columns=("contraction", "iterations", "train_mse"),
)
