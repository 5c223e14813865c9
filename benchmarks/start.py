"""Seconds of whole runs and of rounds by the local engine and by Flower's, and of the stages of a run.

Run it with ``python -m benchmarks.start``. docs/measurements.md has the figures of one run. It has four parts:

- ``page``: ``consilience run bc3e-wine`` by the local engine and by Flower's, and ``flwr run``, one after the other.
- ``rounds``: a round of 2, 20 and 200 sites by either engine.
- ``stages``: processor seconds of each stage of a run by the local engine.
- ``workers``: a run with much local work, in one process and in two.

The fastest of several runs counts, because other work on the machine can only slow a run down.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CONSILIENCE = [sys.executable, "-m", "consilience"]
PARTS = ("page", "rounds", "stages", "workers")
N_SITES = (2, 20, 200)
HEAVY = ("gp-synthetic", "--set", "cells=part=figure11 M=10 K=5")


@dataclass(frozen=True)
class Cost:
    """Cost of a command.

    Attributes
    ----------
    wall : float
        Seconds from start to end.
    cpu : float
        Processor seconds of its process and of those that it waited for.
    results : Path
        The results directory that it printed.
    """

    wall: float
    cpu: float
    results: Path


def cost_of(command: Sequence[str], env: Mapping[str, str]) -> Cost:
    """Run a command to its end."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=dict(env), capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(command)} ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}"
        )
    named = [line.rpartition("results: ")[2] for line in done.stdout.splitlines() if "results: /" in line]
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Cost(wall, cpu, Path(named[-1]))


def best(costs: Sequence[Cost]) -> str:
    """Return the cells with the shortest wall and processor time of several runs."""
    return f"{min(each.wall for each in costs):.1f} | {min(each.cpu for each in costs):.1f}"


@contextmanager
def surroundings() -> Iterator[tuple[dict[str, str], Path]]:
    """Yield an environment with a temporary home of Flower, and a folder for results."""
    from consilience.flower_programs import environment

    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        yield {**environment(), "FLWR_HOME": str(Path(folder) / "home")}, Path(folder) / "results"


def page(times: int) -> None:
    """Measure runs from the command to the page, by each engine in turn."""
    from consilience.superlink import own_superlink

    with surroundings() as (env, folder):
        output = ["--output-dir", str(folder)]
        flwr = [str(Path(sys.executable).parent / "flwr"), "run", ".", "--stream"]
        run = [*CONSILIENCE, "run", "bc3e-wine"]
        commands: dict[str, list[str]] = {
            "`consilience run bc3e-wine`": [*run, *output],
            "`consilience run bc3e-wine --engine flower`": [*run, "--engine", "flower", *output],
            "`flwr run . --stream`, its SuperLink up": [*flwr, "--run-config", f'output-dir="{folder}"'],
        }
        costs: dict[str, list[Cost]] = {name: [] for name in commands}
        with own_superlink(env) as superlink:
            cost_of(next(iter(commands.values())), env)  # the first run compiles modules
            for _ in range(times):
                for name, command in commands.items():
                    costs[name].append(cost_of(command, superlink.env if "flwr" in command[0] else env))
    print("\n| command | wall, s | processor, s |\n| --- | --- | --- |")
    for name, each in costs.items():
        known = best(each) if "flwr" not in name and "flower" not in name else f"{best(each).partition(' |')[0]} | "
        print(f"| {name} | {known} |")


def rounds(times: int) -> None:
    """Measure rounds of few and of many sites by each engine in turn, as medians over all rounds except the first."""
    print("\n| sites | local round, ms | simulated round, ms | ratio |\n| --- | --- | --- | --- |")
    for n_sites in N_SITES:
        least = {"local": float("inf"), "flower": float("inf")}
        with surroundings() as (env, folder):
            settings = ["--set", "bc3e.max-rounds=8", "--set", "bc3e.accelerate=false", "--output-dir", str(folder)]
            for _ in range(times):
                for engine in least:
                    command = [*CONSILIENCE, "run", "bc3e-halfmoon", "--sites", str(n_sites), "--engine", engine]
                    results = cost_of([*command, *settings], env).results
                    rows = json.loads((results / "report.json").read_text(encoding="utf-8"))["convergence"]
                    least[engine] = min(least[engine], statistics.median(row["seconds"] for row in rows[1:]))
        local, flower = 1000 * least["local"], 1000 * least["flower"]
        print(f"| {n_sites} | {local:.1f} | {flower:.0f} | 1 : {flower / local:.0f} |", flush=True)


def workers(times: int) -> None:
    """Measure a run with much local work, in one process and with two workers."""
    print(f"\n| `consilience run {' '.join(HEAVY)}` | wall, s | processor, s |\n| --- | --- | --- |")
    costs: dict[str, list[Cost]] = {"in line": [], "two workers": []}
    with surroundings() as (env, folder):
        for _ in range(times):
            for name, each in costs.items():
                more = ["--workers", "2"] if name == "two workers" else []
                each.append(cost_of([*CONSILIENCE, "run", *HEAVY, *more, "--output-dir", str(folder)], env))
    for name, each in costs.items():
        print(f"| {name} | {best(each)} |")


# -- where the seconds go ---------------------------------------------------------------------------------------------


class Stages:
    """Processor seconds by stage; a stage inside another one is not counted twice."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._inner = [0.0]

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the seconds of the ``with`` statement's body to a stage."""
        start = time.process_time()
        self._inner.append(0.0)
        try:
            yield
        finally:
            took = time.process_time() - start
            self.seconds[name] += took - self._inner.pop()
            self._inner[-1] += took

    def wrap(self, owner: Any, attribute: str, name: str) -> None:
        """Add the seconds of all calls of a function to a stage; `owner` is its module or class."""
        function: Callable[..., Any] = getattr(owner, attribute)

        def call(*arguments: Any, **options: Any) -> Any:
            with self.stage(name):
                return function(*arguments, **options)

        if hasattr(function, "cache_clear"):
            setattr(call, "cache_clear", function.cache_clear)  # noqa: B010  (mypy knows no attributes of functions)
        setattr(owner, attribute, call)


def one_run_in_stages(folder: str) -> None:
    """Run bc3e-wine in this process, and print the stages as JSON."""
    stages = Stages()
    stages.seconds["Python itself"] = time.process_time()
    with stages.stage("imports: command and Flower"):
        from consilience.cli import app
        from server import app as server
        from server.results import ResultsDirectory
        from strategies.fusion import FusionStrategy
    with stages.stage("imports: matplotlib"):
        importlib.import_module("matplotlib.figure")
        importlib.import_module("matplotlib.backends.backend_agg")
    from clients import shards

    stages.wrap(shards, "_scenario_shards", "the scenario: scikit-learn imported, classifiers trained")
    stages.wrap(server, "_draw", "figures drawn")
    stages.wrap(ResultsDirectory, "finish", "page and files written")
    stages.wrap(FusionStrategy, "start", "protocol: 13 rounds, both sites, messages, checkpoint")
    with stages.stage("the rest: checks before the start, evaluation, what the command prints"):
        app(["run", "bc3e-wine", "--quiet", "--output-dir", folder], standalone_mode=False)
    print(json.dumps(stages.seconds))


def stages(times: int) -> None:
    """Measure the stages of ``consilience run bc3e-wine`` by processor seconds, in the fastest of several runs."""
    runs = []
    with surroundings() as (env, folder):
        for _ in range(times + 1):
            command = [sys.executable, "-m", "benchmarks.start", "--one-run", str(folder)]
            done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
            runs.append(json.loads(done.stdout.splitlines()[-1]))
    shortest = min(runs, key=lambda each: sum(each.values()))
    print("\n| stage of `consilience run bc3e-wine` | processor, s |\n| --- | --- |")
    for name, seconds in shortest.items():
        print(f"| {name} | {seconds:.2f} |")
    print(f"| together | {sum(shortest.values()):.2f} |")


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=3, help="runs of each kind")
    parser.add_argument("--parts", default=",".join(PARTS), help="which of page, rounds, stages, workers")
    parser.add_argument("--one-run", metavar="DIR", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one_run:
        one_run_in_stages(arguments.one_run)
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start; best of {arguments.times}")
    parts = {"page": page, "rounds": rounds, "stages": stages, "workers": workers}
    for name in arguments.parts.split(","):
        parts[name](arguments.times)


if __name__ == "__main__":
    main()
