"""How the figures of SEC tell clusters, and ways to predict, from each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from server.figures.drawing import BLUE, GREEN, ORANGE, PALETTE, SHAPES, VERMILION
from server.figures.wording import Arrays, several

if TYPE_CHECKING:
    from server.results import Report

ERROR = "mean squared error (squared unit of the outcome)"


@dataclass(frozen=True)
class Style:
    """How a curve is told from the others: by colour, and by its marker where there is none."""

    label: str
    colour: str
    marker: str
    size: float = 3.5
    line: str = "-"
    fill: str = "full"
    above: int = 3


# The oracle's errors are often those of the clusters: a large open marker below a small full one shows both.
COMPARED = {
    "alone": Style("alone", ORANGE, "s"),
    "cluster": Style("with its cluster", BLUE, "o"),
    "all": Style("with all", VERMILION, "^"),
    "oracle": Style("oracle", GREEN, "D", 7.0, "--", "none", 2),
}


def cluster_style(cluster: int) -> tuple[str, str]:
    """Colour and marker: 49 clusters differ in one of them at least."""
    return PALETTE[cluster % len(PALETTE)], SHAPES[(cluster + cluster // len(PALETTE)) % len(SHAPES)]


def n_clusters(arrays: Arrays) -> int:
    """Of the clustering that is drawn."""
    return int(arrays["labels"].max()) + 1


def which(report: Report) -> str:
    """Which of several repetitions is drawn, in words."""
    return " of the first repetition" if several(report) else ""
