"""The figures of a report, one module a protocol: images, their captions, and what they show in words."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Shaped

from protocols.registry import names

if TYPE_CHECKING:
    from server.results import Report

__all__ = ["alt_text", "caption", "figures"]

_OF: dict[str, ModuleType] = {
    protocol: importlib.import_module(f"{__name__}.{protocol}")
    for protocol in names()
    if find_spec(f"{__name__}.{protocol}")
}


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


def caption(report: Report, name: str) -> str:
    """What a figure draws, with units and sizes; what is to be seen in it is left to the eye, and to `alt_text`.

    Parameters
    ----------
    report : Report
    name : str
        Of one of the report's `figures`.

    Returns
    -------
    str
        A few sentences.
    """
    told: str = _OF[report.protocol].caption(report, name) if report.protocol in _OF else ""
    return told or f"{name.replace('_', ' ').capitalize()}."


def alt_text(report: Report, name: str, arrays: Mapping[str, Shaped[np.ndarray, "..."]] | None = None) -> str:
    """What is to be seen in a figure, in numbers, for a reader who cannot see it.

    Parameters
    ----------
    report : Report
    name : str
        Of one of the report's `figures`.
    arrays : Mapping[str, ndarray], optional
        The run's arrays, from which more can be told than from the report alone.

    Returns
    -------
    str
        A few sentences.
    """
    told: str = _OF[report.protocol].alt_text(report, name, arrays or {}) if report.protocol in _OF else ""
    return told or f"Figure: {name.replace('_', ' ')}."
