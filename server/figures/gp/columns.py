"""What the figures of a run have in common: which of many points are drawn, and how columns are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int64

from server.figures.drawing import plain
from server.figures.wording import several
from server.report.formatting import counted

if TYPE_CHECKING:
    from server.results import Report

LINES = ("-", "--", ":", "-.")
"""By which experts of the same colour are told apart, beside their markers."""

MOST_POINTS = 2000
"""Query points that are drawn; of more, so many that lie evenly in their order."""


def sample(n: int) -> Int64[np.ndarray, "m"]:
    """Which of n points are drawn."""
    return np.linspace(0, n - 1, min(n, MOST_POINTS)).astype(np.int64)


def points_told(report: Report) -> str:
    """How many query points there are, and how many of them are drawn."""
    n = int(report.metrics.get("n_queries", 0))
    points = counted(n, "query point") if n else "the query points"
    drawn = f", of which {MOST_POINTS:,} are drawn," if n > MOST_POINTS else ""
    return f"{points}{drawn}{' of the first repetition' if several(report) else ''}"


def output_of(report: Report) -> str:
    """What the output is called: by its column where the run configuration names it."""
    return plain(report.config.get("target") or "output")
