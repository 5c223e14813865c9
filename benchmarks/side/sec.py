"""sec beside learning alone, one model for all, and clusters found by averaging models."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from benchmarks.driver import config_of
from benchmarks.side import Case, Method, Metric, Ran, Side, data_setting
from benchmarks.side.protocol import played, ran
from benchmarks.side.sec_peers import (
    LOCAL_STEPS,
    NUMBER,
    STARTS,
    Learnt,
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
"""Of IFCA's own random numbers."""


@dataclass(frozen=True, eq=False)
class World:
    """Learners with rows of their own, some of whom see another relation than others.

    Attributes
    ----------
    rows : sequence of RegressionRows
        The learners'; errors are measured at those with test rows.
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
        """What the learners learn from."""
        return [Shard(each.x, each.y) for each in self.rows]

    def scored(self, learnt: Learnt) -> dict[str, float]:
        """Metrics of a peer."""
        errors = [
            np.mean((own.y_test - predict(coefficients, own.x_test)) ** 2)
            for own, coefficients in zip(self.rows, learnt.coefficients, strict=True)
            if len(own.y_test)
        ]
        found = {"error": float(np.mean(errors)) / self.variance}
        if learnt.labels is not None:
            found["right"] = float(same_partition(learnt.labels, np.asarray(self.truth)))
        return found

    @cached_property
    def variance(self) -> float:
        """Of the test rows' outcomes, the mean over the learners."""
        return float(np.mean([own.y_test.var() for own in self.rows if len(own.y_test)]))


def drawn(scenario: str, settings: Mapping[str, Any], seed: int) -> World:
    """The learners of a scenario."""
    world, config = find(scenario), config_of(scenario, seed, data=data_setting(), **settings)
    assert world.truth
    return World(world.shards(config, seed, world.sites), world.truth(config, seed, world.sites) or ())


# -- methods ----------------------------------------------------------------------------------------------------------


def ours(settings: Mapping[str, Any], data: World, seed: int) -> Ran:
    """The protocol."""
    driven = played("sec", data.rows, seed, settings, truth=lambda config, seed, n_sites: list(data.truth))

    def score() -> dict[str, float]:
        return {"error": driven.metrics["mse_cluster"] / data.variance, "right": driven.metrics["clusters_correct"]}

    return ran(driven, score)


def grouped(groups: Callable[[World], Sequence[int]], moved: bool, data: World, seed: int) -> Ran:
    """Least squares on the rows of each group."""
    return _ran(data, by_groups(data.shards, groups(data), moved=moved))


def averaged(data: World, seed: int) -> Ran:
    """Federated averaging of one model."""
    started = time.perf_counter()
    problem = Quadratics.of(data.shards)
    prepared = time.perf_counter() - started
    return _ran(data, best_of(partial(fedavg, problem, data.shards)), prepared)


def clustered(more: int, data: World, seed: int) -> Ran:
    """IFCA, told the true number of clusters and `more`."""
    started = time.perf_counter()
    problem = Quadratics.of(data.shards)
    prepared = time.perf_counter() - started

    def way(local_steps: int) -> Learnt:
        return ifca(problem, data.shards, data.k + more, local_steps, np.random.default_rng([seed, _IFCA]))

    return _ran(data, best_of(way), prepared)


def _ran(data: World, learnt: Learnt, prepared: float = 0.0) -> Ran:
    return Ran(
        partial(data.scored, learnt),
        rounds=learnt.rounds,
        to_sites=learnt.down,
        from_sites=learnt.up,
        seconds=prepared + learnt.seconds,
    )


# -- what is compared -------------------------------------------------------------------------------------------------

_GRID = "8000 rows of 12 inputs at 50 learners, 10 of whom report -y; tested at an intact one, 2000 rows"
_LINEAR = "made: 50 rows of {} inputs at each of 20 learners of two linear functions, SNR {:g}; tested at all, 200 rows"
_NOTES = f"""
All but "as it comes" fit linear regressions. Ours looks for the number of clusters by the eigengap and predicts with
the pooled regression of a cluster; with "landmarks" the models of some learners only are tried by all, where there are
many. "As it comes" every learner chooses between a random forest and a line, and the members' predictions are averaged.
Seconds of ours are those of one process, in which the models that all learners try are made ready once. `FedAvg` and
IFCA (Ghosh et al. 2020, with model averaging) get inputs standardised by all rows, full gradients, a step of 1 by the
largest curvature of any learner's error, and of {", ".join(map(str, LOCAL_STEPS))} local steps those that end within
1 % of the lowest training error in the fewest rounds; the search is not counted. They go on until no coefficient moves
by a thousandth of the outcome's deviation. `FedAvg` averages by Flower's own code. IFCA starts {STARTS} times at
random, side by side, and must be told K, the number of clusters. Of peers only the numbers are counted that cross,
{NUMBER} bytes each; of ours whole messages.
"""


def side(quick: bool) -> Side:
    """Electrical grid data, of which some learners report the opposite, and two linear functions."""
    seeds = 2 if quick else 5
    attacked = {"sec__attacked": 10}
    cases = [Case("grid", _GRID, partial(drawn, "sec-grid", attacked), seeds)] + [
        Case(f"linear, {p} inputs", _LINEAR.format(p, snr), partial(drawn, "sec-simulation1", settings), seeds)
        for p, snr in ((5, 16.0), (20, 4.0))
        for settings in [{"sec__p": p, "sec__snr": snr}]
    ]
    return Side(
        protocol="sec",
        task="Predict every learner's outcome from its own rows and what others know, where some see another relation.",
        metrics=(
            Metric("error", "MSE / variance", "lower"),
            Metric("right", "clusters right", "higher", 3),
        ),
        cases=cases[1:2] if quick else cases,
        methods=(
            Method("consilience", partial(ours, LINEAR), "models, sums", ours=True),
            Method("consilience, landmarks", partial(ours, LANDMARKS), "models, sums", ours=True),
            Method("consilience, as it comes", partial(ours, {}), "models", ours=True, limit=300.0),
            Method("every learner alone", partial(grouped, lambda data: range(len(data.rows)), False), "nothing"),
            Method("FedAvg", averaged, "models"),
            Method("IFCA, told K", partial(clustered, 0), "models"),
            Method("IFCA, told K + 1", partial(clustered, 1), "models"),
            Method("one model of all rows", partial(grouped, lambda data: [0] * len(data.rows), True), "rows"),
            Method("one model a true cluster", partial(grouped, lambda data: data.truth, True), "rows, clusters"),
        ),
        small=partial(drawn, "sec-simulation1", {"sec__p": 2}, 0),
        notes=" ".join(_NOTES.split()),
    )
