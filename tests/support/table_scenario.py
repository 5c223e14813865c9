"""A scenario that is a table: three learners, the last of which differs by the cell's effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from numerics.shared.regression_rows import RegressionRows
from scenarios import registry
from scenarios.registry import Cell, Config, Scenario

NAME = "test-table"


N_SITES = 3


REPETITIONS = 3


def shards(config: Config, seed: int, n_sites: int) -> list[RegressionRows]:
    """Fifteen rows each of two inputs, and eight to measure errors with."""
    found = []
    for site in range(n_sites):
        rng = np.random.default_rng([seed, site])
        x = rng.normal(size=(23, 2))
        slope = 1.0 + float(config["sec.effect"]) * (site == n_sites - 1)
        y = slope * x[:, 0] - x[:, 1] + 0.1 * rng.normal(size=23)
        found.append(RegressionRows(x[:15], y[:15], x[15:], y[15:], ("a", "b")))
    return found


def baselines(config: Config, seed: int) -> dict[str, float]:
    return {"effect_and_seed": float(config["sec.effect"]) + 100 * seed}


def cells(config: Config) -> list[Cell]:
    pinned = {"sec.standardize": "none", "sec.candidates": "lr"}
    return [
        Cell({"effect": effect}, {**pinned, "sec.effect": effect}, {"mse_all": 0.25} if effect else {})
        for effect in (0.0, 4.0)
    ]


WORLD = Scenario(
    name=NAME, protocol="sec", sites=N_SITES, any_number=False, source="drawn", summary="a test",
    shards=shards, baselines=baselines, cells=cells, at_once=1, columns=("n_clusters", "mse_all"),
)  # fmt: skip


@contextmanager
def registered() -> Iterator[None]:
    """Let runs find the scenario by its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry._SCENARIOS, NAME, WORLD)
        yield
