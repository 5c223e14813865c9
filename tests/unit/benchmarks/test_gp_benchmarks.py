"""The pieces of benchmarks/gp.py, on little input."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

from benchmarks import gp, gp_peers, gp_ways
from benchmarks.driver import Round
from benchmarks.gp_protocol import learn, sites_of, spent
from numerics.gp.aggregation import aggregate
from numerics.gp.kernel_registry import kernel_of
from numerics.gp.metrics import smse

WORLD = replace(gp_ways.SMALL, rows=80, parts=4, experts=2)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peers that do not learn for long."""
    monkeypatch.setattr(gp_peers, "STEPS", 40)
    monkeypatch.setattr(gp_peers, "INDUCING", 20)
    monkeypatch.setattr(gp_peers, "EPOCHS", 100)
    monkeypatch.setattr(gp_peers, "SVGP_STEP", 0.05)


def test_the_protocol_is_measured_once_for_all_its_ways() -> None:
    found = gp_ways.run_way("consilience", WORLD)
    assert list(found) == list(gp_ways.OURS)
    first, *others = found.values()
    for each in others:
        assert each.learning == first.learning
        assert each.rounds == first.rounds >= 1
    for each in found.values():
        # Some test rows lie beyond all data: there only the deviation can be right.
        assert each.smse > 0
        assert each.msll < -0.5
        assert 0.6 < each.coverage <= 1
        for part in (each.learning, each.prediction):
            assert 0 < part.center < part.together <= part.all
        assert gp_ways.Found.told(asdict(each)) == each


def test_seconds_of_rounds_add_up() -> None:
    rounds = [
        Round(1.0, (2.0, 3.0)),
        Round(0.5, (4.0, 1.0)),
        Round(0.25, (1.0,), frozenset({"gp.Predict"})),
        Round(2),
    ]
    learning, prediction = spent(rounds)
    assert (learning.center, learning.sites, learning.slowest) == (1.5, 10, 7)
    assert (prediction.all, prediction.together) == (3.25, 3.25)


def test_one_site_predicts_as_the_full_process_with_its_hyperparameters() -> None:
    """What is timed is what the protocol promises: one expert is the Gaussian process of all rows."""
    world = replace(WORLD, parts=1, experts=1)
    outcome = learn(world.config, sites_of(world.config, 1)).outcome
    theta, units = outcome.model.fit.theta, outcome.model.federation.units
    shard = next(iter(sites_of(world.config, 1).values())).shard
    assert outcome.queries is not None
    assert outcome.fused is not None
    x, points = units.inputs(shard.x), units.inputs(outcome.queries.x)
    kernel = kernel_of("se", 1)
    z = kernel.matrix(theta[:-1], x, x) + np.exp(2 * theta[-1]) * np.eye(len(x))
    expected = kernel.matrix(theta[:-1], points, x) @ np.linalg.solve(z, units.outputs(shard.y))
    np.testing.assert_allclose(outcome.fused.mean, expected, atol=1e-6)


@pytest.mark.parametrize("way", gp_peers.PEERS)
@pytest.mark.usefixtures("short")
def test_peers_learn_a_curve(way: str) -> None:
    if way in ("ExactGP", "ExactGP-Cholesky", "SVGP"):
        pytest.importorskip("gpytorch")
    rng = np.random.default_rng(0)
    x, points = rng.uniform(-2, 2, (100, 1)), np.linspace(-1.8, 1.8, 50)[:, np.newaxis]
    y = np.sin(3 * x[:, 0]) + 0.05 * rng.normal(size=100)
    mean, variance = gp_peers.PEERS[way](x, y, 0)(points)
    assert smse(np.sin(3 * points[:, 0]), mean) < 0.1
    # Of an observation: no less than its noise.
    assert variance.min() > 0.05**2 / 4


def test_a_way_too_large_for_memory_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    case = gp.Case(WORLD, 10**7, 9, 1, False)
    gp.measure_peers({"vast": case}, ["scikit-learn"], 1.0)
    assert "left out: it would hold about" in capsys.readouterr().out


def test_a_way_without_its_library_is_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gp, "told", lambda command, limit: "ended with 1: No module named 'gpytorch'")
    gp.measure_peers({"small": gp.Case(WORLD, 80, 1, 1, False)}, ["SVGP"], 1.0)
    assert "SVGP                 left out: ended with 1: No module named 'gpytorch'" in capsys.readouterr().out


def test_ratios_are_ours_by_theirs(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = gp_ways.Seconds(2.0, 1.0, 0.5)
    ours = gp_ways.Found(seconds, seconds, 0.05, -1.5, 0.95, 10, 5, 4)
    theirs = replace(ours, learning=gp_ways.Seconds(20.0), smse=0.1, msll=-1.25)
    gp.print_ratios({"consilience": [ours], "SVGP": [theirs]})
    assert "consilience by SVGP: SMSE x 0.500, MSLL -0.2500, learns 10.0 times as fast" in capsys.readouterr().out


def test_the_center_is_timed_on_answers_that_can_be_combined(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = gp.answers(40, 6, 8, np.random.default_rng(0))
    fused = aggregate("npae", said, np.ones(40), 0.1)
    assert np.isfinite(fused.mean).all()
    assert (fused.variance <= 1.1 - 0.999 * said.explained.max(axis=1)).all()
    monkeypatch.setattr(gp, "CENTER_N", 50)
    monkeypatch.setattr(gp, "CENTER_K", (3,))
    gp.main(["--parts", "center", "--runs", "1"])
    assert "npae       3  64" in capsys.readouterr().out
