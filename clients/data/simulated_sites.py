"""The sites of a simulation on own data: their names, and the places of their data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients.data.files import numbered_site, site_files, site_name
from clients.data.source import find_function
from clients.data.table import DataError
from common.data_places import is_function, is_query, paths_by_site, shown_place
from protocols.wire.faults import usable_name

ALL_SITES = "data-of-all-sites"
"""Key of a simulated site's configuration: ``data`` of all sites together."""


@dataclass(frozen=True)
class SimulatedSites:
    """The sites behind the key ``data`` of a simulation.

    Attributes
    ----------
    data : str
        A folder, paths by site, or a function.
    names : tuple of str
        The sites' names, in order; empty: a function without names, for any number of sites.
    paths : tuple of Path
        The sites' files in the same order; empty: a function returns the data.

    Examples
    --------
    >>> sites = simulated_sites("north=a.csv south=b.csv")
    >>> sites.number, sites.name(1, 2), sites.source(1)
    (2, 'south', 'b.csv')
    """

    data: str
    names: tuple[str, ...]
    paths: tuple[Path, ...] = ()

    @property
    def number(self) -> int | None:
        """Number of sites; None: any."""
        return len(self.names) or None

    def name(self, place: int, n_sites: int) -> str:
        """Return the name of the site at a place."""
        return self.names[place] if self.names else numbered_site(place, n_sites)

    def source(self, place: int) -> str:
        """Return ``data`` of the site at a place: its file, or the function."""
        return str(self.paths[place]) if self.paths else self.data

    def config(self, place: int, n_sites: int, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration with which the site at a place reads its data.

        Parameters
        ----------
        place, n_sites : int
            Place of the site, and number of sites.
        config : Mapping
            Run configuration.
        """
        own = {"data": self.source(place), ALL_SITES: self.data, "partition-id": place, "num-partitions": n_sites}
        return {**config, **own}


def simulated_sites(data: str) -> SimulatedSites:
    """Return the sites of a simulation.

    Parameters
    ----------
    data : str
        A folder with a file for each site; ``north=a.csv south=b.csv``; or ``package.module:function``, a function of a
        site's place and the number of sites. Its optional attribute ``sites`` has the sites' names.

    Raises
    ------
    DataError
        If there is no such folder or function, or a site has no usable name.

    Examples
    --------
    >>> simulated_sites("north=a.csv south=b.csv").names
    ('north', 'south')
    """
    if is_function(data):
        names = tuple(getattr(find_function(data), "sites", ()))
        return SimulatedSites(data, check_site_names(data, names))
    if is_query(data):
        raise DataError(
            f"{shown_place(data)}: is of one site, which sets it and its database in its own configuration; a"
            " simulation takes files, or a function that asks the database",
            "bad-configuration",
        )
    by_site = paths_by_site(data)
    if by_site:
        names = check_site_names(data, sorted(by_site))
        return SimulatedSites(data, names, tuple(Path(by_site[name]).expanduser() for name in names))
    files = site_files(data)
    return SimulatedSites(data, tuple(map(site_name, files)), tuple(files))


def check_site_names(source: str, names: Any) -> tuple[str, ...]:
    """Return the sites' names; a `DataError` if one occurs twice, or is not a file name on every system."""
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str) or not usable_name(name):
            raise DataError(
                f"{source}: {name!r} is no site's name, which has A-Z, a-z, digits, dot, hyphen and underscore only, 64"
                " at most; rename the site",
                "bad-configuration",
            )
        if name in seen:
            raise DataError(f"{source}: two sites are called {name!r}; rename one", "bad-configuration")
        seen.add(name)
    return tuple(names)
