"""Sites that may not share rows learn together: five published fusion protocols on Flower.

>>> import consilience as cs
>>> sorted(cs.scenarios().index)[:2]
['bc3e-german', 'bc3e-halfmoon']

Names are imported when they are first used: a site that answers a message needs none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from consilience._path import make_importable

if TYPE_CHECKING:
    from consilience.api import check, load, prepare, run, scenarios, suggest
    from consilience.finished_run import Run
    from consilience.public_types import (
        BC3E,
        GP,
        SEC,
        CheckpointError,
        ConfigError,
        Coreset,
        DataError,
        FusionError,
        Residual,
        ResultsError,
        ScenarioError,
        SettingError,
    )

__version__ = "0.1.0"

__all__ = [
    "BC3E",
    "GP",
    "SEC",
    "CheckpointError",
    "ConfigError",
    "Coreset",
    "DataError",
    "FusionError",
    "Residual",
    "ResultsError",
    "Run",
    "ScenarioError",
    "SettingError",
    "check",
    "load",
    "prepare",
    "run",
    "scenarios",
    "suggest",
]

_HOMES = {
    "BC3E": "protocols.bc3e.settings:Settings",
    "Coreset": "protocols.coreset.settings:Settings",
    "GP": "protocols.gp.settings:Settings",
    "Residual": "protocols.residual.settings:Settings",
    "SEC": "protocols.sec.settings:Settings",
    "CheckpointError": "strategies.checkpoint:CheckpointError",
    "ConfigError": "common.settings:ConfigError",
    "DataError": "clients.data:DataError",
    "FusionError": "strategies.errors:FusionError",
    "ResultsError": "server.report.data:ResultsError",
    "ScenarioError": "scenarios.registry:ScenarioError",
    "SettingError": "common.settings:SettingError",
    "check": "consilience.api:check",
    "Run": "consilience.finished_run:Run",
    "load": "consilience.api:load",
    "prepare": "consilience.api:prepare",
    "run": "consilience.api:run",
    "scenarios": "consilience.api:scenarios",
    "suggest": "consilience.api:suggest",
}
"""Module and name of every public name."""

make_importable()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'consilience' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    value = getattr(importlib.import_module(module), attribute)
    if attribute == "Settings":
        value.__doc__ = f"{value.__doc__.partition('.')[0]}.\n\nParameters\n----------\n{value.describe()}"
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
