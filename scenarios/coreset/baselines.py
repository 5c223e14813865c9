"""Costs of clusterings of the pooled rows: what a center with all rows in one place would reach."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np
from jaxtyping import Float64

from numerics.shared.threads import single_threaded
from protocols.coreset.settings import Settings
from scenarios.coreset.common import PooledRows
from scenarios.registry import Config

if TYPE_CHECKING:
    from numerics.coreset.fairness.clustering import Algorithm

MOST_ROWS = 5000
"""More rows are not clustered in one place: the paper's full method takes quadratic memory."""

_FAIRLET_ALGORITHMS = ("cklv", "reassigned-cklv")


def column_scale(x: Float64[np.ndarray, "n d"], scale: str) -> Float64[np.ndarray, "d"]:
    """Return the unit of each column: its standard deviation (ddof 0); 1 if `scale` is "none" or it is constant."""
    deviation = np.ones(x.shape[1]) if scale == "none" else x.std(axis=0)
    return np.where(deviation > 0, deviation, 1.0)


def pooled_costs(pooled: PooledRows, config: Config, seed: int) -> dict[str, float]:
    """Return costs of clusterings of the pooled rows, in the units that `coreset.scale` sets.

    Parameters
    ----------
    pooled : PooledRows
        The rows. Of more than `MOST_ROWS` there are no costs.
    config : Config
        Run configuration; used are `coreset.k`, `coreset.algorithm`, `coreset.balance`, `coreset.scale` and
        `coreset.restarts`.
    seed : int
        Not negative.

    Returns
    -------
    dict of str to float
        ``cost_full`` (the run's own algorithm) and ``cost_full_unfair`` (k-means++ that ignores the groups). With two
        groups of equal numbers and `coreset.balance` 1, also those of the paper's algorithms: ``cost_cklv``
        (Algorithm 11), ``cost_reassigned`` (Algorithm 12) and ``cost_fairlets`` (Algorithm 9).
    """
    if len(pooled.x) > MOST_ROWS:
        return {}
    chosen = Settings.of(config)
    k, restarts, algorithm = chosen.k, chosen.restarts, chosen.algorithm
    balance, scale = chosen.balance, chosen.scale
    costs = {
        "cost_full": _fair(pooled, k, algorithm, balance, scale, restarts, seed)[0],
        "cost_full_unfair": _plain(pooled, k, scale, restarts, seed),
    }
    counts = pooled.counts
    if balance == 1 and len(counts) == 2 and counts[0] == counts[1]:
        cklv, reassigned = (_fair(pooled, k, each, 1.0, scale, restarts, seed) for each in _FAIRLET_ALGORITHMS)
        costs |= {"cost_cklv": cklv[0], "cost_reassigned": reassigned[0], "cost_fairlets": cklv[1]}
    return costs


@lru_cache(maxsize=1024)  # two numbers each; the cells of a table share them
def _fair(
    pooled: PooledRows, k: int, algorithm: str, balance: float, scale: str, restarts: int, seed: int
) -> tuple[float, float]:
    """Return the costs of a fair clustering and of its fairlets (NaN if it has none)."""
    # A site looks for its shard in this package, and needs no flows for that.
    from numerics.coreset.fairness.bounds import Bounds
    from numerics.coreset.fairness.clustering import fair_clustering

    with single_threaded():
        clustering = fair_clustering(
            pooled.x / column_scale(pooled.x, scale),
            np.ones(len(pooled.x), np.int64),
            pooled.group,
            Bounds.of(pooled.counts / len(pooled.x), balance),
            k,
            algorithm=cast("Algorithm", algorithm),
            restarts=restarts,
            rng=np.random.default_rng(seed),
        )
    return float(clustering.cost), float(clustering.fairlet_cost)


@lru_cache(maxsize=1024)
def _plain(pooled: PooledRows, k: int, scale: str, restarts: int, seed: int) -> float:
    """Return the cost of a clustering that need not be fair."""
    from numerics.coreset.fairness.clustering import plain_clustering

    points, weights = pooled.x / column_scale(pooled.x, scale), np.ones(len(pooled.x), np.int64)
    with single_threaded():
        _, cost = plain_clustering(points, weights, k, restarts=restarts, rng=np.random.default_rng(seed))
    return float(cost)
