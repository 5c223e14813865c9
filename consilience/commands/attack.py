"""``consilience attack``: the rows of a site that a lying fusion center could read."""

from pathlib import Path
from typing import Annotated

import typer

from common.settings import SettingError
from consilience.assignments import parse
from consilience.commands import terminal
from protocols import registry


def attack(
    protocol: Annotated[str, typer.Argument(help="The protocol.")],
    data: Annotated[Path, typer.Option(metavar="FILE", help="The site's CSV, Parquet or NPZ file.")],
    policy: Annotated[
        Path | None, typer.Option(help="The site's policy file; without one, the default policy.")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A key of the run's or of the node's own configuration."),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs that the fusion center may start.")] = 1,
    only: Annotated[str, typer.Option(metavar="NAME", help="Play this attack only.")] = "",
) -> None:
    """Play a fusion center that lies against a site's own file, and print how many rows come out. Nothing is sent."""
    from clients.data import DataError
    from clients.policy import PolicyError
    from common.extras import MissingLibraryError
    from consilience.attack.playing import play
    from protocols.settings import run_keys, site_keys

    try:
        settings = parse(assignments or (), {**run_keys(), **site_keys(registry.find(protocol))})
        for outcome in play(protocol, data, policy, settings, runs, only):
            typer.echo("\n".join(outcome.lines))
    except SettingError as error:
        terminal.fail(str(error), terminal.USAGE)
    except (DataError, PolicyError, MissingLibraryError) as error:
        terminal.fail(str(error))
