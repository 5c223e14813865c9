"""``consilience list``."""

from rich.markup import escape
from rich.table import Table

from consilience.commands import terminal

_PIPE_WIDTH = 1000  # columns of a table that no terminal limits


def list_scenarios() -> None:
    """List the scenarios: what each one runs, on how many sites, with which data."""
    from scenarios.registry import scenarios  # loads scikit-learn: not for `--help`

    table = Table("scenario", "protocol", "sites", "source", "about", box=None, pad_edge=False)
    for each in scenarios().values():
        sites = f"{each.sites} or any" if each.any_number else str(each.sites)
        table.add_row(*map(escape, (each.name, each.protocol, sites, each.source, each.summary)))
    console = terminal.console()
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    console.print(table)
