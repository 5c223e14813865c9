"""``consilience list``."""

from consilience.commands import terminal


def list_scenarios() -> None:
    """List the scenarios: what each one runs, on how many sites, with which data."""
    from scenarios.registry import scenarios

    rows = []
    for each in scenarios().values():
        sites = f"{each.sites} or any" if each.any_number else str(each.sites)
        rows.append((each.name, each.protocol, sites, each.source, each.summary))
    terminal.print_table(("scenario", "protocol", "sites", "source", "about"), rows)
