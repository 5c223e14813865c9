"""What sec, residual and bc3e are held against: that each peer does what it is said to do."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.side import Method, Side, bc3e, residual, sec
from benchmarks.side.protocol import played
from benchmarks.side.sec_peers import (
    NUMBER,
    STARTS,
    TOLERANCE,
    Learnt,
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
    found = []
    for group in groups:
        x = rng.normal([0, 5, -100], [1, 2, 50], size=(rows, 3))
        found.append(Shard(x, 7 + x @ (slopes[group] / [1, 2, 50]) + noise * rng.normal(size=rows)))
    return found


def method(side: Side, name: str) -> Method:
    return next(each for each in side.methods if each.name == name)


# -- sec --------------------------------------------------------------------------------------------------------------


def test_flowers_average_is_the_one_by_rows() -> None:
    models, rows = np.random.default_rng(0).normal(size=(4, 3)), np.array([1.0, 5.0, 2.0, 2.0])
    assert flower_average(models, rows) == pytest.approx(np.average(models, axis=0, weights=rows), rel=1e-12)


@pytest.mark.parametrize("local_steps", [1, 5])
def test_federated_averaging_ends_at_the_least_squares_of_all_rows(local_steps: int) -> None:
    shards = learners([0] * 8)
    pooled = by_groups(shards, [0] * 8, moved=True)
    found = fedavg(Quadratics.of(shards), shards, local_steps)
    x = np.concatenate([shard.x for shard in shards])
    y = np.concatenate([shard.y for shard in shards])
    apart = predict(found.coefficients[0], x) - predict(pooled.coefficients[0], x)
    assert np.sqrt(np.mean(apart**2)) < 10 * TOLERANCE * y.std()
    assert found.loss == pytest.approx(pooled.loss, rel=0.01)
    assert (found.coefficients == found.coefficients[0]).all()


def test_clusters_of_averaged_models_are_the_planted_ones() -> None:
    groups = [0, 1, 2] * 4
    shards = learners(groups)
    found = ifca(Quadratics.of(shards), shards, 3, 5, np.random.default_rng(0))
    assert found.labels is not None
    assert same_partition(found.labels, np.array(groups))
    assert found.loss == pytest.approx(by_groups(shards, groups, moved=True).loss, rel=0.05)


def test_bytes_of_averages_are_those_of_every_number_that_crosses() -> None:
    shards, p = learners([0] * 2), 3
    problem, q = Quadratics.of(shards), p + 1
    # Rows, sums and squares of inputs and outcome, curvature, then a model; scales, step, a model, and the last one.
    assert problem.crossed([1], 1) == (4, 2 * NUMBER * (1 + 2 * q + 1 + q), 2 * NUMBER * (2 * q + 1 + 2 * q))
    one, several = problem.crossed([5], 2), problem.crossed([5, 3], 2)
    assert several[0] == one[0] + 1
    assert several[1] == one[1] + 2 * NUMBER * (3 * (q + 1) + 2)
    assert several[2] == one[2] + 2 * NUMBER * 2 * q * (3 + 2)
    found = ifca(problem, shards, 1, 1, np.random.default_rng(0))
    assert found.up >= STARTS * NUMBER * 2 * q


def test_the_fewest_rounds_of_those_that_end_low_enough_count() -> None:
    tried = {1: (1.0, 40), 5: (1.009, 12), 20: (1.2, 4)}
    nothing = Learnt(np.zeros((1, 1)), None, 0, 0, 0, 0.0, 0.0)
    assert best_of(lambda steps: replace(nothing, loss=tried[steps][0], rounds=tried[steps][1])).rounds == 12


def test_alone_pooled_and_oracle_have_the_errors_that_our_run_measures() -> None:
    side, world = sec.side(quick=True), sec.drawn("sec-simulation1", {"sec__p": 3, "sec__snr": 4.0}, 0)
    driven = played("sec", world.rows, 0, sec.LINEAR, truth=lambda config, seed, n_sites: list(world.truth))
    names = {"alone": "every learner alone", "all": "one model of all rows", "oracle": "one model a true cluster"}
    for ours, peer in names.items():
        scored = method(side, peer).run(world, 0).score()
        assert scored["error"] * world.variance == pytest.approx(driven.metrics[f"mse_{ours}"], rel=1e-9)


def test_methods_of_sec_say_what_they_took() -> None:
    side = sec.side(quick=True)
    world = side.small()
    for name in ("consilience", "FedAvg", "IFCA, told K"):
        ran = method(side, name).run(world, 0)
        assert min(ran.rounds, ran.to_sites, ran.from_sites, ran.seconds) > 0
        assert ran.score()["error"] > 0
    moved = method(side, "one model of all rows").run(world, 0)
    assert (moved.rounds, moved.to_sites) == (0, 0)
    assert moved.from_sites == sum(own.x.nbytes + own.y.nbytes for own in world.rows)


# -- residual ---------------------------------------------------------------------------------------------------------


def test_columns_dealt_out_are_all_columns() -> None:
    for case in residual.side(quick=False).cases[1:]:
        split = case.load(0)
        features = [name for shard in split.shards for name in shard.features]
        assert sorted(features) == sorted(split.world.features)
        for shard in split.shards:
            places = [split.world.features.index(name) for name in shard.features]
            assert np.array_equal(shard.x, split.world.x[:, places])


@pytest.mark.slow
def test_methods_of_residual_are_tested_on_the_same_rows() -> None:
    side = residual.side(quick=True)
    split = side.small()
    variance = float(np.var(split.world.y[split.n_learnt :]))
    errors = {each.name: each.run(split, 0).score()["mse"] for each in side.methods}
    assert all(math.isfinite(error) for error in errors.values())
    assert errors["the best site alone"] <= errors["one site alone"]
    assert errors["consilience, trees"] < variance
    assert method(side, "HistGradientBoosting, all columns").run(split, 0).from_sites == split.world.x.nbytes


def test_pooled_columns_do_not_see_the_test_rows_outcomes() -> None:
    split = residual.side(quick=True).small()
    errors = []
    for moved in (-1.0, 0.0, 1.0):
        y = split.world.y.copy()
        y[split.n_learnt :] += moved
        errors.append(replace(split, world=replace(split.world, y=y)).error(split.world.x, 0))
    # Predictions stay where they are, so that the error is quadratic in what the outcomes are moved by.
    assert errors[0] + errors[2] - 2 * errors[1] == pytest.approx(2.0)


# -- bc3e -------------------------------------------------------------------------------------------------------------


def test_plain_steps_over_sites_end_where_the_centralized_computation_does() -> None:
    side = bc3e.side(quick=True)
    world = side.small()
    federated = method(side, "consilience, plain EM").run(world, 0)
    centralized = method(side, "the same equations, centralized").run(world, 0)
    assert federated.score()["right"] == centralized.score()["right"]
    assert federated.score()["bound"] == pytest.approx(centralized.score()["bound"], rel=bc3e.TOLERANCE)
    assert federated.rounds > 0
    assert centralized.rounds == 0


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
    assert method(side, "majority vote").run(world, 0).score() == {"right": world.right(majority)}
    best = method(side, "the best classifier").run(world, 0).score()["right"]
    assert best == world.right(world.votes[:, 0])
    assert method(side, "a single classifier").run(world, 0).score()["right"] < best


def test_dawid_and_skene_trust_the_voter_who_is_right() -> None:
    pytest.importorskip("crowdkit")
    world, side = voters([0.95, 0.95, 0.6, 0.6, 0.6, 0.6, 0.6], n=200), bc3e.side(quick=True)
    ran = method(side, "Dawid-Skene").run(world, 0)
    assert ran.score()["right"] > method(side, "majority vote").run(world, 0).score()["right"]
    assert ran.from_sites == world.votes.nbytes
