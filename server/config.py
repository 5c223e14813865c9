"""The run configuration: what each key means, and what it may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from protocols.registry import names

Config = dict[str, bool | int | float | str]


class ConfigError(ValueError):
    """A run configuration that cannot be used; one line that names the key and says what it may be."""


@dataclass(frozen=True)
class Key:
    """One key of the run configuration.

    Attributes
    ----------
    kind : type
        ``bool``, ``int``, ``float`` or ``str``; a whole number is accepted where a float is asked for.
    meaning : str
        One line.
    allowed : str
        What values it may have, in words.
    test : Callable
        Whether a value of the right type is allowed.
    """

    kind: type
    meaning: str
    allowed: str = ""
    test: Callable[[Any], bool] = lambda value: True


SUMMING = ("bc3e", "gp")
"""Protocols some of whose answers the fusion center only sums."""


def _one_of(*values: str) -> dict[str, Any]:
    return {"allowed": "one of " + ", ".join(repr(value) for value in values), "test": lambda value: value in values}


def _is_number(text: str, low: float, high: float) -> bool:
    try:
        return low <= float(text) <= high
    except ValueError:
        return False


def _is_number_or_share(text: str) -> bool:
    return text.isdecimal() and int(text) > 0 if "." not in text else _is_number(text, 1e-9, 1 - 1e-9)


_POSITIVE: dict[str, Any] = {"allowed": "greater than 0", "test": lambda value: value > 0}
_NOT_NEGATIVE: dict[str, Any] = {"allowed": "0 or greater", "test": lambda value: value >= 0}
_AT_LEAST_1: dict[str, Any] = {"allowed": "1 or greater", "test": lambda value: value >= 1}

KEYS: dict[str, Key] = {
    "scenario": Key(
        str, "named world to run (consilience list), or predict: use the result that from names on new data"
    ),
    "seed": Key(int, "seed of everything random", **_NOT_NEGATIVE),
    "repetitions": Key(
        int, "draws of the scenario, worked on in the same rounds", "from 1 to 1000", lambda value: 1 <= value <= 1000
    ),
    "cells": Key(str, "scenario that is a table: only the rows with these labels, e.g. 'p=5 SNR=16'"),
    "output-dir": Key(str, "where results directories go", "not empty", bool),
    "from": Key(str, "scenario=predict: results directory of the run whose result is used on new data"),
    "resume-from": Key(str, "results directory of an interrupted run to go on with"),
    "min-sites": Key(int, "sites that must be connected at the start and answer every round", **_AT_LEAST_1),
    "round-timeout": Key(float, "seconds to wait for a round's answers", **_POSITIVE),
    "max-payload-mb": Key(float, "largest answer of a site that is accepted, in megabytes", **_POSITIVE),
    "secure-aggregation": Key(
        bool, "bc3e with bc3e.distribution=row, and gp: sites mask what is only summed, and the sum alone is seen"
    ),
    "protocol": Key(str, "protocol to run on the parties' own data; empty: run the scenario", **_one_of("", *names())),
    "data": Key(str, "simulation: folder with a file a site; deployment: each node's own `data`"),
    "target": Key(str, "label column"),
    "features": Key(str, "columns used, names or globs"),
    "id": Key(str, "entity column"),
    "sensitive": Key(str, "sensitive columns, names or globs; their values together are a row's colour"),
    "classes": Key(str, "columns of class labels, names or globs"),
    "clusters": Key(str, "columns of cluster labels, names or globs"),
    "truth": Key(str, "column of known classes, for evaluation at the site only"),
    "labels": Key(str, "residual: the fusion center's file of outcomes, with the columns `target` and `id`"),
    "align-key-file": Key(str, "secret by which entities' names are hashed; a real site names its own"),
    "bc3e.distribution": Key(
        str, "what the sites hold: instances, models, or any entries", **_one_of("row", "column", "arbitrary")
    ),
    "bc3e.classes": Key(
        int, "number of classes; 0: as the classifiers' labels show", "0, or 2 or greater", lambda v: v == 0 or v >= 2
    ),
    "bc3e.max-rounds": Key(int, "E-steps at most", **_AT_LEAST_1),
    "bc3e.tolerance": Key(float, "relative change of the bound at which the fit ends", **_POSITIVE),
    "bc3e.accelerate": Key(bool, "combine EM steps (Anderson acceleration)"),
    "bc3e.sweeps": Key(int, "sweeps of an E-step; 0: to convergence", **_NOT_NEGATIVE),
    "bc3e.smoothing": Key(float, "eta of the Dirichlet(1 + eta) prior on beta", **_NOT_NEGATIVE),
    "bc3e.alpha": Key(float, "where every alpha_i starts", "from 0.001 to 10000", lambda value: 1e-3 <= value <= 1e4),
    "bc3e.learn-alpha": Key(bool, "learn alpha, or keep it where it starts"),
    "bc3e.restarts": Key(
        int, "fits from different starts; 0: 1, or 10 without classifiers", "from 0 to 1000", lambda v: 0 <= v <= 1000
    ),
    "bc3e.missing": Key(str, "statistics of a site that no longer answers", **_one_of("keep", "drop")),
    "bc3e.allow-single-model": Key(bool, "simulation: a site may share instances although it holds a single model"),
    "bc3e.labelled": Key(
        float, "scenario: share of labelled data; 0: the scenario's own", "from 0 to below 1", lambda v: 0 <= v < 1
    ),
    "bc3e.clusterings": Key(str, "scenario: which clusterings", **_one_of("k", "k-3k-6k", "k-2k-4k-6k")),
    # Empty ones: as the scenario has it, else as `strategies.coreset.Settings`.
    "coreset.k": Key(int, "number of clusters; 0: 10", "from 0 to 10000", lambda value: 0 <= value <= 10_000),
    "coreset.size": Key(
        int,
        "locations of a site's coreset, each with a point for every colour; 0: 200 k",
        "from 0 to 1000000",
        lambda value: 0 <= value <= 1_000_000,
    ),
    "coreset.construction": Key(
        str,
        "how a site finds them: in one pass, or improved by more of them; empty: bico",
        **_one_of("", "bico", "kmeans"),
    ),
    "coreset.projection": Key(
        int,
        "dimensions of the random projection in which it finds them (Algorithm 15); 0: none",
        "from 0 to 10000",
        lambda value: 0 <= value <= 10_000,
    ),
    "coreset.min-weight": Key(
        int,
        "fewest rows that a point which leaves its site may stand for",
        "from 1 to 1000000",
        lambda value: 1 <= value <= 1_000_000,
    ),
    "coreset.scale": Key(
        str,
        "what a column counts in: its standard deviation over all sites, or its own unit; empty: variance",
        **_one_of("", "variance", "none"),
    ),
    "coreset.algorithm": Key(
        str,
        "how the center clusters the points; empty: fair-kmeans++",
        **_one_of("", "fair-kmeans++", "fair-lloyd", "cklv", "reassigned-cklv"),
    ),
    "coreset.balance": Key(
        float,
        "alpha: a colour's share of a cluster is between alpha times and 1/alpha times its share of the data",
        "greater than 0, at most 1",
        lambda value: 0 < value <= 1,
    ),
    "coreset.restarts": Key(
        int, "clusterings from different starts, the cheapest counts; 0: 5", "from 0 to 1000", lambda v: 0 <= v <= 1000
    ),
    "coreset.center-size": Key(
        int, "points above which the center sums up the sites' points once more; 0: 20000", **_NOT_NEGATIVE
    ),
    "coreset.assignment": Key(
        str,
        "fair assignment of the points (two asks in all), or of all rows, by rounds of prices; empty: coreset",
        **_one_of("", "coreset", "exact"),
    ),
    "coreset.gap": Key(
        float,
        "assignment=exact: relative gain still expected at which the rounds of prices end",
        "from 1e-9 to 1",
        lambda value: 1e-9 <= value <= 1,
    ),
    "coreset.price-rounds": Key(int, "assignment=exact: rounds of prices at most", **_AT_LEAST_1),
    "coreset.rows": Key(int, "scenario: number of rows of all sites; 0: the scenario's own", **_NOT_NEGATIVE),
    "coreset.split": Key(
        str,
        "scenario: how rows are dealt out, at random, along a column, or by colour; empty: random",
        **_one_of("", "random", "column", "colour"),
    ),
    "coreset.balanced": Key(
        str,
        "scenario: the larger colours subsampled to equal numbers; empty: the scenario's own",
        **_one_of("", "yes", "no"),
    ),
    "coreset.colours": Key(int, "scenario: number of colours; 0: the scenario's own", **_NOT_NEGATIVE),
    "coreset.dimension": Key(int, "scenario: number of columns; 0: the scenario's own", **_NOT_NEGATIVE),
    "coreset.planted": Key(int, "scenario: number of clusters that are there; 0: the scenario's own", **_NOT_NEGATIVE),
    # Empty ones: as the scenario has it, else as `strategies.gp.Settings`.
    "gp.kernel": Key(
        str,
        "covariance function: se, matern12, matern32, matern52, or sums and products of GPyTorch's; empty: se",
        "up to 200 characters",
        lambda value: len(value) <= 200,
    ),
    "gp.gate": Key(
        str,
        "who chooses the experts of a point: centroids, Gaussians, a network, the graph of predictions, or nobody;"
        " empty: gaussian",
        **_one_of("", "knn", "gaussian", "dnn", "ggm", "all"),
    ),
    "gp.experts": Key(
        str,
        "K, how many experts a point is sent to: a number, or a share of them such as 0.5; empty: half",
        "empty, a whole number, or a share greater than 0 and below 1",
        lambda value: value == "" or _is_number_or_share(value),
    ),
    "gp.aggregation": Key(
        str,
        "how their predictions become one; empty: npae",
        **_one_of("", "npae", "poe", "gpoe", "bcm", "rbcm", "grbcm"),
    ),
    "gp.covariance": Key(
        str,
        "npae: covariances between experts from features over public landmarks, or from disclosed inputs; empty:"
        " sketch",
        **_one_of("", "sketch", "inputs"),
    ),
    "gp.landmarks": Key(int, "landmarks of a query point; 0: 32", "from 0 to 256", lambda value: 0 <= value <= 256),
    "gp.max-expert-rows": Key(
        int,
        "rows above which a site splits itself into several experts; 0: 2000",
        "0, or from 2 to 20000",
        lambda value: value == 0 or 2 <= value <= 20_000,
    ),
    "gp.fit-rounds": Key(
        int, "asks for the hyperparameters at most; 0: 15", "from 0 to 1000", lambda value: 0 <= value <= 1000
    ),
    "gp.candidates": Key(int, "hyperparameters tried in one ask; 0: 8", "from 0 to 64", lambda value: 0 <= value <= 64),
    "gp.gate-rounds": Key(
        int, "gate dnn: steps of its training; 0: 10", "from 0 to 10000", lambda value: 0 <= value <= 10_000
    ),
    "gp.communication": Key(
        float,
        "grbcm: share of all rows that the communication expert is given; 0: as many as an expert has",
        "from 0 to 0.5",
        lambda value: 0 <= value <= 0.5,
    ),
    "gp.queries": Key(str, "the center's file of query points; empty: the scenario's, or _test of the folder `data`"),
    "gp.model": Key(str, "results directory of an earlier run whose hyperparameters and gate are to predict"),
    "gp.parts": Key(int, "scenario: number of experts; 0: the scenario's own", **_NOT_NEGATIVE),
    "gp.rows": Key(int, "scenario: number of training rows; 0: the scenario's own", **_NOT_NEGATIVE),
    "gp.split": Key(
        str,
        "scenario: rows dealt out to the experts by k-means, or at random; empty: kmeans",
        **_one_of("", "kmeans", "random"),
    ),
    # Empty ones: as the scenario has it, else as `strategies.residual.Settings`.
    "residual.algorithm": Key(
        str,
        "how the agents learn together; empty: parallel",
        **_one_of("", "parallel", "greedy", "sip", "average", "meta-linear", "meta-boosting"),
    ),
    "residual.agent": Key(str, "an agent's method, e.g. 'tree' or 'hgb(max_depth=3)'; empty: tree"),
    "residual.min-leaf": Key(int, "fewest rows in a leaf of a tree; 0: by the number of rows", **_NOT_NEGATIVE),
    "residual.power": Key(
        str,
        "p of the reweighting (eq. 37): a number, or auto, chosen on held-out rows; empty: auto",
        "empty, 'auto' or a number from 1 to 20",
        lambda value: value in ("", "auto") or _is_number(value, 1, 20),
    ),
    "residual.powers": Key(
        str,
        "candidates of auto",
        "numbers from 1 to 20, 12 at most",
        lambda value: 0 < len(value.split()) <= 12 and all(_is_number(each, 1, 20) for each in value.split()),
    ),
    "residual.step": Key(
        str,
        "length of a step: back-search (Algorithm 4), or the full one; empty: search",
        **_one_of("", "search", "full"),
    ),
    "residual.rounds": Key(int, "iterations at most; 0: 60", "from 0 to 100000", lambda value: 0 <= value <= 100_000),
    "residual.stop": Key(
        str,
        "after all iterations, when the training error, or that of held-out rows, no longer falls; empty: held-out",
        **_one_of("", "rounds", "train", "held-out"),
    ),
    "residual.patience": Key(int, "iterations without a smaller error after which it stops", **_AT_LEAST_1),
    "residual.shrinkage": Key(
        float, "nu of sip and greedy; 0: 1", "0, or from 0.000001 to 1", lambda value: value == 0 or 1e-6 <= value <= 1
    ),
    "residual.steps": Key(
        int, "sip and greedy: residual steps of an agent in one ask", "from 1 to 1000", lambda value: 1 <= value <= 1000
    ),
    "residual.ridge": Key(float, "lambda of eq. (35), relative to the mean power of a prediction", **_NOT_NEGATIVE),
    "residual.intercept": Key(bool, "learn about the mean outcome, or about 0 as the paper's formulas"),
    "residual.idle-share": Key(
        float,
        "parallel: share of the power below which an agent is no longer asked",
        "from 0 to below 1",
        lambda value: 0 <= value < 1,
    ),
    "residual.validation": Key(
        float,
        "share of the rows to learn from on which p and the end are chosen",
        "greater than 0, below 1",
        lambda value: 0 < value < 1,
    ),
    "residual.holdout": Key(
        float, "own data: share of the rows that are test rows", "from 0 to 0.9", lambda value: 0 <= value <= 0.9
    ),
    "residual.refit": Key(bool, "when p and the end are chosen, learn once more from all rows"),
    "residual.align": Key(
        str, "entities by name, or by row; empty: by name where there are names", **_one_of("", "id", "row-order")
    ),
    "residual.topology": Key(
        str, "sip: the residual goes through the center, or sealed from agent to agent", **_one_of("center", "ring")
    ),
    "residual.precision": Key(str, "numbers on the wire", **_one_of("float64", "float32")),
    "residual.model": Key(str, "results directory of an earlier run whose agents are to predict their present rows"),
    "residual.correlation": Key(
        float,
        "scenario: correlation of the two attributes; 0: the scenario's own",
        "from 0 to below 1",
        lambda value: 0 <= value < 1,
    ),
    # Empty ones: as the scenario has it, else as `strategies.sec.Settings`.
    "sec.candidates": Key(str, "methods a learner chooses among, e.g. 'lr rf(max_depth=3)'; empty: 'rf lr'"),
    "sec.standardize": Key(
        str,
        "each learner's rows by its own means and scales, the scales inside the model, or none; empty: model",
        **_one_of("", "learner", "model", "none"),
    ),
    "sec.min-leaf": Key(int, "fewest rows in a leaf of a tree that leaves the site; 0: 5", **_NOT_NEGATIVE),
    "sec.reference": Key(
        str, "error of a learner's own model: on its own rows, or on half of them", **_one_of("fitted", "cv")
    ),
    "sec.scale": Key(
        str, "dissimilarity at which similarity is 1/e: mean or median over the pairs", **_one_of("mean", "median")
    ),
    "sec.k": Key(int, "number of clusters; 0: chosen", **_NOT_NEGATIVE),
    "sec.k-method": Key(str, "how the number is chosen; empty: eigengap", **_one_of("", "eigengap", "gap")),
    "sec.k-min": Key(int, "fewest clusters to choose from; 0: 1", "0, 1 or 2", lambda value: value in (0, 1, 2)),
    "sec.k-max": Key(int, "most clusters to choose from; 0: 10, or fewer with few learners", **_NOT_NEGATIVE),
    "sec.exchange": Key(str, "whose models everybody tries: all, or some landmarks'", **_one_of("all", "landmarks")),
    "sec.landmarks": Key(int, "number of landmarks; 0: twice the root of the number of learners", **_NOT_NEGATIVE),
    "sec.combine": Key(
        str,
        "how a cluster predicts: weighted mean of its models, or its pooled linear regression; empty: average",
        **_one_of("", "average", "pooled-linear"),
    ),
    "sec.newcomers": Key(str, "sites, names or globs, that are assigned to the clusters of the others"),
    "sec.assign": Key(
        str, "newcomers go where their similarities are largest in sum, or on average", **_one_of("sum", "mean")
    ),
    "sec.join": Key(str, "results directory of an earlier run whose clusters the sites of this run join"),
    "sec.holdout": Key(
        float,
        "own data: share of a site's rows held out to compare predictions on",
        "from 0 to 0.9",
        lambda value: 0 <= value <= 0.9,
    ),
    "sec.allow-row-models": Key(bool, "simulation: models that hold rows (knn, svr) may be candidates"),
    "sec.p": Key(int, "scenario: number of inputs", **_AT_LEAST_1),
    "sec.snr": Key(float, "scenario: signal-to-noise ratio", **_POSITIVE),
    "sec.effect": Key(float, "scenario: coefficient of the sensitive variable", **_NOT_NEGATIVE),
    "sec.attacked": Key(int, "scenario: number of learners that were attacked", **_NOT_NEGATIVE),
}


def checked(run_config: Mapping[str, Any]) -> Config:
    """The run configuration with every value of its type and in its range.

    Raises
    ------
    ConfigError
        Naming the first key that is not.
    """
    config: Config = {}
    for name, value in run_config.items():
        key = KEYS.get(name)
        if key is None:
            raise ConfigError(f"unknown key {name!r} in the run configuration")
        config[name] = _typed(name, key, value)
        if not key.test(config[name]):
            raise ConfigError(f"{name} must be {key.allowed}, got {value!r}")
    missing = [name for name in KEYS if name not in config]
    if missing:
        raise ConfigError(f"the run configuration lacks {', '.join(missing)}")
    return config


def check_sums(config: Config, protocol: str) -> None:
    """Refuse ``secure-aggregation`` where the fusion center needs more of the sites' answers than their sum.

    Raises
    ------
    ConfigError
        Naming the protocols that sum.
    """
    if config["secure-aggregation"] and protocol not in SUMMING:
        raise ConfigError(
            f"secure-aggregation=true is for {' and '.join(SUMMING)} (bc3e with bc3e.distribution=row); the fusion"
            f" center of {protocol} needs what each site says, not the sum: leave it out"
        )


def _typed(name: str, key: Key, value: Any) -> bool | int | float | str:
    if key.kind is float and type(value) is int:
        value = float(value)
    if type(value) is not key.kind or (isinstance(value, float) and not math.isfinite(value)):
        kinds = {bool: "true or false", int: "a whole number", float: "a finite number", str: "text in quotes"}
        raise ConfigError(f"{name} must be {kinds[key.kind]}, got {value!r}")
    assert isinstance(value, bool | int | float | str)
    return value
