"""Notes on a site's table for every protocol: what the preparation does, and what a person should look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from clients.data.inspection import cautions, warnings_about
from clients.data.preparation import prepare
from clients.data.source import read_source
from clients.data.table import DataError


class Advice(NamedTuple):
    """Notes on a site's table.

    Attributes
    ----------
    prepared : list of str
        Steps of the preparation, with counts.
    warnings : list of str
        Sentences on the table before preparation.
    cautions : list of str
        The warnings that may change a decision.
    """

    prepared: list[str]
    warnings: list[str]
    cautions: list[str]


def advice_of(config: Mapping[str, object]) -> Advice:
    """Read a site's table and inspect it. There is no advice on labels, or on rows in blocks.

    Parameters
    ----------
    config : Mapping
        Run configuration overridden by the node configuration.
    """
    try:
        table = read_source(config)
        return Advice(prepare(table, config).notes, warnings_about(table, config), cautions(table, config))
    except DataError:  # the protocol's own lines say what is wrong
        return Advice([], [], [])


def advice_lines(config: Mapping[str, object]) -> list[str]:
    """Return the advice as lines of `consilience check`; empty without advice."""
    prepared, warnings, _ = advice_of(config)
    lines = ["", "Prepared at this site", *(f"  {note}" for note in prepared)] if prepared else []
    return [*lines, "", "Look at", *(f"  {warning}" for warning in warnings)] if warnings else lines
