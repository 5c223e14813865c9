"""An earlier run's results, for a run that goes on from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from common.settings import Config
from protocols.sec.settings import Settings
from server.report.saved_arrays import check_saved
from server.results import Report, ResultsError, load

Arrays = dict[str, Shaped[np.ndarray, "..."]]

_MUST_AGREE = ("standardize", "reference", "combine")
"""Settings without which models or errors of the two runs could not be compared."""


def clustering_to_join(config: Config) -> Arrays:
    """Arrays of the run that `sec.join` names; empty where it names none.

    Raises
    ------
    ResultsError
        If there are no such results, they are not of `sec`, or were made with other settings.
    """
    path = str(config["sec.join"]).strip()
    if not path:
        return {}
    report, arrays = _results_of(path, "sec.join", "sec")
    if "cells_n_clusters" in arrays:
        raise ResultsError(f"sec.join: {path} is a scenario's table, of many clusterings; join a run that has one")
    for name in _MUST_AGREE:
        then, now = (getattr(Settings.of(each), name) for each in (report.config, config))
        if then != now:
            raise ResultsError(
                f"sec.join: {path} was made with sec.{name}={then!r}, this run has {now!r}; set the same"
            )
    check_saved(path, "sec", arrays)
    return dict(arrays)


def experts_to_ask(config: Config) -> Arrays:
    """Arrays of the run whose experts `from` wants to predict; empty where it names none.

    Raises
    ------
    ResultsError
        If there are no such results, they are not of `gp`, or are a scenario's table.
    """
    path = str(config["from"]).strip()
    if not path:
        return {}
    _, arrays = _results_of(path, "from", "gp")
    if len(arrays.get("cells_log_likelihood", ())) > 1:
        raise ResultsError(f"from: {path} is a scenario's table, of many models; name a run that has one")
    check_saved(path, "gp", arrays)
    return dict(arrays)


def ensemble_to_use(config: Config) -> Arrays:
    """Arrays of the run whose agents `from` wants to predict, and its ``session``.

    Empty where none is named.

    Raises
    ------
    ResultsError
        If there are no such results, or they are not of `residual` on the parties' own data.
    """
    path = str(config["from"]).strip()
    if not path:
        return {}
    report, arrays = _results_of(path, "from", "residual")
    if "beta" not in arrays or not report.config.get("protocol"):
        raise ResultsError(f"from: of {path} no agent has kept a model; learn from the sites' own data")
    check_saved(path, "residual", arrays)
    return {**arrays, "session": np.array(report.session)}


def classes_to_tell(config: Config) -> Arrays:
    """Arrays of the run of `bc3e` whose alpha and beta `from` wants new instances to be told by, and its ``session``.

    Empty where none is named.

    Raises
    ------
    ResultsError
        If there are no such results, they are of an earlier version, or were changed.
    """
    path = str(config["from"]).strip()
    if not path:
        return {}
    report, arrays = _results_of(path, "from", "bc3e")
    if "clusterings" not in arrays:
        raise ResultsError(f"from: {path} does not name its clusterings; run it again with this version")
    check_saved(path, "bc3e", arrays)
    return {**arrays, "session": np.array(report.session)}


def _results_of(path: str, key: str, protocol: str) -> tuple[Report, Arrays]:
    report, arrays = load(Path(path).expanduser())
    if report.protocol != protocol:
        raise ResultsError(f"{key}: {path} are results of {report.protocol}, not of {protocol}")
    return report, dict(arrays)
