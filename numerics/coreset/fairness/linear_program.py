"""The linear program of a fair assignment on some of its arcs, its prices held in a box.

Variables are the contested masses x_pc and the sizes M_c of the clusters. Rows: each contested point is given away,
each M_c is the sum of what its center gets, and of every group and center ``low_h M_c <= y_hc <= high_h M_c``. The
multipliers of the latter are the prices. A price is held between two values by two more variables in its row, which
break the row at a cost of just those values (du Merle et al. 1999, stabilised column generation): so the program has a
solution on whatever arcs, and its prices stay near good ones until the arcs say better.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float64, Int64
from scipy.optimize import linprog

from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.dual import duals_of
from numerics.coreset.fairness.restricted_arcs import RestrictedArcs

_TOLERANCE = 1e-9
"""Of the linear program, relative to a typical regret and to the heaviest point."""

Solved = tuple[
    Int64[np.ndarray, "s"],
    Int64[np.ndarray, "s"],
    Float64[np.ndarray, "s"],
    Float64[np.ndarray, "H k"],
    Bool[np.ndarray, "H k"],
]


def solve_on_arcs(
    squared: Float64[np.ndarray, "n k"],
    weights: Int64[np.ndarray, "n"],
    groups: Int64[np.ndarray, "n"],
    bounds: Bounds,
    arcs: RestrictedArcs,
    prices: Float64[np.ndarray, "H k"],
    radius: Float64[np.ndarray, "H k"],
) -> Solved:
    """Solve the program.

    Parameters
    ----------
    squared, weights, groups, bounds
        As for `numerics.coreset.fairness.assignment.fair_assignment`.
    arcs : RestrictedArcs
        Points with one arc stay at its center.
    prices : ndarray
        ``(H, k)``, normalised, in the middle of the box.
    radius : ndarray
        ``(H, k)`` how far each price may go, positive.

    Returns
    -------
    point, center, mass : ndarray
        ``(s,)`` all points' masses, in no order.
    prices : ndarray
        ``(H, k)``, not normalised.
    cut : ndarray
        ``(H, k)`` whether the price would leave its box. If none would, the masses are fair.
    """
    H, k = prices.shape
    contested = arcs.points
    fixed = weights > 0
    fixed[contested] = False
    row, center = np.nonzero(arcs.columns[contested])
    point, n_arcs = contested[row], len(row)
    regret = squared[point, center] - squared[contested].min(axis=1)[row]
    unit, typical = float(weights[contested].max()), float(regret.mean()) or 1.0
    held = np.bincount(groups[fixed] * k + arcs.nearest[fixed], weights[fixed], H * k) / unit

    arc = np.arange(n_arcs)
    given = _ones(row, arc, (len(contested), n_arcs))
    gets = _ones(groups[point] * k + center, arc, (H * k, n_arcs))
    size = _ones(np.arange(H * k), np.tile(np.arange(k), H), (H * k, k))
    equal = np.repeat(bounds.low == bounds.high, k)
    lower, upper = np.repeat(bounds.low, k), np.repeat(bounds.high, k)
    a, b = duals_of(prices, bounds).reshape(2, H * k) / typical
    rim = radius.ravel() / typical

    # Rows of three kinds, each with the cells it is for, its sign before y, and the middle of its price's box.
    exact = _ConstraintRows(np.flatnonzero(equal), 1.0, lower, b - a, free=True)
    below = _ConstraintRows(np.flatnonzero(~equal & (upper < 1)), 1.0, upper, b, free=False)
    above = _ConstraintRows(np.flatnonzero(~equal & (lower > 0)), -1.0, lower, a, free=False)
    kinds = (exact, below, above)
    breaks = [kind.breaks(rim) for kind in kinds]
    n_breaks = [len(costs) for _, costs in breaks]

    def padded(place: int) -> Any:
        kind, (matrix, _) = kinds[place], breaks[place]
        rows = len(kind.cells)
        parts = [kind.sign * gets[kind.cells], -kind.sign * size[kind.cells].multiply(kind.share[kind.cells, None])]
        parts += [matrix if i == place else scipy.sparse.csr_array((rows, n_breaks[i])) for i in range(len(kinds))]
        return scipy.sparse.hstack(parts, format="csr")

    others = sum(n_breaks)
    A_eq = scipy.sparse.vstack(
        [
            scipy.sparse.hstack([given, scipy.sparse.csr_array((len(contested), k + others))]),
            scipy.sparse.hstack([-size.T @ gets, scipy.sparse.eye_array(k), scipy.sparse.csr_array((k, others))]),
            padded(0),
        ],
        format="csr",
    )
    b_eq = np.concatenate([weights[contested] / unit, held.reshape(H, k).sum(axis=0), -held[exact.cells]])
    result = linprog(
        np.concatenate([regret / typical, np.zeros(k), *(costs for _, costs in breaks)]),
        A_ub=scipy.sparse.vstack([padded(1), padded(2)], format="csr"),
        b_ub=np.concatenate([-held[below.cells], held[above.cells]]),
        A_eq=A_eq,
        b_eq=b_eq,
        bounds=(0, None),
        method="highs-ds",
        options={"primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE},
    )
    if result.status != 0:
        raise ArithmeticError(f"the linear program of {n_arcs} arcs was not solved: {result.message}")
    raw, cut = np.zeros(H * k), np.zeros(H * k, np.bool_)
    multipliers = np.split(-result.ineqlin.marginals, [len(below.cells)])
    solution = np.asarray(result.x)
    broken = np.split(solution[n_arcs + k :] > 10 * _TOLERANCE, np.cumsum(n_breaks)[:-1])
    for kind, values, (matrix, _), used in zip(
        kinds, [-result.eqlin.marginals[len(contested) + k :], *multipliers], breaks, broken, strict=True
    ):
        raw[kind.cells] += kind.sign * values
        cut[kind.cells] |= abs(matrix) @ used > 0
    mass = solution[:n_arcs] * unit
    used = mass > _TOLERANCE * unit
    return (
        np.concatenate([np.flatnonzero(fixed), point[used]]),
        np.concatenate([arcs.nearest[fixed], center[used]]),
        np.concatenate([weights[fixed].astype(np.float64), mass[used]]),
        raw.reshape(H, k) * typical,
        cut.reshape(H, k),
    )


class _ConstraintRows:
    """Rows ``sign (y - share M) <= 0`` (= 0 where the price is free in sign) of some cells."""

    def __init__(
        self,
        cells: Int64[np.ndarray, "r"],
        sign: float,
        share: Float64[np.ndarray, "Hk"],
        middle: Float64[np.ndarray, "Hk"],
        *,
        free: bool,
    ) -> None:
        self.cells, self.sign, self.share, self.middle, self.free = cells, sign, share, middle[cells], free

    def breaks(self, radius: Float64[np.ndarray, "Hk"]) -> tuple[scipy.sparse.csr_array, Float64[np.ndarray, "v"]]:
        """Variables that break the rows: their columns and costs.

        One with coefficient -1 at cost u keeps the multiplier at or below u, one with +1 at cost -l at or above l.
        """
        r = len(self.cells)
        top, bottom = self.middle + radius[self.cells], self.middle - radius[self.cells]
        kept = np.arange(r) if self.free else np.flatnonzero(bottom > 0)
        matrix = scipy.sparse.csr_array(
            (
                np.concatenate([-np.ones(r), np.ones(len(kept))]),
                (np.concatenate([np.arange(r), kept]), np.arange(r + len(kept))),
            ),
            shape=(r, r + len(kept)),
        )
        return matrix, np.concatenate([top, -bottom[kept]])


def _ones(
    row: Int64[np.ndarray, "v"], column: Int64[np.ndarray, "v"], shape: tuple[int, int]
) -> scipy.sparse.csr_array:
    return scipy.sparse.csr_array((np.ones(len(row)), (row, column)), shape=shape)
