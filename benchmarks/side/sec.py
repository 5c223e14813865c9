"""sec compared with learning alone, one model for all, and clusters by averages of models."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from benchmarks.driver import config_of
from benchmarks.side import Case, Method, Metric, Result, Side, data_setting
from benchmarks.side.protocol import result_of, run_protocol
from benchmarks.side.sec_peers import (
    LOCAL_STEPS,
    NUMBER,
    STARTS,
    FittedModels,
    Quadratics,
    Shard,
    best_of,
    by_groups,
    fedavg,
    ifca,
    predict,
)
from numerics.sec.cluster_assignment import same_partition
from numerics.shared.regression_rows import RegressionRows
from scenarios.registry import find

LINEAR = {"sec__candidates": "lr", "sec__standardize": "none", "sec__combine": "pooled-linear"}
LANDMARKS = {**LINEAR, "sec__exchange": "landmarks"}
_IFCA = 7
"""Stream of IFCA's random numbers."""


@dataclass(frozen=True, eq=False)
class World:
    """Learners with their own rows, whose relations differ between clusters.

    Attributes
    ----------
    rows : sequence of RegressionRows
        Rows of the learners; errors are those of learners that have test rows.
    truth : sequence of int
        Their true clusters.
    """

    rows: Sequence[RegressionRows]
    truth: Sequence[int]

    @property
    def k(self) -> int:
        """True number of clusters."""
        return len(set(self.truth))

    @cached_property
    def shards(self) -> list[Shard]:
        """Training rows of the learners."""
        return [Shard(each.x, each.y) for each in self.rows]

    def score(self, models: FittedModels) -> dict[str, float]:
        """Return metrics of a peer."""
        errors = [
            np.mean((own.y_test - predict(coefficients, own.x_test)) ** 2)
            for own, coefficients in zip(self.rows, models.coefficients, strict=True)
            if len(own.y_test)
        ]
        metrics = {"error": float(np.mean(errors)) / self.variance}
        if models.labels is not None:
            metrics["right"] = float(same_partition(models.labels, np.asarray(self.truth)))
        return metrics

    @cached_property
    def variance(self) -> float:
        """Mean over the learners of the variance of their test outcomes."""
        return float(np.mean([own.y_test.var() for own in self.rows if len(own.y_test)]))


def draw(scenario: str, settings: Mapping[str, Any], seed: int) -> World:
    """Draw the learners of a scenario."""
    world, config = find(scenario), config_of(scenario, seed, data=data_setting(), **settings)
    assert world.truth
    return World(world.shards(config, seed, world.sites), world.truth(config, seed, world.sites) or ())


# -- methods ----------------------------------------------------------------------------------------------------------


def consilience(settings: Mapping[str, Any], data: World, seed: int) -> Result:
    """Run the protocol."""
    transcript = run_protocol("sec", data.rows, seed, settings, truth=lambda config, seed, n_sites: list(data.truth))

    def score() -> dict[str, float]:
        return {
            "error": transcript.metrics["mse_cluster"] / data.variance,
            "right": transcript.metrics["clusters_correct"],
        }

    return result_of(transcript, score)


def least_squares(groups: Callable[[World], Sequence[int]], pooled: bool, data: World, seed: int) -> Result:
    """Fit least squares to the rows of each group."""
    return _result(data, by_groups(data.shards, groups(data), pooled=pooled))


def federated_averaging(data: World, seed: int) -> Result:
    """Fit one model by federated averaging."""
    started = time.perf_counter()
    problem = Quadratics.of(data.shards)
    preparation = time.perf_counter() - started
    return _result(data, best_of(partial(fedavg, problem, data.shards)), preparation)


def iterative_clustering(more: int, data: World, seed: int) -> Result:
    """Fit IFCA with the true number of clusters plus `more`."""
    started = time.perf_counter()
    problem = Quadratics.of(data.shards)
    preparation = time.perf_counter() - started

    def way(local_steps: int) -> FittedModels:
        return ifca(problem, data.shards, data.k + more, local_steps, np.random.default_rng([seed, _IFCA]))

    return _result(data, best_of(way), preparation)


def _result(data: World, models: FittedModels, preparation: float = 0.0) -> Result:
    return Result(
        partial(data.score, models),
        rounds=models.rounds,
        to_sites=models.down,
        from_sites=models.up,
        seconds=preparation + models.seconds,
    )


# -- the comparison ---------------------------------------------------------------------------------------------------

_GRID = "8000 rows of 12 inputs at 50 learners, 10 of whom report -y; 2000 test rows at an intact one"
_LINEAR = "synthetic: 50 rows and 200 test rows at each of 20 learners of two linear functions, SNR {1:g}"
_NOTES = f"""
All methods but "default settings" fit linear regressions, and consilience chooses the number of clusters by the
eigengap and predicts with the pooled regression of a cluster. `FedAvg` and IFCA (Ghosh et al. 2020, model averaging,
{STARTS} random starts; it needs K) get inputs standardized by all rows, full gradients, a step of 1 by the largest
curvature, and of {", ".join(map(str, LOCAL_STEPS))} local steps those that need the fewest rounds; they stop when no
coefficient moves by a thousandth of the outcome's deviation. Bytes of peers are those of their numbers, {NUMBER} each.
"""


def side(quick: bool) -> Side:
    """Compare on electrical grid data, where some learners report negative outcomes, and on two linear functions."""
    seeds = 2 if quick else 5
    attacked = {"sec__attacked": 10}
    cases = [Case("grid", _GRID, partial(draw, "sec-grid", attacked), seeds)] + [
        Case(f"linear, {p} inputs", _LINEAR.format(p, snr), partial(draw, "sec-simulation1", settings), seeds)
        for p, snr in ((5, 16.0), (20, 4.0))
        for settings in [{"sec__p": p, "sec__snr": snr}]
    ]
    return Side(
        protocol="sec",
        task="Predict every learner's outcome from its own rows and others' models, where some have another relation.",
        metrics=(
            Metric("error", "MSE / variance", "lower"),
            Metric("right", "clusters right", "higher", 3),
        ),
        cases=cases[1:2] if quick else cases,
        methods=(
            Method("consilience", partial(consilience, LINEAR), "models, sums", ours=True),
            Method("consilience, landmarks", partial(consilience, LANDMARKS), "models, sums", ours=True),
            Method("consilience, default settings", partial(consilience, {}), "models", ours=True, limit=300.0),
            Method("every learner alone", partial(least_squares, lambda data: range(len(data.rows)), False), "nothing"),
            Method("FedAvg", federated_averaging, "models"),
            Method("IFCA, true K", partial(iterative_clustering, 0), "models"),
            Method("IFCA, true K + 1", partial(iterative_clustering, 1), "models"),
            Method("one model of all rows", partial(least_squares, lambda data: [0] * len(data.rows), True), "rows"),
            Method("one model a true cluster", partial(least_squares, lambda data: data.truth, True), "rows, clusters"),
        ),
        small=partial(draw, "sec-simulation1", {"sec__p": 2}, 0),
        notes=" ".join(_NOTES.split()),
    )
