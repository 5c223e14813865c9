"""An earlier run's results, for a run that goes on from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from server.config import Config
from server.results import ResultsError, load
from strategies.sec import Settings

_MUST_AGREE = ("standardize", "reference", "combine")
"""Settings without which models or errors of the two runs could not be compared."""


def clustering_to_join(config: Config) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Arrays of the run that `sec.join` names; empty where it names none.

    Raises
    ------
    ResultsError
        If there are no such results, they are not of `sec`, or were made with other settings.
    """
    path = str(config["sec.join"]).strip()
    if not path:
        return {}
    report, arrays = load(Path(path).expanduser())
    if report.protocol != "sec":
        raise ResultsError(f"sec.join: {path} are results of {report.protocol}, not of sec")
    if "cells_n_clusters" in arrays:
        raise ResultsError(f"sec.join: {path} is a scenario's table, of many clusterings; join a run that has one")
    for name in _MUST_AGREE:
        then, now = (each.get(f"sec.{name}") or getattr(Settings, name) for each in (report.config, config))
        if then != now:
            raise ResultsError(
                f"sec.join: {path} was made with sec.{name}={then!r}, this run has {now!r}; set the same"
            )
    return dict(arrays)


def experts_to_ask(config: Config) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Arrays of the run whose experts `gp.model` wants to predict; empty where it names none.

    Raises
    ------
    ResultsError
        If there are no such results, they are not of `gp`, or are a scenario's table.
    """
    path = str(config["gp.model"]).strip()
    if not path:
        return {}
    report, arrays = load(Path(path).expanduser())
    if report.protocol != "gp":
        raise ResultsError(f"gp.model: {path} are results of {report.protocol}, not of gp")
    if len(arrays.get("cells_log_likelihood", ())) > 1:
        raise ResultsError(f"gp.model: {path} is a scenario's table, of many models; name a run that has one")
    return dict(arrays)


def ensemble_to_use(config: Config) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Arrays of the run whose agents `residual.model` wants to predict, and its ``session``; empty where none is named.

    Raises
    ------
    ResultsError
        If there are no such results, or they are not of `residual` on the parties' own data.
    """
    path = str(config["residual.model"]).strip()
    if not path:
        return {}
    if not config["protocol"]:
        raise ResultsError("residual.model: a scenario learns anew; give the parties' own data (protocol, data)")
    if int(config["repetitions"]) > 1:
        raise ResultsError("residual.model: there is one prediction of a row; leave repetitions out")
    report, arrays = load(Path(path).expanduser())
    if report.protocol != "residual":
        raise ResultsError(f"residual.model: {path} are results of {report.protocol}, not of residual")
    if "beta" not in arrays or not report.config.get("protocol"):
        raise ResultsError(f"residual.model: of {path} no agent has kept a model; learn from the parties' own data")
    return {**arrays, "session": np.array(report.session)}
