"""The app of docs/own-apps.md through a real `flwr run`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.processes import FlowerHome, flwr_run
from tests.support.own_apps import write_app, write_shops


@pytest.mark.slow
def test_two_strategies_run_in_somebody_elses_app(flower: FlowerHome, tmp_path: Path) -> None:
    app, shops = tmp_path / "app", tmp_path / "shops"
    app.mkdir()
    write_app(app)
    write_shops(shops)
    outcome = flwr_run(app, {"data": str(shops)}, 3, flower.env)
    assert outcome.completed, outcome.log
    assert "answered: ['shop-0', 'shop-1', 'shop-2'] left out: {}" in outcome.log
    assert "clusters: 2.0" in outcome.log
    assert "centers: [[" in outcome.log
