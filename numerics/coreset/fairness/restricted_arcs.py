"""Restriction of a flow or a linear program to contested points, whose best center is in doubt at some prices.

A point whose best center is the best by far, at distances plus prices, stays there in every good assignment. Its arcs
to other centers are omitted. They return if the resulting prices show that they would lower the cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

MARGIN = 0.05
"""Smallest share of the mass that is contested."""
NEAREST = 16
"""Smallest number of contested points of every group for every center."""
WIDENING = 4.0
"""Factor by which the contested mass grows if a restricted problem has no solution."""


@dataclass(frozen=True, eq=False)
class RestrictedArcs:
    """The arcs of a restricted problem.

    Attributes
    ----------
    nearest : ndarray
        ``(n,)`` best center of each point at the initial prices.
    columns : ndarray
        ``(n, k)`` arcs in the problem, with each point's arc to its best center.

    Examples
    --------
    >>> arcs = RestrictedArcs(np.array([0, 1]), np.array([[True, True], [False, True]]))
    >>> arcs.points
    array([0])
    >>> arcs.paying(np.array([[1.0, 2.0], [3.0, 5.0]]), idle=0.0)
    array([[False, False],
           [ True, False]])
    """

    nearest: Int64[np.ndarray, "n"]
    columns: Bool[np.ndarray, "n k"]

    @property
    def points(self) -> Int64[np.ndarray, "c"]:
        """Indices of the contested points, which have more than one arc."""
        return np.flatnonzero(self.columns.sum(axis=1) > 1)

    def paying(self, priced: Float64[np.ndarray, "n k"], idle: float) -> Bool[np.ndarray, "n k"]:
        """Return the omitted arcs ``(n, k)`` that are better than the best arc of their point by more than `idle`."""
        best = np.where(self.columns, priced, np.inf).min(axis=1)
        paying: Bool[np.ndarray, "n k"] = priced < best[:, None] - idle
        return paying

    def with_arcs(self, more: Bool[np.ndarray, "n k"]) -> RestrictedArcs:
        """Add arcs."""
        return RestrictedArcs(self.nearest, self.columns | more)


def restrict_arcs(
    priced: Float64[np.ndarray, "n k"],
    weights: Int64[np.ndarray, "n"],
    groups: Int64[np.ndarray, "n"],
    mass: float,
) -> RestrictedArcs:
    """Select the points with the smallest regrets, and their arcs with a regret no larger than the last of these.

    The regret of an arc is its cost above that of the point's best one. Regardless of regrets, every group has arcs
    from its nearest points to every center, since points of a rare group may be far away.

    Parameters
    ----------
    priced : ndarray
        ``(n, k)`` squared distances plus prices.
    weights, groups : ndarray
        ``(n,)``.
    mass : float
        Smallest contested mass; if there is less, all arcs are selected.

    Returns
    -------
    RestrictedArcs

    Examples
    --------
    With one point per group, every point keeps all its arcs:

    >>> restrict_arcs(np.array([[0.0, 9.0], [9.0, 0.0]]), np.ones(2), np.array([0, 1]), mass=0.1).columns.all()
    np.True_
    """
    nearest = priced.argmin(axis=1)
    if priced.shape[1] == 1:
        return RestrictedArcs(nearest, np.ones(priced.shape, np.bool_))
    best_two = np.partition(priced, 1, axis=1)[:, :2]
    doubt = best_two[:, 1] - best_two[:, 0]
    order = np.argsort(doubt, kind="stable")
    reached = int(np.searchsorted(np.cumsum(weights[order]), mass))
    if reached >= len(order):
        return RestrictedArcs(nearest, np.ones(priced.shape, np.bool_))
    regret = priced - best_two[:, :1]
    columns = regret <= doubt[order[reached]]
    regret[columns] = np.inf
    for group in np.unique(groups):
        own = np.flatnonzero(groups == group)
        few = min(NEAREST, len(own))
        closest = own[np.argpartition(regret[own], few - 1, axis=0)[:few]]
        np.put_along_axis(columns, closest, True, axis=0)
    return RestrictedArcs(nearest, columns)
