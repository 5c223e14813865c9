"""What the subcommands share: the terminal, exit codes, and options that several of them have."""

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

USAGE = 2
"""Exit code for a command that cannot be used as typed; a command that fails exits with 1."""

DAY = 86_400.0
"""Seconds after which a run is stopped by default."""

ResultsDir = Annotated[Path, typer.Argument(help="OUTPUT-DIR/NAME/RUN-ID, the path that a run printed last.")]
"""Argument that names the results of a finished run."""

Timeout = Annotated[float, typer.Option(min=1.0, help="Seconds after which the run is stopped.")]
"""Option that limits a run."""


def fail(message: str, code: int = 1) -> NoReturn:
    """Print a message to standard error and exit."""
    typer.echo(message, err=True)
    raise typer.Exit(code)


def console() -> Console:
    """Return a console on today's standard output: tests and pipes replace it after import."""
    return Console(file=sys.stdout, highlight=False)
