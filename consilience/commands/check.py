"""``consilience check``: a site's data, before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from common.data_places import paths_by_site
from common.extras import MissingLibraryError
from common.settings import SettingError
from consilience.assignments import parse
from consilience.commands import terminal
from consilience.data_check import site_lines
from protocols import registry

if TYPE_CHECKING:
    from clients.policy import Policy


def check(
    file: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A site's CSV, Parquet or NPZ file, package.module:function, or a folder with a file for every site.",
        ),
    ],
    protocol: Annotated[
        str, typer.Option(help="The protocol it is meant for.", autocompletion=terminal.protocol_names)
    ],
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A key of the run's or of the node's own configuration."),
    ] = None,
    policy: Annotated[Path | None, typer.Option(help="The site's policy file: show what it refuses, too.")] = None,
) -> None:
    """Check a site's data: print what of it would be used and what would leave the site. Nothing is sent."""
    from clients.data import DataError
    from protocols.settings import check_libraries, check_task, checked, declared, run_keys, site_keys
    from server.preflight import refuse_other_protocols

    try:
        node_keys = site_keys(registry.find(protocol))
        settings = parse(assignments or (), {**run_keys(), **node_keys})
        node = {key: value for key, value in settings.items() if key in node_keys}
        run = {key: value for key, value in settings.items() if key not in node_keys}
        refuse_other_protocols(run, protocol)
        config = checked(declared() | run | {"data": file, "protocol": protocol}) | node
        check_task(config, protocol)
    except SettingError as error:
        terminal.fail(str(error), terminal.USAGE)
    try:
        if _is_of_several(file):
            _check_together(protocol, config, policy)
        else:
            typer.echo("\n".join(_site_lines(protocol, config, policy)))
        check_libraries(config, protocol)
    except MissingLibraryError as error:  # the data are good, and are checked without it
        typer.echo(f"\nbefore a run: {error}")
    except DataError as error:
        terminal.fail(str(error))


def _is_of_several(data: str) -> bool:
    """Whether data are of several sites: a folder, or paths by site."""
    return Path(data).expanduser().is_dir() or bool(paths_by_site(data))


def _site_lines(protocol: str, config: Mapping[str, Any], policy: Path | None) -> list[str]:
    """Return the check of a site's data, and the refusals of its policy and budget."""
    from clients.consents import with_floors
    from clients.data.source import without_notes
    from clients.policy import Policy, PolicyError

    try:
        own = None if policy is None else Policy.read(policy.expanduser())
    except PolicyError as error:
        terminal.fail(str(error))
    if own is None:
        return [*site_lines(protocol, config), *_budget_lines(Policy(), config)]
    with without_notes():  # the lines have them
        shard = registry.room(protocol, "shard").open_shard(config)
    lines = site_lines(protocol, with_floors(config, own, protocol))
    return [*lines, "", *_policy_lines(own, protocol, shard, config), *_budget_lines(own, config)]


def _check_together(protocol: str, config: Mapping[str, Any], policy: Path | None) -> None:
    """Print the check of each site of a simulation, its errors, and the differences between the sites.

    Raises
    ------
    DataError
        If some data cannot be used.
    """
    from clients.data import DataError
    from clients.data.columns import one_error
    from clients.data.simulated_sites import simulated_sites
    from server.preflight import check_columns, check_together
    from server.report.protocol import report_of

    sites = simulated_sites(str(config["data"]))
    errors, sources = {}, {}
    for place, (name, path) in enumerate(zip(sites.names, sites.paths, strict=True)):
        try:
            lines = _site_lines(protocol, sites.config(place, len(sites.names), config), policy)
            typer.echo("\n".join([f"site {name}", *(f"  {line}".rstrip() for line in lines), ""]))
        except DataError as error:
            errors[name], sources[name] = error, str(path)
    if errors:
        raise one_error(errors, sources)
    check_columns(sites, protocol, config)
    for note in check_together(sites, protocol, config, report_of(protocol).center_files(config, scenario=False)):
        typer.echo(f"together: {note}")
    typer.echo(f"together: the files of {len(sites.names)} sites fit each other")


def _budget_lines(policy: Policy, config: Mapping[str, Any]) -> list[str]:
    """Return the lines on the data's budget; none without a directory for it."""
    from clients.budget import Budget, budget_lines
    from protocols.wire.faults import SiteFault

    if not config.get("site-output-dir"):
        return []
    try:
        account = Budget(Path(str(config["site-output-dir"])).expanduser(), config, policy.budget, 0).account()
    except SiteFault as error:
        terminal.fail(str(error))
    return ["", "What this site has answered about these data, over all runs", *budget_lines(account, policy.budget)]


def _policy_lines(policy: Policy, protocol: str, shard: Any, config: Mapping[str, Any]) -> list[str]:
    """Return the policy's refusals of the protocol's asks, given the site's shard."""
    from clients.policy import check_lines
    from clients.shards import persons_or_rows
    from protocols.wire.message import asks_of

    return check_lines(policy, asks_of(protocol), persons_or_rows(shard), int(config.get("min-rows", 0)))
