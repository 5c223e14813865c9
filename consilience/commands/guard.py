"""``consilience guard``: a site's own process that answers asks, so that the code of a run reaches no data."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consilience.commands import terminal

if TYPE_CHECKING:
    from clients.guard import Guard


def guard(
    socket: Annotated[
        Path,
        typer.Argument(metavar="SOCKET", help="Path of the socket; the SuperNode's configuration gets guard=SOCKET."),
    ],
    node_config: Annotated[
        str, typer.Option(metavar="TEXT", help="The site's configuration, as a SuperNode without a guard has it.")
    ],
    group: Annotated[
        str | None, typer.Option(help="A group whose users may ask, too, such as the SuperNode's.")
    ] = None,
) -> None:
    """Answer a site's asks in a process of its own, which alone needs to read the data. SIGTERM or Ctrl-C ends it."""
    from clients.guard import Guard, GuardError

    try:
        with Guard(socket, _parse_node_config(node_config), _number_of(group)) as started:
            _serve(started)
    except GuardError as error:
        terminal.fail(str(error))
    typer.echo(f"guard of {started.name}: ended", err=True)


def _parse_node_config(text: str) -> dict[str, Any]:
    """Read a node configuration as Flower reads it."""
    from flwr.common.config import parse_config_args

    try:
        return dict(parse_config_args([text]))
    except ValueError as error:
        terminal.fail(f"guard: --node-config is not key=value pairs with texts in quotes: {error}", terminal.USAGE)


def _serve(started: "Guard") -> None:
    """Serve until a signal comes; a second one ends it in the middle of an ask."""
    import signal

    numbers = (signal.SIGINT, signal.SIGTERM)

    def stop(number: int, _frame: object) -> None:
        started.stop()
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        for path in started.exposed:
            typer.echo(f"guard of {started.name}: other users can read {path}: chmod go= {path}", err=True)
        typer.echo(f"guard of {started.name}: listens at {started.path}", err=True)
        started.serve()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _number_of(group: str | None) -> int | None:
    """Return the number of a group."""
    if group is None:
        return None
    try:
        import grp

        return grp.getgrnam(group).gr_gid
    except (ImportError, KeyError):
        terminal.fail(f"guard: this machine has no group {group!r}", terminal.USAGE)
