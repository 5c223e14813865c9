"""Cost against growth: whole conversations of every protocol with more sites and more rows, and fitted exponents.

``python -m benchmarks.growth PROTOCOL AXIS`` measures one of them in this process, and prints it as JSON.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.growth_worlds import WORLDS
from benchmarks.side import PROTOCOLS
from benchmarks.side.measure import memory_above, settle_memory
from benchmarks.side.protocol import played
from numerics.shared.threads import single_threaded

SITES, ROWS = (2, 5, 10, 20, 50, 100, 200), (1_000, 10_000, 100_000, 1_000_000)
QUICK_SITES, QUICK_ROWS = (2, 5, 10), (500, 1_000, 2_000)
_QUICKER = 10
"""How many times fewer rows a trial has where sites share them."""
AXES = ("sites", "sites-together", "rows")
"""More sites that share the same rows; more sites that bring rows of their own; more rows at the same sites."""
COSTS = ("center", "slowest", "all", "to_sites", "from_sites", "rounds", "peak")
"""Fields of `Point` that may grow."""


@dataclass(frozen=True)
class Point:
    """One size.

    Attributes
    ----------
    sites, rows : int
        How many; rows of all sites together (of residual: of every site, the sites differ by columns).
    center, slowest, all : float
        Seconds of the center, of the slowest site of every round, and of everybody, one after the other.
    rounds : int
        Of messages.
    to_sites, from_sites : int
        Bytes, of all sites together.
    peak : float
        Bytes the process held at most, center and all sites, above what it held with the data loaded.
    """

    sites: int
    rows: int
    center: float
    slowest: float
    all: float
    rounds: int
    to_sites: int
    from_sites: int
    peak: float


@dataclass(frozen=True)
class Grown:
    """An axis of a protocol.

    Attributes
    ----------
    protocol, axis : str
        Which.
    points : sequence of Point
        In the order of their sizes.
    left_out : sequence of tuple
        Sizes (sites, rows) that were not tried, and the seconds that the first of them was predicted to take.
    """

    protocol: str
    axis: str
    points: Sequence[Point]
    left_out: Sequence[tuple[int, int, float]] = ()

    @classmethod
    def told(cls, fields: dict[str, Any]) -> Grown:
        """From what `asdict` made of it."""
        points = [Point(**each) for each in fields["points"]]
        left_out = [(int(sites), int(rows), float(seconds)) for sites, rows, seconds in fields["left_out"]]
        return cls(fields["protocol"], fields["axis"], points, left_out)

    @property
    def sizes(self) -> list[int]:
        """What grows along the axis."""
        return [each.rows if self.axis == "rows" else each.sites for each in self.points]


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> tuple[float, float]:
    """Slope of log cost against log size by least squares, and its standard error; NaN where they cannot be told.

    Parameters
    ----------
    sizes, costs : sequence of float
        Of as many points; the slope takes two, its error three, and costs above 0.
    """
    if len(sizes) < 2 or not all(cost > 0 and math.isfinite(cost) for cost in costs):
        return math.nan, math.nan
    x, y = np.log(sizes) - np.mean(np.log(sizes)), np.log(costs) - np.mean(np.log(costs))
    slope = float(x @ y / (x @ x))
    left = float(np.sum((y - slope * x) ** 2))
    return slope, math.sqrt(left / (len(x) - 2) / float(x @ x)) if len(x) > 2 else math.nan


def sizes_of(protocol: str, axis: str, quick: bool) -> list[tuple[int, int]]:
    """Numbers of sites and rows along an axis."""
    world, numbers = WORLDS[protocol], QUICK_SITES if quick else SITES
    if axis == "rows":
        return [(world.sites, rows) for rows in (QUICK_ROWS if quick else ROWS)]
    if axis == "sites":
        return [(sites, world.rows // (_QUICKER if quick else 1)) for sites in numbers]
    return [(sites, world.together(sites)) for sites in numbers]


def measure(protocol: str, axis: str, sites: int, rows: int) -> Point:
    """One conversation."""
    world = WORLDS[protocol].make(sites, rows, axis == "sites")
    held = settle_memory()
    driven = played(protocol, world.shards, 0, world.settings, **world.parts)
    peak, spent = memory_above(held), driven.spent
    return Point(
        *(sites, rows, spent.center, spent.slowest, spent.all),
        *(driven.n_rounds, driven.to_sites, driven.from_sites, peak),
    )


def grow(
    sizes: Sequence[tuple[int, int]], measured: Callable[[int, int], Point], budget: float
) -> tuple[list[Point], list[tuple[int, int, float]]]:
    """Measure sizes one after the other, until the next is predicted to take more than is left of `budget` seconds.

    A size is predicted to take what the last one took, data and all, times what grows (sites or rows, whichever grows
    more) to the power by which the last two differed, and to no less than 0; where rows grow or there are not two, to
    no less than 1.
    """
    points, took = list[Point](), list[float]()
    rows_grow = len({rows for _, rows in sizes}) > 1
    lengths = [max(sites / sizes[0][0], rows / sizes[0][1]) for sites, rows in sizes]
    for place, (sites, rows) in enumerate(sizes):
        expected = _predicted(lengths[: place + 1], took, 1.0 if rows_grow else 0.0)
        if expected > budget - sum(took):
            return points, [(*each, expected) for each in sizes[place:]]
        started = time.perf_counter()
        points.append(measured(sites, rows))
        took.append(time.perf_counter() - started)
    return points, []


def _predicted(lengths: Sequence[float], took: Sequence[float], least: float) -> float:
    """Seconds of the last of the sizes, by those of the others."""
    if not took:
        return 0.0
    ratios = [math.log(after / before) for before, after in pairwise(lengths)]
    power = max(least, math.log(took[-1] / took[-2]) / ratios[-2]) if len(took) > 1 else 1.0
    return took[-1] * math.exp(power * ratios[-1])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure an axis of a protocol, and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth")
    parser.add_argument("protocol", choices=PROTOCOLS)
    parser.add_argument("axis", choices=AXES)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--budget", type=float, default=80.0, help="seconds for all sizes")
    options = parser.parse_args(arguments)
    logging.getLogger("flwr").setLevel(logging.WARNING)

    def measured(sites: int, rows: int) -> Point:
        return measure(options.protocol, options.axis, sites, rows)

    with single_threaded():
        measured(2, 200)  # compiled, imported
        points, left_out = grow(sizes_of(options.protocol, options.axis, options.quick), measured, options.budget)
    print(json.dumps(asdict(Grown(options.protocol, options.axis, points, left_out))))


if __name__ == "__main__":
    main()
