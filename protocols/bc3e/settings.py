"""Settings of BC3E, a site's consents, and the configuration of predictions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from common import settings
from common.settings import Config, ConfigError, setting
from common.value_ranges import POSITIVE, ValueRange, at_least, below, between
from protocols.prediction import Prediction, PredictionError
from protocols.settings import ProtocolSettings

LARGEST_SMOOTHING = 1000.0
"""Largest eta of beta's prior: a much larger one outweighs all labels, and its part of the bound leaves the grid."""


@dataclass(frozen=True)
class Settings(ProtocolSettings, prefix="bc3e"):
    """Settings of a fit, and of a scenario's data."""

    summed: ClassVar[str] = "bc3e (bc3e.distribution=row)"
    quick: ClassVar[bool] = True

    distribution: Literal["row", "column", "arbitrary"] = setting(
        "row", "what a site holds: instances (row), models (column), or any labels (arbitrary)"
    )
    classes: int = setting(
        0,
        "number of classes",
        ValueRange("0, or 2 or greater", lambda value: value == 0 or value >= 2),
        words="as many as the classifiers' labels show, of three sites or more at two of them",
    )
    max_rounds: int = setting(200, "most E-steps", at_least(1))
    tolerance: float = setting(1e-6, "relative change of the bound at which the fit stops", POSITIVE)
    stop: Literal["bound", "labels", "both"] = setting(
        "both", "what ends a fit: the bound, the classes of the instances, or both; a scenario: the bound", unset=""
    )
    stop_share: float = setting(
        0.001, "share of the instances whose class may change in a step at the end", between(0, 1)
    )
    accelerate: bool = setting(True, "combine EM steps (Anderson acceleration)")
    sweeps: int = setting(
        0,
        "sweeps of an E-step, each a round where sites share instances",
        between(0, 500),
        words="as few as possible there, elsewhere as many as it takes to converge",
    )
    smoothing: float = setting(0.0, "eta of the Dirichlet(1 + eta) prior on beta", between(0, LARGEST_SMOOTHING))
    reliability: Literal["confusion", "none"] = setting(
        "confusion",
        "a confusion matrix for each classifier (confusion), or every label a vote (none); a scenario has none",
        unset="",
    )
    draws: int = setting(
        0,
        "with confusion matrices: cluster labels that an instance's class counts as much as",
        between(0, 100),
        words="1 to 3, the fewer the more clusterings tell of what classifiers leave open; 1 without clusterings",
    )
    alpha: float = setting(1.0, "initial value of every alpha_i", between(0.001, 10_000))
    learn_alpha: bool = setting(True, "learn alpha; false: keep its initial value")
    restarts: int = setting(
        0, "fits from different starts", between(0, 1000), words="1, or 10 where there are no classifiers"
    )
    abstain: float = setting(0.0, "class probability below which sites list an instance as unsure", between(0, 1))
    missing: Literal["keep", "drop"] = setting(
        "keep", "statistics of a site that stops answering: keep the last ones, or drop them"
    )
    robust: bool = setting(False, "row: leave out, by name, a site whose sums contradict those of all others")
    allow_single_model: bool = setting(False, "simulation: a site may share instances although it holds a single model")
    labeled: float = setting(0.0, "scenario: share of labeled data", below(1), words="the scenario's own", data=True)
    clusterings: Literal["k", "k-3k-6k", "k-2k-4k-6k"] = setting(
        "k-3k-6k", "scenario: numbers of clusters, k being the number of classes", data=True
    )

    @classmethod
    def of_run(cls, config: Mapping[str, Any]) -> Self:
        """Return the settings of a run; in a scenario, empty keys take the paper's values."""
        settings = cls.of(config)
        if config.get("protocol") or not config.get("scenario"):
            return settings
        paper: dict[str, Any] = {"reliability": "none", "stop": "bound"}
        return replace(settings, **{name: value for name, value in paper.items() if not config.get(f"bc3e.{name}")})

    def check_together(self, config: Mapping[str, Any], files: Collection[str]) -> None:
        """As of `ProtocolSettings`."""
        if config["from"]:
            return
        masked = config["secure-aggregation"]
        if masked and self.distribution != "row":
            raise ConfigError(
                "secure-aggregation=true needs bc3e.distribution=row: with shared instances, the fusion center needs"
                " the answer of each site"
            )
        if self.robust and (masked or self.distribution != "row"):
            raise ConfigError(
                "bc3e.robust needs the sums of each site: bc3e.distribution=row, and no secure-aggregation; leave it"
                " out"
            )


@dataclass(frozen=True)
class Consents(settings.Settings):
    """Keys of a site's node configuration."""

    allow_shared_instances: bool = setting(
        False, "answer about single instances that other sites hold too (column, arbitrary)"
    )
    allow_single_model: bool = setting(False, "answer about shared instances although the site holds a single model")
    max_steps: int = setting(300, "most steps of a fit that the site takes", at_least(1))
    min_combination: int = setting(
        5,
        "fewest instances of a combination of labels: rarer ones lose labels before sums are taken, not for their own"
        " classes",
        at_least(1),
    )


class _Prediction(Prediction):
    """Sites find the classes of new instances, each from its own file.

    Each site's counts reach the fusion center: nothing is summed that could be masked.
    """

    def configure(self, config: Config, request: Mapping[str, Any], learned: Mapping[str, Any]) -> Config:
        if "secure-aggregation" in request:
            raise PredictionError("secure-aggregation: a prediction of bc3e sums nothing over sites; leave it out")
        for key in request:
            if key.startswith("bc3e.") and key != "bc3e.allow-single-model":
                raise PredictionError(
                    f"{key}: a prediction learns nothing, and has the settings of its run; leave it out"
                )
        return super().configure(config, request, learned) | {"secure-aggregation": False}


PREDICTION = _Prediction()
