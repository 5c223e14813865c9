"""BC3E: one E-step beside a plain NumPy reference, and rounds to converge with and without acceleration.

Run it with ``python -m benchmarks.bc3e``; ``--help`` shows what can be left out. docs/measurements.md has the figures.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, RecordDict
from jaxtyping import Float64, Int64
from scipy.special import psi

from benchmarks.processes import memory
from clients.dispatch import handler_of
from clients.site import Site, site_name
from consilience.settings import Value, declared
from numerics.bc3e.e_step import EStepSettings, add_alpha, cold_start, e_step, likelihood_table
from numerics.bc3e.ensemble import Ensemble
from numerics.bc3e.grid import MAX_BITS
from protocols.wire.message import Ask
from scenarios.bc3e import CLUSTERINGS
from scenarios.registry import ScenarioError, find
from strategies.bc3e import Ensemble as Learnt
from strategies.bc3e import from_config
from strategies.conversation import Answers, flatten, gather, parcels_for

N_CLASSES, N_CLASSIFIERS, N_CLUSTERINGS, N_CLUSTERS = 5, 3, 5, 10
TOLERANCE = 1e-8
COMPARED = 1000
"""Instances whose gamma the two ways are compared on."""

SCENARIOS = ("bc3e-wine", "bc3e-halfmoon", "bc3e-heart")
MAX_ROUNDS = 10_000

Betas = Mapping[str, Float64[np.ndarray, "k k_m"]]


def threads() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> str:
    """Processor, cores and versions, in one line."""
    cpuinfo = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in _lines(cpuinfo) if line.startswith("model name")]
    return (
        f"{names[0] if names else platform.processor() or platform.machine()}, {threads()} cores; "
        f"Python {platform.python_version()}, NumPy {np.__version__}"
    )


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


# -- one E-step -------------------------------------------------------------------------------------------------------


def draw_beta(rng: np.random.Generator) -> Float64[np.ndarray, "k k_m"]:
    """Clusters that follow classes: every class has two of its own, which take 90 % of its instances."""
    beta = 0.1 * rng.dirichlet(np.full(N_CLUSTERS, 0.2), N_CLASSES)
    for i in range(N_CLASSES):
        beta[i, 2 * i : 2 * i + 2] += 0.45
    return np.asarray(beta / beta.sum(axis=1, keepdims=True))


def draw_labels(
    n: int, alpha: Float64[np.ndarray, "k"], betas: Betas, rng: np.random.Generator
) -> dict[str, Int64[np.ndarray, "n"]]:
    """Labels drawn from the model (Acharya et al. 2011, II-A); ``int64``, as `clients.bc3e.shard` makes them."""

    def draw(cumulated: Float64[np.ndarray, "n j"]) -> Int64[np.ndarray, "n"]:
        above = (rng.random((n, 1)) > cumulated).sum(axis=1)
        return np.asarray(np.minimum(above, cumulated.shape[1] - 1), np.int64)

    theta = rng.dirichlet(alpha, n).cumsum(axis=1)
    labels = {f"class_{place}": draw(theta) for place in range(N_CLASSIFIERS)}
    for name, beta in betas.items():
        labels[name] = draw(beta.cumsum(axis=1)[draw(theta)])
    return labels


def load_ensemble(path: Path) -> tuple[Float64[np.ndarray, "k"], Betas, Ensemble]:
    """alpha, beta and labels from the file that `measure_e_step` wrote."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    betas = {name.removeprefix("beta/"): array for name, array in arrays.items() if name.startswith("beta/")}
    classifiers = {name: array for name, array in arrays.items() if name.startswith("class_")}
    n = len(next(iter(classifiers.values())))
    return arrays["alpha"], betas, Ensemble(n, classifiers, {name: arrays[name] for name in betas})


def ours(alpha: Float64[np.ndarray, "k"], betas: Betas, ensemble: Ensemble) -> Float64[np.ndarray, "n k"]:
    """A site's E-step from a cold start, with all that it answers: gamma and the sums of the M-step."""
    classifiers, clusterings = ensemble.classifiers, ensemble.clusterings
    tables = {name: likelihood_table(beta) for name, beta in betas.items()}
    start = add_alpha(alpha, cold_start(classifiers, clusterings, ensemble.n, len(alpha), MAX_BITS), MAX_BITS)
    settings = EStepSettings(MAX_BITS, TOLERANCE)
    gamma, _ = e_step(alpha, tables, classifiers, clusterings, start, settings, threads())
    return gamma.T


def reference(alpha: Float64[np.ndarray, "k"], betas: Betas, ensemble: Ensemble) -> Float64[np.ndarray, "n k"]:
    """Eqs. (5) and (6) as they stand, on all instances at once, until every gamma has settled; gamma only, no sums."""
    log_beta = np.stack([np.log(betas[name]).T[labels] for name, labels in ensemble.clusterings.items()], axis=1)
    classes = np.arange(len(alpha))
    votes = np.stack([labels[:, None] == classes for labels in ensemble.classifiers.values()]).sum(axis=0)
    gamma = alpha + votes + len(betas) / len(alpha)
    while True:
        phi = psi(gamma)[:, None, :] + log_beta  # (n, r2, k)
        phi -= phi.max(axis=2, keepdims=True)
        phi = np.exp(phi)
        phi /= phi.sum(axis=2, keepdims=True)
        after = alpha + votes + phi.sum(axis=1)
        change = np.abs(after - gamma).max()
        gamma = after
        if change <= TOLERANCE:
            return np.asarray(gamma)


WAYS: Mapping[str, Callable[..., Float64[np.ndarray, "n k"]]] = {"consilience": ours, "reference": reference}


@dataclass(frozen=True)
class Measured:
    """Seconds of every run, bytes that the first one needed beside its input (0: not known), and some of gamma."""

    seconds: list[float]
    peak: int
    gamma: Float64[np.ndarray, "c k"]


def run_way(way: str, path: Path, runs: int, out: Connection) -> None:
    """In a fresh process: load the labels, run, and send what was measured."""
    alpha, betas, ensemble = load_ensemble(path)
    WAYS[way](alpha, betas, ensemble.rows(np.arange(100)))  # imports and first calls are not counted
    before = memory("VmRSS")
    seconds, peak = [], 0
    for place in range(runs):
        started = time.perf_counter()
        gamma = WAYS[way](alpha, betas, ensemble)
        seconds.append(time.perf_counter() - started)
        if place == 0:
            peak = memory("VmHWM") - before if before else 0
    out.send(Measured(seconds, peak, gamma[:COMPARED].copy()))


def in_fresh_process(way: str, path: Path, runs: int, limit: float) -> Measured | None:
    """`run_way` in a process of its own; None if it took longer than `limit` seconds or died, out of memory say."""
    spawn = multiprocessing.get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    process = spawn.Process(target=run_way, args=(way, path, runs, sender))
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(limit) else None
    except EOFError:
        return None
    finally:
        process.kill()
        process.join()


def measure_e_step(n: int, runs: int, limit: float) -> None:
    """Print seconds and memory of both ways for `n` instances."""
    rng = np.random.default_rng(0)
    alpha = np.full(N_CLASSES, 0.3)
    betas = {f"cluster_{place}": draw_beta(rng) for place in range(N_CLUSTERINGS)}
    labels = draw_labels(n, alpha, betas, rng)
    size = sum(array.nbytes for array in labels.values())
    print(
        f"\nE-step, {n:,} instances: k={N_CLASSES}, {N_CLASSIFIERS} classifiers, {N_CLUSTERINGS} clusterings of "
        f"{N_CLUSTERS}; cold start, to {TOLERANCE:g}; input {size / 1e6:.1f} MB of int64 labels"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.npz"
        np.savez(path, alpha=alpha, **{f"beta/{name}": beta for name, beta in betas.items()}, **labels)  # type: ignore[arg-type]
        del labels
        measured = {
            "consilience": in_fresh_process("consilience", path, runs, limit),
            "reference": in_fresh_process("reference", path, 1 if n > 300_000 else runs, limit),
        }
    print(f"{'':12} {'median s':>9} {'min s':>8} {'max s':>8} {'runs':>5} {'peak MB':>8} {'peak/input':>10}")
    for way, result in measured.items():
        if result is None:
            print(f"{way:12} did not end within {limit:g} s, or ran out of memory")
            continue
        seconds = result.seconds
        print(
            f"{way:12} {statistics.median(seconds):9.3f} {min(seconds):8.3f} {max(seconds):8.3f} {len(seconds):5d} "
            f"{result.peak / 1e6:8.1f} {result.peak / size:10.2f}"
        )
    fast, plain = measured["consilience"], measured["reference"]
    if fast and plain:
        ratio = statistics.median(plain.seconds) / statistics.median(fast.seconds)
        apart = np.abs(fast.gamma - plain.gamma).max()
        print(f"{ratio:.1f} times as fast; gamma differs by {apart:.1e} at most ({len(fast.gamma)} instances compared)")


# -- rounds to converge -----------------------------------------------------------------------------------------------


def learn(scenario: str, clusterings: str, seed: int, *, accelerate: bool, n_sites: int = 2) -> Learnt:
    """The whole conversation with the sites' real handlers, in this process."""
    config: dict[str, Value] = {**declared(), "scenario": scenario, "seed": seed, "output-dir": ""}
    config |= {"bc3e.accelerate": accelerate, "bc3e.max-rounds": MAX_ROUNDS, "bc3e.clusterings": clusterings}
    sites: dict[str, Site] = {}
    for place in range(n_sites):
        node: dict[str, Value] = {"partition-id": place, "num-partitions": n_sites}
        context = Context(1, place, node, RecordDict(), config)
        name = site_name(context)
        sites[name] = Site.open(name, context, Ask("benchmark", 1, seed, ()))
    conversation = from_config(config, seed=seed).conversation()
    request = next(conversation)
    while True:
        flat = flatten(request)
        answers: dict[str, Answers] = {lane: {} for lane in flat}
        for name, site in sites.items():
            for parcel in parcels_for(flat, name):
                answer = handler_of(type(parcel.payload))(parcel.payload, site.in_lane(parcel.lane or "0"))
                answers[parcel.lane][name] = answer
        try:
            request = conversation.send(gather(request, answers))
        except StopIteration as stop:
            learnt: Learnt = stop.value
            return learnt


def measure_rounds(repetitions: int) -> None:
    """Print how many E-steps a fit takes, plain and accelerated, and whose bound ends higher."""
    print(
        f"\nRounds (E-steps) to a relative bound change of 1e-6, {repetitions} repetitions, row distribution\n"
        f"{'scenario':14} {'clusterings':12} {'':>11} {'mean':>6} {'median':>6} {'max':>5} {'accuracy':>8}"
        "   final bound, accelerated against plain"
    )
    for scenario in SCENARIOS:
        for clusterings in CLUSTERINGS:
            try:
                find(scenario).shards({**declared(), "scenario": scenario}, 0, 2)
            except ScenarioError as error:
                print(f"{scenario:14} left out: {error}")
                break
            plain, fast = (
                [learn(scenario, clusterings, seed, accelerate=accelerate) for seed in range(repetitions)]
                for accelerate in (False, True)
            )
            _print_rounds(scenario, clusterings, "plain", plain, "")
            _print_rounds("", "", "accelerated", fast, _compared(plain, fast))


def _print_rounds(scenario: str, clusterings: str, kind: str, fits: Sequence[Learnt], remark: str) -> None:
    rounds = [each.fit.rounds for each in fits]
    accuracy = statistics.mean(each.correct["bc3e"] / each.total["bc3e"] for each in fits)
    print(
        f"{scenario:14} {clusterings:12} {kind:>11} {statistics.mean(rounds):6.1f} {statistics.median(rounds):6.1f} "
        f"{max(rounds):5d} {accuracy:8.4f}   {remark}",
        flush=True,
    )


def _compared(plain: Sequence[Learnt], fast: Sequence[Learnt], near: float = 1e-4) -> str:
    """Whose final bound is higher, by more than a share `near` of its size."""
    gains = [(b.fit.bound - a.fit.bound) / abs(a.fit.bound) for a, b in zip(plain, fast, strict=True)]
    higher, lower = sum(gain > near for gain in gains), sum(gain < -near for gain in gains)
    return f"higher {higher}, equal to {near:g} {len(gains) - higher - lower}, lower {lower}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Both parts, one after the other."""
    parser: Any = argparse.ArgumentParser(prog="python -m benchmarks.bc3e", description=__doc__.partition("\n")[0])
    parser.add_argument("--instances", type=int, nargs="*", default=[100_000, 1_000_000], help="sizes of the E-step")
    parser.add_argument("--runs", type=int, default=5, help="runs of an E-step, of which the median counts")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a way of an E-step is ended")
    parser.add_argument("--repetitions", type=int, default=20, help="fits for each scenario; 0 leaves the rounds out")
    options = parser.parse_args(arguments)
    print(machine())
    for n in options.instances:
        measure_e_step(n, options.runs, options.limit)
    if options.repetitions:
        measure_rounds(options.repetitions)


if __name__ == "__main__":
    main()
