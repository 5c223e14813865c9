"""``consilience try``: from a folder of files to a first result."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from common.settings import SettingError
from consilience.commands import results, terminal
from consilience.commands.run import Engine, conclude, launch
from consilience.run_request import simulated_run


def try_folder(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with one file for every site.")],
    target: Annotated[str, typer.Option(help="The outcome's column; default: one with a usual name, such as y.")] = "",
    protocol: Annotated[str | None, typer.Option(help="The protocol to try; default: the one that fits best.")] = None,
    look: Annotated[bool, typer.Option("--look", help="Only say what would be done.")] = False,
    open_page: terminal.Open = False,
) -> None:
    """Look at a folder of files: say which protocol fits, and what to clean; run it here, and print how to go on."""
    from clients.data import DataError
    from consilience.trial import Trial
    from server.preflight import REFUSALS

    try:
        trial = Trial.of(folder, target, protocol)
    except (DataError, SettingError) as error:
        terminal.fail(str(error))
    typer.echo("\n".join(trial.lines))
    assignments = [f"{key}={value}" for key, value in trial.settings.items()]
    command = ["consilience", "run", "--protocol", trial.protocol, "--data", str(folder)]
    typed = shlex.join([*command, *(part for each in assignments for part in ("--set", each))])
    if look:
        typer.echo(f"\nto run it: {typed}")
        return
    try:
        texts = {"scenario": None, "protocol": trial.protocol, "data": str(folder), "output-dir": None}
        request = simulated_run(assignments, texts, None, terminal.DAY, None)
    except REFUSALS as error:
        terminal.fail(str(error), terminal.USAGE)
    outcome = launch(request, Engine.LOCAL, True, None, None, terminal.console(stderr=False))
    path = conclude(outcome, printed=trial.lines)
    typer.echo(f"to go on: {typed}")
    if open_page:
        results.open_in_browser(path)
