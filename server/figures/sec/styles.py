"""Styles of clusters, and of ways to predict, in the figures of SEC."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from server.figures.drawing import BLUE, GREEN, ORANGE, PALETTE, SHAPES, VERMILION
from server.figures.wording import several
from server.report.data import Arrays, Report
from server.report.formatting import counted

_SIZES = 8
"""Clusters whose sizes an alternative text names."""
ERROR = "mean squared error (squared unit of the outcome)"


@dataclass(frozen=True)
class Style:
    """Style of a curve, or of the dots in its place."""

    label: str
    color: str
    marker: str
    size: float = 3.5
    line: str = "-"
    fill: str = "full"
    above: int = 3


# The oracle's errors often equal those of the clusters: a large open marker below a small full one shows both.
COMPARED = {
    "alone": Style("alone", ORANGE, "s"),
    "cluster": Style("with its cluster", BLUE, "o"),
    "all": Style("with all", VERMILION, "^"),
    "recommendation": Style("as recommended", PALETTE[4], "X"),
    "oracle": Style("oracle", GREEN, "D", 7.0, "--", "none", 2),
}


def cluster_style(cluster: int) -> tuple[str, str]:
    """Return color and marker: 49 clusters differ in at least one of them."""
    return PALETTE[cluster % len(PALETTE)], SHAPES[(cluster + cluster // len(PALETTE)) % len(SHAPES)]


def n_clusters(arrays: Arrays) -> int:
    """Return the number of clusters that are drawn."""
    return int(arrays["labels"].max()) + 1


def cluster_sizes(arrays: Arrays) -> str:
    """Return how many learners are in each cluster, in words."""
    labels, sizes = np.unique(arrays["labels"], return_counts=True)
    words = [
        f"{counted(n, 'learner')} in cluster {label}" for label, n in zip(labels, sizes, strict=True) if label >= 0
    ]
    more = [f"and {counted(len(words) - _SIZES, 'cluster')} more"] if len(words) > _SIZES else []
    none = [f"{counted(n, 'learner')} in none" for label, n in zip(labels, sizes, strict=True) if label < 0]
    return ", ".join([*words[:_SIZES], *more, *none])


def which(report: Report) -> str:
    """Return which of several repetitions is drawn, in words."""
    return " of the first repetition" if several(report) else ""
