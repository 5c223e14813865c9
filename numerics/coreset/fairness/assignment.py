"""The cheapest fair assignment of weighted points to fixed centers, for any groups and bounds.

It is the solution of the linear program of Bera et al. (2019): masses x_pc of points at centers, with the mass of each
group at a center within its bounds. The dual has a price for every group and center; at optimal prices every point is
where distance plus price is smallest. Therefore the program is solved on contested points only, from good initial
prices. Its own prices tell which arcs are missing. The value of the dual certifies the result.
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
"""Relative difference of cost and bound below which an assignment counts as optimal."""
_FEASIBLE = 1e-9
"""Gain of an arc, relative to the mean cost of a unit, that counts as rounding."""
_RADIUS = 0.1
"""First radius of the box of prices, relative to the mean cost of a unit."""
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
        ``(s,)`` positive; whole numbers (int64) if the assignment is whole. A point's masses sum to its weight.
    cost : float
        Sum of mass times squared distance.
    bound : float
        Lower bound of the cost of all fair assignments, also fractional ones. An essentially fair, whole assignment may
        cost slightly less.
    prices : ndarray
        ``(H, k)`` price of a unit of each group at each center, normalized (`Bounds.normalized`): a start for the next
        assignment, to similar centers.
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
        """Compute the centroids of the clusters; an empty cluster keeps its previous center.

        Parameters
        ----------
        points : ndarray
            ``(n, d)`` assigned points.
        previous : ndarray
            ``(k, d)`` centers.

        Returns
        -------
        ndarray
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
    """Assign points to centers fairly, at least cost.

    Parameters
    ----------
    squared : ndarray
        ``(n, k)`` squared distances of points and centers.
    weights : ndarray
        ``(n,)`` whole, not negative; they may be split.
    groups : ndarray
        ``(n,)`` from 0 to below H.
    bounds : Bounds
        Bounds of H groups.
    prices : ndarray, optional
        ``(H, k)`` prices of an assignment of similar points to similar centers. They affect the time, not the cost of
        the result.
    whole : bool
        Whether masses must be whole numbers. They are then essentially fair (Bercea et al. 2019): the mass of each
        group at each center, and of each center, is that of the best fractional assignment, rounded down or up, at no
        higher cost. Two groups of equal weight with exact bounds are balanced exactly in every cluster.

    Returns
    -------
    Assignment
        The cheapest assignment, with the certificate `bound`.

    Raises
    ------
    ValueError
        If all points as one cluster violate the bounds: then no assignment is fair.

    Examples
    --------
    Both points of group 0 are nearer to center 0; one of them has to go to center 1:

    >>> points, centers = np.array([0.0, 0.3, 0.4, 1.0]), np.array([0.0, 1.0])
    >>> squared = (points[:, np.newaxis] - centers) ** 2
    >>> bounds = Bounds.of(np.array([0.5, 0.5]), alpha=1.0)
    >>> fair = fair_assignment(squared, np.ones(4, int), np.array([0, 0, 1, 1]), bounds)
    >>> fair.counts
    array([[1, 1],
           [1, 1]])
    """
    H, k = bounds.n_groups, squared.shape[1]
    totals = np.bincount(groups, weights, H)
    if not bounds.admits(totals[None]):
        own = bounds.sums(totals[:, np.newaxis] / totals.sum())
        raise ValueError(
            f"no assignment is fair: the points' own shares of groups, {np.round(own.ravel(), 6).tolist()}, "
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
    best = problem.priced_out(bounds.normalized(prices))
    return problem.rounded(best) if whole else best


@dataclass(frozen=True, eq=False)
class _Problem:
    squared: Float64[np.ndarray, "n k"]
    weights: Int64[np.ndarray, "n"]
    groups: Int64[np.ndarray, "n"]
    bounds: Bounds

    def bound(self, prices: Float64[np.ndarray, "H k"]) -> float:
        """Compute the value of the dual at normalized prices."""
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
        """Assign every point as a whole to one center."""
        point = np.flatnonzero(self.weights > 0)
        return self.assignment(point, center[point], self.weights[point], prices, self.bound(prices))

    def balanced(self, prices: Float64[np.ndarray, "H k"]) -> Assignment:
        """Assign two groups of equal weight, with equal masses of both in every cluster."""
        flow = balanced_flow(self.squared, self.weights, self.groups, potentials=(prices[0] - prices[1]) / 2)
        charged = np.stack([flow.potentials, -flow.potentials])
        return self.assignment(flow.point, flow.center, flow.mass, charged, flow.bound)

    def priced_out(self, prices: _Prices) -> Assignment:
        """Compute the best fractional assignment, by linear programs on contested arcs with prices in a box.

        The box of a price at its edge grows, around the best prices so far. Omitted arcs that would lower the cost join
        the program. If there are neither, its solution is that of the complete program.
        """
        priced = self.squared + prices[self.groups]
        nearest = self.settled(priced.argmin(axis=1), prices)
        total = float(self.weights.sum())
        # Where all points are at centers their cost says nothing about prices; distances between centers do.
        unit = max(nearest.cost / total, _LEAST_UNIT * float(self.squared.mean()))
        arcs = restrict_arcs(priced, self.weights, self.groups, MARGIN * total)
        radius = np.full((len(self.bounds.low), prices.shape[1]), _RADIUS * unit)
        idle = _FEASIBLE * unit
        bound = nearest.bound
        while True:
            point, center, moved, raw, cut = solve_on_arcs(
                self.squared, self.weights, self.groups, self.bounds, arcs, prices, radius
            )
            charged = self.bounds.normalized(raw)
            reached = self.bound(charged)
            if reached > bound:
                bound, prices = reached, charged
            paying = arcs.paying(self.squared + charged[self.groups], idle)
            if not cut.any():
                best = self.assignment(point, center, moved, prices, bound)
                if best.cost - bound <= _EXACT * best.cost or not paying.any():
                    return best
            radius[cut] *= _WIDENING
            arcs = arcs.with_arcs(paying)

    def rounded(self, best: Assignment) -> Assignment:
        """Round a fractional assignment to whole masses on its support, with each sum rounded down or up.

        They are a flow from points through (group, center) to centers, whose arcs carry the fractional mass rounded
        down or up. The fractional assignment is such a flow, whole bounds admit a whole one, and the cheapest does not
        cost more. If weights are so large that rounding errors of the linear program reach a row, sums get more room.
        """
        H, k = best.prices.shape
        # Beside very heavy points, a light one may be below the tolerance of the linear program, and without an arc.
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
