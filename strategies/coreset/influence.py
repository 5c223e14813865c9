"""Influence of each site on the clusters of the others, from the points that the fusion center holds."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from numerics.coreset.fairness.assignment import fair_assignment
from numerics.coreset.fairness.clustering import fair_clustering
from numerics.coreset.reduction import reduce
from numerics.shared.distances import squared_distances
from numerics.shared.threads import single_threaded
from strategies.coreset.fairness import Fairness
from strategies.coreset.outcome import CoresetOutcome
from strategies.coreset.pooled_coreset import PooledCoreset
from strategies.errors import FusionError
from strategies.influence import Influence

EXCESS = "share by which fair clusters of the other sites' rows cost more than with centers found without it"
MOST_POINTS = 500
"""Largest number of points that are clustered anew without each site; more are reduced first."""
_STARTS = 2


def influence_in(outcome: CoresetOutcome) -> Influence:
    """Return by how much the others' rows cost more at the run's centers than at centers found without a site."""
    pool = outcome.pool
    if len(pool.summaries) < 2:
        return Influence.unknown_since("only one site took part")
    try:
        with single_threaded():
            excess = {
                site: _excess(pool.without({site: ""}), outcome.centers.fair, outcome.fairness)
                for site in pool.summaries
            }
    except (ArithmeticError, FusionError):  # no solution of the linear program, or no row of a group with bounds
        return Influence.unknown_since("the points of some of the sites have no fair clusters")
    return Influence(EXCESS, None, excess)


def _excess(others: PooledCoreset, centers: Float64[np.ndarray, "k d"], fairness: Fairness) -> float:
    """Return the share by which the others' points cost more at these centers than at their own; at least 0."""
    rng = np.random.default_rng(0)
    mean, unit = others.units
    points = reduce(others.union, max(1, MOST_POINTS // len(others.groups)), rng, unit)[0]
    x, weights, bounds = others.in_units(points), points.weights, others.bounds(fairness)
    k = min(len(centers), len(np.unique(x, axis=0)))
    own = fair_clustering(x, weights, points.groups, bounds, k, restarts=_STARTS, rng=rng)
    assignment = fair_assignment(squared_distances(x, (centers - mean) / unit), weights, points.groups, bounds)
    movement = float((points.movement / unit**2).sum())
    cost = own.cost + movement
    return max(0.0, (assignment.cost + movement) / cost - 1) if cost > 0 else 0.0
