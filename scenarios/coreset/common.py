"""What the worlds of fair clustering have in common: pooled rows, registration, what is derived from a run's costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from numerics.coreset.grouped_rows import CLUSTERS
from scenarios.common import settings_of
from scenarios.registry import Scenario, register

# A world draws from streams of its own: [seed, world, what, ...].
ADULT, DIABETES, BANK, SYNTHETIC = range(4)
ROWS, SPLIT, PLACES, BLOCK = range(4)

N_SITES = 5
K = CLUSTERS
"""`coreset.k` where the run configuration has 0."""
MIN_WEIGHT = 5
"""`coreset.min-weight` as the run configuration declares it."""

settings = partial(settings_of, "coreset")


@dataclass(frozen=True, eq=False)
class Pooled:
    """All rows of a world, as no site ever holds them.

    Attributes
    ----------
    x : ndarray
        ``(n, d)``; read-only.
    colour : ndarray
        ``(n,)``, places in `names`; read-only.
    names : tuple of str
        Of the H colours, each of which some row has.
    features : tuple of str
        Names of the d columns.
    """

    x: Float64[np.ndarray, "n d"]
    colour: Int64[np.ndarray, "n"]
    names: tuple[str, ...]
    features: tuple[str, ...]

    @property
    def counts(self) -> Int64[np.ndarray, "h"]:
        """Rows of each colour."""
        return np.bincount(self.colour, minlength=len(self.names))


def derived_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """What a run's cost is beside what could be had with all rows in one place.

    Nothing where some rows are in no cluster of the run.

    - ``error``: how much dearer than the same algorithm on all pooled rows (Figure 2, left).
    - ``relative``: its cost by that of CKLV k-means++ on all pooled rows, and ``fairlet_share`` the fairlets' cost by
      that, which no fair clustering is below (Figure 4, left and right).
    - ``gain``: how much cheaper than reassigned CKLV on all pooled rows.
    - ``price_of_fairness_full``: how much dearer a fair clustering of all pooled rows is than one that need not be.
    - ``excess``: how much dearer than the clusters that a made world was made with.
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
    found = {
        name: metrics[cost] / metrics[base]
        for name, (cost, base) in ratios.items()
        if cost in metrics and metrics.get(base, 0.0) > 0
    }
    for name in found.keys() & {"error", "price_of_fairness_full", "excess"}:
        found[name] -= 1
    if "gain" in found:
        found["gain"] = 1 - found["gain"]
    return found


def add(**world: Any) -> Scenario:
    """Register a world of fair clustering; `world`: the other fields of `Scenario`."""
    return register(
        Scenario(protocol="coreset", sites=N_SITES, any_number=True, derived_metrics=derived_metrics, **world)
    )
