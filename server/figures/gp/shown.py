"""What the figures of a run have in common: which of many points are drawn, and how columns are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int64, Shaped

from server.figures.drawing import BLUE, GREEN, ORANGE, VERMILION, plain

if TYPE_CHECKING:
    from server.results import Report

Arrays = Mapping[str, Shaped[np.ndarray, "..."]]

PALETTE = (BLUE, VERMILION, GREEN, ORANGE, "#CC79A7", "#56B4E9", "#666666")
"""Of Okabe and Ito's palette."""
SHAPES = (("o", "-"), ("^", "--"), ("s", ":"), ("D", "-."))
"""Markers and lines by which experts of the same colour are told apart."""

MOST_POINTS = 2000
"""Query points that are drawn; of more, so many that lie evenly in their order."""


def sample(n: int) -> Int64[np.ndarray, "m"]:
    """Which of n points are drawn."""
    return np.linspace(0, n - 1, min(n, MOST_POINTS)).astype(np.int64)


def several(report: Report) -> bool:
    """Whether what is drawn is the first repetition's, and the metrics are means over them."""
    return int(report.config.get("repetitions", 1)) > 1


def points_told(report: Report) -> str:
    """How many query points there are, and how many of them are drawn."""
    n = int(report.metrics.get("n_queries", 0))
    counted = f"{n:,} query point{'' if n == 1 else 's'}" if n else "the query points"
    drawn = f", of which {MOST_POINTS:,} are drawn," if n > MOST_POINTS else ""
    return f"{counted}{drawn}{' of the first repetition' if several(report) else ''}"


def output_of(report: Report) -> str:
    """What the output is called: by its column where the run configuration names it."""
    return plain(report.config.get("target") or "output")
