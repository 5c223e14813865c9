"""Which points are in doubt between centers, at given prices: only those enter a flow or a linear program.

A point whose best center is best by far, prices counted, stays there in every good assignment. Its arcs to the other
centers are left out, and come back if the prices that are found without them say that they would pay.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

MARGIN = 0.05
"""Share of all mass that is taken for contested, at least."""
NEAREST = 16
"""Points of every group that are contested for every center, at least."""
WIDENING = 4.0
"""Times as much mass is contested where a restricted problem has no solution."""


@dataclass(frozen=True, eq=False)
class RestrictedArcs:
    """The arcs of a restricted problem.

    Attributes
    ----------
    nearest : ndarray
        ``(n,)`` each point's best center at the prices the contest began with.
    columns : ndarray
        ``(n, k)`` arcs in the problem; every point has that to its nearest center.
    """

    nearest: Int64[np.ndarray, "n"]
    columns: Bool[np.ndarray, "n k"]

    @property
    def points(self) -> Int64[np.ndarray, "c"]:
        """Points with more than one arc."""
        return np.flatnonzero(self.columns.sum(axis=1) > 1)

    def paying(self, priced: Float64[np.ndarray, "n k"], idle: float) -> Bool[np.ndarray, "n k"]:
        """``(n, k)`` arcs that are left out and are better than their point's best, by more than `idle`."""
        best = np.where(self.columns, priced, np.inf).min(axis=1)
        paying: Bool[np.ndarray, "n k"] = priced < best[:, None] - idle
        return paying

    def with_arcs(self, more: Bool[np.ndarray, "n k"]) -> RestrictedArcs:
        """The same with more arcs."""
        return RestrictedArcs(self.nearest, self.columns | more)


def restrict_arcs(
    priced: Float64[np.ndarray, "n k"],
    weights: Int64[np.ndarray, "n"],
    groups: Int64[np.ndarray, "n"],
    mass: float,
) -> RestrictedArcs:
    """The points with the smallest regrets, and their arcs that regret no more than the last of them.

    Whatever they regret, every group has its nearest points to every center among the arcs: a rare group has to come
    from far.

    Parameters
    ----------
    priced : ndarray
        ``(n, k)`` squared distances plus prices.
    weights, groups : ndarray
        ``(n,)``.
    mass : float
        Mass that is to be contested, at least; all arcs where there is not so much.
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
