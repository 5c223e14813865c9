"""``consilience wipe``: removal of answers from a SuperLink's state file."""

from pathlib import Path
from typing import Annotated

import typer

from consilience.commands import terminal


def wipe_state(
    database: Annotated[Path, typer.Argument(metavar="FILE", help="--database of a SuperLink: state.db.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what there is, and change nothing.")] = False,
) -> None:
    """Remove what a SuperLink that has ended keeps of the messages of finished runs, deleted ones, too."""
    from consilience.state_wipe import WipeError, look, wipe

    path = database.expanduser()
    try:
        before = look(path)
        typer.echo("\n".join(f"{path}: {line}" for line in before.lines))
        if not dry_run:
            after = wipe(path)
            typer.echo(f"{path}: wiped; {before.size + before.log:,} bytes have become {after.size:,}")
    except WipeError as error:
        terminal.fail(str(error))
    if path.stat().st_mode & 0o077:
        typer.echo(f"{path}: other users can read it: chmod go= {path}", err=True)
