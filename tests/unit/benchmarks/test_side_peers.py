"""What sec, residual and bc3e are held against: that each peer does what it is said to do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.side import Method, Side, bc3e, residual
from benchmarks.side.sec_peers import (
    NUMBER,
    STARTS,
    TOLERANCE,
    FittedModels,
    Quadratics,
    Shard,
    best_of,
    by_groups,
    fedavg,
    flower_average,
    ifca,
    predict,
)
from numerics.bc3e.ensemble import Ensemble
from numerics.sec.cluster_assignment import same_partition


def learners(groups: list[int], rows: int = 60, noise: float = 0.1) -> list[Shard]:
    """Rows of a linear function of each group, in units of their own."""
    rng = np.random.default_rng(0)
    slopes = rng.normal(size=(max(groups) + 1, 3))
    shards = []
    for group in groups:
        x = rng.normal([0, 5, -100], [1, 2, 50], size=(rows, 3))
        shards.append(Shard(x, 7 + x @ (slopes[group] / [1, 2, 50]) + noise * rng.normal(size=rows)))
    return shards


def method(side: Side, name: str) -> Method:
    return next(each for each in side.methods if each.name == name)


# -- sec --------------------------------------------------------------------------------------------------------------


def test_flowers_average_is_the_one_by_rows() -> None:
    models, rows = np.random.default_rng(0).normal(size=(4, 3)), np.array([1.0, 5.0, 2.0, 2.0])
    assert flower_average(models, rows) == pytest.approx(np.average(models, axis=0, weights=rows), rel=1e-12)


@pytest.mark.parametrize("local_steps", [1, 5])
def test_federated_averaging_ends_at_the_least_squares_of_all_rows(local_steps: int) -> None:
    shards = learners([0] * 8)
    pooled = by_groups(shards, [0] * 8, pooled=True)
    models = fedavg(Quadratics.of(shards), shards, local_steps)
    x = np.concatenate([shard.x for shard in shards])
    y = np.concatenate([shard.y for shard in shards])
    apart = predict(models.coefficients[0], x) - predict(pooled.coefficients[0], x)
    assert np.sqrt(np.mean(apart**2)) < 10 * TOLERANCE * y.std()
    assert models.loss == pytest.approx(pooled.loss, rel=0.01)
    assert (models.coefficients == models.coefficients[0]).all()


def test_clusters_of_averaged_models_are_the_planted_ones() -> None:
    groups = [0, 1, 2] * 4
    shards = learners(groups)
    models = ifca(Quadratics.of(shards), shards, 3, 5, np.random.default_rng(0))
    assert models.labels is not None
    assert same_partition(models.labels, np.array(groups))
    assert models.loss == pytest.approx(by_groups(shards, groups, pooled=True).loss, rel=0.05)


def test_bytes_of_averages_are_those_of_every_number_that_crosses() -> None:
    shards, p = learners([0] * 2), 3
    problem, q = Quadratics.of(shards), p + 1
    # Rows, sums and squares of inputs and outcome, curvature, then a model; scales, step, a model, and the last one.
    assert problem.traffic([1], 1) == (4, 2 * NUMBER * (1 + 2 * q + 1 + q), 2 * NUMBER * (2 * q + 1 + 2 * q))
    one, several = problem.traffic([5], 2), problem.traffic([5, 3], 2)
    assert several[0] == one[0] + 1
    assert several[1] == one[1] + 2 * NUMBER * (3 * (q + 1) + 2)
    assert several[2] == one[2] + 2 * NUMBER * 2 * q * (3 + 2)
    models = ifca(problem, shards, 1, 1, np.random.default_rng(0))
    assert models.up >= STARTS * NUMBER * 2 * q


def test_the_fewest_rounds_of_those_that_end_low_enough_count() -> None:
    attempts = {1: (1.0, 40), 5: (1.009, 12), 20: (1.2, 4)}
    nothing = FittedModels(np.zeros((1, 1)), None, 0, 0, 0, 0.0, 0.0)
    assert best_of(lambda steps: replace(nothing, loss=attempts[steps][0], rounds=attempts[steps][1])).rounds == 12


# -- residual ---------------------------------------------------------------------------------------------------------


def test_columns_dealt_out_are_all_columns() -> None:
    for case in residual.side(quick=False).cases[1:]:
        split = case.load(0)
        features = [name for shard in split.shards for name in shard.features]
        assert sorted(features) == sorted(split.world.features)
        for shard in split.shards:
            places = [split.world.features.index(name) for name in shard.features]
            assert np.array_equal(shard.x, split.world.x[:, places])


def test_pooled_columns_do_not_see_the_test_rows_outcomes() -> None:
    split = residual.side(quick=True).small()
    errors = []
    for moved in (-1.0, 0.0, 1.0):
        y = split.world.y.copy()
        y[split.n_train :] += moved
        errors.append(replace(split, world=replace(split.world, y=y)).error(split.world.x, 0))
    # Predictions stay where they are, so that the error is quadratic in what the outcomes are moved by.
    assert errors[0] + errors[2] - 2 * errors[1] == pytest.approx(2.0)


# -- bc3e -------------------------------------------------------------------------------------------------------------


def voters(right: list[float], n: int = 400) -> bc3e.World:
    """Classifiers of two classes that are right with these probabilities, independently."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, n)
    said = {f"voter-{j}": np.where(rng.random(n) < p, truth, 1 - truth) for j, p in enumerate(right)}
    pooled = Ensemble(n, said, {"none": np.zeros(n, np.int64)}, truth)
    return bc3e.World([pooled], pooled)


def test_the_vote_is_the_majority_and_single_classifiers_are_counted() -> None:
    world = voters([0.95, 0.6, 0.6])
    side = bc3e.side(quick=True)
    majority = (world.votes.sum(axis=1) >= 2).astype(np.int64)
    assert method(side, "majority vote").run(world, 0).score() == {"right": world.accuracy(majority)}
    best = method(side, "the best classifier").run(world, 0).score()["right"]
    assert best == world.accuracy(world.votes[:, 0])
    assert method(side, "a single classifier").run(world, 0).score()["right"] < best


def test_dawid_and_skene_trust_the_voter_who_is_right() -> None:
    pytest.importorskip("crowdkit")
    world, side = voters([0.95, 0.95, 0.6, 0.6, 0.6, 0.6, 0.6], n=200), bc3e.side(quick=True)
    ran = method(side, "Dawid-Skene").run(world, 0)
    assert ran.score()["right"] > method(side, "majority vote").run(world, 0).score()["right"]
    assert ran.from_sites == world.votes.nbytes
