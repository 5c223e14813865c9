"""The scenario with a known rate of convergence: residual-theorem2."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Float64
from numpy.polynomial.hermite_e import hermevander

from scenarios.common import frozen, number
from scenarios.registry import Cell, Config
from scenarios.residual.common import ROWS, THEOREM2, World, add, settings

RHO_DEFAULT = 0.7
CORRELATIONS = (0.3, 0.5, 0.7, 0.9)
DEGREE = 4

_N, _GENERATOR = 17711, 10946
"""Two consecutive Fibonacci numbers: rows, and the step of the lattice in its second coordinate."""
_LEAST_STEP = 1e-8


def theorem2(config: Config, seed: int) -> World:
    """Draw two attributes, jointly Gaussian with correlation rho, and a polynomial of both as the outcome.

    Theorem 2: if two agents in turn take the conditional mean of the other's residual, the squared distance of an
    agent's function to its limit contracts by rho^4 or more at each of its turns. On Hermite polynomials the map T is
    diagonal, with rho^(2n) for He_n, so after some turns the contraction is that of He_1, rho^4 exactly. Each site
    holds He_1 to He_4 of its own attribute as columns: a linear regression on them is the conditional mean of any
    polynomial up to that degree. The outcome is ``x1 + (x1^2 - 1) + x2 + (x2^3 - 3 x2) / 2 + (x1 x2 - rho)``. Its mean
    is 0, and no sum of functions of one attribute each equals it.

    The contraction is the ratio of the mean squares of two consecutive steps of one agent. A step is the difference of
    an agent's functions before and after its turn; from its second turn on T maps one step to the next. The cells have
    as many iterations as reduce a step's mean square to 1e-8: then He_2, which contracts by rho^8, is negligible, as is
    rounding.

    The theorem is about expectations, from which averages over as many independent draws would differ by 3 % or more.
    The rows are therefore a Fibonacci lattice in the unit square, shifted by a random amount and mapped to normal
    quantiles. All rho share the quantiles; there are no test rows.

    Setting: `residual.correlation` (0: 0.7). The seed draws the shift.
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
    """Return two independent standard normal variables on the points of a shifted lattice."""
    from scipy.special import ndtri

    points = np.outer(np.arange(_N), [1, _GENERATOR]) % _N / _N
    shift = np.random.default_rng([seed, THEOREM2, ROWS]).uniform(size=2)
    return np.asarray(ndtri((points + shift) % 1))


def n_iterations(rho: float) -> int:
    """Return the iterations, two a turn, after which the mean square of a step is `_LEAST_STEP` of the first."""
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
    source="synthetic",
    summary="Polynomials of two Gaussian attributes: sip contracts by rho^4 a turn (Theorem 2)",
    draw=theorem2,
    pooled=False,
    cells=_cells,
    at_once=5,
    columns=("contraction", "iterations", "train_mse"),
)
