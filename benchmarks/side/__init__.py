"""Protocols compared with their alternatives, on the same rows and measured in the same way.

Each protocol has a module, whose ``side(quick)`` returns a `Side`: data sets, metrics, methods. Every method
runs on every data set in a fresh process of one thread (``python -m benchmarks.side PROTOCOL CASE METHOD``), which
prints a `benchmarks.side.measurement.Measurement` as JSON. benchmarks/side/gp.py is a short example.

The process first runs the method on a small case, unmeasured, so that everything is imported and compiled. Then it
loads the data of every seed, notes its memory, and times ``run(data, seed)``. The result has the method's rounds and
bytes; its metrics are computed afterwards, untimed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHARED = Path(__file__).parents[3] / "shared" / "data"
PROTOCOLS = ("bc3e", "sec", "residual", "coreset", "gp")
PEERS = "CONSILIENCE_PEERS"
"""Environment variable: a Python with the packages of methods that run `apart`."""


class NotHereError(RuntimeError):
    """A case or method lacks a file or package; the message briefly says how to get it."""


@dataclass(frozen=True)
class Metric:
    """A measure of quality.

    Attributes
    ----------
    name : str
        Key in the result of `Result.score`.
    heading : str
        Heading of its column.
    better : str
        ``lower``, ``higher``, or e.g. ``near 0.95``. Empty: no value is better than another.
    digits : int
        Number of significant digits in the page.
    """

    name: str
    heading: str
    better: str = ""
    digits: int = 4


@dataclass(frozen=True)
class Result:
    """Result and costs of a method on the data.

    Attributes
    ----------
    score : Callable
        ``score()`` returns its metrics by name; a missing metric has an empty cell.
    rounds : float
        Rounds of messages.
    to_sites, from_sites : float
        Bytes of all sites together; of a method that pools rows, the bytes of the rows.
    seconds : float
        Seconds of the method; NaN: those of the call of ``run``. Protocols count center and sites, one after the other,
        without the benchmark's own work.
    center, slowest : float
        Seconds of the center, and of the slowest site of every round, summed; NaN: there is no center.
    peak : float
        Peak bytes beyond the data, if another process did the work; NaN: this process did it.
    """

    score: Callable[[], Mapping[str, float]]
    rounds: float = 0.0
    to_sites: float = 0.0
    from_sites: float = 0.0
    seconds: float = math.nan
    center: float = math.nan
    slowest: float = math.nan
    peak: float = math.nan


@dataclass(frozen=True)
class Case:
    """A data set.

    Attributes
    ----------
    name : str
        Name in the page.
    about : str
        Short description of rows, columns, sites and split.
    load : Callable
        ``load(seed)`` returns the data; raises `NotHereError` or `scenarios.registry.ScenarioError` without its file.
    seeds : int
        Number of draws; seeds are counted from 0.
    """

    name: str
    about: str
    load: Callable[[int], Any]
    seeds: int = 3


@dataclass(frozen=True)
class Method:
    """A way to do the protocol's task.

    Attributes
    ----------
    name : str
        Name in the page.
    run : Callable
        ``run(data, seed)`` learns and predicts, and returns a `Result`.
    leaves : str
        What leaves a site, e.g. ``rows``, ``nothing``, ``models``, ``sums``.
    ours : bool
        Whether the method is the protocol itself.
    needs : tuple of str
        Modules that the project does not depend on.
    package : str
        Their name for pip.
    apart : bool
        Whether another process imports the modules, by the Python in `PEERS` if it is set.
    limit : float
        Seconds for the process with all seeds, including loading; 0: the limit of the command line.
    """

    name: str
    run: Callable[[Any, int], Result]
    leaves: str
    ours: bool = False
    needs: tuple[str, ...] = ()
    package: str = ""
    apart: bool = False
    limit: float = 0.0


@dataclass(frozen=True)
class Side:
    """The comparison of a protocol with its alternatives.

    Attributes
    ----------
    protocol : str
        Name of the protocol.
    task : str
        The task of all methods, in a sentence.
    metrics : sequence of Metric
        The first one ranks the methods.
    cases : sequence of Case
        Data sets; the last needs no file.
    methods : sequence of Method
        The protocol first.
    small : Callable
        ``small()`` returns data for the unmeasured run, on which a method takes a fraction of a second.
    notes : str
        Settings and tuning of the methods, in Markdown; no results.
    """

    protocol: str
    task: str
    metrics: Sequence[Metric]
    cases: Sequence[Case]
    methods: Sequence[Method]
    small: Callable[[], Any]
    notes: str = ""


def data_setting() -> str:
    """Return the run configuration's `data`: the directory of data files beside the checkout, if there is one.

    Empty: CONSILIENCE_DATA is set, or there is none.
    """
    return "" if os.environ.get("CONSILIENCE_DATA") or not SHARED.exists() else str(SHARED)
