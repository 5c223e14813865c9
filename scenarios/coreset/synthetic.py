"""The synthetic scenario, coreset-synthetic: known fair clusters of any number of rows, never all in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float64, Int64

from numerics.coreset.grouped_rows import GroupedRows, RowBlock
from scenarios.common import frozen, number
from scenarios.coreset.baselines import MOST_ROWS, pooled_costs
from scenarios.coreset.common import BLOCK, PLACES, SYNTHETIC, K, PooledRows, add
from scenarios.coreset.split import check_rows, even_edges, group_edges, split_of
from scenarios.registry import Config

ROWS, MOST = 1_000_000, 10_000_000
DIMENSION, GROUPS = 10, 2

_STREAM_ROWS = 65_536
"""Rows of one random stream. The data depend on it, so it is not `numerics.coreset.grouped_rows.BLOCK_ROWS`, which may
change."""
_APART, _ASIDE = 3.0, 1.0
"""Spread of the clusters and of the groups, relative to that of the rows about them."""


@dataclass(frozen=True)
class PlantedClusters:
    """Rows in fair clusters; a clustering that ignores the groups finds cheaper clusters.

    Row i has group ``i mod H`` and belongs to cluster ``floor(i / H) mod K``, so every cluster has the same number of
    rows of every group (except for the last rows). Its position is the sum of three parts: of its cluster,
    ``N(0, 9)`` in the first half of the columns; of its group, ``N(0, 1)`` with mean 0 over the groups in the other
    half; and ``N(0, 1)`` noise in all columns. The part of a group is the same in all clusters: rows of different
    groups are joined most cheaply in a planted cluster, and rows of one group more cheaply across two near clusters.

    Attributes
    ----------
    n_rows : int
        A multiple of the number of groups.
    dimension, groups, planted : int
        Numbers of columns (2 or more), of groups H and of clusters K.
    seed : int
        Not negative.
    """

    n_rows: int
    dimension: int
    groups: int
    planted: int
    seed: int

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(f"x_{j}" for j in range(self.dimension))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the groups."""
        return tuple(f"group-{h + 1}" for h in range(self.groups))

    def cluster(self, row: Int64[np.ndarray, "n"]) -> Int64[np.ndarray, "n"]:
        """Return the planted clusters of rows."""
        return row // self.groups % self.planted

    def centers(self) -> Float64[np.ndarray, "k d"]:
        """Return the positions of the planted clusters."""
        return _places(self)[0]

    def stream(self, block: int) -> tuple[Int64[np.ndarray, "b"], Float64[np.ndarray, "b d"]]:
        """Return numbers and coordinates of the rows of one stream, whatever the other streams are."""
        row = np.arange(block * _STREAM_ROWS, min((block + 1) * _STREAM_ROWS, self.n_rows), dtype=np.int64)
        centers, shifts = _places(self)
        x = np.random.default_rng([self.seed, SYNTHETIC, BLOCK, block]).standard_normal((len(row), self.dimension))
        x += centers[self.cluster(row)]
        x += shifts[row % self.groups]
        return row, x

    def streams(self, rows: range) -> Iterator[tuple[Int64[np.ndarray, "b"], Float64[np.ndarray, "b d"]]]:
        """Yield the rows of a range, stream by stream."""
        for block in range(rows.start // _STREAM_ROWS, -(-rows.stop // _STREAM_ROWS)):
            row, x = self.stream(block)
            first = block * _STREAM_ROWS
            part = slice(max(rows.start - first, 0), max(rows.stop - first, 0))
            yield row[part], x[part]


@lru_cache(maxsize=32)  # some kilobytes each
def _places(planted: PlantedClusters) -> tuple[Float64[np.ndarray, "k d"], Float64[np.ndarray, "h d"]]:
    """Return the positions of the clusters, and the shifts of the groups from there."""
    rng = np.random.default_rng([planted.seed, SYNTHETIC, PLACES])
    half = planted.dimension - planted.dimension // 2
    centers = np.zeros((planted.planted, planted.dimension))
    centers[:, :half] = _APART * rng.standard_normal((planted.planted, half))
    shifts = np.zeros((planted.groups, planted.dimension))
    shifts[:, half:] = rng.standard_normal((planted.groups, planted.dimension - half))
    shifts -= shifts.mean(axis=0)
    if planted.groups > 1:
        shifts *= _ASIDE / np.sqrt(np.mean(shifts[:, half:] ** 2))
    frozen(centers, shifts)
    return centers, shifts


# -- the world --------------------------------------------------------------------------------------------------------


def planted_of(config: Config, seed: int) -> PlantedClusters:
    """Return the planted rows of a run configuration.

    Settings: `coreset.rows` (0: a million, rounded down to a multiple of the number of groups), `coreset.dimension`
    (0: 10), `coreset.groups` (0: 2) and `coreset.planted` (0: as many as `coreset.k`).
    """
    groups = int(number(config, "coreset.groups", GROUPS, 1, 100))
    rows = int(number(config, "coreset.rows", ROWS, groups, MOST))
    return PlantedClusters(
        n_rows=rows - rows % groups,
        dimension=int(number(config, "coreset.dimension", DIMENSION, 2, 1000)),
        groups=groups,
        planted=int(number(config, "coreset.planted", _k(config), 1, 10_000)),
        seed=seed,
    )


def _k(config: Config) -> int:
    return int(config.get("coreset.k", 0)) or K


def shards(config: Config, seed: int, n_sites: int) -> list[GroupedRows]:
    """Return the rows of `PlantedClusters`, split as `coreset.split` says; a row's entity is its number.

    Rows are computed when they are read. With "random", a site has consecutive rows, whose order is random already.
    With "column", it has consecutive clusters, in the order of the first column. With "group", it has one group, as
    far as possible. In the last two every site computes all rows to find its own, 2 seconds for ten million.

    Raises
    ------
    ScenarioError
        If a setting is out of range, or there are fewer rows than sites.
    """
    planted, split = planted_of(config, seed), split_of(config)
    check_rows("coreset-synthetic", planted.n_rows, n_sites)
    return [_shard(planted, split, n_sites, site) for site in range(n_sites)]


def _shard(planted: PlantedClusters, split: str, n_sites: int, site: int) -> GroupedRows:
    """Return the rows of one site."""

    def blocks() -> Iterator[RowBlock]:
        order = _Order(planted, split, n_sites)
        first, last = (int(edge) for edge in order.edges[site : site + 2])
        rows = range(first, last) if split == "random" else range(planted.n_rows)
        for row, x in planted.streams(rows):
            place = order.place(row)
            own = (first <= place) & (place < last)
            if own.any():
                yield RowBlock(x[own], row[own] % planted.groups, planted.names, row[own])

    return GroupedRows(planted.features, blocks)


class _Order:
    """An order of all rows, which is cut into one stretch for each site.

    Parameters
    ----------
    planted : PlantedClusters
        The rows.
    split : str
        One of `scenarios.coreset.split.SPLITS`.
    n_sites : int
        Number of stretches.

    Attributes
    ----------
    edges : ndarray
        ``(n_sites + 1,)`` places in the order where the stretches begin and end.
    """

    def __init__(self, planted: PlantedClusters, split: str, n_sites: int) -> None:
        self._planted, self._split = planted, split
        self.edges = even_edges(planted.n_rows, n_sites)
        cycle = planted.groups * planted.planted
        if split == "group":
            each = planted.n_rows // planted.groups
            order, self.edges = group_edges(np.full(planted.groups, each), n_sites)
            self._first = np.argsort(order) * each
        elif split == "column":
            whole, rest = divmod(planted.n_rows, cycle)
            # In an incomplete cycle the first clusters have their rows.
            counts = whole * planted.groups + np.clip(
                rest - planted.groups * np.arange(planted.planted), 0, planted.groups
            )
            order = np.argsort(planted.centers()[:, 0], kind="stable")
            self._first = np.empty(planted.planted, np.int64)
            self._first[order] = np.cumsum(counts[order]) - counts[order]

    def place(self, row: Int64[np.ndarray, "b"]) -> Int64[np.ndarray, "b"]:
        """Return the places of rows in the order."""
        groups = self._planted.groups
        if self._split == "group":
            return np.asarray(self._first[row % groups] + row // groups)
        if self._split == "column":
            cycle = groups * self._planted.planted
            return np.asarray(self._first[self._planted.cluster(row)] + row // cycle * groups + row % groups)
        return row


# -- baselines --------------------------------------------------------------------------------------------------------


def baselines(config: Config, seed: int) -> dict[str, float]:
    """Return the cost of the planted clusters, and for 5000 rows or fewer the costs of `pooled_costs`.

    ``cost_planted`` is in the units that `coreset.scale` sets, and missing if the run has another number of clusters.
    The planted clusters are fair (`coreset.balance` 1), except for the last rows.
    """
    planted = planted_of(config, seed)
    costs = {}
    if planted.planted == _k(config):
        costs["cost_planted"] = _planted_cost(planted, str(config.get("coreset.scale", "")))
    if planted.n_rows <= MOST_ROWS:
        costs |= pooled_costs(_pooled(planted), config, seed)
    return costs


@lru_cache(maxsize=32)  # 5000 rows at most
def _pooled(planted: PlantedClusters) -> PooledRows:
    x = np.concatenate([x for _, x in planted.streams(range(planted.n_rows))])
    group = np.arange(planted.n_rows, dtype=np.int64) % planted.groups
    frozen(x, group)
    return PooledRows(x, group, planted.names, planted.features)


@lru_cache(maxsize=1024)
def _planted_cost(planted: PlantedClusters, scale: str) -> float:
    """Return the cost of the planted clusters around the means of their rows, in one pass over the rows."""
    centers = planted.centers()
    counts, sums, squares = np.zeros(len(centers)), np.zeros_like(centers), np.zeros(planted.dimension)
    for row, x in planted.streams(range(planted.n_rows)):
        cluster = planted.cluster(row)
        x -= centers[cluster]
        counts += np.bincount(cluster, minlength=len(centers))
        sums += np.column_stack([np.bincount(cluster, column, minlength=len(centers)) for column in x.T])
        squares += np.einsum("ij,ij->j", x, x)
    held = counts > 0
    counts, sums, centers = counts[held, np.newaxis], sums[held], centers[held]
    within = squares - (sums**2 / counts).sum(axis=0)
    means = centers + sums / counts
    between = (counts * (means - np.average(means, axis=0, weights=counts[:, 0])) ** 2).sum(axis=0)
    variance = np.ones(planted.dimension) if scale == "none" else (within + between) / planted.n_rows
    return float((within / np.where(variance > 0, variance, 1.0)).sum())


add(
    name="coreset-synthetic",
    source="synthetic",
    summary="Up to ten million synthetic rows in known fair clusters: cost relative to theirs",
    shards=shards,
    baselines=baselines,
)
