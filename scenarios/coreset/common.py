"""Pooled rows, registration, and metrics derived from a run's costs, for all scenarios of fair clustering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from protocols.coreset.settings import Settings
from scenarios.common import settings_of
from scenarios.registry import Scenario, register

# A world draws from streams of its own: [seed, world, purpose, ...].
ADULT, DIABETES, BANK, SYNTHETIC = range(4)
ROWS, SPLIT, PLACES, BLOCK = range(4)

N_SITES = 5
K = Settings.k
"""Clusters of the main tables."""

settings = partial(settings_of, "coreset")


@dataclass(frozen=True, eq=False)
class PooledRows:
    """All rows of a world, as no site ever holds them.

    Attributes
    ----------
    x : ndarray
        ``(n, d)``; read-only.
    group : ndarray
        ``(n,)``, indices into `names`; read-only.
    names : tuple of str
        Names of the H groups, each of which has a row.
    features : tuple of str
        Names of the d columns.
    """

    x: Float64[np.ndarray, "n d"]
    group: Int64[np.ndarray, "n"]
    names: tuple[str, ...]
    features: tuple[str, ...]

    @property
    def counts(self) -> Int64[np.ndarray, "h"]:
        """Rows of each group."""
        return np.bincount(self.group, minlength=len(self.names))


def derived_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return a run's cost relative to costs of the pooled rows; nothing if the run left rows out.

    - ``error``: excess over the same algorithm on all pooled rows (Figure 2, left).
    - ``relative``: ratio to CKLV k-means++ on all pooled rows; ``fairlet_share``: ratio of the fairlets' cost, a lower
      bound for every fair clustering, to it (Figure 4, left and right).
    - ``gain``: saving against reassigned CKLV on all pooled rows.
    - ``price_of_fairness_full``: excess of a fair clustering of all pooled rows over one that need not be fair.
    - ``excess``: excess over the planted clusters of synthetic data.
    """
    if metrics.get("n_withheld"):
        return {}  # the run's cost is that of other rows
    ratios = {
        "error": ("cost", "cost_full"),
        "relative": ("cost", "cost_cklv"),
        "fairlet_share": ("cost_fairlets", "cost_cklv"),
        "gain": ("cost", "cost_reassigned"),
        "price_of_fairness_full": ("cost_full", "cost_full_unfair"),
        "excess": ("cost", "cost_planted"),
    }
    derived = {
        name: metrics[cost] / metrics[base]
        for name, (cost, base) in ratios.items()
        if cost in metrics and metrics.get(base, 0.0) > 0
    }
    for name in derived.keys() & {"error", "price_of_fairness_full", "excess"}:
        derived[name] -= 1
    if "gain" in derived:
        derived["gain"] = 1 - derived["gain"]
    return derived


def add(**world: Any) -> Scenario:
    """Register a scenario of fair clustering; `world`: the other fields of `Scenario`."""
    return register(
        Scenario(protocol="coreset", sites=N_SITES, any_number=True, derived_metrics=derived_metrics, **world)
    )
