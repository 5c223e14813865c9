"""What the worlds of SEC have in common: streams, settings, registration."""

from __future__ import annotations

from functools import partial
from typing import Any

from scenarios.common import Baselines, no_baselines, settings_of
from scenarios.registry import Scenario, register

# A world draws from streams of its own: [seed, world, ...].
SIMULATION1, SIMULATION2, FAIRNESS, GRID, CT = range(5)

settings = partial(settings_of, "sec")


def add(*, baselines: Baselines = no_baselines, **world: Any) -> Scenario:
    """Register a world of SEC, a table for a fixed number of sites; `world`: the other fields of `Scenario`."""
    return register(Scenario(protocol="sec", any_number=False, baselines=baselines, **world))
