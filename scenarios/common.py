"""Checked settings and read-only arrays, for scenarios of all protocols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scenarios.registry import Config, ScenarioError


def number(config: Config, key: str, default: float, low: float, high: float = np.inf) -> float:
    """Return a number of the run configuration, `default` if it is not set (0).

    Raises
    ------
    ScenarioError
        If it is no number, or does not lie between `low` and `high` (both included).

    Examples
    --------
    >>> number({"gp.rows": 50}, "gp.rows", 100, 1)
    50
    """
    value = config.get(key) or default
    if isinstance(value, bool | str) or not low <= value <= high or not np.isfinite(value):
        allowed = f"{low:g} or greater" if np.isinf(high) else f"from {low:g} to {high:g}"
        raise ScenarioError(f"{key} must be a finite number, {allowed}, not {value!r}")
    return value


def choice(config: Config, key: str, choices: Sequence[str]) -> str:
    """Return one of some words, the first if the key is empty.

    Raises
    ------
    ScenarioError
        If it is another word.
    """
    value = str(config.get(key, "")) or choices[0]
    if value not in choices:
        raise ScenarioError(f"{key} must be one of {', '.join(choices)}, not {value!r}")
    return value


def check_sites(name: str, n_sites: int, needed: int) -> None:
    """Refuse a number of sites that the scenario cannot be split over."""
    if n_sites != needed:
        raise ScenarioError(f"{name} has {needed} sites and cannot be split over {n_sites}")


def frozen(*arrays: np.ndarray) -> None:
    """Make arrays read-only, because cells, repetitions and sites share them."""
    for array in arrays:
        array.setflags(write=False)


def settings_of(protocol: str, **values: Any) -> dict[str, Any]:
    """Return keys of the run configuration of a protocol, e.g. ``sec.k-min`` for ``k_min=1``."""
    return {f"{protocol}.{key.replace('_', '-')}": value for key, value in values.items()}
