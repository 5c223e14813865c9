"""The linear program of a fair assignment on restricted arcs, with prices in a box.

Variables are the contested masses x_pc and the sizes M_c of the clusters. Constraints: the masses of each contested
point sum to its weight; M_c is the sum of the masses at center c; ``low_h M_c <= y_hc <= high_h M_c`` for the mass y_hc
of every group at every center. The multipliers of the latter are the prices. Two more variables in each of these rows
relax it at the costs that are the ends of the price's box (du Merle et al. 1999, stabilized column generation). The
program is therefore feasible on any arcs, and prices stay close to good ones until the arcs determine better ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float64, Int64
from scipy.optimize import linprog

from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.dual import duals_of
from numerics.coreset.fairness.restricted_arcs import RestrictedArcs

_TOLERANCE = 1e-9
"""Tolerance of the linear program, relative to a typical regret and to the heaviest point."""

Solved = tuple[
    Int64[np.ndarray, "s"],
    Int64[np.ndarray, "s"],
    Float64[np.ndarray, "s"],
    Float64[np.ndarray, "H k"],
    Bool[np.ndarray, "G k"],
]

_Entries = tuple[Int64[np.ndarray, "e"], Int64[np.ndarray, "e"], Float64[np.ndarray, "e"]]
"""Rows, columns and values of a sparse matrix."""


def solve_on_arcs(
    squared: Float64[np.ndarray, "n k"],
    weights: Int64[np.ndarray, "n"],
    groups: Int64[np.ndarray, "n"],
    bounds: Bounds,
    arcs: RestrictedArcs,
    prices: Float64[np.ndarray, "H k"],
    radius: Float64[np.ndarray, "G k"],
) -> Solved:
    """Solve the linear program.

    Parameters
    ----------
    squared, weights, groups, bounds
        As for `numerics.coreset.fairness.assignment.fair_assignment`.
    arcs : RestrictedArcs
        Arcs of the program; a point with one arc stays at its center.
    prices : ndarray
        ``(H, k)`` centers of the boxes, normalized.
    radius : ndarray
        ``(G, k)`` radii of the boxes of every bound's price, positive.

    Returns
    -------
    point, center, mass : ndarray
        ``(s,)`` masses of all points, in no particular order.
    prices : ndarray
        ``(H, k)``, not normalized.
    cut : ndarray
        ``(G, k)`` mask of the bounds' prices that would leave their boxes. If there is none, the masses are fair.
    """
    (H, k), G = prices.shape, len(bounds.low)
    contested = arcs.points
    fixed = weights > 0
    fixed[contested] = False
    row, center = np.nonzero(arcs.columns[contested])
    point, n_arcs = contested[row], len(row)
    regret = squared[point, center] - squared[contested].min(axis=1)[row]
    unit, typical = float(weights[contested].max()), float(regret.mean()) or 1.0
    fixed_rows = np.bincount(groups[fixed] * k + arcs.nearest[fixed], weights[fixed], H * k).reshape(H, k) / unit
    fixed_mass = bounds.sums(fixed_rows).ravel()

    # An arc is in a row for each bound that is on the point's group.
    member = np.eye(H, dtype=bool) if bounds.members is None else bounds.members
    arc, bound = np.nonzero(member.T[groups[point]])
    cell = bound * k + center[arc]
    equal = np.repeat(bounds.low == bounds.high, k)
    lower, upper = np.repeat(bounds.low, k), np.repeat(bounds.high, k)
    a, b = duals_of(prices, bounds).reshape(2, G * k) / typical
    rim = radius.ravel() / typical

    # Three kinds of rows, each with its cells, the sign of y, and the center of its price's box. Columns are the
    # masses, the sizes, and the variables that relax the three kinds.
    exact = _ConstraintRows(np.flatnonzero(equal), 1.0, lower, b - a, free=True)
    below = _ConstraintRows(np.flatnonzero(~equal & (upper < 1)), 1.0, upper, b, free=False)
    above = _ConstraintRows(np.flatnonzero(~equal & (lower > 0)), -1.0, lower, a, free=False)
    kinds = (exact, below, above)
    relaxed = [kind.relaxed(rim) for kind in kinds]
    n_relaxed = [len(costs) for _, _, costs in relaxed]
    starts = n_arcs + k + np.concatenate([[0], np.cumsum(n_relaxed)])
    blocks = [kind.entries(arc, cell, n_arcs, k, relaxed[place][:2], starts[place]) for place, kind in enumerate(kinds)]
    of_point = row, np.arange(n_arcs), np.ones(n_arcs)
    of_center = (
        np.concatenate([center, np.arange(k)]),
        np.arange(n_arcs + k),
        np.concatenate([-np.ones(n_arcs), np.ones(k)]),
    )
    n_columns = int(starts[-1])
    A_eq = _stack([of_point, of_center, blocks[0]], [len(contested), k, len(exact.cells)], n_columns)
    b_eq = np.concatenate([weights[contested] / unit, fixed_rows.sum(axis=0), -fixed_mass[exact.cells]])
    result = linprog(
        np.concatenate([regret / typical, np.zeros(k), *(costs for _, _, costs in relaxed)]),
        A_ub=_stack(blocks[1:], [len(below.cells), len(above.cells)], n_columns),
        b_ub=np.concatenate([-fixed_mass[below.cells], fixed_mass[above.cells]]),
        A_eq=A_eq,
        b_eq=b_eq,
        bounds=(0, None),
        method="highs-ds",
        options={"primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE},
    )
    if result.status != 0:
        raise ArithmeticError(f"the linear program of {n_arcs} arcs was not solved: {result.message}")
    raw, cut = np.zeros(G * k), np.zeros(G * k, np.bool_)
    multipliers = np.split(-result.ineqlin.marginals, [len(below.cells)])
    solution = np.asarray(result.x)
    broken = np.split(solution[n_arcs + k :] > 10 * _TOLERANCE, np.cumsum(n_relaxed)[:-1])
    for kind, values, (rows, _, _), used in zip(
        kinds, [-result.eqlin.marginals[len(contested) + k :], *multipliers], relaxed, broken, strict=True
    ):
        raw[kind.cells] += kind.sign * values
        cut[kind.cells[rows[used]]] = True
    mass = solution[:n_arcs] * unit
    used = mass > _TOLERANCE * unit
    return (
        np.concatenate([np.flatnonzero(fixed), point[used]]),
        np.concatenate([arcs.nearest[fixed], center[used]]),
        np.concatenate([weights[fixed].astype(np.float64), mass[used]]),
        member.T.astype(np.float64) @ raw.reshape(G, k) * typical,
        cut.reshape(G, k),
    )


class _ConstraintRows:
    """Rows ``sign (y - share M) <= 0`` of some cells, or ``= 0`` if their prices may have any sign."""

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

    def relaxed(
        self, radius: Float64[np.ndarray, "Hk"]
    ) -> tuple[Int64[np.ndarray, "v"], Float64[np.ndarray, "v"], Float64[np.ndarray, "v"]]:
        """Return row, coefficient and cost of the variables that relax the rows.

        A variable with coefficient -1 and cost u bounds the multiplier by u from above; one with +1 and cost -l, by l
        from below.
        """
        r = len(self.cells)
        top, bottom = self.middle + radius[self.cells], self.middle - radius[self.cells]
        bounded = np.arange(r) if self.free else np.flatnonzero(bottom > 0)
        return (
            np.concatenate([np.arange(r), bounded]),
            np.concatenate([-np.ones(r), np.ones(len(bounded))]),
            np.concatenate([top, -bottom[bounded]]),
        )

    def entries(
        self,
        arc: Int64[np.ndarray, "e"],
        cell: Int64[np.ndarray, "e"],
        n_arcs: int,
        k: int,
        relaxed: tuple[Int64[np.ndarray, "v"], Float64[np.ndarray, "v"]],
        start: int,
    ) -> _Entries:
        """Return the entries of the rows: of arcs in their cells, of sizes, and of variables from `start`."""
        r = len(self.cells)
        place = np.full(len(self.share), -1)
        place[self.cells] = np.arange(r)
        inside = np.flatnonzero(place[cell] >= 0)
        rows, signs = relaxed
        return (
            np.concatenate([place[cell[inside]], np.arange(r), rows]),
            np.concatenate([arc[inside], n_arcs + self.cells % k, start + np.arange(len(rows))]),
            np.concatenate([np.full(len(inside), self.sign), -self.sign * self.share[self.cells], signs]),
        )


def _stack(blocks: Sequence[_Entries], n_rows: Sequence[int], n_columns: int) -> Any:
    """Return the matrix of blocks of rows, one below the other."""
    firsts = np.cumsum([0, *n_rows])
    rows = np.concatenate([block[0] + first for block, first in zip(blocks, firsts[:-1], strict=True)])
    columns, values = (np.concatenate([block[place] for block in blocks]) for place in (1, 2))
    return scipy.sparse.csr_array((values, (rows, columns)), shape=(int(firsts[-1]), n_columns))
