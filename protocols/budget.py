"""Amounts that a site counts over all runs, and their default limits.

Shared code counts runs, asks and bytes; `Payload.spends` has the other amounts of an ask.
"""

from __future__ import annotations

from typing import NamedTuple

RUNS, ASKS, BYTES_IN, BYTES_OUT = "runs", "asks", "bytes-in", "bytes-out"
MODELS, QUERY_POINTS, ASSIGNMENTS = "models", "query-points", "assignments"

KINDS = {
    RUNS: "runs that asked anything about the data, and repetitions of bc3e that counted right decisions",
    ASKS: "asks about the data; a repeated one counts again",
    MODELS: "models, or values of parameters, that were evaluated on the rows or fitted to them",
    QUERY_POINTS: "points at which a model of the rows predicted",
    ASSIGNMENTS: "assignments of the rows to clusters of the center's, whose sums were answered",
    BYTES_IN: "bytes of the asks",
    BYTES_OUT: "bytes of the answers",
}
"""What is counted, in words."""


class Limit(NamedTuple):
    """Largest amount of one kind that a site gives, in a day and in all.

    Examples
    --------
    >>> DEFAULT[ASKS]
    Limit(day=20000, all=500000)
    """

    day: int
    all: int


DEFAULT = {
    RUNS: Limit(200, 5_000),
    ASKS: Limit(20_000, 500_000),
    MODELS: Limit(50_000, 1_000_000),
    QUERY_POINTS: Limit(1_000_000, 10_000_000),
    ASSIGNMENTS: Limit(20_000, 500_000),
    BYTES_IN: Limit(10**11, 10**12),
    BYTES_OUT: Limit(10**11, 10**12),
}
"""Limits of a site whose policy sets none."""
