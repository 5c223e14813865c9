"""Random streams, settings and registration, for all scenarios of SEC."""

from __future__ import annotations

from functools import partial
from typing import Any

from scenarios.common import settings_of
from scenarios.registry import Scenario, register

# A world draws from streams of its own: [seed, world, ...].
SIMULATION1, SIMULATION2, FAIRNESS, GRID, CT = range(5)

settings = partial(settings_of, "sec")

FOREST = "rf(max_features=0.3334)"
"""Random forest with a third of the inputs at every split, as in R's package randomForest."""
PAPER = settings(selection="half-half", reference="fitted", weights="rows")
"""Settings of all tables of the paper: selection by eq. (2), errors on the rows of the fit, weights of eq. (5)."""


def add(**world: Any) -> Scenario:
    """Register a scenario of SEC, a table with a fixed number of sites; `world`: the other fields of `Scenario`."""
    return register(Scenario(protocol="sec", any_number=False, **world))
