"""Many SuperNodes on one machine: a run of bc3e with TLS and keys, during which some SuperNodes are killed.

Run it with ``python -m benchmarks.supernodes``. docs/measurements.md has figures.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil

from benchmarks.processes import machine
from common.value_ranges import Value
from consilience.local_federation import CENTER, LocalFederation, LocalSite, federation
from tests.process.processes import APP, THREADS, BackgroundRun, descendants, start_deployed_run

ROWS = 200
_TIMEOUT = 1800.0
"""Seconds to wait for a round, or for the end of the run."""


def write_sites(folder: Path, n_sites: int) -> list[LocalSite]:
    """Write a file for every site."""
    rng = np.random.default_rng(0)
    sites = []
    for place in range(n_sites):
        truth = rng.integers(0, 3, ROWS)
        columns = {f"class_{i}": np.where(rng.random(ROWS) < 0.3, rng.integers(0, 3, ROWS), truth) for i in range(3)}
        path = folder / f"site-{place:02d}.csv"
        pd.DataFrame({**columns, "cluster_x": truth, "cluster_y": (truth + 1) % 3}).to_csv(path, index=False)
        sites.append(LocalSite(path.stem, path, {}))
    return sites


def show_memory(started: LocalFederation, what: str) -> None:
    """Print the memory that no other process shares (USS), of the center and on average of a site."""

    def own(pid: int) -> float:
        family = [pid, *descendants(pid)]
        total = 0.0
        for each in family:
            try:
                total += psutil.Process(each).memory_full_info().uss
            except psutil.Error:
                continue
        return total / 2**20

    sizes = {name: own(process.pid) for name, process in started.processes.items() if process.poll() is None}
    center = sizes.pop(CENTER)
    used = psutil.virtual_memory()
    print(
        f"{what}: center {center:.0f} MiB, a site {np.mean(list(sizes.values())):.0f} MiB (at most"
        f" {max(sizes.values()):.0f}), all {(center + sum(sizes.values())) / 1024:.1f} GiB; the machine"
        f" {(used.total - used.available) / 2**30:.1f} of {used.total / 2**30:.1f} GiB",
        flush=True,
    )


def kill(started: LocalFederation, names: list[str]) -> None:
    """Kill SuperNodes and all processes that they have started."""
    for name in names:
        pid = started.processes[name].pid
        for each in (pid, *descendants(pid)):
            os.kill(each, signal.SIGKILL)


def yield_to_center(started: LocalFederation, names: list[str]) -> None:
    """Lower the priority of SuperNodes, and still more that of their later children, the ClientApps.

    All share the center's cores here. Otherwise the ServerApp, or a SuperNode, may have no time to report that it is
    alive: Flower ends the run, or the center asks the site again while its first ClientApp still starts.
    """
    for name in names:
        pid = started.processes[name].pid
        os.setpriority(os.PRIO_PROCESS, pid, 5)
        for child in descendants(pid):
            os.setpriority(os.PRIO_PROCESS, child, 15)


def carry_out(started: LocalFederation, run: BackgroundRun, dying: list[str]) -> None:
    """Kill SuperNodes after the second round, and wait for the end of the run."""
    run.wait_for("round   1", _TIMEOUT)
    show_memory(started, "in the second round")
    run.wait_for("round   2", _TIMEOUT)
    kill(started, dying)
    print(f"killed after round 2: {len(dying)}", flush=True)
    outcome = run.wait(_TIMEOUT)
    print(outcome.status, outcome.results or outcome.refused)
    print(outcome.log)
    if outcome.results:
        for row in json.loads((outcome.results / "report.json").read_text())["convergence"]:
            print({key: value for key, value in row.items() if key in ("round", "sites", "seconds")})


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.supernodes", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sites", type=int, default=50)
    parser.add_argument("--die", type=int, default=10)
    parser.add_argument("--round-timeout", type=float, default=600.0)
    options = parser.parse_args()
    print(machine(), f"load {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory(prefix="consilience-many-") as name:
        folder = Path(name)
        sites = write_sites(folder, options.sites)
        settings: dict[str, Value] = {
            "protocol": "bc3e",
            "min-sites": options.sites - options.die,
            "bc3e.max-rounds": 3,
        }
        settings |= {"round-timeout": options.round_timeout, "output-dir": str(folder / "results")}
        settings["bc3e.accelerate"] = False
        start = time.monotonic()
        with federation(
            sites, folder / "federation", tls=True, node_env={**THREADS, "OMP_NUM_THREADS": "1"}
        ) as started:
            print(f"all connected after {time.monotonic() - start:.0f} s, load {os.getloadavg()[0]:.1f}", flush=True)
            show_memory(started, "idle")
            yield_to_center(started, [site.name for site in sites])
            run = start_deployed_run(APP, settings, started.env, folder / "log")
            try:
                carry_out(started, run, [site.name for site in sites[: options.die]])
            finally:
                run.end()
        print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
