"""Figures of SEC: who resembles whom, how many clusters that makes, what it gains, and a table as curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.figures.sec.errors import draw_errors, errors_caption, errors_told
from server.figures.sec.run import draw_run, run_caption, run_told
from server.figures.sec.table import draw_table, table_caption, table_told
from server.figures.wording import Arrays, compares

if TYPE_CHECKING:
    from server.results import Report


def draw(report: Report, arrays: Arrays) -> dict[str, bytes]:
    """PNG images by name: of a table of several rows its curves, else the clustering and the errors of the run."""
    if compares(report):
        return draw_table(report)
    clustering = draw_run(arrays)
    first = {name: clustering.pop(name) for name in ("similarity", "embedding") if name in clustering}
    return first | draw_errors(report) | clustering


def alt_text(report: Report, name: str, arrays: Arrays) -> str:
    """What a reader who cannot see the figure needs to know; empty for one that is not ours."""
    if compares(report):
        return table_told(report, name)
    return errors_told(report) if name == "errors" else run_told(report, name, arrays)


def caption(report: Report, name: str) -> str:
    """What a figure draws, with units and sizes; empty for one that is not ours."""
    if compares(report):
        return table_caption(report, name)
    return errors_caption(report) if name == "errors" else run_caption(report, name)
