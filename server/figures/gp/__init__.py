"""Figures of gp: predictions, their calibration, the experts and their fit; of a table what its parts compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.figures.gp.answers import answers_told, draw_answers
from server.figures.gp.experts import draw_experts, experts_told
from server.figures.gp.model import draw_model, model_told
from server.figures.gp.shown import Arrays
from server.figures.gp.table import draw_table, table_told

if TYPE_CHECKING:
    from server.results import Report


def draw(report: Report, arrays: Arrays) -> dict[str, bytes]:
    """PNG images by name: of a table of several rows what compares these, else the predictions and the model."""
    if _compares(report):
        return draw_table(report)
    return draw_answers(report, arrays) | draw_experts(report, arrays) | draw_model(report, arrays)


def alt_text(report: Report, name: str) -> str:
    """What a reader who cannot see the figure needs to know; empty for one that is not ours."""
    if _compares(report):
        return table_told(report, name)
    return answers_told(report, name) or experts_told(report, name) or model_told(report, name)


def _compares(report: Report) -> bool:
    """Whether this is a table of several settings."""
    return report.metrics.get("n_cells", 1) > 1
