"""Figures of BC3E: the bound over the rounds, and accuracy against the components."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Shaped

from server.figures.drawing import BLUE, VERMILION, png

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from server.results import Report

_KNOWN_METHODS = {
    "accuracy": "together (BC3E)",
    "accuracy_majority": "majority vote",
    "accuracy_best_component": "best single component",
}


def draw(report: Report, arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> dict[str, bytes]:
    """PNG images by name."""
    drawn = {}
    rounds, bounds = _bound_curve(report)
    if rounds:
        drawn["bound"] = png(lambda axes: _draw_bound(axes, rounds, bounds), height=3.4)
    methods = _accuracies(report)
    if len(methods) > 1:
        drawn["accuracy"] = png(lambda axes: _draw_accuracies(axes, methods), height=1.2 + 0.35 * len(methods))
    return drawn


def alt_text(report: Report, name: str) -> str:
    """What a reader who cannot see the figure needs to know; empty for one that is not ours."""
    rounds, bounds = _bound_curve(report)
    if name == "bound" and rounds:
        return f"Bound over rounds: {bounds[0]:.6g} in round {rounds[0]}, {bounds[-1]:.6g} in round {rounds[-1]}."
    if name == "accuracy" and (methods := _accuracies(report)):
        return "Accuracy by method: " + ", ".join(f"{label} {value:.3f}" for label, value, _ in methods) + "."
    return ""


def _bound_curve(report: Report) -> tuple[list[int], list[float]]:
    """Rounds that tell a bound, and their bounds."""
    rows = [(row["round"], row.get("bound")) for row in report.convergence]
    told = [(number, bound) for number, bound in rows if isinstance(bound, int | float) and math.isfinite(bound)]
    return [number for number, _ in told], [float(bound) for _, bound in told]


def _accuracies(report: Report) -> list[tuple[str, float, float]]:
    """Label, accuracy and standard error (0 where unknown) by method: the run's own first, then its rivals."""
    metrics = report.metrics
    if "accuracy" not in metrics:
        return []
    single = sorted(
        name
        for name in metrics
        if name.startswith("accuracy_")
        and name not in _KNOWN_METHODS
        and not (name.endswith("_se") and name.removesuffix("_se") in metrics)
    )
    names = [name for name in _KNOWN_METHODS if name in metrics] + single
    return [
        (_KNOWN_METHODS.get(name, name.removeprefix("accuracy_")), metrics[name], metrics.get(f"{name}_se", 0.0))
        for name in names
    ]


def _draw_bound(axes: Axes, rounds: list[int], bounds: list[float]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.plot(rounds, bounds, color=BLUE, marker="o", markersize=3, linewidth=1.2)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.set_xlabel("round (count)")
    axes.set_ylabel("bound (nats, all instances)")


def _draw_accuracies(axes: Axes, methods: list[tuple[str, float, float]]) -> None:
    places = np.arange(len(methods))
    for place, (_, value, error) in zip(places, methods, strict=True):
        colour = VERMILION if place else BLUE
        axes.errorbar(value, place, xerr=error or None, fmt="o", color=colour, capsize=3)
        axes.annotate(f"{value:.3f}", (value, place), (0, 6), textcoords="offset points", ha="center", fontsize=8)
    # A dollar sign would start matplotlib's mathematics: a classifier may have any name.
    axes.set_yticks(places, [label.replace("$", r"\$") for label, _, _ in methods])
    axes.set_ylim(len(methods) - 0.5, -0.7)
    axes.margins(x=0.12)
    axes.set_xlabel("accuracy (share of the instances with known class)")
