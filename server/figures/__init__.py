"""Figures of a report.

A protocol's module ``server/figures/NAME`` (the room ``figures`` of `protocols.registry`) has a function ``figures``
with the arguments and the result of the one here. It is called once, at the end of a run.
"""

from __future__ import annotations

from protocols import registry
from server.figures.figure import Figure
from server.report.data import Arrays, Report

__all__ = ["Figure", "figures"]


def figures(report: Report, arrays: Arrays) -> list[Figure]:
    """Draw the figures of a run, in the order in which the page shows them.

    Parameters
    ----------
    report : Report
        Report of the run.
    arrays : Mapping[str, ndarray]
        The run's arrays by documented name.

    Returns
    -------
    list of Figure
        Empty for a protocol without figures, or a run without anything to draw.
    """
    if not (registry.exists(report.protocol) and registry.has_room(report.protocol, "figures")):
        return []
    return list(registry.room(report.protocol, "figures").figures(report, arrays))
