"""Figures of attribute-distributed regression: errors, power and parts of the agents; of a table, its rows."""

from __future__ import annotations

from server.figures.figure import Figure
from server.figures.residual.run import run_figures
from server.figures.residual.table import table_figures
from server.figures.wording import is_table
from server.report.data import Arrays, Report


def figures(report: Report, arrays: Arrays) -> list[Figure]:
    """Draw the rows of a table with several rows, else the course of the run."""
    return table_figures(report, arrays) if is_table(report) else run_figures(report, arrays)
