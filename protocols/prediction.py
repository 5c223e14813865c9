"""The configuration of a run that predicts: that of the earlier run, with the keys that the user sets anew."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.results import PREDICT
from common.settings import Config, SettingError
from protocols import registry
from protocols.settings import declared

_OF_ITS_RUN = {
    *("cells", "data", "from", "labels", "max-payload-mb", "min-sites", "output-dir", "protocol", "repetitions"),
    *("resume-from", "round-timeout", "scenario", "test"),
}
"""Keys that describe the earlier run only; a prediction does not take them over."""

_FIXED = {
    "protocol": "a prediction has the protocol of the run that from names",
    "repetitions": "there is one prediction of a row",
    "seed": "a prediction has the seed of the run that from names",
}
"""Keys that cannot be set for a prediction, and why."""

_Values = Mapping[str, Any]


class PredictionError(SettingError):
    """Error: a run cannot predict. The message is one line that says what to type instead."""


@dataclass(frozen=True)
class Prediction:
    """How a protocol's results predict: ``PREDICTION`` in the protocol's ``settings`` module.

    `resolve` calls `configure`, at the fusion center and at simulated sites. Subclasses override it.

    Attributes
    ----------
    at_center : bool
        Whether the fusion center can predict without asking any site (``consilience predict``).
    new_rows : bool
        Whether `data` names the sites' files of new rows; if not, sites predict their rows of the earlier run.
    forgotten : tuple of str
        Keys of the protocol that are not taken from the earlier run.
    suggestion : str
        Key of a prediction that also suggests where to measure next, in ``suggestions.csv``; empty: there is none.
    """

    at_center: bool = False
    new_rows: bool = True
    forgotten: tuple[str, ...] = ()
    suggestion: str = ""

    def configure(self, config: Config, request: _Values, learned: _Values) -> Config:
        """Return the configuration of the run that predicts.

        Parameters
        ----------
        config : Config
            Configuration of the earlier run, overridden by `request`; its ``from`` names the results.
        request : Mapping
            Keys that are set anew.
        learned : Mapping
            The configuration of the earlier run.

        Raises
        ------
        PredictionError
            If a key cannot be set for a prediction, or is missing.
        """
        return config | {"data": request.get("data", "")}


def resolve(config: _Values) -> Config:
    """Return the configuration that a run uses: in a prediction, that of the earlier run with the keys that are set.

    A key that differs from its default is set; a key at its default counts as not set. Without a prediction the
    configuration is returned as it is.

    Parameters
    ----------
    config : Mapping
        Every key of the run configuration.

    Raises
    ------
    PredictionError
        If the results that `from` names cannot predict, or a key cannot be set beside it.

    Examples
    --------
    >>> resolve({"scenario": "bc3e-wine", "from": ""})
    {'scenario': 'bc3e-wine', 'from': ''}
    """
    if config["scenario"] != PREDICT:
        if config["from"]:
            raise PredictionError(f'from is for scenario="{PREDICT}": set that, or leave from out')
        return dict(config)
    folder = str(config["from"]).strip()
    if not folder:
        raise PredictionError(f'scenario="{PREDICT}" needs from="RESULTS-DIR", the results of the run that has learned')
    report = read_report(folder)
    protocol, learned = str(report["protocol"]), report["config"]
    if learned.get("from"):
        raise PredictionError(f"from: {folder} are predictions themselves; name the run that has learned")
    prediction = prediction_of(protocol)
    if prediction is None:
        raise PredictionError(f"from: results of {protocol} cannot predict")
    if prediction.at_center:
        raise PredictionError(
            f"from: what {protocol} has learned is at the fusion center, and no site need answer: type consilience"
            f" predict {folder} DATA.csv, or in Python load(...).predict(rows)"
        )
    defaults = declared()
    request = {key: value for key, value in config.items() if key in defaults and value != defaults[key]}
    _refuse_fixed(request, protocol)
    forgotten = {*_OF_ITS_RUN, *prediction.forgotten}
    taken = {key: value for key, value in learned.items() if key in defaults and key not in forgotten}
    return prediction.configure({**config, **taken, **request, "protocol": protocol}, request, learned)


def predicts_new_rows(config: Mapping[str, Any]) -> bool:
    """Return whether a run predicts the sites' new rows with an earlier run's model.

    Examples
    --------
    >>> predicts_new_rows({"protocol": "residual", "from": "results/1"}), predicts_new_rows({"protocol": "residual"})
    (True, False)
    """
    protocol = str(config.get("protocol", ""))
    if not protocol or not str(config.get("from", "")).strip():
        return False
    prediction = prediction_of(protocol)
    return prediction is not None and prediction.new_rows and not prediction.at_center


def prediction_of(protocol: str) -> Prediction | None:
    """Return a protocol's `Prediction`; None if the protocol is not installed, or its results cannot predict."""
    if not registry.exists(protocol):
        return None
    prediction: Prediction | None = getattr(registry.room(protocol, "settings"), "PREDICTION", None)
    return prediction


def suggestion_key(folder: str | Path) -> str:
    """Return the key with which a prediction from these results suggests where to measure next.

    Raises
    ------
    PredictionError
        If the folder has no results, or its protocol has no suggestions.
    """
    protocol = str(read_report(folder)["protocol"])
    prediction = prediction_of(protocol)
    if prediction is None or not prediction.suggestion:
        raise PredictionError(f"{folder} has results of {protocol}, which does not say where to measure next")
    return prediction.suggestion


def _refuse_fixed(request: _Values, protocol: str) -> None:
    for key, why in _FIXED.items():
        if key in request:
            raise PredictionError(f"{key}: {why}; leave it out")
    for key in request:
        family, dot, _ = key.partition(".")
        if dot and family != protocol:
            raise PredictionError(f"{key}: the run that from names is one of {protocol}; leave it out")


def read_report(folder: str | Path) -> dict[str, Any]:
    """Return ``report.json`` of a results directory, as it stands there.

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
