"""``consilience prepare``: data of a protocol from raw rows."""

from pathlib import Path
from typing import Annotated, Any

import typer

from common.settings import SettingError
from consilience.assignments import parse
from consilience.commands import terminal
from protocols import registry


def prepare(
    protocol: Annotated[str, typer.Argument(help="The protocol that the data are meant for.")],
    data: Annotated[Path, typer.Argument(help="A folder with a CSV, Parquet or NPZ file of raw rows for every site.")],
    output: Annotated[Path, typer.Option(help="Folder for the prepared files, one a site.")],
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Which columns and models, e.g. target=kind.")
    ] = None,
) -> None:
    """Make the data of a protocol from the raw rows of all sites, in one place."""
    from clients.data import DataError
    from consilience.api import prepare as prepare_data

    try:
        if not registry.has_room(registry.find(protocol), "prepare"):
            terminal.fail(f"{protocol} runs on raw rows: there is nothing to prepare", terminal.USAGE)
        room: Any = registry.room(protocol, "prepare")
        options = parse(assignments or (), room.Options.keys())
        prepare_data(registry.room(protocol, "settings").Settings(), data, output, **options)
    except SettingError as error:
        terminal.fail(str(error), terminal.USAGE)
    except DataError as error:
        terminal.fail(str(error))
