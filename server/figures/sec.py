"""Figures of SEC: who resembles whom, how many clusters that makes, what it gains, and a table as curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from server.figures.drawing import BLUE, GREEN, ORANGE, VERMILION, explain, plain, png, png_panels, scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from server.results import Report

Row = Mapping[str, Any]


@dataclass(frozen=True)
class _Style:
    """How a curve is told from the others: by colour, and by its marker where there is none."""

    label: str
    colour: str
    marker: str
    size: float = 3.5
    line: str = "-"
    fill: str = "full"
    above: int = 3


# The oracle's errors are often those of the clusters: a large open marker below a small full one shows both.
_COMPARED = {
    "alone": _Style("alone", ORANGE, "s"),
    "cluster": _Style("with its cluster", BLUE, "o"),
    "all": _Style("with all", VERMILION, "^"),
    "oracle": _Style("oracle", GREEN, "D", 7.0, "--", "none", 2),
}
_OTHERS = tuple(zip((BLUE, VERMILION, GREEN, ORANGE), "o^Ds", strict=True))
_MEASURED = {"n_clusters", "clusters_correct", *(f"mse_{way}" for way in _COMPARED)}
_AXES = {
    "attacked": "attacked learners (count)",
    "candidates": "candidate methods (count)",
    "SNR": "signal-to-noise ratio",
    "c": "effect c of the sensitive variable",
}
"""Headings of tables, as axes say them."""

_ERROR = "mean squared error (squared unit of the outcome)"
_NAMED = 30
"""Learners up to which their names are written along the matrix."""
_EIGENVALUES = 12
_CLUSTERS, _TOLD = 15, 5
"""Clusters whose errors are shown; rows of that figure that its alternative text tells."""


def draw(report: Report, arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> dict[str, bytes]:
    """PNG images by name: of a table of several rows its curves, else the clustering and the errors of the run."""
    if "cells_n_clusters" in arrays and len(report.table) > 1:
        return _draw_table(report)
    drawn = {}
    if len(arrays.get("similarity", ())) > 1:
        drawn["similarity"] = png(partial(_draw_similarity, arrays=arrays), height=4.8, width=5.6)
    if rows := _compared(report):
        drawn["errors"] = png(partial(_draw_comparison, rows=rows, report=report), height=1.3 + 0.3 * len(rows))
    if len(arrays.get("gap", ())):
        drawn["gap"] = png(partial(_draw_gap, arrays=arrays), height=3.2)
    if len(arrays.get("eigenvalues", ())) > 1:
        drawn["eigenvalues"] = png(partial(_draw_spectrum, arrays=arrays), height=3.2)
    return drawn


def alt_text(report: Report, name: str) -> str:
    """What a reader who cannot see the figure needs to know; empty for one that is not ours."""
    if name == "correct":
        told = _curves_told(report, "clusters_correct", "")
        marks = _marks_told(report, "clusters_correct")
        return f"Share of the repetitions whose clusters are all correct: {told}{marks}." if told else ""
    if name == "errors":
        return _errors_told(report)
    k, where = f", {int(report.metrics.get('n_clusters', 0))}", ""
    if int(report.config.get("repetitions", 1)) > 1:  # what is drawn is the first's, the metric is their mean
        k, where = "", " in the first repetition"
    return {
        "similarity": f"Similarity of each two learners{where}, ordered by cluster: the darker, the more alike; white"
        " where two were not compared.",
        "eigenvalues": f"Largest eigenvalues of the normalised similarity{where}: left of the dashed line as many as"
        f" there are clusters{k}.",
        "gap": f"Gap statistic by number of clusters{where}, with the standard errors of its references: the dashed"
        f" line marks the number of clusters{k}.",
    }.get(name, "")


# -- a run ------------------------------------------------------------------------------------------------------------


def _draw_similarity(axes: Axes, arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> None:
    import matplotlib as mpl

    labels: Int64[np.ndarray, "L"] = arrays["labels"]
    order = np.argsort(np.where(labels < 0, labels.max() + 1, labels), kind="stable")
    colours = mpl.colormaps["cividis_r"].with_extremes(bad="white")
    image = axes.imshow(arrays["similarity"][np.ix_(order, order)], cmap=colours, vmin=0, vmax=1)
    ends = np.flatnonzero(np.diff(labels[order])) + 1
    for end in ends:
        axes.axhline(end - 0.5, color="white", linewidth=1.5)
        axes.axvline(end - 0.5, color="white", linewidth=1.5)
    blocks = [each for each in np.split(np.arange(len(order)), ends) if len(each) * 25 >= len(order)]
    told = ["none" if labels[order[each[0]]] < 0 else str(labels[order[each[0]]]) for each in blocks]
    places = [float(each.mean()) for each in blocks]
    axes.set_xticks(places, told)
    axes.set_xlabel("cluster")
    if len(order) <= _NAMED and "learners" in arrays:
        axes.set_yticks(range(len(order)), [plain(name) for name in arrays["learners"][order]], fontsize=7)
    else:
        axes.set_yticks(places, told)
        axes.set_ylabel("cluster")
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.figure.colorbar(image, ax=axes, label="similarity (1: the same relation)", shrink=0.8)


def _draw_spectrum(axes: Axes, arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> None:
    from matplotlib.ticker import MaxNLocator

    k = int(arrays["labels"].max()) + 1
    shown: Float64[np.ndarray, "e"] = arrays["eigenvalues"][: max(_EIGENVALUES, k + 2)]
    places = np.arange(1, len(shown) + 1)
    axes.plot(places, shown, color=BLUE, marker="o", markersize=4, linewidth=1.0)
    _mark(axes, k + 0.5, _counted(k))
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.set_xlabel("rank of the eigenvalue (largest first)")
    axes.set_ylabel("eigenvalue (no unit)")


def _draw_gap(axes: Axes, arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> None:
    from matplotlib.ticker import MaxNLocator

    gap: Float64[np.ndarray, "c"] = arrays["gap"]
    places = np.arange(2, len(gap) + 2)
    axes.errorbar(places, gap, yerr=arrays["gap_error"], color=BLUE, marker="o", markersize=4, linewidth=1, capsize=3)
    k = int(arrays["labels"].max()) + 1
    _mark(axes, k, f"chosen: {k}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("number of clusters K (count)")
    axes.set_ylabel("gap (natural logarithm)")


def _counted(k: int) -> str:
    return "1 cluster" if k == 1 else f"{k} clusters"


def _mark(axes: Axes, x: float, label: str) -> None:
    """A dashed line, explained above the axes."""
    line = axes.axvline(x, color=VERMILION, linestyle="--", linewidth=1.2, zorder=1)
    explain(axes, [line], [label])


# -- alone, with the cluster, with all --------------------------------------------------------------------------------


def _prefix(report: Report) -> str:
    """Errors on the rows that the learners held out, or where there are none, on the center's own."""
    return "mse_" if "mse_cluster" in report.metrics else "mse_test_"


def _compared(report: Report) -> list[tuple[str, Row]]:
    """Errors of a run and of each of its clusters; none if nothing was measured."""
    prefix = _prefix(report)
    if f"{prefix}cluster" not in report.metrics:
        return []
    clusters = [row for row in report.table if "cluster" in row and row.get(f"{prefix}cluster") is not None]
    named = [(f"cluster {row['cluster']}", row) for row in clusters[:_CLUSTERS]]
    return [("all clusters", report.metrics), *(named if len(clusters) > 1 else [])]


def _draw_comparison(axes: Axes, rows: Sequence[tuple[str, Row]], report: Report) -> None:
    prefix = _prefix(report)
    handles = {}
    for way, style in _COMPARED.items():
        told = [(place, row) for place, (_, row) in enumerate(rows) if row.get(f"{prefix}{way}") is not None]
        for place, row in told:
            handles[style.label] = axes.errorbar(
                row[f"{prefix}{way}"], place, xerr=row.get(f"{prefix}{way}_se"), linestyle="none", capsize=3,
                color=style.colour, marker=style.marker, markersize=style.size + 1.5, fillstyle=style.fill,
                zorder=style.above,
            )[0]  # fmt: skip
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    if len(rows) > _CLUSTERS:
        axes.set_ylabel(f"the first {_CLUSTERS} clusters")
    axes.set_ylim(len(rows) - 0.5, -0.5)
    scale(axes, "x", [row[f"{prefix}{way}"] for _, row in rows for way in _COMPARED if f"{prefix}{way}" in row])
    axes.margins(x=0.06)
    axes.set_xlabel(_ERROR)
    explain(axes, list(handles.values()), list(handles))


def _errors_told(report: Report) -> str:
    """Alternative text of the errors: of a table's curves, or of a run."""
    if _curves(report):
        told = [_curves_told(report, f"mse_{way}", style.label) for way, style in _COMPARED.items()]
        return f"Mean squared error: {'; '.join(filter(None, told))}{_marks_told(report, 'mse_')}." if any(told) else ""
    prefix, parts = _prefix(report), []
    for name, row in _compared(report)[:_TOLD]:
        values = [(style.label, row.get(f"{prefix}{way}")) for way, style in _COMPARED.items()]
        parts.append(f"{name}: " + ", ".join(f"{label} {value:.3g}" for label, value in values if value is not None))
    where = "held-out rows" if prefix == "mse_" else "the center's test rows"
    bars = ", bars are standard errors" if f"{prefix}cluster_se" in report.metrics else ""
    return f"Mean squared error on {where}{bars}. {'; '.join(parts)}." if parts else ""


# -- a table ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Curves:
    """A table's rows as points of curves: over the column `x`, those of a group joined."""

    x: str
    groups: Mapping[str, Sequence[Row]]


def _curves(report: Report) -> _Curves | None:
    """How to draw the table; None where no leading column is a number that differs between the rows."""
    table = report.table
    leading: list[str] = []
    for name in table[0] if table else ():
        if name in _MEASURED or name in report.metrics or name.endswith(("_se", " published")):
            break
        leading.append(name)
    varied = [name for name in leading if len({row.get(name) for row in table}) > 1]
    numbers = [name for name in varied if all(isinstance(row.get(name), int | float) for row in table)]
    if not numbers or "cluster" in leading:  # rows of clusters are no table of cells
        return None
    x = numbers[-1]
    groups: dict[str, list[Row]] = {}
    for row in table:
        groups.setdefault(", ".join(f"{name} = {row[name]}" for name in varied if name != x), []).append(row)
    return _Curves(x, {name: sorted(rows, key=lambda row: float(row[x])) for name, rows in groups.items()})


def _draw_table(report: Report) -> dict[str, bytes]:
    curves = _curves(report)
    if curves is None:
        return {}
    drawn = {}
    if _known(report.table, "clusters_correct"):
        drawn["correct"] = png(partial(_draw_correct, curves=curves), height=3.6)
    shown = {f"mse_{way}": style for way, style in _COMPARED.items() if _known(report.table, f"mse_{way}")}
    if shown:
        height, width = (3.8, 6.4) if len(curves.groups) == 1 else (3.6, 9.0)
        draw_errors = partial(_draw_errors, curves=curves, styles=shown)
        drawn["errors"] = png_panels(draw_errors, len(curves.groups), height, width)
    return drawn


def _known(rows: Sequence[Row], metric: str) -> list[Row]:
    """The rows that have it."""
    return [row for row in rows if row.get(metric) is not None]


def _draw_correct(axes: Axes, curves: _Curves) -> None:
    lines, labels = [], []
    for place, (name, rows) in enumerate(curves.groups.items()):
        colour, marker = _OTHERS[place % len(_OTHERS)]
        lines.append(_curve(axes, rows, curves.x, "clusters_correct", _Style(name, colour, marker)))
        labels.append(name)
    if any("clusters_correct published" in row for rows in curves.groups.values() for row in rows):
        lines.append(_cross(axes))
        labels.append("published")
    axes.set_ylim(-0.03, 1.03)
    axes.set_ylabel("share of repetitions with all\nclusters correct (1: all of them)")
    _draw_x(axes, curves)
    if len(labels) > 1:
        explain(axes, lines, [label or "this run" for label in labels])


def _draw_errors(panels: Sequence[Axes], curves: _Curves, styles: Mapping[str, _Style]) -> None:
    handles: dict[str, Line2D] = {}
    values: list[float] = []
    for axes, (name, rows) in zip(panels, curves.groups.items(), strict=True):
        for metric, style in styles.items():
            handles[style.label] = _curve(axes, rows, curves.x, metric, style)
            values += [
                row[each] for row in rows for each in (metric, f"{metric} published") if row.get(each) is not None
            ]
        axes.set_title(plain(name), fontsize=9)
        _draw_x(axes, curves)
    for axes in panels:
        scale(axes, "y", values)
    panels[0].set_ylabel(_ERROR.replace(" (", "\n("))
    if any(f"{metric} published" in row for rows in curves.groups.values() for row in rows for metric in styles):
        handles["published"] = _cross(panels[0])
    explain(panels[0], list(handles.values()), list(handles))


def _curve(axes: Axes, rows: Sequence[Row], x: str, metric: str, style: _Style) -> Line2D:
    """One metric over x with its standard errors, and the paper's figures as crosses."""
    known = _known(rows, metric)
    line: Line2D = axes.errorbar(
        [row[x] for row in known], [row[metric] for row in known], yerr=[row.get(f"{metric}_se", 0.0) for row in known],
        color=style.colour, marker=style.marker, markersize=style.size, linestyle=style.line, fillstyle=style.fill,
        linewidth=1.2, capsize=2, zorder=style.above,
    )[0]  # fmt: skip
    published = _known(rows, f"{metric} published")
    axes.plot(
        [row[x] for row in published], [row[f"{metric} published"] for row in published], color=style.colour,
        marker="x", markersize=6, linestyle="none",
    )  # fmt: skip
    return line


def _cross(axes: Axes) -> Line2D:
    """What stands for a published figure in a legend: it has the colour of its curve, here none."""
    return axes.plot([], [], color="#444444", marker="x", markersize=6, linestyle="none")[0]


def _draw_x(axes: Axes, curves: _Curves) -> None:
    values = sorted({float(row[curves.x]) for rows in curves.groups.values() for row in rows})
    if values[0] > 0 and values[-1] / values[0] > 30:
        axes.set_xscale("log", base=2)
        if len(values) <= _EIGENVALUES:
            axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.set_xlabel(_AXES.get(curves.x, plain(curves.x)))


def _curves_told(report: Report, metric: str, what: str) -> str:
    """First and last point of every curve of a metric, in words; empty where there are none."""
    curves, parts = _curves(report), []
    if curves is None:
        return ""
    for name, rows in curves.groups.items():
        if known := _known(rows, metric):
            ends = " to ".join(f"{row[metric]:.3g} ({curves.x} {row[curves.x]:g})" for row in (known[0], known[-1]))
            parts.append(f"{', '.join(filter(None, (what, name)))}{': ' if what or name else ''}{ends}")
    return "; ".join(parts)


def _marks_told(report: Report, prefix: str) -> str:
    """What bars and crosses mean, where there are any."""
    names = {name for row in report.table for name in row if name.startswith(prefix)}
    told = ", bars are standard errors" if any(name.endswith("_se") for name in names) else ""
    return told + (", crosses the paper's figures" if any(name.endswith(" published") for name in names) else "")
