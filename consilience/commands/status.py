"""``consilience status``: state and rounds of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from consilience.commands import terminal

_COST = ("sites", "bytes_to_sites", "bytes_from_sites", "seconds")


def status(
    run: Annotated[
        Path | None, typer.Argument(help=f"A run: {terminal.RUN_NAME}. Default: the newest in --output-dir.")
    ] = None,
    output_dir: terminal.OutputDir = terminal.RESULTS,
    last: Annotated[int, typer.Option("--last", min=1, help="Number of rounds to show.")] = 10,
) -> None:
    """Print where a run stands, whether it still runs or not: its rounds, sites, measure, bytes, seconds."""
    from server.progress import newest_run, status_of
    from server.report.data import ResultsError

    try:
        state = status_of(terminal.results_of(run) if run else newest_run(output_dir))
    except ResultsError as error:
        terminal.fail(str(error))
    rounds = state.rounds
    typer.echo(f"{state.state}  {state.path}")
    if not rounds:
        typer.echo("no round has ended yet" if state.state == "running" else "no rounds are recorded")
        return
    seconds = sum(float(row["seconds"]) for row in rounds)
    typer.echo(f"{len(rounds)} rounds in {seconds:.1f} s" if len(rounds) > 1 else f"1 round in {seconds:.1f} s")
    latest = rounds[-last:]
    measures = list(dict.fromkeys(name for row in latest for name in row if name not in ("round", *_COST)))
    table = Table(box=None, pad_edge=False)
    for name in ("round", "sites", *measures, "to sites", "from sites", "seconds"):
        table.add_column(name, justify="right")
    for row in latest:
        table.add_row(*_cells(row, measures))
    terminal.console().print(table)


def _cells(row: Mapping[str, Any], measures: list[str]) -> list[str]:
    from strategies.recorder import format_bytes

    values = [row.get(name) for name in measures]
    texts = ["" if value is None else f"{value:.6g}" for value in values]
    to_sites, from_sites = format_bytes(row["bytes_to_sites"]), format_bytes(row["bytes_from_sites"])
    return [str(row["round"]), str(row["sites"]), *texts, to_sites, from_sites, f"{row['seconds']:.2f}"]
