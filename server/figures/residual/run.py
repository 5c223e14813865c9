"""Figures of one run: errors over the iterations, the relevant and irrelevant agents' power, what each agent adds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

from server.figures.drawing import VERMILION, explain, png, scale
from server.figures.residual.agents import agents_caption, agents_told, draw_agents
from server.figures.residual.common import (
    ERROR,
    KINDS,
    POWER,
    SUMS,
    chosen,
    curves_by_kind,
    errors_over_iterations,
    over_iterations,
    where,
)
from server.figures.wording import Arrays, finite, measured, sentences, several

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from server.results import Report


def draw_run(report: Report, arrays: Arrays) -> dict[str, bytes]:
    """PNG images by name."""
    drawn = {}
    if curves := curves_by_kind(arrays):
        drawn["curves"] = png(partial(_draw_curves, curves=curves, at=chosen(report, arrays)), height=3.8)
    drawn |= draw_agents(report, arrays)
    told = {name: arrays.get(f"curve_{name}", np.zeros(0)) for name in SUMS}
    if sums := {name: values for name, values in told.items() if values.size > 1}:
        drawn["relevance"] = png(partial(_draw_sums, sums=sums), height=3.6)
    return drawn


def run_caption(report: Report, name: str) -> str:
    """What a figure of a run draws; empty for one that is not ours."""
    if name == "curves":
        kinds = measured(report, n_aligned="common row", n_test="test row", n_agents="agent")
        return sentences(
            f"Mean squared error (squared unit of the outcome) over the iterations{where(report)}: {kinds}",
            "A dashed line marks the iteration that was chosen",
        )
    if name == "relevance":
        return sentences(
            f"Power of the prediction (mean square about its mean, squared unit of the outcome) over the"
            f" iterations{where(report)}: {measured(report, n_agents='agent')}",
            "One line is the sum over the agents with a relevant attribute, the other over those without one: noise"
            " that was learnt",
        )
    return agents_caption(report, name)


def run_told(report: Report, name: str, arrays: Arrays) -> str:
    """Alternative text of a figure of a run; empty for one that is not ours."""
    metrics = report.metrics
    mean = ", on average over the repetitions," if several(report) else ""
    if name == "curves":
        ends = [f"{metrics[f'{kind}_mse']:.3g} on {KINDS[kind][0]}" for kind in KINDS if f"{kind}_mse" in metrics]
        last = (
            f"iteration {metrics['iterations']:.0f}" if "iterations" in metrics and not mean else "the chosen iteration"
        )
        reached = f"{last} is used, and has{mean} {', '.join(ends)}" if ends else ""
        falls = [
            f"{KINDS[kind][0]} {curve[0]:.3g} to {np.nanmin(curve):.3g} (iteration {int(np.nanargmin(curve))})"
            for kind, curve in curves_by_kind(arrays).items()
        ]
        fall = f": from the start to the least, {', '.join(falls)}" if falls else ""
        return sentences(f"Mean squared error over the iterations{where(report)}{fall}", reached)
    if name == "relevance":
        sums = {each: float(arrays[f"curve_{each}"][-1]) for each in SUMS if len(arrays.get(f"curve_{each}", ()))}
        sums = sums or {each: finite(metrics[each]) for each in SUMS if each in metrics and not several(report)}
        told = [f"{power:.3g} for {SUMS[each][0]}" for each, power in sums.items()]
        at = f"Power{where(report)} at the last iteration"
        return sentences(f"{at}: {', '.join(told)}" if told else f"Power of {_SIDES}")
    return agents_told(report, name, arrays)


_SIDES = "agents with a relevant attribute and of those without one, over the iterations"


def _draw_curves(axes: Axes, curves: Mapping[str, Float64[np.ndarray, "iterations"]], at: int) -> None:
    handles: dict[str, Any] = dict(errors_over_iterations(axes, curves))
    longest = max(map(len, curves.values()))
    if 0 <= at < longest:
        handles[f"chosen: {at}"] = axes.axvline(at, color=VERMILION, linestyle="--", linewidth=1.2, zorder=1)
    scale(axes, "y", [float(value) for curve in curves.values() for value in curve[np.isfinite(curve)]])
    axes.set_ylabel(ERROR.replace(" (", "\n("))
    explain(axes, list(handles.values()), list(handles), abreast=4)


def _draw_sums(axes: Axes, sums: Mapping[str, Float64[np.ndarray, "iterations"]]) -> None:
    handles = [
        over_iterations(axes, values, color=SUMS[name][1], linestyle=line, linewidth=1.4)
        for (name, values), line in zip(sums.items(), ("-", "--"), strict=False)
    ]
    axes.set_ylim(bottom=0)
    axes.set_ylabel(POWER.replace(" (", "\n("))
    explain(axes, handles, [SUMS[name][0] for name in sums], abreast=2)
