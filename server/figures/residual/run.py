"""Figures of one run: errors, and the power of the agents' parts, over the iterations."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Shaped

from server.figures.drawing import BLUE, GREEN, ORANGE, VERMILION, explain, plain, png, scale
from server.figures.residual.common import (
    ERROR,
    GREY,
    KINDS,
    NAMED,
    POWER,
    SUMS,
    Arrays,
    curves_by_kind,
    errors_over_iterations,
    over_iterations,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from server.results import Report


def draw_run(report: Report, arrays: Arrays) -> dict[str, bytes]:
    """PNG images by name."""
    drawn = {}
    if curves := curves_by_kind(arrays):
        chosen = _chosen(report, arrays)
        drawn["curves"] = png(partial(_draw_curves, curves=curves, chosen=chosen), height=3.6)
    power = arrays.get("power", np.empty((0, 0)))
    if power.ndim == 2 and len(power) > 1 and power.shape[1]:
        names = arrays.get("agents", np.arange(power.shape[1]))
        drawn["power"] = png(partial(_draw_power, power=power, names=names), height=4.0)
    told = {name: arrays.get(f"curve_{name}", np.zeros(0)) for name in SUMS}
    if sums := {name: values for name, values in told.items() if values.size > 1}:
        drawn["relevance"] = png(partial(_draw_sums, sums=sums), height=3.4)
    return drawn


def run_told(report: Report, name: str) -> str:
    """Alternative text of a figure of a run; empty for one that is not ours."""
    several = int(report.config.get("repetitions", 1)) > 1  # what is drawn is the first's, the metrics are their means
    where = " in the first repetition" if several else ""
    metrics = report.metrics
    if name == "curves":
        ends = [f"{metrics[f'{kind}_mse']:.3g} on {KINDS[kind][0]}" for kind in KINDS if f"{kind}_mse" in metrics]
        reached = "; reached, on average over the repetitions: " if several else "; reached: "
        told = f"{reached}{', '.join(ends)}" if ends else ""
        return f"Mean squared error over the iterations{where}; a dashed line marks the chosen one{told}."
    return {
        "power": f"Power of each agent's part of the prediction over the iterations{where}: the {NAMED} largest at the"
        " end by name, any others in grey.",
        "relevance": f"Power of the prediction over the iterations{where}: the sum over the agents with a relevant"
        " attribute, and over those without one.",
    }.get(name, "")


def _chosen(report: Report, arrays: Arrays) -> int:
    """The chosen iterate of the curves that are drawn, which are the first repetition's (of the first cell)."""
    for name in ("cells_iterations", "repetitions_iterations"):
        if name in arrays:
            return int(arrays[name].flat[0])
    return int(report.metrics.get("iterations", 0))


def _draw_curves(axes: Axes, curves: Mapping[str, Float64[np.ndarray, "iterations"]], chosen: int) -> None:
    handles: dict[str, Any] = dict(errors_over_iterations(axes, curves))
    longest = max(map(len, curves.values()))
    if 0 <= chosen < longest:
        handles[f"chosen: {chosen}"] = axes.axvline(chosen, color=VERMILION, linestyle="--", linewidth=1.2, zorder=1)
    scale(axes, "y", [float(value) for curve in curves.values() for value in curve[np.isfinite(curve)]])
    axes.set_ylabel(ERROR.replace(" (", "\n("))
    explain(axes, list(handles.values()), list(handles))


def _draw_power(axes: Axes, power: Float64[np.ndarray, "iterations D"], names: Shaped[np.ndarray, "D"]) -> None:
    order = np.argsort(-power[-1], kind="stable")
    colours = (BLUE, VERMILION, GREEN, ORANGE)
    handles: dict[str, Line2D] = {}
    for place, agent in enumerate(order[:NAMED]):
        handles[plain(names[agent], 16)] = over_iterations(
            axes, power[:, agent], color=colours[place % 4], linestyle=("-", "--")[place // 4], linewidth=1.3
        )
    for agent in order[NAMED:]:
        others = over_iterations(axes, power[:, agent], color=GREY, linewidth=0.9, zorder=1, marker="")
        handles[f"{len(order) - NAMED} more"] = others
    axes.set_ylim(bottom=0)
    axes.set_ylabel("power of an agent's part\n(squared unit of the outcome)")
    explain(axes, list(handles.values()), list(handles), abreast=min(5, len(handles)))


def _draw_sums(axes: Axes, sums: Mapping[str, Float64[np.ndarray, "iterations"]]) -> None:
    handles = [over_iterations(axes, values, color=SUMS[name][1], linewidth=1.3) for name, values in sums.items()]
    axes.set_ylim(bottom=0)
    axes.set_ylabel(POWER.replace(" (", "\n("))
    explain(axes, handles, [SUMS[name][0] for name in sums])
