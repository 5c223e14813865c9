"""Experts of gp without messages: rows in common units, hyperparameters, gate and predictions, as in a run.

The center's search for hyperparameters runs in this process. The data are those of the scenarios, in the directory
`CONSILIENCE_DATA`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from benchmarks.driver import config_of
from benchmarks.side import data_setting
from numerics.gp.aggregation import ExpertPredictions
from numerics.gp.coarse_answers import FEWEST_ROWS, coarse, coarse_further
from numerics.gp.expert import Expert
from numerics.gp.gates import discriminant
from numerics.gp.gates.ranking import ranking
from numerics.gp.hyperparameter_search import Evaluations, Scoring, pooled_starts
from numerics.gp.joint_answers import JointAnswer, joint_answers, pack, sizes
from numerics.gp.kernels import Kernel
from numerics.gp.landmarks import DEFAULT, offsets
from numerics.gp.likelihood import evaluate, fit_best, start_theta, theta_bounds
from numerics.gp.moments import in_units, moments_of, units_of
from numerics.gp.sketch import Sketch, features
from scenarios.registry import find

SPLIT = {"concrete": 10, "airfoil": 5, "pumadyn": 10, "protein": 70, "synthetic": 10}
"""Number of experts by data set, as in the paper."""
_FIT_ROWS = 500
_Theta = Float64[np.ndarray, "p"]
_Rows = tuple[Float64[np.ndarray, "n d"], Float64[np.ndarray, "n"]]


class World(NamedTuple):
    """Rows of the experts and test rows, in common units, and the experts' moments."""

    experts: Sequence[_Rows]
    test: _Rows
    moments: Any


def world_of(name: str, seed: int, parts: int = 0, split: str = "kmeans") -> World:
    """Draw a data set's rows, and split them among `parts` experts (0: as many as in the paper)."""
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
    """Search for the common hyperparameters as the center does."""
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
    """Return for each test row the best `experts` experts by the Gaussian gate."""
    return ranking(discriminant.scores(world.test[0], world.moments, kernel.lengths(theta[:-1])))[:, :experts]


def predictions_of(
    world: World,
    kernel: Kernel,
    theta: _Theta,
    order: Int64[np.ndarray, "N K"],
    answers: int = 9,
    *,
    real: bool = False,
) -> ExpertPredictions:
    """Return predictions of every test row by its experts in `order`, who give `answers` answers each.

    With `real` several answers are rounded as at real sites, and coarse where they depend on few rows.
    """
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
            if real:
                answer, more = _as_of_real_sites(expert, float(np.exp(2 * theta[-1])), answer, more, points[point])
            unknown = pack(more.unknown).astype(np.float16)
            further[point, place] = np.concatenate([more.mean, unknown], axis=1)
        else:
            answer = features(expert, points[point], around)
        mean[point, place], explained[point, place] = answer.mean, answer.explained
        directions[point, place] = answer.directions
    available = np.ones(order.shape, bool)
    return ExpertPredictions(mean, explained, available, directions, further=further if joint else None)


def _as_of_real_sites(
    expert: Expert, noise: float, answer: Sketch, further: JointAnswer, points: Float64[np.ndarray, "q d"]
) -> tuple[Sketch, JointAnswer]:
    """Round an expert's answers as `clients.gp.point_answers.predict_points` does, but keep the coarse ones."""
    prior = expert.kernel.diagonal(expert.params, points)
    error = float(np.sqrt(np.mean(expert.left_out().errors ** 2)))
    few = answer.rows < FEWEST_ROWS
    rounded = coarse(answer.mean, answer.explained, answer.directions, few, prior, noise, error)
    unknown = few | (rounded.explained <= 0) | (further.rows < FEWEST_ROWS)
    mean, left = coarse_further(further.mean, further.unknown, unknown, noise / prior)
    return Sketch(rounded.mean, rounded.explained, rounded.directions, answer.rows), JointAnswer(
        mean, left, further.rows
    )
