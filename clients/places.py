"""A SuperNode as a site: whether it is simulated, its name, and its directories."""

from __future__ import annotations

import os
from pathlib import Path

from flwr.app import Context

from clients.data.source import is_simulated, partition_of
from clients.ledger import Ledger
from clients.shards import simulated_name
from common.results import partial_results
from protocols.wire.faults import Fault, SiteFault, usable_name


def is_simulation(context: Context) -> bool:
    """Whether this is a simulated SuperNode.

    Examples
    --------
    >>> from flwr.app import RecordDict
    >>> is_simulation(Context(1, 5, {"partition-id": 0, "num-partitions": 2}, RecordDict(), {}))
    True
    """
    return is_simulated(context.node_config)


def own_name(context: Context) -> str:
    """Return the site's name.

    It is ``site`` of the node configuration; in a simulation, the stem of the site's data file or ``site-NUMBER``; else
    ``node-NODE-ID``.

    Raises
    ------
    SiteFault
        If the name is not a file name on every system.

    Examples
    --------
    >>> from flwr.app import RecordDict
    >>> own_name(Context(1, 5, {"site": "north"}, RecordDict(), {})), own_name(Context(1, 5, {}, RecordDict(), {}))
    ('north', 'node-5')
    """
    if "site" in context.node_config:
        name = str(context.node_config["site"])
    elif is_simulation(context):
        name = simulated_name(context.run_config, *partition_of(context.node_config))
    else:
        name = f"node-{context.node_id}"
    if not usable_name(name):
        raise SiteFault(Fault.BAD_SITE_NAME, f"{name!r} is not a usable site name")
    return name


def make_files_private(context: Context) -> None:
    """Make the files of a real site readable by the SuperNode's user only."""
    if not is_simulation(context):
        os.umask(0o077)


def directory_of(name: str, context: Context) -> Path | None:
    """Return the site's own directory: ``site-output-dir``, or in a simulation ``RESULTS-DIR/sites/NAME``."""
    if "site-output-dir" in context.node_config:
        return Path(str(context.node_config["site-output-dir"])).expanduser().absolute()
    if is_simulation(context) and context.run_config.get("output-dir") and "scenario" in context.run_config:
        return partial_results(context.run_config, context.run_id) / "sites" / name
    return None


def real_directory(context: Context) -> Path | None:
    """Return the directory that a real site has set; None if it has set none, or is simulated."""
    return None if is_simulation(context) else directory_of("", context)


def earlier_directory(name: str, context: Context) -> Path | None:
    """Return the directory of an earlier run: the site's own (None if not set), or in a simulation that of ``from``."""
    if is_simulation(context):
        return Path(str(context.run_config.get("from", "")).strip()).expanduser() / "sites" / name
    return directory_of(name, context)


def ledger_of(name: str, context: Context) -> Ledger:
    """Return a site's ledger; a simulated site keeps one only if the data are own data, not those of a scenario."""
    simulated = is_simulation(context)
    without = simulated and not (name and context.run_config.get("protocol"))
    return Ledger(None if without else directory_of(name, context), name, context.run_id, synced=not simulated)
