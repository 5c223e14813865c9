"""Query points and columns, which the figures of a run share."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int64

from server.figures.drawing import plain
from server.figures.wording import several
from server.report.data import Report
from server.report.formatting import counted

LINES = ("-", "--", ":", "-.")
"""Lines of experts with the same color, which also differ in their markers."""

MOST_POINTS = 2000
"""Query points that are drawn at most; of more, an even sample in their order."""


def sample(n: int) -> Int64[np.ndarray, "m"]:
    """Return the indices of the points that are drawn, of n."""
    return np.linspace(0, n - 1, min(n, MOST_POINTS)).astype(np.int64)


def points_text(report: Report) -> str:
    """Return how many query points there are, and how many of them are drawn, in words."""
    return _points_text(report, "n_queries", "query point")


def measured_text(report: Report) -> str:
    """Return how many measured query points there are, and how many of them are drawn, in words."""
    return _points_text(report, "n_measured", "measured query point")


def _points_text(report: Report, metric: str, thing: str) -> str:
    n = int(report.metrics.get(metric, 0))
    points = counted(n, thing) if n else f"the {thing}s"
    cut = f" ({MOST_POINTS:,} of them are drawn)" if n > MOST_POINTS else ""
    return f"{points}{cut}{' of the first repetition' if several(report) else ''}"


def output_of(report: Report) -> str:
    """Return the name of the output: its column, if the run configuration names it."""
    return plain(report.config.get("target") or "output")
