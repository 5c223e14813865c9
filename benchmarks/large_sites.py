"""Seconds and memory of a site of very many rows in gp: ``python -m benchmarks.large_sites``.

A site answers the asks of a run: moments, an ask of the search with eight candidates, and predictions of 500 points
with features over 32 landmarks. Each line is measured in a new process, in processor seconds.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.tables import table_head, table_row
from numerics.gp.landmarks import DEFAULT, offsets
from numerics.gp.likelihood import evaluate
from numerics.gp.moments import moments_of
from numerics.gp.nearest_rows import NearestRows, neighborhoods
from numerics.gp.radial_kernels import SquaredExponential
from numerics.shared.threads import single_threaded

ROWS, INPUTS, POINTS, CANDIDATES, NEAREST = (10**4, 10**5, 10**6), (5, 20), 500, 8, 200


def measure(n: int, d: int) -> list[str]:
    """Return seconds of every answer, peak memory and error of a site with n rows of d inputs."""
    rng = np.random.default_rng(0)
    x, points = rng.normal(size=(n, d)), rng.normal(size=(POINTS, d))
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=n)
    kernel, theta = SquaredExponential(d), np.log([*np.full(d, 2.0), 1.0, 0.1])
    seconds = [time.process_time()]
    with single_threaded():
        moments_of(x, y)
        seconds.append(time.process_time())
        for own in neighborhoods(x, rng):
            for _ in range(CANDIDATES):
                evaluate(kernel, theta, x[own], y[own])
        seconds.append(time.process_time())
        expert = NearestRows(kernel, theta, x, y, NEAREST)
        mean = expert.predict(points, offsets(DEFAULT, np.exp(theta[:d]), 0)).mean
        seconds.append(time.process_time())
    error = float(np.sqrt(np.mean((mean - np.sin(points[:, 0])) ** 2)))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return [*(f"{each:.2f}" for each in np.diff(seconds)), str(memory), f"{error:.3f}"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser: Any = argparse.ArgumentParser(
        prog="python -m benchmarks.large_sites", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--inputs", type=int, nargs="+", default=INPUTS)
    parser.add_argument("--here", action="store_true", help="in this process, without the head of the table")
    options = parser.parse_args(arguments)
    if options.here:
        for n in options.rows:
            for d in options.inputs:
                print(table_row([f"{n:,}", str(d), *measure(n, d)]), flush=True)
        return
    print(
        "\n".join(table_head(["rows", "inputs", "moments, s", "search, s", "500 points, s", "MB", "error"])), flush=True
    )
    for n in options.rows:
        for d in options.inputs:
            command = [sys.executable, "-m", "benchmarks.large_sites", "--rows", str(n), "--inputs", str(d), "--here"]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
