"""Common parts of the subcommands: the terminal, exit codes and options."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

USAGE = 2
"""Exit code for a command that cannot be used as typed; a command that fails exits with 1."""

DAY = 86_400.0
"""Seconds after which a run is stopped by default."""

RUN_NAME = "OUTPUT-DIR/NAME/RUN-ID, the path that it printed last, or its short name, NAME-3, or NAME: the newest"
"""Forms of a run's name."""

ResultsDir = Annotated[Path, typer.Argument(metavar="RUN", help=f"A finished run: {RUN_NAME}.")]
"""Argument that names the results of a finished run; `results_of` finds them."""

RESULTS = Path("results")
"""Default output directory, as of the key `output-dir`."""

Json = Annotated[bool, typer.Option("--json", help="Print report.json to standard output, and nothing else there.")]
"""Option for output that programs read."""

Open = Annotated[bool, typer.Option("--open", help="Open the page of the result in the browser.")]
"""Option to look at the page."""

OutputDir = Annotated[Path, typer.Option(help="Where results go.")]
"""Option that names the folder of all results."""

Timeout = Annotated[float, typer.Option(min=1.0, help="Seconds after which the run is stopped.")]
"""Option that limits a run."""


def scenario_names(incomplete: str) -> list[str]:
    """Complete the name of a scenario, for the shell."""
    from scenarios.registry import scenarios

    return sorted(name for name in scenarios() if name.startswith(incomplete))


def protocol_names(incomplete: str) -> list[str]:
    """Complete the name of a protocol."""
    from protocols import registry

    return [name for name in registry.names() if name.startswith(incomplete)]


def key_names(incomplete: str) -> list[str]:
    """Complete a key of the run configuration."""
    from protocols.settings import run_keys

    return [f"{key}=" for key in run_keys() if key.startswith(incomplete)]


def fail(message: str, code: int = 1) -> NoReturn:
    """Print a message to standard error and exit."""
    typer.echo(message, err=True)
    raise typer.Exit(code)


def results_of(run: Path) -> Path:
    """Return the results directory of a run that the user has named by its path or its short name."""
    from server.report.data import ResultsError
    from server.run_names import find_run

    try:
        return find_run(run)
    except ResultsError as error:
        fail(str(error), USAGE)


_PIPE_WIDTH = 1000  # columns of a table that no terminal limits


def console(*, wide: bool = False, stderr: bool = False) -> Console:
    """Return a console on the present standard output or error, which tests and pipes may have replaced.

    Parameters
    ----------
    wide : bool
        Whether lines may be long if there is no terminal.
    stderr : bool
        Whether to print to standard error.
    """
    terminal = Console(file=sys.stderr if stderr else sys.stdout, highlight=False)
    if wide and not terminal.is_terminal:
        terminal.width = _PIPE_WIDTH
    return terminal


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table without lines: as wide as the terminal, and with whole lines in a pipe."""
    table = Table(*headings, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*map(escape, row))
    console(wide=True).print(table)
