"""Assignment of the members of groups to centers, by the shares of the groups, at least squared distance.

A coreset point represents rows (at a site) or lighter points (at the fusion center). This module extends a fair
assignment of the points to their members, which are then assigned exactly as fairly as the points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from numerics.coreset.fairness.flow import min_cost_flow


@dataclass(frozen=True, eq=False)
class PointMasses:
    """Masses of points (groups or members) at centers, sparse.

    Attributes
    ----------
    point : ndarray
        ``(s,)`` index of the point.
    center : ndarray
        ``(s,)`` index of the center.
    mass : ndarray
        ``(s,)`` mass of the point at the center, a whole number.

    Examples
    --------
    >>> masses = PointMasses(np.array([1, 0, 1]), np.array([0, 0, 0]), np.array([2, 3, 4]))
    >>> masses.ordered().mass
    array([3, 6])
    """

    point: Int64[np.ndarray, "s"]
    center: Int64[np.ndarray, "s"]
    mass: Int64[np.ndarray, "s"]

    def where(self, mask: Bool[np.ndarray, "s"]) -> PointMasses:
        """Select entries."""
        return PointMasses(self.point[mask], self.center[mask], self.mass[mask])

    def ordered(self) -> PointMasses:
        """Sort by point and then center, with each pair once and without zeros."""
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
    """Distribute the shares of groups among their members.

    Parameters
    ----------
    members : ndarray
        ``(n, d)``.
    weights : ndarray
        ``(n,)`` whole and positive; a member of weight above 1 may be split.
    parent : ndarray
        ``(n,)`` group of each member.
    shares : PointMasses
        Mass of each group at each center; a group's masses sum to the weight of its members.
    centers : ndarray
        ``(k, d)``.

    Returns
    -------
    PointMasses
        Mass of each member at each center, by member and then center. The members of every group sum to its shares, at
        the least total squared distance.

    Raises
    ------
    ValueError
        If the shares of a group do not sum to the weight of its members.

    Examples
    --------
    A group of three members has mass 1 at center 0 and mass 2 at center 1:

    >>> shares = PointMasses(np.zeros(2, int), np.array([0, 1]), np.array([1, 2]))
    >>> members, centers = np.array([[0.0], [0.4], [1.0]]), np.array([[0.0], [1.0]])
    >>> distribute(members, np.ones(3, int), np.zeros(3, int), shares, centers).center
    array([0, 1, 1])
    """
    shares = shares.ordered()
    ways = _ways(weights, parent, shares)
    # Groups with one center need no distance, those with two a sort, all others a flow.
    single, double = ways[parent] == 1, ways[parent] == 2
    only = np.zeros(len(ways), np.int64)
    only[shares.point] = shares.center
    parts = [PointMasses(np.flatnonzero(single), only[parent[single]], weights[single])]
    for some, rule in ((double, _cut), (~(single | double), _flow)):
        if some.any():
            index = np.flatnonzero(some)
            part = rule(members[index], weights[index], parent[index], shares, centers)
            parts.append(PointMasses(index[part.point], part.center, part.mass))
    point, center, mass = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("point", "center", "mass")
    )
    return PointMasses(point, center, mass).ordered()


def _ways(
    weights: Int64[np.ndarray, "n"], parent: Int64[np.ndarray, "n"], shares: PointMasses
) -> Int64[np.ndarray, "g"]:
    """Count the centers of each group."""
    size = int(max(parent.max(initial=-1), shares.point.max(initial=-1))) + 1
    weight, mass = np.zeros(size, np.int64), np.zeros(size, np.int64)
    np.add.at(weight, parent, weights)
    np.add.at(mass, shares.point, shares.mass)
    for bad in np.flatnonzero(weight != mass)[:1]:
        raise ValueError(f"the shares of group {bad} are {mass[bad]} in all; its members weigh {weight[bad]}")
    ways: Int64[np.ndarray, "g"] = np.bincount(shares.point, minlength=size)
    return ways


def _cut(
    members: Float64[np.ndarray, "n d"],
    weights: Int64[np.ndarray, "n"],
    parent: Int64[np.ndarray, "n"],
    shares: PointMasses,
    centers: Float64[np.ndarray, "k d"],
) -> PointMasses:
    """Assign groups with two centers: order members by the difference of distances, and cut where a center is full."""
    first = np.searchsorted(shares.point, parent)
    one, other = shares.center[first], shares.center[first + 1]
    difference = _squares(members, centers[one]) - _squares(members, centers[other])
    order = np.lexsort((difference, parent))
    weight, own = weights[order], parent[order]
    ahead = np.cumsum(weight) - weight
    start = np.searchsorted(own, own)
    room = shares.mass[first[order]] - (ahead - ahead[start])
    mass = np.clip(room, 0, weight)
    return PointMasses(np.r_[order, order], np.r_[one[order], other[order]], np.r_[mass, weight - mass])


def _flow(
    members: Float64[np.ndarray, "n d"],
    weights: Int64[np.ndarray, "n"],
    parent: Int64[np.ndarray, "n"],
    shares: PointMasses,
    centers: Float64[np.ndarray, "k d"],
) -> PointMasses:
    """Assign groups with any number of centers by one cheapest flow from the members to the shares of their groups."""
    first, after = np.searchsorted(shares.point, parent), np.searchsorted(shares.point, parent, side="right")
    count = after - first
    member = np.repeat(np.arange(len(members)), count)
    share = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + first[member]
    squared = _squares(members[member], centers[shares.center[share]])
    # A member's smallest cost has no influence, and would cost precision of the whole costs.
    squared -= np.minimum.reduceat(squared, np.cumsum(count) - count)[member]

    target, sink = np.unique(share, return_inverse=True)
    supply = np.concatenate([weights, -shares.mass[target]])
    mass = min_cost_flow(member, len(members) + sink, weights[member], squared, supply)
    # Every member may go to every center of its group, and their weights agree.
    assert mass is not None  # noqa: S101 - a theorem; no input changes it
    return PointMasses(member, shares.center[share], mass)


def _squares(points: Float64[np.ndarray, "n d"], others: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n"]:
    """Compute the squared distance of each point from its own other point."""
    difference = points - others
    return np.asarray(np.einsum("nd,nd->n", difference, difference))
