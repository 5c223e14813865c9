"""Peers of gp: each one learns a curve, and one expert is the Gaussian process of all rows."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.side import gp, gp_peers
from benchmarks.side.protocol import played
from numerics.gp.kernel_registry import kernel_of
from numerics.gp.metrics import smse

PEERS = {
    "full": gp_peers.full,
    "ExactGP": gp_peers.exact,
    "ExactGP, Cholesky": gp_peers.exact_cholesky,
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


def test_one_site_predicts_as_the_full_process_with_its_hyperparameters() -> None:
    """What is timed is what the protocol promises: one expert is the Gaussian process of all rows."""
    data = gp.made(80, 1, 0)
    outcome = played("gp", data.shards, 0, {}, queries=lambda config, seed: data.queries).outcome
    theta, units = outcome.model.fit.theta, outcome.model.federation.units
    (shard,) = data.shards
    assert outcome.fused is not None
    x, points = units.inputs(shard.x), units.inputs(data.queries.x)
    kernel = kernel_of("se", x.shape[1])
    covariance = kernel.matrix(theta[:-1], x, x) + np.exp(2 * theta[-1]) * np.eye(len(x))
    expected = kernel.matrix(theta[:-1], points, x) @ np.linalg.solve(covariance, units.outputs(shard.y))
    np.testing.assert_allclose(outcome.fused.mean, expected, atol=1e-6)
