"""Figures of a table of several settings: as bars, as curves over a number, or panel by panel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Shaped

from server.figures.drawing import BLUE, GREEN, ORANGE, VERMILION, explain, plain, png, png_panels, scale
from server.figures.residual.common import (
    ERROR,
    KINDS,
    MEASURED,
    PANELS,
    POWER,
    REFERENCES,
    SUMS,
    TOLD,
    Arrays,
    Row,
    curves_by_kind,
    errors_over_iterations,
    over_iterations,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from server.results import Report


def _labels(report: Report, row: Row) -> dict[str, Any]:
    """What sets a row apart: its leading columns, up to the first that was measured."""

    def label(each: tuple[str, Any]) -> bool:
        name = each[0]
        return not (name in MEASURED or name in report.metrics or name.endswith(("_se", " published")))

    return dict(takewhile(label, row.items()))


def _error(report: Report) -> str:
    """The test error that is drawn: that of the chosen iterate, or the last one's where the paper's figures are."""
    names = ("test_mse", "test_mse_last")
    return next((name for name in names if any(f"{name} published" in row for row in report.table)), names[0])


def _name(report: Report, row: Row) -> str:
    """A row's labels in a few words: text as it is, a number with its heading."""
    labels = _labels(report, row)
    return ", ".join(value if isinstance(value, str) else f"{key} = {value}" for key, value in labels.items())


def _number(value: object) -> float:
    """A label as a number; NaN if it is none."""
    try:
        return float(value) if isinstance(value, int | float | str) else math.nan
    except ValueError:
        return math.nan


def _over(report: Report) -> tuple[str, Float64[np.ndarray, "rows"]] | None:
    """The label that most rows have another number in, and nothing else that differs between these; None: no such."""
    labels = [_labels(report, row) for row in report.table]
    for name in dict.fromkeys(name for each in labels for name in each):
        values = np.array([_number(each.get(name)) for each in labels])
        points = np.flatnonzero(np.isfinite(values))
        rest = {tuple(item for item in labels[place].items() if item[0] != name) for place in points}
        if len(points) > max(1, len(labels) / 2) and len(rest) == 1 and len(set(values[points])) == len(points):
            return name, values
    return None


def _measures(report: Report, arrays: Arrays, metric: str) -> Float64[np.ndarray, "2 rows"]:
    """A metric and its standard error (0: unknown) by row, shown in the table or not; NaN where it is not known."""
    found = np.full((2, len(report.table)), math.nan)
    for place, row in enumerate(report.table):
        if row.get(metric) is not None:
            found[:, place] = row[metric], row.get(f"{metric}_se", 0.0)
        elif f"cells_{metric}" in arrays:
            values = arrays[f"cells_{metric}"][place]
            found[:, place] = values.mean(), values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return found


def draw_table(report: Report, arrays: Arrays) -> dict[str, bytes]:
    """PNG images by name."""
    drawn = {}
    over = _over(report)
    errors = _measures(report, arrays, _error(report))
    if over is None and np.isfinite(errors[0]).any():
        height = 1.4 + 0.3 * len(report.table)
        drawn["errors"] = png(partial(_draw_bars, report=report, arrays=arrays), height=height)
    elif over is not None:
        figures = {"errors": (_error(report),), "contraction": ("contraction",), "relevance": tuple(SUMS)}
        for figure, metrics in figures.items():
            known = [name for name in metrics if np.isfinite(_measures(report, arrays, name)[0]).sum() > 1]
            if known:
                panel = partial(_draw_over, report=report, arrays=arrays, over=over, metrics=known)
                drawn[figure] = png(panel, height=3.6)
    if panels := _cells_curves(report, arrays):
        drawn["curves"] = png_panels(partial(_draw_panels, cells=panels), len(panels), height=2.9, width=9.0)
    if powers := _cells_powers(report, arrays):
        drawn["powers"] = png_panels(
            partial(_draw_powers, powers=powers), len(SUMS), height=3.4, width=9.0, same_y=False
        )
    return drawn


def _draw_bars(axes: Axes, report: Report, arrays: Arrays) -> None:
    """A bar a row, as in papers/attribute_distributed.txt, Figure 3."""
    values, errors = _measures(report, arrays, _error(report))
    places = np.arange(len(values))
    bars = axes.barh(places, np.nan_to_num(values), height=0.62, xerr=np.nan_to_num(errors), color=BLUE, capsize=3)
    handles: dict[str, Any] = {"test rows": bars}
    best = _measures(report, arrays, "test_mse_best")[0]
    if np.any(best < values):
        handles["smallest along the way"] = axes.plot(
            best, places, color=ORANGE, marker="D", fillstyle="none", markersize=6, linestyle="none", zorder=3
        )[0]
    handles |= _published(axes, report, places, _error(report), upright=False)
    for name, (label, colour, line) in REFERENCES.items():
        reference = _measures(report, arrays, name)[0]
        known = np.isfinite(reference)
        if known.any():
            low, high = places[known] - 0.5, places[known] + 0.5
            handles[label] = axes.vlines(reference[known], low, high, colour, linestyle=line, linewidth=1.4, zorder=3)
    for place in np.flatnonzero(np.isfinite(values)):
        end = max(values[place] + errors[place], np.nan_to_num(best[place]))
        axes.annotate(f"{values[place]:.3g}", (end, place), (7, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_yticks(places, [plain(_name(report, row)) for row in report.table])
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
    """Metrics over a number that the rows differ in; rows without it, and references, are lines across."""
    heading, x = over
    order = np.argsort(x)[: np.isfinite(x).sum()]
    handles: dict[str, Any] = {}
    for metric in metrics:
        label, colour, marker = SUMS.get(metric, ("this run", BLUE, "o"))
        values, errors = _measures(report, arrays, metric)
        curve = axes.errorbar(
            x[order], values[order], yerr=errors[order], color=colour, marker=marker, markersize=4, capsize=2
        )
        handles[label] = curve[0]
        handles |= _published(axes, report, x, metric, upright=True)
    if metrics[0] == _error(report):
        handles |= _lines_across(axes, report, arrays, np.flatnonzero(~np.isfinite(x)).tolist())
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(plain(heading))
    says = {_error(report): ERROR.replace(" (", " on test rows\n("), "contraction": "contraction of a step (ratio)"}
    axes.set_ylabel(says.get(metrics[0], POWER.replace(" (", "\n(")))
    explain(axes, list(handles.values()), list(handles), abreast=min(3, len(handles)))


def _published(
    axes: Axes, report: Report, places: Shaped[np.ndarray, "rows"], metric: str, *, upright: bool
) -> dict[str, Line2D]:
    """The paper's figures as crosses at the places of their rows."""
    figures = np.array([_number(row.get(f"{metric} published")) for row in report.table])
    known = np.isfinite(figures) & np.isfinite(places)
    if not known.any():
        return {}
    points = (places[known], figures[known]) if upright else (figures[known], places[known])
    return {
        "published": axes.plot(*points, color="#333333", marker="x", markersize=7, linestyle="none", zorder=4)[0],
    }


def _lines_across(axes: Axes, report: Report, arrays: Arrays, others: Sequence[int]) -> dict[str, Line2D]:
    """The test error of rows without the number that the others are drawn over, and of what a user would do instead."""
    values = _measures(report, arrays, _error(report))[0]
    lines = {
        plain(_name(report, report.table[place])): (values[place], ORANGE, ("-.", (0, (1, 1)))[number % 2])
        for number, place in enumerate(others)
    }
    for name, (label, colour, line) in REFERENCES.items():
        lines[label] = (_measures(report, arrays, name)[0].mean(), colour, line)
    return {
        label: axes.axhline(value, color=colour, linestyle=line, linewidth=1.2, zorder=1)
        for label, (value, colour, line) in lines.items()
        if np.isfinite(value)
    }


def _cells_curves(report: Report, arrays: Arrays) -> dict[str, dict[str, Float64[np.ndarray, "iterations"]]]:
    """By row and kind, the mean curve of its repetitions, as far as the shortest goes."""
    panels = {}
    for place, row in enumerate(report.table):
        cells = {
            f"curve_{kind}": arrays[f"cells_curve_{kind}"][place].mean(axis=0)
            for kind in KINDS
            if f"cells_curve_{kind}" in arrays
        }
        if curves := curves_by_kind({name: curve[np.isfinite(curve)] for name, curve in cells.items()}):
            panels[_name(report, row) or f"row {place + 1}"] = curves
    return dict(list(panels.items())[:PANELS])


def _draw_panels(panels: Sequence[Axes], cells: Mapping[str, Mapping[str, Float64[np.ndarray, "iterations"]]]) -> None:
    """The curves of each row, as in papers/attribute_distributed.txt, Figure 4."""
    handles: dict[str, Any] = {}
    for axes, (name, curves) in zip(panels, cells.items(), strict=True):
        handles |= errors_over_iterations(axes, curves)
        axes.set_title(plain(name), fontsize=9)
    values = [float(value) for curves in cells.values() for curve in curves.values() for value in curve]
    for axes in panels:
        scale(axes, "y", values)
    panels[0].set_ylabel(ERROR.replace(" (", "\n("))
    explain(panels[0], list(handles.values()), list(handles))


def _cells_powers(report: Report, arrays: Arrays) -> dict[str, dict[str, Float64[np.ndarray, "iterations"]]]:
    """By sum and row, the mean power over the iterations, of rows whose agents change with them."""
    found: dict[str, dict[str, Float64[np.ndarray, "iterations"]]] = {}
    for name in SUMS:
        for place, row in enumerate(report.table):
            mean = arrays.get(f"cells_curve_{name}", np.zeros((len(report.table), 1, 0)))[place].mean(axis=0)
            known = mean[np.isfinite(mean)]
            if len(known) > 1:
                found.setdefault(name, {})[_name(report, row) or f"row {place + 1}"] = known
    # Where no agent lacks a relevant attribute there is nothing to compare.
    return found if set(found) == set(SUMS) and any(np.any(each) for each in found["power_irrelevant"].values()) else {}


def _draw_powers(panels: Sequence[Axes], powers: Mapping[str, Mapping[str, Float64[np.ndarray, "iterations"]]]) -> None:
    """Eqs. (44) and (45) by row, as in papers/attribute_distributed.txt, Figure 5."""
    handles: dict[str, Any] = {}
    colours = (BLUE, VERMILION, GREEN, ORANGE)
    for axes, (name, rows) in zip(panels, powers.items(), strict=True):
        for place, (row, values) in enumerate(list(rows.items())[:PANELS]):
            style = {"color": colours[place % 4], "linestyle": ("-", "--", ":")[place // 4], "marker": ""}
            handles[plain(row)] = over_iterations(axes, values, linewidth=1.3, **style)
        axes.set_title(SUMS[name][0], fontsize=9)
        axes.set_ylim(bottom=0)
    panels[0].set_ylabel(POWER.replace(" (", "\n("))
    explain(panels[0], list(handles.values()), list(handles), abreast=4)


# -- in words ----------------------------------------------------------------------------------------------------------


def _told(report: Report, metric: str) -> str:
    """A metric's value in each row that shows it, in words; empty where none does."""
    known = [(_name(report, row), row[metric]) for row in report.table if row.get(metric) is not None]
    parts = ", ".join(f"{name}: {value:.3g}" for name, value in known[:TOLD])
    return parts + (f", and {len(known) - TOLD} rows more" if len(known) > TOLD else "")


def table_told(report: Report, name: str) -> str:
    """Alternative text of a figure of the table; empty for one that is not ours."""
    if name == "curves":
        told = _told(report, "test_mse")
        reached = f"; reached on test rows: {told}" if told else ""
        return f"Mean squared error over the iterations, a panel for each row of the table{reached}."
    if name == "powers":
        return (
            "Power of the prediction over the iterations, a line for each row of the table: the sum over the agents"
            " with a relevant attribute, and over those without one."
        )
    metrics = {"errors": [_error(report)], "contraction": ["contraction"], "relevance": list(SUMS)}.get(name)
    if metrics is None:
        return ""
    what = {"errors": "Mean squared error on test rows", "contraction": "Contraction of a step"}
    every = [(what.get(name, f"Power of {SUMS.get(each, ('',))[0]}"), _told(report, each)) for each in metrics]
    parts = [f"{said}: {told}" if told else f"{said}, by row of the table" for said, told in every]
    if name == "errors":
        given = [(label, report.metrics[each]) for each, (label, *_) in REFERENCES.items() if each in report.metrics]
        parts += [f"{label}: {value:.3g}" for label, value in given]
    shown = {each for row in report.table for each in row}
    if "test_mse_best" in shown and name == "errors" and _over(report) is None:
        parts.append("diamonds are the smallest errors along the way")
    if any(f"{each}_se" in shown for each in metrics):
        parts.append("thin bars are standard errors")
    if any(f"{each} published" in shown for each in metrics):
        parts.append("crosses the paper's figures")
    return f"{'; '.join(parts)}."
