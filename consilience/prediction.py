"""The configuration of a run that predicts: that of the run which has learnt, but for what is said anew."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from common.results import PREDICT
from consilience.settings import SettingError, Value, declared

AT_THE_CENTER = ("coreset", "sec")
"""Protocols whose result is the fusion center's: nobody has to be asked."""

_OF_ITS_RUN = {
    *("cells", "data", "from", "labels", "max-payload-mb", "min-sites", "output-dir", "protocol", "repetitions"),
    *("resume-from", "round-timeout", "scenario"),
    *("gp.model", "gp.queries", "residual.model", "sec.join"),
    *("gp.candidates", "gp.fit-rounds", "gp.gate-rounds", "gp.kernel", "gp.max-expert-rows"),
}
"""Keys that a prediction does not take from the run that has learnt: they were about that run, or about learning."""

_Settings = Mapping[str, Any]


class PredictionError(SettingError):
    """A run that cannot predict; the message is one line that says what to type instead."""


def resolved(config: _Settings) -> dict[str, Value]:
    """The configuration that a run really has; that of a run which does not predict is as it is.

    What is set otherwise than declared in pyproject.toml wins; what is set to its default counts as not set.

    Parameters
    ----------
    config : Mapping
        Every key of the run configuration.

    Raises
    ------
    PredictionError
        If the results that `from` names are none to predict with, or a key cannot be set beside it.
    """
    if config["scenario"] != PREDICT:
        if config["from"]:
            raise PredictionError(f'from is for scenario="{PREDICT}": set that, or leave from out')
        return dict(config)
    folder = str(config["from"]).strip()
    if not folder:
        raise PredictionError(f'scenario="{PREDICT}" needs from="RESULTS-DIR", the results of the run that has learnt')
    report = read_report(folder)
    protocol, learnt = str(report["protocol"]), report["config"]
    if learnt.get("from"):
        raise PredictionError(f"from: {folder} are predictions themselves; name the run that has learnt")
    if protocol in AT_THE_CENTER:
        raise PredictionError(
            f"from: what {protocol} has learnt is at the fusion center, and no site need answer; type: consilience"
            f" predict {folder} DATA.csv"
        )
    if protocol not in _OF_PROTOCOL:
        raise PredictionError(f"from: results of {protocol} are nothing to predict by")
    defaults = declared()
    given = {key: value for key, value in config.items() if key in defaults and value != defaults[key]}
    for key, why in _IN_VAIN.items():
        if key in given:
            raise PredictionError(f"{key}: {why}; leave it out")
    taken = {key: value for key, value in learnt.items() if key in defaults and key not in _OF_ITS_RUN}
    found: dict[str, Value] = {**config, **taken, **given}
    return _OF_PROTOCOL[protocol](found, given, learnt, folder)


_IN_VAIN = {
    "protocol": "a prediction has the protocol of the run that from names",
    "repetitions": "there is one prediction of a row",
    "seed": "a prediction has the seed of the run that from names",
    "sec.join": "a prediction is no clustering to join",
    "gp.model": "from names the run",
    "residual.model": "from names the run",
}


def read_report(folder: str | Path) -> dict[str, Any]:
    """``report.json`` of a results directory, as it stands there.

    Raises
    ------
    PredictionError
        If there is none.
    """
    try:
        report = json.loads((Path(folder).expanduser() / "report.json").read_text(encoding="utf-8"))
        if isinstance(report["protocol"], str) and isinstance(report["config"], dict):
            return dict(report)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise PredictionError(
        f"from: {folder} holds no report.json of a run; give OUTPUT-DIR/NAME/RUN-ID of one that ended"
    )


def at_real_site(run_config: _Settings, protocol: str) -> dict[str, Value]:
    """What a site between SuperNodes makes of the run configuration, when it is asked something of this protocol.

    The results that `from` names lie at the fusion center; the site has its data, their columns, and what it kept of
    the run in its own configuration and directory.
    """
    found = {**run_config, "protocol": protocol}
    return found | ({"residual.model": run_config["from"]} if protocol == "residual" else {})


def _bc3e(found: dict[str, Value], given: _Settings, learnt: _Settings, folder: str) -> dict[str, Value]:
    """Sites tell their new instances their class, each from its own file.

    What leaves a site is told for each site: nothing is summed that could be masked.
    """
    if "secure-aggregation" in given:
        raise PredictionError("secure-aggregation: a prediction of bc3e sums nothing over sites; leave it out")
    for key in given:
        if key.startswith("bc3e.") and key != "bc3e.allow-single-model":
            raise PredictionError(f"{key}: a prediction learns nothing, and has the settings of its run; leave it out")
    return found | {"protocol": "bc3e", "data": given.get("data", ""), "secure-aggregation": False}


def _residual(found: dict[str, Value], given: _Settings, learnt: _Settings, folder: str) -> dict[str, Value]:
    """Sites predict their new rows by the models that they have kept, each from its own file."""
    return found | {"protocol": "residual", "data": given.get("data", ""), "residual.model": folder}


def _gp(found: dict[str, Value], given: _Settings, learnt: _Settings, folder: str) -> dict[str, Value]:
    """Sites answer from the rows that they had then; new are the points, in a file of the fusion center's."""
    if "data" in given and "gp.queries" in given:
        raise PredictionError("data and gp.queries both name the file of the points to predict at; set one")
    points = given.get("data", given.get("gp.queries", ""))
    scenario = PREDICT if learnt["protocol"] else learnt["scenario"]
    if learnt["protocol"] and not points:
        raise PredictionError('a prediction of gp needs data="FILE", the points to predict at')
    passed_over = {
        "gp.experts": given.get("gp.gate") == "all",
        "gp.covariance": "gp.aggregation" in given,
        "gp.landmarks": "gp.aggregation" in given or "gp.covariance" in given,
        "gp.communication": "gp.aggregation" in given,
    }
    defaults = declared()
    unused = {key: defaults[key] for key, unused in passed_over.items() if unused and key not in given}
    then = {key: learnt[key] for key in ("protocol", "data", "cells")}
    return found | unused | then | {"scenario": scenario, "gp.queries": points, "gp.model": folder}


_OF_PROTOCOL: Mapping[str, Callable[[dict[str, Value], _Settings, _Settings, str], dict[str, Value]]] = {
    "bc3e": _bc3e,
    "gp": _gp,
    "residual": _residual,
}
