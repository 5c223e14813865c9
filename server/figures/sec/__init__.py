"""Figures of Select-Exchange-Cluster: similarity, number of clusters, errors; of a table, curves."""

from __future__ import annotations

from server.figures.classification import classification_figures
from server.figures.figure import Figure
from server.figures.sec.embedding import embedding
from server.figures.sec.errors import errors
from server.figures.sec.run import eigenvalues, gap, similarity
from server.figures.sec.table import table_figures
from server.figures.wording import is_table
from server.report.data import Arrays, Report


def figures(report: Report, arrays: Arrays) -> list[Figure]:
    """Draw the curves of a table with several rows, else the clustering and the errors of the run."""
    if is_table(report):
        return table_figures(report)
    images = (each(report, arrays) for each in (similarity, embedding, errors, gap, eigenvalues))
    where = "on the center's test rows" if "log_loss_test_cluster" in report.metrics else "that the learners held out"
    classes = classification_figures(arrays, where, "every learner with its cluster")
    return [*(figure for figure in images if figure is not None), *classes]
