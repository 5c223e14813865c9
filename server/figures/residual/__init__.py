"""Figures of residual: errors, power and coefficients of a run; a table as bars, as curves, or panel by panel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.figures.residual.descriptions import table_caption, table_told
from server.figures.residual.run import draw_run, run_caption, run_told
from server.figures.residual.table import draw_table
from server.figures.wording import Arrays, compares

if TYPE_CHECKING:
    from server.results import Report


def draw(report: Report, arrays: Arrays) -> dict[str, bytes]:
    """PNG images by name: of a table of several rows what compares these, else how the run went."""
    return draw_table(report, arrays) if compares(report) else draw_run(report, arrays)


def alt_text(report: Report, name: str, arrays: Arrays) -> str:
    """What a reader who cannot see the figure needs to know; empty for one that is not ours."""
    return table_told(report, name, arrays) if compares(report) else run_told(report, name, arrays)


def caption(report: Report, name: str) -> str:
    """What a figure draws, with units and sizes; empty for one that is not ours."""
    return table_caption(report, name) if compares(report) else run_caption(report, name)
