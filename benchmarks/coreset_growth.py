"""Whole runs of coreset and their growth, and with and without a coreset, for benchmarks/coreset.py.

Seconds are the processor's where nothing else is said.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from flwr.app import Message

from benchmarks.coreset_peers import EQUAL, Centers, Colours, Rows, people
from benchmarks.processes import load
from numerics.coreset import summarise
from numerics.coreset.fairness.apportionment import PointMasses, distribute
from numerics.coreset.fairness.clustering import fair_clustering
from numerics.coreset.grouped_rows import GroupedRows
from server.results import load as load_results
from tests.support.grid import config, run

LOCATIONS = 200
"""Of a coreset, for each cluster: section 4 of the paper."""
BASE: Mapping[str, int] = MappingProxyType({"rows": 100_000, "sites": 5, "colours": 2, "k": 10})
GROWTH: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"rows": (10_000, 100_000, 1_000_000), "sites": (2, 10, 50), "colours": (2, 5, 20), "k": (5, 20, 50)}
)


# -- whole runs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A run of coreset-synthetic.

    Attributes
    ----------
    summaries : float
        Seconds until every site's summary is in: the sites one after the other, in one process.
    rest : float
        Seconds from then: clustering at the center, and the sites' assignment of their rows.
    sent : int
        Bytes from the sites.
    metrics : Mapping
        Of its report.
    """

    summaries: float
    rest: float
    sent: int
    metrics: Mapping[str, float]


def synthetic(rows: int, sites: int, colours: int, k: int) -> Run:
    """One run, the server's and the sites' code in this process, every message through its bytes."""
    settings: dict[str, Any] = {"coreset.rows": rows, "coreset.groups": colours, "coreset.k": k}
    summed_up = [0.0]

    def watch(_: int, number: int, reply: Message) -> Message:
        if number == 1:
            summed_up[0] = time.process_time()
        return reply

    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        chosen = {**config(Path(folder), scenario="coreset-synthetic"), **settings}
        path, _ = run(chosen, sites, tamper=watch)
        ended = time.process_time()
        report, _ = load_results(path)
    return Run(summed_up[0] - started, ended - summed_up[0], report.ledger["bytes_from_sites"], report.metrics)


def measure_run(rows: int, sites: int) -> None:
    """Print a whole run of many rows."""
    synthetic(1000, sites, BASE["colours"], BASE["k"])  # compiled once a machine
    before, started = load(), time.perf_counter()
    found = synthetic(rows, sites, BASE["colours"], BASE["k"])
    elapsed, metrics = time.perf_counter() - started, found.metrics
    print(
        f"\nFair k-means++ end to end: {rows:,} rows made block by block, {sites} sites, k = {BASE['k']}, default"
        f" settings; all in one process, 1 thread; {before}\n"
        f"{elapsed:.1f} s, of the processor {found.summaries + found.rest:.1f} s, {found.summaries:.1f} s until"
        " all summaries are in\n"
        f"cost {metrics['cost']:.5g}, that of the planted clusters {metrics['cost_planted']:.5g}"
        f" ({100 * metrics['excess']:+.2f} %); farthest from fair {metrics['max_violation']:g} rows; price of fairness"
        f" {100 * metrics['price_of_fairness']:.1f} %; {metrics['n_sent']:.0f} points in {found.sent / 1e6:.2f} MB",
        flush=True,
    )


def measure_growth() -> None:
    """Print seconds of whole runs, one number changed at a time, and the exponents with which they grow."""
    print(
        "\nGrowth: coreset-synthetic, all in one process, 1 thread; 200 k locations a site and at most 20,000 points at"
        f" the center; beside what is changed: {', '.join(f'{value:,} {name}' for name, value in BASE.items())};"
        f" {load()}\n"
        f"{'':16} {'all s':>7} {'summaries s':>11} {'rest s':>7} | {'points':>7} {'MB up':>6}"
    )
    for name, values in GROWTH.items():
        runs = [synthetic(**{**BASE, name: value}) for value in values]
        for value, found in zip(values, runs, strict=True):
            print(
                f"{name:8}{value:8,} {found.summaries + found.rest:7.2f} {found.summaries:11.2f} {found.rest:7.2f} | "
                f"{found.metrics['n_sent']:7.0f} {found.sent / 1e6:6.2f}",
                flush=True,
            )
        seconds = np.array([[each.summaries + each.rest, each.summaries, each.rest] for each in runs])
        slopes = np.polyfit(np.log(values), np.log(seconds), 1)[0]
        print(f"{name:8}{'exponent':>8} {slopes[0]:7.2f} {slopes[1]:11.2f} {slopes[2]:7.2f} |", flush=True)


# -- with and without a coreset ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """Seconds of the coreset (0: none), of the clustering, of giving rows to centers; the cost, and a bound of it."""

    summary: float
    clustering: float
    rows: float
    cost: float
    bound: float

    @property
    def seconds(self) -> float:
        """All of them."""
        return self.summary + self.clustering + self.rows


def without(x: Rows, colour: Colours, k: int, restarts: int) -> Found:
    """Fair k-means++ of all rows."""
    started = time.process_time()
    weights = np.ones(len(x), np.int64)
    found = fair_clustering(x, weights, colour, EQUAL, k, restarts=restarts, rng=np.random.default_rng(0))
    return Found(0.0, time.process_time() - started, 0.0, found.cost, found.cost)


def with_coreset(x: Rows, colour: Colours, k: int, restarts: int) -> Found:
    """Fair k-means++ of a one-pass coreset, and every row to a center, as fairly as its coreset's point."""
    rng, marks = np.random.default_rng(0), [time.process_time()]
    summary = summarise(GroupedRows.of(x, colour, ("0", "1")), LOCATIONS * k, scale=False, rng=rng)
    coreset = summary.coreset
    marks.append(time.process_time())
    found = fair_clustering(coreset.points, coreset.weights, coreset.groups, EQUAL, k, restarts=restarts, rng=rng)
    marks.append(time.process_time())
    given = found.assignment
    shares = PointMasses(given.point, given.center, given.mass.astype(np.int64))
    rows = distribute(x, np.ones(len(x), np.int64), summary.point.astype(np.int64), shares, found.centers)
    marks.append(time.process_time())
    summing, clustering, giving = np.diff(marks).tolist()
    bound = found.cost + float(coreset.movement.sum())
    return Found(summing, clustering, giving, _cost(x, rows, found.centers), bound)


def _cost(x: Rows, rows: PointMasses, centers: Centers) -> float:
    apart = x[rows.point] - centers[rows.center]
    return float(rows.mass @ np.einsum("ij,ij->i", apart, apart))


def measure_with(data: str, sizes: Sequence[int], clusters: Sequence[int], restarts: int, limit: float) -> None:
    """Print seconds with and without a coreset; without, until a run has taken a third of `limit` seconds."""
    print(
        f"\nWith and without a coreset of {LOCATIONS} k locations (Figures 2 right and 3): diabetes by gender,"
        f" {restarts} start, 1 thread; {load()}\n"
        f"{'k':>4} {'rows':>7} {'without s':>9} {'with s':>7} {'coreset':>8} {'clusters':>8} {'rows':>6} {'faster':>7}"
        f" | {'cost by that without':>20} {'bound by cost':>13}"
    )
    for k in clusters:
        last = 0.0
        for n_rows in sizes:
            drawn = people("coreset-diabetes", data, n_rows)
            if drawn is None:
                return
            x, colour = drawn
            if n_rows == sizes[0]:
                with_coreset(x, colour, k, 1)  # compiled once a machine
            short = with_coreset(x, colour, k, restarts)
            long = (
                without(x, colour, k, restarts) if last < limit / 3 else Found(0.0, math.nan, 0.0, math.nan, math.nan)
            )
            last = long.seconds if not math.isnan(long.seconds) else math.inf
            print(
                f"{k:4d} {n_rows:7,} {long.seconds:9.2f} {short.seconds:7.2f} {short.summary:8.2f} "
                f"{short.clustering:8.2f} {short.rows:6.2f} {long.seconds / short.seconds:7.1f} | "
                f"{short.cost / long.cost:20.4f} {short.bound / short.cost:13.4f}",
                flush=True,
            )
