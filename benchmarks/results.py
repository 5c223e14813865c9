"""Results of a benchmark, collected from processes that run one after the other."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import psutil

from benchmarks.growth import AXES, Curve
from benchmarks.processes import load, machine, run_process
from benchmarks.side import PEERS, Case, Method
from benchmarks.side.measurement import Measurement, side_of

PACKAGES = ("consilience", "flwr", "numpy", "scipy", "scikit-learn", "torch", "gpytorch", "crowd-kit")
_APART = ("fair-kmeans", "bico")
_PRINT_VERSIONS = (
    "import json, sys; from importlib.metadata import version; print(json.dumps({n: version(n) for n in sys.argv[1:]}))"
)
_GROWTH_MARGIN = 3.0
"""The process of an axis is ended after this multiple of its budget, which only its last size can exceed."""

Say = Callable[[str], None]
Task = TypeVar("Task")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Row:
    """A method on a case: its measurement, or the reason why there is none."""

    case: str
    method: str
    measurement: Measurement | None = None
    problem: str = ""


@dataclass(frozen=True)
class Results:
    """Results of a whole benchmark.

    Attributes
    ----------
    about : Mapping
        Command, machine, date, versions, load and minutes of the run.
    quick : bool
        Whether the run was a trial on little data.
    sides : Mapping
        By protocol, a row for every case and method.
    growth : sequence of Curve
        The measured axes of growth.
    problems : Mapping
        By protocol and axis, the reason why an axis is missing.
    """

    about: Mapping[str, str]
    quick: bool
    sides: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    growth: Sequence[Curve] = ()
    problems: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the results as JSON."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def of_json(cls, text: str) -> Results:
        """Return the results that `to_json` wrote."""
        fields = json.loads(text)
        sides = {protocol: [_row(**row) for row in rows] for protocol, rows in fields["sides"].items()}
        growth = [Curve.of_fields(each) for each in fields["growth"]]
        return cls(fields["about"], fields["quick"], sides, growth, fields["problems"])


def _row(case: str, method: str, measurement: Mapping[str, Any] | None, problem: str) -> Row:
    return Row(case, method, Measurement(**measurement) if measurement else None, problem)


def collect(
    protocols: Sequence[str],
    parts: Sequence[str],
    *,
    command: str,
    quick: bool,
    limit: float,
    budget: float,
    say: Say,
) -> Results:
    """Measure protocols and their alternatives, and the growth of their costs.

    Parameters
    ----------
    protocols, parts : sequence of str
        The protocols; ``side`` and ``growth``.
    command : str
        The command line, for the page.
    quick : bool
        Whether to use little data.
    limit : float
        Seconds for a method on a case.
    budget : float
        Seconds for an axis of growth.
    say : Callable
        Is called with a line after every measurement.
    """
    started, before = time.time(), load()
    sides = {protocol: compare(protocol, quick, limit, say) for protocol in (protocols if "side" in parts else ())}
    axes = [(protocol, axis) for protocol in (protocols if "growth" in parts else ()) for axis in AXES]

    def measure(axis: tuple[str, str]) -> Curve | str:
        curve = grow(*axis, quick, budget)
        say(f"growth {' '.join(axis)}: {curve if isinstance(curve, str) else f'{len(curve.points)} sizes'}")
        return curve

    curves = dict(zip(axes, _in_turn(measure, axes, quick), strict=True))
    growth = [curve for curve in curves.values() if isinstance(curve, Curve)]
    problems = {" ".join(axis): curve for axis, curve in curves.items() if isinstance(curve, str)}
    return Results(_about(command, started, before), quick, sides, growth, problems)


def compare(protocol: str, quick: bool, limit: float, say: Say) -> list[Row]:
    """Measure every method of a protocol in its own process on every case; if `quick`, only on the last one."""
    side = side_of(protocol, quick)

    def run(task: tuple[Case, Method]) -> Row:
        case, method = task
        command = [sys.executable, "-m", "benchmarks.side", protocol, case.name, method.name]
        answer = run_process([*command, *(["--quick"] if quick else [])], method.limit or limit)
        if isinstance(answer, str):
            row = Row(case.name, method.name, problem=answer)
        elif "missing" in answer:
            row = Row(case.name, method.name, problem=answer["missing"])
        else:
            row = Row(case.name, method.name, Measurement(**answer))
        say(f"{protocol}, {case.name}, {method.name}: {row.problem or _brief(row)}")
        return row

    return _in_turn(run, list(product(side.cases[-1:] if quick else side.cases, side.methods)), quick)


def _in_turn(run: Callable[[Task], Answer], tasks: Sequence[Task], quick: bool) -> list[Answer]:
    """Run one process after the other, or two at a time in a trial, whose seconds do not count."""
    with ThreadPoolExecutor(2 if quick else 1) as pool:
        return list(pool.map(run, tasks))


def grow(protocol: str, axis: str, quick: bool, budget: float) -> Curve | str:
    """Measure an axis of growth in its own process, or return the reason why there is none."""
    command = [sys.executable, "-m", "benchmarks.growth", protocol, axis, "--budget", str(budget)]
    answer = run_process([*command, *(["--quick"] if quick else [])], _GROWTH_MARGIN * budget)
    return answer if isinstance(answer, str) else Curve.of_fields(answer)


def _brief(row: Row) -> str:
    assert row.measurement
    name, value = next(iter(row.measurement.metrics.items()))
    return f"{name} {value:.4g}, {row.measurement.seconds:.3g} s"


# -- about the run ----------------------------------------------------------------------------------------------------


def _about(command: str, started: float, before: str) -> dict[str, str]:
    total = psutil.virtual_memory().total / 2**30
    return {
        "command": command,
        "machine": f"{machine()}; {total:.0f} GB; {platform.system()}",
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(started)),
        "versions": ", ".join(_versions()),
        "load": f"{before} when it began, {load()} when it ended".replace("load ", ""),
        "minutes": f"{(time.time() - started) / 60:.1f}",
    }


def _versions() -> Iterator[str]:
    for name in PACKAGES:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
    yield from _versions_apart()


def _versions_apart() -> Iterator[str]:
    """Yield the versions of the packages of another Python."""
    python = os.environ.get(PEERS, "")
    if python and Path(python).exists():
        answer = run_process([python, "-c", _PRINT_VERSIONS, *_APART], 60.0)
        if not isinstance(answer, str):
            yield from (f"{name} {each}" for name, each in answer.items())


def say_aloud(line: str) -> None:
    """Print a line at once."""
    print(line, file=sys.stderr, flush=True)
