"""The command ``consilience``: short forms of Flower's commands; all that it does can be typed with ``flwr``."""

from typing import Annotated

import typer

from consilience import __version__
from consilience.commands.certificates import make_certificates
from consilience.commands.check import check
from consilience.commands.predict import predict
from consilience.commands.results import compare_ledgers, compare_runs, show
from consilience.commands.run import run
from consilience.commands.scenarios import list_scenarios
from consilience.commands.status import status
from consilience.commands.up import up

_HELP = "Sites that may not share rows learn together: five fusion protocols on Flower."

app = typer.Typer(help=_HELP, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
"""The command as typer runs it."""

app.command("list")(list_scenarios)
app.command()(run)
app.command()(up)
app.command("certificates")(make_certificates)
app.command()(check)
app.command("ledger")(compare_ledgers)
app.command()(predict)
app.command()(show)
app.command()(status)
app.command("compare")(compare_runs)


@app.callback(invoke_without_command=True, help=_HELP)
def main(
    version: Annotated[bool, typer.Option("--version", is_eager=True, help="Print the version.")] = False,
) -> None:
    """Print the version, or nothing."""
    if version:
        typer.echo(__version__)
        raise typer.Exit
