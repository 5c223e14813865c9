"""Assignment as a flow: two groups with equal masses at every center, or a fixed mass for every center.

The cost of a pair of a blue point b and a red point r is min_c |b - c|^2 + |r - c|^2. The bipartite flow of Schmidt et
al. 2018, Algorithms 8 and 10, with n_b n_r arcs therefore equals the flow blue -> center -> red with n k arcs: a unit
through a center is a pair that is charged there, and every pair can take its best center (docs/coreset.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float64, Int64

from common.extras import require
from numerics.coreset.fairness.restricted_arcs import MARGIN, WIDENING, RestrictedArcs, restrict_arcs

if TYPE_CHECKING:
    from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

_COST_BITS = (61, 56, 51)
"""Bits of costs times nodes, which OR-tools multiplies in 64 bits; fewer are used if paths turn out too dear."""
_EXACT = 1e-11
"""Relative difference of cost and bound that counts as rounding."""
_IDLE = 1e-12
"""Gain of an arc, relative to the largest distance, that counts as rounding."""


@dataclass(frozen=True, eq=False)
class Flow:
    """Whole masses of points at centers.

    Attributes
    ----------
    point, center, mass : ndarray
        ``(s,)`` sorted by point and then by center; masses are positive.
    cost : float
        Sum of mass times squared distance.
    bound : float
        Lower bound of the cost of all feasible masses.
    potentials : ndarray
        ``(k,)`` price of a unit at each center; with balanced groups, the blue unit pays it and the red one gets it.
    """

    point: Int64[np.ndarray, "s"]
    center: Int64[np.ndarray, "s"]
    mass: Int64[np.ndarray, "s"]
    cost: float
    bound: float
    potentials: Float64[np.ndarray, "k"]


def balanced_flow(
    squared: Float64[np.ndarray, "n k"],
    weights: Int64[np.ndarray, "n"],
    groups: Int64[np.ndarray, "n"],
    *,
    potentials: Float64[np.ndarray, "k"] | None = None,
) -> Flow:
    """Assign points of two groups to centers with equal masses of both at each center, at least cost.

    Parameters
    ----------
    squared : ndarray
        ``(n, k)`` squared distances of points and centers.
    weights : ndarray
        ``(n,)`` whole, not negative; they may be split.
    groups : ndarray
        ``(n,)`` 0 or 1.
    potentials : ndarray, optional
        ``(k,)`` start, from an assignment to similar centers; it affects only the time.

    Returns
    -------
    Flow

    Raises
    ------
    ValueError
        If one group has more weight than the other.

    Examples
    --------
    >>> squared = np.array([[0.0, 1.0], [0.1, 0.5], [0.2, 0.6], [1.0, 0.0]])
    >>> flow = balanced_flow(squared, np.ones(4, int), np.array([0, 0, 1, 1]))
    >>> flow.center, round(flow.cost, 2)
    (array([0, 1, 0, 1]), 0.7)
    """
    sign = np.where(groups == 0, 1, -1)
    if (sign * weights).sum():
        raise ValueError("two groups can be balanced in every cluster only where both have the same total weight")
    return _transport(squared, weights, sign, np.zeros(squared.shape[1], np.int64), potentials)


def capacitated_flow(
    squared: Float64[np.ndarray, "n k"],
    weights: Int64[np.ndarray, "n"],
    targets: Int64[np.ndarray, "k"],
    *,
    potentials: Float64[np.ndarray, "k"] | None = None,
) -> Flow:
    """Assign points to centers with exactly the target mass at each center, at least cost.

    Parameters
    ----------
    squared : ndarray
        ``(n, k)`` squared distances of points and centers.
    weights : ndarray
        ``(n,)`` whole, not negative; they may be split.
    targets : ndarray
        ``(k,)`` whole, not negative; they sum to the total weight.
    potentials : ndarray, optional
        ``(k,)`` start, such as the prices that led to the targets; it affects only the time.

    Returns
    -------
    Flow

    Raises
    ------
    ValueError
        If the targets do not sum to the total weight, or one is negative.

    Examples
    --------
    >>> flow = capacitated_flow(np.array([[0.0, 3.0], [0.0, 1.0]]), np.ones(2, int), np.array([1, 1]))
    >>> flow.center, flow.cost
    (array([0, 1]), 1.0)
    """
    if (targets < 0).any() or targets.sum() != weights.sum():
        raise ValueError(
            f"targets of centers must not be negative and must sum to the points' weight, {weights.sum()}, "
            f"not {targets.sum()}"
        )
    return _transport(squared, weights, np.ones(len(weights), np.int64), targets, potentials)


def min_cost_flow(
    tail: Int64[np.ndarray, "a"],
    head: Int64[np.ndarray, "a"],
    capacity: Int64[np.ndarray, "a"],
    cost: Float64[np.ndarray, "a"],
    supply: Int64[np.ndarray, "v"],
) -> Int64[np.ndarray, "a"] | None:
    """Compute the cheapest whole flow.

    Costs are multiplied by the largest power of two that the 64 bits of OR-tools admit, and rounded to whole numbers.
    The error of a cost is below 2^-60 of the largest one times the number of nodes, or 2^-50 in the worst case.

    Parameters
    ----------
    tail, head : ndarray
        ``(a,)`` nodes of each arc.
    capacity, cost : ndarray
        ``(a,)``, not negative.
    supply : ndarray
        ``(v,)`` supply of each node; a demand is negative.

    Returns
    -------
    ndarray or None
        ``(a,)`` flow on each arc; None if the arcs cannot carry the supply.

    Examples
    --------
    Two ways from node 0 to node 1; the cheaper one has capacity 3:

    >>> min_cost_flow(np.array([0, 0]), np.array([1, 1]), np.array([3, 9]), np.array([1.0, 2.0]), np.array([5, -5]))
    array([3, 2])
    """
    # The largest scale s with s * max(cost) * nodes < 2^61; frexp gives it without overflow for any costs.
    _, exponent = np.frexp(float(cost.max(initial=0.0)) * (len(supply) + 1))
    for bits in _COST_BITS:
        whole = np.rint(np.ldexp(cost, bits - 1 - int(exponent))).astype(np.int64)
        status, flow = solve(tail, head, capacity, whole, supply)
        if status in (flow_solver().OPTIMAL, flow_solver().INFEASIBLE):
            return flow
    raise ArithmeticError(f"the flow of {len(supply)} nodes and {len(tail)} arcs was not solved: {status}")


def solve(
    tail: Int64[np.ndarray, "a"],
    head: Int64[np.ndarray, "a"],
    capacity: Int64[np.ndarray, "a"],
    cost: Int64[np.ndarray, "a"],
    supply: Int64[np.ndarray, "v"],
) -> tuple[SimpleMinCostFlow.Status, Int64[np.ndarray, "a"] | None]:
    """Solve the flow problem at whole costs; return OR-tools' status, and the flow if it is optimal, else None."""
    solver = flow_solver()()
    arcs = solver.add_arcs_with_capacity_and_unit_cost(tail, head, capacity, cost)
    solver.set_nodes_supplies(np.arange(len(supply)), supply)
    status = solver.solve()
    return status, np.asarray(solver.flows(arcs), np.int64) if status == solver.OPTIMAL else None


def flow_solver() -> type[SimpleMinCostFlow]:
    """Return the solver of OR-tools, which is imported only here: most asks of a site need no flow."""
    require("ortools", "fair clustering")
    from ortools.graph.python import min_cost_flow

    solver: type[SimpleMinCostFlow] = min_cost_flow.SimpleMinCostFlow
    return solver


def flow_within(
    tail: Int64[np.ndarray, "a"],
    head: Int64[np.ndarray, "a"],
    low: Int64[np.ndarray, "a"],
    high: Int64[np.ndarray, "a"],
    cost: Float64[np.ndarray, "a"],
    supply: Int64[np.ndarray, "v"],
) -> Int64[np.ndarray, "a"] | None:
    """Compute the cheapest whole flow with ``low <= flow <= high`` on every arc; return None if there is none.

    The lower bounds are sent first: they change the supplies, and `min_cost_flow` solves the rest.

    Examples
    --------
    >>> none, node = np.zeros(1, int), np.array([1])
    >>> flow_within(none, node, np.array([2]), np.array([4]), np.zeros(1), np.array([3, -3]))
    array([3])
    """
    rest = supply.copy()
    np.subtract.at(rest, tail, low)
    np.add.at(rest, head, low)
    flow = min_cost_flow(tail, head, high - low, cost, rest)
    return None if flow is None else flow + low


def _transport(
    squared: Float64[np.ndarray, "n k"],
    weights: Int64[np.ndarray, "n"],
    sign: Int64[np.ndarray, "n"],
    targets: Int64[np.ndarray, "k"],
    potentials: Float64[np.ndarray, "k"] | None,
) -> Flow:
    """Compute the cheapest masses whose signed sum at each center is its target.

    The problem is solved on contested arcs. The potentials of its optimum price all arcs, and those that would lower
    the cost join, until the bound equals the cost.
    """
    t = np.zeros(squared.shape[1]) if potentials is None else potentials
    priced = squared + sign[:, None] * t
    misfit = _misfit(priced.argmin(axis=1), weights, sign, targets)
    mass = max(MARGIN * weights.sum(), WIDENING * misfit)
    arcs = restrict_arcs(priced, weights, np.zeros(len(weights), np.int64), mass)
    while True:
        solved = _on_arcs(squared, weights, sign, targets, arcs)
        if solved is None:
            mass = WIDENING * mass + 1
            arcs = restrict_arcs(priced, weights, np.zeros(len(weights), np.int64), mass)
            continue
        point, center, moved = solved
        t = _potentials(squared, sign, arcs, solved, t)
        priced = squared + sign[:, None] * t
        least = priced.min(axis=1)
        cost, bound = float(moved @ squared[point, center]), float(weights @ least - targets @ t)
        paying = arcs.paying(priced, _IDLE * float(squared.max(initial=0.0)))
        if cost - bound <= _EXACT * cost or not paying.any():
            return Flow(point, center, moved, cost, min(cost, bound), t)
        arcs = arcs.with_arcs(paying)


def _misfit(
    nearest: Int64[np.ndarray, "n"],
    weights: Int64[np.ndarray, "n"],
    sign: Int64[np.ndarray, "n"],
    targets: Int64[np.ndarray, "k"],
) -> float:
    """Compute the mass that has to move if every point is at its best center."""
    net = np.bincount(nearest, sign * weights, len(targets)) - targets
    return float(np.abs(net).sum() / 2)


_Masses = tuple[Int64[np.ndarray, "s"], Int64[np.ndarray, "s"], Int64[np.ndarray, "s"]]


def _on_arcs(
    squared: Float64[np.ndarray, "n k"],
    weights: Int64[np.ndarray, "n"],
    sign: Int64[np.ndarray, "n"],
    targets: Int64[np.ndarray, "k"],
    arcs: RestrictedArcs,
) -> _Masses | None:
    """Compute the cheapest masses on restricted arcs; return None if there are none."""
    k, contested = len(targets), arcs.points
    fixed = np.ones(len(weights), np.bool_)
    fixed[contested] = False
    fixed &= weights > 0
    row, center = np.nonzero(arcs.columns[contested])
    point = contested[row]
    regret = squared[point, center] - squared[contested].min(axis=1, initial=np.inf)[row]
    out = sign[point] > 0
    at_center = np.bincount(arcs.nearest[fixed], (sign * weights)[fixed], k).astype(np.int64) - targets
    flow = min_cost_flow(
        np.where(out, k + row, center),
        np.where(out, center, k + row),
        weights[point],
        regret,
        np.concatenate([at_center, (sign * weights)[contested]]),
    )
    if flow is None:
        return None
    used = flow > 0
    points = np.concatenate([np.flatnonzero(fixed), point[used]])
    centers = np.concatenate([arcs.nearest[fixed], center[used]])
    order = np.lexsort((centers, points))
    return points[order], centers[order], np.concatenate([weights[fixed], flow[used]])[order]


def _potentials(
    squared: Float64[np.ndarray, "n k"],
    sign: Int64[np.ndarray, "n"],
    arcs: RestrictedArcs,
    solved: _Masses,
    start: Float64[np.ndarray, "k"],
) -> Float64[np.ndarray, "k"]:
    """Compute potentials at which no contested unit gains by moving, close to `start`, by shortest paths.

    A unit of positive sign at c with an arc to c' requires ``t_c <= t_c' + (d_c' - d_c)``. Potentials are therefore
    distances in a graph of the k centers, which has no negative cycle, because the masses are optimal.
    """
    k = len(start)
    length: Float64[np.ndarray, "k k"] = np.full((k, k), np.inf)
    np.fill_diagonal(length, 0.0)
    open_: Bool[np.ndarray, "n"] = np.zeros(len(sign), np.bool_)
    open_[arcs.points] = True
    contested = open_[solved[0]]
    point, center = solved[0][contested], solved[1][contested]
    reach = np.where(arcs.columns[point], squared[point] - squared[point, center][:, None], np.inf)
    for c in range(k):
        here = center == c
        outward, inward = here & (sign[point] > 0), here & (sign[point] < 0)
        length[:, c] = np.minimum(length[:, c], reach[outward].min(axis=0, initial=np.inf))
        length[c] = np.minimum(length[c], reach[inward].min(axis=0, initial=np.inf))
    for via in range(k):
        length = np.minimum(length, length[:, via, None] + length[via])
    # Rounding of costs may cause a cycle of slightly negative length.
    np.fill_diagonal(length, 0.0)
    potentials: Float64[np.ndarray, "k"] = (start[:, None] + length).min(axis=0)
    return potentials
