"""Names, colors and curves that the figures of a run and of a table share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

from server.figures.drawing import BLUE, GREEN, ORANGE, VERMILION, whole
from server.figures.wording import several
from server.report.data import Arrays, Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

KINDS = {
    "train": ("training rows", ORANGE, "--"),
    "validation": ("validation rows", GREEN, ":"),
    "test": ("test rows", BLUE, "-"),
}
"""Label, color and line of the curve of each kind of row."""

SUMS = {
    "power_relevant": ("agents with a relevant attribute", BLUE, "o"),
    "power_irrelevant": ("agents without one", VERMILION, "s"),
}
REFERENCES = {
    "mse_centralized": ("boosting the pooled columns", VERMILION, "--"),
    "mse_pooled": ("gradient boosting (histograms) of the pooled columns", GREEN, ":"),
}
MEASURED = {"test_mse", "test_mse_best", "test_mse_last", "train_mse", "iterations", "contraction", *SUMS}
ERROR = "mean squared error (squared unit of the outcome)"
POWER = "power (squared unit of the outcome)"
MOST_POINTS = 40
"""Iterations up to which each has a mark."""
PANELS, MOST_IN_WORDS = 8, 12
"""Rows of a table whose curves are drawn, and rows that an alternative text names."""


def where(report: Report) -> str:
    """Return which of several repetitions is drawn, in words."""
    return " in the first repetition" if several(report) else ""


def has_classes(report: Report) -> bool:
    """Return whether the outcome is a class: errors are then log losses, and powers those of scores."""
    return "n_classes" in report.metrics


def unit(report: Report) -> str:
    """Return the unit of a power."""
    return "squared score" if has_classes(report) else "squared unit of the outcome"


def chosen(report: Report, arrays: Arrays) -> int:
    """Return the chosen iteration of the first repetition (of the first cell), which is drawn."""
    for name in ("cells_iterations", "repetitions_iterations"):
        if name in arrays:
            return int(arrays[name].flat[0])
    return int(report.metrics.get("iterations", 0))


def curves_by_kind(arrays: Arrays) -> dict[str, Float64[np.ndarray, "iterations"]]:
    """Return the errors after each iteration by kind of row, if there is more than one iteration."""
    curves = {kind: np.asarray(arrays.get(f"curve_{kind}", ()), float) for kind in KINDS}
    return {kind: curve for kind, curve in curves.items() if np.isfinite(curve).sum() > 1}


def errors_over_iterations(axes: Axes, curves: Mapping[str, Float64[np.ndarray, "iterations"]]) -> dict[str, Line2D]:
    """Draw the curves of one run; return their entries in the legend."""
    handles = {}
    for kind, curve in curves.items():
        label, color, line = KINDS[kind]
        handles[label] = over_iterations(axes, curve, color=color, linestyle=line, linewidth=1.3)
    return handles


def over_iterations(axes: Axes, values: Float64[np.ndarray, "iterations"], **style: Any) -> Line2D:
    """Draw a line, with a mark at each iteration if there are few."""
    if len(values) <= MOST_POINTS:
        style = {"marker": "o", "markersize": 3, **style}
    whole(axes)
    axes.set_xlabel("iteration (count)")
    return axes.plot(np.arange(len(values)), values, **style)[0]
