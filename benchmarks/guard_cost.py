"""Cost of the disclosure limits of real sites to honest users: ``python -m benchmarks.guard_cost``.

The same synthetic worlds are run by simulated sites, which trust the center, and by real sites with the default policy.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from benchmarks.lying import WORLDS, World
from benchmarks.tables import table_head, table_row
from consilience.local_engine import engine
from server.results import load

_OF_NODES = ("target", "id", "sensitive", "truth")
"""Keys that name columns, which a real site sets itself."""


def _two_relations(rng: np.random.Generator, n: int) -> World:
    """Return six learners with n rows each and two opposite relations, and test rows of the first relation.

    Learners report errors on few rows, which real sites choose in another way than simulated ones.
    """
    w = rng.normal(size=3)

    def draw(rows: int, sign: int) -> pd.DataFrame:
        x = rng.normal(size=(rows, 3))
        return pd.DataFrame(x, columns=["x0", "x1", "x2"]).assign(y=sign * (x @ w) + rng.normal(size=rows))

    frames = {f"site-{j}": draw(n, 1 - 2 * (j % 2)) for j in range(6)}
    settings = {"protocol": "sec", "target": "y", "sec.candidates": "lr"}
    return World(settings, frames, {"_test": draw(1000, 1)}, lambda report, _: _error_of_first(report))


def _error_of_first(report: Any) -> float:
    """Return the mean test error of the clusters to which the learners of the first relation belong."""
    clusters = {name: row["mse_test_cluster"] for row in report.table for name in str(row["who"]).split(", ")}
    return float(statistics.mean(clusters[f"site-{j}"] for j in (0, 2, 4)))


def _with_outliers(rng: np.random.Generator, *, right: bool) -> World:
    """Return gp's world with outputs shifted by 20 deviations: if `right` in all rows beyond a line, else in one."""
    world = WORLDS["gp"](rng)
    far = 20 * world.frames["site-0"]["y"].std()

    def moved(frame: pd.DataFrame, rows: Any) -> pd.DataFrame:
        return frame.assign(y=frame["y"] + far * rows)

    if not right:
        first = world.frames["site-0"]
        return replace(world, frames={**world.frames, "site-0": moved(first, np.arange(len(first)) == 0)})
    frames, center = (
        {name: moved(frame, frame["x0"] > 1.9) for name, frame in each.items()} for each in (world.frames, world.center)
    )
    return replace(world, frames=frames, center=center)


def _by_default(rng: np.random.Generator, *, classes: bool) -> World:
    """Return residual's world with the default algorithm, and two classes in place of the outcome if `classes`."""
    world = WORLDS["residual"](rng)
    settings = {key: world.settings[key] for key in ("protocol", "target", "id")}
    if not classes:
        return replace(world, settings=settings)
    middle = world.center["_labels"]["y"].median()
    center = {
        name: frame.assign(y=np.where(frame["y"] > middle, "high", "low")) for name, frame in world.center.items()
    }
    return replace(world, settings=settings, center=center, measure=lambda report, _: report.metrics["log_loss"])


CASES: Mapping[str, Callable[[np.random.Generator], World]] = {
    "bc3e: errors": WORLDS["bc3e"],
    "coreset: cost of a row": WORLDS["coreset"],
    "gp: SMSE": WORLDS["gp"],
    "gp: SMSE, one wrong output of 300": partial(_with_outliers, right=False),
    "gp: SMSE, a step of 20 deviations at one or two rows a site": partial(_with_outliers, right=True),
    "residual: test error, parallel": WORLDS["residual"],
    "residual: test error": partial(_by_default, classes=False),
    "residual: log loss of classes": partial(_by_default, classes=True),
    "sec: error on test rows, one relation, 50 rows a site": WORLDS["sec"],
    **{f"sec: error, two relations, {n} rows a site": partial(_two_relations, n=n) for n in (30, 100, 300)},
}


def run_world(world: World, *, real: bool) -> float:
    """Return the measure of a world run by real or by simulated sites."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        for name, frame in {**world.frames, **world.center}.items():
            frame.to_csv(data / f"{name}.csv", index=False)
        settings: dict[str, Any] = {**world.settings, "output-dir": str(Path(folder) / "results")}
        if not real:
            return _measure(world, {**settings, "data": str(data)}, len(world.frames))
        keys = {"_labels": "labels", "_test": "gp.queries" if settings["protocol"] == "gp" else "test"}
        settings |= {keys[name]: str(data / f"{name}.csv") for name in world.center}
        columns = {key: settings[key] for key in _OF_NODES if key in settings}
        if "_labels" in world.center:
            columns.pop("target")
        nodes = [
            {"site": name, "data": str(data / f"{name}.csv"), "site-output-dir": str(Path(folder) / name), **columns}
            for name in world.frames
        ]
        return _measure(world, settings, nodes)


def _measure(world: World, settings: Mapping[str, Any], nodes: int | Sequence[Mapping[str, Any]]) -> float:
    with mock.patch("server.app.figures", return_value=()):  # they take most of a run's time
        report, arrays = load(engine.run(settings, nodes))
    return world.measure(report, arrays)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser: Any = argparse.ArgumentParser(prog="python -m benchmarks.guard_cost", description=__doc__.partition(":")[0])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--only", default="", help="the beginning of the cases' names")
    options = parser.parse_args(arguments)
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    print("\n".join(table_head(["", "trusted", "default policy", "ratio: median", "smallest, largest"])), flush=True)
    for name, draw in CASES.items():
        if not name.startswith(options.only):
            continue
        worlds = [draw(np.random.default_rng([23, number])) for number in range(options.draws)]
        trusted, guarded = ([run_world(world, real=real) for world in worlds] for real in (False, True))
        ratios = [after / before for after, before in zip(guarded, trusted, strict=True)]
        cells = [statistics.median(trusted), statistics.median(guarded), statistics.median(ratios)]
        ends = f"{min(ratios):.3f}, {max(ratios):.3f}"
        print(table_row([name, *(f"{each:.4g}" for each in cells), ends]), flush=True)


if __name__ == "__main__":
    main()
