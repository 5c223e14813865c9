"""Figures of residual: errors and power over the iterations, and a table as bars, as curves, or panel by panel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.figures.residual.common import Arrays
from server.figures.residual.run import draw_run, run_told
from server.figures.residual.table import draw_table, table_told

if TYPE_CHECKING:
    from server.results import Report


def draw(report: Report, arrays: Arrays) -> dict[str, bytes]:
    """PNG images by name: of a table of several rows what compares these, else how the run went."""
    return draw_table(report, arrays) if _compares(report) else draw_run(report, arrays)


def alt_text(report: Report, name: str) -> str:
    """What a reader who cannot see the figure needs to know; empty for one that is not ours."""
    return table_told(report, name) if _compares(report) else run_told(report, name)


def _compares(report: Report) -> bool:
    """Whether this is a table of several settings."""
    return report.metrics.get("n_cells", 1) > 1
