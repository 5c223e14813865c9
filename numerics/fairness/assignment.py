"""The cheapest fair assignment of weighted points to given centers, for any colours and bounds.

The linear program of Bera et al. (2019): masses x_pc of points at centers, each colour's mass at a center within its
bounds of the center's. Its dual charges a price for every colour and center; at the right prices every point goes where
distance plus price is least. So the program is solved on contested points only, starting from good prices, and its own
prices say which arcs were missed. The result is certified by the dual's value (specs/coreset.md, Fair assignment).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from jaxtyping import Float64, Int64
from scipy.optimize import linprog

from .bounds import Bounds
from .contested import MARGIN, WIDENING, Contest, contest
from .dual import prices_of
from .flow import balanced_flow, min_cost_flow

_EXACT = 1e-10
"""Relative difference of cost and bound at which an assignment counts as the best."""
_FEASIBLE = 1e-9
"""Tolerance of the linear program, relative to a typical cost and to the heaviest point."""
_WHOLE = 1e-6
"""Distance from a whole number, beside the total mass, that is the linear program's rounding."""


@dataclass(frozen=True, eq=False)
class Assignment:
    """Masses of points at centers.

    Attributes
    ----------
    point, center : ndarray
        ``(s,)`` sorted by point and then by center, each pair once.
    mass : ndarray
        ``(s,)`` positive; whole numbers (int64) where the assignment is whole. A point's masses sum to its weight.
    cost : float
        Sum of mass times squared distance.
    bound : float
        No fair assignment costs less; splitting points is allowed.
    prices : ndarray
        ``(H, k)`` what a unit of each colour pays at each center beside its distance: where the next assignment, to
        centers nearby, may begin. They are normalised (`Bounds.normalised`).
    counts : ndarray
        ``(k, H)`` mass of each colour at each center.
    """

    point: Int64[np.ndarray, "s"]
    center: Int64[np.ndarray, "s"]
    mass: Int64[np.ndarray, "s"] | Float64[np.ndarray, "s"]
    cost: float
    bound: float
    prices: Float64[np.ndarray, "H k"]
    counts: Int64[np.ndarray, "k H"] | Float64[np.ndarray, "k H"]

    def means(
        self, points: Float64[np.ndarray, "n d"], previous: Float64[np.ndarray, "k d"]
    ) -> Float64[np.ndarray, "k d"]:
        """The clusters' centroids; an empty one keeps its previous center.

        Parameters
        ----------
        points : ndarray
            ``(n, d)`` what was assigned.
        previous : ndarray
            ``(k, d)``.
        """
        share = scipy.sparse.csr_array(
            (self.mass.astype(np.float64), (self.center, self.point)), shape=(len(previous), len(points))
        )
        size = self.counts.sum(axis=1)
        means = previous.copy()
        means[size > 0] = (share @ points)[size > 0] / size[size > 0, None]
        return means


def fair_assignment(
    squared: Float64[np.ndarray, "n k"],
    weights: Int64[np.ndarray, "n"],
    colours: Int64[np.ndarray, "n"],
    bounds: Bounds,
    *,
    prices: Float64[np.ndarray, "H k"] | None = None,
    whole: bool = True,
) -> Assignment:
    """Give points to centers fairly at least cost.

    Parameters
    ----------
    squared : ndarray
        ``(n, k)`` squared distances of points and centers.
    weights : ndarray
        ``(n,)`` whole, not negative; they may be split.
    colours : ndarray
        ``(n,)`` from 0 to below H.
    bounds : Bounds
        What is fair, of H colours.
    prices : ndarray, optional
        ``(H, k)`` of an assignment of similar points to similar centers. The best assignment's cost does not depend on
        them, only the time to find it.
    whole : bool
        Whether masses must be whole numbers. They are then essentially fair (Bercea et al. 2019): the mass of each
        colour at each center, and of each center, is that of the best fractional assignment rounded down or up, at no
        higher cost. Two colours of equal weight that are to be balanced exactly are so in every cluster, whole or not.

    Returns
    -------
    Assignment
        The best one, `bound` its certificate.

    Raises
    ------
    ValueError
        If the points taken as one cluster break the bounds: then no assignment is fair.
    """
    H, k = len(bounds.low), squared.shape[1]
    totals = np.bincount(colours, weights, H)
    if not bounds.admits(totals[None]):
        raise ValueError(
            f"no assignment is fair: the points' own shares of colours, {np.round(totals / totals.sum(), 6).tolist()}, "
            f"are not within the bounds {np.round(bounds.low, 6).tolist()} to {np.round(bounds.high, 6).tolist()}"
        )
    problem = _Problem(squared, weights, colours, bounds)
    free = problem.settled(squared.argmin(axis=1), np.zeros((H, k)))
    if bounds.admits(free.counts):
        return free
    if prices is None:
        prices = prices_of(squared, weights, colours, bounds)
    if H == 2 and bounds.exact and totals[0] == totals[1]:
        return problem.balanced(prices)
    best = problem.priced_out(bounds.normalised(prices))
    return problem.rounded(best) if whole else best


@dataclass(frozen=True, eq=False)
class _Problem:
    squared: Float64[np.ndarray, "n k"]
    weights: Int64[np.ndarray, "n"]
    colours: Int64[np.ndarray, "n"]
    bounds: Bounds

    def bound(self, prices: Float64[np.ndarray, "H k"]) -> float:
        """The dual's value at normalised prices."""
        return float(self.weights @ (self.squared + prices[self.colours]).min(axis=1))

    def assignment(
        self,
        point: Int64[np.ndarray, "s"],
        center: Int64[np.ndarray, "s"],
        mass: Int64[np.ndarray, "s"] | Float64[np.ndarray, "s"],
        prices: Float64[np.ndarray, "H k"],
        bound: float,
    ) -> Assignment:
        order = np.lexsort((center, point))
        point, center, mass = point[order], center[order], mass[order]
        H, k = prices.shape
        counts = np.bincount(center * H + self.colours[point], mass, k * H).reshape(k, H).astype(mass.dtype)
        cost = float(mass @ self.squared[point, center])
        return Assignment(point, center, mass, cost, min(bound, cost), prices, counts)

    def settled(self, center: Int64[np.ndarray, "n"], prices: Float64[np.ndarray, "H k"]) -> Assignment:
        """Every point as a whole at one center."""
        point = np.flatnonzero(self.weights > 0)
        return self.assignment(point, center[point], self.weights[point], prices, self.bound(prices))

    def balanced(self, prices: Float64[np.ndarray, "H k"]) -> Assignment:
        """Two colours of equal weight, equally much of both in every cluster."""
        flow = balanced_flow(self.squared, self.weights, self.colours, potentials=(prices[0] - prices[1]) / 2)
        charged = np.stack([flow.potentials, -flow.potentials])
        return self.assignment(flow.point, flow.center, flow.mass, charged, flow.bound)

    def priced_out(self, prices: Float64[np.ndarray, "H k"]) -> Assignment:
        """The best fractional assignment: solved on contested arcs, until no arc that was left out would pay."""
        priced = self.squared + prices[self.colours]
        nearest = self.settled(priced.argmin(axis=1), prices)
        total = float(self.weights.sum())
        mass = max(MARGIN * total, WIDENING * self.bounds.violation(nearest.counts) * len(prices))
        arcs = contest(priced, self.weights, mass)
        best_bound, best_prices = nearest.bound, prices
        while True:
            solved = _on_arcs(self, arcs)
            if solved is None:
                mass = WIDENING * mass + 1
                arcs = contest(priced, self.weights, mass)
                continue
            point, center, moved, raw = solved
            prices = self.bounds.normalised(raw)
            bound = self.bound(prices)
            if bound > best_bound:
                best_bound, best_prices = bound, prices
            found = self.assignment(point, center, moved, best_prices, best_bound)
            paying = arcs.paying(
                self.squared + prices[self.colours], _FEASIBLE * found.cost / total
            )
            if found.cost - best_bound <= _EXACT * found.cost or not paying.any():
                return found
            arcs = arcs.with_arcs(paying)

    def rounded(self, best: Assignment) -> Assignment:
        """Whole masses on the support of a fractional assignment, each sum rounded down or up.

        A flow from points through (color, center) to centers whose arcs may carry what the fractional one does, rounded
        down to rounded up: it has a solution because the fractional one is one, a whole one because the bounds are
        whole, and the cheapest costs no more.
        """
        H, k = best.prices.shape
        n, support = len(self.weights), len(best.point)
        near = np.rint(best.counts)
        slack = _WHOLE * max(1.0, 1e-9 * float(self.weights.sum()))
        counts = np.where(np.abs(best.counts - near) < slack, near, best.counts).T.ravel()
        sizes = best.counts.sum(axis=1)
        sizes = np.where(np.abs(sizes - np.rint(sizes)) < slack, np.rint(sizes), sizes)
        cell, center = n + np.arange(H * k), n + H * k + np.arange(k)
        sink = n + H * k + k
        low = np.floor(np.concatenate([np.zeros(support), counts, sizes])).astype(np.int64)
        high = np.concatenate(
            [self.weights[best.point], np.ceil(counts).astype(np.int64), np.ceil(sizes).astype(np.int64)]
        )
        tail = np.concatenate([best.point, cell, center])
        head = np.concatenate([n + self.colours[best.point] * k + best.center, np.tile(center, H), np.full(k, sink)])
        supply = np.concatenate([self.weights, np.zeros(H * k + k, np.int64), [-self.weights.sum()]])
        # A lower bound is flow that is sent already: it leaves its tail and waits at its head.
        np.subtract.at(supply, tail, low)
        np.add.at(supply, head, low)
        cost = np.concatenate([self.squared[best.point, best.center], np.zeros(H * k + k)])
        flow = min_cost_flow(tail, head, high - low, cost, supply)
        assert flow is not None, "a fractional flow within whole bounds exists, hence a whole one"
        mass = flow[:support]
        used = mass > 0
        return self.assignment(best.point[used], best.center[used], mass[used], best.prices, best.bound)


_Solved = tuple[
    Int64[np.ndarray, "s"], Int64[np.ndarray, "s"], Float64[np.ndarray, "s"], Float64[np.ndarray, "H k"]
]


def _on_arcs(problem: _Problem, arcs: Contest) -> _Solved | None:
    """The linear program on the arcs of a contest: masses and prices; None if no masses there are fair.

    Variables are the contested masses and the sizes M_c of the clusters. Rows: each contested point is given away, each
    M_c is the sum of what its center gets, and of every colour and center ``low M_c <= y_hc <= high M_c``.
    """
    squared, weights, colours, bounds = problem.squared, problem.weights, problem.colours, problem.bounds
    H, k = len(bounds.low), squared.shape[1]
    contested = arcs.points
    fixed = np.ones(len(weights), np.bool_)
    fixed[contested] = False
    fixed &= weights > 0
    held = np.bincount(colours[fixed] * k + arcs.nearest[fixed], weights[fixed], H * k)
    row, center = np.nonzero(arcs.columns[contested])
    point = contested[row]
    unit = float(weights[contested].max(initial=1))
    regret = squared[point, center] - squared[contested].min(axis=1, initial=np.inf)[row]
    typical = float(regret.mean()) or 1.0 if len(regret) else 1.0

    size = scipy.sparse.csr_array((np.tile(1.0, H * k), (np.arange(H * k), np.tile(np.arange(k), H))), shape=(H * k, k))
    gets = scipy.sparse.csr_array(
        (np.ones(len(point)), (colours[point] * k + center, np.arange(len(point)))), shape=(H * k, len(point))
    )
    given = scipy.sparse.csr_array((np.ones(len(point)), (row, np.arange(len(point)))), shape=(len(contested), len(point)))
    low, high = np.repeat(bounds.low, k), np.repeat(bounds.high, k)
    equal, above, below = low == high, (low != high) & (low > 0), (low != high) & (high < 1)

    def share(of: Float64[np.ndarray, "r"], rows: np.ndarray) -> scipy.sparse.csr_array:
        return scipy.sparse.hstack([gets[rows], -size.multiply(of[:, None]).tocsr()[rows]], format="csr")

    A_eq = scipy.sparse.vstack(
        [
            scipy.sparse.hstack([given, scipy.sparse.csr_array((len(contested), k))]),
            scipy.sparse.hstack([-size.T @ gets, scipy.sparse.eye_array(k)]),
            share(low, equal),
        ],
        format="csr",
    )
    b_eq = np.concatenate([weights[contested], held.reshape(H, k).sum(axis=0), -held[equal]]) / unit
    A_ub = scipy.sparse.vstack([-share(low, above), share(high, below)], format="csr")
    b_ub = np.concatenate([held[above], -held[below]]) / unit
    result = linprog(
        np.concatenate([regret / typical, np.zeros(k)]),
        A_ub=A_ub,
        b_ub=b_ub,
        A_eq=A_eq,
        b_eq=b_eq,
        bounds=(0, None),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
    )
    if result.status == 2:
        return None
    if result.status != 0:
        raise ArithmeticError(f"the linear program of {len(point)} arcs was not solved: {result.message}")
    raw = np.zeros(H * k)
    raw[equal] = -result.eqlin.marginals[len(contested) + k :]
    raw[above] -= -result.ineqlin.marginals[: above.sum()]
    raw[below] += -result.ineqlin.marginals[above.sum() :]
    mass = result.x[: len(point)] * unit
    used = mass > _FEASIBLE * unit
    return (
        np.concatenate([np.flatnonzero(fixed), point[used]]),
        np.concatenate([arcs.nearest[fixed], center[used]]),
        np.concatenate([weights[fixed].astype(np.float64), mass[used]]),
        raw.reshape(H, k) * typical,
    )
