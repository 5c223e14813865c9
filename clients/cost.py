"""Estimates of a run's cost for a site: the time and memory of its heaviest answers, scaled up from some rows."""

from __future__ import annotations

import math
import sys
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from numerics.shared.threads import single_threaded

_SECONDS = 1.2
"""Seconds that all measurements of a check may take."""
_TRACED = 1 / 8
"""Share of these seconds that an answer may take without tracing, if its memory is to be traced: tracing is slow."""
_MEGABYTE = 1e6
_FEW = 5.0
"""Seconds below which an estimate has no number, because the start of a process may take longer."""
_TIMEOUT = 600.0
"""Seconds that a round waits by default."""
_ROUGH = 100
"""An estimate for more than this many times the measured rows may be off by more than a factor of 3."""


@dataclass(frozen=True)
class Work:
    """One part of an answer.

    Attributes
    ----------
    run : Callable
        ``run(m)`` does the work on m rows of the site, or of one of its parts.
    growth : (float, float)
        Smallest and largest exponent of the time's growth with the rows; equal: the time is linear with a constant.
    split : Callable
        ``split(n)`` returns, for a site of n rows, the rows of one execution and the number of executions.
    memory : float
        Exponent of the memory's growth with the rows.
    block : int
        Rows in memory at a time; 0: all.
    first : int
        Rows of the first measurement.

    Examples
    --------
    >>> work = Work(lambda m: sum(range(m)), growth=(1.0, 1.0))
    >>> work.split(800)
    (800, 1.0)
    """

    run: Callable[[int], object]
    growth: tuple[float, float]
    split: Callable[[int], tuple[int, float]] = lambda n: (n, 1.0)
    memory: float = 1.0
    block: int = 0
    first: int = 250


@dataclass(frozen=True)
class Law:
    """The cost of some work as a power of its rows.

    Attributes
    ----------
    work : Work
        The work.
    rows : int
        Largest number of rows measured.
    seconds, growth : float
        Time of these rows, and its exponent; if the time is linear, the share of it that grows.
    bytes : float
        Memory of these rows, beyond the data.
    """

    work: Work
    rows: int
    seconds: float
    growth: float
    bytes: float

    def seconds_of(self, n: int) -> float:
        """Return the seconds for a site of n rows.

        Examples
        --------
        >>> work = Work(lambda m: None, (1.0, 3.0))
        >>> Law(work, rows=100, seconds=0.5, growth=2.0, bytes=0.0).seconds_of(200)
        2.0
        """
        rows, times = self.work.split(n)
        if self.work.growth[0] == self.work.growth[1]:
            return float(times * self.seconds * (1 + self.growth * (rows / self.rows - 1)))
        return float(times * self.seconds * (rows / self.rows) ** self.growth)

    def bytes_of(self, n: int) -> float:
        """Return the bytes for a site of n rows."""
        rows = self.work.split(n)[0]
        held = min(rows, max(self.work.block, self.rows)) if self.work.block else rows
        return float(self.bytes * (held / self.rows) ** self.work.memory)

    def is_rough(self, n: int) -> bool:
        """Return whether n rows are far more than those measured."""
        return self.work.split(n)[0] > _ROUGH * self.rows


def cost_lines(answers: Mapping[str, Sequence[Work]], n: int, config: Mapping[str, object]) -> list[str]:
    """Return lines of ``consilience check`` about the time and memory of a site's answers.

    Parameters
    ----------
    answers : Mapping[str, sequence of Work]
        By the name of an ask, the parts of its answer.
    n : int
        Rows of the site.
    config : Mapping
        Run or node configuration, of which ``round-timeout`` is used.
    """
    title = "What a run would cost this site, measured on some of its rows, in one thread"
    budget = _SECONDS / sum(map(len, answers.values()))
    try:
        with single_threaded():
            laws = {name: [_measure(work, n, budget) for work in works] for name, works in answers.items()}
    except Exception as error:  # a library that is missing, or a method that does not fit these rows
        return [title, f"  not known: {error}"]
    return [title, *_estimates(laws, n, float(str(config.get("round-timeout", _TIMEOUT))))]


def _estimates(laws: Mapping[str, Sequence[Law]], n: int, timeout: float) -> list[str]:
    """Return lines about the longest answer, and a remedy if a round does not wait for it."""

    def longest(rows: int) -> tuple[float, str]:
        return max((sum(law.seconds_of(rows) for law in each), name) for name, each in laws.items())

    seconds, name = longest(n)
    megabytes = (_process_bytes() + max(law.bytes_of(n) for each in laws.values() for law in each)) / _MEGABYTE
    lines = [
        f"  time: {_duration(seconds)} for its longest answer, to {name}; a round waits {timeout:g} s",
        f"  memory: about {max(megabytes, 1):.0f} MB",
    ]
    if rough := [law.rows for law in laws[name] if law.is_rough(n)]:
        lines.append(f"  Only {min(rough)} rows were measured: the time may be off by more than a factor of 3")
    if seconds > timeout / 2:
        fit = _most_rows(lambda rows: longest(rows)[0], n, timeout / 2)
        much = "MORE THAN" if seconds > timeout else "NEARLY WHAT"
        lines += [
            f"  THIS IS {much} A ROUND WAITS. With {fit} rows it would be half of that:",
            "    give the site a file of that many rows, drawn at random, or set a longer round-timeout",
        ]
    return lines


def _measure(work: Work, n: int, budget: float) -> Law:
    """Double the measured rows until all are measured, or until the next measurement would exceed the budget."""
    whole = work.split(n)[0]
    rows = min(work.first, whole)
    work.run(rows)  # imports, and compiles
    times: dict[int, float] = {}
    start = time.perf_counter()
    while True:
        times[rows] = _seconds(work, rows)
        spent = time.perf_counter() - start
        following = min(2 * rows, whole)
        if rows == whole or spent + times[rows] * (following / rows) ** work.growth[1] > budget:
            break
        rows = following
    return Law(work, rows, times[rows], _growth(times, work.growth), _peak(work, times, _TRACED * budget))


def _seconds(work: Work, rows: int) -> float:
    """Return the processor's seconds, which leave out other processes."""
    start = time.process_time()
    work.run(rows)
    return time.process_time() - start


def _growth(times: Mapping[int, float], limits: tuple[float, float]) -> float:
    """Estimate the exponent from the last three measurements; return the largest one if there is only one."""
    measured = sorted(times)[-3:]
    low, high = limits
    if len(measured) < 2 or not min(times[rows] for rows in measured):
        return high
    first, last = measured[0], measured[-1]
    if low == high:
        return float(min(max((1 - times[first] / times[last]) / (1 - first / last), 0.0), 1.0))
    power: float = math.log(times[last] / times[first]) / math.log(last / first)
    return min(max(power, low), high)


def _peak(work: Work, times: Mapping[int, float], limit: float) -> float:
    """Estimate the peak memory in bytes of the most rows from the most that took `limit` seconds or less.

    Few rows would not do: a buffer of a constant size would count as if it grew with the rows.
    """
    rows, traced = max(times), max((m for m, seconds in times.items() if seconds <= limit), default=min(times))
    tracemalloc.start()
    work.run(traced)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(peak * (rows / traced) ** work.memory)


def _process_bytes() -> float:
    """Return the peak memory of this process, which has read the data as a site does; 0 if the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * (1 if sys.platform == "darwin" else 1024)


def _most_rows(seconds: Callable[[int], float], n: int, limit: float) -> int:
    """Return the most rows below n that take `limit` seconds at most, rounded down to two digits."""
    low, high = 1, n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if seconds(middle) <= limit else (low, middle)
    unit: int = 10 ** max(len(str(low)) - 2, 0)
    return low // unit * unit


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    if minutes >= 600:
        return f"about {minutes / 60:.0f} h"
    if minutes >= 10:
        return f"about {minutes:.0f} min"
    return f"about {seconds:.0f} s" if seconds >= _FEW else "a few seconds"
