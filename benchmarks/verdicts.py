"""Share of right verdicts on worlds whose right verdict is known.

``python -m benchmarks.verdicts --draws 20`` prints a line for every protocol and world, with the number of runs that
said join, do not join, too few rows, and undecided.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from unittest.mock import patch

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64
from numpy.typing import NDArray

import consilience as cs
from server.report.verdict import DO_NOT_JOIN, JOIN, TOO_FEW

Tables = dict[str, pd.DataFrame]
World = tuple[Callable[[np.random.Generator], "cs.Run"], str]


def _classes(y: Float64[np.ndarray, "n"]) -> NDArray[np.str_]:
    """Return "yes" above 0, else "no"."""
    return np.where(y > 0, "yes", "no")


def regression_sites(
    rng: np.random.Generator, relations: Float64[np.ndarray, "L p"], n: int, *, classes: bool = False
) -> Tables:
    """Return a table for each site with columns ``x0``, ... and ``y``, by its linear relation and noise."""
    tables = {}
    for place, relation in enumerate(relations):
        x = rng.normal(size=(n, len(relation)))
        names = {f"x{j}": x[:, j] for j in range(len(relation))}
        y = x @ relation + rng.normal(size=n)
        tables[f"site-{place}"] = pd.DataFrame({**names, "y": _classes(y) if classes else y})
    return tables


def _sec(n: int, sites: int, *, same: bool, classes: bool = False) -> Callable[[np.random.Generator], cs.Run]:
    def draw(rng: np.random.Generator) -> cs.Run:
        p = 8
        relations = np.tile(rng.normal(size=p), (sites, 1)) if same else rng.normal(size=(sites, p))
        tables = regression_sites(rng, relations, n, classes=classes)
        return cs.run(cs.SEC(candidates="lr"), data=tables, target="y")

    return draw


def _labels(rng: np.random.Generator, truth: Int64[np.ndarray, "n"], right: float, k: int) -> Int64[np.ndarray, "n"]:
    """Return a classifier's labels, of which a share `right` is right; errors are uniform over the other classes."""
    wrong = (truth + rng.integers(1, k, len(truth))) % k
    return np.where(rng.random(len(truth)) < right, truth, wrong)


def _bc3e(n: int, rights: tuple[float, ...]) -> Callable[[np.random.Generator], cs.Run]:
    def draw(rng: np.random.Generator) -> cs.Run:
        tables, k = {}, 3
        for place in range(3):
            truth = rng.integers(k, size=n)
            names = {f"class_{j}": _labels(rng, truth, right, k) for j, right in enumerate(rights)}
            tables[f"site-{place}"] = pd.DataFrame({**names, "cluster_0": _labels(rng, truth, 0.9, k), "truth": truth})
        return cs.run(cs.BC3E(), data=tables, truth="truth")

    return draw


def _residual(n: int, weight: float, *, classes: bool = False) -> Callable[[np.random.Generator], cs.Run]:
    def draw(rng: np.random.Generator) -> cs.Run:
        a, b = rng.normal(size=(n, 3)), rng.normal(size=(n, 3))
        y = a[:, 0] + np.sin(2 * a[:, 1]) + weight * (b[:, 0] + b[:, 1] ** 2) + rng.normal(0, 0.5, n)
        ids = np.arange(n)
        tables = {
            "bank": pd.DataFrame(
                {"id": ids, **{f"a{j}": a[:, j] for j in range(3)}, "y": _classes(y - weight) if classes else y}
            ),
            "shop": pd.DataFrame({"id": ids, **{f"b{j}": b[:, j] for j in range(3)}}),
        }
        return cs.run(cs.Residual(), data=tables, target="y", id="id")

    return draw


def _coreset(n: int, sites: int, k: int, *, same: bool, exact: bool = False) -> Callable[[np.random.Generator], cs.Run]:
    """Draw sites with the `same` or with different cluster centers, and two groups a little apart."""

    def draw(rng: np.random.Generator) -> cs.Run:
        tables, d = {}, 5
        common = rng.normal(0, 3, (k, d))
        for place in range(sites):
            centers = common if same else rng.normal(0, 3, (k, d))
            group = rng.integers(2, size=n)
            x = centers[rng.integers(k, size=n)] + rng.normal(size=(n, d))
            x[:, 0] += group
            names = {f"x{j}": x[:, j] for j in range(d)}
            tables[f"site-{place}"] = pd.DataFrame({**names, "group": np.where(group, "f", "m")})
        protocol = cs.Coreset(k=k, assignment="exact" if exact else "coreset")
        return cs.run(protocol, data=tables, sensitive="group")

    return draw


def _gp(
    n: int, inputs: int, sites: int, points: int, *, regions: bool, noise: float = 0.3, classes: bool = False
) -> Callable[[np.random.Generator], cs.Run]:
    """Draw noisy sums of sines; sites are in separate `regions` or, like the points, in the whole range."""

    def draw(rng: np.random.Generator) -> cs.Run:
        phases = rng.uniform(0, 2 * np.pi, inputs)

        def rows(n: int, low: float, high: float) -> pd.DataFrame:
            x = rng.uniform(-2, 2, (n, inputs))
            x[:, 0] = rng.uniform(low, high, n)
            y = np.sin(2 * x + phases).sum(axis=1) + rng.normal(0, noise, n)
            return pd.DataFrame({**{f"x{j}": x[:, j] for j in range(inputs)}, "y": _classes(y) if classes else y})

        ends = np.linspace(-2, 2, sites + 1) if regions else np.array([-2.0, 2.0])
        tables = {f"site-{j}": rows(n, *(ends[j : j + 2] if regions else ends)) for j in range(sites)}
        return cs.run(cs.GP(), data=tables, target="y", queries=rows(points, -2, 2))

    return draw


WORLDS: Mapping[str, World] = {
    "sec, one relation, 12 sites of 60 rows": (_sec(60, 12, same=True), JOIN),
    "sec, a relation each, 6 sites of 300 rows": (_sec(300, 6, same=False), DO_NOT_JOIN),
    "sec, one relation, 3 sites of 30 rows": (_sec(30, 3, same=True), TOO_FEW),
    "sec, classes, one relation, 12 sites of 60 rows": (_sec(60, 12, same=True, classes=True), JOIN),
    "sec, classes, a relation each, 6 sites of 300 rows": (_sec(300, 6, same=False, classes=True), DO_NOT_JOIN),
    "sec, classes, one relation, 3 sites of 30 rows": (_sec(30, 3, same=True, classes=True), TOO_FEW),
    "bc3e, five of 75 %, 1000 rows": (_bc3e(1000, (0.75,) * 5), JOIN),
    "bc3e, 95 % and four of 40 %, 3000 rows": (_bc3e(3000, (0.95, 0.4, 0.4, 0.4, 0.4)), DO_NOT_JOIN),
    "bc3e, three of 85 %, 30 rows": (_bc3e(30, (0.85,) * 3), TOO_FEW),
    "residual, both matter, 1000 rows": (_residual(1000, 1.0), JOIN),
    "residual, one matters, 3000 rows": (_residual(3000, 0.0), DO_NOT_JOIN),
    "residual, other one weak, 120 rows": (_residual(120, 0.15), TOO_FEW),
    "residual, classes, both matter, 1000 rows": (_residual(1000, 1.0, classes=True), JOIN),
    "residual, classes, one matters, 3000 rows": (_residual(3000, 0.0, classes=True), DO_NOT_JOIN),
    "residual, classes, other one weak, 120 rows": (_residual(120, 0.15, classes=True), TOO_FEW),
    "coreset, exact, 8 clusters everywhere, 6 sites of 100 rows": (_coreset(100, 6, 8, same=True, exact=True), JOIN),
    "coreset, 5 clusters a site, 4 sites of 200 rows": (_coreset(200, 4, 5, same=False), DO_NOT_JOIN),
    "coreset, exact, 4 clusters everywhere, 3 sites of 60 rows": (_coreset(60, 3, 4, same=True, exact=True), JOIN),
    "gp, a region each, 4 sites of 60 rows, 400 points": (_gp(60, 2, 4, 400, regions=True), JOIN),
    "gp, one input, 3 sites of 300 rows, 1000 points": (_gp(300, 1, 3, 1000, regions=False), DO_NOT_JOIN),
    "gp, one input, 3 sites of 60 rows, 100 points": (_gp(60, 1, 3, 100, regions=False), TOO_FEW),
    "gp, classes, a region each, 4 sites of 60 rows, 400 points": (
        _gp(60, 2, 4, 400, regions=True, classes=True),
        JOIN,
    ),
    "gp, classes, one input, 3 sites of 300 rows, 1000 points": (
        _gp(300, 1, 3, 1000, regions=False, noise=1.0, classes=True),
        DO_NOT_JOIN,
    ),
    "gp, classes, one input, 3 sites of 60 rows, 100 points": (
        _gp(60, 1, 3, 100, regions=False, noise=1.0, classes=True),
        TOO_FEW,
    ),
}
"""By name: function that draws and runs a world, and the right verdict."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7, help="seed of the worlds")
    parser.add_argument("--only", default="", help="beginning of the worlds' names")
    options = parser.parse_args()
    print("| world | right | said |\n| --- | --- | --- |")
    for name, (draw, right) in WORLDS.items():
        if not name.startswith(options.only):
            continue
        with patch("server.app.figures", return_value=[]):
            said = Counter[str](
                draw(np.random.default_rng([options.seed, each])).verdict.decision for each in range(options.draws)
            )
        words = ", ".join(f"{decision} {count}" for decision, count in said.most_common())
        print(f"| {name} | {right}: {said[right]} of {options.draws} | {words} |", flush=True)


if __name__ == "__main__":
    main()
