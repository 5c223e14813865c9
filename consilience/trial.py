"""A first run on a folder of files without any configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clients.data.files import read_table, site_files, site_name
from clients.data.inspection import inspect, unlike_values, values_of
from clients.data.preparation import prepare
from clients.data.proposal import Proposal, check_proposals
from clients.data.table import DataError, Table
from common.grouping import group_messages
from protocols import registry
from server.report.formatting import listed

_MOST_WARNINGS = 8


@dataclass(frozen=True)
class Trial:
    """The protocol that fits a folder best, and its settings.

    Attributes
    ----------
    protocol : str
        Name of the protocol.
    settings : Mapping[str, str]
        Settings of the run, beside protocol and data.
    lines : tuple of str
        Lines for the user on the files and on the run.
    """

    protocol: str
    settings: Mapping[str, str]
    lines: tuple[str, ...]

    @classmethod
    def of(cls, folder: Path, target: str = "", protocol: str | None = None) -> Trial:
        """Inspect a folder, and choose a protocol.

        Parameters
        ----------
        folder : Path
            One file for every site.
        target : str
            The outcome's column; empty: one with a usual name.
        protocol : str or None
            The protocol; None: the one that fits best.

        Raises
        ------
        DataError
            If the files cannot be read, or fit no protocol.
        RegistryError
            If there is no such protocol.
        """
        tables = {site_name(path): read_table(path) for path in site_files(folder)}
        names = registry.names() if protocol is None else (registry.find(protocol),)
        proposals = {}
        for name in names:
            # A protocol that is named and has no such module is refused.
            fits = protocol is not None or registry.has_room(name, "fit")
            proposal = registry.room(name, "fit").propose(tables, target) if fits else None
            if proposal is not None:
                proposals[name] = proposal
        check_proposals(proposals, tables, target)
        best = max(proposals, key=lambda name: proposals[name].fit)
        return cls(best, proposals[best].settings, tuple(_lines(tables, proposals, best)))


def _lines(tables: Mapping[str, Table], proposals: Mapping[str, Proposal], best: str) -> list[str]:
    chosen = proposals[best]
    sizes = [f"{name} ({table.n:,} rows)" for name, table in tables.items()]
    others = [f"{name} ({each.why})" for name, each in proposals.items() if name != best]
    lines = [f"sites: {listed(sizes)}", f"fits: {best}, because {chosen.why}"]
    lines += [f"also: {listed(others)}"] if others else []
    lines += [f"set: {key}={value}" for key, value in chosen.settings.items()]
    lines += [f"left out: {name!r} {why}" for name, why in chosen.left_out.items()]
    lines += group_messages(_of_sites(tables, chosen.settings, prepared=True))
    warnings = [
        *unlike_values({name: values_of(table, chosen.settings) for name, table in tables.items()}),
        *group_messages(_of_sites(tables, chosen.settings, prepared=False)),
    ]
    more = len(warnings) - _MOST_WARNINGS
    return [*lines, *(f"look at: {each}" for each in warnings[:_MOST_WARNINGS]), *([f"and {more} more"] * (more > 0))]


def _of_sites(tables: Mapping[str, Table], settings: Mapping[str, str], *, prepared: bool) -> list[tuple[str, str]]:
    """Return the steps of the preparation at each site, or the warnings."""
    notes_by_site = []
    for name, table in tables.items():
        try:
            notes = prepare(table, settings).notes if prepared else inspect(table, settings).warnings
        except DataError as error:
            notes = [str(error)]
        notes_by_site += [(name, "; ".join(notes))] if prepared and notes else [(name, note) for note in notes]
    return notes_by_site
