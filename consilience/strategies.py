"""The strategies, for a ServerApp of one's own (docs/own-apps.md).

>>> from consilience.strategies import BC3E
>>> BC3E().settings.max_rounds
200

A strategy is imported when its name is first used. Its settings are the class of the same name in `consilience`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strategies.bc3e import BC3E
    from strategies.cells import Table
    from strategies.checkpoint import Checkpoint
    from strategies.coreset import Coreset
    from strategies.errors import FusionError
    from strategies.fusion import FusionResult, FusionStrategy, Reference
    from strategies.gp import GP
    from strategies.influence import Influence
    from strategies.residual import Residual
    from strategies.sec import SEC

__all__ = [
    "BC3E",
    "GP",
    "SEC",
    "Checkpoint",
    "Coreset",
    "FusionError",
    "FusionResult",
    "FusionStrategy",
    "Influence",
    "Reference",
    "Residual",
    "Table",
]

_HOMES = {
    "BC3E": "bc3e",
    "GP": "gp",
    "SEC": "sec",
    "Coreset": "coreset",
    "Residual": "residual",
    "Checkpoint": "checkpoint",
    "FusionError": "errors",
    "FusionResult": "fusion",
    "FusionStrategy": "fusion",
    "Influence": "influence",
    "Reference": "fusion",
    "Table": "cells",
}
"""Module of `strategies` by public name."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'consilience.strategies' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"strategies.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
