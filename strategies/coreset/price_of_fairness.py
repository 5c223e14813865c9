"""The price of fairness at other numbers of clusters than the run's, for its report."""

from __future__ import annotations

import numpy as np
from jaxtyping import Shaped

from numerics.coreset import reduce
from numerics.coreset.fairness.clustering import fair_clustering, plain_clustering
from numerics.shared.threads import single_threaded
from strategies.coreset.report import Outcome

MOST_POINTS = 500
"""Points that are clustered again and again; more are summed up first."""
MOST_CLUSTERS = 24
"""At twice a run's clusters: beyond it a report would take seconds longer."""
_FACTORS = (0.5, 2**-0.5, 1.0, 2**0.5, 2.0)
"""Numbers of clusters, by the run's own."""
_FAIR_STARTS, _PLAIN_STARTS = 2, 10


def price_over_k(outcome: Outcome) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Cost of fair and of plain clusters of the run's points, from half to twice as many clusters.

    Parameters
    ----------
    outcome : Outcome
        Of the run.

    Returns
    -------
    dict
        ``price_k`` (m,) numbers of clusters, ``price_fair`` and ``price_unfair`` (m,) the costs in units of
        `Plan.scale` squared, the movement of the points' rows among them; empty where there is one colour, a site was
        lost after its points were clustered (their bounds are not those of the rest), or `MOST_CLUSTERS` is exceeded.
    """
    federation, k = outcome.federation, len(outcome.plan.centers)
    if len(federation.colours) < 2 or outcome.lost or 2 * k > MOST_CLUSTERS:
        return {}
    locations = max(1, MOST_POINTS // len(federation.colours))
    points = outcome.points
    if len(points.weights) > MOST_POINTS:
        points = reduce(points, locations, np.random.default_rng(0), federation.units[1])[0]
    x = federation.in_units(points)
    movement = float((points.movement / outcome.plan.scale**2).sum())
    most = len(np.unique(x, axis=0))
    tried = [n for n in sorted({max(2, round(k * factor)) for factor in _FACTORS}) if n <= most]
    fair, plain = [], []
    with single_threaded():
        for n in tried:
            rng, bounds = np.random.default_rng(n), federation.bounds(outcome.balance)
            try:
                found = fair_clustering(x, points.weights, points.groups, bounds, n, restarts=_FAIR_STARTS, rng=rng)
            except ArithmeticError:  # a linear program that the run itself did not need
                return {}
            _, cost = plain_clustering(x, points.weights, n, restarts=_PLAIN_STARTS, start=found.centers, rng=rng)
            fair.append(found.cost + movement)
            plain.append(cost + movement)
    return {"price_k": np.array(tried), "price_fair": np.array(fair), "price_unfair": np.array(plain)}
