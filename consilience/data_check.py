"""Check of a site's rows: which data a run would use, and which would leave the site."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients.data.in_memory import hold
from clients.data.simulated_sites import simulated_sites
from clients.data.source import without_notes
from consilience.python_data import is_one_site, named_data, table_of_rows
from protocols import registry
from server.preflight import check_columns, check_together
from server.report.protocol import report_of


@dataclass(frozen=True)
class DataCheck:
    """Result of a check of a site's rows.

    Attributes
    ----------
    protocol : str
        The protocol.
    lines : tuple of str
        The data that a run would use, the data that would leave the site, and those that never would.

    Examples
    --------
    >>> print(DataCheck("mean", ("rows: 3", "", "What would leave this site", "  the mean")).text)
    rows: 3
    <BLANKLINE>
    What would leave this site
      the mean
    """

    protocol: str
    lines: tuple[str, ...]

    @classmethod
    def of(cls, rows: Any, protocol: str, config: Mapping[str, Any]) -> DataCheck:
        """Check the rows of a site, or of several as of `consilience.run`; raises as the protocol's ``check_lines``."""
        folder = isinstance(rows, str | Path) and Path(rows).expanduser().is_dir()
        if folder or isinstance(rows, list | tuple) or (isinstance(rows, Mapping) and not is_one_site(rows)):
            place, tables = named_data(rows, None)  # held as long as they are checked
            sites = simulated_sites(place)
            check_columns(sites, protocol, config)
            check_together(sites, protocol, config, report_of(protocol).center_files(config, scenario=False))
            by_site = tables.tables if tables else dict(zip(sites.names, sites.paths, strict=True))
            parts = [_lines(name, by_site[name], protocol, config) for name in sites.names]
            return cls(protocol, tuple(line for lines in parts for line in (*lines, ""))[:-1])
        return cls(protocol, tuple(_lines("data", rows, protocol, config)))

    @property
    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f'<pre style="white-space: pre-wrap">{html.escape(self.text)}</pre>'


def _lines(name: str, rows: Any, protocol: str, config: Mapping[str, Any]) -> list[str]:
    """Return the lines of one site."""
    if isinstance(rows, str | Path):
        source, tables = str(rows), None
    else:
        tables = hold({name: table_of_rows(name, rows)})  # as long as the lines are made
        source = tables.reference
    return site_lines(protocol, {**config, "data": source})


def site_lines(protocol: str, config: Mapping[str, Any]) -> list[str]:
    """Return the protocol's lines on a site's data, and the advice; errors as in `DataCheck.of`."""
    from clients.data.advice import advice_lines

    with without_notes():  # the lines have them
        return [*registry.room(protocol, "check").check_lines(config), *advice_lines(config)]
