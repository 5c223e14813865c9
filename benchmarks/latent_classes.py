"""Classes with gp compared with its alternatives: ``python -m benchmarks.latent_classes FOLDER --draws 10``.

The data are those of `benchmarks.classes`, with other numbers of rows. The sites get random rows; with ``--split
kmeans`` every site gets a cluster of neighboring rows. A site alone, and all rows in one place, are learned by one
Dirichlet-based Gaussian process. FOLDER has the files of `benchmarks.classes`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.classes import World, draw, fedavg, pooled, worlds
from benchmarks.side.protocol import run_protocol
from benchmarks.tables import format_size, means_and_errors, table_head, table_row
from numerics.gp.measurements import Measurements, Queries
from numerics.shared.classes import align_probabilities
from numerics.shared.classification import classification_scores
from numerics.shared.regression_rows import RegressionRows
from scenarios.gp.baselines import class_process

SCORES = ("auc", "log_loss", "brier", "calibration_error")
_MOST_TEST_ROWS = 1000
_Rows = tuple[Float64[np.ndarray, "n p"], Int64[np.ndarray, "n"]]


def gp_worlds(folder: Path) -> dict[str, World]:
    """Return all worlds by name; diabetes130 has all visits of a patient, and all columns of numbers."""
    named = {name: world for name, world in worlds(folder).items() if not world.swapped}
    named["adult"] = replace(named["adult"], rows=200)
    named["digits"] = replace(named["digits"], sites=5, rows=120)
    table = pd.read_csv(folder / "diabetes130.csv.gz", keep_default_na=False, low_memory=False)
    readmitted = (table["readmitted"] != "NO").to_numpy().astype(np.int64)
    numbers = table.select_dtypes("number").drop(columns=["encounter_id", "patient_nbr"], errors="ignore")
    named["diabetes130"] = World(numbers.to_numpy(np.float64), readmitted, 8, 200)
    return named


def _rows(shard: RegressionRows) -> _Rows:
    """Return all rows of a site, with the classes numbered as in the data set."""
    numbers = np.array([int(each) for each in shard.classes])
    y = np.concatenate([shard.y, shard.y_test]).astype(np.int64)
    return np.vstack([shard.x, shard.x_test]), numbers[y]


def by_neighborhoods(rows: Sequence[_Rows], seed: int) -> list[_Rows]:
    """Redistribute the rows by k-means, so that every site has neighboring rows."""
    from numerics.gp.split import kmeans_parts

    x, y = (np.concatenate(each) for each in zip(*rows, strict=True))
    part = kmeans_parts(x, len(rows), np.random.default_rng(seed))
    return [(x[part == i], y[part == i]) for i in range(len(rows))]


def alone(own: _Rows, x: Float64[np.ndarray, "t p"], k: int, seed: int) -> Float64[np.ndarray, "t k"]:
    """Predict by a site's own rows and one imaginary row, which counts for all classes alike."""
    classes, y = np.unique(own[1], return_inverse=True)
    found = np.ones((len(x), 1))
    if len(classes) > 1:
        found = class_process(own[0], y.astype(np.int64), x, len(classes), "auto", (seed,))
    return align_probabilities(found, classes, k, len(y))


def measure(world: World, seed: int, split: str, peers: bool) -> tuple[dict[str, list[float]], Any]:
    """Return the scores of every way to predict, in the order of `SCORES`, and the transcript of gp."""
    shards, x, y = draw(world, seed)
    x, y, k = x[:_MOST_TEST_ROWS], y[:_MOST_TEST_ROWS], int(world.y.max()) + 1
    rows = [_rows(shard) for shard in shards]
    if split == "kmeans":
        rows = by_neighborhoods(rows, seed)
    names = tuple(f"x{place:02d}" for place in range(x.shape[1]))
    sites = []
    for own_x, own_y in rows:
        classes, places = np.unique(own_y, return_inverse=True)
        labels = tuple(map(str, classes.tolist()))
        sites.append(Measurements(own_x, places.astype(np.float64), names, classes=labels))
    queries = Queries(x, names, y.astype(np.float64), classes=tuple(map(str, range(k))))
    run = run_protocol("gp", sites, seed, {"gp__alone": False}, queries=lambda config, draw: queries)
    everyone: _Rows = (np.vstack([each for each, _ in rows]), np.concatenate([each for _, each in rows]))
    ways = {"gp": run.outcome.class_probabilities}
    own = [alone(each, x, k, seed) for each in rows]
    ways["all rows, one process"] = class_process(*everyone, x, k, "auto", (seed,))
    if peers:
        joined = [
            replace(shard, x=np.vstack([shard.x, shard.x_test]), y=np.concatenate([shard.y, shard.y_test]))
            for shard in shards
        ]
        ways["FedAvg logistic"] = fedavg(joined, x, k)
        ways["all rows, boosting"] = pooled(joined, x, k, HistGradientBoostingClassifier(random_state=0))
    scores = {way: _scores(p, y) for way, p in ways.items()}
    of_sites = [_scores(p, y) for p in own]
    scores["a site alone"] = np.mean(of_sites, axis=0).tolist()
    scores["best site alone"] = min(of_sites, key=lambda each: each[SCORES.index("log_loss")])
    return scores, run


def _scores(probabilities: Float64[np.ndarray, "t k"], y: Int64[np.ndarray, "t"]) -> list[float]:
    found = classification_scores(probabilities, y)
    return [found[score].value for score in SCORES]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, and print a table."""
    parser: Any = argparse.ArgumentParser(
        prog="python -m benchmarks.latent_classes", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first draw")
    parser.add_argument("--only", nargs="+", default=())
    parser.add_argument("--split", choices=("random", "kmeans"), default="random")
    options = parser.parse_args(arguments)
    print("\n".join(table_head(["data", "prediction", "AUC", "log loss", "Brier", "calibration error"])), flush=True)
    for name, world in gp_worlds(options.folder).items():
        if options.only and name not in options.only:
            continue
        seeds = range(options.seed, options.seed + options.draws)
        draws = [measure(world, seed, options.split, options.split == "random") for seed in seeds]
        for way in draws[0][0]:
            values = np.array([scores[way] for scores, _ in draws])
            print(table_row([name, way, *means_and_errors(values)]), flush=True)
        runs = [run for _, run in draws]
        down, up = (
            format_size(float(np.mean([getattr(run, side) for run in runs]))) for side in ("to_sites", "from_sites")
        )
        sharpness = [round(run.outcome.model.sharpness, 2) for run in runs]
        print(f"{name}: {runs[0].n_rounds} rounds, {down} down, {up} up; sharpness {sharpness}", flush=True)


if __name__ == "__main__":
    main()
