"""``consilience keys`` and ``consilience init``: the keys of a run, on the terminal and in a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from common.settings import Setting, SettingError
from consilience.commands import terminal


def list_keys(
    protocol: Annotated[
        str | None,
        typer.Argument(
            help="Only the keys that a run or a site of this protocol has.", autocompletion=terminal.protocol_names
        ),
    ] = None,
) -> None:
    """List every key: its default, what it may be, and what it is for."""
    from consilience.key_tables import default_of
    from protocols import registry
    from protocols.settings import RunSettings, SiteSettings

    try:
        names = registry.names() if protocol is None else (registry.find(protocol),)
    except SettingError as error:
        terminal.fail(str(error), terminal.USAGE)

    def print_keys(title: str, keys: Mapping[str, Setting]) -> None:
        typer.echo(title)
        rows = ((each.key, default_of(each), each.range, each.meaning) for each in keys.values())
        terminal.print_table(("key", "default", "may be", "meaning"), rows)

    print_keys("Keys of every run", RunSettings.keys())
    for name in names:
        print_keys(f"\nKeys of a run of {name}", registry.room(name, "settings").Settings.keys())
    print_keys("\nKeys that a real site sets in its node configuration only", SiteSettings.keys())
    for name in names:
        print_keys(f"\nKeys of a real site of {name}", registry.room(name, "settings").Consents.keys())


def init(
    what: Annotated[str, typer.Argument(metavar="PROTOCOL|SCENARIO", help="What the file is to run.")],
    output: Annotated[Path, typer.Option(metavar="FILE", help="The file; one that is there is kept.")] = Path(
        "run.toml"
    ),
) -> None:
    """Write a file of settings with comments, for `consilience run --config`: a protocol on own data, or a scenario."""
    from consilience.key_tables import config_file
    from protocols import registry
    from scenarios.registry import ScenarioError, find

    try:
        text = config_file(what, "") if registry.exists(what) else config_file(find(what).protocol, what)
    except ScenarioError as error:
        terminal.fail(f"{error}, or a protocol: {', '.join(registry.names())}", terminal.USAGE)
    path = output.expanduser()
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        terminal.fail(f"{output} is there already, and is kept; name another --output")
    except OSError as error:
        terminal.fail(f"{output} cannot be written: {error.strerror or error}")
    typer.echo(f"{path.absolute()}: edit it, then type: consilience run --config {output}")
