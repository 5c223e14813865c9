"""Figures of fair clustering: points and centers, profiles, balance, price of fairness; of a table, its parts."""

from __future__ import annotations

from server.figures.coreset.balance import balance
from server.figures.coreset.clusters import clusters
from server.figures.coreset.price import price
from server.figures.coreset.profile import profile
from server.figures.coreset.table import table_figures
from server.figures.figure import Figure
from server.figures.wording import is_table
from server.report.data import Arrays, Report


def figures(report: Report, arrays: Arrays) -> list[Figure]:
    """Draw the parts of a table with several rows, else the clusters of the run."""
    if is_table(report):
        return table_figures(report)
    images = (each(report, arrays) for each in (clusters, profile, balance, price))
    return [figure for figure in images if figure is not None]
