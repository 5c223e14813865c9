"""Settings of Gaussian process experts, a site's consents, and the configuration of predictions."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from common import settings
from common.results import PREDICT
from common.settings import Config, ConfigError, setting
from common.value_ranges import ValueRange, at_least, between
from numerics.gp.kernel_names import AUTO, NAMES, is_kernel, libraries_of
from protocols.prediction import Prediction, PredictionError
from protocols.settings import ProtocolSettings

FEWEST_NEAREST, MOST_NEAREST = 50, 1000
"""Smallest and largest number of nearest rows that predict a point: fewer would show single rows."""
MOST_GROUPS, FEWEST_IN_GROUP = 25, 4
"""Largest number of sums of squared errors of a site alone, and smallest number of test points in one of them."""
MOST_TRIED = 5_000
"""Largest number of hyperparameter values that a real site tries in one run: each answer is a sum over its rows."""
_MOST_CORNERS = 8
"""Most landmarks that an expert answers about by default."""
NEAREST = 200
"""Nearest rows that predict a point at a large site, by default."""
_SHARE = 0.5
"""Share of the experts that answer a point, by default."""
_APART = 0.25
"""Least share of the inputs' spread between experts for a gate to choose: below it no expert is nearer to a point than
another (airfoil split at random: SMSE .088 with half the experts, .084 with all; split by k-means, share .4: equal)."""
_LEARNING_KEYS = ("kernel", "max-expert-rows", "local", "noise", "fit-rounds", "candidates", "gate-rounds")
"""Settings of a run that learns. A run that predicts takes them from the earlier run, or does not need them."""
_FROM = "what the earlier run has"
_SCENARIO_OR_FROM = "what the scenario or the earlier run has"


def _is_number_or_share(text: str) -> bool:
    if "." not in text:
        return text.isdecimal() and int(text) > 0
    try:
        return 0 < float(text) < 1
    except ValueError:
        return False


@dataclass(frozen=True)
class Settings(ProtocolSettings, prefix="gp"):
    """Kernel, gate and aggregation, the effort for each, and which rows a scenario has."""

    summed: ClassVar[str] = "gp"
    tasks: ClassVar[tuple[str, ...]] = ("regression", "classification")

    kernel: str = setting(
        AUTO,
        "covariance function; auto: se, matern52 or matern32, by likelihood",
        ValueRange(
            f"auto, or names of kernels ({', '.join(NAMES)}) joined by + and *",
            lambda text: text == AUTO or is_kernel(text),
        ),
        unset="",
        other_source=_SCENARIO_OR_FROM,
    )
    gate: Literal["knn", "gaussian", "dnn", "ggm", "all"] = setting(
        "gaussian",
        "selection of a point's experts: centroids (knn), Gaussians, a network (dnn), the graph of predictions (ggm)",
        unset="",
        other_source=_SCENARIO_OR_FROM,
    )
    experts: str = setting(
        "",
        "K, experts for a point: a number, or a share such as 0.5",
        ValueRange("a whole number, or a share greater than 0 and below 1", _is_number_or_share),
        unset="",
        words=f"half, or all where sites have rows in the same places, or {_SCENARIO_OR_FROM}",
    )
    aggregation: Literal["npae", "poe", "gpoe", "bcm", "rbcm", "grbcm"] = setting(
        "npae", "rule that combines the experts' predictions", unset="", other_source=_SCENARIO_OR_FROM
    )
    covariance: Literal["sketch", "inputs"] = setting(
        "sketch",
        "npae: covariances between experts from features at public landmarks (sketch), or from disclosed inputs",
        unset="",
        other_source=_FROM,
    )
    answers: int = setting(
        0,
        "npae, sketch: values that an expert answers about: at the point (1), and at landmarks around it",
        between(0, 33),
        words=f"1 + 2^d with d inputs, 9 at most, 1 with more than three classes, or {_SCENARIO_OR_FROM}",
    )
    landmarks: int = setting(
        32, "gp.answers=1: landmarks of a query point", between(1, 256), unset=0, other_source=_FROM
    )
    max_expert_rows: int = setting(
        2000, "rows above which a site predicts from nearest rows, or has several experts", between(2, 20_000)
    )
    local: int = setting(
        NEAREST,
        "nearest rows that predict a point at a site of more rows than that; 0: it has several experts",
        ValueRange(
            f"0, or {FEWEST_NEAREST} to {MOST_NEAREST}",
            lambda value: value == 0 or FEWEST_NEAREST <= value <= MOST_NEAREST,
        ),
    )
    noise: Literal["common", "site"] = setting(
        "common", "noise of the outputs: the same at all sites (common), or each site's own (site)"
    )
    fit_rounds: int = setting(15, "most asks for the hyperparameters", between(1, 1000))
    candidates: int = setting(8, "hyperparameter values tried in one ask", between(1, 64))
    gate_rounds: int = setting(10, "dnn: steps of the network's training", between(1, 10_000))
    communication: float = setting(
        0.0,
        "grbcm: share of all rows that the communication expert gets",
        between(0, 0.5),
        words="as many as an expert has",
    )
    outliers: Literal["auto", "keep"] = setting(
        "auto", "rows with an outlying output: left out where rows are then predicted better (auto), or kept (keep)"
    )
    robust: bool = setting(False, "always leave out rows with an outlier, and sites that the others contradict")
    alone: bool = setting(
        True, "compare with each site alone where outputs at query points are known; sites then get these"
    )
    suggest: bool = setting(False, "at which query point a measurement would tell most (suggestions.csv)")
    queries: str = setting(
        "",
        "the center's file of query points",
        words="the scenario's points, or the file _test in the folder data",
        path=True,
        data=True,
    )
    parts: int = setting(0, "scenario: number of experts", at_least(0), words="the scenario's own", data=True)
    rows: int = setting(0, "scenario: number of training rows", at_least(0), words="the scenario's own", data=True)
    split: Literal["kmeans", "random"] = setting(
        "kmeans", "scenario: rows of an expert: clustered by k-means, or random", data=True
    )

    @property
    def libraries(self) -> Mapping[str, str]:
        """As of `ProtocolSettings`."""
        return libraries_of(self.kernel)

    def check_together(self, config: Mapping[str, Any], files: Collection[str]) -> None:
        """As of `ProtocolSettings`."""
        keys = self.keys()
        for key, purpose in self._ineffective(config).items():
            if purpose and config[f"gp.{key}"] != keys[f"gp.{key}"].declared:
                raise ConfigError(f"gp.{key} is for {purpose}: leave it out")
        if self.suggest and not self.joint:
            raise ConfigError(
                "gp.suggest needs answers about landmarks: gp.aggregation=npae, gp.covariance=sketch, gp.answers"
                " above 1"
            )
        if self.fit_rounds * self.candidates > MOST_TRIED:
            raise ConfigError(
                f"gp.fit-rounds times gp.candidates is more than the {MOST_TRIED} that a site tries in a run"
            )
        if config["protocol"] and config["repetitions"] > 1:
            raise ConfigError("repeated runs on the sites' own rows are all the same; leave repetitions out")

    def _ineffective(self, config: Mapping[str, Any]) -> Mapping[str, str | bool]:
        """Return, by key, the runs in which the key has an effect; empty or False if it has one in this run."""
        earlier = bool(str(config["from"]).strip())
        purposes: dict[str, str | bool] = dict.fromkeys(
            _LEARNING_KEYS, earlier and "a run that learns, not for a run that predicts (from)"
        )
        if not config["protocol"]:  # only some rows of a scenario's table need a key
            return purposes
        sketched = "gp.aggregation=npae with gp.covariance=sketch"
        purposes |= {
            "covariance": self.aggregation != "npae" and "gp.aggregation=npae",
            "answers": not self.sketched and sketched,
            "landmarks": (not self.sketched and sketched)
            or (self.joint and "gp.answers=1: with several answers, it is their number less one"),
            "communication": self.aggregation != "grbcm" and "gp.aggregation=grbcm",
            "experts": self.gate == "all" and "a gate that chooses",
        }
        return purposes if self.gate == "dnn" else purposes | {"gate-rounds": "gp.gate=dnn"}

    def K(self, M: int, n_nearest: int = 0, between: float = 1.0) -> int:
        """Return K, the number of experts, out of M, that answer a point.

        A share leaves out the `n_nearest` experts that predict from nearest rows: they know every neighborhood of their
        sites, and all answer.

        Parameters
        ----------
        M, n_nearest : int
            Numbers of experts.
        between : float
            Share of the inputs' spread that lies between them (`numerics.gp.moments.share_between`).

        Examples
        --------
        >>> Settings().K(10), Settings().K(10, between=0.01), Settings(experts="3").K(10, between=0.01)
        (5, 10, 3)
        """
        if self.gate == "all" or not (self.experts or between >= _APART):
            return M
        if self.experts.isdecimal():
            return min(int(self.experts), M)
        # Rounded up, except for the last digits of a product such as .07 times 100.
        share = math.ceil(float(self.experts or _SHARE) * (M - n_nearest) - 1e-9)
        return n_nearest + min(share, M - n_nearest)

    @property
    def nearest(self) -> int:
        """Number of nearest rows that predict a point at a large site; 0: it has several experts of fixed rows."""
        return 0 if self.disclosed or self.aggregation == "grbcm" else self.local

    @property
    def sketched(self) -> bool:
        """Whether experts send features from which their covariances follow."""
        return self.aggregation == "npae" and self.covariance == "sketch"

    def n_landmarks(self, d: int) -> int:
        """Return the number of landmarks of a point of d inputs; with several answers an expert predicts at each.

        With few inputs, more landmarks than corners of a cube add little and extrapolate (docs/gp.md).

        Examples
        --------
        >>> Settings().n_landmarks(1), Settings().n_landmarks(5), Settings(answers=6).n_landmarks(5)
        (2, 8, 5)
        """
        if not self.sketched:
            return 0
        if self.answers == 1:
            return self.landmarks
        return self.answers - 1 if self.answers else min(2**d, _MOST_CORNERS)

    def of_classes(self, k: int) -> Settings:
        """Return the settings for outputs of k classes (0: amounts): with more than three, experts answer once.

        Examples
        --------
        >>> Settings().of_classes(3).joint, Settings().of_classes(4).joint
        (True, False)
        """
        return replace(self, answers=1) if k > 3 and not self.answers else self

    @property
    def joint(self) -> bool:
        """Whether experts also predict at the landmarks."""
        return self.sketched and self.answers != 1

    @property
    def calibrated(self) -> bool:
        """Whether leave-one-out residuals of single experts calibrate the intervals of combined predictions."""
        return self.aggregation == "npae"

    @property
    def disclosed(self) -> bool:
        """Whether sites are asked for the inputs of their rows."""
        return self.aggregation == "npae" and self.covariance == "inputs"


@dataclass(frozen=True)
class Consents(settings.Settings):
    """Keys of a site's node configuration."""

    min_rows: int = setting(10, "fewest rows with which the site takes part", at_least(1))
    max_queries: int = setting(100_000, "most query points that the site answers in a run", at_least(1))
    max_lone_queries: int = setting(
        0,
        "most points in a run at which its prediction may rest on fewer than 5 of its rows",
        at_least(0),
        words="a tenth of its rows",
    )
    allow_inputs: bool = setting(False, "disclose the inputs of all rows to the fusion center (gp.covariance=inputs)")
    allow_rows: bool = setting(False, "give rows, with outputs, to all sites (gp.aggregation=grbcm)")
    allow_gate_training: bool = setting(False, "send gradients over the site's rows (gp.gate=dnn)")


class _Prediction(Prediction):
    """Sites answer from the rows of the earlier run; the points are in a file of the fusion center."""

    def configure(self, config: Config, request: Mapping[str, Any], learned: Mapping[str, Any]) -> Config:
        if "data" in request and "gp.queries" in request:
            raise PredictionError("data and gp.queries both name the file of the points to predict at; set one")
        points = request.get("data", request.get("gp.queries", ""))
        if learned["protocol"] and not points:
            raise PredictionError('a prediction of gp needs data="FILE", the points to predict at')
        passed_over = {
            "gp.experts": request.get("gp.gate") == "all",
            "gp.covariance": "gp.aggregation" in request,
            "gp.answers": "gp.aggregation" in request or "gp.covariance" in request,
            "gp.landmarks": "gp.aggregation" in request or "gp.covariance" in request,
            "gp.communication": "gp.aggregation" in request,
        }
        keys = Settings.keys()
        unused = {key: keys[key].declared for key, unused in passed_over.items() if unused and key not in request}
        then = {key: learned[key] for key in ("protocol", "data", "cells")}
        then["scenario"] = PREDICT if learned["protocol"] else learned["scenario"]
        return config | unused | then | {"gp.queries": points}


PREDICTION = _Prediction(
    new_rows=False,
    suggestion="gp.suggest",
    forgotten=(
        *(
            "gp.candidates",
            "gp.fit-rounds",
            "gp.gate-rounds",
            "gp.kernel",
            "gp.local",
            "gp.max-expert-rows",
            "gp.noise",
        ),
        "gp.queries",
    ),
)
