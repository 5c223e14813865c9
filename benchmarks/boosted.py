"""Boosting of agents beside its alternatives, in one process: ``python -m benchmarks.boosted FOLDER --draws 5``.

Agents are small trees on columns of their own; nothing crosses a wire. Errors are divided by the variance of the test
outcomes. FOLDER has ``NAME.csv.gz`` of the real data sets; without it only drawn worlds are measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

from numerics.residual import boosted
from numerics.residual.rules import Rules
from protocols.residual.payloads import Fit, Fitted, Tried, Try
from protocols.residual.plan import Plan
from protocols.wire.payload import Payload
from scenarios.synthetic import friedman1, friedman2, friedman3

METHODS: Mapping[str, tuple[Rules, int | None]] = {
    "boosted": (Rules(algorithm="boosted", shrinkage=boosted.SHRINKAGE, patience=boosted.PATIENCE), 8),
    "parallel": (Rules(algorithm="parallel"), None),
    "greedy": (Rules(algorithm="greedy", shrinkage=0.1, rounds=300, patience=30, refit=False), None),
}
"""By name the rules, and the most leaves of an agent's tree."""
LEAF = 40
"""Smallest leaf of the paper's algorithms."""


@dataclass(frozen=True, eq=False)
class World:
    """Columns of each agent, outcomes, and number of rows to learn from."""

    columns: tuple[Float64[np.ndarray, "n p"], ...]
    y: Float64[np.ndarray, "n"]
    n_learn: int


def dealt(x: Float64[np.ndarray, "n p"], y: Float64[np.ndarray, "n"], n_sites: int, n_learn: int) -> World:
    """Deal the columns to the sites in turn."""
    return World(tuple(x[:, j::n_sites] for j in range(n_sites)), y, n_learn)


FRIEDMAN: Mapping[str, tuple[Callable[[Float64[np.ndarray, "n p"]], Float64[np.ndarray, "n"]], int]] = {
    "friedman1": (friedman1, 5),
    "friedman1 + 10": (friedman1, 15),
    "friedman2": (friedman2, 5),
    "friedman3": (friedman3, 5),
}
"""By name: function, and number of sites with a column each; those beyond the function's are irrelevant."""


def drawn(name: str, seed: int) -> World:
    """Draw one of Friedman's functions, with irrelevant agents or not, or a world of interaction between sites only."""
    rng = np.random.default_rng(seed)
    if name == "between":
        x = rng.uniform(-1, 1, size=(3000, 6))
        y = x[:, 0] * x[:, 1] + 2 * x[:, 1] * x[:, 2] + np.sin(3 * x[:, 3] * x[:, 4])
        return dealt(x, y / y.std() + 0.1 * rng.standard_normal(3000), 3, 2000)
    function, p = FRIEDMAN[name]
    x = rng.uniform(size=(2000, p))
    if function is not friedman1:  # ranges of Zheng, Kulkarni and Poor (2010), section V-A
        x[:, :4] = x[:, :4] * [99, 520 * np.pi, 1, 10] + [1, 40 * np.pi, 0, 1]
    y = function(x)
    return dealt(x, y / y.std() + 0.05 * rng.standard_normal(2000), p, 1000)


REAL: Mapping[str, tuple[str, str, int, int, int]] = {
    "concrete, 4": ("concrete", "strength_mpa", 4, 1030, 0),
    "concrete, 8": ("concrete", "strength_mpa", 8, 1030, 0),
    "concrete + 8, 16": ("concrete", "strength_mpa", 16, 1030, 8),
    "airfoil, 5": ("airfoil", "sound_pressure_db", 5, 1503, 0),
    "airfoil, 2": ("airfoil", "sound_pressure_db", 2, 1503, 0),
    "puma32nh, 4": ("puma32nh", "thetadd6", 4, 3000, 0),
    "protein, 3": ("protein", "RMSD", 3, 3000, 0),
    "protein whole, 3": ("protein", "RMSD", 3, 10**6, 0),
    "adult hours, 4": ("adult", "hours_per_week", 4, 6000, 0),
}
"""By name: file, outcome, number of sites, of rows at most, of irrelevant columns."""


def measured(folder: Path, name: str, seed: int) -> World:
    """Draw rows of a real data set, 7 of 10 to learn from; each category of a text becomes a column of 0 and 1."""
    file, target, n_sites, n, n_noise = REAL[name]
    frame = pd.read_csv(folder / f"{file}.csv.gz", keep_default_na=False)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(frame))[:n]
    frame = frame.iloc[rows]
    y = frame.pop(target).to_numpy(float)
    noise = rng.standard_normal((len(rows), n_noise))
    columns = [*(_numbers(frame[column]) for column in frame), *noise.T[:, :, None]]
    sites = tuple(np.hstack(columns[j::n_sites]) for j in range(n_sites))
    return World(sites, y, int(0.7 * len(rows)))


def _numbers(column: pd.Series) -> Float64[np.ndarray, "n k"]:
    number = pd.api.types.is_numeric_dtype(column)
    return column.to_numpy(float)[:, None] if number else pd.get_dummies(column).to_numpy(float)


def error_of(world: World, rules: Rules, leaves: int | None) -> tuple[float, int]:
    """Return the test error of a plan over the variance, and its number of rounds."""
    names = tuple(f"{j:02d}" for j in range(len(world.columns)))
    plan, rounds = Plan(names, world.y, world.n_learn, rules), 0
    leaf = LEAF if leaves is None else boosted.MIN_LEAF

    def answer(name: str, ask: Payload) -> Payload:
        x = world.columns[int(name)]
        targets = ask.residual[:, None] if isinstance(ask, Try) else ask.target if isinstance(ask, Fit) else np.zeros(0)
        n, model = len(targets), DecisionTreeRegressor(max_leaf_nodes=leaves, min_samples_leaf=leaf, random_state=0)
        scale = ask.add or 1.0 if isinstance(ask, Fit | Try) else 1.0
        fits = scale * np.column_stack([model.fit(x[:n], target).predict(x) for target in targets.T])
        if isinstance(ask, Try):
            return Tried(float(np.sum((targets[:, 0] - fits[:n, 0]) ** 2)), fits[:n, 0], fits[n:, 0])
        return Fitted(fits[:n], fits[n:])

    while asks := plan.asks():
        plan.take({name: answer(name, ask) for name, ask in asks.items()})
        rounds += 1
    assert plan.result is not None
    return float(plan.result.curve[plan.result.iteration, 2] / plan.y[world.n_learn :].var()), rounds


def boosting(x: Float64[np.ndarray, "n p"], world: World) -> float:
    """Return the test error of boosting of these columns over the variance."""
    n, y = world.n_learn, world.y
    model = HistGradientBoostingRegressor(random_state=0).fit(x[:n], y[:n])
    return float(np.mean((y[n:] - model.predict(x[n:])) ** 2) / y[n:].var())


def main() -> None:
    """Print a row for every world."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.boosted")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument(
        "--worlds", nargs="+", choices=[*REAL, *FRIEDMAN, "between"], help="default: all that can be had"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the first draw")
    options = parser.parse_args()
    titles = ["world, sites", "best site alone", "pooled", *(f"{name} | rounds" for name in options.methods)]
    print(f"| {' | '.join(titles)} |\n|{' --- |' * (3 + 2 * len(options.methods))}")
    worlds = [*(REAL if options.folder else ()), *FRIEDMAN, "between"]
    for name in options.worlds or worlds:
        cells: list[list[float]] = []
        for seed in range(options.seed, options.seed + options.draws):
            world = measured(options.folder, name, seed) if name in REAL else drawn(name, seed)
            found = [error_of(world, *METHODS[method]) for method in options.methods]
            alone = min(boosting(x, world) for x in world.columns)
            pooled = boosting(np.hstack(world.columns), world)
            cells.append([alone, pooled, *(number for each in found for number in each)])
        mean = np.mean(cells, axis=0)
        text = [f"{each:.0f}" if place in (3, 5, 7) else f"{each:.3f}" for place, each in enumerate(mean)]
        print(f"| {name} | {' | '.join(text)} |", flush=True)


if __name__ == "__main__":
    main()
