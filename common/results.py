"""Where the results of a run lie: the names of their directories, which sites and fusion center must agree on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

PREDICT = "predict"
"""Name of the scenario, and of the results, of a run with an earlier run's model."""


def results_name(config: Mapping[str, Any]) -> str:
    """Return the name of a run's results: its scenario, or on own data its protocol, or `PREDICT`.

    Examples
    --------
    >>> results_name({"protocol": "", "scenario": "wine"})
    'wine'
    >>> results_name({"protocol": "mean", "scenario": "wine"})
    'mean-own-data'
    """
    if config.get("from"):
        return PREDICT
    return f"{config['protocol']}-own-data" if config.get("protocol") else str(config["scenario"])


def partial_results(config: Mapping[str, Any], run_id: int) -> Path:
    """Return the directory of a run that has not ended, under the fusion center's output directory.

    Examples
    --------
    >>> partial_results({"output-dir": "/data", "scenario": "wine"}, 7203).as_posix()
    '/data/wine/.7203.partial'
    """
    return Path(str(config["output-dir"])).expanduser().absolute() / results_name(config) / f".{run_id}.partial"
