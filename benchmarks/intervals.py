"""Errors, intervals, bytes and seconds of gp: ``python -m benchmarks.intervals``.

Whole runs with the defaults, or another kernel, by the real center and sites in this process; each site is one expert.
They are compared with the product of the same experts, and with processes of all rows in one place: an exact one, with
many rows one of the 1000 nearest rows and the run's hyperparameters, and with ``--svgp`` GPyTorch's process of inducing
points. Seconds are processor seconds of the center and all sites. ``--wrong-cell`` shows instead how one cell of 10^6
at one site changes the errors at the other sites' points. Real data are those of the scenarios, in the directory
`CONSILIENCE_DATA`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from benchmarks.driver import Transcript, config_of
from benchmarks.side import data_setting
from benchmarks.side.gp import Split
from benchmarks.side.gp_peers import EPOCHS, svgp
from benchmarks.side.protocol import run_protocol
from benchmarks.side.synthetic import neighbors, surface
from benchmarks.tables import format_seconds, table_head, table_row
from numerics.gp.calibration import Calibration, histogram
from numerics.gp.expert import Expert
from numerics.gp.kernel_registry import kernel_of
from numerics.gp.measurements import Measurements
from numerics.gp.metrics import coverage, msll, smse
from numerics.gp.nearest_rows import NearestRows
from numerics.shared.threads import single_threaded
from scenarios.gp.baselines import favored_fit
from scenarios.registry import find

DRAWS, LEVELS = 5, (0.5, 0.8, 0.95, 0.99)
SITES = {"concrete": 10, "airfoil": 5, "pumadyn": 10, "protein": 5, "million": 5}
"""Number of sites by data set; each is one expert, or predicts from its nearest rows."""
WRONG = 1e6
_MILLION, _TEST_ROWS, _MOST_POINTS = 10**6, 500, 2000
_EXACT_ROWS, _FIT_ROWS, _NEAREST = 8000, 2000, 1000
_SVGP_ROWS = 2_000_000
"""Maximum of rows times epochs that the process of inducing points is trained on."""
Numbers = Float64[np.ndarray, "t"]


class Scores(NamedTuple):
    """Scores of one draw: errors, coverage by level, bytes per point, and seconds; NaN if unknown."""

    smse: float
    msll: float
    coverage: tuple[float, ...]
    bytes: float
    seconds: float


# -- worlds -----------------------------------------------------------------------------------------------------------


def split_of(name: str, seed: int, split: str) -> Split:
    """Draw a world; its rows are split among the sites by k-means (a million rows: by slices) or at random."""
    M = SITES[name]
    if name == "million":
        rows, queries = surface(_MILLION, _TEST_ROWS, seed)
        if split == "random":
            return Split([Measurements(rows.x[i::M], rows.y[i::M], rows.features) for i in range(M)], queries)
        return Split(neighbors(rows, M, seed), queries)
    scenario, config = find(f"gp-{name}"), config_of(f"gp-{name}", seed, gp__parts=M, gp__split=split)
    config |= {"data": data_setting()}
    assert scenario.queries
    queries = scenario.queries(config, seed)
    assert queries.y is not None
    some = np.linspace(0, len(queries.x) - 1, min(len(queries.x), _MOST_POINTS)).astype(np.int64)
    shards = [replace(shard, part=None) for shard in scenario.shards(config, seed, M)]
    return Split(shards, replace(queries, x=queries.x[some], y=queries.y[some]))


# -- methods ----------------------------------------------------------------------------------------------------------


def run(data: Split, seed: int, settings: Mapping[str, Any]) -> Transcript:
    """Run gp, timed by processor seconds."""
    return run_protocol(
        "gp",
        data.shards,
        seed,
        {"gp__alone": False, **settings},
        clock=time.process_time,
        queries=lambda config, seed: data.queries,
    )


def scores_of(transcript: Transcript) -> Scores:
    """Return the scores of a run."""
    metrics = transcript.metrics
    shares = tuple(metrics[f"coverage_{100 * level:.0f}"] for level in LEVELS)
    return Scores(metrics["smse"], metrics["msll"], shares, metrics["bytes_per_query"], transcript.seconds.all)


def in_one_place(data: Split, seed: int, learned: Transcript, kernel_text: str) -> tuple[str, Scores]:
    """Predict by a process of all rows; with many rows, by one of the nearest rows and the run's hyperparameters."""
    x, y, points = data.units.inputs(data.rows.x), data.units.outputs(data.rows.y), _points(data)
    model, started = learned.outcome.model, time.process_time()
    with single_threaded():
        if len(y) > _EXACT_ROWS:
            kernel, theta = kernel_of(model.kernel, x.shape[1]), model.fit.theta
            nearest = NearestRows(kernel, theta, x, y, _NEAREST)
            answer, calibration = nearest.predict(points, np.zeros((0, x.shape[1]))), learned.outcome.calibration
            name, mean, explained = f"all rows, {_NEAREST} nearest", answer.mean, answer.explained
        else:
            rows = min(len(y), _FIT_ROWS)
            kernel, theta = favored_fit(kernel_text, x, y, rows=rows, rng=np.random.default_rng(seed))
            expert = Expert(kernel, theta, x, y)
            calibration = Calibration(histogram(expert.left_out().residuals), len(theta))
            name, (mean, explained) = "all rows, exact", expert.predict(points)
    variance = kernel.diagonal(theta[:-1], points) - explained + np.exp(2 * theta[-1])
    return name, _scored(data, mean, variance, time.process_time() - started, calibration)


def inducing(data: Split, seed: int) -> tuple[str, Scores]:
    """Predict by GPyTorch's process of inducing points."""
    x, y = data.units.inputs(data.rows.x), data.units.outputs(data.rows.y)
    epochs, started = min(EPOCHS, max(1, _SVGP_ROWS // len(y))), time.process_time()
    mean, variance = svgp(x, y, seed, epochs)(_points(data))
    return "all rows, SVGP", _scored(data, mean, variance, time.process_time() - started)


def _points(data: Split) -> Float64[np.ndarray, "t d"]:
    return np.asarray(data.units.inputs(data.queries.x))


def _scored(
    data: Split, mean: Numbers, variance: Numbers, seconds: float, calibration: Calibration | None = None
) -> Scores:
    assert data.queries.y is not None
    y = data.units.outputs(data.queries.y)
    shares = tuple(coverage(y, mean, variance, level, calibration) for level in LEVELS)
    return Scores(smse(y, mean), msll(y, mean, variance, 0.0, 1.0), shares, np.nan, seconds)


def draw(name: str, seed: int, split: str, kernel: str = "auto", *, with_svgp: bool) -> dict[str, Scores]:
    """Return the scores of one draw, by method."""
    data = split_of(name, seed, split)
    learned = run(data, seed, {"gp__kernel": kernel})
    product = run(data, seed, {"gp__kernel": kernel, "gp__gate": "all", "gp__aggregation": "poe"})
    # Sites reuse what they have computed in this process, so the second run's seconds are too few.
    found = {"gp": scores_of(learned), "product of experts": scores_of(product)._replace(seconds=np.nan)}
    return found | dict([in_one_place(data, seed, learned, kernel)]) | dict([inducing(data, seed)] if with_svgp else [])


# -- a wrong cell -----------------------------------------------------------------------------------------------------


def with_wrong_cell(data: Split, seed: int, column: str) -> Split:
    """Return the rows with one cell of 10^6 at the first site: an output, or an input."""
    first, rng = data.shards[0], np.random.default_rng([seed, 6])
    x, y, row = first.x.copy(), first.y.copy(), int(rng.integers(first.n))
    if column == "output":
        y[row] = WRONG
    else:
        x[row, int(rng.integers(x.shape[1]))] = WRONG
    return Split([replace(first, x=x, y=y), *data.shards[1:]], data.queries)


def elsewhere(transcript: Transcript) -> Bool[np.ndarray, "t"]:
    """Return the points whose best expert is not the first site's."""
    outcome = transcript.outcome
    own = next(iter(sorted(outcome.model.registry.places)))
    return ~np.isin(outcome.answers.selected[:, 0], outcome.model.registry.places[own])


def change_elsewhere(name: str, seed: int, split: str) -> Iterator[tuple[str, float, float]]:
    """Yield by column the errors (SMSE) at the other sites' points, without and with a wrong cell."""
    data = split_of(name, seed, split)
    right = run(data, seed, {})
    points = elsewhere(right)
    assert data.queries.y is not None
    y = data.queries.y[points]
    for column in ("output", "input"):
        wrong = run(with_wrong_cell(data, seed, column), seed, {})
        yield column, smse(y, right.outcome.mean[points]), smse(y, wrong.outcome.mean[points])


# -- tables -----------------------------------------------------------------------------------------------------------


def _print_scores(name: str, options: Any) -> None:
    draws = [draw(name, seed, options.split, options.kernel, with_svgp=options.svgp) for seed in range(options.draws)]
    for method in draws[0]:
        each = [found[method] for found in draws]
        shares = np.mean([scores.coverage for scores in each], axis=0)
        size = np.mean([scores.bytes for scores in each])
        cells = [
            *(f"{np.mean([getattr(scores, metric) for scores in each]):.4f}" for metric in ("smse", "msll")),
            *(f"{share:.3f}" for share in shares),
            "" if np.isnan(size) else f"{size:.0f}",
            format_seconds(float(np.mean([scores.seconds for scores in each]))),
        ]
        print(table_row([f"{name}, {len(draws)}", method, *cells]), flush=True)


def _print_changes(name: str, options: Any) -> None:
    draws = [list(change_elsewhere(name, seed, options.split)) for seed in range(options.draws)]
    for column in zip(*draws, strict=True):
        before, after = (np.array([each[place] for each in column]) for place in (1, 2))
        changes = 100 * (after / before - 1)
        largest = f"{changes[np.abs(changes).argmax()]:+.1f} %"
        cells = [column[0][0], f"{before.mean():.4f}", f"{after.mean():.4f}", largest]
        print(table_row([f"{name}, {len(draws)}", *cells]), flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser: Any = argparse.ArgumentParser(prog="python -m benchmarks.intervals", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=SITES, default=["concrete", "airfoil"])
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--split", choices=("kmeans", "random"), default="kmeans")
    parser.add_argument("--kernel", default="auto", help="as gp.kernel")
    parser.add_argument("--svgp", action="store_true", help="also GPyTorch's process of inducing points")
    parser.add_argument("--wrong-cell", action="store_true", help="effect of a cell of 10^6 at one site on the others")
    options = parser.parse_args(arguments)
    show: Callable[[str, Any], None] = _print_changes if options.wrong_cell else _print_scores
    head = ["data, draws", "method", "SMSE", "MSLL", *(f"{100 * level:.0f} %" for level in LEVELS), "bytes", "seconds"]
    wrong_head = ["data, draws", "wrong cell", "SMSE elsewhere", "with it", "largest change"]
    print("\n".join(table_head(wrong_head if options.wrong_cell else head)), flush=True)
    for name in options.only:
        show(name, options)


if __name__ == "__main__":
    main()
