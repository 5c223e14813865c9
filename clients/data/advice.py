"""Lines of `consilience check` that hold for every protocol: what was prepared, and what to look at."""

from __future__ import annotations

from collections.abc import Mapping

from clients.data.inspection import warnings_about
from clients.data.preparation import prepare
from clients.data.source import read_source
from clients.data.table import DataError


def advice_lines(config: Mapping[str, object]) -> list[str]:
    """Return what the preparation does to a site's table, and what a person should look at; empty if there is nothing.

    Parameters
    ----------
    config : Mapping
        Run configuration overridden by the node configuration.
    """
    try:
        table = read_source(config)
        done = prepare(table, config).notes
    except DataError:  # labels, or rows in pieces: the protocol's own lines say what is wrong
        return []
    lines = ["", "Prepared at this site", *(f"  {note}" for note in done)] if done else []
    warnings = warnings_about(table, config)
    return [*lines, "", "Look at", *(f"  {warning}" for warning in warnings)] if warnings else lines
