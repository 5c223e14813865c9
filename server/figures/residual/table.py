"""Figures of a table of several settings: as bars, as curves over a number, or panel by panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Shaped

from server.figures.drawing import (
    BLUE,
    INK,
    ORANGE,
    PALETTE,
    explain,
    leftmost,
    plain,
    png,
    png_panels,
    scale,
)
from server.figures.figure import Figure
from server.figures.residual.common import (
    ERROR,
    KINDS,
    PANELS,
    POWER,
    REFERENCES,
    SUMS,
    curves_by_kind,
    errors_over_iterations,
    over_iterations,
)
from server.figures.residual.descriptions import alt_text, caption
from server.figures.residual.rows import error_of, label_number, measures, name_of, over_label
from server.report.data import Arrays, Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


def table_figures(report: Report, arrays: Arrays) -> list[Figure]:
    """Draw the rows of the table, as far as they have numbers to compare."""
    images = {}
    over = over_label(report)
    errors = measures(report, arrays, error_of(report))
    if over is None and np.isfinite(errors[0]).any():
        height = 1.4 + 0.3 * len(report.table)
        images["errors"] = png(partial(_draw_bars, report=report, arrays=arrays), height=height)
    elif over is not None:
        names = {"errors": (error_of(report),), "contraction": ("contraction",), "relevance": tuple(SUMS)}
        for name, metrics in names.items():
            known = [each for each in metrics if np.isfinite(measures(report, arrays, each)[0]).sum() > 1]
            if known:
                panel = partial(_draw_over, report=report, arrays=arrays, over=over, metrics=known)
                images[name] = png(panel, height=3.6)
    if panels := _cells_curves(report, arrays):
        images["curves"] = png_panels(partial(_draw_panels, cells=panels), len(panels), height=2.9, same_x=False)
    if powers := _cells_powers(report, arrays):
        images["powers"] = png_panels(partial(_draw_powers, powers=powers), len(SUMS), height=3.8, same_y=False)
    return [
        Figure(name, image, caption(report, name), alt_text(report, name, arrays)) for name, image in images.items()
    ]


def _draw_bars(axes: Axes, report: Report, arrays: Arrays) -> None:
    """Draw a bar for each row, as in Zheng, Kulkarni and Poor (2010), Figure 3."""
    values, errors = measures(report, arrays, error_of(report))
    places = np.arange(len(values))
    bars = axes.barh(
        places,
        np.nan_to_num(values),
        height=0.62,
        xerr=np.nan_to_num(errors) if np.any(errors > 0) else None,
        color=BLUE,
        capsize=3,
    )
    handles: dict[str, Any] = {"test rows": bars}
    best = measures(report, arrays, "test_mse_best")[0]
    if np.any(best < values):
        handles["smallest along the way"] = axes.plot(
            best, places, color=ORANGE, marker="D", fillstyle="none", markersize=6, linestyle="none", zorder=3
        )[0]
    handles |= _published(axes, report, places, error_of(report), upright=False)
    for name, (label, color, line) in REFERENCES.items():
        reference = measures(report, arrays, name)[0]
        known = np.isfinite(reference)
        if known.any():
            low, high = places[known] - 0.5, places[known] + 0.5
            handles[label] = axes.vlines(reference[known], low, high, color, linestyle=line, linewidth=1.4, zorder=3)
    for place in np.flatnonzero(np.isfinite(values)):
        end = max(values[place] + errors[place], np.nan_to_num(best[place]))
        axes.annotate(f"{values[place]:.3g}", (end, place), (7, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_yticks(places, [plain(name_of(report, row)) for row in report.table])
    axes.set_ylim(len(values) - 0.5, -0.5)
    axes.margins(x=0.12)
    axes.set_xlabel(ERROR)
    explain(axes, list(handles.values()), list(handles), abreast=2)


def _draw_over(
    axes: Axes,
    report: Report,
    arrays: Arrays,
    over: tuple[str, Float64[np.ndarray, "rows"]],
    metrics: Sequence[str],
) -> None:
    """Draw metrics over a number in which the rows differ; rows without it, and references, are lines across."""
    heading, x = over
    order = np.argsort(x)[: np.isfinite(x).sum()]
    handles: dict[str, Any] = {}
    for metric in metrics:
        label, color, marker = SUMS.get(metric, ("this run", BLUE, "o"))
        values, errors = measures(report, arrays, metric)
        curve = axes.errorbar(
            x[order], values[order], yerr=errors[order], color=color, marker=marker, markersize=4, capsize=2
        )
        handles[label] = curve[0]
        handles |= _published(axes, report, x, metric, upright=True)
    if metrics[0] == error_of(report):
        handles |= _lines_across(axes, report, arrays, np.flatnonzero(~np.isfinite(x)).tolist())
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(plain(heading))
    labels = {error_of(report): ERROR.replace(" (", " on test rows\n("), "contraction": "contraction of a step (ratio)"}
    axes.set_ylabel(labels.get(metrics[0], POWER.replace(" (", "\n(")))
    explain(axes, list(handles.values()), list(handles), abreast=min(3, len(handles)))


def _published(
    axes: Axes, report: Report, places: Shaped[np.ndarray, "rows"], metric: str, *, upright: bool
) -> dict[str, Line2D]:
    """Draw published figures as crosses at the places of their rows."""
    figures = np.array([label_number(row.get(f"{metric} published")) for row in report.table])
    known = np.isfinite(figures) & np.isfinite(places)
    if not known.any():
        return {}
    points = (places[known], figures[known]) if upright else (figures[known], places[known])
    return {
        "published": axes.plot(*points, color=INK, marker="x", markersize=7, linestyle="none", zorder=4)[0],
    }


def _lines_across(axes: Axes, report: Report, arrays: Arrays, others: Sequence[int]) -> dict[str, Line2D]:
    """Draw lines across: test errors of rows without the number along x, and references."""
    values = measures(report, arrays, error_of(report))[0]
    lines = {
        plain(name_of(report, report.table[place])): (values[place], ORANGE, ("-.", (0, (1, 1)))[number % 2])
        for number, place in enumerate(others)
    }
    for name, (label, color, line) in REFERENCES.items():
        lines[label] = (measures(report, arrays, name)[0].mean(), color, line)
    return {
        label: axes.axhline(value, color=color, linestyle=line, linewidth=1.2, zorder=1)
        for label, (value, color, line) in lines.items()
        if np.isfinite(value)
    }


def _cells_curves(report: Report, arrays: Arrays) -> dict[str, dict[str, Float64[np.ndarray, "iterations"]]]:
    """Return by row and kind the mean curve of the repetitions, as far as the shortest one goes."""
    panels = {}
    for place, row in enumerate(report.table):
        cells = {
            f"curve_{kind}": arrays[f"cells_curve_{kind}"][place].mean(axis=0)
            for kind in KINDS
            if f"cells_curve_{kind}" in arrays
        }
        if curves := curves_by_kind({name: curve[np.isfinite(curve)] for name, curve in cells.items()}):
            panels[name_of(report, row) or f"row {place + 1}"] = curves
    return dict(list(panels.items())[:PANELS])


def _draw_panels(panels: Sequence[Axes], cells: Mapping[str, Mapping[str, Float64[np.ndarray, "iterations"]]]) -> None:
    """Draw the curves of each row, as in Zheng, Kulkarni and Poor (2010), Figure 4."""
    handles: dict[str, Any] = {}
    for axes, (name, curves) in zip(panels, cells.items(), strict=True):
        handles |= errors_over_iterations(axes, curves)
        axes.set_title(plain(name))
    values = [float(value) for curves in cells.values() for curve in curves.values() for value in curve]
    for axes in panels:
        scale(axes, "y", values)
    leftmost(panels, ERROR.replace(" (", "\n("))
    explain(panels[0], list(handles.values()), list(handles))


def _cells_powers(report: Report, arrays: Arrays) -> dict[str, dict[str, Float64[np.ndarray, "iterations"]]]:
    """Return by sum and row the mean power over the iterations, for rows with several iterations."""
    powers: dict[str, dict[str, Float64[np.ndarray, "iterations"]]] = {}
    for name in SUMS:
        for place, row in enumerate(report.table):
            mean = arrays.get(f"cells_curve_{name}", np.zeros((len(report.table), 1, 0)))[place].mean(axis=0)
            known = mean[np.isfinite(mean)]
            if len(known) > 1:
                powers.setdefault(name, {})[name_of(report, row) or f"row {place + 1}"] = known
    # If every agent has a relevant attribute, there is nothing to compare.
    return (
        powers if set(powers) == set(SUMS) and any(np.any(each) for each in powers["power_irrelevant"].values()) else {}
    )


def _draw_powers(panels: Sequence[Axes], powers: Mapping[str, Mapping[str, Float64[np.ndarray, "iterations"]]]) -> None:
    """Draw equations (44) and (45) by row, as in Zheng, Kulkarni and Poor (2010), Figure 5."""
    handles: dict[str, Any] = {}
    for axes, (name, rows) in zip(panels, powers.items(), strict=True):
        for place, (row, values) in enumerate(list(rows.items())[:PANELS]):
            style = {"color": PALETTE[place % len(PALETTE)], "linestyle": ("-", "--")[place // len(PALETTE)]}
            handles[plain(row)] = over_iterations(axes, values, linewidth=1.3, marker="", **style)
        axes.set_title(SUMS[name][0])
        axes.set_ylim(bottom=0)
    panels[0].set_ylabel(POWER.replace(" (", "\n("))
    explain(panels[0], list(handles.values()), list(handles), abreast=4)
