"""Growth of cost: whole conversations of every protocol with more sites and more rows, and fitted exponents.

``python -m benchmarks.growth PROTOCOL AXIS`` measures one axis in this process, and prints it as JSON.
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
from benchmarks.side.measurement import memory_above, settle_memory
from benchmarks.side.protocol import run_protocol
from numerics.shared.threads import single_threaded

SITES, ROWS = (2, 5, 10, 20, 50, 100, 200), (1_000, 10_000, 100_000, 1_000_000)
QUICK_SITES, QUICK_ROWS = (2, 5, 10), (500, 1_000, 2_000)
_QUICKER = 10
"""In a trial, the rows that sites share are divided by this number."""
AXES = ("sites", "sites-together", "rows")
"""More sites that share the same rows; more sites with their own rows; more rows at the same sites."""


@dataclass(frozen=True)
class Point:
    """Costs at one size.

    Attributes
    ----------
    sites, rows : int
        Number of sites, and of rows of all sites together (residual: of each site).
    center, slowest, all : float
        Seconds of the center, of the slowest site of every round, and of center and sites, one after the other.
    rounds : int
        Rounds of messages.
    to_sites, from_sites : int
        Bytes of all sites together.
    peak : float
        Peak bytes of the process, which holds center and sites, above those with the data loaded.
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
class Curve:
    """Costs along an axis of a protocol.

    Attributes
    ----------
    protocol, axis : str
        The protocol and the axis.
    points : sequence of Point
        Costs, ordered by size.
    omitted : sequence of tuple
        Sizes (sites, rows) that were not measured, and the predicted seconds of the first of them.
    """

    protocol: str
    axis: str
    points: Sequence[Point]
    omitted: Sequence[tuple[int, int, float]] = ()

    @classmethod
    def of_fields(cls, fields: dict[str, Any]) -> Curve:
        """Return the curve from the result of `asdict`."""
        points = [Point(**each) for each in fields["points"]]
        omitted = [(int(sites), int(rows), float(seconds)) for sites, rows, seconds in fields["omitted"]]
        return cls(fields["protocol"], fields["axis"], points, omitted)

    @property
    def sizes(self) -> list[int]:
        """Numbers of rows or sites along the axis."""
        return [each.rows if self.axis == "rows" else each.sites for each in self.points]


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> tuple[float, float]:
    """Return the slope of log cost against log size by least squares, and its standard error.

    The slope needs two points and positive costs, its error three points; otherwise they are NaN.

    Examples
    --------
    >>> exponent([1, 10], [2.0, 20.0])
    (1.0, nan)
    """
    if len(sizes) < 2 or not all(cost > 0 and math.isfinite(cost) for cost in costs):
        return math.nan, math.nan
    x, y = np.log(sizes) - np.mean(np.log(sizes)), np.log(costs) - np.mean(np.log(costs))
    slope = float(x @ y / (x @ x))
    left = float(np.sum((y - slope * x) ** 2))
    return slope, math.sqrt(left / (len(x) - 2) / float(x @ x)) if len(x) > 2 else math.nan


def sizes_of(protocol: str, axis: str, quick: bool) -> list[tuple[int, int]]:
    """Return numbers of sites and rows along an axis."""
    world, numbers = WORLDS[protocol], QUICK_SITES if quick else SITES
    if axis == "rows":
        return [(world.sites, rows) for rows in (QUICK_ROWS if quick else ROWS)]
    if axis == "sites":
        return [(sites, world.rows // (_QUICKER if quick else 1)) for sites in numbers]
    return [(sites, world.together(sites)) for sites in numbers]


def measure(protocol: str, axis: str, sites: int, rows: int) -> Point:
    """Measure one conversation."""
    world = WORLDS[protocol].make(sites, rows, axis == "sites")
    held = settle_memory()
    transcript = run_protocol(protocol, world.shards, 0, world.settings, **world.parts)
    peak, seconds = memory_above(held), transcript.seconds
    return Point(
        *(sites, rows, seconds.center, seconds.slowest, seconds.all),
        *(transcript.n_rounds, transcript.to_sites, transcript.from_sites, peak),
    )


def grow(
    sizes: Sequence[tuple[int, int]], measure: Callable[[int, int], Point], budget: float
) -> tuple[list[Point], list[tuple[int, int, float]]]:
    """Measure sizes one after the other, until the prediction for the next exceeds the rest of `budget` seconds.

    The prediction is the time of the last size, including the data, times a power of the ratio of the sizes (sites or
    rows, whichever grows more). The exponent is that of the last two sizes, but not below 0, and not below 1 if rows
    grow; after a single size it is 1.
    """
    points, times = list[Point](), list[float]()
    rows_grow = len({rows for _, rows in sizes}) > 1
    lengths = [max(sites / sizes[0][0], rows / sizes[0][1]) for sites, rows in sizes]
    for place, (sites, rows) in enumerate(sizes):
        expected = _predict(lengths[: place + 1], times, 1.0 if rows_grow else 0.0)
        if expected > budget - sum(times):
            return points, [(*each, expected) for each in sizes[place:]]
        started = time.perf_counter()
        points.append(measure(sites, rows))
        times.append(time.perf_counter() - started)
    return points, []


def _predict(lengths: Sequence[float], times: Sequence[float], least: float) -> float:
    """Predict the seconds of the last size from those of the others."""
    if not times:
        return 0.0
    ratios = [math.log(after / before) for before, after in pairwise(lengths)]
    power = max(least, math.log(times[-1] / times[-2]) / ratios[-2]) if len(times) > 1 else 1.0
    return times[-1] * math.exp(power * ratios[-1])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure an axis of a protocol, and print its curve."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth")
    parser.add_argument("protocol", choices=PROTOCOLS)
    parser.add_argument("axis", choices=AXES)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--budget", type=float, default=80.0, help="seconds for all sizes")
    options = parser.parse_args(arguments)
    logging.getLogger("flwr").setLevel(logging.WARNING)

    def measure_size(sites: int, rows: int) -> Point:
        return measure(options.protocol, options.axis, sites, rows)

    with single_threaded():
        measure_size(2, 200)  # imports and compiles
        points, omitted = grow(sizes_of(options.protocol, options.axis, options.quick), measure_size, options.budget)
    print(json.dumps(asdict(Curve(options.protocol, options.axis, points, omitted))))


if __name__ == "__main__":
    main()
