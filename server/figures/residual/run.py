"""Figures of one run: errors over the iterations, the agents, and the power of relevant and irrelevant ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

from server.figures.classification import classification_figures
from server.figures.drawing import VERMILION, explain, png, scale
from server.figures.figure import Figure
from server.figures.residual.agents import agents_figures
from server.figures.residual.common import (
    KINDS,
    POWER,
    SUMS,
    chosen,
    curves_by_kind,
    errors_over_iterations,
    has_classes,
    over_iterations,
    unit,
    where,
)
from server.figures.wording import measured, sentences, several
from server.report.data import Arrays, Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def run_figures(report: Report, arrays: Arrays) -> list[Figure]:
    """Draw errors, agents and power of a run, as far as it has them."""
    figures = []
    if curves := curves_by_kind(arrays):
        figures.append(_curves(report, arrays, curves))
    figures += agents_figures(report, arrays)
    powers = {name: arrays.get(f"curve_{name}", np.zeros(0)) for name in SUMS}
    if sums := {name: values for name, values in powers.items() if values.size > 1}:
        figures.append(_relevance(report, sums))
    return [*figures, *classification_figures(arrays, "for tests", "all sites together")]


def _curves(report: Report, arrays: Arrays, curves: Mapping[str, Float64[np.ndarray, "iterations"]]) -> Figure:
    metrics, at = report.metrics, chosen(report, arrays)
    sizes = measured(report, n_aligned="common row", n_test="test row", n_agents="agent")
    classes = has_classes(report)
    error, unit_of_error, name = (
        ("Log loss", "no unit", "log_loss") if classes else ("Mean squared error", unit(report), "mse")
    )
    caption = sentences(
        f"{error} ({unit_of_error}) over the iterations{where(report)}: {sizes}",
        "A dashed line marks the chosen iteration",
    )
    mean = ", on average over the repetitions," if several(report) else ""
    name = "log_loss" if classes else "mse"
    names = {kind: "log_loss" if classes and kind == "test" else f"{kind}_{name}" for kind in KINDS}
    ends = [f"{metrics[names[kind]]:.3g} on {KINDS[kind][0]}" for kind in KINDS if names[kind] in metrics]
    last = f"iteration {metrics['iterations']:.0f}" if "iterations" in metrics and not mean else "the chosen iteration"
    falls = [
        f"{KINDS[kind][0]} {curve[0]:.3g} to {np.nanmin(curve):.3g} (iteration {int(np.nanargmin(curve))})"
        for kind, curve in curves.items()
    ]
    alt = sentences(
        f"{error} over the iterations{where(report)}: from the start to the least, {', '.join(falls)}",
        f"{last} is used, and has{mean} {', '.join(ends)}" if ends else "",
    )
    draw = partial(_draw_curves, curves=curves, at=at, label=f"{error.lower()} ({unit_of_error})")
    return Figure("curves", png(draw, height=3.8), caption, alt)


def _relevance(report: Report, sums: Mapping[str, Float64[np.ndarray, "iterations"]]) -> Figure:
    caption = sentences(
        f"Power of the prediction (mean square about its mean, squared unit of the outcome) over the"
        f" iterations{where(report)}: {measured(report, n_agents='agent')}",
        "One line is the sum over the agents with a relevant attribute, the other over those without one, which have"
        " learned noise",
    )
    powers = [f"{values[-1]:.3g} for {SUMS[name][0]}" for name, values in sums.items()]
    alt = sentences(f"Power{where(report)} at the last iteration: {', '.join(powers)}")
    return Figure("relevance", png(partial(_draw_sums, sums=sums), height=3.6), caption, alt)


def _draw_curves(axes: Axes, curves: Mapping[str, Float64[np.ndarray, "iterations"]], at: int, label: str) -> None:
    handles: dict[str, Any] = dict(errors_over_iterations(axes, curves))
    longest = max(map(len, curves.values()))
    if 0 <= at < longest:
        handles[f"chosen: {at}"] = axes.axvline(at, color=VERMILION, linestyle="--", linewidth=1.2, zorder=1)
    scale(axes, "y", [float(value) for curve in curves.values() for value in curve[np.isfinite(curve)]])
    axes.set_ylabel(label.replace(" (", "\n("))
    explain(axes, list(handles.values()), list(handles), abreast=4)


def _draw_sums(axes: Axes, sums: Mapping[str, Float64[np.ndarray, "iterations"]]) -> None:
    handles = [
        over_iterations(axes, values, color=SUMS[name][1], linestyle=line, linewidth=1.4)
        for (name, values), line in zip(sums.items(), ("-", "--"), strict=False)
    ]
    axes.set_ylim(bottom=0)
    axes.set_ylabel(POWER.replace(" (", "\n("))
    explain(axes, handles, [SUMS[name][0] for name in sums], abreast=2)
