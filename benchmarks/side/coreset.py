"""coreset beside k-means that is blind to colours, fair clusterings of all rows in one place, and others' packages."""

from __future__ import annotations

import math
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from benchmarks.driver import Driven, config_of
from benchmarks.processes import told
from benchmarks.side import PEERS, Case, Method, Metric, NotHereError, Ran, Side, data_setting
from benchmarks.side.protocol import played, ran
from benchmarks.side.synthetic import coloured
from numerics.coreset.fairness.assignment import Assignment, fair_assignment
from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.clustering import fair_clustering
from numerics.coreset.grouped_rows import GroupedRows
from numerics.shared.distances import squared_distances
from scenarios.registry import find
from strategies.coreset import CoresetOutcome

PACKAGES = Path(__file__).with_name("coreset_packages.py")
EQUAL = Bounds.of(np.array([0.5, 0.5]), 1.0)
"""As many rows of one group as of the other in every cluster."""
RESTARTS = 5
"""Starts of every method that takes a number of them, as ours has by default."""
PER_COLOUR = 300
"""Points of `bico`'s coreset of a colour: `fair-kmeans` takes a minute for a few thousand points."""
MOST_PAIRED = 1000
"""Rows up to which `fair-kmeans` is run on all of them."""
_PROCESS_LIMIT = 120.0
_DOUBLE, _COLOUR = 8, 1

Centers = Float64[np.ndarray, "k d"]


def fair_cost(x: Float64[np.ndarray, "n d"], colour: Int64[np.ndarray, "n"], centers: Centers) -> float:
    """Return the cost of the cheapest exactly balanced assignment of all rows to the centers, whoever found them."""
    return fair_assignment(squared_distances(x, centers), np.ones(len(x), np.int64), colour, EQUAL).cost


@dataclass(frozen=True, eq=False)
class Split:
    """The sites' rows, equally many of two colours, and how many clusters are wanted."""

    shards: Sequence[GroupedRows]
    k: int

    @cached_property
    def rows(self) -> tuple[Float64[np.ndarray, "n d"], Int64[np.ndarray, "n"]]:
        """All rows, each column in standard deviations from its mean, and their colours."""
        blocks = list(chain.from_iterable(each.blocks() for each in self.shards))
        x = np.concatenate([each.x for each in blocks])
        return np.ascontiguousarray((x - x.mean(axis=0)) / x.std(axis=0)), np.concatenate([b.group for b in blocks])

    @property
    def bytes_moved(self) -> float:
        """Of all rows and colours."""
        x, colour = self.rows
        return float(_DOUBLE * x.size + _COLOUR * len(colour))

    def scored(
        self, centers: Centers, cost: float = math.nan, counts: Int64[np.ndarray, "k h"] | None = None
    ) -> dict[str, float]:
        """Metrics of centers in standard deviations, and of an assignment, if there is one."""
        found = {"fair_cost": fair_cost(*self.rows, centers) / len(self.rows[1])}
        if counts is None:
            return found
        share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        held = counts.sum(axis=1) > 0
        return found | {
            "cost": cost / len(self.rows[1]),
            "balance": float(2 * share[held].min()),
            "violation": EQUAL.violation(counts),
        }


# -- data -------------------------------------------------------------------------------------------------------------


def adult(rows: int, k: int, sites: int, seed: int) -> Split:
    """Rows of the census, dealt out at random."""
    config = config_of("coreset-adult", seed, data=data_setting(), coreset__rows=rows)
    return Split(find("coreset-adult").shards(config, seed, sites), k)


def made(rows: int, k: int, sites: int, seed: int) -> Split:
    """Planted clusters that are fair."""
    return Split(coloured(rows, k, sites, seed), k)


# -- methods ----------------------------------------------------------------------------------------------------------


def ours(settings: Mapping[str, Any], data: Split, seed: int) -> Ran:
    """The protocol."""
    driven = played("coreset", data.shards, seed, {"coreset__k": data.k, **settings})
    return ran(driven, partial(_scored, data, driven))


def _scored(data: Split, driven: Driven) -> dict[str, float]:
    outcome: CoresetOutcome = driven.outcome
    mean, scale = outcome.pool.units
    return data.scored((outcome.centers.fair - mean) / scale, outcome.cost, outcome.total)


def plain(data: Split, seed: int) -> Ran:
    """scikit-learn's k-means, blind to colours."""
    from sklearn.cluster import KMeans

    x, colour = data.rows
    found = KMeans(data.k, n_init=RESTARTS, random_state=seed).fit(x)
    counts = np.bincount(found.labels_ * 2 + colour, minlength=2 * data.k).reshape(data.k, 2)
    return Ran(partial(data.scored, found.cluster_centers_, float(found.inertia_), counts), from_sites=data.bytes_moved)


def plain_then_fair(data: Split, seed: int) -> Ran:
    """The same, and every row fairly to one of its centers."""
    from sklearn.cluster import KMeans

    x, colour = data.rows
    centers = KMeans(data.k, n_init=RESTARTS, random_state=seed).fit(x).cluster_centers_
    given = fair_assignment(squared_distances(x, centers), np.ones(len(x), np.int64), colour, EQUAL)
    return _assigned(data, centers, given)


def all_rows(data: Split, seed: int) -> Ran:
    """Our fair k-means++ of all rows."""
    x, colour = data.rows
    weights, rng = np.ones(len(x), np.int64), np.random.default_rng(seed)
    found = fair_clustering(x, weights, colour, EQUAL, data.k, restarts=RESTARTS, rng=rng)
    return _assigned(data, found.centers, found.assignment)


def _assigned(data: Split, centers: Centers, given: Assignment) -> Ran:
    return Ran(lambda: data.scored(centers, given.cost, given.counts.astype(np.int64)), from_sites=data.bytes_moved)


def package(way: str, data: Split, seed: int) -> Ran:
    """PyPI ``fair-kmeans``, of all rows or of ``bico``'s coresets, in the process of another Python."""
    x, colour = data.rows
    if way != "coreset" and len(x) > MOST_PAIRED:
        raise NotHereError(f"left out beyond {MOST_PAIRED:,} rows: it matches all of one colour with all of the other")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(source, x=x, colour=colour, k=data.k, size=PER_COLOUR, seeds=np.array([seed]))
        python = os.environ.get(PEERS) or sys.executable
        answer = told([python, str(PACKAGES), way, str(source), str(target)], _PROCESS_LIMIT)
        if isinstance(answer, str):
            raise NotHereError(answer)
        with np.load(target) as file:
            centers = file["centers"][0]
    return Ran(
        partial(data.scored, centers),
        from_sites=data.bytes_moved,
        seconds=answer["clock"][0],
        peak=answer["peak"] or math.nan,
    )


# -- what is compared -------------------------------------------------------------------------------------------------

_NOTES = (
    "Ten clusters; two colours, equally many rows of both; every cluster is to have as many of each (balance 1)."
    ' Costs are squared distances to the center, per row, each column in its standard deviations. "Cost if fair"'
    " is that of the cheapest exactly balanced assignment of all rows to the method's centers, found by us whoever"
    " found the centers; the other three columns are of the method's own assignment: its cost, the smallest share"
    " of a colour in a cluster by its share in all rows (1: fair), and how many rows the worst cluster is from"
    f" fair. `fair-kmeans` gives centers only; its makers' `bico` makes coresets of {PER_COLOUR} points of a"
    f" colour. Methods that take a number of starts have {RESTARTS}. Points of ours stand for five rows or more"
    " unless the table says single rows. Both packages need NumPy below 2, and `bico` is under the GPL: they run"
    " in an environment and a process of their own, whose seconds and memory are told without loading."
)

_SUMS = "points of 5 rows or more"


def side(quick: bool) -> Side:
    """Adult by sex, few rows and many, and planted clusters; five sites."""
    seeds, many = (1, 2000) if quick else (3, 20_000)
    few = 300 if quick else 1000

    def others(name: str, way: str) -> Method:
        needs = ("fair_kmeans", "bico")
        return Method(name, partial(package, way), "rows", needs=needs, package="fair-kmeans bico", apart=True)

    return Side(
        protocol="coreset",
        task="Cluster the rows of five sites so that every cluster has as many rows of one colour as of the other.",
        metrics=(
            Metric("fair_cost", "cost if fair", "lower"),
            Metric("cost", "cost as assigned"),
            Metric("balance", "balance", "higher", 3),
            Metric("violation", "rows from fair", "lower", 3),
        ),
        cases=(
            Case(
                "adult, few",
                f"{few:,} rows of 6 columns, colours by sex; 5 sites at random",
                partial(adult, few, 10, 5),
                seeds,
            ),
            Case("adult, many", f"{many:,} rows of the same", partial(adult, many, 10, 5), seeds),
            Case(
                "planted",
                f"made: {many:,} rows of 10 columns in clusters that are fair; 5 sites at random",
                partial(made, many, 10, 5),
                seeds,
            ),
        ),
        methods=(
            Method("consilience", partial(ours, {}), _SUMS, ours=True),
            Method("consilience, single rows", partial(ours, {"coreset__min_weight": 1}), "points", ours=True),
            Method(
                "consilience, exact", partial(ours, {"coreset__assignment": "exact"}), f"{_SUMS}, counts", ours=True
            ),
            Method("scikit-learn KMeans", plain, "rows"),
            Method("KMeans, then fair", plain_then_fair, "rows"),
            Method("fair k-means++", all_rows, "rows"),
            others("fair-kmeans", "full"),
            others("fair-kmeans, fast", "fast"),
            others("bico + fair-kmeans", "coreset"),
        ),
        small=partial(made, 200, 3, 2, 0),
        notes=_NOTES,
    )
