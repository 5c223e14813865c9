"""Gaussian process experts: speed and accuracy beside GPyTorch and scikit-learn; the center's arithmetic.

Run it with ``python -m benchmarks.gp``; ``--help`` shows what can be chosen. docs/measurements.md has figures.
Everything has one thread, and seconds are the processor's: what else runs on the machine adds little to them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import psutil

from benchmarks.bc3e import machine
from benchmarks.gp_peers import PEERS, bytes_held
from benchmarks.gp_ways import OURS, Found, World
from benchmarks.processes import load, told
from numerics.gp.aggregation import ExpertPredictions, FusedPrediction, aggregate
from numerics.shared.threads import single_threaded

PARTS = ("peers", "center")
WAYS = (next(iter(OURS)), *PEERS)
CENTER_N, CENTER_K = 5730, (35, 70)
"""Query points of protein, and half or all of its experts."""
LANDMARKS = (32, 64)
_NOISE = 0.1


class Case(NamedTuple):
    """A world, its rows and inputs, with how many seeds it is run, and whether that takes long."""

    world: World
    rows: int
    inputs: int
    seeds: int
    long: bool


def cases(data: str, seeds: int, rows: int) -> dict[str, Case]:
    """Worlds by name: sites of one expert each, half of them for each point, of concrete six as in the paper."""
    protein = World("gp-protein", 0, 0, 70, 35, data)
    return {
        "concrete": Case(World("gp-concrete", 0, 0, 10, 6, data), 927, 8, seeds, False),
        "airfoil": Case(World("gp-airfoil", 0, 0, 5, 3, data), 1203, 5, seeds, False),
        "pumadyn": Case(World("gp-pumadyn", 0, 0, 10, 5, data), 7168, 32, 1, True),
        "protein-part": Case(replace(protein, rows=rows, parts=10, experts=5), rows, 9, 1, True),
        "protein": Case(protein, 40_000, 9, 1, True),
    }


# -- beside peers -----------------------------------------------------------------------------------------------------


def measure_peers(chosen: Mapping[str, Case], ways: Sequence[str], limit: float) -> None:
    """Print what each way takes and reaches, world by world."""
    for name, case in chosen.items():
        world = case.world
        print(
            f"\n{name}: {world.parts} sites, {world.experts} experts a point, {case.seeds} draws (median seconds, mean"
            f" scores); a process each, 1 thread; {load()}\n"
            f"{'':20} {'learn s':>8} {'together':>8} {'predict s':>9} {'together':>8} {'center':>7} | {'SMSE':>6}"
            f" {'MSLL':>7} {'in 95 %':>7} | {'asks':>4} {'peak MB':>7} {'of which own':>12}"
        )
        found: dict[str, list[Found]] = {}
        for way in ways:
            told_of = _measured(way, case, limit)
            if isinstance(told_of, str):
                print(f"{way:20} left out: {told_of}", flush=True)
                continue
            for each, runs in told_of.items():
                _print_row(each, runs)
            found |= told_of
        print_ratios(found)


def _measured(way: str, case: Case, limit: float) -> dict[str, list[Found]] | str:
    """What a way found with each seed, by name; or why there is nothing to show."""
    held = bytes_held(way, case.rows, case.inputs)
    if held > psutil.virtual_memory().available:
        return f"it would hold about {held / 1e9:.0f} GB"
    found: dict[str, list[Found]] = {}
    for seed in range(case.seeds):
        world = json.dumps(asdict(replace(case.world, seed=seed)))
        said = told([sys.executable, "-m", "benchmarks.gp_ways", way, world], limit)
        if isinstance(said, str):
            return said
        for name, fields in said.items():
            found.setdefault(name, []).append(Found.told(fields))
    return found


def _print_row(name: str, runs: Sequence[Found]) -> None:
    def median(of: Callable[[Found], float]) -> float:
        return statistics.median(map(of, runs))

    def mean(of: Callable[[Found], float]) -> float:
        return statistics.fmean(map(of, runs))

    print(
        f"{name:20} {median(lambda r: r.learning.all):8.2f} {median(lambda r: r.learning.together):8.2f} "
        f"{median(lambda r: r.prediction.all):9.3f} {median(lambda r: r.prediction.together):8.3f} "
        f"{median(lambda r: r.prediction.center):7.3f} | {mean(lambda r: r.smse):6.4f} {mean(lambda r: r.msll):7.4f} "
        f"{mean(lambda r: r.coverage):7.3f} | {mean(lambda r: r.rounds):4.1f} {median(lambda r: r.peak) / 1e6:7.0f} "
        f"{median(lambda r: r.peak - r.loaded) / 1e6:12.0f}",
        flush=True,
    )


def print_ratios(found: Mapping[str, Sequence[Found]]) -> None:
    """What the targets are about: our scores beside each other way's, and how many times as fast we learn."""
    ours = found.get(WAYS[0])
    for name, runs in found.items() if ours else ():
        if name in OURS or not ours:
            continue
        smse = statistics.fmean(a.smse for a in ours) / statistics.fmean(b.smse for b in runs)
        msll = statistics.fmean(a.msll for a in ours) - statistics.fmean(b.msll for b in runs)
        speed = statistics.median(b.learning.all for b in runs) / statistics.median(a.learning.all for a in ours)
        print(f"{WAYS[0]} by {name}: SMSE x {smse:.3f}, MSLL {msll:+.4f}, learns {speed:.1f} times as fast", flush=True)


# -- the center -------------------------------------------------------------------------------------------------------


def measure_center(runs: int) -> None:
    """Print seconds to make one prediction of the experts' answers, at the size of protein."""
    print(
        f"\nThe center's arithmetic: {CENTER_N} points, K of 70 experts, D landmarks, median of {runs}, 1 thread;"
        f" {load()}\n{'rule':8} {'K':>3} {'D':>3} {'seconds':>8}"
    )
    for K in CENTER_K:
        for D in LANDMARKS:
            said = answers(CENTER_N, K, D, np.random.default_rng(0))
            _print_center("npae", K, str(D), partial(_fused, "npae", said), runs)
        for rule in ("rbcm", "grbcm"):
            _print_center(rule, K, "", partial(_fused, rule, said), runs)


def answers(n: int, K: int, D: int, rng: np.random.Generator) -> ExpertPredictions:
    """What experts might say: some know a point well, most little, and their predictions depend on one another."""
    explained = rng.beta(0.5, 1.0, (n, K))
    directions = rng.normal(size=(n, 1, D)) + rng.normal(size=(n, K, D))
    directions *= rng.uniform(0.5, 1.0, (n, K, 1)) / np.linalg.norm(directions, axis=2, keepdims=True)
    mean = np.sqrt(explained) * rng.normal(size=(n, K))
    common = rng.normal(size=n), 0.5 * explained.min(axis=1)
    return ExpertPredictions(mean, explained, np.ones((n, K), bool), directions.astype(np.float16), common=common)


def _fused(rule: str, said: ExpertPredictions) -> FusedPrediction:
    return aggregate(rule, said, np.ones(len(said.mean)), _NOISE)


def _print_center(rule: str, K: int, D: str, work: Callable[[], FusedPrediction], runs: int) -> None:
    seconds = []
    for _ in range(runs):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    print(f"{rule:8} {K:3d} {D:>3} {statistics.median(seconds):8.3f}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """All parts, one after the other."""
    parser: Any = argparse.ArgumentParser(prog="python -m benchmarks.gp", description=__doc__.partition("\n")[0])
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS, help="what is measured")
    parser.add_argument(
        "--worlds", nargs="*", choices=list(cases("", 1, 0)), help="those beside peers; else the ones that are quick"
    )
    parser.add_argument("--long", action="store_true", help="all worlds: an hour and more")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=WAYS, help="the protocol and its peers")
    parser.add_argument("--data", default="", help="directory of concrete.csv and the others; else CONSILIENCE_DATA")
    parser.add_argument("--seeds", type=int, default=3, help="draws of concrete and airfoil; of others it is one")
    parser.add_argument("--rows", type=int, default=5000, help="rows of protein-part")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds after which a process is ended")
    parser.add_argument("--runs", type=int, default=5, help="of the center's arithmetic, of which the median counts")
    options = parser.parse_args(arguments)
    worlds = cases(options.data, options.seeds, options.rows)
    wanted = options.worlds or [name for name, case in worlds.items() if options.long or not case.long]
    print(machine())
    if "peers" in options.parts:
        measure_peers({name: worlds[name] for name in wanted}, options.ways, options.limit)
    if "center" in options.parts:
        with single_threaded():
            measure_center(options.runs)


if __name__ == "__main__":
    main()
