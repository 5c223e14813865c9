"""Classes with sec compared with its alternatives: ``python -m benchmarks.classes FOLDER --draws 5``.

The sites get random rows of a data set, and the other rows are test rows. All sites have the same relation, unless
every second site has its classes in reverse order. The whole protocol runs in this process. FOLDER has
``heart.csv.gz``, ``wine.csv.gz``, ``adult.csv.gz`` and ``diabetes130.csv.gz``; the others are scikit-learn's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.driver import Transcript
from benchmarks.side.protocol import run_protocol
from benchmarks.side.sec_peers import flower_average
from benchmarks.tables import format_size, means_and_errors, table_head, table_row
from clients.sec.model_store import senders_of
from clients.site import Site
from numerics.sec.sharpening import sharpened
from numerics.shared.classes import one_hot
from numerics.shared.classification import classification_scores
from numerics.shared.regression_rows import RegressionRows
from protocols.sec.payloads import Predict
from strategies.sec.classes import all_probabilities
from strategies.sec.mixtures import mix_models

_SCORES = ("auc", "log_loss", "brier", "calibration_error")
_MOST_TEST_ROWS = 5000
_ADULT = ["age", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
_DIABETES = [
    "time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications", "number_outpatient",
    "number_emergency", "number_inpatient", "number_diagnoses",
]  # fmt: skip
_TURNS, _LOCAL_STEPS, _RATE = 300, 5, 0.5


@dataclass(frozen=True)
class World:
    """A data set, and how its rows are distributed over sites.

    Attributes
    ----------
    x, y : ndarray
        All rows.
    sites, rows : int
        Number of sites, and rows of each.
    swapped : bool
        Whether every second site has its classes in reverse order.
    """

    x: Float64[np.ndarray, "n p"]
    y: Int64[np.ndarray, "n"]
    sites: int
    rows: int
    swapped: bool = False


def worlds(folder: Path) -> dict[str, World]:
    """Return all worlds by name."""

    def table(name: str) -> pd.DataFrame:
        return pd.read_csv(folder / f"{name}.csv.gz", keep_default_na=False)

    heart, wine, adult = table("heart"), table("wine"), table("adult")
    income = adult["income"].str.contains(">50K")
    inputs = adult[_ADULT].assign(man=adult["sex"] == "Male", married=adult["marital_status"].str.startswith("Married"))
    # Rows of one patient are not independent: only the first stay of each counts.
    stays = table("diabetes130").sort_values("encounter_id").drop_duplicates("patient_nbr")
    decades = stays["age"].str.extract(r"(\d+)", expand=False).astype(float)
    cancer, digits = load_breast_cancer(), load_digits()
    named = {
        "heart": World(_inputs(heart), _places(heart["class"]), 4, 45),
        "breast cancer": World(cancer.data, cancer.target.astype(np.int64), 5, 60),
        "wine": World(_inputs(wine), _places(wine["class"]), 3, 40),
        "adult": World(inputs.to_numpy(np.float64), _places(income), 8, 250),
        "diabetes130": World(
            stays[_DIABETES].assign(age=decades).to_numpy(np.float64), _places(stays["readmitted"]), 8, 250
        ),
        "digits": World(digits.data, digits.target.astype(np.int64), 6, 100),
    }
    return named | {"heart, swapped": replace(named["heart"], swapped=True, sites=5, rows=40)}


def _inputs(frame: pd.DataFrame) -> Float64[np.ndarray, "n p"]:
    return frame.drop(columns="class").to_numpy(np.float64)


def _places(column: pd.Series[Any]) -> Int64[np.ndarray, "n"]:
    return np.unique(column.to_numpy(), return_inverse=True)[1].astype(np.int64)


def draw(world: World, seed: int) -> tuple[list[RegressionRows], Float64[np.ndarray, "t p"], Int64[np.ndarray, "t"]]:
    """Return the sites' random rows, and inputs and classes of the test rows."""
    order = np.random.default_rng(seed).permutation(len(world.y))
    shards = []
    names = tuple(f"x{place}" for place in range(world.x.shape[1]))
    for site in range(world.sites):
        own = order[site * world.rows : (site + 1) * world.rows]
        y = world.y[own]
        y = world.y.max() - y if world.swapped and site % 2 == 1 else y
        classes, places = np.unique(y, return_inverse=True)
        x, labels = world.x[own], tuple(str(each) for each in classes)
        shards.append(RegressionRows(x, places.astype(np.float64), x[:0], np.zeros(0), names, labels))
    test = order[world.sites * world.rows :][:_MOST_TEST_ROWS]
    return shards, world.x[test], world.y[test]


def fedavg(shards: Sequence[RegressionRows], x: Float64[np.ndarray, "t p"], k: int) -> Float64[np.ndarray, "t k"]:
    """Predict by logistic regressions averaged by Flower's function, on inputs standardized by all sites' rows."""
    everyone = np.vstack([shard.x for shard in shards])
    mean, scale = everyone.mean(axis=0), np.maximum(everyone.std(axis=0), 1e-12)

    def columns(rows: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n q"]:
        return np.column_stack([np.ones(len(rows)), (rows - mean) / scale])

    def softmax(scores: Float64[np.ndarray, "n k"]) -> Float64[np.ndarray, "n k"]:
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    own = [(columns(s.x), one_hot(np.array([int(s.classes[int(y)]) for y in s.y]), k)) for s in shards]
    n = np.array([len(targets) for _, targets in own], np.float64)
    model = np.zeros((own[0][0].shape[1], k))
    for _ in range(_TURNS):
        models = []
        for z, targets in own:
            local = model
            for _ in range(_LOCAL_STEPS):
                gradient = (
                    z.T @ (softmax(z @ local) - targets) / len(z) + np.vstack([0 * local[:1], local[1:]]) / n.sum()
                )
                local = local - _RATE * gradient
            models.append(local.ravel())
        model = flower_average(np.array(models), n).reshape(model.shape)
    return softmax(columns(x) @ model)


def pooled(shards: Sequence[RegressionRows], x: Float64[np.ndarray, "t p"], k: int, model: Any) -> np.ndarray:
    """Predict by a model of all sites' rows in one place."""
    y = np.concatenate([[int(s.classes[int(each)]) for each in s.y] for s in shards])
    fitted = model.fit(np.vstack([shard.x for shard in shards]), y)
    probabilities = np.full((len(x), k), 0.0)
    probabilities[:, fitted.classes_] = fitted.predict_proba(x)
    return probabilities


def _run(shards: Sequence[RegressionRows], seed: int, settings: Mapping[str, Any]) -> Transcript:
    """Run sec on sites that hold out a share of their rows, as sites with their own data do."""

    def shard(config: Mapping[str, Any], place: int, *_: Any, **__: Any) -> RegressionRows:
        return shards[place]

    with patch("clients.site.shard", shard):
        return run_protocol("sec", shards, seed, {"protocol": "sec", **settings})


def measure(world: World, seed: int, settings: Mapping[str, Any]) -> tuple[dict[str, list[float]], Any]:
    """Return the scores of every way to predict, in the order of `_SCORES`, and the transcript of sec."""
    shards, x, y = draw(world, seed)
    k = int(world.y.max()) + 1
    kept: dict[str, tuple[dict[str, float], float]] = {}

    def keep(ask: Predict, site: Site, *_: Any) -> None:
        weights = site.memory["personal"].tolist()
        kept[site.name] = dict(zip([*senders_of(site), ""], weights, strict=True)), float(site.memory["power"])

    with patch("clients.sec.handlers.save_result", keep):
        run = _run(shards, seed, settings)
    learners, labels = run.outcome.learners, run.outcome.clusters.labels
    judged = [place for place in range(len(shards)) if not world.swapped or place % 2 == 0]
    ways: dict[str, list[np.ndarray]] = {}
    probabilities = all_probabilities(learners, x)
    for place in judged:
        name = learners.names[place]
        mixture = mix_models(name, learners, labels, learners.names, usable=run.outcome.usable, pooled=False, truth={})
        weights = mixture.weights.copy()
        weights[:, place] += mixture.own
        for way, shares in zip(mixture.combinations, weights, strict=True):
            ways.setdefault(way, []).append(np.tensordot(shares, probabilities, 1))
        own, power = kept[name]
        mixed = np.tensordot(np.array([own[each] for each in learners.names]), probabilities, 1)
        ways.setdefault("own weights, no power", []).append(mixed)
        ways.setdefault("personal", []).append(sharpened(mixed, power))
        ways.setdefault("recommended", []).append(ways[run.outcome.recommendations.get(name, "cluster")][-1])
    peers: Mapping[str, Callable[[], np.ndarray]] = {
        "FedAvg logistic": lambda: fedavg(shards, x, k),
        "pooled logistic": lambda: pooled(
            shards, x, k, make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        ),
        "pooled boosting": lambda: pooled(shards, x, k, HistGradientBoostingClassifier(random_state=0)),
    }
    for name, predict in peers.items():
        ways[name] = [predict()]
    # Nobody knows which site is the best one before the test rows are seen.
    best_single = min(ways["alone"], key=lambda p: classification_scores(p, y)["log_loss"].value)
    ways["best single site"] = [best_single]
    means = {}
    for way, predictions in ways.items():
        scores = [classification_scores(np.asarray(p), y) for p in predictions]
        means[way] = [float(np.mean([each[score].value for each in scores])) for score in _SCORES]
    return means, run


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, and print a table."""
    parser: Any = argparse.ArgumentParser(prog="python -m benchmarks.classes", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--candidates", default="")
    parser.add_argument("--only", nargs="+", default=())
    options = parser.parse_args(arguments)
    settings = {"sec__candidates": options.candidates} if options.candidates else {}
    print("\n".join(table_head(["data", "prediction", "AUC", "log loss", "Brier", "calibration error"])), flush=True)
    for name, world in worlds(options.folder).items():
        if options.only and name not in options.only:
            continue
        draws = [measure(world, seed, settings) for seed in range(options.draws)]
        for way in draws[0][0]:
            values = np.array([means[way] for means, _ in draws])
            print(table_row([name, way, *means_and_errors(values)]), flush=True)
        runs = [run for _, run in draws]
        clusters = [run.outcome.clusters.n_clusters for run in runs]
        down, up = (
            format_size(float(np.mean([getattr(run, side) for run in runs]))) for side in ("to_sites", "from_sites")
        )
        print(f"{name}: {runs[0].n_rounds} rounds, {down} down, {up} up; clusters {clusters}", flush=True)


if __name__ == "__main__":
    main()
