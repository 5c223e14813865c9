"""``consilience budget``: the amounts that a site has answered about its data over all runs, and their limits."""

from pathlib import Path
from typing import Annotated

import typer

from consilience.commands import terminal


def show_budget(
    place: Annotated[
        Path,
        typer.Argument(metavar="DIR|FILE", help="The site's own directory, its site-output-dir, or a budget.json."),
    ],
    policy: Annotated[
        Path | None, typer.Option(help="The site's policy file, with other limits than the default.")
    ] = None,
) -> None:
    """Print what a site has answered about each of its data files over all runs, and how much it allows."""
    from clients.budget import FOLDER, Book, budget_lines
    from clients.policy import Policy, PolicyError
    from protocols.wire.faults import SiteFault

    folder = place.expanduser()
    if folder.is_file():
        folder = folder.parent
    elif (folder / FOLDER).is_dir():
        folder = folder / FOLDER
    try:
        limits = (Policy() if policy is None else Policy.read(policy.expanduser())).budget
        accounts = Book.read(folder).accounts.values()
    except (PolicyError, SiteFault) as error:
        terminal.fail(str(error))
    if not accounts:
        terminal.fail(f"{place}: nothing has been counted there; name the site's own directory (site-output-dir)")
    typer.echo("\n\n".join("\n".join(budget_lines(account, limits)) for account in accounts))
