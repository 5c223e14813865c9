"""The cheapest fair assignment of weighted points to given centers, for any groups and bounds.

The linear program of Bera et al. (2019): masses x_pc of points at centers, each group's mass at a center within its
bounds of the center's. Its dual charges a price for every group and center; at the right prices every point goes where
distance plus price is least. So the program is solved on contested points only, starting from good prices, and its own
prices say which arcs were missed. The result is certified by the dual's value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from jaxtyping import Float64, Int64

from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.dual import prices_of
from numerics.coreset.fairness.flow import balanced_flow, flow_within
from numerics.coreset.fairness.linear_program import solve_on_arcs
from numerics.coreset.fairness.restricted_arcs import MARGIN, restrict_arcs
from numerics.coreset.fairness.rounding import near_whole

_EXACT = 1e-10
"""Relative difference of cost and bound at which an assignment counts as the best."""
_FEASIBLE = 1e-9
"""Gain of an arc, beside the mean cost of a unit, that is rounding."""
_RADIUS = 0.1
"""First radius of the box of prices, beside the mean cost of a unit."""
_LEAST_UNIT = 1e-3
_WIDENING = 4.0
_Prices = Float64[np.ndarray, "H k"]


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
        No fair assignment costs less, fractions allowed. A whole one that is only essentially fair may, by a little.
    prices : ndarray
        ``(H, k)`` what a unit of each group pays at each center beside its distance: where the next assignment, to
        centers nearby, may begin. They are normalised (`Bounds.normalised`).
    counts : ndarray
        ``(k, H)`` mass of each group at each center.
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
    groups: Int64[np.ndarray, "n"],
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
    groups : ndarray
        ``(n,)`` from 0 to below H.
    bounds : Bounds
        What is fair, of H groups.
    prices : ndarray, optional
        ``(H, k)`` of an assignment of similar points to similar centers. The best assignment's cost does not depend on
        them, only the time to find it.
    whole : bool
        Whether masses must be whole numbers. They are then essentially fair (Bercea et al. 2019): the mass of each
        group at each center, and of each center, is that of the best fractional assignment rounded down or up, at no
        higher cost. Two groups of equal weight that are to be balanced exactly are so in every cluster, whole or not.

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
    totals = np.bincount(groups, weights, H)
    if not bounds.admits(totals[None]):
        raise ValueError(
            f"no assignment is fair: the points' own shares of groups, {np.round(totals / totals.sum(), 6).tolist()}, "
            f"are not within the bounds {np.round(bounds.low, 6).tolist()} to {np.round(bounds.high, 6).tolist()}"
        )
    problem = _Problem(squared, weights, groups, bounds)
    free = problem.settled(squared.argmin(axis=1), np.zeros((H, k)))
    if bounds.admits(free.counts):
        return free
    if prices is None:
        prices = prices_of(squared, weights, groups, bounds)
    if H == 2 and bounds.exact and totals[0] == totals[1]:
        return problem.balanced(prices)
    best = problem.priced_out(bounds.normalised(prices))
    return problem.rounded(best) if whole else best


@dataclass(frozen=True, eq=False)
class _Problem:
    squared: Float64[np.ndarray, "n k"]
    weights: Int64[np.ndarray, "n"]
    groups: Int64[np.ndarray, "n"]
    bounds: Bounds

    def bound(self, prices: Float64[np.ndarray, "H k"]) -> float:
        """The dual's value at normalised prices."""
        return float(self.weights @ (self.squared + prices[self.groups]).min(axis=1))

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
        counts = np.bincount(center * H + self.groups[point], mass, k * H).reshape(k, H).astype(mass.dtype)
        cost = float(mass @ self.squared[point, center])
        return Assignment(point, center, mass, cost, bound, prices, counts)

    def settled(self, center: Int64[np.ndarray, "n"], prices: Float64[np.ndarray, "H k"]) -> Assignment:
        """Every point as a whole at one center."""
        point = np.flatnonzero(self.weights > 0)
        return self.assignment(point, center[point], self.weights[point], prices, self.bound(prices))

    def balanced(self, prices: Float64[np.ndarray, "H k"]) -> Assignment:
        """Two groups of equal weight, equally much of both in every cluster."""
        flow = balanced_flow(self.squared, self.weights, self.groups, potentials=(prices[0] - prices[1]) / 2)
        charged = np.stack([flow.potentials, -flow.potentials])
        return self.assignment(flow.point, flow.center, flow.mass, charged, flow.bound)

    def priced_out(self, prices: _Prices) -> Assignment:
        """The best fractional assignment: a linear program on contested arcs, in a box of prices around good ones.

        A price at the edge of its box is what the missing arcs would bring down: its box grows, around the best prices
        so far. Arcs that were left out and would pay join. With neither, the program's solution is that of the whole.
        """
        priced = self.squared + prices[self.groups]
        nearest = self.settled(priced.argmin(axis=1), prices)
        total = float(self.weights.sum())
        # Where all points are at centers their cost says nothing about prices; distances between centers do.
        unit = max(nearest.cost / total, _LEAST_UNIT * float(self.squared.mean()))
        arcs = restrict_arcs(priced, self.weights, self.groups, MARGIN * total)
        radius, idle = np.full(prices.shape, _RADIUS * unit), _FEASIBLE * unit
        bound = nearest.bound
        while True:
            point, center, moved, raw, cut = solve_on_arcs(
                self.squared, self.weights, self.groups, self.bounds, arcs, prices, radius
            )
            charged = self.bounds.normalised(raw)
            reached = self.bound(charged)
            if reached > bound:
                bound, prices = reached, charged
            paying = arcs.paying(self.squared + charged[self.groups], idle)
            if not cut.any():
                found = self.assignment(point, center, moved, prices, bound)
                if found.cost - bound <= _EXACT * found.cost or not paying.any():
                    return found
            radius[cut] *= _WIDENING
            arcs = arcs.with_arcs(paying)

    def rounded(self, best: Assignment) -> Assignment:
        """Whole masses on the support of a fractional assignment, each sum rounded down or up.

        A flow from points through (group, center) to centers whose arcs may carry what the fractional one does, rounded
        down to rounded up: it has a solution because the fractional one is one, a whole one because the bounds are
        whole, and the cheapest costs no more. Where weights are so heavy that the linear program's own rounding is a
        row or more, the sums are given as much more room as it takes.
        """
        H, k = best.prices.shape
        # A light point beside very heavy ones may be rounding to the linear program, and have no arc left.
        lost = np.setdiff1d(np.flatnonzero(self.weights > 0), best.point)
        nearest = (self.squared[lost] + best.prices[self.groups[lost]]).argmin(axis=1)
        point, center_of = np.r_[best.point, lost], np.r_[best.center, nearest]
        n, support = len(self.weights), len(point)
        counts, sizes = near_whole(best.counts.T.ravel()), near_whole(best.counts.sum(axis=1))
        cell, center, sink = n + np.arange(H * k), n + H * k + np.arange(k), n + H * k + k
        tail = np.concatenate([point, cell, center])
        head = np.concatenate([n + self.groups[point] * k + center_of, np.tile(center, H), np.full(k, sink)])
        cost = np.concatenate([self.squared[point, center_of], np.zeros(H * k + k)])
        supply = np.concatenate([self.weights, np.zeros(H * k + k, np.int64), [-self.weights.sum()]])
        sums, own = np.concatenate([counts, sizes]), self.weights[point]
        flow, room = None, 0
        while flow is None:
            low = np.maximum(np.floor(sums) - room, 0).astype(np.int64)
            high = np.ceil(sums).astype(np.int64) + room
            flow = flow_within(tail, head, np.r_[np.zeros(support, np.int64), low], np.r_[own, high], cost, supply)
            room = 4 * room + 1
        mass = flow[:support]
        used = mass > 0
        return self.assignment(point[used], center_of[used], mass[used], best.prices, best.bound)
