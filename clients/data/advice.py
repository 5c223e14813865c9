"""Notes on a site's table for every protocol: what the preparation does, and what a person should look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from clients.data.inspection import inspect, values_of
from clients.data.preparation import empty_columns, prepare
from clients.data.source import read_source
from clients.data.table import DataError


class Advice(NamedTuple):
    """Notes on a site's table.

    Attributes
    ----------
    prepared : list of str
        Steps of the preparation, with counts.
    empty : list of str
        As of `PreparedTable`.
    warnings : list of str
        Sentences on the table before preparation.
    cautions : list of str
        The warnings that may change a decision.
    values : dict of set of str
        As of `values_of`.
    """

    prepared: list[str]
    empty: list[str]
    warnings: list[str]
    cautions: list[str]
    values: dict[str, set[str]]


def advice_of(config: Mapping[str, object]) -> Advice:
    """Read a site's table and inspect it. There is no advice on labels, or on rows in blocks.

    Parameters
    ----------
    config : Mapping
        Run configuration overridden by the node configuration.
    """
    try:
        table = read_source(config)
        done = prepare(table, config)
        return Advice(done.notes, done.empty, *inspect(table, config), values_of(table, config))
    except DataError:  # the protocol's own lines say what is wrong
        return Advice([], [], [], [], {})


def advice_lines(config: Mapping[str, object]) -> list[str]:
    """Return the advice as lines of `consilience check`; empty without advice."""
    prepared, empty, warnings, *_ = advice_of(config)
    done = [*prepared, *empty_columns(empty)]
    lines = ["", "Prepared at this site", *(f"  {note}" for note in done)] if done else []
    return [*lines, "", "Look at", *(f"  {warning}" for warning in warnings)] if warnings else lines
