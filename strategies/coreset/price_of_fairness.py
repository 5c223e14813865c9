"""Price of fairness over numbers of clusters around that of the run."""

from __future__ import annotations

import numpy as np
from jaxtyping import Shaped

from numerics.coreset.fairness.clustering import fair_clustering, plain_clustering
from numerics.coreset.reduction import reduce
from numerics.shared.threads import single_threaded
from strategies.coreset.outcome import CoresetOutcome

MOST_POINTS = 500
"""Largest number of points that are clustered for each number of clusters; more are reduced first."""
MOST_CLUSTERS = 24
"""Largest number of clusters that is tried; more would delay the report by seconds."""
_FACTORS = (0.5, 2**-0.5, 1.0, 2**0.5, 2.0)
"""Numbers of clusters, relative to the run's own."""
_FAIR_STARTS, _PLAIN_STARTS = 2, 10
"""Number of starts of the fair and of the plain clustering."""


def price_over_k(outcome: CoresetOutcome) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Cluster the run's points fairly and plainly, into half to twice as many clusters, and compare the costs.

    Parameters
    ----------
    outcome : CoresetOutcome
        Outcome of the run.

    Returns
    -------
    dict
        ``price_k`` (m,) numbers of clusters, ``price_fair`` and ``price_unfair`` (m,) the costs in squared units of the
        columns, with the movement of the rows. Empty if there is one group only, if a site was lost after its points
        were clustered (the bounds would be wrong for the other sites), or if there are more than `MOST_CLUSTERS`.
    """
    pool, k = outcome.pool, len(outcome.centers.fair)
    if len(pool.groups) < 2 or outcome.lost or 2 * k > MOST_CLUSTERS:
        return {}
    locations = max(1, MOST_POINTS // len(pool.groups))
    points = outcome.points
    if len(points.weights) > MOST_POINTS:
        points = reduce(points, locations, np.random.default_rng(0), pool.units[1])[0]
    x = pool.in_units(points)
    movement = float((points.movement / outcome.centers.scale**2).sum())
    most = len(np.unique(x, axis=0))
    numbers = [n for n in sorted({max(2, round(k * factor)) for factor in _FACTORS}) if n <= most]
    fair_costs, plain_costs = [], []
    with single_threaded():
        for n in numbers:
            rng, bounds = np.random.default_rng(n), pool.bounds(outcome.fairness)
            try:
                fair = fair_clustering(x, points.weights, points.groups, bounds, n, restarts=_FAIR_STARTS, rng=rng)
            except ArithmeticError:  # the linear program for this number of clusters has no solution
                return {}
            _, cost = plain_clustering(x, points.weights, n, restarts=_PLAIN_STARTS, start=fair.centers, rng=rng)
            fair_costs.append(fair.cost + movement)
            plain_costs.append(cost + movement)
    return {"price_k": np.array(numbers), "price_fair": np.array(fair_costs), "price_unfair": np.array(plain_costs)}
