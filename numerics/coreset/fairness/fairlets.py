"""Fairlets: the cheapest micro-clustering into pairs of one blue and one red point.

The flow network of the paper has an arc from every blue to every red point, and nearly all of them carry no flow. The
flow is therefore computed on few arcs. Its duals price all others, and those that would lower the cost join, until
there is none. The result is the certified optimum over all arcs, without the quadratic network.

Source: Schmidt et al. 2018, Algorithms 7 and 9.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from numerics.coreset.compiler import njit
from numerics.coreset.fairness.flow import flow_solver, solve

NEIGHBORS = 8
"""Arcs of each point in the first network, and most arcs of each point that join in every later one."""

_COST_BITS = 56
"""Bits of the largest whole cost times the number of points: OR-tools computes such products, and sums of them along
paths, in 64 bits."""

_COARSER = 2.0**-4
"""Change of the scale if these sums are too large."""


@dataclass(frozen=True, eq=False)
class Fairlets:
    """Pairs of points of two groups that cover all weight.

    Attributes
    ----------
    blue, red : ndarray
        ``(s,)`` the two points of each fairlet; a point of weight above 1 may be in several fairlets.
    mass : ndarray
        ``(s,)`` weight of each of the two points in the fairlet, positive.
    cost : float
        Sum of the squared distances of the points from the midpoints of their fairlets: a lower bound of the cost of
        every clustering with as much blue as red in each cluster.
    representatives : ndarray
        ``(s, d)`` midpoints; each represents twice the mass of its fairlet.
    """

    blue: Int64[np.ndarray, "s"]
    red: Int64[np.ndarray, "s"]
    mass: Int64[np.ndarray, "s"]
    cost: float
    representatives: Float64[np.ndarray, "s d"]


def fairlets(
    points: Float64[np.ndarray, "n d"], weights: Int64[np.ndarray, "n"], groups: Int64[np.ndarray, "n"]
) -> Fairlets:
    """Compute the cheapest fairlets of points of two groups.

    Parameters
    ----------
    points : ndarray
        ``(n, d)``.
    weights : ndarray
        ``(n,)`` whole and positive.
    groups : ndarray
        ``(n,)`` 0 (blue) or 1 (red).

    Returns
    -------
    Fairlets
        By blue point, then red.

    Raises
    ------
    ValueError
        If there is no point, a third group, or more weight of one group than of the other.

    Notes
    -----
    Schmidt et al. 2018, Algorithm 7 (weights of 1) and Algorithm 9.

    Examples
    --------
    >>> points = np.array([[0.0], [10.0], [1.0], [12.0]])
    >>> pairs = fairlets(points, np.ones(4, int), np.array([0, 0, 1, 1]))
    >>> pairs.blue, pairs.red, pairs.cost
    (array([0, 1]), array([2, 3]), 2.5)
    """
    blue, red = np.flatnonzero(groups == 0), np.flatnonzero(groups == 1)
    totals = int(weights[blue].sum()), int(weights[red].sum())
    if len(blue) + len(red) != len(points) or not len(points) or totals[0] != totals[1]:
        raise ValueError(
            f"fairlets need two groups of equal weight; group 0 has {totals[0]}, group 1 has {totals[1]} "
            f"and {len(points) - len(blue) - len(red)} points have another group"
        )
    first, second, mass = _transport(points[blue], weights[blue], points[red], weights[red])
    ends = points[blue[first]], points[red[second]]
    cost = float(mass @ ((ends[0] - ends[1]) ** 2).sum(axis=1)) / 2
    return Fairlets(blue[first], red[second], mass, cost, (ends[0] + ends[1]) / 2)


_Pairs = tuple[Int64[np.ndarray, "s"], Int64[np.ndarray, "s"], Int64[np.ndarray, "s"]]


def _transport(
    blue: Float64[np.ndarray, "b d"],
    supply: Int64[np.ndarray, "b"],
    red: Float64[np.ndarray, "r d"],
    demand: Int64[np.ndarray, "r"],
) -> _Pairs:
    """Compute the cheapest flow from blue to red points, as (blue, red, mass).

    Costs are multiplied by the largest power of two that 64 bits admit, and rounded to whole numbers. All further
    computations are exact.
    """
    everything = np.concatenate([blue, red])
    largest = float((np.ptp(everything, axis=0) ** 2).sum())
    scale = float(2.0 ** np.floor(_COST_BITS - np.log2(largest * len(everything)))) if largest > 0 else 1.0
    while (pairs := _generate_columns(blue, supply, red, demand, scale)) is None:
        scale *= _COARSER
    return pairs


def _generate_columns(
    blue: Float64[np.ndarray, "b d"],
    supply: Int64[np.ndarray, "b"],
    red: Float64[np.ndarray, "r d"],
    demand: Int64[np.ndarray, "r"],
    scale: float,
) -> _Pairs | None:
    """Compute the flow by column generation; return None if costs at this scale are too large for the solver."""
    blue_label, red_label = np.zeros(len(blue), np.int64), np.zeros(len(red), np.int64)
    nearest = _cheapest_arcs(blue, red, blue_label, red_label, scale, np.iinfo(np.int64).max)
    arcs = np.union1d(_staircase(blue, supply, red, demand), nearest)
    while True:
        tails, heads = np.divmod(arcs, len(red))
        costs = _costs(blue, red, tails, heads, scale)
        flow = _flow(tails, heads, costs, supply, demand)
        if flow is None:
            return None
        used = flow > 0
        _relax(tails, heads, costs, used, blue_label, red_label)
        joining = _cheapest_arcs(blue, red, blue_label, red_label, scale, 0)
        if not len(joining):
            return tails[used], heads[used], flow[used]
        arcs = np.union1d(arcs, joining)


def _flow(
    tails: Int64[np.ndarray, "a"],
    heads: Int64[np.ndarray, "a"],
    costs: Int64[np.ndarray, "a"],
    supply: Int64[np.ndarray, "b"],
    demand: Int64[np.ndarray, "r"],
) -> Int64[np.ndarray, "a"] | None:
    """Compute the cheapest flow on these arcs; return None if the costs are too large for the solver."""
    status, flow = solve(tails, len(supply) + heads, supply[tails], costs, np.concatenate([supply, -demand]))
    if status not in (flow_solver().OPTIMAL, flow_solver().BAD_COST_RANGE):
        raise ArithmeticError(f"the flow of {len(tails)} arcs between fairlets' points was not solved: {status}")
    return flow


def _staircase(
    blue: Float64[np.ndarray, "b d"],
    supply: Int64[np.ndarray, "b"],
    red: Float64[np.ndarray, "r d"],
    demand: Int64[np.ndarray, "r"],
) -> Int64[np.ndarray, "s"]:
    """Return the arcs of a feasible flow: both groups are sorted by their widest column and matched in this order."""
    column = np.argmax(np.ptp(np.concatenate([blue, red]), axis=0))
    blue_order, red_order = np.argsort(blue[:, column], kind="stable"), np.argsort(red[:, column], kind="stable")
    supplies, demands = np.cumsum(supply[blue_order]), np.cumsum(demand[red_order])
    steps = np.union1d(supplies, demands)
    tails, heads = blue_order[np.searchsorted(supplies, steps)], red_order[np.searchsorted(demands, steps)]
    arcs: Int64[np.ndarray, "s"] = tails * len(red) + heads
    return arcs


@njit(cache=True)
def _cost(a: Float64[np.ndarray, "d"], b: Float64[np.ndarray, "d"], scale: float) -> np.int64:
    """Compute the whole cost of a unit from a to b; it is the same number everywhere, so that duals are exact."""
    total = 0.0
    for j in range(len(a)):
        total += (a[j] - b[j]) ** 2
    return np.int64(np.rint(scale * total))


@njit(cache=True)
def _costs(
    blue: Float64[np.ndarray, "b d"],
    red: Float64[np.ndarray, "r d"],
    tails: Int64[np.ndarray, "a"],
    heads: Int64[np.ndarray, "a"],
    scale: float,
) -> Int64[np.ndarray, "a"]:
    costs = np.empty(len(tails), np.int64)
    for arc in range(len(tails)):
        costs[arc] = _cost(blue[tails[arc]], red[heads[arc]], scale)
    return costs


@njit(cache=True)
def _relax(
    tails: Int64[np.ndarray, "a"],
    heads: Int64[np.ndarray, "a"],
    costs: Int64[np.ndarray, "a"],
    used: Bool[np.ndarray, "a"],
    blue_label: Int64[np.ndarray, "b"],
    red_label: Int64[np.ndarray, "r"],
) -> None:
    """Update the duals of a cheapest flow in place, by Bellman and Ford's algorithm in its residual network.

    Afterwards ``red_label - blue_label <= cost`` on every arc, with equality on arcs with flow. The flow is optimal in
    whole numbers, so that there is no negative cycle and the algorithm ends.
    """
    moved = True
    while moved:
        moved = False
        for arc in range(len(tails)):
            tail, head = tails[arc], heads[arc]
            slack = blue_label[tail] + costs[arc] - red_label[head]
            if slack < 0:
                red_label[head] += slack
                moved = True
            elif slack > 0 and used[arc]:
                blue_label[tail] -= slack
                moved = True
    top = max(blue_label.max(), red_label.max())
    blue_label -= top
    red_label -= top


@njit(cache=True)
def _cheapest_arcs(
    blue: Float64[np.ndarray, "b d"],
    red: Float64[np.ndarray, "r d"],
    blue_label: Int64[np.ndarray, "b"],
    red_label: Int64[np.ndarray, "r"],
    scale: float,
    below: int,
) -> Int64[np.ndarray, "a"]:
    """Return the `NEIGHBORS` arcs of least reduced cost below `below` of every point; arcs may repeat."""
    b, r = len(blue), len(red)
    best = np.full((b + r, NEIGHBORS), below, np.int64)
    arcs = np.full((b + r, NEIGHBORS), -1, np.int64)
    for i in range(b):
        for j in range(r):
            reduced = blue_label[i] - red_label[j] + _cost(blue[i], red[j], scale)
            for node in (i, b + j):
                if reduced < best[node, -1]:
                    place = NEIGHBORS - 1
                    while place > 0 and reduced < best[node, place - 1]:
                        best[node, place] = best[node, place - 1]
                        arcs[node, place] = arcs[node, place - 1]
                        place -= 1
                    best[node, place] = reduced
                    arcs[node, place] = i * r + j
    flat = arcs.ravel()
    return flat[flat >= 0]
