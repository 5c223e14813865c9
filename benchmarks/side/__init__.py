"""Peers, side by side: for every protocol, ours and what a user would pick instead, on the same rows, measured alike.

A module of this package is a protocol. It has ``side(quick)``, which returns a `Side`: data sets, metrics, methods.
Every method is run on every data set in a fresh process of one thread (``python -m benchmarks.side PROTOCOL CASE
METHOD``), which prints what it found as JSON. benchmarks/side/gp.py is a short example.

How a method is measured: the process loads a small case and runs the method on it once, unmeasured, so that all is
imported and compiled. Then for every seed it loads the data, notes the memory it holds, and calls ``run(data, seed)``
against the clock; what ``run`` returns says how many rounds and bytes it took, and scores itself afterwards, off the
clock.
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
"""Environment variable: a Python that has the packages that a method needs `apart`."""


class NotHereError(RuntimeError):
    """A file or package that a case or method needs is not here; the message says how to have it, in a few words."""


@dataclass(frozen=True)
class Metric:
    """What methods are judged by.

    Attributes
    ----------
    name : str
        Key in `Ran.score`'s result.
    heading : str
        Of its column.
    better : str
        ``lower``, ``higher``, or ``near 0.95`` with a number: what a good method is near to. Empty: neither.
    digits : int
        Significant digits that are shown.
    """

    name: str
    heading: str
    better: str = ""
    digits: int = 4


@dataclass(frozen=True)
class Ran:
    """What a method has done with the data.

    Attributes
    ----------
    score : Callable
        ``score()``: its metrics by name; those of the side that it lacks are shown empty.
    rounds : float
        Rounds of messages.
    to_sites, from_sites : float
        Bytes, of all sites together; of a method that pools rows, those of the rows.
    seconds : float
        NaN: those of the call of ``run``. Ours gives those of all, one after the other, without what the benchmark
        itself does in between.
    center, slowest : float
        Seconds of the center alone, and of the slowest site of each round, summed; NaN: there is no center.
    peak : float
        Bytes beside the data, where another process did the work; NaN: those of this process.
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
        As it is shown.
    about : str
        Rows, columns, sites, split, in a few words.
    load : Callable
        ``load(seed)``: what the methods are given; raises `NotHereError` or `scenarios.registry.ScenarioError` where
        its file is not here.
    seeds : int
        Draws, from 0 on.
    """

    name: str
    about: str
    load: Callable[[int], Any]
    seeds: int = 3


@dataclass(frozen=True)
class Method:
    """A way to do what the protocol does.

    Attributes
    ----------
    name : str
        As it is shown.
    run : Callable
        ``run(data, seed)``: learns and predicts, returns `Ran`.
    sees : str
        What leaves a party, e.g. ``rows``, ``nothing``, ``models``, ``sums``.
    ours : bool
        Whether it is the protocol.
    needs : tuple of str
        Modules that are no dependency of the project.
    package : str
        What pip calls them.
    apart : bool
        Whether they are imported by another Python only, that of `PEERS` or this one.
    limit : float
        Seconds for its process, all seeds, loading included; 0: what the command line says.
    """

    name: str
    run: Callable[[Any, int], Ran]
    sees: str
    ours: bool = False
    needs: tuple[str, ...] = ()
    package: str = ""
    apart: bool = False
    limit: float = 0.0


@dataclass(frozen=True)
class Side:
    """All that is compared for a protocol.

    Attributes
    ----------
    protocol : str
        Its name.
    task : str
        What all methods do, in a sentence.
    metrics : sequence of Metric
        The first is the one by which methods are ranked in the summary.
    cases : sequence of Case
        Data sets; the last needs no file.
    methods : sequence of Method
        Ours first.
    small : Callable
        ``small()``: data of a fraction of a second, on which a method is run before it is measured.
    notes : str
        How methods were set and tuned, in Markdown; no results.
    """

    protocol: str
    task: str
    metrics: Sequence[Metric]
    cases: Sequence[Case]
    methods: Sequence[Method]
    small: Callable[[], Any]
    notes: str = ""


def data_setting() -> str:
    """The `data` of a run configuration: the directory of data files that lies beside the checkout, if there is one.

    Empty: where CONSILIENCE_DATA says.
    """
    return "" if os.environ.get("CONSILIENCE_DATA") or not SHARED.exists() else str(SHARED)
