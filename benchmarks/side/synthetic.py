"""Synthetic data of any number of rows and sites."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from jaxtyping import Float64, Int64

from numerics.coreset.grouped_rows import GroupedRows
from numerics.gp.measurements import Measurements, Queries
from numerics.gp.split import kmeans_parts
from scenarios.coreset.synthetic import PlantedClusters

_SPLIT_ROWS = 20_000
"""Maximum number of rows that are split by k-means."""


def stream(seed: int, *what: int) -> np.random.Generator:
    """Return the generator of a data set, whose numbers differ from those that methods draw from the same seed."""
    return np.random.default_rng([seed, 8, *what])


# -- gp ---------------------------------------------------------------------------------------------------------------

SURFACE_NOISE = 0.3
SURFACE_INPUTS = 3


def surface(n_rows: int, n_test: int, seed: int) -> tuple[Measurements, Queries]:
    """Draw rows and query points of a smooth function of three uniform inputs, with noise of deviation 0.3."""

    def draw(n: int, purpose: int) -> tuple[Float64[np.ndarray, "n d"], Float64[np.ndarray, "n"]]:
        rng = stream(seed, 0, purpose)
        x = rng.uniform(size=(n, SURFACE_INPUTS))
        smooth = np.sin(6 * x[:, 0]) + 4 * (x[:, 1] - 0.5) ** 2 + 2 * x[:, 1] * np.cos(4 * x[:, 2])
        return x, smooth + SURFACE_NOISE * rng.normal(size=n)

    features = tuple(f"x_{j}" for j in range(SURFACE_INPUTS))
    points, outputs = draw(n_test, 1)
    return Measurements(*draw(n_rows, 0), features), Queries(points, features, outputs)


def neighbors(rows: Measurements, n_sites: int, seed: int) -> list[Measurements]:
    """Return a shard of neighboring rows for each site, which is one expert or splits its rows itself."""
    part = _parts(rows.x, n_sites, seed)
    return [Measurements(rows.x[part == site], rows.y[part == site], rows.features) for site in range(n_sites)]


def _parts(x: Float64[np.ndarray, "n d"], n_parts: int, seed: int) -> Int64[np.ndarray, "n"]:
    """Return each row's site, by k-means for few rows, otherwise by equal slices along the first input."""
    if len(x) <= _SPLIT_ROWS:
        return kmeans_parts(x, n_parts, stream(seed, 1))
    rank = np.empty(len(x), np.int64)
    rank[np.argsort(x[:, 0], kind="stable")] = np.arange(len(x))
    return rank * n_parts // len(x)


# -- coreset ----------------------------------------------------------------------------------------------------------

CLUSTER_COLUMNS = 10


def fair_clusters(n_rows: int, n_clusters: int, n_sites: int, seed: int) -> list[GroupedRows]:
    """Return shards of `PlantedClusters`, whose clusters are fair: two equal groups, both at every site."""
    planted = PlantedClusters(n_rows - n_rows % 2, CLUSTER_COLUMNS, 2, n_clusters, seed)
    x = np.concatenate([x for _, x in planted.streams(range(planted.n_rows))])
    group = np.arange(planted.n_rows, dtype=np.int64) % 2
    edges = np.arange(n_sites + 1) * (planted.n_rows // 2) // n_sites * 2
    parts = [slice(first, last) for first, last in pairwise(edges.tolist())]
    return [GroupedRows.of(x[part], group[part], planted.names) for part in parts]
