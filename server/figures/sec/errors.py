"""What collaboration gains the learners of a run: alone, with their cluster, with all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from server.figures.drawing import explain, png, scale
from server.figures.sec.styles import COMPARED, ERROR
from server.figures.wording import BARS, Row, measured, sentences, several
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from server.results import Report

_CLUSTERS, _TOLD = 15, 5
"""Clusters whose errors are shown; rows of the figure that its alternative text tells."""


def draw_errors(report: Report) -> dict[str, bytes]:
    """The figure by its name; none where nothing was measured."""
    rows = _compared(report)
    if not rows:
        return {}
    return {"errors": png(partial(_draw_comparison, rows=rows, report=report), height=1.4 + 0.3 * len(rows))}


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
    for way, style in COMPARED.items():
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
    scale(axes, "x", [row[f"{prefix}{way}"] for _, row in rows for way in COMPARED if f"{prefix}{way}" in row])
    axes.margins(x=0.06)
    axes.set_xlabel(ERROR)
    explain(axes, list(handles.values()), list(handles), abreast=4)


def errors_told(report: Report) -> str:
    """Alternative text: the errors of all and of the first clusters; empty where nothing was measured."""
    prefix, parts = _prefix(report), []
    for name, row in _compared(report)[:_TOLD]:
        values = [(style.label, row.get(f"{prefix}{way}")) for way, style in COMPARED.items()]
        parts.append(f"{name}: " + ", ".join(f"{label} {value:.3g}" for label, value in values if value is not None))
    return sentences(f"Mean squared error{_where(report)}: {'; '.join(parts)}") if parts else ""


def errors_caption(report: Report) -> str:
    """What the figure draws."""
    clusters = sum("cluster" in row for row in report.table)
    cut = f", the first {_CLUSTERS} of {counted(clusters, 'cluster')}" if clusters > _CLUSTERS else ""
    mean = "; means over the repetitions" if several(report) else ""
    return sentences(
        f"Mean squared error{_where(report)} (squared unit of the outcome), of each learner's own model, and of those"
        f" of its cluster and of all together{cut}: {measured(report, n_learners='learner')}{mean}",
        BARS if f"{_prefix(report)}cluster_se" in report.metrics else "",
    )


def _where(report: Report) -> str:
    return " on held-out rows" if _prefix(report) == "mse_" else " on the center's test rows"
