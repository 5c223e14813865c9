"""Every scenario on small data: its configuration, and a digest of all that it gives to sites and fusion center."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scenarios.registry import Config, find

SYNTHETIC_ROWS = {"coreset.rows": 150_000, "coreset.dimension": 3, "coreset.groups": 3, "coreset.planted": 7}
"""More than two streams of rows, and an incomplete last cycle of clusters."""


def config_of(name: str, folder: Path, **changes: Any) -> dict[str, Any]:
    """Return a scenario's configuration on the small files in a folder; ``gp__rows`` may stand for ``gp.rows``."""
    own: Mapping[str, Any] = {"data": str(folder), "seed": 0}
    if name == "coreset-synthetic":
        own = {**own, **SYNTHETIC_ROWS}
    elif name.startswith("gp-"):
        own = {**own, "gp.parts": 10, "gp.rows": 150}
    return {**own, **{key.replace("__", ".").replace("_", "-"): value for key, value in changes.items()}}


def digest(*parts: Any) -> str:
    """Return a hash of everything that shards, outcomes or queries hold, bit for bit."""
    found = hashlib.sha256()
    for part in parts:
        _update(found, part)
    return found.hexdigest()


def _update(found: Any, part: Any) -> None:
    if isinstance(part, np.ndarray):
        found.update(f"{part.dtype} {part.shape}".encode() + np.ascontiguousarray(part).tobytes())
    elif hasattr(part, "blocks"):
        _update(found, (part.features, *part.blocks()))
    elif is_dataclass(part):
        for each in fields(part):
            _update(found, getattr(part, each.name))
    elif isinstance(part, Mapping):
        for item in part.items():
            _update(found, item)
    elif isinstance(part, list | tuple):
        for each in part:
            _update(found, each)
    else:
        found.update(repr(part).encode())


def world(name: str, config: Config, seed: int) -> str:
    """Return a digest of a scenario's shards, truth, outcomes and queries."""
    scenario = find(name)
    return digest(
        scenario.shards(config, seed, scenario.sites),
        scenario.truth and scenario.truth(config, seed, scenario.sites),
        scenario.outcome and scenario.outcome(config, seed),
        scenario.queries and scenario.queries(config, seed),
    )
