"""Sums over all instances, and the statistics of single sites that they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from protocols.bc3e.payloads import Statistics


@dataclass(frozen=True)
class Sums:
    """Sums over all instances, and inner products of the steps of own clusterings."""

    n: int
    mass: dict[str, Int64[np.ndarray, "k k_m"]]
    log_theta: Int64[np.ndarray, "k"]
    bound: float
    products: Int64[np.ndarray, "h"] | None
    changed: int
    squares: dict[str, int]


@dataclass(frozen=True)
class SiteStatistics:
    """The last statistics of a site, or of a masked sum, and the parameters that they were computed with."""

    statistics: Statistics
    names: tuple[str, ...]
    alpha: Float64[np.ndarray, "k"]
    beta: dict[str, Float64[np.ndarray, "k k_m"]]


def without_site(sums: Sums, source: SiteStatistics) -> tuple[dict[str, Int64[np.ndarray, "k k_m"]], dict[str, int]]:
    """Return mass and squares without one site's statistics."""
    mass, squares = dict(sums.mass), dict(sums.squares)
    for name, table, own in zip(source.names, source.statistics.mass, source.statistics.squares.tolist(), strict=True):
        mass[name] = mass[name] - table
        squares[name] = squares.get(name, 0) - own
    return mass, squares


def mass_by_site(statistics: Mapping[str, SiteStatistics]) -> dict[str, dict[str, Int64[np.ndarray, "k k_m"]]]:
    """Return the mass of each site, by site and table."""
    return {site: dict(zip(source.names, source.statistics.mass, strict=True)) for site, source in statistics.items()}
