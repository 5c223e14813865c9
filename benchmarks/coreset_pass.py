"""A summary of so many rows by 4000 representatives, three ways, for benchmarks/coreset.py.

Each way runs in a process of its own, ``python -m benchmarks.coreset_pass WAY ...``, which imports what that way needs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from benchmarks.processes import load, memory, told
from numerics.coreset.grouped_rows import BLOCK_ROWS, GroupedRows, RowBlock

DIMENSION, COLOURS, PLANTED = 10, 2, 20
SIZE = 4000
"""Representatives: 200 for each of 20 clusters."""
THRESHOLDS = {100_000: 2.437, 1_000_000: 2.54}
"""With these `Birch` has about `SIZE` subclusters of as many rows of `write_rows`; ``--parts search`` finds them."""
_FEW = 1000

Rows = Float64[np.ndarray, "n d"]
Summary = Callable[[], tuple[Rows, float]]
"""Makes the representatives; what the rows move by (NaN: the way does not say)."""


@dataclass(frozen=True)
class Pass:
    """What a process told of its way.

    Attributes
    ----------
    seconds : float
        For the summary alone; nothing is imported or compiled in them.
    representatives : int
        How many places the rows are summarised by.
    peak, loaded : int
        Bytes the process held at most while it made the summary, and before it began.
    nearest : float
        Mean squared distance of the rows from their nearest representatives.
    movement : float
        Mean squared distance of the rows from the points that stand for them; NaN: it is that from the nearest.
    """

    seconds: float
    representatives: int
    peak: int
    loaded: int
    nearest: float
    movement: float


# -- in a process of its own ------------------------------------------------------------------------------------------


def write_rows(path: Path, n_rows: int) -> None:
    """Rows of coreset-synthetic, one after the other: 20 clusters in 10 columns, colours in turn."""
    from scenarios.coreset.synthetic import Planted

    with path.open("wb") as file:
        for _, x in Planted(n_rows, DIMENSION, COLOURS, PLANTED, 0).streams(range(n_rows)):
            x.tofile(file)


def read_rows(path: Path, first: int = 0, count: int = -1) -> Rows:
    """Rows of that file; all that follow, unless `count` says how many."""
    offset = 8 * DIMENSION * first
    return np.fromfile(path, count=count * DIMENSION if count >= 0 else -1, offset=offset).reshape(-1, DIMENSION)


def points_of(path: Path, n_rows: int, colours: int) -> GroupedRows:
    """The rows as a site reads them: a block at a time, each colour in turn."""
    names = tuple(f"colour-{h + 1}" for h in range(colours))

    def blocks() -> Iterator[RowBlock]:
        for first in range(0, n_rows, BLOCK_ROWS):
            x = read_rows(path, first, min(BLOCK_ROWS, n_rows - first))
            yield RowBlock(x, np.arange(first, first + len(x)) % colours, names)

    return GroupedRows(tuple(f"x_{j}" for j in range(DIMENSION)), blocks)


def ours(path: Path, n_rows: int, size: int, colours: int) -> Summary:
    """`numerics.coreset.summarise`, which reads the file once and never holds it."""
    from numerics.coreset import summarise

    def summary(rows: int, at_most: int) -> tuple[Rows, float]:
        points = points_of(path, rows, colours)
        found = summarise(points, at_most, scale=False, rng=np.random.default_rng(0)).coreset
        return found.points, float(found.movement.sum())

    summary(min(_FEW, n_rows), min(_FEW // 20, size))  # compiled once a machine
    return partial(summary, n_rows, size)


def birch(x: Rows, threshold: float) -> Summary:
    """scikit-learn's tree of clustering features, without the clustering of them and without labels."""
    from sklearn.cluster import Birch

    return lambda: (
        Birch(threshold=threshold, n_clusters=None, compute_labels=False).fit(x).subcluster_centers_,
        np.nan,
    )


def mini_batch(x: Rows, size: int) -> Summary:
    """scikit-learn's k-means by random batches, as it is set, without labels."""
    from sklearn.cluster import MiniBatchKMeans

    method = MiniBatchKMeans(n_clusters=size, n_init=1, compute_labels=False, random_state=0)
    return lambda: (method.fit(x).cluster_centers_, np.nan)


def run_way(way: str, path: Path, n_rows: int, size: int, threshold: float) -> Pass:
    """One way, measured."""
    if way in ("consilience", "colour-blind"):
        summary = ours(path, n_rows, size, COLOURS if way == "consilience" else 1)
    else:
        x = read_rows(path)
        summary = birch(x, threshold) if way == "Birch" else mini_batch(x, size)
    loaded = memory("VmRSS")
    started = time.process_time()
    representatives, movement = summary()
    seconds, peak = time.process_time() - started, memory("VmHWM")

    from numerics.coreset.nearest_neighbours import nearest

    x, centers = read_rows(path), np.ascontiguousarray(representatives, np.float64)
    apart = x - centers[nearest(x, centers)]
    return Pass(
        seconds, len(centers), peak, loaded, float(np.einsum("ij,ij->", apart, apart)) / n_rows, movement / n_rows
    )


# -- side by side -----------------------------------------------------------------------------------------------------


def measure_pass(n_rows: int, size: int, limit: float) -> None:
    """Print seconds, memory and quality of the three ways on the same rows."""
    print(
        f"\nOne pass: {n_rows:,} rows, {DIMENSION} columns, {COLOURS} colours, {size:,} representatives asked for; a"
        f" process each, 1 thread; {load()}\n"
        f"{'':16} {'seconds':>8} {'rows/s':>9} {'peak MB':>8} {'of which the pass':>17} | {'found':>6} {'nearest':>8}"
        f" {'movement':>8}"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.bin"
        write_rows(path, n_rows)
        for way in ("consilience", "colour-blind", "Birch", "MiniBatchKMeans"):
            found = in_a_process(way, path, n_rows, size, threshold_for(n_rows), limit)
            if isinstance(found, str):
                print(f"{way:16} {found}", flush=True)
                continue
            print(
                f"{way:16} {found.seconds:8.2f} {n_rows / found.seconds:9,.0f} {found.peak / 1e6:8.0f} "
                f"{(found.peak - found.loaded) / 1e6:17.0f} | {found.representatives:6d} {found.nearest:8.3f} "
                f"{found.movement:8.3f}",
                flush=True,
            )


def in_a_process(way: str, path: Path, n_rows: int, size: int, threshold: float, limit: float) -> Pass | str:
    """`run_way` in a process of its own, or why there is nothing to show."""
    arguments = [way, str(path), str(n_rows), str(size), str(threshold)]
    found = told([sys.executable, "-m", "benchmarks.coreset_pass", *arguments], limit)
    return found if isinstance(found, str) else Pass(**found)


def threshold_for(n_rows: int) -> float:
    """Birch's threshold for the number of rows in `THRESHOLDS` that is nearest."""
    return THRESHOLDS[min(THRESHOLDS, key=lambda n: abs(np.log(n / n_rows)))]


def search_threshold(n_rows: int, size: int, limit: float) -> None:
    """Print Birch's threshold with which it has `size` subclusters, within 3 %, found by bisection."""
    print(f"\nBirch's threshold for {size:,} subclusters of {n_rows:,} rows")
    low, high = 1.0, 8.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.bin"
        write_rows(path, n_rows)
        while high / low > 1.001:
            threshold = (low * high) ** 0.5
            found = in_a_process("Birch", path, n_rows, size, threshold, limit)
            if isinstance(found, str):
                print(f"{threshold:8.4f} {found}")
                return
            print(f"{threshold:8.4f} {found.representatives:8d} {found.seconds:8.2f} s", flush=True)
            if abs(found.representatives / size - 1) < 0.03:
                return
            low, high = (threshold, high) if found.representatives > size else (low, threshold)


def main() -> None:
    """In a process of its own: measure one way, print it as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coreset_pass")
    parser.add_argument("way")
    parser.add_argument("path", type=Path)
    parser.add_argument("n_rows", type=int)
    parser.add_argument("size", type=int)
    parser.add_argument("threshold", type=float)
    options = parser.parse_args()
    print(json.dumps(vars(run_way(**vars(options)))))


if __name__ == "__main__":
    main()
