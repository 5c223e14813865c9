"""Figures of gp: predictions, their calibration, the experts and their fit; of a table what its parts compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.figures.gp.expert_count import draw_numbers, numbers_caption, numbers_told
from server.figures.gp.experts import draw_experts, experts_caption, experts_told
from server.figures.gp.model import draw_model, model_caption, model_told
from server.figures.gp.predictions import answers_caption, answers_told, draw_answers
from server.figures.gp.table import draw_table, table_caption, table_told
from server.figures.wording import Arrays, compares

if TYPE_CHECKING:
    from server.results import Report


def draw(report: Report, arrays: Arrays) -> dict[str, bytes]:
    """PNG images by name: of a table of several rows what compares these, else the predictions and the model."""
    if compares(report):
        return draw_table(report)
    predicted = draw_answers(report, arrays) | draw_numbers(arrays)
    return predicted | draw_experts(report, arrays) | draw_model(report, arrays)


def alt_text(report: Report, name: str, arrays: Arrays) -> str:
    """What a reader who cannot see the figure needs to know; empty for one that is not ours."""
    if compares(report):
        return table_told(report, name)
    if name == "fewer":
        return numbers_told(arrays)
    return answers_told(report, name, arrays) or experts_told(report, name, arrays) or model_told(report, name, arrays)


def caption(report: Report, name: str) -> str:
    """What a figure draws, with units and sizes; empty for one that is not ours."""
    if compares(report):
        return table_caption(report, name)
    if name == "fewer":
        return numbers_caption(report)
    return answers_caption(report, name) or experts_caption(report, name) or model_caption(report, name)
