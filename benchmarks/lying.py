"""Results with lying sites, with and without the robust option: ``python -m benchmarks.lying``.

The cost of a lie is the error, or another measure, over that of a run without the lying sites: staying away is always
in their power. The worlds are synthetic, with five sites; each number is over all draws.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from benchmarks.lies import LIES, Lie, grid_of
from benchmarks.tables import table_head, table_row
from consilience.local_engine import engine
from server.app import REFUSALS
from server.report.influence import better_without
from server.results import load

N_SITES = 5
NOTHING = Lie("nothing")
"""No lie: all sites are honest."""


@dataclass(frozen=True)
class World:
    """A run on files: settings, the sites' rows, the center's rows, and a measure of the result (larger is worse)."""

    settings: Mapping[str, Any]
    frames: Mapping[str, pd.DataFrame]
    center: Mapping[str, pd.DataFrame]
    measure: Callable[[Any, Mapping[str, np.ndarray]], float]


@dataclass(frozen=True)
class Verdict:
    """The measure of a run, and how it names all liars: refused, left out, in a note, by influence, or not."""

    measure: float
    named: str


def _smooth(rng: np.random.Generator, x: np.ndarray, noise: float) -> np.ndarray:
    w, v = rng.normal(size=(2, x.shape[1]))
    return np.asarray(2 * np.sin(x @ w) + x @ v + noise * rng.normal(size=len(x)))


def _site(j: int) -> str:
    return f"site-{j}"


def _gp(rng: np.random.Generator) -> World:
    x = rng.uniform(-2, 2, (60 * N_SITES + 100, 2))
    frame = pd.DataFrame(x, columns=["x0", "x1"]).assign(y=_smooth(rng, x, 0.2))
    frames = {_site(j): frame.iloc[60 * j : 60 * (j + 1)] for j in range(N_SITES)}
    test = {"_test": frame.iloc[60 * N_SITES :]}
    settings = {"protocol": "gp", "target": "y", "gp.fit-rounds": 5}
    return World(settings, frames, test, lambda report, _: report.metrics["smse"])


def _residual(rng: np.random.Generator) -> World:
    x = rng.uniform(-1, 1, (700, N_SITES))
    y = 10 * np.sin(np.pi * x[:, 0]) + 20 * x[:, 1] ** 2 + 10 * x[:, 2] + 5 * x[:, 3] + rng.normal(size=len(x))
    frames = {_site(j): pd.DataFrame({"id": range(len(x)), f"x{j}": x[:, j]}) for j in range(N_SITES)}
    outcomes = pd.DataFrame({"id": range(len(x)), "y": y})
    settings = {"protocol": "residual", "target": "y", "id": "id", "residual.rounds": 10}
    settings |= {"residual.algorithm": "parallel", "residual.powers": "1"}
    center = {"_labels": outcomes.iloc[:500], "_test": outcomes.iloc[500:]}
    return World(settings, frames, center, lambda report, _: report.metrics["test_mse"])


def _coreset(rng: np.random.Generator) -> World:
    middles = rng.normal(scale=4, size=(4, 3))
    frames = {}
    for j in range(N_SITES):
        group = rng.integers(2, size=120)
        x = middles[(rng.integers(4, size=120) + group) % 4] + rng.normal(size=(120, 3))
        frames[_site(j)] = pd.DataFrame(x, columns=["x0", "x1", "x2"]).assign(sex=np.array(["F", "M"])[group])
    honest = pd.concat([frames[_site(j)] for j in range(2, N_SITES)])[["x0", "x1", "x2"]].to_numpy()

    def cost(report: Any, arrays: Mapping[str, np.ndarray]) -> float:
        return float(((honest[:, np.newaxis] - arrays["centers"]) ** 2).sum(axis=2).min(axis=1).mean())

    settings = {"protocol": "coreset", "sensitive": "sex", "coreset.k": 4, "coreset.size": 40}
    return World(settings, frames, {}, cost)


def _sec(rng: np.random.Generator) -> World:
    w = rng.normal(size=3)

    def draw(n: int) -> pd.DataFrame:
        x = rng.normal(size=(n, 3))
        return pd.DataFrame(x, columns=["x0", "x1", "x2"]).assign(y=x @ w + rng.normal(size=n))

    frames = {_site(j): draw(50) for j in range(N_SITES)}
    settings = {"protocol": "sec", "target": "y", "sec.candidates": "lr"}
    return World(settings, frames, {"_test": draw(300)}, lambda report, _: _of_honest(report))


def _of_honest(report: Any) -> float:
    """Return the mean error of honest sites' clusters on the center's test rows."""
    clusters = [row for row in report.table if any(name in str(row.get("who", "")) for name in ("site-2", "site-3"))]
    return float(np.mean([row["mse_test_cluster"] for row in clusters]))


def _bc3e(rng: np.random.Generator) -> World:
    frames = {}
    for j in range(N_SITES):
        truth = rng.integers(3, size=100)
        columns = {"truth": truth}
        for name, size, noise in [
            *((f"class_{i}", 3, 0.3) for i in range(3)),
            ("cluster_0", 6, 0.1),
            ("cluster_1", 9, 0.2),
        ]:
            value = truth + 3 * rng.integers(size // 3, size=100)
            columns[name] = np.where(rng.random(100) < noise, rng.integers(size, size=100), value)
        frames[_site(j)] = pd.DataFrame(columns)
    settings = {"protocol": "bc3e", "truth": "truth", "bc3e.classes": 3}
    return World(settings, frames, {}, lambda report, _: 1 - report.metrics["accuracy"])


WORLDS: Mapping[str, Callable[[np.random.Generator], World]] = {
    "bc3e": _bc3e,
    "coreset": _coreset,
    "gp": _gp,
    "residual": _residual,
    "sec": _sec,
}


def run_lie(world: World, lie: Lie, *, robust: bool, absent: int = 0) -> Verdict:
    """Run a world in which the first sites lie, or the first `absent` sites do not take part."""
    protocol = world.settings["protocol"]
    names = list(world.frames)[absent:]
    liars = names[: lie.n_liars] if lie is not NOTHING else []
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        for name in names:
            frame = world.frames[name]
            frame = lie.rows(frame) if lie.rows and name in liars else frame
            frame.to_csv(data / f"{name}.csv", index=False)
        for name, frame in world.center.items():
            frame.to_csv(data / f"{name}.csv", index=False)
        settings = {**world.settings, "data": str(data), "output-dir": str(Path(folder) / "results"), "min-sites": 1}
        settings |= {f"{protocol}.robust": True} if robust else {}
        try:
            with mock.patch("server.app.figures", return_value=()):  # they take most of a run's time
                report, arrays = load(engine.run(settings, len(names), grid_class=grid_of(lie)))
        except REFUSALS as error:
            return Verdict(float("nan"), f"the run stopped: {error}")
    return Verdict(world.measure(report, arrays), _naming(report, liars))


def _naming(report: Any, liars: Sequence[str]) -> str:
    """Return how a report names all liars; of several ways the plainest."""
    lines = {name: " ".join(report.missing.get(name, ())) for name in liars}
    if liars and all("refused" in each for each in lines.values()):
        return "refused"
    if liars and all(lines.values()):
        return "left out"
    if liars and all(any(name in note for note in report.notes) for name in liars):
        return "note"
    if report.protocol == "sec" and any(set(str(row.get("who", "")).split(", ")) == set(liars) for row in report.table):
        return "a cluster of its own"
    named = report.influence.get("most") in liars or any(name in better_without(report) for name in liars)
    return "influence" if named else "no"


@lru_cache
def _without(protocol: str, draw: int, n_absent: int, robust: bool) -> float:
    """Return the measure of a world without its first sites."""
    return run_lie(draw_world(protocol, draw), NOTHING, robust=robust, absent=n_absent).measure


def draw_world(protocol: str, draw: int) -> World:
    """Return a world of a protocol; the same number gives the same one."""
    return WORLDS[protocol](np.random.default_rng([17, draw]))


def measure_lie(protocol: str, lie: Lie, draws: int, *, robust: bool) -> list[str]:
    """Return median and largest ratio of the measure to that without the liars, and counts of how they are named."""
    ratios, named = [], []
    for draw in range(draws):
        verdict = run_lie(draw_world(protocol, draw), lie, robust=robust)
        ratios.append(verdict.measure / _without(protocol, draw, lie.n_liars, robust))
        named.append(verdict.named)
    words = ", ".join(f"{named.count(each)} {each}" for each in dict.fromkeys(named))
    return [f"{statistics.median(ratios):.3g}, {max(ratios):.3g}", words]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table of each protocol."""
    parser: Any = argparse.ArgumentParser(prog="python -m benchmarks.lying", description=__doc__.partition(":")[0])
    parser.add_argument("--only", nargs="+", choices=sorted(LIES), default=sorted(LIES))
    parser.add_argument("--draws", type=int, default=5)
    options = parser.parse_args(arguments)
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    for protocol in options.only:
        print("\n".join(table_head([protocol, "by default", "named", "robust", "named"])), flush=True)
        for lie in (NOTHING, *LIES[protocol]):
            cells = measure_lie(protocol, lie, options.draws, robust=False)
            cells += measure_lie(protocol, lie, options.draws, robust=True) if protocol != "sec" else ["", ""]
            print(table_row([lie.name, *cells]), flush=True)


if __name__ == "__main__":
    main()
