"""Figures of distributed Gaussian processes: predictions, or of classes their reliability, experts and fit."""

from __future__ import annotations

from server.figures.classification import classification_figures
from server.figures.figure import Figure
from server.figures.gp.expert_count import fewer
from server.figures.gp.experts import experts
from server.figures.gp.model import fit, inputs
from server.figures.gp.predictions import calibration, predictions
from server.figures.gp.table import table_figures
from server.figures.wording import is_table
from server.report.data import Arrays, Report


def figures(report: Report, arrays: Arrays) -> list[Figure]:
    """Draw the parts of a table with several rows, else the predictions and the model of the run."""
    if is_table(report):
        return table_figures(report)
    images = (each(report, arrays) for each in (predictions, calibration, fewer, experts, fit, inputs))
    classes = classification_figures(arrays, "at the query points", "the experts together")
    return [*classes, *(figure for figure in images if figure is not None)]
