"""Figures of coreset: points and centers, colours of every cluster; of a table what its parts compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.figures.coreset.run import Arrays, draw_run, run_told
from server.figures.coreset.table import draw_table, table_told

if TYPE_CHECKING:
    from server.results import Report


def draw(report: Report, arrays: Arrays) -> dict[str, bytes]:
    """PNG images by name: of a table of several rows what compares these, else the clusters of the run."""
    return draw_table(report) if _compares(report) else draw_run(report, arrays)


def alt_text(report: Report, name: str) -> str:
    """What a reader who cannot see the figure needs to know; empty for one that is not ours."""
    return table_told(report, name) if _compares(report) else run_told(report, name)


def _compares(report: Report) -> bool:
    """Whether this is a table of several settings."""
    return report.metrics.get("n_cells", 1) > 1
