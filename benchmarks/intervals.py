"""Errors and intervals of gp on real data: ``python -m benchmarks.intervals``.

Sites' experts, gate and hyperparameters are those of a run with the defaults, without the messages: the search of the
center is asked in this process. Beside it stand one Gaussian process of all rows, and the product of the same experts.
The data are those of the scenarios, in the directory `CONSILIENCE_DATA`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from benchmarks.driver import config_of
from benchmarks.side import data_setting
from benchmarks.tables import table_head, table_row
from numerics.gp.aggregation import ExpertPredictions, FusedPrediction, aggregate
from numerics.gp.calibration import Calibration, histogram
from numerics.gp.expert import Expert
from numerics.gp.gates import discriminant
from numerics.gp.gates.ranking import ranking
from numerics.gp.hyperparameter_search import Evaluations, Scoring, pooled_starts
from numerics.gp.joint_answers import joint_answers, pack, sizes
from numerics.gp.kernels import Kernel
from numerics.gp.landmarks import DEFAULT, offsets
from numerics.gp.likelihood import evaluate, fit_best, fit_one, start_theta, theta_bounds
from numerics.gp.metrics import coverage, msll, smse
from numerics.gp.moments import in_units, moments_of, units_of
from numerics.gp.radial_kernels import SquaredExponential
from numerics.gp.sketch import features
from scenarios.registry import find

DRAWS, LEVELS = 5, (0.5, 0.8, 0.95, 0.99)
SPLIT = {"concrete": 10, "airfoil": 5, "pumadyn": 10, "protein": 70, "synthetic": 10}
"""Experts by data set, as in the paper."""
_FIT_ROWS, _FULL_ROWS, _FULL_FIT_ROWS = 500, 8000, 2000
_Theta = Float64[np.ndarray, "p"]
_Rows = tuple[Float64[np.ndarray, "n d"], Float64[np.ndarray, "n"]]


class World(NamedTuple):
    """Rows of experts and test rows, in common units; moments of the experts."""

    experts: Sequence[_Rows]
    test: _Rows
    moments: Any


def world_of(name: str, seed: int, parts: int = 0, split: str = "kmeans") -> World:
    """Draw a data set's rows, split among so many experts."""
    scenario, M = find(f"gp-{name}"), parts or SPLIT[name]
    config = config_of(f"gp-{name}", seed, data=data_setting(), gp__split=split, gp__parts=M)
    assert scenario.queries
    shards, queries = scenario.shards(config, seed, M), scenario.queries(config, seed)
    assert queries.y is not None
    return world_from([(shard.x, shard.y) for shard in shards], (queries.x, queries.y))


def world_from(experts: Sequence[_Rows], test: _Rows) -> World:
    """Return a world of these rows, in common units."""
    own = moments_of(
        np.concatenate([x for x, _ in experts]),
        np.concatenate([y for _, y in experts]),
        np.repeat(np.arange(len(experts)), [len(y) for _, y in experts]),
    )
    units = units_of(own)
    standardized = [(units.inputs(x), units.outputs(y)) for x, y in experts]
    return World(standardized, (units.inputs(test[0]), units.outputs(test[1])), in_units(own, units))


def theta_of(kernel: Kernel, experts: Sequence[_Rows], seed: int) -> _Theta:
    """Search the common hyperparameters as the center does."""
    fits, informations = [], []
    for x, y in experts:
        some = np.random.default_rng(seed).permutation(len(y))[:_FIT_ROWS]
        fits.append(fit_best(kernel, x[some], y[some]))
        informations.append(evaluate(kernel, fits[-1], x[some], y[some]).information * len(y) / len(some))
    rows = [len(y) for _, y in experts]
    search = Scoring(
        theta_bounds(kernel), pooled_starts(start_theta(kernel), np.stack(fits), np.stack(informations), rows)
    )
    while not search.done:
        answers = {}
        for place, (x, y) in enumerate(experts):
            all_ = [evaluate(kernel, theta, x, y) for theta in search.candidates]
            answers[f"{place:06d}"] = Evaluations(
                np.array([each.value for each in all_]),
                np.stack([each.gradient for each in all_]),
                np.stack([each.information for each in all_]),
            )
        search.update(answers, {site: rows[int(site)] for site in answers})
    return search.theta


def chosen_by_gate(world: World, kernel: Kernel, theta: _Theta, experts: int) -> Int64[np.ndarray, "N K"]:
    """Return so many experts of each test row, chosen by the Gaussian gate."""
    return ranking(discriminant.scores(world.test[0], world.moments, kernel.lengths(theta[:-1])))[:, :experts]


def predictions_of(
    world: World, kernel: Kernel, theta: _Theta, order: Int64[np.ndarray, "N K"], answers: int = 9
) -> ExpertPredictions:
    """Return predictions at the test rows by these experts of each, who answer about so many values around it."""
    points, joint = world.test[0], answers > 1
    D = answers - 1 if joint else DEFAULT
    around = offsets(D, kernel.lengths(theta[:-1]), 0, world.moments.varies.astype(np.float64))
    mean, explained = np.zeros(order.shape), np.zeros(order.shape)
    directions = np.zeros((*order.shape, D), np.float16)
    further = np.zeros((*order.shape, sum(sizes(D))), np.float32)
    for number, (x, y) in enumerate(world.experts):
        point, place = np.nonzero(order == number)
        if not len(point):
            continue
        expert = Expert(kernel, theta, x, y)
        if joint:
            answer, more = joint_answers(expert, points[point], around)
            unknown = pack(more.unknown).astype(np.float16)
            further[point, place] = np.concatenate([more.mean, unknown], axis=1)
        else:
            answer = features(expert, points[point], around)
        mean[point, place], explained[point, place] = answer.mean, answer.explained
        directions[point, place] = answer.directions
    available = np.ones(order.shape, bool)
    return ExpertPredictions(mean, explained, available, directions, further=further if joint else None)


def full_of(world: World, kernel: Kernel, seed: int) -> tuple[FusedPrediction, Calibration] | None:
    """Return the predictions of one process of all rows, and its residuals; None for too many rows."""
    x, y = (np.concatenate(parts) for parts in zip(*world.experts, strict=True))
    if len(y) > _FULL_ROWS:
        return None
    theta = fit_one(kernel, x, y, rows=min(_FULL_FIT_ROWS, len(y)), rng=np.random.default_rng(seed))
    expert = Expert(kernel, theta, x, y)
    mean, explained = expert.predict(world.test[0])
    variance = kernel.diagonal(theta[:-1], world.test[0]) - explained + np.exp(2 * theta[-1])
    return FusedPrediction(mean, variance), Calibration(histogram(expert.left_out().residuals), len(theta))


def scores(world: World, fused: FusedPrediction, calibration: Calibration) -> list[float]:
    """Return SMSE, MSLL, and coverage by level, of normal intervals and of calibrated ones."""
    y = world.test[1]
    deviations = np.abs(y - fused.mean) / np.sqrt(fused.variance)
    return [
        smse(y, fused.mean),
        msll(y, fused.mean, fused.variance, 0.0, 1.0),
        *(coverage(y, fused.mean, fused.variance, level) for level in LEVELS),
        *(float(np.mean(deviations <= calibration.reach(level))) for level in LEVELS),
    ]


def draw(name: str, seed: int) -> dict[str, list[float]]:
    """Return the scores of one draw, by method."""
    world = world_of(name, seed)
    kernel = SquaredExponential(world.test[0].shape[1])
    theta = theta_of(kernel, world.experts, seed)
    M = len(world.experts)
    half, all_ = (chosen_by_gate(world, kernel, theta, K) for K in (-(-M // 2), M))
    chosen, every = (predictions_of(world, kernel, theta, order) for order in (half, all_))
    point_alone = predictions_of(world, kernel, theta, half, 1)
    prior, noise = kernel.diagonal(theta[:-1], world.test[0]), float(np.exp(2 * theta[-1]))
    counts = np.sum([histogram(Expert(kernel, theta, x, y).left_out().residuals) for x, y in world.experts], axis=0)
    calibration = Calibration(counts, len(theta))
    found = {
        "gp": scores(world, aggregate("npae", chosen, prior, noise), calibration),
        "one answer": scores(world, aggregate("npae", point_alone, prior, noise), calibration),
        "all experts": scores(world, aggregate("npae", every, prior, noise), calibration),
        "product": scores(world, aggregate("poe", every, prior, noise), calibration),
    }
    full = full_of(world, kernel, seed)
    if full:
        found["all rows in one place"] = scores(world, *full)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser: Any = argparse.ArgumentParser(prog="python -m benchmarks.intervals", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=SPLIT, default=["concrete", "airfoil"])
    parser.add_argument("--draws", type=int, default=DRAWS)
    options = parser.parse_args(arguments)
    percent = [f"{100 * level:.0f} %" for level in LEVELS]
    head = [
        "data",
        "method",
        "SMSE",
        "MSLL",
        *(f"normal {each}" for each in percent),
        *(f"calibrated {each}" for each in percent),
    ]
    print("\n".join(table_head(head)), flush=True)
    for name in options.only:
        draws = [draw(name, seed) for seed in range(options.draws)]
        for method in draws[0]:
            mean = np.mean([each[method] for each in draws], axis=0)
            print(
                table_row([name, method, f"{mean[0]:.4f}", f"{mean[1]:.3f}", *(f"{each:.3f}" for each in mean[2:])]),
                flush=True,
            )


if __name__ == "__main__":
    main()
