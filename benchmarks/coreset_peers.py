"""PyPI ``fair-kmeans`` and ``bico`` + ``fair-kmeans`` on adult, beside ours, for benchmarks/coreset.py."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64

from benchmarks.processes import load, told
from consilience.settings import declared
from numerics.coreset import WeightedPoints, summarise
from numerics.coreset.fairness.assignment import fair_assignment
from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.clustering import fair_clustering
from numerics.coreset.grouped_rows import GroupedRows
from numerics.shared.distances import squared_distances
from scenarios.coreset.real_data import WORLDS, chosen
from scenarios.registry import ScenarioError

RIVAL = Path(__file__).with_name("coreset_rival.py")
SHARED = Path(__file__).parents[2] / "shared" / "data"
EQUAL = Bounds.of(np.array([0.5, 0.5]), 1.0)
FULL_K, CORESET_K, CORESET_ROWS, PER_COLOUR = 10, 5, 20_000, 300
RESTARTS = 5

Rows = Float64[np.ndarray, "n d"]
Colours = Int64[np.ndarray, "n"]
Centers = Float64[np.ndarray, "k d"]


def people(world: str, data: str, n_rows: int) -> tuple[Rows, Colours] | None:
    """Rows of a scenario's file, equally many of both colours, in standard deviations; None, and a line: no file.

    Parameters
    ----------
    world : str
        Name of a scenario.
    data : str
        The file or its directory; empty: where CONSILIENCE_DATA says.
    n_rows : int
        Rows; 0: as many as there are.
    """
    found = next(each for each in WORLDS if each.name == world)
    config = {**declared(), "data": data or (str(SHARED) if SHARED.exists() else ""), "coreset.rows": n_rows}
    try:
        if found.find(config) is None:
            raise ScenarioError("its file is not there; name its directory with --data or CONSILIENCE_DATA")
        pooled = chosen(found, config, 0).pooled
    except ScenarioError as error:
        print(f"\n{world} left out: {error}")
        return None
    return np.ascontiguousarray((pooled.x - pooled.x.mean(axis=0)) / pooled.x.std(axis=0)), pooled.colour


def fair_cost(x: Rows, colour: Colours, centers: Centers) -> float:
    """Cost of the cheapest exactly balanced assignment of all rows: what centers are worth, whoever found them."""
    return fair_assignment(squared_distances(x, centers), np.ones(len(x), np.int64), colour, EQUAL).cost


@dataclass(frozen=True)
class Runs:
    """Runs with several seeds: seconds, points that were clustered, the centers, and coresets if they are at hand."""

    seconds: Sequence[float]
    points: Sequence[int]
    centers: Sequence[Centers]
    coresets: Sequence[WeightedPoints] = ()


def rival(python: str, way: str, x: Rows, colour: Colours, k: int, size: int, seeds: range, limit: float) -> Runs | str:
    """What benchmarks/coreset_rival.py finds in a process of its own; or why it finds nothing."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(source, x=x, colour=colour, k=k, size=size, seeds=np.array(seeds))
        answer = told([python, str(RIVAL), way, str(source), str(target)], limit)
        if isinstance(answer, str):
            return answer
        with np.load(target) as file:
            arrays = {name: file[name] for name in file.files}
    centers, points = list(arrays.pop("centers")), answer["points"]
    parts = zip(*(np.split(array, np.cumsum(points)[:-1]) for array in arrays.values()), strict=True)
    coresets = [
        WeightedPoints(place, weights, group.astype(np.int64), np.zeros(x.shape[1])) for place, weights, group in parts
    ]
    return Runs(answer["seconds"], points, centers, coresets)


def clustered(x: Rows, colour: Colours, k: int, restarts: int, seed: int) -> tuple[Centers, int]:
    """Fair k-means++ of all rows."""
    found = fair_clustering(
        x, np.ones(len(x), np.int64), colour, EQUAL, k, restarts=restarts, rng=np.random.default_rng(seed)
    )
    return found.centers, len(x)


def summarised(x: Rows, colour: Colours, locations: int, rng: np.random.Generator) -> WeightedPoints:
    """The one-pass coreset of rows that are in standard deviations."""
    return summarise(GroupedRows.of(x, colour, ("0", "1")), locations, scale=False, rng=rng).coreset


def coreset_clustered(coreset: WeightedPoints, k: int, restarts: int, rng: np.random.Generator) -> tuple[Centers, int]:
    """Fair k-means++ of a coreset."""
    found = fair_clustering(coreset.points, coreset.weights, coreset.groups, EQUAL, k, restarts=restarts, rng=rng)
    return found.centers, len(coreset.points)


def summarised_clustered(
    x: Rows, colour: Colours, k: int, locations: int, restarts: int, seed: int
) -> tuple[Centers, int]:
    """The coreset and its clustering."""
    rng = np.random.default_rng(seed)
    return coreset_clustered(summarised(x, colour, locations, rng), k, restarts, rng)


def ours(way: Callable[[int], tuple[Centers, int]], seeds: range) -> Runs:
    """One way of ours, timed in this process."""
    way(0)  # compiled once a machine
    seconds, points, centers = [], [], []
    for seed in seeds:
        started = time.process_time()
        found, n = way(seed)
        seconds.append(time.process_time() - started)
        centers.append(found)
        points.append(n)
    return Runs(seconds, points, centers)


def measure_peers(python: str, data: str, sizes: Sequence[int], limit: float) -> None:
    """Print seconds and cost of fair k-means by others and by us, on the same rows."""
    missing = told([python, "-c", "import bico, fair_kmeans; print(0)"], limit)
    if isinstance(missing, str):
        print(f"\nfair-kmeans and bico left out: {python} {missing}; `pip install fair-kmeans bico` elsewhere, --peers")
        return
    _measure_full(python, data, sizes, limit)
    _measure_coreset(python, data, limit)


def _measure_full(python: str, data: str, sizes: Sequence[int], limit: float) -> None:
    for n_rows in sizes:
        found = people("coreset-adult", data, n_rows)
        if found is None:
            return
        x, colour = found
        seeds = range(5 if n_rows <= 500 else 3 if n_rows <= 1000 else 1)
        _print_head(f"{n_rows:,} rows of adult, k = {FULL_K}, all rows")
        for way in ("full", "fast"):
            _print_runs(f"fair-kmeans, {way}", rival(python, way, x, colour, FULL_K, 0, seeds, limit), x, colour)
        for restarts in (1, RESTARTS):
            way_of_ours = partial(clustered, x, colour, FULL_K, restarts)
            _print_runs(f"consilience, {restarts} starts", ours(way_of_ours, range(5)), x, colour)


def _measure_coreset(python: str, data: str, limit: float) -> None:
    found = people("coreset-adult", data, CORESET_ROWS)
    if found is None:
        return
    x, colour = found
    _print_head(f"{CORESET_ROWS:,} rows of adult, k = {CORESET_K}, coresets of {2 * PER_COLOUR} points at most")
    runs = rival(python, "coreset", x, colour, CORESET_K, PER_COLOUR, range(20), limit)
    _print_runs("bico + fair-kmeans", runs, x, colour)
    if not isinstance(runs, str):
        both = partial(_of_theirs, runs.coresets, CORESET_K)
        _print_runs(f"bico + ours, {RESTARTS} starts", ours(both, range(len(runs.coresets))), x, colour)
    for restarts in (1, RESTARTS):
        way = partial(summarised_clustered, x, colour, CORESET_K, PER_COLOUR, restarts)
        _print_runs(f"consilience, {restarts} starts", ours(way, range(20)), x, colour)
    _print_runs("all rows, 5 starts", ours(partial(clustered, x, colour, CORESET_K, RESTARTS), range(3)), x, colour)


def _of_theirs(coresets: Sequence[WeightedPoints], k: int, seed: int) -> tuple[Centers, int]:
    return coreset_clustered(coresets[seed], k, RESTARTS, np.random.default_rng(seed))


def _print_head(what: str) -> None:
    print(
        f"\n{what}; 1 thread; {load()}. Cost: the cheapest fair assignment of all rows to the centers\n"
        f"{'':24} {'seeds':>5} {'median s':>9} {'min s':>8} {'max s':>8} | {'points':>11} {'median cost':>11} "
        f"{'lowest':>9} {'highest':>9}"
    )


def _print_runs(name: str, runs: Runs | str, x: Rows, colour: Colours) -> None:
    if isinstance(runs, str):
        print(f"{name:24} {runs}", flush=True)
        return
    costs = [fair_cost(x, colour, centers) for centers in runs.centers]
    seconds, points = runs.seconds, f"{min(runs.points)}-{max(runs.points)}"
    print(
        f"{name:24} {len(seconds):5d} {statistics.median(seconds):9.3f} {min(seconds):8.3f} {max(seconds):8.3f} | "
        f"{points:>11} {statistics.median(costs):11.1f} {min(costs):9.1f} {max(costs):9.1f}",
        flush=True,
    )
