"""Sites of real data with sec: ``python -m benchmarks.real_sites FOLDER --draws 10``.

The rows of a data set are split by a column, e.g. age or country, and each part belongs to a site. A site gets a few
random rows of its part. It learns from all of them, and a fifth also judges its recommendation. Errors are computed on
up to 500 other rows of its part, and divided by the variance of their outcome. The table has means over sites, and
after ± the standard error, over draws, of the difference to sites alone. Losses have the noise of real sites, or none
with `--exact`. FOLDER has ``concrete.csv.gz``, ``airfoil.csv.gz``, ``wine.csv.gz``, ``adult.csv.gz`` and
``diabetes130.csv.gz``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64

from benchmarks.decision_worlds import World
from benchmarks.decisions import cluster, play
from benchmarks.tables import standard_error, table_head, table_row
from numerics.sec.recommendation import first_choice, recommend
from numerics.shared.regression_rows import RegressionRows

_FEWEST_FRESH, _MOST_FRESH, _WORSE = 15, 500, 1.02
_WAYS = ("alone", "cluster", "all", "personal")
_CHOICES = ("alone", "cluster", "personal")
Frame = pd.DataFrame


@dataclass(frozen=True)
class Split:
    """How the rows of a data set become sites.

    Attributes
    ----------
    file, target : str
        The data set, and its outcome.
    site : callable
        Returns every row's site, or NaN for rows that belong to none; sites with few rows are left out.
    rows : int
        Rows of each site, including those that judge its recommendation.
    inputs : tuple of str
        Names of the inputs; empty: all other columns.
    """

    file: str
    target: str
    site: Callable[[Frame], "pd.Series[Any]"]
    rows: int = 60
    inputs: tuple[str, ...] = ()


def _by(column: str, edges: Sequence[float] = ()) -> Callable[[Frame], "pd.Series[Any]"]:
    return lambda frame: pd.cut(frame[column], [-np.inf, *edges, np.inf]) if edges else frame[column]


def _largest(column: str, n: int) -> Callable[[Frame], "pd.Series[Any]"]:
    def site(frame: Frame) -> pd.Series[Any]:
        known = frame[column].where(frame[column] != "?")
        return known.where(known.isin(known.value_counts().index[:n]))

    return site


_PERSON = ("age", "education_num", "capital_gain", "capital_loss", "man", "married")
_STAY = ("time_in_hospital", "num_lab_procedures", "num_procedures", "number_outpatient", "number_emergency",
         "number_inpatient", "number_diagnoses")  # fmt: skip
SPLITS = {
    "concrete's strength, age": Split("concrete", "strength_mpa", _by("age_days", (7, 28, 56))),
    "concrete's strength, cement": Split("concrete", "strength_mpa", lambda frame: pd.qcut(frame["cement"], 5)),
    "airfoil's noise, chord": Split("airfoil", "sound_pressure_db", _by("chord_m")),
    "airfoil's noise, speed": Split("airfoil", "sound_pressure_db", _by("velocity_ms")),
    "wine's alcohol, class": Split("wine", "alcohol", _by("class"), 30),
    "adult's hours, education": Split("adult", "hours_per_week", _by("education_num", (8, 9, 12)), 100, _PERSON),
    "adult's hours, country": Split("adult", "hours_per_week", _largest("native_country", 6), 80, _PERSON),
    "number of medications, age": Split("diabetes130", "num_medications", _by("age"), 80, _STAY),
    "number of medications, specialty": Split(
        "diabetes130", "num_medications", _largest("medical_specialty", 5), 80, _STAY
    ),
}
"""Splits by name: the outcome, and the column that makes the sites."""


def table_of(split: Split, folder: Path) -> Frame:
    """Read a data set; the column ``_site`` has every row's site."""
    frame = pd.read_csv(folder / f"{split.file}.csv.gz", keep_default_na=False)
    if split.file == "adult":
        frame["man"], frame["married"] = frame["sex"] == "Male", frame["marital_status"].str.startswith("Married")
    if split.file == "diabetes130":  # rows of one patient are not independent: only the first stay of each counts
        frame = frame.sort_values("encounter_id").drop_duplicates("patient_nbr")
    site = split.site(frame)
    inputs = list(split.inputs) or [name for name in frame.columns if name != split.target]
    if split.file == "wine":
        inputs.remove("class")
    return (
        frame[inputs].astype(np.float64).assign(_target=frame[split.target].astype(np.float64), _site=site.astype(str))
    )


def draw(split: Split, table: Frame, seed: int) -> World:
    """Draw every site's training rows, of which a fifth judges its recommendation, and its test rows."""
    rng = np.random.default_rng(seed)
    inputs = [name for name in table.columns if not name.startswith("_")]
    rows = []
    for site, own in table.groupby("_site"):
        if site == "nan" or len(own) < split.rows + _FEWEST_FRESH:
            continue
        own = own.iloc[rng.permutation(len(own))[: split.rows + _MOST_FRESH]]
        x, y, n = own[inputs].to_numpy(), own["_target"].to_numpy(), split.rows
        rows.append(RegressionRows(x[:n], y[:n], x[n:], y[n:], tuple(inputs)))
    return World(rows, [0.0] * len(rows), list(range(len(rows))), held_out=split.rows // 5)


@dataclass(frozen=True)
class Sites:
    """Results of one draw: number of clusters, each site's recommendation, and each site's error by method."""

    k: int
    recommended: list[str]
    errors: dict[str, Float64[np.ndarray, "L"]]


def measure(split: Split, table: Frame, seed: int, *, guarded: bool) -> Sites:
    """Let the sites of one draw learn, cluster and choose, and return their errors."""
    world = draw(split, table, seed)
    held = world.held_out
    trial = play(world, seed, guarded=guarded)
    labels = cluster(trial, seed)
    zeros = np.zeros(len(labels), np.int64)
    alone, clusters = np.eye(len(labels)), trial.by_labels(labels)
    every = (alone, clusters, trial.by_labels(zeros), trial.personal(clusters))
    shares = dict(zip(_WAYS, every, strict=True))
    errors: dict[str, list[float]] = {way: [] for way in (*_WAYS, "recommended")}
    recommended = []
    for place, (known, new, own) in enumerate(zip(trial.known, trial.new, world.rows, strict=True)):
        judged = known[:, -held:].copy()
        judged[place] = trial.left_out[place][-held:]
        squares = {way: np.square(each[place] @ judged - own.y[-held:]) for way, each in shares.items()}
        first = squares[first_choice(squares)]
        means = {way: float(each.mean()) for way, each in squares.items()}
        deviations = {way: float(np.sqrt(np.square(each - first).mean() / held)) for way, each in squares.items()}
        recommended.append(recommend(means, deviations, held))
        for way, each in shares.items():
            errors[way].append(float(np.square(each[place] @ new - own.y_test).mean() / own.y_test.var()))
        errors["recommended"].append(errors[recommended[-1]][-1])
    return Sites(int(labels.max()) + 1, recommended, {way: np.array(each) for way, each in errors.items()})


def row(name: str, folder: Path, draws: range, *, guarded: bool) -> str:
    """Return a split's line of the table."""
    table = table_of(SPLITS[name], folder)
    played = [measure(SPLITS[name], table, seed, guarded=guarded) for seed in draws]
    means = {way: np.array([each.errors[way].mean() for each in played]) for way in played[0].errors}
    cells = [f"{means['alone'].mean():.3f}"]
    for way in list(means)[1:]:
        difference = means[way] - means["alone"]
        cells.append(f"{means[way].mean():.3f} ± {standard_error(difference):.3f}")
    sites = sum(len(each.recommended) for each in played)
    counts = "/".join(str(sum(each.recommended.count(way) for each in played)) for way in _CHOICES)
    worse = sum(int((each.errors["recommended"] > _WORSE * each.errors["alone"]).sum()) for each in played)
    k = " ".join(str(each.k) for each in played)
    return table_row([name, str(sites // len(draws)), k, *cells, counts, f"{worse} of {sites}"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, and print a table."""
    parser: Any = argparse.ArgumentParser(
        prog="python -m benchmarks.real_sites", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first draw")
    parser.add_argument("--only", nargs="+", default=list(SPLITS), choices=list(SPLITS))
    parser.add_argument("--exact", action="store_true", help="losses without the noise of real sites")
    asked = parser.parse_args(arguments)
    heads = ["data, split by", "sites", "K", *_WAYS, "recommended", "/".join(_CHOICES), "worse than alone"]
    print("\n".join(table_head(heads)), flush=True)
    draws = range(asked.seed, asked.seed + asked.draws)
    for name in asked.only:
        print(row(name, asked.folder, draws, guarded=not asked.exact), flush=True)


if __name__ == "__main__":
    main()
