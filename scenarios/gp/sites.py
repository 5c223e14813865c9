"""Splits of rows into experts, and of experts over sites; registration."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from numerics.gp.measurements import Measurements, Queries
from protocols.gp.settings import Settings
from scenarios.common import frozen, number
from scenarios.gp.baselines import full_classes, full_process
from scenarios.gp.common import COLUMNS, PARTS, Draw, PooledRows, split_of
from scenarios.registry import Config, Scenario, ScenarioError, register


@lru_cache(maxsize=64)  # 8 bytes a row
def parts_of(pooled: PooledRows, n_parts: int, split: str) -> Int64[np.ndarray, "n"]:
    """Return the number of the expert that each row belongs to; every expert has a row.

    With `split` "kmeans" by k-means of the standardized inputs, as in the paper; with "random" at random, such that
    the experts' numbers of rows differ by one at most.
    """
    rng = np.random.default_rng([*pooled.stream, PARTS, n_parts])
    if split == "random":
        part: Int64[np.ndarray, "n"] = rng.permutation(len(pooled.y)) % n_parts
    else:
        from numerics.gp.split import kmeans_parts  # imports scikit-learn

        part = kmeans_parts(pooled.x, n_parts, rng)
    frozen(part)
    return part


@lru_cache(maxsize=16)  # as large as their worlds
def deal(pooled: PooledRows, n_parts: int, split: str, n_sites: int) -> tuple[Measurements, ...]:
    """Deal the experts to the sites in turn: the first to site 0, the second to site 1, and so on."""
    part = parts_of(pooled, n_parts, split)
    shards = []
    for site in range(n_sites):
        rows = np.flatnonzero(part % n_sites == site)
        x, y, own = pooled.x[rows], pooled.y[rows], part[rows] // n_sites
        frozen(x, y, own)
        shards.append(_measurements(x, y, pooled, own))
    return tuple(shards)


def _measurements(
    x: Float64[np.ndarray, "n d"], y: Float64[np.ndarray, "n"], pooled: PooledRows, part: Int64[np.ndarray, "n"]
) -> Measurements:
    """Return a site's rows; if the outputs are classes, with the list of the site's classes."""
    if not pooled.classes:
        return Measurements(x, y, pooled.features, part)
    own, places = np.unique(y.astype(np.int64), return_inverse=True)
    classes = tuple(pooled.classes[place] for place in own.tolist())
    return Measurements(x, places.astype(np.float64), pooled.features, part, classes=classes)


def add(*, name: str, draw: Draw, n_parts: int, sites: int, **world: Any) -> Scenario:
    """Register a scenario of Gaussian process experts.

    Parameters
    ----------
    name : str
        Name of the scenario.
    draw : Callable
        Returns the pooled world.
    n_parts : int
        M, its number of experts if `gp.parts` is 0.
    sites : int
        Number of sites by default. Fewer sites than experts have several experts each.
    **world
        Other fields of `Scenario`.
    """

    def shards(config: Config, seed: int, n_sites: int) -> list[Measurements]:
        pooled, parts = draw(config, seed), int(number(config, "gp.parts", 0, 0)) or n_parts
        if parts > len(pooled.y):
            raise ScenarioError(f"{name} has {len(pooled.y)} rows: gp.parts cannot be {parts}")
        if not 1 <= n_sites <= parts:
            raise ScenarioError(
                f"{name} has {parts} experts, which {n_sites} sites cannot share: use {parts} sites at most,"
                f" or gp.parts={n_sites}"
            )
        return list(deal(pooled, parts, split_of(config), n_sites))

    def queries(config: Config, seed: int) -> Queries:
        pooled = draw(config, seed)
        return Queries(pooled.x_test, pooled.features, pooled.y_test, classes=pooled.classes)

    def baselines(config: Config, seed: int) -> dict[str, float]:
        pooled = draw(config, seed)
        return dict((full_classes if pooled.classes else full_process)(pooled, Settings.of(config).kernel))

    return register(
        Scenario(
            name=name,
            protocol="gp",
            sites=sites,
            any_number=True,
            shards=shards,
            queries=queries,
            baselines=baselines,
            at_once=1,
            **{"columns": COLUMNS, **world},
        )
    )
