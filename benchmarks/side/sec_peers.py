"""Alternatives to SEC: a model of a learner's own rows, one model for all, or one for each cluster.

All fit linear regressions, so they only differ in which learners share a model. Two of them iterate: federated
averaging (McMahan et al. 2017) and the iterative federated clustering algorithm (IFCA; Ghosh, Chung, Yin, Ramchandran
2020, arXiv:2006.04088, Algorithm 1 with model averaging). They have favorable conditions: inputs standardized by the
mean and the deviation of all rows, full gradients, a step size in closed form, and their best number of local steps
(`LOCAL_STEPS`). IFCA also gets the true number of clusters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flwr.app import ArrayRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from flwr.serverapp.strategy.strategy_utils import aggregate_arrayrecords
from jaxtyping import Float64, Int64

LOCAL_STEPS = (1, 5, 20)
"""Numbers of descent steps between two averages, all of which `best_of` tries."""
STARTS = 10
"""Number of random starts of IFCA, which share rounds; the one with the lowest training error counts."""
TOLERANCE = 1e-3
"""A fit ends when no coefficient of standardized inputs changes by more than this share of the outcome's deviation."""
MOST_TURNS = 1000
NUMBER = 8
"""Bytes of a number; the other bytes of a message are not counted for peers."""

Models = Float64[np.ndarray, "k q"]
Labels = Int64[np.ndarray, "learners"]


@dataclass(frozen=True)
class Shard:
    """One learner's rows: inputs ``(n, p)`` and outcomes ``(n,)``."""

    x: Float64[np.ndarray, "n p"]
    y: Float64[np.ndarray, "n"]


@dataclass(frozen=True)
class FittedModels:
    """Models of all learners, and their costs.

    Attributes
    ----------
    coefficients : ndarray
        ``(learners, p + 1)``, coefficients of each learner: intercept first, inputs in their own units.
    labels : ndarray or None
        ``(learners,)`` clusters; None: the method has no clusters.
    rounds : int
        Number of asks to all learners; 0: rows are pooled, or nothing is sent.
    up, down : int
        Bytes from and to the learners; of pooled rows, the bytes of the rows.
    loss : float
        Mean squared error of all learners' own rows.
    seconds : float
        Seconds of all calculations with one thread.
    """

    coefficients: Float64[np.ndarray, "learners q"]
    labels: Labels | None
    rounds: int
    up: int
    down: int
    loss: float
    seconds: float


def predict(coefficients: Float64[np.ndarray, "q"], x: Float64[np.ndarray, "t p"]) -> Float64[np.ndarray, "t"]:
    """Return the predictions of a linear regression."""
    return np.asarray(coefficients[0] + x @ coefficients[1:])


# -- in one place -----------------------------------------------------------------------------------------------------


def by_groups(shards: Sequence[Shard], groups: Sequence[int], *, pooled: bool) -> FittedModels:
    """Fit least squares to the pooled rows of each group of learners.

    Parameters
    ----------
    shards : Sequence of Shard
        Rows of all learners.
    groups : Sequence of int
        Each learner's group; if all differ, every learner is alone.
    pooled : bool
        Whether the rows leave the learners.
    """
    started = time.perf_counter()
    labels = np.asarray(groups, np.int64)
    coefficients = np.zeros((len(shards), shards[0].x.shape[1] + 1))
    for group in np.unique(labels):
        members = np.flatnonzero(labels == group)
        x, y = (np.concatenate([getattr(shards[i], rows) for i in members.tolist()]) for rows in ("x", "y"))
        coefficients[members] = np.linalg.lstsq(np.column_stack([np.ones(len(y)), x]), y, rcond=None)[0]
    seconds = time.perf_counter() - started
    up = sum(NUMBER * (shard.x.size + shard.y.size) for shard in shards) if pooled else 0
    return FittedModels(coefficients, None, 0, up, 0, _loss(shards, coefficients), seconds)


def _loss(shards: Sequence[Shard], coefficients: Float64[np.ndarray, "learners q"]) -> float:
    squares = [np.sum((shard.y - predict(w, shard.x)) ** 2) for shard, w in zip(shards, coefficients, strict=True)]
    return float(sum(squares) / sum(len(shard.y) for shard in shards))


# -- by averages of models --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Quadratics:
    """Every learner's mean squared error as a function of the coefficients of standardized inputs.

    Attributes
    ----------
    n : ndarray
        ``(learners,)`` rows.
    gram, moment, power : ndarray
        Means over a learner's rows of ``a a'`` ``(learners, q, q)``, ``a y`` ``(learners, q)`` and ``y^2``
        ``(learners,)``, where a has 1 and the standardized inputs.
    mean, deviation : ndarray
        ``(p,)`` of all rows' inputs; the deviation of a constant input is set to 1.
    level, spread : float
        Mean and standard deviation of all rows' outcomes; the mean is subtracted from y.
    """

    n: Float64[np.ndarray, "learners"]
    gram: Float64[np.ndarray, "learners q q"]
    moment: Float64[np.ndarray, "learners q"]
    power: Float64[np.ndarray, "learners"]
    mean: Float64[np.ndarray, "p"]
    deviation: Float64[np.ndarray, "p"]
    level: float
    spread: float

    @classmethod
    def of(cls, shards: Sequence[Shard]) -> Quadratics:
        """Return the errors of the learners' rows; `traffic` counts the numbers sent for them."""
        x, y = (np.concatenate([getattr(shard, rows) for shard in shards]) for rows in ("x", "y"))
        mean, deviation, level = x.mean(axis=0), x.std(axis=0), float(y.mean())
        deviation = np.where(np.ptp(x, axis=0) > 0, deviation, 1.0)
        gram, moment = [], []
        for shard in shards:
            a = np.column_stack([np.ones(len(shard.y)), (shard.x - mean) / deviation])
            gram.append(a.T @ a / len(a))
            moment.append(a.T @ (shard.y - level) / len(a))
        n = np.array([len(shard.y) for shard in shards], float)
        power = np.array([np.mean((shard.y - level) ** 2) for shard in shards])
        return cls(n, np.array(gram), np.array(moment), power, mean, deviation, level, float(y.std()))

    @cached_property
    def step(self) -> float:
        """Step size with which no learner's error rises: 1 over the largest curvature of all errors."""
        return 1.0 / float(np.linalg.eigvalsh(self.gram)[:, -1].max())

    def descend(self, starts: Float64[np.ndarray, "learners q"], steps: int) -> Float64[np.ndarray, "learners q"]:
        """Return every learner's coefficients after `steps` steps of gradient descent on its own rows."""
        models = starts
        for _ in range(steps):
            models = models - self.step * (np.einsum("lij,lj->li", self.gram, models) - self.moment)
        return models

    def losses(self, models: Models) -> Float64[np.ndarray, "learners k"]:
        """Return the mean squared error of every model on every learner's own rows."""
        curved = np.einsum("ki,lij,kj->lk", models, self.gram, models)
        return np.asarray(self.power[:, None] - 2 * self.moment @ models.T + curved)

    def in_own_units(self, models: Models) -> Models:
        """Return the coefficients in the units of inputs and outcomes."""
        slopes = models[:, 1:] / self.deviation
        return np.column_stack([self.level + models[:, 0] - slopes @ self.mean, slopes])

    def traffic(self, turns: Sequence[int], k: int) -> tuple[int, int, int]:
        """Return rounds, and bytes from and to all learners, of `k` models, given the number of turns of each start.

        Three rounds come in addition to the turns: learners send numbers of rows, sums and sums of squares, and get
        means and deviations; they send their largest curvature, and get the step size; and they get the final models.
        In a turn every learner gets all models and returns its own, with its number if there are several. With several
        starts, every learner also gets the final models of all starts and returns their errors.
        """
        q, learners, total = len(self.mean) + 1, len(self.n), sum(turns)
        starts = len(turns) if len(turns) > 1 else 0
        up = (1 + 2 * q) + 1 + total * (q + (k > 1)) + starts
        down = 2 * q + 1 + (total + starts + 1) * k * q
        return 3 + max(turns) + (starts > 0), NUMBER * learners * up, NUMBER * learners * down


def flower_average(
    models: Float64[np.ndarray, "learners q"], rows: Float64[np.ndarray, "learners"]
) -> Float64[np.ndarray, "q"]:
    """Return the average of models weighted by their rows, by Flower's own function for `FedAvg`."""
    key = FedAvg().weighted_by_key
    replies = [
        RecordDict({"arrays": ArrayRecord([model]), "metrics": MetricRecord({key: n})})
        for model, n in zip(models, rows.tolist(), strict=True)
    ]
    return aggregate_arrayrecords(replies, key).to_numpy_ndarrays()[0]


def fedavg(problem: Quadratics, shards: Sequence[Shard], local_steps: int) -> FittedModels:
    """Fit one model for all learners by federated averaging, from the mean outcome to convergence.

    Parameters
    ----------
    problem : Quadratics
        Errors of `shards`.
    shards : Sequence of Shard
        Rows of the learners.
    local_steps : int
        Steps of descent between two averages.
    """
    started = time.perf_counter()
    model, turns, change = np.zeros(problem.moment.shape[1]), 0, np.inf
    while change > TOLERANCE * problem.spread and turns < MOST_TURNS:
        before, turns = model, turns + 1
        model = flower_average(problem.descend(np.tile(model, (len(shards), 1)), local_steps), problem.n)
        change = float(np.abs(model - before).max())
    coefficients = np.repeat(problem.in_own_units(model[None]), len(shards), axis=0)
    return _fitted_models(problem, shards, coefficients, None, [turns], 1, started)


def ifca(
    problem: Quadratics, shards: Sequence[Shard], k: int, local_steps: int, rng: np.random.Generator
) -> FittedModels:
    """Fit `k` models, each averaged over the learners whose rows it predicts best; the best of `STARTS` starts counts.

    Parameters
    ----------
    problem, shards, local_steps
        As in `fedavg`.
    k : int
        Number of clusters, which the method needs.
    rng : Generator
        Draws the initial models, whose predictions have the variance of the outcome.
    """
    started = time.perf_counter()
    q = problem.moment.shape[1]
    attempts = [
        _iterate(problem, rng.normal(0, problem.spread / np.sqrt(q), (k, q)), local_steps) for _ in range(STARTS)
    ]
    losses = [problem.losses(models) for models, _ in attempts]
    best = int(np.argmin([problem.n @ each.min(axis=1) for each in losses]))
    labels = losses[best].argmin(axis=1)
    coefficients = problem.in_own_units(attempts[best][0])[labels]
    turns = [number for _, number in attempts]
    return _fitted_models(problem, shards, coefficients, labels, turns, k, started)


def _iterate(problem: Quadratics, models: Models, local_steps: int) -> tuple[Models, int]:
    """Return the converged models of one start, and the number of turns."""
    labels, turns, change = None, 0, np.inf
    while change > TOLERANCE * problem.spread and turns < MOST_TURNS:
        before, labels, turns = models, problem.losses(models).argmin(axis=1), turns + 1
        local = problem.descend(models[labels], local_steps)
        mass = (labels[:, None] == np.arange(len(models))) * problem.n[:, None]
        weight = mass.sum(axis=0)
        # A model without learners does not change.
        models = np.where(weight[:, None] > 0, mass.T @ local / np.maximum(weight, 1)[:, None], models)
        change = float(np.abs(models - before).max())
    return models, turns


def _fitted_models(
    problem: Quadratics,
    shards: Sequence[Shard],
    coefficients: Float64[np.ndarray, "learners q"],
    labels: Labels | None,
    turns: Sequence[int],
    k: int,
    started: float,
) -> FittedModels:
    seconds = time.perf_counter() - started
    rounds, up, down = problem.traffic(turns, k)
    return FittedModels(coefficients, labels, rounds, up, down, _loss(shards, coefficients), seconds)


def best_of(way: Callable[[int], FittedModels]) -> FittedModels:
    """Return the result with the fewest rounds among the `LOCAL_STEPS` within 1 % of the lowest training error.

    Only its own rounds, bytes and seconds count, not those of the other attempts.
    """
    attempts = [way(steps) for steps in LOCAL_STEPS]
    lowest = min(each.loss for each in attempts)
    return min((each for each in attempts if each.loss <= 1.01 * lowest), key=lambda each: each.rounds)
