"""A site's private data: its part of a scenario, or its own file."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clients.data.cache import ObservedConfig, ShardCache, delete_shards
from clients.data.files import numbered_site
from clients.data.source import is_simulated
from clients.logged_fault import LoggedFault
from common.data_places import is_query
from common.results import PREDICT
from protocols import registry
from protocols.wire.faults import Fault, SiteFault

if TYPE_CHECKING:
    from clients.data import DataError, Table
    from clients.data.simulated_sites import SimulatedSites

logger = logging.getLogger("flwr")

_Items = tuple[tuple[str, Any], ...]
"""A configuration as a key of a cache."""

_NODE_KEYS = {"partition-id", "num-partitions", "site", "site-output-dir"}
"""Keys of a node's own configuration that do not change the scenario."""


def has_own_data(config: Mapping[str, Any]) -> bool:
    """Whether a run is on own data: it names a protocol, predicts, or with another ServerApp has no scenario.

    Examples
    --------
    >>> has_own_data({"protocol": "mean", "scenario": "wine"}), has_own_data({"num-server-rounds": 3})
    (True, True)
    >>> has_own_data({"protocol": "", "scenario": "wine"})
    False
    """
    return bool(config.get("protocol")) or config.get("scenario", "") in ("", PREDICT)


def simulated_name(config: Mapping[str, Any], partition: int, partitions: int) -> str:
    """Return the name of a simulated site: that of its data, else ``site-NUMBER``.

    Examples
    --------
    >>> simulated_name({"protocol": "mean", "data": "north=a.csv south=b.csv"}, 1, 2)
    'south'
    >>> simulated_name({"scenario": "wine"}, 1, 2)
    'site-1'
    """
    if has_own_data(config) and config.get("data"):
        return _sites(str(config["data"]), partitions).name(partition, partitions)
    return numbered_site(partition, partitions)


def logged_fault(error: DataError) -> SiteFault:
    """Write a data error to the site's own log, and return the fault with its code."""
    name = error.code.upper().replace("-", "_")
    return LoggedFault(Fault[name] if name in Fault.__members__ else Fault.UNREADABLE_DATA, str(error))


def shard(config: Mapping[str, Any], partition: int, partitions: int, seed: int, *, simulated: bool) -> Any:
    """Return the private shard of a site.

    Parameters
    ----------
    config : Mapping
        Run configuration overridden by the node configuration.
    partition, partitions : int
        Place among the simulated sites, and their number.
    seed : int
        Seed of the scenario's draw.
    simulated : bool
        Whether `data` is of all sites: a folder with a file for each, paths by site, or a function.

    Raises
    ------
    SiteFault
        If the data cannot be used; the details go to the site's own log.
    """
    if not config.get("protocol"):
        return _scenario_shard(_common_settings(config), partition, partitions, seed)
    return _own_shard(*_own_source(config, partition, partitions, simulated=simulated), cached=not simulated)


def own_table(config: Mapping[str, Any], partition: int, partitions: int, *, simulated: bool) -> Table:
    """Return a site's own table with all its columns; parameters and errors as of `shard`."""
    return _own_table(*_own_source(config, partition, partitions, simulated=simulated))


def persons_or_rows(own: Any) -> int | None:
    """Return a shard's number of persons, or of rows if persons are not known; None if rows are read in blocks.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> persons_or_rows(SimpleNamespace(n=3)), persons_or_rows(SimpleNamespace(n=3, person=[0, 0, 1]))
    (3, 2)
    """
    person = getattr(own, "person", None)
    return getattr(own, "n", None) if person is None else len(set(person))


def forget_shards() -> None:
    """Forget all data that this process has read: after a run, or before one whose data may have changed."""
    for cached in (_listed_sites, _own_table, _own_shard, _scenario_shards, _cells):
        cached.cache_clear()


# -- own data ---------------------------------------------------------------------------------------------------------


def _sites(data: str, partitions: int) -> SimulatedSites:
    """Return the sites of a simulation on own data."""
    folder = os.path.expanduser(data)
    return _listed_sites(data, os.stat(folder).st_mtime_ns if os.path.isdir(folder) else 0, partitions)


@lru_cache(maxsize=8)
def _listed_sites(data: str, _changed: int, partitions: int) -> SimulatedSites:
    """Return the sites, listed once; a folder that has changed is listed again."""
    from clients.data import DataError
    from clients.data.simulated_sites import simulated_sites

    try:
        sites = simulated_sites(data)
    except DataError as error:
        raise logged_fault(error) from error
    if sites.number not in (None, partitions):
        raise SiteFault(
            Fault.WRONG_NUMBER_OF_SITES, f"{data} holds the data of {sites.number} sites, there are {partitions} sites"
        )
    return sites


def _own_source(
    config: Mapping[str, Any], partition: int, partitions: int, *, simulated: bool
) -> tuple[str, int, _Items]:
    """Return the source of a site's own data, the time of its last change, and the settings to read it by."""
    source = str(config.get("data", ""))
    if not source:
        raise SiteFault(Fault.NO_DATA)
    if simulated:
        config = _sites(source, partitions).config(partition, partitions, config)
        source = str(config["data"])
    path = Path(source).expanduser()
    changed = path.stat().st_mtime_ns if not is_query(source) and path.is_file() else 0
    return source, changed, tuple(sorted((key, value) for key, value in config.items() if key != "data"))


@lru_cache(maxsize=1)  # a message's asks are answered one after the other
def _own_table(source: str, _changed: int, settings: _Items) -> Table:
    from clients.data import DataError, load

    try:
        return load({**dict(settings), "data": source})
    except DataError as error:
        raise logged_fault(error) from error


@lru_cache(maxsize=1024)  # a process of a simulation answers for many sites, round after round
def _own_shard(source: str, _changed: int, settings: _Items, *, cached: bool) -> Any:
    """Return the shard, read once by this process, and again if its file has changed.

    With `cached`, it is read once for all processes, if the site has a directory for it.
    """
    from clients.data import DataError

    config = {**dict(settings), "data": source}
    cache = _cache(config) if cached else None
    shard = None if cache is None else cache.load(config)
    if shard is not None:
        return shard
    try:
        if cache is None:
            return _read_shard(config)
        observed = ObservedConfig(config)
        return cache.keep(_read_shard(observed), observed)
    except DataError as error:
        raise logged_fault(error) from error


def _cache(config: Mapping[str, Any]) -> ShardCache | None:
    """Return the cache of the site's shards; None if it has no directory, wants no cache, or has no file."""
    wanted = config.get("cache", True)
    if type(wanted) is not bool:
        raise SiteFault(Fault.BAD_CONFIGURATION, f"configuration: cache must be true or false, not {wanted!r}")
    if is_query(str(config["data"])):
        return None
    source = Path(str(config["data"])).expanduser()
    directory = str(config.get("site-output-dir", ""))
    if directory and not wanted:
        delete_shards(Path(directory).expanduser())
    if not wanted or not directory:
        return None
    cache = ShardCache(Path(directory).expanduser(), str(config["protocol"]), source)
    if source.is_file():
        return cache
    cache.delete_stale()  # of a file that was removed
    return None


def _read_shard(config: Mapping[str, Any]) -> Any:
    return registry.room(str(config["protocol"]), "shard").open_shard(config)


# -- a part of a scenario ---------------------------------------------------------------------------------------------


def _common_settings(config: Mapping[str, Any]) -> _Items:
    """Return the settings that all sites of a scenario share; a real site's `data` are its own, never a scenario's."""
    private = _NODE_KEYS if is_simulated(config) else {*_NODE_KEYS, "data"}
    return tuple(sorted((key, value) for key, value in config.items() if key not in private))


def _scenario_shard(settings: _Items, partition: int, partitions: int, seed: int) -> Any:
    shards = _scenario_shards(settings, seed, partitions)
    if isinstance(shards, LoggedFault):
        raise shards
    if len(shards) != partitions:
        raise SiteFault(Fault.WRONG_NUMBER_OF_SITES, f"the scenario has {len(shards)} sites, not {partitions}")
    return shards[partition]


@lru_cache(maxsize=64)  # the worlds of one message: their repetitions and cells
def _scenario_shards(settings: _Items, seed: int, partitions: int) -> list[Any] | LoggedFault:
    """Return all sites' shards, or the fault that prevents them.

    A simulation's worker answers for many sites and rounds; it makes the shards, or logs the fault, once.
    """
    from scenarios.registry import ScenarioError, find

    config = dict(settings)
    try:
        return find(str(config["scenario"])).shards(config, seed, partitions)
    except ScenarioError as error:
        return LoggedFault(Fault.SCENARIO_UNAVAILABLE, str(error))


def cell_settings(config: Mapping[str, Any], lane: str) -> Mapping[str, Any]:
    """Return the settings of a lane's cell in a scenario's table; empty if the scenario has no table.

    The lane of cell c in repetition r is ``r.c`` (strategies/cells.py).
    """
    cells = () if config.get("protocol") else _cells(_common_settings(config))
    if not cells:
        return {}
    place = int(lane.split(".")[1]) if "." in lane else 0
    if place >= len(cells):
        raise SiteFault(Fault.MALFORMED_ASK, f"lane {lane}: the scenario's table has {len(cells)} cells")
    settings: Mapping[str, Any] = cells[place].settings
    return settings


@lru_cache(maxsize=8)
def _cells(settings: _Items) -> Sequence[Any]:
    from scenarios.registry import ScenarioError, find, select_cells

    config = dict(settings)
    try:
        scenario = find(str(config.get("scenario", "")))
    except ScenarioError:
        return ()  # the error is raised where the shard is read
    try:
        return select_cells(scenario, config)
    except ScenarioError as error:
        raise LoggedFault(Fault.SCENARIO_UNAVAILABLE, str(error)) from error
