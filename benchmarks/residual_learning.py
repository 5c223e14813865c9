"""Whole plans of attribute-distributed regression with the sites' handlers, for benchmarks/residual.py."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import numpy as np
from jaxtyping import Float64
from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.driver import config_of, sites_of, world
from clients.data import read_table
from clients.dispatch import handler_of
from clients.residual.learner import Learner
from clients.site import Site
from consilience.settings import declared
from numerics.residual.columns_and_outcomes import Columns
from numerics.residual.rules import Rules
from protocols.residual import sequential
from protocols.residual.payloads import Fit, Fitted, Order, Show, Tried, Try
from protocols.residual.plan import Plan
from protocols.wire.payload import Payload
from scenarios.registry import ScenarioError, find
from scenarios.sources.files import find_file

SHARED = Path(__file__).parents[2] / "shared" / "data"
SLOW = Rules(algorithm="greedy", shrinkage=0.1, rounds=300, patience=30)
"""L2 boosting, stopped on held-out rows."""
BOOSTED = "hgb(max_iter=20)"
"""Few iterations, for the rounds go on with what they leave."""
WAYS: Mapping[str, tuple[Rules, str]] = {
    "parallel auto, trees": (Rules(), "tree"),
    "greedy nu=.1, trees": (SLOW, "tree"),
    "parallel auto, hgb": (Rules(), BOOSTED),
}
IDLE_SHARES = (0.0, 1e-4, 1e-3, 1e-2)
BARS = (0.5, 0.7, 0.9, 0.95, 0.99)
CONVERGED = 0.01
"""Share of the last test error within which all later ones stay."""


# -- learning without a wire ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Draw:
    """Columns, one for each agent, and outcomes of the same rows; the last ones are tested on."""

    x: Float64[np.ndarray, "n p"]
    y: Float64[np.ndarray, "n"]
    n_test: int


@dataclass(frozen=True)
class Learnt:
    """A plan that has ended, and what it took.

    Attributes
    ----------
    plan : Plan
        That has ended.
    seconds : float
        Of everybody's work, one after the other.
    iterations, asks : int
        How often something was to be fitted, and how often anything was asked.
    down, up : int
        Numbers sent for rows learnt from, all sites together.
    """

    plan: Plan
    seconds: float
    iterations: int
    asks: int
    down: int
    up: int

    @property
    def curve(self) -> Float64[np.ndarray, "t"]:
        """Test errors by iteration."""
        assert self.plan.result is not None
        return self.plan.result.curve[:, 2]

    @property
    def error(self) -> float:
        """Test error of the chosen iterate."""
        assert self.plan.result is not None
        return float(self.curve[self.plan.result.iteration])


def learn(draw: Draw, rules: Rules, agent: str = "tree", min_leaf: int = 40) -> Learnt:
    """Carry a plan out with the sites' real handlers, in this process."""
    columns = [Columns(np.ascontiguousarray(draw.x[:, j : j + 1]), (f"x_{j}",)) for j in range(draw.x.shape[1])]
    with world("residual", columns) as name:
        return _learnt(
            sites_of(config_of(name), len(columns)), draw, rules, Order(np.arange(len(draw.y)), agent, min_leaf)
        )


def _learnt(sites: Mapping[str, Site], draw: Draw, rules: Rules, order: Order) -> Learnt:
    for site in sites.values():
        Learner.begin(site, order)
    started = time.perf_counter()
    plan = Plan(tuple(sites), draw.y, len(draw.y) - draw.n_test, rules)
    iterations = asks = down = up = 0
    while asked := plan.asks():
        answers = {name: handler_of(type(ask))(ask, sites[name]) for name, ask in asked.items()}
        plan.take(answers)
        asks += 1
        iterations += not any(isinstance(ask, Show) for ask in asked.values())
        down += sum(_size(ask) for ask in asked.values())
        up += sum(_size(answer) for answer in answers.values())
    return Learnt(plan, time.perf_counter() - started, iterations, asks, down, up)


def _size(payload: Payload) -> int:
    """Of the numbers for rows learnt from."""
    match payload:
        case Fit():
            return payload.target.size
        case Try():
            return payload.residual.size
        case Fitted() | Tried():
            return payload.fitted.size
    return 0


def drawn(scenario: str, n_sites: int, seed: int) -> Draw:
    """A scenario's draw."""
    settings = {**declared(), "scenario": scenario}
    if not settings["data"] and SHARED.exists():
        settings["data"] = str(SHARED)
    world = find(scenario)
    assert world.outcome is not None
    shards, outcome = world.shards(settings, seed, n_sites), world.outcome(settings, seed)
    return Draw(np.hstack([shard.x for shard in shards]), outcome.y, outcome.n_test)


def protein(seed: int) -> Draw:
    """Physicochemical properties of protein tertiary structure (UCI 265): 45,730 rows, 9 columns; a fifth is tested on.

    Raises
    ------
    ScenarioError
        If there is no file protein.csv in the directory of CONSILIENCE_DATA.
    """
    path = find_file({"data": declared()["data"] or (str(SHARED) if SHARED.exists() else "")}, ("protein.csv",))
    if path is None:
        raise ScenarioError("protein.csv[.gz] is not in the directory that CONSILIENCE_DATA names")
    columns = read_table(path).columns
    y = np.asarray(columns["RMSD"], np.float64)
    x = np.column_stack([np.asarray(values, np.float64) for name, values in columns.items() if name != "RMSD"])
    order = np.random.default_rng(seed).permutation(len(y))
    n_test = len(y) // 5
    learnt = y[order[:-n_test]]
    return Draw(x[order], (y[order] - learnt.mean()) / learnt.std(), n_test)


# -- accuracy ---------------------------------------------------------------------------------------------------------


def measure_accuracy(repetitions: int, *, long: bool) -> None:
    """Print test errors beside those of a learner that is given all columns."""
    print(
        f"\nTest errors (variance 1) beside HistGradientBoostingRegressor on the pooled columns, a column a site; "
        f"{repetitions} draws, of protein 1; leaves of 40; seconds of all parties together, 1 thread\n"
        f"{'data':10} {'':22} {'test error':>10} {'of pooled':>9} {'rounds':>6} {'seconds':>8}"
    )
    for name, draws in _tables(repetitions, long=long):
        try:
            held = list(draws)
        except ScenarioError as missing:
            print(f"{name:10} left out: {missing}")
            continue
        pooled = [_pooled(draw) for draw in held]
        reference = float(np.mean([error for error, _ in pooled]))
        _print_error(name, "pooled HistGB", reference, reference, "", [seconds for _, seconds in pooled])
        for way, (rules, agent) in WAYS.items():
            if agent == BOOSTED and not long:
                continue
            fits = [learn(draw, rules, agent) for draw in held]
            error = float(np.mean([fit.error for fit in fits]))
            rounds = f"{np.mean([fit.asks for fit in fits]):.0f}"
            _print_error("", way, error, reference, rounds, [fit.seconds for fit in fits])


def _tables(repetitions: int, *, long: bool) -> Iterator[tuple[str, Iterator[Draw]]]:
    yield "Friedman-1", (drawn("residual-friedman1", 5, seed) for seed in range(repetitions))
    yield "concrete", (drawn("residual-concrete", 8, seed) for seed in range(repetitions))
    if long:
        yield "protein", (protein(seed) for seed in range(1))


def _pooled(draw: Draw) -> tuple[float, float]:
    """Test error and seconds."""
    n_learn = len(draw.y) - draw.n_test
    started = time.perf_counter()
    model = HistGradientBoostingRegressor(random_state=0).fit(draw.x[:n_learn], draw.y[:n_learn])
    error = float(np.mean((draw.y[n_learn:] - model.predict(draw.x[n_learn:])) ** 2))
    return error, time.perf_counter() - started


def _print_error(data: str, way: str, error: float, reference: float, rounds: str, seconds: Sequence[float]) -> None:
    print(f"{data:10} {way:22} {error:10.3f} {error / reference:9.2f} {rounds:>6} {np.mean(seconds):8.2f}", flush=True)


# -- agents that are asked no more ------------------------------------------------------------------------------------


def measure_idle(repetitions: int) -> None:
    """Print what it saves, and costs, to ask agents of little power no more (section VI-B)."""
    common = Rules(powers=(3.0,), stop="rounds", intercept=False)
    print(
        f"\nresidual.idle-share: residual-irrelevant, 4 relevant attributes of 30, p = 3, leaves of 15, patience "
        f"{common.patience}, {repetitions} draws\n"
        f"{'rounds':>6} {'idle-share':>10} {'MB all rounds':>13} {'saved':>6} {'test error':>10}"
    )
    draws = [drawn("residual-irrelevant", 30, seed) for seed in range(repetitions)]
    for rounds in (20, 60):
        whole = 0.0
        for share in IDLE_SHARES:
            fits = [learn(draw, replace(common, rounds=rounds, idle_share=share), min_leaf=15) for draw in draws]
            sent = float(np.mean([8 * (fit.down + fit.up) for fit in fits]))
            whole = whole or sent
            error = float(np.mean([fit.curve[-1] for fit in fits]))
            print(f"{rounds:6d} {share:10g} {sent / 1e6:13.1f} {1 - sent / whole:6.0%} {error:10.4f}", flush=True)


# -- rounds -----------------------------------------------------------------------------------------------------------


def measure_rounds(repetitions: int) -> None:
    """Print after how many iterations the test error stays near its last value."""
    ways = {
        "parallel p=1": Rules(powers=(1.0,), stop="rounds", rounds=60),
        "parallel p=3": Rules(powers=(3.0,), stop="rounds", rounds=60),
        "greedy": Rules(algorithm="greedy", stop="rounds", rounds=60),
        "greedy nu=.1": Rules(algorithm="greedy", shrinkage=0.1, stop="rounds", rounds=300),
        "sip": Rules(algorithm="sip", stop="rounds", rounds=60),
    }
    print(
        f"\nIterations after which the test error stays within {CONVERGED:.0%} of the last of 60 (nu=.1: 300), mean of "
        f"{repetitions} draws; leaves of 40\n{'':14}" + "".join(f"{f'Friedman-{k}':>24}" for k in (1, 2, 3))
    )
    for way, rules in ways.items():
        cells = []
        for k in (1, 2, 3):
            fits = [learn(drawn(f"residual-friedman{k}", 5, seed), rules) for seed in range(repetitions)]
            steps = np.mean([_settled(fit.curve) for fit in fits])
            best, last = (float(np.mean([value(fit.curve) for fit in fits])) for value in (np.min, lambda c: c[-1]))
            cells.append(f"{steps:8.1f} ({best:.3f}, {last:.3f})")
        print(f"{way:14}" + "".join(f"{cell:>24}" for cell in cells), flush=True)
    print("in brackets: the smallest test error along the way, and the last")


def _settled(curve: Float64[np.ndarray, "t"]) -> int:
    away = np.flatnonzero(np.abs(curve - curve[-1]) > CONVERGED * curve[-1])
    return int(away[-1]) + 1 if len(away) else 0


def measure_bar(repetitions: int) -> None:
    """Print how often greedy's winner must be asked again, and how many predictions come along in vain."""
    print(
        f"\nGreedy's bar, 60 iterations, {repetitions} draws: asks an iteration / predictions up an iteration (each of"
        f" all rows learnt from; 1 at least)\n{'':34}" + "".join(f"{bar:>13g}" for bar in BARS)
    )
    for name, n_sites in (("residual-friedman1", 5), ("residual-curves", 10), ("residual-concrete", 8)):
        try:
            draws = [drawn(name, n_sites, seed) for seed in range(repetitions)]
        except ScenarioError as missing:
            print(f"{name:34} left out: {missing}")
            continue
        for nu in (1.0, 0.1):
            rules = Rules(algorithm="greedy", shrinkage=nu, stop="rounds", rounds=60)
            cells = []
            for bar in BARS:
                with mock.patch.object(sequential, "_LIKELY", bar):
                    fits = [learn(draw, rules) for draw in draws]
                asks, sent = (
                    np.mean([value / fit.iterations for value, fit in zip(values, fits, strict=True)])
                    for values in (
                        [fit.asks for fit in fits],
                        [fit.up / (len(draw.y) - draw.n_test) for fit, draw in zip(fits, draws, strict=True)],
                    )
                )
                cells.append(f"{asks:.2f} / {sent:.2f}")
            print(f"{name:22} {n_sites:3d} {f'nu={nu:g}':>7}" + "".join(f"{cell:>13}" for cell in cells), flush=True)
