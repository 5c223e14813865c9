"""Runs the processes of a benchmark one after the other, and keeps what they say."""

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
from typing import TypeVar

import psutil

from benchmarks.growth import AXES, Grown
from benchmarks.processes import load, machine, told
from benchmarks.side import PEERS, Case, Method
from benchmarks.side.measure import Found, side_of

PACKAGES = ("consilience", "flwr", "numpy", "scipy", "scikit-learn", "torch", "gpytorch", "crowd-kit")
_APART = ("fair-kmeans", "bico")
_SAY_VERSIONS = (
    "import json, sys; from importlib.metadata import version; print(json.dumps({n: version(n) for n in sys.argv[1:]}))"
)
_GROWTH_MARGIN = 3.0
"""How many times its budget an axis may take before its process is ended: only its last size can be misjudged."""

Say = Callable[[str], None]
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Row:
    """What became of a method on a case: what it found, or why there is nothing."""

    case: str
    method: str
    found: Found | None = None
    problem: str = ""


@dataclass(frozen=True)
class Collected:
    """A whole benchmark.

    Attributes
    ----------
    about : Mapping
        Of the run: its command, machine, date, versions, load, seconds.
    quick : bool
        Whether it was a trial on little data.
    sides : Mapping
        By protocol, a row for every case and method.
    growth : sequence of Grown
        The axes that were measured.
    ended : Mapping
        By protocol and axis, why an axis was not.
    """

    about: Mapping[str, str]
    quick: bool
    sides: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    growth: Sequence[Grown] = ()
    ended: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """As text, for another day."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def of_json(cls, text: str) -> Collected:
        """What `to_json` wrote."""
        fields = json.loads(text)
        sides = {
            protocol: [Row(**{**row, "found": row["found"] and Found(**row["found"])}) for row in rows]
            for protocol, rows in fields["sides"].items()
        }
        growth = [Grown.told(each) for each in fields["growth"]]
        return cls(fields["about"], fields["quick"], sides, growth, fields["ended"])


def collect(
    protocols: Sequence[str],
    parts: Sequence[str],
    *,
    command: str,
    quick: bool,
    limit: float,
    budget: float,
    say: Say,
) -> Collected:
    """Measure what is asked for.

    Parameters
    ----------
    protocols, parts : sequence of str
        Which; parts are ``side`` and ``growth``.
    command : str
        What was typed, as the page is to show it.
    quick : bool
        On little data.
    limit : float
        Seconds of a method on a case, in all.
    budget : float
        Seconds of an axis of growth.
    say : Callable
        Gets a line for everything that is done.
    """
    started, before = time.time(), load()
    sides = {protocol: compare(protocol, quick, limit, say) for protocol in (protocols if "side" in parts else ())}
    axes = [(protocol, axis) for protocol in (protocols if "growth" in parts else ()) for axis in AXES]

    def measure(axis: tuple[str, str]) -> Grown | str:
        grown = grow(*axis, quick, budget)
        say(f"growth {' '.join(axis)}: {grown if isinstance(grown, str) else f'{len(grown.points)} sizes'}")
        return grown

    measured = dict(zip(axes, _in_turn(measure, axes, quick), strict=True))
    growth = [grown for grown in measured.values() if isinstance(grown, Grown)]
    ended = {" ".join(axis): grown for axis, grown in measured.items() if isinstance(grown, str)}
    return Collected(_about(command, started, before), quick, sides, growth, ended)


def compare(protocol: str, quick: bool, limit: float, say: Say) -> list[Row]:
    """Every method of a protocol on every case, each in a process of its own; `quick`: on the last case alone."""
    side = side_of(protocol, quick)

    def run(asked: tuple[Case, Method]) -> Row:
        case, method = asked
        command = [sys.executable, "-m", "benchmarks.side", protocol, case.name, method.name]
        answer = told([*command, *(["--quick"] if quick else [])], method.limit or limit)
        if isinstance(answer, str):
            row = Row(case.name, method.name, problem=answer)
        elif "missing" in answer:
            row = Row(case.name, method.name, problem=answer["missing"])
        else:
            row = Row(case.name, method.name, Found(**answer))
        say(f"{protocol}, {case.name}, {method.name}: {row.problem or _brief(row)}")
        return row

    return _in_turn(run, list(product(side.cases[-1:] if quick else side.cases, side.methods)), quick)


def _in_turn(run: Callable[[Asked], Answer], asked: Sequence[Asked], quick: bool) -> list[Answer]:
    """One process after the other; two at the same time in a trial, whose seconds are no measurements."""
    with ThreadPoolExecutor(2 if quick else 1) as pool:
        return list(pool.map(run, asked))


def grow(protocol: str, axis: str, quick: bool, budget: float) -> Grown | str:
    """An axis of growth, in a process of its own; or why there is none."""
    command = [sys.executable, "-m", "benchmarks.growth", protocol, axis, "--budget", str(budget)]
    answer = told([*command, *(["--quick"] if quick else [])], _GROWTH_MARGIN * budget)
    return answer if isinstance(answer, str) else Grown.told(answer)


def _brief(row: Row) -> str:
    assert row.found
    first = next(iter(row.found.metrics.items()))
    return f"{first[0]} {first[1]:.4g}, {row.found.seconds:.3g} s"


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
    """Of the packages that another Python has."""
    python = os.environ.get(PEERS, "")
    if python and Path(python).exists():
        found = told([python, "-c", _SAY_VERSIONS, *_APART], 60.0)
        if not isinstance(found, str):
            yield from (f"{name} {each}" for name, each in found.items())


def say_aloud(line: str) -> None:
    """Print a line at once."""
    print(line, file=sys.stderr, flush=True)
