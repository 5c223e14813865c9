"""Figures of coreset: points and centers, colours, price of fairness; of a table what its parts compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.figures.coreset.run import draw_run, run_caption, run_told
from server.figures.coreset.table import draw_table, table_caption, table_told
from server.figures.wording import Arrays, compares

if TYPE_CHECKING:
    from server.results import Report


def draw(report: Report, arrays: Arrays) -> dict[str, bytes]:
    """PNG images by name: of a table of several rows what compares these, else the clusters of the run."""
    return draw_table(report) if compares(report) else draw_run(report, arrays)


def alt_text(report: Report, name: str, arrays: Arrays) -> str:
    """What a reader who cannot see the figure needs to know; empty for one that is not ours."""
    return table_told(report, name) if compares(report) else run_told(report, name, arrays)


def caption(report: Report, name: str) -> str:
    """What a figure draws, with units and sizes; empty for one that is not ours."""
    return table_caption(report, name) if compares(report) else run_caption(report, name)
