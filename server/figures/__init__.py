"""The figures of a report, one module a protocol that has any."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Shaped

from server.figures import bc3e, coreset, gp, residual, sec

if TYPE_CHECKING:
    from server.results import Report

__all__ = ["alt_text", "figures"]

_OF: dict[str, ModuleType] = {"bc3e": bc3e, "coreset": coreset, "gp": gp, "residual": residual, "sec": sec}


def figures(report: Report, arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> dict[str, bytes]:
    """Draw what the report has to show.

    Parameters
    ----------
    report : Report
    arrays : Mapping[str, ndarray]
        The run's arrays by documented name, for protocols that draw them.

    Returns
    -------
    dict
        PNG images by file name without ``.png``; empty where there is nothing to draw.
    """
    drawn: dict[str, bytes] = _OF[report.protocol].draw(report, arrays) if report.protocol in _OF else {}
    return drawn


def alt_text(report: Report, name: str) -> str:
    """What a reader who cannot see the figure needs to know."""
    told: str = _OF[report.protocol].alt_text(report, name) if report.protocol in _OF else ""
    return told or f"Figure: {name.replace('_', ' ')}."
