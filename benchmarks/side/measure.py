"""One method on one case, measured in this process: what ``python -m benchmarks.side`` does."""

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
from benchmarks.side import PEERS, Case, Method, NotHereError, Ran, Side
from numerics.shared.threads import single_threaded


@dataclass(frozen=True)
class Found:
    """What a method took and reached on a case; means over the seeds, of `peak` the largest.

    Attributes
    ----------
    metrics : Mapping
        By name; with two seeds or more also ``NAME_se``, standard errors.
    seeds : int
        Draws.
    seconds, processor : float
        By the clock, and of the processor, where the method ran in this process.
    center, slowest : float
        Of `seconds` the center's, and those of the slowest site of each round; NaN: there is no center.
    rounds, to_sites, from_sites : float
        Of messages, and their bytes.
    peak : float
        Bytes that the process held at most, above what it held with the data loaded; NaN where the system does not say.
    elsewhere : bool
        Whether another process did the work, of whose processor nothing is known.
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
        """Whether all rows were moved to one place: bytes without a round."""
        return self.rounds == 0 and self.from_sites > 0


def side_of(protocol: str, quick: bool) -> Side:
    """What is compared for a protocol; only its own module is imported."""
    side: Side = importlib.import_module(f"benchmarks.side.{protocol}").side(quick)
    return side


def check_installed(method: Method) -> None:
    """Raise `NotHereError` where a package that the method needs is not installed."""
    python = os.environ.get(PEERS, "") if method.apart else ""
    if python:
        check = f"import {', '.join(method.needs)}"
        missing = subprocess.run([python, "-c", check], capture_output=True, check=False).returncode != 0
    else:
        missing = any(importlib.util.find_spec(name) is None for name in method.needs)
    if missing:
        where = " in an environment of its own (`make peers`)" if method.apart else ""
        raise NotHereError(f"not installed: `pip install {method.package}`{where}")


def measured(side: Side, case: Case, method: Method) -> Found:
    """Run a method on every draw of a case."""
    check_installed(method)
    with single_threaded():
        method.run(side.small(), 0)
        return _summed_up([_once(method, case.load(seed), seed) for seed in range(case.seeds)])


@dataclass(frozen=True)
class _Once:
    ran: Ran
    metrics: Mapping[str, float]
    seconds: float
    processor: float
    peak: float


def _once(method: Method, data: Any, seed: int) -> _Once:
    held = settle_memory()
    before = time.perf_counter(), time.process_time()
    ran = method.run(data, seed)
    seconds, processor = time.perf_counter() - before[0], time.process_time() - before[1]
    peak = memory_above(held)
    return _Once(
        ran,
        ran.score(),
        ran.seconds if math.isfinite(ran.seconds) else seconds,
        processor,
        ran.peak if math.isfinite(ran.peak) else peak,
    )


def settle_memory() -> float:
    """Give back what is not in use, start to watch for the peak, and return the bytes held; NaN: no one can say."""
    gc.collect()
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "malloc_trim"):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return math.nan
    return float(memory("VmRSS"))


def memory_above(held: float) -> float:
    """Bytes that the process has held at most since `settle_memory` said `held`, above these."""
    return max(0.0, memory("VmHWM") - held) if math.isfinite(held) else math.nan


def _summed_up(every: Sequence[_Once]) -> Found:
    metrics: dict[str, float] = {}
    for name in every[0].metrics:
        values = [each.metrics[name] for each in every]
        metrics[name] = statistics.fmean(values)
        if len(values) > 1:
            metrics[f"{name}_se"] = statistics.stdev(values) / math.sqrt(len(values))
    mean = statistics.fmean
    return Found(
        metrics=metrics,
        seeds=len(every),
        seconds=mean(each.seconds for each in every),
        processor=mean(each.processor for each in every),
        center=mean(each.ran.center for each in every),
        slowest=mean(each.ran.slowest for each in every),
        rounds=mean(each.ran.rounds for each in every),
        to_sites=mean(each.ran.to_sites for each in every),
        from_sites=mean(each.ran.from_sites for each in every),
        peak=max(each.peak for each in every),
        elsewhere=any(math.isfinite(each.ran.peak) for each in every),
    )
