"""gp where sites measure with noise of their own: ``python -m benchmarks.own_noise``.

Four sites of 100 rows of two inputs observe one drawn function in the same square: two with a noise of .05, two of .6.
Errors are those of the function; coverage is that of observations, by each of the instruments as often.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.side.protocol import run_protocol
from benchmarks.tables import table_head, table_row
from numerics.gp.kernel_registry import kernel_of
from numerics.gp.measurements import Measurements, Queries
from numerics.gp.metrics import smse
from strategies.gp import GPOutcome

DRAWS, ROWS, POINTS, NOISES = 10, 100, 200, (0.05, 0.05, 0.6, 0.6)
NAMES = ("a", "b")


def scores(seed: int, noise: str) -> list[float]:
    """Return SMSE of the function, and coverage of the 95 % interval of an observation by any of the instruments."""
    rng = np.random.default_rng(seed)
    n = ROWS * len(NOISES)
    x = rng.uniform(-2, 2, (n + POINTS, 2))
    kernel = kernel_of("se", 2)
    theta = np.log([*rng.uniform(0.5, 1.5, 2), 1.0])
    function = np.linalg.cholesky(kernel.matrix(theta, x, x) + 1e-8 * np.eye(len(x))) @ rng.normal(size=len(x))
    own = np.array(NOISES)
    rows = np.arange(n).reshape(len(NOISES), ROWS)
    shards = [
        Measurements(x[r], function[r] + s * rng.normal(size=ROWS), NAMES) for r, s in zip(rows, own, strict=True)
    ]
    truth = function[n:]
    queries = Queries(x[n:], NAMES, truth + rng.choice(own, POINTS) * rng.normal(size=POINTS))
    settings = {"gp__gate": "all", "gp__noise": noise}
    transcript = run_protocol("gp", shards, seed, settings, queries=lambda config, seed: queries)
    outcome: GPOutcome = transcript.outcome
    return [smse(truth, outcome.mean), *(transcript.metrics[f"coverage_{level}"] for level in (50, 80, 95, 99))]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser: Any = argparse.ArgumentParser(prog="python -m benchmarks.own_noise", description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=DRAWS)
    options = parser.parse_args(arguments)
    print("\n".join(table_head(["gp.noise", "SMSE of the function", "50 %", "80 %", "95 %", "99 %"])), flush=True)
    for noise in ("common", "site"):
        mean = np.mean([scores(seed, noise) for seed in range(options.draws)], axis=0)
        print(table_row([noise, f"{mean[0]:.5f}", *(f"{each:.3f}" for each in mean[1:])]), flush=True)


if __name__ == "__main__":
    main()
