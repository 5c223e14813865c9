"""The benchmarks' driver and methods: what they measure is what a run does."""

from __future__ import annotations

import math
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks import intervals
from benchmarks.driver import config_of, drive, sites_of, strategy_of
from benchmarks.labels import share_right
from benchmarks.side import Method, NotHereError, Side, bc3e, gp, gp_peers, residual, sec
from benchmarks.side.measurement import check_installed, side_of
from benchmarks.side.protocol import run_protocol
from numerics.gp.kernel_registry import kernel_of
from numerics.gp.metrics import smse
from server.results import load
from tests.support.grid import config
from tests.support.runs import run_with_grid


def method(side: Side, name: str) -> Method:
    return next(each for each in side.methods if each.name == name)


def test_the_driver_counts_what_a_run_counts(tmp_path: Path) -> None:
    """Rounds, bytes and results are those of the real server and client, which exchange real messages."""
    settings = {"coreset__rows": 400, "coreset__k": 3}
    path, _ = run_with_grid(config(tmp_path, scenario="coreset-synthetic", **settings), 3)
    report, _ = load(path)
    own = config_of("coreset-synthetic", **settings)
    transcript = drive(strategy_of(own, 3), sites_of(own, 3), time.perf_counter)
    assert transcript.n_rounds == report.rounds
    assert transcript.from_sites == report.ledger["bytes_from_sites"]
    assert transcript.metrics["cost"] == report.metrics["cost"]
    # A session's name is part of every ask.
    assert abs(transcript.to_sites - report.ledger["bytes_to_sites"]) < 100 * 3 * transcript.n_rounds
    seconds = transcript.seconds
    assert seconds.center > 0
    assert 0 < seconds.slowest <= seconds.sites


@pytest.mark.parametrize("protocol", ["gp", "coreset"])
def test_every_method_runs_on_the_small_case(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.side.gp_peers.EPOCHS", 5)
    monkeypatch.setattr("benchmarks.side.gp_peers.STEPS", 5)
    side = side_of(protocol, True)
    data, names = side.small(), {metric.name for metric in side.metrics}
    for method in side.methods:
        try:
            check_installed(method)
        except NotHereError:
            continue
        ran = method.run(data, 0)
        metrics = ran.score()
        assert metrics.keys() <= names
        assert metrics
        assert all(math.isfinite(value) for value in metrics.values())
        if method.ours:
            assert min(ran.rounds, ran.to_sites, ran.from_sites) > 0
            assert 0 < ran.center < ran.seconds


def test_fair_methods_are_fair_and_rows_cost_no_less_than_their_fair_share() -> None:
    side = side_of("coreset", True)
    data = side.small()
    scores = {method.name: method.run(data, 0).score() for method in side.methods if not method.apart}
    for name, score in scores.items():
        if name == "scikit-learn KMeans":
            assert score["cost"] <= score["fair_cost"]
            continue
        assert score["violation"] < 1
        assert score["cost"] >= (1 - 1e-9) * score["fair_cost"]


def test_alone_pooled_and_oracle_have_the_errors_that_our_run_measures() -> None:
    side, world = sec.side(quick=True), sec.draw("sec-simulation1", {"sec__p": 3, "sec__snr": 4.0}, 0)
    transcript = run_protocol("sec", world.rows, 0, sec.LINEAR, truth=lambda config, seed, n_sites: list(world.truth))
    names = {"alone": "every learner alone", "all": "one model of all rows", "oracle": "one model a true cluster"}
    for ours, peer in names.items():
        scored = method(side, peer).run(world, 0).score()
        assert scored["error"] * world.variance == pytest.approx(transcript.metrics[f"mse_{ours}"], rel=1e-9)


def test_methods_of_sec_say_what_they_took() -> None:
    side = sec.side(quick=True)
    world = side.small()
    for name in ("consilience", "FedAvg", "IFCA, true K"):
        ran = method(side, name).run(world, 0)
        assert min(ran.rounds, ran.to_sites, ran.from_sites, ran.seconds) > 0
        assert ran.score()["error"] > 0
    pooled = method(side, "one model of all rows").run(world, 0)
    assert (pooled.rounds, pooled.to_sites) == (0, 0)
    assert pooled.from_sites == sum(own.x.nbytes + own.y.nbytes for own in world.rows)


@pytest.mark.slow
def test_methods_of_residual_are_tested_on_the_same_rows() -> None:
    side = residual.side(quick=True)
    split = side.small()
    variance = float(np.var(split.world.y[split.n_train :]))
    errors = {each.name: each.run(split, 0).score()["mse"] for each in side.methods}
    assert all(math.isfinite(error) for error in errors.values())
    assert errors["the best site alone"] <= errors["one site alone"]
    assert errors["consilience"] < variance
    assert method(side, "HistGradientBoosting, all columns").run(split, 0).from_sites == split.world.x.nbytes


def test_plain_steps_over_sites_end_where_the_centralized_computation_does() -> None:
    side = bc3e.side(quick=True)
    world = side.small()
    federated = method(side, "consilience, plain EM").run(world, 0)
    centralized = method(side, "the same equations, centralized").run(world, 0)
    assert federated.score()["right"] == centralized.score()["right"]
    assert federated.score()["bound"] == pytest.approx(centralized.score()["bound"], rel=bc3e.TOLERANCE)
    assert federated.rounds > 0
    assert centralized.rounds == 0


def test_one_site_predicts_as_the_full_process_with_its_hyperparameters() -> None:
    """What is timed is what the protocol promises: one expert is the Gaussian process of all rows."""
    data = gp.smooth(80, 1, 0)
    outcome = run_protocol("gp", data.shards, 0, {}, queries=lambda config, seed: data.queries).outcome
    theta, units = outcome.model.fit.theta, outcome.model.registry.units
    (shard,) = data.shards
    assert outcome.fused is not None
    x, points = units.inputs(shard.x), units.inputs(data.queries.x)
    kernel = kernel_of("se", x.shape[1])
    covariance = kernel.matrix(theta[:-1], x, x) + np.exp(2 * theta[-1]) * np.eye(len(x))
    expected = kernel.matrix(theta[:-1], points, x) @ np.linalg.solve(covariance, units.outputs(shard.y))
    np.testing.assert_allclose(outcome.fused.mean, expected, atol=1e-6)


def test_a_draw_of_gp_has_all_methods_at_the_same_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few rows in all, the process of all rows is the exact one, and knows what all sites know."""
    monkeypatch.setattr("benchmarks.intervals._MILLION", 300)
    monkeypatch.setattr("benchmarks.intervals._TEST_ROWS", 40)
    found = intervals.draw("million", 0, "random", with_svgp=False)
    assert found.keys() == {"gp", "product of experts", "all rows, exact"}
    assert found["gp"].bytes > found["product of experts"].bytes > 0
    assert math.isnan(found["all rows, exact"].bytes)
    for scores in found.values():
        assert 0 < scores.smse < 1
        assert scores.seconds > 0 or scores is found["product of experts"]
        assert list(scores.coverage) == sorted(scores.coverage)


@pytest.mark.parametrize("column", ["output", "input"])
def test_a_wrong_cell_is_one_cell_of_one_site(monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    monkeypatch.setattr("benchmarks.intervals._MILLION", 300)
    data = intervals.split_of("million", 0, "kmeans")
    wrong = intervals.with_wrong_cell(data, 0, column)
    before, after = (np.column_stack([each.rows.x, each.rows.y]) for each in (data, wrong))
    assert after[before != after].tolist() == [intervals.WRONG]
    np.testing.assert_array_equal(before[data.shards[0].n :], after[data.shards[0].n :])


PEERS = {
    "full": gp_peers.full,
    "ExactGP": gp_peers.exact,
    "ExactGP, Cholesky": partial(gp_peers.exact, cholesky=True),
    "SVGP": gp_peers.svgp,
    "scikit-learn": gp_peers.sklearn_process,
}


@pytest.mark.parametrize("name", PEERS)
def test_peers_learn_a_curve(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "GP" in name:
        pytest.importorskip("gpytorch")
    for setting, value in (("STEPS", 40), ("INDUCING", 20), ("EPOCHS", 100), ("SVGP_STEP", 0.05)):
        monkeypatch.setattr(gp_peers, setting, value)
    rng = np.random.default_rng(0)
    x, points = rng.uniform(-2, 2, (100, 1)), np.linspace(-1.8, 1.8, 50)[:, np.newaxis]
    y = np.sin(3 * x[:, 0]) + 0.05 * rng.normal(size=100)
    mean, variance = PEERS[name](x, y, 0)(points)
    assert smse(np.sin(3 * points[:, 0]), mean) < 0.1
    # Of an observation: no less than its noise.
    assert variance.min() > 0.05**2 / 4


def test_with_many_rows_all_labels_are_right() -> None:
    given, _, default = share_right("lines", 400, 2)
    assert given == default == 1
