"""Figures of a table: how often all clusters are right, and errors, as curves over a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from server.figures.drawing import INK, PALETTE, SHAPES, explain, leftmost, plain, png, png_panels, scale
from server.figures.figure import Figure
from server.figures.sec.styles import COMPARED, ERROR, Style
from server.figures.wording import BARS, CROSSES, measured, sentences
from server.report.data import Report, Row
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

_MEASURED = {"n_clusters", "clusters_correct", *(f"mse_{way}" for way in COMPARED)}
_AXES = {
    "attacked": "attacked learners (count)",
    "candidates": "candidate methods (count)",
    "SNR": "signal-to-noise ratio",
    "c": "effect c of the sensitive variable",
}
"""Labels of axes, by the heading of the table."""
_TICKS = 12
"""Numbers along x up to which each has a tick."""


@dataclass(frozen=True)
class _Curves:
    """Rows of a table as curves over the column `x`, one for each group of rows."""

    x: str
    groups: Mapping[str, Sequence[Row]]


def _curves(report: Report) -> _Curves | None:
    """Return the curves of the table; None if no leading column is a number that differs between the rows."""
    table = report.table
    leading: list[str] = []
    for name in table[0] if table else ():
        if name in _MEASURED or name in report.metrics or name.endswith(("_se", " published")):
            break
        leading.append(name)
    varied = [name for name in leading if len({row.get(name) for row in table}) > 1]
    numbers = [name for name in varied if all(isinstance(row.get(name), int | float) for row in table)]
    if not numbers or "cluster" in leading:  # a table of clusters, not of settings
        return None
    x = numbers[-1]
    groups: dict[str, list[Row]] = {}
    for row in table:
        groups.setdefault(", ".join(f"{name} = {row[name]}" for name in varied if name != x), []).append(row)
    return _Curves(x, {name: sorted(rows, key=lambda row: float(row[x])) for name, rows in groups.items()})


def table_figures(report: Report) -> list[Figure]:
    """Draw the table's curves; none if it has no number to draw them over."""
    curves = _curves(report)
    if curves is None:
        return []
    figures = []
    if _known(report.table, "clusters_correct"):
        caption = _caption(
            report, curves, "clusters_correct", "Share of the repetitions whose clusters are all correct (no unit)"
        )
        ends = _ends(curves, "clusters_correct", "")
        alt = sentences(f"Share of the repetitions whose clusters are all correct: {ends}")
        figures.append(Figure("correct", png(partial(_draw_correct, curves=curves), height=3.6), caption, alt))
    styles = {f"mse_{way}": style for way, style in COMPARED.items() if _known(report.table, f"mse_{way}")}
    if styles:
        height = 3.8 if len(curves.groups) == 1 else 3.2
        draw = partial(_draw_errors, curves=curves, styles=styles)
        caption = _caption(
            report,
            curves,
            "mse_",
            "Mean squared error on held-out rows (squared unit of the outcome)",
            "A panel for each group of rows" if len(curves.groups) > 1 else "",
        )
        ends = "; ".join(_ends(curves, metric, style.label) for metric, style in styles.items())
        alt = sentences(f"Mean squared error: {ends}")
        figures.append(Figure("errors", png_panels(draw, len(curves.groups), height), caption, alt))
    return figures


def _known(rows: Sequence[Row], metric: str) -> list[Row]:
    """Return the rows that have the metric."""
    return [row for row in rows if row.get(metric) is not None]


def _draw_correct(axes: Axes, curves: _Curves) -> None:
    lines, labels = [], []
    for place, (name, rows) in enumerate(curves.groups.items()):
        color, marker = PALETTE[place % len(PALETTE)], SHAPES[place % len(SHAPES)]
        lines.append(_curve(axes, rows, curves.x, "clusters_correct", Style(name, color, marker)))
        labels.append(name)
    if any("clusters_correct published" in row for rows in curves.groups.values() for row in rows):
        lines.append(_cross(axes))
        labels.append("published")
    axes.set_ylim(-0.03, 1.03)
    axes.set_ylabel("share of repetitions with all\nclusters correct (1: all of them)")
    _draw_x(axes, curves)
    if len(labels) > 1:
        explain(axes, lines, [label or "this run" for label in labels], abreast=min(5, len(labels)))


def _draw_errors(panels: Sequence[Axes], curves: _Curves, styles: Mapping[str, Style]) -> None:
    handles: dict[str, Line2D] = {}
    values: list[float] = []
    for axes, (name, rows) in zip(panels, curves.groups.items(), strict=True):
        for metric, style in styles.items():
            handles[style.label] = _curve(axes, rows, curves.x, metric, style)
            values += [
                row[each] for row in rows for each in (metric, f"{metric} published") if row.get(each) is not None
            ]
        axes.set_title(plain(name))
        _draw_x(axes, curves)
    for axes in panels:
        scale(axes, "y", values)
    leftmost(panels, ERROR.replace(" (", "\n("))
    if any(f"{metric} published" in row for rows in curves.groups.values() for row in rows for metric in styles):
        handles["published"] = _cross(panels[0])
    explain(panels[0], list(handles.values()), list(handles), abreast=5)


def _curve(axes: Axes, rows: Sequence[Row], x: str, metric: str, style: Style) -> Line2D:
    """Draw one metric over x with its standard errors, and the paper's figures as crosses."""
    known = _known(rows, metric)
    line: Line2D = axes.errorbar(
        [row[x] for row in known], [row[metric] for row in known], yerr=[row.get(f"{metric}_se", 0.0) for row in known],
        color=style.color, marker=style.marker, markersize=style.size, linestyle=style.line, fillstyle=style.fill,
        linewidth=1.2, capsize=2, zorder=style.above,
    )[0]  # fmt: skip
    published = _known(rows, f"{metric} published")
    axes.plot(
        [row[x] for row in published], [row[f"{metric} published"] for row in published], color=style.color,
        marker="x", markersize=6, linestyle="none",
    )  # fmt: skip
    return line


def _cross(axes: Axes) -> Line2D:
    """Return the entry of published figures in a legend; in the figure each has the color of its curve."""
    return axes.plot([], [], color=INK, marker="x", markersize=6, linestyle="none")[0]


def _draw_x(axes: Axes, curves: _Curves) -> None:
    values = sorted({float(row[curves.x]) for rows in curves.groups.values() for row in rows})
    if values[0] > 0 and values[-1] / values[0] > 30:
        axes.set_xscale("log", base=2)
        if len(values) <= _TICKS:
            axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.set_xlabel(_AXES.get(curves.x, plain(curves.x)))


def _ends(curves: _Curves, metric: str, label: str) -> str:
    """Return the first and the last point of every curve of a metric, in words."""
    parts = []
    for name, rows in curves.groups.items():
        if known := _known(rows, metric):
            ends = " to ".join(f"{row[metric]:.3g} ({curves.x} {row[curves.x]:g})" for row in (known[0], known[-1]))
            parts.append(f"{', '.join(filter(None, (label, name)))}{': ' if label or name else ''}{ends}")
    return "; ".join(parts)


def _caption(report: Report, curves: _Curves, prefix: str, what: str, panels: str = "") -> str:
    """Return the caption of a figure of the metrics that begin with `prefix`."""
    names = {each for row in report.table for each in row if each.startswith(prefix)}
    repeated = counted(int(report.config.get("repetitions", 1)), "repetition")
    return sentences(
        f"{what} over {_AXES.get(curves.x, curves.x)}, {counted(len(report.table), 'row')} of the table,"
        f" {repeated}: {measured(report, n_learners='learner')}",
        panels,
        BARS if any(each.endswith("_se") for each in names) else "",
        CROSSES if any(each.endswith(" published") for each in names) else "",
    )
