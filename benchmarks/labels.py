"""Share of runs in which sec finds all true labels, by rows of a learner: ``python -m benchmarks.labels``.

Theorem 1 of Ye, Ding and Ghanadan (2022): the probability of right labels goes to one with the number of rows, for
parametric and for nonparametric methods. Nine learners have three functions, three learners each. The whole protocol
runs in this process.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from benchmarks.side.protocol import run_protocol
from benchmarks.tables import table_head, table_row
from numerics.shared.regression_rows import RegressionRows

DRAWS, ROWS = 20, (12, 25, 50, 100, 200, 400, 800)
TRUTH = [0, 0, 0, 1, 1, 1, 2, 2, 2]
_INPUTS = 5

_PAPER = {"sec__selection": "half-half", "sec__reference": "fitted", "sec__weights": "rows"}
RULES: Mapping[str, Mapping[str, Any]] = {
    "K given": {**_PAPER, "sec__k": 3},
    "eigen-gap": {**_PAPER, "sec__k_method": "eigengap"},
    "default": {},
}
"""Settings by the heading of their column; the first two are the paper's."""

_X = Float64[np.ndarray, "n p"]
_Y = Float64[np.ndarray, "n"]


def lines(rng: np.random.Generator, n: int, group: int, slopes: Float64[np.ndarray, "g p"]) -> tuple[_X, _Y]:
    """Draw rows of a linear function of normal inputs; signal and noise have the same variance on average."""
    x = rng.standard_normal((n, _INPUTS))
    return x, (x * slopes[group]).sum(axis=1) + np.sqrt(_INPUTS) * rng.standard_normal(n)


def waves(rng: np.random.Generator, n: int, group: int, slopes: Float64[np.ndarray, "g p"]) -> tuple[_X, _Y]:
    """Draw rows of a sine of the input `group` and a parabola of the next; the variance of the noise is 0.25."""
    x = rng.uniform(-1, 1, (n, _INPUTS))
    return x, np.sin(np.pi * x[:, group]) + 2 * x[:, group + 1] ** 2 + 0.5 * rng.standard_normal(n)


WORLDS: Mapping[str, tuple[Callable[..., tuple[_X, _Y]], str]] = {"lines": (lines, "lr"), "waves": (waves, "rf")}
"""By name: function that draws a learner's rows, and the method of all learners."""


def share_right(world: str, n: int, draws: int) -> list[float]:
    """Return the share of draws in which all labels are right, by rule in the order of `RULES`."""
    draw, method = WORLDS[world]
    right = np.zeros((draws, len(RULES)))
    for seed in range(draws):
        rng = np.random.default_rng([seed, n])
        slopes = rng.standard_normal((3, _INPUTS))
        none = np.zeros((0, _INPUTS)), np.zeros(0)
        names = tuple(f"x{place}" for place in range(_INPUTS))
        shards = [RegressionRows(*draw(rng, n, group, slopes), *none, names) for group in TRUTH]
        for place, settings in enumerate(RULES.values()):
            run = run_protocol(
                "sec", shards, seed, {"sec__candidates": method, **settings}, truth=lambda *_: list(TRUTH)
            )
            right[seed, place] = run.metrics["clusters_correct"]
    return [float(share) for share in right.mean(axis=0)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, and print a table."""
    parser: Any = argparse.ArgumentParser(prog="python -m benchmarks.labels", description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--only", nargs="+", choices=sorted(WORLDS), default=sorted(WORLDS))
    options = parser.parse_args(arguments)
    print("\n".join(table_head(["functions", "method", "rows", *RULES])), flush=True)
    for world in options.only:
        for n in options.rows:
            shares = [f"{100 * share:.0f}" for share in share_right(world, n, options.draws)]
            print(table_row([world, WORLDS[world][1], str(n), *shares]), flush=True)


if __name__ == "__main__":
    main()
