"""Coreset: one pass beside scikit-learn's, other fair k-means, 100 seeds, fair assignment, whole runs and their growth.

Run it with ``python -m benchmarks.coreset``; ``--help`` shows what can be left out. docs/measurements.md has figures.
Everything has one thread, and seconds are the processor's: what else runs on the machine adds little to them.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float64

from benchmarks.bc3e import machine
from benchmarks.coreset_growth import measure_growth, measure_run, measure_with
from benchmarks.coreset_pass import DIMENSION, SIZE, measure_pass, search_threshold
from benchmarks.coreset_peers import (
    EQUAL,
    RESTARTS,
    Centers,
    Colours,
    Rows,
    clustered,
    fair_cost,
    measure_peers,
    people,
    rival,
    summarised,
    summarised_clustered,
)
from benchmarks.processes import load
from numerics.coreset.fairness.assignment import Assignment, fair_assignment
from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.clustering import plain_clustering
from numerics.coreset.fairness.seeding import TOLERANCE, lloyd, plus_plus
from numerics.shared.distances import squared_distances
from numerics.shared.threads import single_threaded
from scenarios.coreset.synthetic import Planted

PARTS = ("pass", "peers", "seeds", "assignment", "run", "with", "growth")
SEEDS_ROWS, SEEDS_K, SEEDS_SIZE = 4520, 5, 1000
"""As many rows as bank has, equally many of both colours."""
DIRECT = 10
"""Fair clusterings of all rows that coresets are held against; others there are as many as seeds."""
CENTERS = 10
WITH_ROWS = (1000, 2000, 4000, 10_000, 30_000, 90_000)
_HEAVIEST = 99


# -- seeds ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """A way to cluster, and how its centers are judged.

    Attributes
    ----------
    of_coreset : Callable
        Centers of a coreset, by seed.
    direct : Sequence of float
        What centers that were found from all rows cost, for every seed.
    cost : Callable
        What centers cost on all rows.
    polish : Callable
        Where Lloyd's rounds on all rows lead from centers.
    """

    of_coreset: Callable[[int], Centers]
    direct: Sequence[float]
    cost: Callable[[Centers], float]
    polish: Callable[[Centers], Centers]


def measure_seeds(n_seeds: int, data: str, python: str, limit: float) -> None:
    """Print how full coresets of many seeds are, and what their clusterings cost on all rows."""
    found = people("coreset-adult", data, SEEDS_ROWS)
    if found is None:
        return
    x, colour = found
    seeds = range(n_seeds)
    locations = [len(summarised(x, colour * 0, SEEDS_SIZE, np.random.default_rng(seed)).points) for seed in seeds]
    print(
        f"\n{n_seeds} seeds: {len(x):,} rows of adult, {SEEDS_SIZE} locations asked for, k = {SEEDS_K}, {RESTARTS}"
        f" starts, 1 thread; {load()}\n"
        f"locations used: {min(locations)} at least, {statistics.median(locations):g} in the median\n"
        "cost on all rows, by: the median of clustering all rows; the local optimum of all rows that it is at; the"
        " best of clustering all rows\n"
        f"{'':34} {'median':>7} {'worst':>7}  {'median':>7} {'worst':>7}  {'median':>7} {'worst':>7}"
    )
    plain, fair = _plain(x, colour, n_seeds), _fair(x, colour)
    _print_ratios("k-means++, colours unseen", plain, [plain.of_coreset(seed) for seed in seeds])
    theirs = rival(python, "plain", x, colour, SEEDS_K, SEEDS_SIZE, seeds, limit) if python else ""
    if not isinstance(theirs, str):
        few = sum(10 * n < SEEDS_SIZE for n in theirs.points)
        print(f"PyPI bico, {min(theirs.points)} points at least; less than a tenth of those asked for: {few} seeds")
        _print_ratios("k-means++, bico's coresets", plain, theirs.centers)
    _print_ratios("fair k-means++", fair, [fair.of_coreset(seed) for seed in seeds])


def _print_ratios(name: str, task: Task, centers: Sequence[Centers]) -> None:
    costs, direct = np.array([task.cost(each) for each in centers]), np.array(task.direct)
    own = np.array([task.cost(task.polish(each)) for each in centers])
    _print_ratio_row(name, (costs / np.median(direct), costs / own, costs / direct.min()))
    _print_ratio_row(
        f"  all rows, {len(direct)} seeds", (direct / np.median(direct), np.ones(1), direct / direct.min())
    )


def _print_ratio_row(name: str, ratios: Sequence[Float64[np.ndarray, "s"]]) -> None:
    print(f"{name:34} " + "  ".join(f"{np.median(each):7.4f} {each.max():7.4f}" for each in ratios), flush=True)


def _plain(x: Rows, colour: Colours, n_direct: int) -> Task:
    """k-means++ that sees no colours."""
    weights = np.ones(len(x), np.int64)

    def of_coreset(seed: int) -> Centers:
        rng = np.random.default_rng(seed)
        coreset = summarised(x, colour, SEEDS_SIZE, rng)
        return plain_clustering(coreset.points, coreset.weights, SEEDS_K, restarts=RESTARTS, rng=rng)[0]

    return Task(
        of_coreset,
        [
            plain_clustering(x, weights, SEEDS_K, restarts=RESTARTS, rng=np.random.default_rng(seed))[1]
            for seed in range(n_direct)
        ],
        lambda centers: float(squared_distances(x, centers).min(axis=1).sum()),
        lambda centers: lloyd(x, weights, centers)[0],
    )


def _fair(x: Rows, colour: Colours) -> Task:
    """Fair k-means++ of two colours."""

    def polish(centers: Centers) -> Centers:
        weights, cost = np.ones(len(x), np.int64), np.inf
        given = fair_assignment(squared_distances(x, centers), weights, colour, EQUAL)
        while given.cost < (1 - TOLERANCE) * cost:
            cost, centers = given.cost, given.means(x, centers)
            given = fair_assignment(squared_distances(x, centers), weights, colour, EQUAL, prices=given.prices)
        return centers

    return Task(
        lambda seed: summarised_clustered(x, colour, SEEDS_K, SEEDS_SIZE, RESTARTS, seed)[0],
        [fair_cost(x, colour, clustered(x, colour, SEEDS_K, RESTARTS, seed)[0]) for seed in range(DIRECT)],
        partial(fair_cost, x, colour),
        polish,
    )


# -- fair assignment --------------------------------------------------------------------------------------------------


def measure_assignment(n_points: int, runs: int) -> None:
    """Print seconds and gap of the fair assignment of weighted points to ten centers, from no prices."""
    print(
        f"\nFair assignment of {n_points:,} points of weights 1 to {_HEAVIEST} to {CENTERS} centers, {runs} draws, 1"
        f" thread; {load()}\n"
        f"{'colours':>7} {'balance':>7} {'median s':>9} {'min s':>7} {'max s':>7} | {'largest gap':>11}"
        f" {'rows from fair':>14} {'price of fairness':>17}"
    )
    for colours, balance in ((2, 1.0), (5, 0.8), (5, 1.0)):
        seconds, found = zip(*(_assigned(n_points, colours, balance, seed) for seed in range(runs)), strict=True)
        gap = max(given.cost / given.bound - 1 for given, _, _ in found)
        off = max(bounds.violation(given.counts) for given, bounds, _ in found)
        price = statistics.median(given.cost / free - 1 for given, _, free in found)
        print(
            f"{colours:7d} {balance:7g} {statistics.median(seconds):9.3f} {min(seconds):7.3f} {max(seconds):7.3f} | "
            f"{gap:11.1e} {off:14.3f} {100 * price:15.1f} %",
            flush=True,
        )


def _assigned(n_points: int, colours: int, balance: float, seed: int) -> tuple[float, tuple[Assignment, Bounds, float]]:
    """Seconds; the assignment of points of coreset-synthetic, what is fair, and the cost without fairness."""
    planted = Planted(n_points, DIMENSION, colours, CENTERS, seed)
    rng = np.random.default_rng(seed)
    x = np.concatenate([x for _, x in planted.streams(range(n_points))])
    # Each weight once in every colour: equal totals, as the flow for two colours needs.
    weights = np.repeat(rng.integers(1, _HEAVIEST + 1, -(-n_points // colours)), colours)[:n_points]
    colour = np.arange(n_points) % colours
    squared = squared_distances(x, plus_plus(x, weights, CENTERS, rng))
    bounds = Bounds.of(np.bincount(colour, weights) / weights.sum(), balance)
    started = time.process_time()
    given = fair_assignment(squared, weights, colour, bounds)
    return time.process_time() - started, (given, bounds, float(weights @ squared.min(axis=1)))


def main(arguments: Sequence[str] | None = None) -> None:
    """All parts, one after the other."""
    parser: Any = argparse.ArgumentParser(prog="python -m benchmarks.coreset", description=__doc__.partition("\n")[0])
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=[*PARTS, "search"], help="what is measured")
    parser.add_argument("--data", default="", help="directory of adult.csv and diabetes130.csv; else CONSILIENCE_DATA")
    parser.add_argument("--peers", default="", metavar="PYTHON", help="a Python that has fair-kmeans and bico")
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="rows of one pass, of the search and of a whole run"
    )
    parser.add_argument("--size", type=int, default=SIZE, help="representatives of one pass and of the search")
    parser.add_argument("--peer-rows", type=int, nargs="*", default=[500, 1000, 2000], help="rows for fair-kmeans")
    parser.add_argument("--seeds", type=int, default=100, help="seeds of a coreset of bank's size")
    parser.add_argument("--points", type=int, default=20_000, help="points of a fair assignment")
    parser.add_argument(
        "--with-rows", type=int, nargs="*", default=list(WITH_ROWS), help="rows with and without a coreset"
    )
    parser.add_argument("--with-k", type=int, nargs="*", default=[4, 20, 50], help="clusters of the same")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which another's process is ended")
    parser.add_argument("--runs", type=int, default=3, help="draws of a fair assignment, of which the median counts")
    options = parser.parse_args(arguments)
    logging.getLogger("flwr").setLevel(logging.WARNING)
    print(machine())
    data, limit = options.data, options.limit
    measures: dict[str, Callable[[], None]] = {
        "search": partial(search_threshold, options.rows, options.size, limit),
        "pass": partial(measure_pass, options.rows, options.size, limit),
        "peers": partial(measure_peers, options.peers, data, options.peer_rows, limit),
        "seeds": partial(measure_seeds, options.seeds, data, options.peers, limit),
        "assignment": partial(measure_assignment, options.points, options.runs),
        "run": partial(measure_run, options.rows, 4),
        "with": partial(measure_with, data, options.with_rows, options.with_k, 1, 30.0),
        "growth": measure_growth,
    }
    with single_threaded():
        for part in options.parts:
            measures[part]()


if __name__ == "__main__":
    main()
