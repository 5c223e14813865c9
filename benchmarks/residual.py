"""Residual: the fusion center's arithmetic, bytes of a round, accuracy beside pooled columns, rounds to converge.

Run it with ``python -m benchmarks.residual``; ``--help`` shows what can be left out. docs/measurements.md has figures.
"""

from __future__ import annotations

import argparse
import csv
import logging
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from jaxtyping import Float64, Int64

from benchmarks.bc3e import machine
from benchmarks.residual_learning import measure_accuracy, measure_bar, measure_idle, measure_rounds
from numerics.residual.rules import Rules
from numerics.shared.threads import single_threaded
from protocols.residual.payloads import Fit, Fitted
from protocols.residual.plan import Plan
from server.results import load
from tests.support.grid import config, run

N_SITES, N_ROWS = 16, 100_000
N_CROSSING = 20_000
"""Rows of the runs whose bytes are counted."""
ROUNDS = 6
N_BINS = 64
SIX = Rules.powers
PARTS = ("center", "bytes", "idle", "accuracy", "rounds", "bar")

Numbers = Float64[np.ndarray, "n c"]
Course = Generator[list[Numbers], list[Numbers], Float64[np.ndarray, "t"]]
"""Yields what every agent is to fit, is sent what every agent predicts, returns the training errors."""


def drawn(n: int, n_columns: int, seed: int = 0) -> tuple[Float64[np.ndarray, "n p"], Float64[np.ndarray, "n"]]:
    """Friedman's first function of the first five of the uniform columns, with noise; variance about 1."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, n_columns))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return x, (y + rng.normal(size=n)) / 5


# -- the center's arithmetic ------------------------------------------------------------------------------------------


class Binned:
    """Agents of one column each that predict the mean of 64 equal bins of it: quick, for their time is not measured."""

    def __init__(self, x: Float64[np.ndarray, "n p"]) -> None:
        self.bins = (x * N_BINS).astype(np.int64).T.copy()
        self.counts = [np.bincount(bins, minlength=N_BINS) for bins in self.bins]

    def predict(self, targets: Sequence[Numbers]) -> list[Numbers]:
        """Every agent's fit of every column of its target."""
        return [
            np.stack([self._means(bins, counts, column) for column in target.T], axis=1)
            for bins, counts, target in zip(self.bins, self.counts, targets, strict=True)
        ]

    @staticmethod
    def _means(
        bins: Int64[np.ndarray, "n"], counts: Int64[np.ndarray, "b"], target: Float64[np.ndarray, "n"]
    ) -> Float64[np.ndarray, "n"]:
        means = np.bincount(bins, weights=target, minlength=N_BINS) / counts
        return np.asarray(means[bins])


def ours(y: Float64[np.ndarray, "n"], n_agents: int, powers: tuple[float, ...]) -> Course:
    """`numerics.residual`, one p or several side by side."""
    # With several p rows would be held out to choose by: none are, so that both ways learn from the same.
    rules = Rules(powers=powers, stop="rounds", rounds=ROUNDS, validation=1e-9, refit=False)
    plan = Plan(tuple(f"agent-{j:02d}" for j in range(n_agents)), y, len(y), rules)
    while asks := plan.asks():
        predicted = yield [cast("Fit", ask).target for ask in asks.values()]
        none = np.zeros((0, predicted[0].shape[1]))
        plan.take({name: Fitted(numbers, none) for name, numbers in zip(asks, predicted, strict=True)})
    assert plan.result is not None
    return plan.result.curve[:, 0]


def plain(y: Float64[np.ndarray, "n"], n_agents: int, power: float) -> Course:
    """Algorithm 3 with Algorithm 4 as anybody would write them from the paper, with the ridge of ours."""
    y = y - y.mean()
    F = np.hstack((yield [y[:, None]] * n_agents))
    errors = np.zeros(ROUNDS + 1)
    for t in range(ROUNDS + 1):
        beta = coefficients(F, y)
        r = y - F @ beta
        errors[t] = np.mean(r**2)
        if t < ROUNDS:
            dF = np.outer(r, np.sign(beta) * np.abs(beta) ** power)
            wanted = back_search(F, dF, y)
            F = np.hstack((yield [wanted[:, j : j + 1] for j in range(n_agents)]))
    return errors


def coefficients(F: Float64[np.ndarray, "n d"], y: Float64[np.ndarray, "n"]) -> Float64[np.ndarray, "d"]:
    """Eq. (35)."""
    gram = F.T @ F
    ridge = 1e-6 * np.trace(gram) / len(gram) * np.eye(len(gram))
    return np.asarray(np.linalg.inv(gram + ridge) @ (F.T @ y))


def back_search(
    F: Float64[np.ndarray, "n d"], dF: Float64[np.ndarray, "n d"], y: Float64[np.ndarray, "n"]
) -> Float64[np.ndarray, "n d"]:
    """Algorithm 4 as printed; returns what the agents are to predict."""
    delta, now, slope = 1.0, y @ (F @ coefficients(F, y)), 0.25 * np.sum(dF**2)
    wanted = F + delta * dF
    while y @ (wanted @ coefficients(wanted, y)) < now + delta * slope:
        delta /= 2
        wanted = F + delta * dF
    return wanted


def recorded(course: Course, agents: Binned) -> tuple[list[list[Numbers]], Float64[np.ndarray, "t"]]:
    """What the agents answer along a course, and its training errors."""
    answers: list[list[Numbers]] = []
    targets = next(course)
    while True:
        answers.append(agents.predict(targets))
        try:
            targets = course.send(answers[-1])
        except StopIteration as stop:
            return answers, stop.value


def replayed(course: Course, answers: Sequence[list[Numbers]]) -> Iterator[float]:
    """Seconds of every round from the agents' answers to what they are asked next; the first sets up, and is none."""
    next(course)
    for place, predicted in enumerate(answers[:-1]):
        started = time.perf_counter()
        course.send(predicted)
        if place:
            yield time.perf_counter() - started


def measure_center(n_rows: int, runs: int) -> None:
    """Print seconds a round and the most memory of both ways."""
    x, y = drawn(n_rows, N_SITES)
    agents, size = Binned(x), 8 * n_rows * N_SITES / 2**20
    print(
        f"\nThe center: {N_SITES} sites, {n_rows:,} rows, 1 thread, {ROUNDS - 1} rounds of {runs} runs; "
        f"F takes {size:.1f} MiB for each p; agents' work is left out\n"
        f"{'p':10} {'':12} {'median ms':>9} {'min ms':>7} {'max ms':>7} {'peak / F':>8} {'faster':>6} {'apart':>8}"
    )
    several: list[float] = []
    for power in SIX:
        seconds, peak, expected = _measure(partial(plain, y, N_SITES, power), agents, runs)
        several.append(statistics.median(seconds))
        if power in (1.0, 3.0):
            _print_rounds(f"{power:g}", "plain NumPy", seconds, peak / size)
            mine, peak, found = _measure(partial(ours, y, N_SITES, (power,)), agents, runs)
            faster = several[-1] / statistics.median(mine)
            apart = np.abs(found - expected).max()
            _print_rounds("", "consilience", mine, peak / size, f" {faster:6.1f} {apart:8.1e}")
    mine, peak, _ = _measure(partial(ours, y, N_SITES, SIX), agents, runs)
    print(f"{'six p':10} {'plain NumPy':12} {sum(several) * 1e3:9.2f}   one after the other")
    _print_rounds("", "consilience", mine, peak / (6 * size), f" {sum(several) / statistics.median(mine):6.1f}")


def _measure(
    course: Callable[[], Course], agents: Binned, runs: int
) -> tuple[list[float], float, Float64[np.ndarray, "t"]]:
    """Seconds of the rounds, MiB held at most, and training errors."""
    answers, errors = recorded(course(), agents)
    seconds = [each for _ in range(runs) for each in replayed(course(), answers)]
    tracemalloc.start()
    for _ in replayed(course(), answers):
        pass
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return seconds, peak, errors


def _print_rounds(power: str, way: str, seconds: Sequence[float], peak: float, remark: str = "") -> None:
    median, least, most = (1e3 * value for value in (statistics.median(seconds), min(seconds), max(seconds)))
    print(f"{power:10} {way:12} {median:9.2f} {least:7.2f} {most:7.2f} {peak:8.2f}{remark}", flush=True)


# -- bytes of a round -------------------------------------------------------------------------------------------------


def measure_bytes(n_rows: int, repetitions: int) -> None:
    """Print what the ledgers of whole runs say, and what less precision costs."""
    print(
        f"\nWhole runs in one process: {N_SITES} sites, {n_rows:,} rows, a fifth of them tested on; parallel, p = 3, "
        f"{ROUNDS} rounds, {repetitions} repetitions\n"
        f"{'precision':10} {'MB a round down':>15} {'up':>6} {'all MB':>7} {'seconds':>8} {'test error':>10}"
        f" {'change, from':>12} {'to':>9}"
    )
    exact: list[float] = []
    for precision in ("float64", "float32"):
        runs = [_crossed(n_rows, precision, seed) for seed in range(repetitions)]
        errors = [each["test_mse"] for each in runs]
        exact = exact or errors
        change = np.subtract(errors, exact)
        down, up, total, seconds = (
            statistics.mean(each[what] for each in runs) for what in ("down", "up", "all", "seconds")
        )
        print(
            f"{precision:10} {down / 1e6:15.2f} {up / 1e6:6.2f} {total / 1e6:7.1f} {seconds:8.1f} "
            f"{np.mean(errors):10.5f} {change.min():+12.1e} {change.max():+9.1e}",
            flush=True,
        )


def _crossed(n_rows: int, precision: str, seed: int) -> dict[str, float]:
    """One run over files, each with another column of the same rows."""
    x, y = drawn(n_rows, N_SITES, seed)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        for j in range(N_SITES):
            _write(data / f"site-{j:02d}.csv", (f"x{j:02d}",), x[:, j : j + 1])
        _write(data / "_labels.csv", ("y",), y[:, None])
        chosen = {"algorithm": "parallel", "power": "3", "stop": "rounds", "rounds": ROUNDS, "precision": precision}
        settings = {f"residual.{name}": value for name, value in chosen.items()}
        started = time.perf_counter()
        path, _ = run({**config(Path(folder), protocol="residual", data=str(data), target="y"), **settings}, N_SITES)
        seconds = time.perf_counter() - started
        report, _ = load(path)
    payloads = report.ledger["by_payload"]
    down, up = (payloads[kind.title()]["bytes"] / (ROUNDS + 1) for kind in (Fit, Fitted))
    total = report.ledger["bytes_to_sites"] + report.ledger["bytes_from_sites"]
    return {"down": down, "up": up, "all": total, "seconds": seconds, "test_mse": report.metrics["test_mse"]}


def _write(path: Path, header: Sequence[str], values: Numbers) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(values.tolist())


def main(arguments: Sequence[str] | None = None) -> None:
    """All parts, one after the other."""
    parser: Any = argparse.ArgumentParser(prog="python -m benchmarks.residual", description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=N_ROWS, help="rows at the center")
    parser.add_argument("--crossing", type=int, default=N_CROSSING, help="rows of the runs whose bytes are counted")
    parser.add_argument("--runs", type=int, default=3, help="runs at the center, of whose rounds the median counts")
    parser.add_argument("--repetitions", type=int, default=1, help="draws of everything else")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS), help="what is measured")
    parser.add_argument(
        "--long", action="store_true", help="accuracy: protein and boosted agents too, some 8 minutes more"
    )
    options = parser.parse_args(arguments)
    logging.getLogger("flwr").setLevel(logging.WARNING)
    print(machine())
    repetitions = options.repetitions
    measures: dict[str, Callable[[], None]] = {
        "center": partial(measure_center, options.rows, options.runs),
        "bytes": partial(measure_bytes, options.crossing, repetitions),
        "idle": partial(measure_idle, repetitions),
        "accuracy": partial(measure_accuracy, repetitions, long=options.long),
        "rounds": partial(measure_rounds, repetitions),
        "bar": partial(measure_bar, repetitions),
    }
    with single_threaded():
        for part in options.parts:
            measures[part]()


if __name__ == "__main__":
    main()
