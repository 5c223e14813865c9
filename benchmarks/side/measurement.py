"""Measurement of one method on one case in this process."""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.util
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.processes import memory
from benchmarks.side import PEERS, Case, Method, NotHereError, Result, Side
from numerics.shared.threads import single_threaded


@dataclass(frozen=True)
class Measurement:
    """Metrics and costs of a method on a case: means over the seeds, except the maximum of `peak`.

    Attributes
    ----------
    metrics : Mapping
        Metrics by name; with two seeds or more also ``NAME_se``, their standard errors.
    seeds : int
        Number of draws.
    seconds, processor : float
        Seconds of wall time, and of the processor if the method ran in this process.
    center, slowest : float
        Seconds of the center, and of the slowest site of every round, summed; NaN: there is no center.
    rounds, to_sites, from_sites : float
        Rounds of messages, and their bytes.
    peak : float
        Peak bytes of the process, above those with the data loaded; NaN if unknown.
    elsewhere : bool
        Whether another process did the work, so that `processor` has no meaning.
    """

    metrics: Mapping[str, float]
    seeds: int
    seconds: float
    processor: float
    center: float
    slowest: float
    rounds: float
    to_sites: float
    from_sites: float
    peak: float
    elsewhere: bool = False

    @property
    def pooled(self) -> bool:
        """Whether all rows were sent to one place: there are bytes but no round."""
        return self.rounds == 0 and self.from_sites > 0


def side_of(protocol: str, quick: bool) -> Side:
    """Return the comparison of a protocol; no other protocol's module is imported."""
    side: Side = importlib.import_module(f"benchmarks.side.{protocol}").side(quick)
    return side


def check_installed(method: Method) -> None:
    """Raise `NotHereError` if a package that the method needs is not installed."""
    python = os.environ.get(PEERS, "") if method.apart else ""
    if python:
        check = f"import {', '.join(method.needs)}"
        missing = subprocess.run([python, "-c", check], capture_output=True, check=False).returncode != 0
    else:
        missing = any(importlib.util.find_spec(name) is None for name in method.needs)
    if missing:
        where = " in an environment of its own (`make peers`)" if method.apart else ""
        raise NotHereError(f"not installed: `pip install {method.package}`{where}")


def measure(side: Side, case: Case, method: Method) -> Measurement:
    """Run a method on every draw of a case."""
    check_installed(method)
    with single_threaded():
        method.run(side.small(), 0)
        return _mean([_run(method, case.load(seed), seed) for seed in range(case.seeds)])


@dataclass(frozen=True)
class _Run:
    result: Result
    metrics: Mapping[str, float]
    seconds: float
    processor: float
    peak: float


def _run(method: Method, data: Any, seed: int) -> _Run:
    held = settle_memory()
    before = time.perf_counter(), time.process_time()
    result = method.run(data, seed)
    seconds, processor = time.perf_counter() - before[0], time.process_time() - before[1]
    peak = memory_above(held)
    return _Run(
        result,
        result.score(),
        result.seconds if math.isfinite(result.seconds) else seconds,
        processor,
        result.peak if math.isfinite(result.peak) else peak,
    )


def settle_memory() -> float:
    """Free unused memory, reset the peak, and return the bytes that the process holds; NaN if unknown."""
    gc.collect()
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "malloc_trim"):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return math.nan
    return float(memory("VmRSS"))


def memory_above(held: float) -> float:
    """Return the peak of memory since a call of `settle_memory`, above its result `held`."""
    return max(0.0, memory("VmHWM") - held) if math.isfinite(held) else math.nan


def _mean(runs: Sequence[_Run]) -> Measurement:
    metrics: dict[str, float] = {}
    for name in runs[0].metrics:
        values = [each.metrics[name] for each in runs]
        metrics[name] = statistics.fmean(values)
        if len(values) > 1:
            metrics[f"{name}_se"] = statistics.stdev(values) / math.sqrt(len(values))
    mean = statistics.fmean
    return Measurement(
        metrics=metrics,
        seeds=len(runs),
        seconds=mean(each.seconds for each in runs),
        processor=mean(each.processor for each in runs),
        center=mean(each.result.center for each in runs),
        slowest=mean(each.result.slowest for each in runs),
        rounds=mean(each.result.rounds for each in runs),
        to_sites=mean(each.result.to_sites for each in runs),
        from_sites=mean(each.result.from_sites for each in runs),
        peak=max(each.peak for each in runs),
        elsewhere=any(math.isfinite(each.result.peak) for each in runs),
    )
