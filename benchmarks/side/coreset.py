"""coreset compared with k-means that ignores the groups, fair clusterings of pooled rows, and other packages."""

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

from benchmarks.driver import Transcript, config_of
from benchmarks.processes import run_process
from benchmarks.side import PEERS, Case, Method, Metric, NotHereError, Result, Side, data_setting
from benchmarks.side.protocol import result_of, run_protocol
from benchmarks.side.synthetic import fair_clusters
from numerics.coreset.fairness.assignment import Assignment, fair_assignment
from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.clustering import fair_clustering
from numerics.coreset.grouped_rows import GroupedRows
from numerics.shared.distances import squared_distances
from scenarios.registry import find
from strategies.coreset import CoresetOutcome

PACKAGES = Path(__file__).with_name("coreset_packages.py")
EQUAL = Bounds.of(np.array([0.5, 0.5]), 1.0)
"""Every cluster has as many rows of one group as of the other."""
RESTARTS = 5
"""Starts of every method with this setting, as many as the protocol's default."""
POINTS_PER_GROUP = 300
"""Points of `bico`'s coreset of a group: `fair-kmeans` takes a minute for a few thousand points."""
MOST_PAIRED = 1000
"""Maximum number of rows on which `fair-kmeans` runs."""
_PROCESS_LIMIT = 120.0
_DOUBLE, _GROUP = 8, 1

Centers = Float64[np.ndarray, "k d"]


def fair_cost(x: Float64[np.ndarray, "n d"], group: Int64[np.ndarray, "n"], centers: Centers) -> float:
    """Return the cost of the cheapest exactly balanced assignment of all rows to the centers."""
    return fair_assignment(squared_distances(x, centers), np.ones(len(x), np.int64), group, EQUAL).cost


@dataclass(frozen=True, eq=False)
class Split:
    """The sites' rows, equally many of two groups, and the number of clusters."""

    shards: Sequence[GroupedRows]
    k: int

    @cached_property
    def rows(self) -> tuple[Float64[np.ndarray, "n d"], Int64[np.ndarray, "n"]]:
        """All rows, standardized, and their groups."""
        blocks = list(chain.from_iterable(each.blocks() for each in self.shards))
        x = np.concatenate([each.x for each in blocks])
        return np.ascontiguousarray((x - x.mean(axis=0)) / x.std(axis=0)), np.concatenate([b.group for b in blocks])

    @property
    def row_bytes(self) -> float:
        """Bytes of all rows and groups."""
        x, group = self.rows
        return float(_DOUBLE * x.size + _GROUP * len(group))

    def score(
        self, centers: Centers, cost: float = math.nan, counts: Int64[np.ndarray, "k h"] | None = None
    ) -> dict[str, float]:
        """Return metrics of standardized centers, and of an assignment, if there is one."""
        metrics = {"fair_cost": fair_cost(*self.rows, centers) / len(self.rows[1])}
        if counts is None:
            return metrics
        share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        filled = counts.sum(axis=1) > 0
        return metrics | {
            "cost": cost / len(self.rows[1]),
            "balance": float(2 * share[filled].min()),
            "violation": EQUAL.violation(counts),
        }


# -- data -------------------------------------------------------------------------------------------------------------


def adult(rows: int, k: int, sites: int, seed: int) -> Split:
    """Draw rows of Adult, split at random."""
    config = config_of("coreset-adult", seed, data=data_setting(), coreset__rows=rows)
    return Split(find("coreset-adult").shards(config, seed, sites), k)


def planted(rows: int, k: int, sites: int, seed: int) -> Split:
    """Draw planted clusters, which are fair."""
    return Split(fair_clusters(rows, k, sites, seed), k)


# -- methods ----------------------------------------------------------------------------------------------------------


def consilience(settings: Mapping[str, Any], data: Split, seed: int) -> Result:
    """Run the protocol."""
    transcript = run_protocol("coreset", data.shards, seed, {"coreset__k": data.k, **settings})
    return result_of(transcript, partial(_score, data, transcript))


def _score(data: Split, transcript: Transcript) -> dict[str, float]:
    outcome: CoresetOutcome = transcript.outcome
    mean, scale = outcome.pool.units
    return data.score((outcome.centers.fair - mean) / scale, outcome.cost, outcome.total)


def plain(data: Split, seed: int) -> Result:
    """Cluster by scikit-learn's k-means, which ignores the groups."""
    from sklearn.cluster import KMeans

    x, group = data.rows
    model = KMeans(data.k, n_init=RESTARTS, random_state=seed).fit(x)
    counts = np.bincount(model.labels_ * 2 + group, minlength=2 * data.k).reshape(data.k, 2)
    return Result(partial(data.score, model.cluster_centers_, float(model.inertia_), counts), from_sites=data.row_bytes)


def plain_then_fair(data: Split, seed: int) -> Result:
    """Cluster in the same way, then assign the rows fairly to the centers."""
    from sklearn.cluster import KMeans

    x, group = data.rows
    centers = KMeans(data.k, n_init=RESTARTS, random_state=seed).fit(x).cluster_centers_
    assignment = fair_assignment(squared_distances(x, centers), np.ones(len(x), np.int64), group, EQUAL)
    return _result(data, centers, assignment)


def all_rows(data: Split, seed: int) -> Result:
    """Cluster pooled rows by the project's fair k-means++."""
    x, group = data.rows
    weights, rng = np.ones(len(x), np.int64), np.random.default_rng(seed)
    clustering = fair_clustering(x, weights, group, EQUAL, data.k, restarts=RESTARTS, rng=rng)
    return _result(data, clustering.centers, clustering.assignment)


def _result(data: Split, centers: Centers, assignment: Assignment) -> Result:
    counts = assignment.counts.astype(np.int64)
    return Result(lambda: data.score(centers, assignment.cost, counts), from_sites=data.row_bytes)


def package(way: str, data: Split, seed: int) -> Result:
    """Cluster by PyPI ``fair-kmeans``, all rows or ``bico``'s coresets, in the process of another Python."""
    x, group = data.rows
    if way != "coreset" and len(x) > MOST_PAIRED:
        raise NotHereError(f"left out beyond {MOST_PAIRED:,} rows: it matches all of one group with all of the other")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(source, x=x, group=group, k=data.k, size=POINTS_PER_GROUP, seeds=np.array([seed]))
        python = os.environ.get(PEERS) or sys.executable
        answer = run_process([python, str(PACKAGES), way, str(source), str(target)], _PROCESS_LIMIT)
        if isinstance(answer, str):
            raise NotHereError(answer)
        with np.load(target) as file:
            centers = file["centers"][0]
    return Result(
        partial(data.score, centers),
        from_sites=data.row_bytes,
        seconds=answer["seconds"][0],
        peak=answer["peak"] or math.nan,
    )


# -- the comparison ---------------------------------------------------------------------------------------------------

_NOTES = f"""
Ten clusters of two groups with equal numbers of rows. Costs are squared distances to the center, per row, of
standardized columns. "Cost if fair" is that of the cheapest exactly balanced assignment of all rows to the method's
centers; the next three columns are of the method's own assignment: its cost; the smallest share of a group in a
cluster relative to its share in all rows (1: fair); by how many rows the worst cluster is unfair. `fair-kmeans`
returns centers only; `bico`, of the same authors, makes coresets of {POINTS_PER_GROUP} points of a group. Methods with
a number of starts have {RESTARTS}.
"""

_SUMS = "points of 5 rows or more"


def side(quick: bool) -> Side:
    """Compare on Adult by sex, few rows and many, and on planted clusters; five sites."""
    seeds, many = (1, 2000) if quick else (3, 20_000)
    few = 300 if quick else 1000

    def others(name: str, way: str) -> Method:
        needs = ("fair_kmeans", "bico")
        return Method(name, partial(package, way), "rows", needs=needs, package="fair-kmeans bico", apart=True)

    return Side(
        protocol="coreset",
        task="Cluster the rows of five sites so that every cluster has as many rows of one group as of the other.",
        metrics=(
            Metric("fair_cost", "cost if fair", "lower"),
            Metric("cost", "cost as assigned"),
            Metric("balance", "balance", "higher", 3),
            Metric("violation", "rows from fair", "lower", 3),
        ),
        cases=(
            Case(
                "adult, few",
                f"{few:,} rows of 6 columns, groups by sex; 5 sites at random",
                partial(adult, few, 10, 5),
                seeds,
            ),
            Case("adult, many", f"{many:,} rows of the same", partial(adult, many, 10, 5), seeds),
            Case(
                "planted",
                f"synthetic: {many:,} rows of 10 columns in fair clusters; 5 sites at random",
                partial(planted, many, 10, 5),
                seeds,
            ),
        ),
        methods=(
            Method("consilience", partial(consilience, {}), _SUMS, ours=True),
            Method("consilience, single rows", partial(consilience, {"coreset__min_weight": 1}), "points", ours=True),
            Method(
                "consilience, exact",
                partial(consilience, {"coreset__assignment": "exact"}),
                f"{_SUMS}, counts",
                ours=True,
            ),
            Method("scikit-learn KMeans", plain, "rows"),
            Method("KMeans, then fair", plain_then_fair, "rows"),
            Method("fair k-means++", all_rows, "rows"),
            others("fair-kmeans", "full"),
            others("fair-kmeans, fast", "fast"),
            others("bico + fair-kmeans", "coreset"),
        ),
        small=partial(planted, 200, 3, 2, 0),
        notes=" ".join(_NOTES.split()),
    )
