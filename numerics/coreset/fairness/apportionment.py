"""Whole numbers of a group's members to each center, as the group's share says, at least squared distance.

A coreset point stands for rows (at a site) or for lighter points (at the fusion center). What a fair assignment says of
the point is carried over to its members here, so that the members are assigned exactly as fairly as the points were.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from numerics.coreset.fairness.flow import min_cost_flow


@dataclass(frozen=True, eq=False)
class PointMasses:
    """How much of what goes to which center, sparse.

    Attributes
    ----------
    point : ndarray
        ``(s,)`` what is shared out: a group or a member, by its index.
    center : ndarray
        ``(s,)`` where to.
    mass : ndarray
        ``(s,)`` how much, whole.
    """

    point: Int64[np.ndarray, "s"]
    center: Int64[np.ndarray, "s"]
    mass: Int64[np.ndarray, "s"]

    def where(self, kept: Bool[np.ndarray, "s"]) -> PointMasses:
        """Those entries alone."""
        return PointMasses(self.point[kept], self.center[kept], self.mass[kept])

    def ordered(self) -> PointMasses:
        """The same by point, then center: each pair once, and none without mass."""
        used = self.where(self.mass > 0)
        order = np.lexsort((used.center, used.point))
        point, center = used.point[order], used.center[order]
        first = np.flatnonzero(np.r_[True, (np.diff(point) != 0) | (np.diff(center) != 0)][: len(point)])
        mass = np.add.reduceat(used.mass[order], first) if len(first) else used.mass
        return PointMasses(point[first], center[first], mass)


def distribute(
    members: Float64[np.ndarray, "n d"],
    weights: Int64[np.ndarray, "n"],
    parent: Int64[np.ndarray, "n"],
    shares: PointMasses,
    centers: Float64[np.ndarray, "k d"],
) -> PointMasses:
    """Carry the shares of groups over to their members.

    Parameters
    ----------
    members : ndarray
        ``(n, d)``.
    weights : ndarray
        ``(n,)`` whole and positive; a member of weight above 1 may be split.
    group : ndarray
        ``(n,)`` each member's group.
    shares : PointMasses
        How much of each group goes to each center; over the centers it adds up to the weight of the group's members.
    centers : ndarray
        ``(k, d)``.

    Returns
    -------
    PointMasses
        How much of each member goes to each center, by member and then center: of all ways in which the members of
        every group add up to the group's shares one of least total squared distance.

    Raises
    ------
    ValueError
        If the shares of a group are not the weight of its members.
    """
    shares = shares.ordered()
    ways = _ways(weights, parent, shares)
    # Groups of one center need no distance, those of two a sort; what is left is a flow.
    single, double = ways[parent] == 1, ways[parent] == 2
    only = np.zeros(len(ways), np.int64)
    only[shares.point] = shares.center
    parts = [PointMasses(np.flatnonzero(single), only[parent[single]], weights[single])]
    for some, rule in ((double, _cut), (~(single | double), _flow)):
        if some.any():
            chosen = np.flatnonzero(some)
            part = rule(members[chosen], weights[chosen], parent[chosen], shares, centers)
            parts.append(PointMasses(chosen[part.point], part.center, part.mass))
    point, center, mass = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("point", "center", "mass")
    )
    return PointMasses(point, center, mass).ordered()


def _ways(
    weights: Int64[np.ndarray, "n"], parent: Int64[np.ndarray, "n"], shares: PointMasses
) -> Int64[np.ndarray, "g"]:
    """Centers of each group."""
    size = int(max(parent.max(initial=-1), shares.point.max(initial=-1))) + 1
    held, shared = np.zeros(size, np.int64), np.zeros(size, np.int64)
    np.add.at(held, parent, weights)
    np.add.at(shared, shares.point, shares.mass)
    for bad in np.flatnonzero(held != shared)[:1]:
        raise ValueError(f"the shares of group {bad} are {shared[bad]} in all; its members weigh {held[bad]}")
    ways: Int64[np.ndarray, "g"] = np.bincount(shares.point, minlength=size)
    return ways


def _cut(
    members: Float64[np.ndarray, "n d"],
    weights: Int64[np.ndarray, "n"],
    parent: Int64[np.ndarray, "n"],
    shares: PointMasses,
    centers: Float64[np.ndarray, "k d"],
) -> PointMasses:
    """Groups of two centers: the members in the order of how much nearer the first center is, cut where it is full."""
    first = np.searchsorted(shares.point, parent)
    one, other = shares.center[first], shares.center[first + 1]
    difference = _squared(members, centers[one]) - _squared(members, centers[other])
    order = np.lexsort((difference, parent))
    weight, own = weights[order], parent[order]
    ahead = np.cumsum(weight) - weight
    start = np.searchsorted(own, own)
    room = shares.mass[first[order]] - (ahead - ahead[start])
    taken = np.clip(room, 0, weight)
    return PointMasses(np.r_[order, order], np.r_[one[order], other[order]], np.r_[taken, weight - taken])


def _flow(
    members: Float64[np.ndarray, "n d"],
    weights: Int64[np.ndarray, "n"],
    parent: Int64[np.ndarray, "n"],
    shares: PointMasses,
    centers: Float64[np.ndarray, "k d"],
) -> PointMasses:
    """Any number of centers: one cheapest flow from the members of all groups to the shares of their groups."""
    first, after = np.searchsorted(shares.point, parent), np.searchsorted(shares.point, parent, side="right")
    count = after - first
    member = np.repeat(np.arange(len(members)), count)
    share = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + first[member]
    squared = _squared(members[member], centers[shares.center[share]])
    # What a member pays in any case decides nothing, and would eat the digits of whole costs.
    squared -= np.minimum.reduceat(squared, np.cumsum(count) - count)[member]

    target, sink = np.unique(share, return_inverse=True)
    supply = np.concatenate([weights, -shares.mass[target]])
    mass = min_cost_flow(member, len(members) + sink, weights[member], squared, supply)
    assert mass is not None, "every member may go to every center of its group, and their weights agree"
    return PointMasses(member, shares.center[share], mass)


def _squared(points: Float64[np.ndarray, "n d"], others: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n"]:
    """Squared distance of each point to its own other."""
    difference = points - others
    return np.asarray(np.einsum("nd,nd->n", difference, difference))
