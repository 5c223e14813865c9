"""SEC: the exchange of L models on L shards beside a double loop of ``predict``, its growth with L, and landmarks.

Run it with ``python -m benchmarks.sec``; ``--help`` shows what can be left out. docs/measurements.md has the figures.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float64, Int64
from sklearn.base import BaseEstimator
from sklearn.metrics import adjusted_rand_score, mean_squared_error

from benchmarks.bc3e import machine
from clients.regressors import parse_candidates
from clients.sec.selection import forget_fits, select
from numerics.sec import choose_landmarks, cluster, complete, dissimilarity, same_partition, similarity
from numerics.sec.mixture import mean_squared_errors
from numerics.sec.predictors import Predictors
from numerics.shared.threads import single_threaded
from protocols.settings import declared
from scenarios.sources import find_grid, read_grid

MIXES = ("rf lr", "rf", "lr")
"""Candidates of a learner: what Select picks of both, and each alone."""
N_ROWS, N_INPUTS, MIN_LEAF = 160, 12, 5
_GROWTH_SECONDS = 5.0
SHARED = Path(__file__).parents[2] / "shared" / "data" / "grid_stability.csv.gz"

Shard = tuple[Float64[np.ndarray, "n p"], Float64[np.ndarray, "n"]]
Losses = Float64[np.ndarray, "learners models"]
_T = TypeVar("_T")


def shards(n_learners: int) -> tuple[str, list[Shard]]:
    """Where the rows come from, and 160 of them for every learner, no two alike at one learner."""
    rng = np.random.default_rng(0)
    path = find_grid(declared()) or (SHARED if SHARED.exists() else None)
    if path is not None:
        data = read_grid(path)
        source, x, y = str(path), data.x, data.y
    else:
        source, x = "made rows, for grid_stability.csv is not there", rng.normal(size=(10_000, N_INPUTS))
        y = x @ rng.normal(size=N_INPUTS) + np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=len(x))
    drawn = [rng.choice(len(y), N_ROWS, replace=False) for _ in range(n_learners)]
    return source, [(x[rows], y[rows]) for rows in drawn]


def fit_all(mix: str, held: Sequence[Shard]) -> list[BaseEstimator]:
    """Every learner's choice."""
    forget_fits()
    candidates = parse_candidates(mix)
    return [
        select(candidates, x, y, standardize="model", min_leaf=MIN_LEAF, rng_seed=learner).model
        for learner, (x, y) in enumerate(held)
    ]


# -- three ways to exchange -------------------------------------------------------------------------------------------


def double_loop(models: Sequence[BaseEstimator], held: Sequence[Shard]) -> Losses:
    """Every model predicts by itself at every learner."""
    return np.array([[mean_squared_error(y, model.predict(x)) for model in models] for x, y in held])


def prepared_by_each(models: Sequence[BaseEstimator], held: Sequence[Shard]) -> Losses:
    """Every learner prepares the models that it was sent, as separate sites do."""
    return np.array([mean_squared_errors(Predictors(models).predict(x), y) for x, y in held])


def prepared_once(models: Sequence[BaseEstimator], held: Sequence[Shard]) -> Losses:
    """The models are prepared once for all learners of a process, as `numerics.sec.predictors.prepared` does."""
    predictors = Predictors(models)
    return np.array([mean_squared_errors(predictors.predict(x), y) for x, y in held])


def timed(function: Callable[[], _T], runs: int, within: float = math.inf) -> tuple[float, list[float], _T]:
    """Median seconds, all of them, and what the function returned last; no run begins after `within` seconds."""
    seconds: list[float] = []
    while len(seconds) < max(runs, 1) and sum(seconds) < within:
        started = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds), seconds, result


def measure_exchange(n_learners: int, runs: int) -> None:
    """Print seconds of all L x L losses, the three ways, for every mix of candidates."""
    source, held = shards(n_learners)
    print(
        f"\nExchange, L={n_learners}, {N_ROWS} rows, {N_INPUTS} inputs, 1 thread, {runs} runs; {source}\n"
        f"{'candidates':10} {'forests':>7} {'':16} {'median s':>9} {'min s':>8} {'max s':>8} {'faster':>7} {'apart':>8}"
    )
    for mix in MIXES:
        models = fit_all(mix, held)
        n_forests = sum(hasattr(model, "estimators_") for model in models)
        plain, seconds, expected = timed(partial(double_loop, models, held), runs)
        _print_way(f"{mix:10} {n_forests:7d}", "double loop", plain, seconds, "")
        for way in (prepared_by_each, prepared_once):
            median, seconds, found = timed(partial(way, models, held), runs)
            apart = np.abs(found / expected - 1).max()
            _print_way(" " * 18, way.__name__.replace("_", " "), median, seconds, f"{plain / median:7.1f} {apart:8.0e}")


def _print_way(what: str, way: str, median: float, seconds: Sequence[float], rest: str) -> None:
    print(f"{what} {way:16} {median:9.4f} {min(seconds):8.4f} {max(seconds):8.4f} {rest}", flush=True)


# -- growth -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Growth:
    """Seconds of both steps for a number of learners."""

    n_learners: int
    select: float
    exchange: float


def measure_growth(sizes: Sequence[int], runs: int) -> None:
    """Print seconds of Select and of the exchange at all learners together, and their slopes in L."""
    print(
        f"\nGrowth: all learners of a run, one after the other, each preparing the models; medians of {runs} runs, of"
        f" fewer where they take more than {_GROWTH_SECONDS:g} s\n"
        f"{'candidates':10} {'L':>5} {'select s':>9} {'exchange s':>10} {'per learner, ms':>15}"
    )
    for mix in MIXES:
        found = []
        for n_learners in sizes:
            _, held = shards(n_learners)
            chosen, _, models = timed(partial(fit_all, mix, held), runs, _GROWTH_SECONDS)
            exchanged, _, _ = timed(partial(prepared_by_each, models, held), runs, _GROWTH_SECONDS)
            found.append(Growth(n_learners, chosen, exchanged))
            print(
                f"{mix:10} {n_learners:5d} {chosen:9.3f} {exchanged:10.4f} {exchanged / n_learners * 1e3:15.2f}",
                flush=True,
            )
        if len(found) > 1:
            sizes_log = np.log([each.n_learners for each in found])
            slopes = (
                np.polyfit(sizes_log, np.log([getattr(each, step) for each in found]), 1)[0]
                for step in ("select", "exchange")
            )
            print(
                f"{mix:10} {'slope':>5} "
                + " ".join(f"{slope:{w}.2f}" for slope, w in zip(slopes, (9, 10), strict=True))
            )


# -- landmarks --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """Groups of learners with 50 rows each of ``y = beta' x + e``, one standard normal beta for a group."""

    n_groups: int
    n_inputs: int
    snr: float

    @property
    def text(self) -> str:
        """For a table."""
        return f"K={self.n_groups} p={self.n_inputs} SNR={self.snr:g}"

    def draw(self, n_learners: int, seed: int) -> tuple[Losses, Int64[np.ndarray, "learners"]]:
        """Losses of everybody's least squares at everybody, rows standardised by their learner, and the groups."""
        rng, n, p = np.random.default_rng(seed), 50, self.n_inputs
        group = np.sort(np.arange(n_learners) % self.n_groups)
        betas, x = rng.normal(size=(self.n_groups, p)), rng.normal(size=(n_learners, n, p))
        noise = rng.normal(size=(n_learners, n)) * np.sqrt(p / self.snr)
        y = np.einsum("lnp,lp->ln", x, betas[group]) + noise
        x = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
        y = (y - y.mean(axis=1, keepdims=True)) / y.std(axis=1, keepdims=True)
        # All losses from sums of products: ||y - X b||^2 = y'y - 2 b'X'y + b'X'X b.
        xx, xy, yy = np.einsum("lnp,lnq->lpq", x, x), np.einsum("lnp,ln->lp", x, y), (y**2).sum(axis=1)
        b = np.linalg.solve(xx, xy[..., np.newaxis])[..., 0]
        fitted = np.einsum("ip,jpq,iq->ij", b, xx, b, optimize=True)
        return (yy - 2 * b @ xy.T + fitted) / n, group


PROBLEMS = (Problem(2, 5, 0.5), Problem(5, 5, 4.0), Problem(5, 20, 4.0))
LANDMARKS = (5, 10, 15, 20, 30, 45, 60)


def measure_landmarks(n_learners: int, draws: int) -> None:
    """Print how well the groups are found, their number given, when everybody tries the models of m landmarks only."""
    print(
        f"\nLandmarks: L={n_learners}, {draws} draws, mean adjusted Rand index / % of draws exactly right\n"
        f"{'m':18}" + "".join(f"{m:>10}" for m in (*LANDMARKS, "all"))
    )
    for problem in PROBLEMS:
        worlds = [problem.draw(n_learners, seed) for seed in range(draws)]
        cells = []
        for m in (*LANDMARKS, n_learners):
            found = [(group, _recovered(losses, m, problem, seed)) for seed, (losses, group) in enumerate(worlds)]
            index = np.mean([adjusted_rand_score(group, labels) for group, labels in found])
            exact = np.mean([same_partition(group, labels) for group, labels in found])
            cells.append(f"{index:6.2f}/{100 * exact:3.0f}")
        print(f"{problem.text:18}" + "".join(cells), flush=True)


def _recovered(losses: Losses, m: int, problem: Problem, seed: int) -> Int64[np.ndarray, "learners"]:
    """Clusters that the center finds from the losses of m of the models."""
    rng = np.random.default_rng([seed, m])
    known = np.full_like(losses, np.nan)
    landmarks = choose_landmarks(len(losses), m, rng) if m < len(losses) else np.arange(len(losses))
    known[landmarks] = losses[landmarks]
    partial, _ = similarity(dissimilarity(known, np.diag(losses)))
    return cluster(complete(partial), k=problem.n_groups, rng=rng).labels


def main(arguments: Sequence[str] | None = None) -> None:
    """All parts, one after the other."""
    parser: Any = argparse.ArgumentParser(prog="python -m benchmarks.sec", description=__doc__.partition("\n")[0])
    parser.add_argument("--learners", type=int, nargs="*", default=[50], help="sizes of the exchange beside the loop")
    parser.add_argument("--growth", type=int, nargs="*", default=[10, 20, 50, 100, 200], help="sizes of the growth")
    parser.add_argument("--runs", type=int, default=3, help="runs, of which the median counts")
    parser.add_argument("--landmarks", action="store_true", help="the landmarks only, with more draws and learners")
    options = parser.parse_args(arguments)
    print(machine())
    with single_threaded():
        if options.landmarks:
            measure_landmarks(100, 40)
            measure_landmarks(500, 20)
            return
        for n_learners in options.learners:
            measure_exchange(n_learners, options.runs)
        if options.growth:
            measure_growth(options.growth, options.runs)
        measure_landmarks(100, 10)


if __name__ == "__main__":
    main()
