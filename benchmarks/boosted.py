"""Boosting of agents compared with its alternatives: ``python -m benchmarks.boosted FOLDER --draws 5``.

Agents are small trees, each on its own columns; in "ridge or tree" a step is a ridge regression where its Bayesian
information criterion is smaller. All run in this process. Errors are divided by the variance of the test outcomes.
FOLDER has ``NAME.csv.gz`` of the real data sets; without it only synthetic worlds are measured. Bytes are those of the
arrays in the asks and answers of all sites, without envelopes. Numbers in brackets count the draws in which the error
exceeds that of the best site alone by more than one standard error of the difference. Pooled columns
are learned with scikit-learn's defaults and as in the last step of residual. FedTree (Li et al. 2023), which sends
histograms of all sites, is included if it is installed: ``pip install fedtree``, on Debian with ``libntl44``.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from jaxtyping import Float64
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from benchmarks.tables import table_head, table_row
from numerics.residual import boosted
from numerics.residual.alone import errors_alone
from numerics.residual.bins import ColumnBins, randomized
from numerics.residual.chosen_boosting import choose_boosting
from numerics.residual.columns_and_outcomes import Columns
from numerics.residual.rules import Rules
from protocols.residual.payloads import Bin, Compare, EntityBins, Fit, FittedValues, PredictionsAlone, TrialFit, Try
from protocols.residual.plan import Plan
from protocols.wire.payload import Payload
from scenarios.synthetic import friedman1, friedman2, friedman3

_BOOSTED = Rules(algorithm="boosted", shrinkage=boosted.SHRINKAGE, patience=boosted.PATIENCE)
METHODS: Mapping[str, tuple[Rules, int | None]] = {
    "boosted": (replace(_BOOSTED, baselines=True), 8),
    **{f"bins {levels}": (replace(_BOOSTED, algorithm="bins", bins=levels), 8) for levels in (16, 32, 64)},
    **{f"bins 32, eps {eps}": (replace(_BOOSTED, algorithm="bins", epsilon=float(eps)), 8) for eps in (2, 4, 8)},
    "half bins": (replace(_BOOSTED, algorithm="bins"), 8),
    "ridge or tree": (replace(_BOOSTED, baselines=True), 8),
    "parallel": (Rules(algorithm="parallel"), None),
    "greedy": (Rules(algorithm="greedy", shrinkage=0.1, rounds=300, patience=30, refit=False), None),
    "sip": (Rules(algorithm="sip", shrinkage=0.1, rounds=300, patience=30, refit=False), None),
    "meta-linear": (Rules(algorithm="meta-linear"), None),
    "meta-boosting": (Rules(algorithm="meta-boosting"), None),
}
"""By name: rules, and the maximum number of leaves of an agent's tree. In "half bins" every other site sends none."""
LEAF = 40
"""Fewest rows of a leaf in the paper's algorithms."""


@dataclass(frozen=True, eq=False)
class World:
    """Columns of each agent, outcomes, number of training rows, and predictions of sites alone, once known."""

    sites: tuple[Columns, ...]
    y: Float64[np.ndarray, "n"]
    n_learn: int
    alone: dict[str, PredictionsAlone] = field(default_factory=dict)

    def of(self, n_learn: int) -> World:
        """Return the world with only the first `n_learn` training rows, and the same test rows."""
        rows = np.r_[:n_learn, self.n_learn : len(self.y)]
        sites = tuple(replace(each, x=each.x[rows]) for each in self.sites)
        return World(sites, self.y[rows], n_learn)


def numbers(x: Float64[np.ndarray, "n p"]) -> Columns:
    """Return columns of numbers."""
    return Columns(x, tuple(f"c{j}" for j in range(x.shape[1])))


def deal_columns(x: Float64[np.ndarray, "n p"], y: Float64[np.ndarray, "n"], n_sites: int, n_learn: int) -> World:
    """Deal the columns to the sites in turn."""
    return World(tuple(numbers(x[:, j::n_sites]) for j in range(n_sites)), y, n_learn)


FRIEDMAN: Mapping[str, tuple[Callable[[Float64[np.ndarray, "n p"]], Float64[np.ndarray, "n"]], int]] = {
    "friedman1": (friedman1, 5),
    "friedman1 + 10": (friedman1, 15),
    "friedman2": (friedman2, 5),
    "friedman3": (friedman3, 5),
}
"""By name: function, and number of sites, each with one column; columns that the function does not use are noise."""


LINEAR: Mapping[str, int] = {"linear, 600 rows": 600, "linear, 80 rows": 80}
"""By name: training rows of a sum of straight lines."""
LARGE = "16 sites of 100,000 rows"


def draw_world(name: str, seed: int) -> World:
    """Draw a linear function or one of Friedman's, products of columns of different sites, or a world of many rows."""
    rng = np.random.default_rng(seed)
    if name in LINEAR:
        x = rng.standard_normal((LINEAR[name] + 2000, 9))
        return deal_columns(x, x @ np.linspace(2, 0.5, 9) + rng.standard_normal(len(x)), 3, LINEAR[name])
    if name == "between":
        x = rng.uniform(-1, 1, size=(3000, 6))
        y = x[:, 0] * x[:, 1] + 2 * x[:, 1] * x[:, 2] + np.sin(3 * x[:, 3] * x[:, 4])
        return deal_columns(x, y / y.std() + 0.1 * rng.standard_normal(3000), 3, 2000)
    if name == LARGE:
        x = rng.standard_normal((100_000, 32))
        y = np.sin(x).sum(axis=1) + (x[:, ::2] * x[:, 1::2]).sum(axis=1)
        return deal_columns(x, y + rng.standard_normal(100_000), 16, 80_000)
    function, p = FRIEDMAN[name]
    x = rng.uniform(size=(2000, p))
    if function is not friedman1:  # ranges of Zheng, Kulkarni and Poor (2010), section V-A
        x[:, :4] = x[:, :4] * [99, 520 * np.pi, 1, 10] + [1, 40 * np.pi, 0, 1]
    y = function(x)
    return deal_columns(x, y / y.std() + 0.05 * rng.standard_normal(2000), p, 1000)


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
"""By name: file, outcome, number of sites, maximum number of rows, and number of irrelevant columns."""


def draw_rows(folder: Path, name: str, seed: int) -> World:
    """Draw rows of a real data set, of which 70 % are training rows; each category becomes a column of 0 and 1."""
    file, target, n_sites, n, n_noise = REAL[name]
    frame = pd.read_csv(folder / f"{file}.csv.gz", keep_default_na=False)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(frame))[:n]
    frame = frame.iloc[rows]
    y = frame.pop(target).to_numpy(float)
    for j, noise in enumerate(rng.standard_normal((n_noise, len(rows)))):
        frame[f"noise {j}"] = noise
    sites = tuple(site_of(frame.iloc[:, j::n_sites]) for j in range(n_sites))
    return World(sites, y, int(0.7 * len(rows)))


def site_of(frame: pd.DataFrame) -> Columns:
    """Return numbers and categories as the columns of a site."""
    parts, features, categories = [], [], {}
    for name, column in frame.items():
        if pd.api.types.is_numeric_dtype(column):
            parts.append(column.to_numpy(float)[:, None])
            features.append(str(name))
        else:
            indicators = pd.get_dummies(column)
            parts.append(indicators.to_numpy(float))
            categories[str(name)] = tuple(map(str, indicators.columns))
            features += [f"{name}={value}" for value in indicators.columns]
    return Columns(np.hstack(parts), tuple(features), categories=categories)


@dataclass
class Cost:
    """Rounds, bytes of asks and answers of all sites, and processor seconds of the center."""

    rounds: int = 0
    n_bytes: int = 0
    seconds: float = 0.0

    def count(self, *payloads: Payload) -> None:
        """Add the bytes of the payloads' arrays."""
        self.n_bytes += sum(each.nbytes for payload in payloads for each in vars(payload).values() if np.ndim(each))


def answer_bins(ask: Bin, columns: Columns, name: str, *, allowed: bool) -> EntityBins:
    """Return a site's bins; empty ones if it may not send them."""
    if not allowed:
        return EntityBins(np.zeros((0, 0), np.uint8), np.zeros(0, np.uint8), 0.0)
    bins = ColumnBins.of(columns, ask.levels, 10)
    rows = [str(row) for row in range(columns.n)]
    drawn = randomized(bins.apply(columns), bins.levels, ask.epsilon, name.encode(), rows)
    return EntityBins(drawn, bins.levels, ask.epsilon)


def fewest_in_a_leaf(n_learn: int) -> int:
    """Return the fewest rows of a leaf of boosting, as in a run."""
    return min(boosted.MIN_LEAF, max(5, n_learn // 25))


def predict_alone(ask: Compare, x: Float64[np.ndarray, "n p"]) -> PredictionsAlone:
    """Return the predictions of a site by boosting of its own columns."""
    n = len(ask.target)
    chosen = choose_boosting(x[:n], ask.target, ask.n_fit, n_classes=ask.n_classes)
    predicted = chosen.predict(x)
    return PredictionsAlone(predicted[:n], np.concatenate([chosen.judged.reshape(n - ask.n_fit, -1), predicted[n:]]))


class RidgeOrTree:
    """A ridge regression or a tree, whichever has the smaller Bayesian information criterion (Schwarz 1978)."""

    def __init__(self, tree: DecisionTreeRegressor) -> None:
        self._models = (make_pipeline(StandardScaler(), Ridge(1.0)), tree)

    def fit(self, x: Float64[np.ndarray, "n p"], y: Float64[np.ndarray, "n"]) -> Self:
        """Fit both, and keep the better one."""
        line, tree = (model.fit(x, y) for model in self._models)
        sizes = x.shape[1] + 1, 2 * tree.get_n_leaves() - 1
        errors = [float(np.mean(np.square(y - model.predict(x)))) for model in (line, tree)]
        criteria = [
            len(y) * np.log(error + np.finfo(float).tiny) + np.log(len(y)) * size
            for error, size in zip(errors, sizes, strict=True)
        ]
        self._chosen = line if criteria[0] < criteria[1] else tree
        return self

    def predict(self, x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n"]:
        """Predict rows by the better model."""
        return np.asarray(self._chosen.predict(x))


def carry_out(
    world: World, rules: Rules, leaves: int | None, *, half: bool = False, ridge: bool = False
) -> tuple[Plan, Cost]:
    """Carry out a plan to its end, and return it with its cost."""
    names = tuple(f"{j:02d}" for j in range(len(world.sites)))
    leaf = LEAF if leaves is None else fewest_in_a_leaf(world.n_learn)
    plan, cost = Plan(names, world.y, world.n_learn, replace(rules, min_leaf=leaf)), Cost(1)

    def answer(name: str, ask: Payload) -> Payload:
        columns = world.sites[int(name)]
        if isinstance(ask, Bin):
            return answer_bins(ask, columns, name, allowed=not (half and int(name) % 2))
        if isinstance(ask, Compare):
            if name not in world.alone:
                world.alone[name] = predict_alone(ask, columns.x)
            return world.alone[name]
        targets = ask.residual[:, None] if isinstance(ask, Try) else ask.target if isinstance(ask, Fit) else np.zeros(0)
        n, tree = len(targets), DecisionTreeRegressor(max_leaf_nodes=leaves, min_samples_leaf=leaf, random_state=0)
        model: Any = RidgeOrTree(tree) if ridge else tree
        scale = ask.add or 1.0 if isinstance(ask, Fit | Try) else 1.0
        x = columns.x
        fits = scale * np.column_stack([model.fit(x[:n], target).predict(x) for target in targets.T])
        if isinstance(ask, Try):
            return TrialFit(float(np.sum((targets[:, 0] - fits[:n, 0]) ** 2)), fits[:n, 0], fits[n:, 0])
        return FittedValues(fits[:n], fits[n:])

    started = time.process_time()
    while asks := plan.asks():
        cost.seconds += time.process_time() - started
        answers = {name: answer(name, ask) for name, ask in asks.items()}
        cost.count(*asks.values(), *answers.values())
        started = time.process_time()
        plan.take(answers)
        cost.rounds += 1
    cost.seconds += time.process_time() - started
    return plan, cost


def measure(world: World, method: str) -> tuple[float, bool, Cost]:
    """Return a method's error over the variance, whether the best site alone is better, and the method's cost."""
    rules, leaves = METHODS[method]
    plan, cost = carry_out(world, rules, leaves, half=method == "half bins", ridge=method == "ridge or tree")
    assert plan.result is not None
    losses = np.square(plan.result.left)
    alone = errors_alone({"best": min(losses_alone(world), key=np.mean)}, losses).of("best")
    return float(losses.mean() / world.y[world.n_learn :].var()), bool(alone[1] > alone[2]), cost


def losses_alone(world: World) -> list[Float64[np.ndarray, "t"]]:
    """Return the squared errors of every site alone on the test rows, as a run computes them for its comparison."""
    n, y, n_fit = world.n_learn, world.y, world.n_learn - round(0.25 * world.n_learn)
    mean, each = y[:n_fit].mean(), []
    for j, site in enumerate(world.sites):
        if f"{j:02d}" not in world.alone:
            world.alone[f"{j:02d}"] = predict_alone(Compare(y[:n] - mean, n_fit), site.x)
        each.append(np.square(y[n:] - mean - world.alone[f"{j:02d}"].held[-len(y[n:]) :, 0]))
    return each


def pooled(world: World) -> tuple[float, float]:
    """Return errors over the variance of boosting of all columns, with scikit-learn's defaults and as in residual."""
    n, y, x = world.n_learn, world.y, np.hstack([each.x for each in world.sites])
    plain = (
        HistGradientBoostingRegressor(min_samples_leaf=fewest_in_a_leaf(n), random_state=0)
        .fit(x[:n], y[:n])
        .predict(x[n:])
    )
    chosen = choose_boosting(x[:n], y[:n], n - round(0.25 * n)).predict(x[n:])[:, 0]
    first, second = (float(np.mean(np.square(y[n:] - each)) / y[n:].var()) for each in (plain, chosen))
    return first, second


def fedtree(world: World) -> float:
    """Return the error over the variance of FedTree, which splits by sums of the residual over all sites' columns."""
    from fedtree import FLRegressor

    n, x = world.n_learn, np.hstack([each.x for each in world.sites])
    y = (world.y - world.y[:n].mean()) / world.y[:n].std()
    model = FLRegressor(
        mode="vertical",
        partition_mode="vertical",
        n_parties=len(world.sites),
        n_trees=100,
        learning_rate=0.1,
        gamma=0.0,
        verbose=0,
    )
    printed = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # its library prints, and writes data.txt to the working directory
    try:
        with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
            predicted = model.fit(x[:n], y[:n]).predict(x[n:])
    finally:
        os.dup2(printed, 1)
    return float(np.mean(np.square(y[n:] - predicted)) / y[n:].var())


Draw = tuple[list[float], list[tuple[float, bool, Cost]]]


def draw_of(folder: Path | None, name: str, seed: int, methods: Sequence[str], rows: int = 0) -> Draw:
    """Return the errors of the best site alone and of pooled columns, and the results of every method."""
    world = draw_world(name, seed) if folder is None or name not in REAL else draw_rows(folder, name, seed)
    world = world.of(rows) if rows else world
    measures = [measure(world, method) for method in methods]
    alone = float(min(each.mean() for each in losses_alone(world)) / world.y[world.n_learn :].var())
    peer = [fedtree(world)] if importlib.util.find_spec("fedtree") else []
    return [alone, *pooled(world), *peer], measures


def row_of(name: str, draws: Sequence[Draw]) -> str:
    """Return a row of the table: means over the draws."""
    shown = [f"{each:.4f}".removeprefix("0") for each in np.mean([errors for errors, _ in draws], axis=0)]
    costs = []
    for of_method in zip(*(measures for _, measures in draws), strict=True):
        mean, n_worse = np.mean([each[0] for each in of_method]), sum(each[1] for each in of_method)
        shown.append(f"{mean:.4f}".removeprefix("0") + (f" ({n_worse})" if n_worse else ""))
        costs.append(np.mean([(c.rounds, c.n_bytes / 1000, c.seconds) for _, _, c in of_method], axis=0))
    return table_row([name, *shown, *(", ".join(f"{each:.0f}" for each in column) for column in np.transpose(costs))])


def main() -> None:
    """Print a row for every world."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.boosted")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument(
        "--worlds", nargs="+", choices=[*REAL, *FRIEDMAN, "between", *LINEAR, LARGE], help="default: all but the last"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the first draw")
    parser.add_argument("--rows", type=int, default=0, help="training rows; default: all of the world")
    options = parser.parse_args()
    peer = ["FedTree"] if importlib.util.find_spec("fedtree") else []
    titles = ["world, sites", "best site alone", "pooled", "pooled, as here", *peer, *options.methods]
    print("\n".join(table_head([*titles, "rounds", "kB", "center, s"])), flush=True)
    seeds = range(options.seed, options.seed + options.draws)
    for name in options.worlds or [*(REAL if options.folder else ()), *FRIEDMAN, "between", *LINEAR]:
        draws = [draw_of(options.folder, name, seed, options.methods, options.rows) for seed in seeds]
        print(row_of(name, draws), flush=True)


if __name__ == "__main__":
    main()
