"""The made world, coreset-synthetic: fair clusters that are known, of any number of rows, never all in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float64, Int64

from numerics.coreset.grouped_rows import GroupedRows, RowBlock
from scenarios.common import frozen, number
from scenarios.coreset.baselines import MOST_ROWS, pooled_costs
from scenarios.coreset.common import BLOCK, PLACES, SYNTHETIC, K, Pooled, add
from scenarios.coreset.split import check_rows, colour_edges, even_edges, split_of
from scenarios.registry import Config

ROWS, MOST = 1_000_000, 10_000_000
DIMENSION, COLOURS = 10, 2

_STREAM_ROWS = 65_536
"""Rows that come of one stream: part of what the data are, so not `numerics.coreset.grouped_rows.BLOCK_ROWS`, which may
change."""
_APART, _ASIDE = 3.0, 1.0
"""Spread of the clusters and of the colours, by that of the rows about them."""


@dataclass(frozen=True)
class Planted:
    """Rows in clusters that are fair, though a clustering that sees no colours is cheaper with others.

    Row i has colour ``i mod H`` and belongs to cluster ``floor(i / H) mod K``, so every cluster has the same number of
    rows of every colour (but for the last rows of all). It lies where its cluster is in the first half of the columns,
    ``N(0, 9)``, where its colour is in the others, ``N(0, 1)`` and their mean 0, and beside both by ``N(0, 1)``. What
    the colours differ by is the same in all clusters: to put rows of different colours together costs least in a
    planted cluster, and to put rows of one colour together costs less where two clusters are near.

    Attributes
    ----------
    n_rows : int
        A multiple of the number of colours.
    dimension, colours, planted : int
        Numbers of columns (2 or more), of colours H and of clusters K.
    seed : int
        Not negative.
    """

    n_rows: int
    dimension: int
    colours: int
    planted: int
    seed: int

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(f"x_{j}" for j in range(self.dimension))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the colours."""
        return tuple(f"colour-{h + 1}" for h in range(self.colours))

    def cluster(self, row: Int64[np.ndarray, "n"]) -> Int64[np.ndarray, "n"]:
        """Planted clusters of rows."""
        return row // self.colours % self.planted

    def centers(self) -> Float64[np.ndarray, "k d"]:
        """Where the planted clusters are."""
        return _places(self)[0]

    def stream(self, block: int) -> tuple[Int64[np.ndarray, "b"], Float64[np.ndarray, "b d"]]:
        """Rows of a stream, by their numbers, whatever other stream was read before."""
        row = np.arange(block * _STREAM_ROWS, min((block + 1) * _STREAM_ROWS, self.n_rows), dtype=np.int64)
        centers, shifts = _places(self)
        x = np.random.default_rng([self.seed, SYNTHETIC, BLOCK, block]).standard_normal((len(row), self.dimension))
        x += centers[self.cluster(row)]
        x += shifts[row % self.colours]
        return row, x

    def streams(self, rows: range) -> Iterator[tuple[Int64[np.ndarray, "b"], Float64[np.ndarray, "b d"]]]:
        """Rows of a range, stream by stream."""
        for block in range(rows.start // _STREAM_ROWS, -(-rows.stop // _STREAM_ROWS)):
            row, x = self.stream(block)
            first = block * _STREAM_ROWS
            part = slice(max(rows.start - first, 0), max(rows.stop - first, 0))
            yield row[part], x[part]


@lru_cache(maxsize=32)  # some kilobytes each
def _places(planted: Planted) -> tuple[Float64[np.ndarray, "k d"], Float64[np.ndarray, "h d"]]:
    """Where the clusters are, and where the colours are from there."""
    rng = np.random.default_rng([planted.seed, SYNTHETIC, PLACES])
    half = planted.dimension - planted.dimension // 2
    centers = np.zeros((planted.planted, planted.dimension))
    centers[:, :half] = _APART * rng.standard_normal((planted.planted, half))
    shifts = np.zeros((planted.colours, planted.dimension))
    shifts[:, half:] = rng.standard_normal((planted.colours, planted.dimension - half))
    shifts -= shifts.mean(axis=0)
    if planted.colours > 1:
        shifts *= _ASIDE / np.sqrt(np.mean(shifts[:, half:] ** 2))
    frozen(centers, shifts)
    return centers, shifts


# -- the world --------------------------------------------------------------------------------------------------------


def planted_of(config: Config, seed: int) -> Planted:
    """The rows that a run configuration asks for.

    Parameters
    ----------
    config : Config
        Run configuration; used are `coreset.rows` (0: a million), `coreset.dimension` (0: 10), `coreset.colours`
        (0: 2) and `coreset.planted` (0: as many as `coreset.k`). Rows that would leave the colours with unequal numbers
        are left out.
    seed : int
        Not negative.

    Raises
    ------
    ScenarioError
        If a setting is out of range.
    """
    colours = _setting(config, "coreset.colours", COLOURS, 1, 100)
    rows = _setting(config, "coreset.rows", ROWS, colours, MOST)
    return Planted(
        n_rows=rows - rows % colours,
        dimension=_setting(config, "coreset.dimension", DIMENSION, 2, 1000),
        colours=colours,
        planted=_setting(config, "coreset.planted", _k(config), 1, 10_000),
        seed=seed,
    )


def _setting(config: Config, key: str, own: int, low: int, high: int) -> int:
    """A number of the run configuration; 0: the scenario's own."""
    return int(number({key: config.get(key) or own}, key, own, low, high))


def _k(config: Config) -> int:
    return int(config.get("coreset.k", 0)) or K


def shards(config: Config, seed: int, n_sites: int) -> list[GroupedRows]:
    """The rows of `Planted`, dealt out as `coreset.split` says, each made when it is read; its entity is its number.

    At random, a site has consecutive rows, which are in random order as they are. Along a column, it has consecutive
    clusters, in the order of the first column. By colour it has one colour, as far as possible. In these two every site
    makes all rows to find its own, 2 seconds for ten million.

    Raises
    ------
    ScenarioError
        If a setting is out of range, or there are fewer rows than sites.
    """
    planted, split = planted_of(config, seed), split_of(config)
    check_rows("coreset-synthetic", planted.n_rows, n_sites)
    return [_shard(planted, split, n_sites, site) for site in range(n_sites)]


def _shard(planted: Planted, split: str, n_sites: int, site: int) -> GroupedRows:
    """What one site has."""

    def blocks() -> Iterator[RowBlock]:
        order = _Order(planted, split, n_sites)
        first, last = (int(edge) for edge in order.edges[site : site + 2])
        rows = range(first, last) if split == "random" else range(planted.n_rows)
        for row, x in planted.streams(rows):
            place = order.place(row)
            own = (first <= place) & (place < last)
            if own.any():
                yield RowBlock(x[own], row[own] % planted.colours, planted.names, row[own])

    return GroupedRows(planted.features, blocks)


class _Order:
    """An order of all rows, of which every site has a stretch.

    Parameters
    ----------
    planted : Planted
        The rows.
    split : str
        One of `scenarios.coreset.split.SPLITS`.
    n_sites : int
        Number of stretches.

    Attributes
    ----------
    edges : ndarray
        ``(n_sites + 1,)``, where they begin and end.
    """

    def __init__(self, planted: Planted, split: str, n_sites: int) -> None:
        self._planted, self._split = planted, split
        self.edges = even_edges(planted.n_rows, n_sites)
        cycle = planted.colours * planted.planted
        if split == "colour":
            each = planted.n_rows // planted.colours
            order, self.edges = colour_edges(np.full(planted.colours, each), n_sites)
            self._first = np.argsort(order) * each
        elif split == "column":
            whole, rest = divmod(planted.n_rows, cycle)
            # Of a cycle begun, the first clusters have their rows.
            counts = whole * planted.colours + np.clip(
                rest - planted.colours * np.arange(planted.planted), 0, planted.colours
            )
            order = np.argsort(planted.centers()[:, 0], kind="stable")
            self._first = np.empty(planted.planted, np.int64)
            self._first[order] = np.cumsum(counts[order]) - counts[order]

    def place(self, row: Int64[np.ndarray, "b"]) -> Int64[np.ndarray, "b"]:
        """Where rows stand in the order."""
        colours = self._planted.colours
        if self._split == "colour":
            return np.asarray(self._first[row % colours] + row // colours)
        if self._split == "column":
            cycle = colours * self._planted.planted
            return np.asarray(self._first[self._planted.cluster(row)] + row // cycle * colours + row % colours)
        return row


# -- what there is to compare with ------------------------------------------------------------------------------------


def baselines(config: Config, seed: int) -> dict[str, float]:
    """``cost_planted``, where so many clusters are asked for, and of 5000 rows or fewer the costs of `pooled_costs`.

    The cost of the planted clusters, in the units that `coreset.scale` sets; they are fair (`coreset.balance` 1), up to
    the rows that do not divide by their number.
    """
    planted = planted_of(config, seed)
    costs = {}
    if planted.planted == _k(config):
        costs["cost_planted"] = _planted_cost(planted, str(config.get("coreset.scale", "")))
    if planted.n_rows <= MOST_ROWS:
        costs |= pooled_costs(_pooled(planted), config, seed)
    return costs


@lru_cache(maxsize=32)  # 5000 rows at most
def _pooled(planted: Planted) -> Pooled:
    x = np.concatenate([x for _, x in planted.streams(range(planted.n_rows))])
    colour = np.arange(planted.n_rows, dtype=np.int64) % planted.colours
    frozen(x, colour)
    return Pooled(x, colour, planted.names, planted.features)


@lru_cache(maxsize=1024)
def _planted_cost(planted: Planted, scale: str) -> float:
    """Cost of the planted clusters with the means of their rows as centers, in one pass over the rows."""
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
    source="drawn",
    summary="Made rows, a million or ten, in known clusters that are fair: cost beside theirs",
    shards=shards,
    baselines=baselines,
)
