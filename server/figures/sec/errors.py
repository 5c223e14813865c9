"""Errors of a run's learners: alone, with their cluster, with all, as recommended."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from server.figures.drawing import explain, png, scale
from server.figures.figure import Figure
from server.figures.sec.styles import COMPARED, ERROR
from server.figures.wording import BARS, measured, sentences, several
from server.report.data import Arrays, Report, Row
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CLUSTERS, _MOST_IN_WORDS = 15, 5
"""Clusters whose errors are drawn, and rows of the figure that its alternative text describes."""


def errors(report: Report, arrays: Arrays) -> Figure | None:
    """Draw the errors of the run and of its clusters; None if nothing was measured."""
    rows = _rows(report)
    if not rows:
        return None
    image = png(partial(_draw, rows=rows, report=report), height=1.4 + 0.3 * len(rows))
    return Figure("errors", image, _caption(report), _alt(report, rows))


def _prefix(report: Report) -> str:
    """Return the prefix of errors on the learners' held-out rows, or else on the center's test rows."""
    prefixes = ("mse_", "log_loss_", "mse_test_", "log_loss_test_")
    return next((each for each in prefixes if f"{each}cluster" in report.metrics), prefixes[0])


def _error(report: Report) -> str:
    return "Log loss" if _prefix(report).startswith("log_loss_") else "Mean squared error"


def _rows(report: Report) -> list[tuple[str, Row]]:
    """Return the errors of the run and of each of its clusters; empty if nothing was measured."""
    prefix = _prefix(report)
    if f"{prefix}cluster" not in report.metrics:
        return []
    clusters = [row for row in report.table if "cluster" in row and row.get(f"{prefix}cluster") is not None]
    named = [(f"cluster {row['cluster']}", row) for row in clusters[:_CLUSTERS]]
    return [("all clusters", report.metrics), *(named if len(clusters) > 1 else [])]


def _draw(axes: Axes, rows: Sequence[tuple[str, Row]], report: Report) -> None:
    prefix = _prefix(report)
    handles = {}
    for way, style in COMPARED.items():
        known = [(place, row) for place, (_, row) in enumerate(rows) if row.get(f"{prefix}{way}") is not None]
        for place, row in known:
            handles[style.label] = axes.errorbar(
                row[f"{prefix}{way}"], place, xerr=row.get(f"{prefix}{way}_se"), linestyle="none", capsize=3,
                color=style.color, marker=style.marker, markersize=style.size + 1.5, fillstyle=style.fill,
                zorder=style.above,
            )[0]  # fmt: skip
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    if len(rows) > _CLUSTERS:
        axes.set_ylabel(f"the first {_CLUSTERS} clusters")
    axes.set_ylim(len(rows) - 0.5, -0.5)
    scale(axes, "x", [row[f"{prefix}{way}"] for _, row in rows for way in COMPARED if f"{prefix}{way}" in row])
    axes.margins(x=0.06)
    axes.set_xlabel("log loss (of a row, natural logarithm)" if _error(report) == "Log loss" else ERROR)
    explain(axes, list(handles.values()), list(handles), abreast=4)


def _alt(report: Report, rows: Sequence[tuple[str, Row]]) -> str:
    """Return the errors of all clusters together and of the first ones."""
    prefix, parts = _prefix(report), []
    for name, row in rows[:_MOST_IN_WORDS]:
        values = [(style.label, row.get(f"{prefix}{way}")) for way, style in COMPARED.items()]
        parts.append(f"{name}: " + ", ".join(f"{label} {value:.3g}" for label, value in values if value is not None))
    return sentences(f"{_error(report)}{_where(report)}: {'; '.join(parts)}")


def _caption(report: Report) -> str:
    clusters = sum("cluster" in row for row in report.table)
    cut = f", the first {_CLUSTERS} of {counted(clusters, 'cluster')}" if clusters > _CLUSTERS else ""
    mean = "; means over the repetitions" if several(report) else ""
    unit = "" if _error(report) == "Log loss" else " (squared unit of the outcome)"
    return sentences(
        f"{_error(report)}{_where(report)}{unit} of each learner's own model, of the models of its cluster and of all"
        f" together, and of what is recommended to it{cut}: {measured(report, n_learners='learner')}{mean}",
        BARS if f"{_prefix(report)}cluster_se" in report.metrics else "",
    )


def _where(report: Report) -> str:
    return " on the center's test rows" if "_test_" in _prefix(report) else " on held-out rows"
