"""``consilience check``: a site's data, before anything is sent."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from common.extras import MissingLibraryError
from common.settings import SettingError
from consilience.assignments import parse
from consilience.commands import terminal


def check(
    file: Annotated[str, typer.Argument(help="A site's CSV, Parquet or NPZ file, or package.module:function.")],
    protocol: Annotated[str, typer.Option(help="The protocol it is meant for.")],
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A key of the run's or of the node's own configuration."),
    ] = None,
    policy: Annotated[Path | None, typer.Option(help="The site's policy file: show what it refuses, too.")] = None,
) -> None:
    """Check a site's data: print what of it would be used and what would leave the site. Nothing is sent."""
    from clients.data import DataError
    from protocols import registry
    from protocols.settings import check_libraries, checked, declared, run_keys, site_keys

    if not registry.exists(protocol):
        terminal.fail(f"no check for protocol {protocol!r}; there is: {', '.join(registry.names())}", terminal.USAGE)
    try:
        node_keys = site_keys(protocol)
        settings = parse(assignments or (), {**run_keys(), **node_keys})
        node = {key: value for key, value in settings.items() if key in node_keys}
        run = {key: value for key, value in settings.items() if key not in node_keys}
        config = checked(declared() | run | {"data": file}) | node
    except SettingError as error:
        terminal.fail(str(error), terminal.USAGE)
    try:
        lines = registry.room(protocol, "check").check_lines(config)
        if policy is not None:
            shard = registry.room(protocol, "shard").open_shard(config)
            lines += ["", *_policy_lines(policy, protocol, shard, config)]
        typer.echo("\n".join(lines))
        check_libraries(config, protocol)
    except MissingLibraryError as error:  # the data are good, and are checked without it
        typer.echo(f"\nbefore a run: {error}")
    except DataError as error:
        terminal.fail(str(error))


def _policy_lines(file: Path, protocol: str, shard: Any, config: Mapping[str, Any]) -> list[str]:
    """Return what the policy refuses of the protocol, given the site's shard."""
    from clients.policy import Policy, PolicyError, check_lines
    from protocols.wire.message import asks_of

    try:
        n_rows = getattr(shard, "n", None)  # None: the shard is read in blocks
        return check_lines(Policy.read(file.expanduser()), asks_of(protocol), n_rows, int(config.get("min-rows", 0)))
    except PolicyError as error:
        terminal.fail(str(error))
