"""Accuracy of gp when each expert gives one answer or several: ``python -m benchmarks.answers``.

The rows of synthetic and real data are split among M experts by k-means or at random. Experts, gate and hyperparameters
are those of `benchmarks.expert_worlds`; half of the experts answer for each point. The data are those of the scenarios,
in the directory `CONSILIENCE_DATA`; a world without its data is left out. With ``--gap`` all experts answer, and the
table shows step by step what makes them differ from one process of all rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from benchmarks.expert_worlds import World, chosen_by_gate, predictions_of, theta_of, world_from, world_of
from benchmarks.tables import standard_error, table_head, table_row
from numerics.gp.aggregation import ExpertPredictions, aggregate
from numerics.gp.covariances import covariances
from numerics.gp.expert import Expert
from numerics.gp.joint_answers import sizes
from numerics.gp.likelihood import fit_one
from numerics.gp.metrics import msll, smse
from numerics.gp.radial_kernels import SquaredExponential
from scenarios.gp.common import PooledRows
from scenarios.gp.sites import parts_of
from scenarios.gp.synthetic import curve
from scenarios.synthetic import friedman1

ANSWERS, DRAWS = (1, 3, 5, 9), 5
_TEST_ROWS = 500
_Surface = Callable[[Float64[np.ndarray, "n d"]], Float64[np.ndarray, "n"]]


class TestFunction(NamedTuple):
    """A function of d inputs, the standard deviation of the noise, and the number of training rows."""

    d: int
    surface: _Surface
    noise: float
    rows: int


def _map(x: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n"]:
    return np.asarray(np.sin(7 * x[:, 0]) * np.cos(6 * x[:, 1]) + x[:, 0])


DRAWN = {
    "curve": TestFunction(1, lambda x: curve(x[:, 0]), 0.2, 1000),
    "map": TestFunction(2, _map, 0.1, 1000),
    "Friedman 1": TestFunction(5, lambda x: friedman1(x) / 5, 0.2, 1000),
}
WORLDS: Sequence[tuple[str, int, int, str]] = (
    *(("curve", M, 0, split) for M, split in ((5, "kmeans"), (20, "kmeans"), (50, "kmeans"), (10, "random"))),
    *(("map", M, 0, split) for M, split in ((2, "kmeans"), (10, "kmeans"), (50, "kmeans"), (10, "random"))),
    *(("Friedman 1", M, 0, split) for M, split in ((5, "kmeans"), (20, "kmeans"), (50, "kmeans"), (10, "random"))),
    *(("concrete", M, 0, "kmeans") for M in (2, 5, 20)),
    *(("airfoil", M, 0, "kmeans") for M in (2, 5, 20, 50)),
    ("airfoil", 5, 0, "random"),
    *(("synthetic", M, K, "kmeans") for M, K in ((10, 0), (20, 3))),
    ("concrete", 10, 3, "kmeans"),
)
"""Each world: data, number of experts M, number K that answer for a point (0: half of them), and split of the rows."""


def draw_world(drawn: TestFunction, M: int, split: str, seed: int) -> World:
    """Draw rows of a function on the unit cube, and split them among M experts."""
    rng = np.random.default_rng([seed, drawn.d, M])
    x = rng.uniform(size=(drawn.rows + _TEST_ROWS, drawn.d))
    y = drawn.surface(x) + drawn.noise * rng.normal(size=len(x))
    n = drawn.rows
    names = tuple(f"x{place}" for place in range(drawn.d))
    pooled = PooledRows(x[:n], y[:n], x[n:], y[n:], names, (seed,))
    part = parts_of(pooled, M, split)
    return world_from([(x[:n][part == i], y[:n][part == i]) for i in range(M)], (x[n:], y[n:]))


def scores(world: World, seed: int, experts: int = 0) -> dict[int, tuple[float, float, float]]:
    """Return SMSE, MSLL and bytes per point, by the number of answers."""
    kernel = SquaredExponential(world.test[0].shape[1])
    theta = theta_of(kernel, world.experts, seed)
    K = experts or -(-len(world.experts) // 2)
    order = chosen_by_gate(world, kernel, theta, K)
    x, y = world.test
    prior, noise = kernel.diagonal(theta[:-1], x), float(np.exp(2 * theta[-1]))
    found = {}
    for answers in ANSWERS:
        fused = aggregate("npae", predictions_of(world, kernel, theta, order, answers), prior, noise)
        D = answers - 1 or 32
        means, covariances = sizes(D) if answers > 1 else (0, 0)
        size = K * (8.0 * x.shape[1] + 16 + 2 * D + 4 * means + 2 * covariances)
        found[answers] = (smse(y, fused.mean), msll(y, fused.mean, fused.variance, 0.0, 1.0), size)
    return found


GAP_WORLDS: Sequence[tuple[str, int, str, int]] = (
    ("concrete", 5, "random", 0),
    ("concrete", 10, "random", 0),
    ("concrete", 10, "kmeans", 0),
    ("airfoil", 5, "random", 0),
    ("airfoil", 5, "kmeans", 0),
    ("Friedman 1", 10, "random", 0),
    ("pumadyn", 5, "random", 2000),
)
"""Each world: data, number of experts, split of the rows, and the maximum number of rows (0: all)."""
_GAP_ANSWERS = (9, 17, 33)


def gap(world: World, seed: int) -> dict[str, tuple[float, float]]:
    """Return SMSE and MSLL by variant, from one process of all rows to experts who all answer.

    Hyperparameters come from the experts' common search or from one process of all rows. Experts are combined by their
    exact covariances, or by the covariances of several answers each, which are exact or rounded as at real sites.
    """
    kernel, M = SquaredExponential(world.test[0].shape[1]), len(world.experts)
    x, y = (np.concatenate(parts) for parts in zip(*world.experts, strict=True))
    points, outputs = world.test
    common, pooled = theta_of(kernel, world.experts, seed), fit_one(kernel, x, y)
    order = chosen_by_gate(world, kernel, common, M)

    def score(mean: Float64[np.ndarray, "t"], variance: Float64[np.ndarray, "t"]) -> tuple[float, float]:
        return smse(outputs, mean), msll(outputs, mean, variance, 0.0, 1.0)

    def in_one_place(theta: Float64[np.ndarray, "p"]) -> tuple[float, float]:
        mean, explained = Expert(kernel, theta, x, y).predict(points)
        return score(mean, kernel.diagonal(theta[:-1], points) - explained + np.exp(2 * theta[-1]))

    def apart(theta: Float64[np.ndarray, "p"], predictions: ExpertPredictions) -> tuple[float, float]:
        fused = aggregate("npae", predictions, kernel.diagonal(theta[:-1], points), float(np.exp(2 * theta[-1])))
        return score(fused.mean, fused.variance)

    one = predictions_of(world, kernel, common, order, 1)
    exact = covariances(kernel, common, [own for own, _ in world.experts], points, order)
    return {
        "one process": in_one_place(pooled),
        "common theta": in_one_place(common),
        "exact covariances": apart(common, ExpertPredictions(one.mean, one.explained, one.available, covariance=exact)),
        "1 answer": apart(common, one),
        **{f"{n} answers": apart(common, predictions_of(world, kernel, common, order, n)) for n in _GAP_ANSWERS},
        "9, rounded": apart(common, predictions_of(world, kernel, common, order, 9, real=True)),
        **{f"{n}, theta of all rows": apart(pooled, predictions_of(world, kernel, pooled, order, n)) for n in (9, 33)},
    }


def _print_gap(draws: int, only: Sequence[str]) -> None:
    head = False
    for name, M, split, most in GAP_WORLDS:
        if only and name not in only:
            continue
        each = []
        for seed in range(draws):
            world = draw_world(DRAWN[name], M, split, seed) if name in DRAWN else world_of(name, seed, M, split)
            size = most // M or None
            each.append(gap(world._replace(experts=[(x[:size], y[:size]) for x, y in world.experts]), seed))
        if not head:
            print("\n".join(table_head(["data", "M", "split", *each[0]])), flush=True)
            head = True
        means = {way: np.mean([found[way] for found in each], axis=0) for way in each[0]}
        cells = [f"{error:.4f} / {loss:.3f}" for error, loss in means.values()]
        print(table_row([name, str(M), split, *cells]), flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a line for every world."""
    parser: Any = argparse.ArgumentParser(prog="python -m benchmarks.answers", description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--only", nargs="+", default=())
    parser.add_argument(
        "--gap", action="store_true", help="compare variants between the experts and one process of all rows"
    )
    options = parser.parse_args(arguments)
    if options.gap:
        _print_gap(options.draws, options.only)
        return
    columns = [f"{name}, {answers}" for name in ("SMSE", "MSLL", "bytes") for answers in ANSWERS]
    print("\n".join(table_head(["data", "M", "K", "split", "rows an expert", *columns])), flush=True)
    for name, M, K, split in WORLDS:
        if options.only and name not in options.only:
            continue
        draws = []
        for seed in range(options.draws):
            world = draw_world(DRAWN[name], M, split, seed) if name in DRAWN else world_of(name, seed, M, split)
            draws.append(scores(world, seed, K))
        rows = sum(len(y) for _, y in world.experts) / M
        values = {answers: np.array([each[answers] for each in draws]) for answers in ANSWERS}
        cells = [
            _cell(values[answers][:, place], values[1][:, place], digits)
            for place, digits in ((0, 4), (1, 3), (2, 0))
            for answers in ANSWERS
        ]
        print(table_row([name, str(M), str(K or -(-M // 2)), split, f"{rows:.0f}", *cells]), flush=True)


def _cell(values: Float64[np.ndarray, "draws"], ones: Float64[np.ndarray, "draws"], digits: int) -> str:
    """Return the mean, and the standard error of the difference to one answer."""
    differences, mean = values - ones, f"{values.mean():.{digits}f}"
    if len(values) < 2 or not differences.any() or not digits:
        return mean
    return f"{mean} ± {standard_error(differences):.{digits}f}"


if __name__ == "__main__":
    main()
