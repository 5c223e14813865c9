"""The command ``consilience``: short forms of Flower's commands, which ``flwr`` can replace."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from consilience import __version__
from consilience.commands import terminal
from consilience.commands.attack import attack
from consilience.commands.budget import show_budget
from consilience.commands.certificates import make_certificates
from consilience.commands.check import check
from consilience.commands.guard import guard
from consilience.commands.keys import init, list_keys
from consilience.commands.predict import predict
from consilience.commands.prepare import prepare
from consilience.commands.results import compare_ledgers, compare_runs, show
from consilience.commands.run import run
from consilience.commands.runs import list_runs
from consilience.commands.scenarios import list_scenarios
from consilience.commands.status import status
from consilience.commands.suggest import suggest
from consilience.commands.trial import try_folder
from consilience.commands.up import up
from consilience.commands.wipe import wipe_state

_HELP = "Sites that may not share rows learn together: five fusion protocols on Flower."


class _Commands(TyperGroup):
    """The subcommands, all of which report an unusable protocol of another package in one sentence."""

    def invoke(self, ctx: Any) -> Any:
        from protocols.registry import RegistryError

        try:
            return super().invoke(ctx)
        except RegistryError as error:
            terminal.fail(str(error))


app = typer.Typer(cls=_Commands, help=_HELP, no_args_is_help=True, pretty_exceptions_enable=False)
"""The command as typer runs it."""

app.command("list")(list_scenarios)
app.command("try")(try_folder)
app.command("keys")(list_keys)
app.command()(init)
app.command()(run)
app.command("runs")(list_runs)
app.command()(up)
app.command("certificates")(make_certificates)
app.command()(check)
app.command("budget")(show_budget)
app.command()(attack)
app.command()(guard)
app.command("wipe")(wipe_state)
app.command("ledger")(compare_ledgers)
app.command()(prepare)
app.command()(predict)
app.command()(suggest)
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
