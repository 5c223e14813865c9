"""``consilience suggest``: the points to measure next, by the models of an earlier run."""

from pathlib import Path
from typing import Annotated

import typer

from common.settings import SettingError
from consilience.commands import terminal
from consilience.commands.run import Settings, run


def suggest(
    results_dir: terminal.ResultsDir,
    file: Annotated[str, typer.Argument(metavar="POINTS", help="A file of points where one could measure.")],
    assignments: Settings = None,
    output_dir: Annotated[Path | None, typer.Option(help="Where results go; default: results.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the result only.")] = False,
) -> None:
    """Ask the sites of an earlier run, in one round, at which of some points to measure next."""
    from protocols.prediction import suggestion_key
    from server.report.data import ResultsError

    try:
        results = str(terminal.results_of(results_dir))
        key = suggestion_key(results)
    except (SettingError, ResultsError) as error:
        terminal.fail(str(error), terminal.USAGE)
    settings = [f"from={results}", f"data={file}", f"{key}=true", *(assignments or ())]
    run("predict", settings, output_dir=output_dir, quiet=quiet)
