"""Evaluation of a run: metrics of a scenario that are derived from those of each repetition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from scenarios.coreset.common import derived_metrics
from scenarios.registry import Scenario
from server.evaluation import evaluate


def test_metrics_are_derived_in_each_repetition() -> None:
    """Means of ratios, which are no ratios of means."""
    base = {0: 100.0, 1: 50.0}
    scenario = Scenario(
        name="x",
        protocol="coreset",
        sites=1,
        any_number=True,
        source="",
        summary="",
        shards=lambda config, seed, n_sites: [],
        baselines=lambda config, seed: {"cost_full": base[seed]},
        derived_metrics=derived_metrics,
    )

    class Strategy:
        seed = 0

        def __getattr__(self, name: str) -> Any:
            return lambda *args: {}

        def metrics(self, outcome: float) -> Mapping[str, float]:
            return {"cost": outcome}

    metrics = evaluate({}, scenario, Strategy(), [110.0, 100.0]).metrics  # type: ignore[arg-type]
    assert metrics["error"] == pytest.approx((0.1 + 1.0) / 2)
    assert metrics["cost"] == 105
