"""``consilience show``, ``compare`` and ``ledger``: what is done with the results of finished runs."""

from pathlib import Path
from typing import Annotated

import typer

from consilience.commands import terminal


def show(results_dir: terminal.ResultsDir) -> None:
    """Print the result table of a finished run, and the absolute paths of its page and of its results."""
    from server.report.data import ResultsError
    from server.report.summary import render_table
    from server.results import load

    try:
        report, _ = load(results_dir)
    except ResultsError as error:
        terminal.fail(str(error))
    typer.echo(render_table(report))
    path = results_dir.expanduser().absolute()
    if (path / "report.html").is_file():
        typer.echo(f"to read: {path / 'report.html'}")
    typer.echo(f"results: {path}")


def compare_runs(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN RUN...", help="OUTPUT-DIR/NAME/RUN-ID of finished runs.")],
    output: Annotated[Path, typer.Option(help="The page to write; one that is there is replaced.")] = Path(
        "compare.html"
    ),
) -> None:
    """Put several runs side by side: a table here, and one page with their answers, metrics, cost and figures."""
    from common.files import encoded, replacing, write_file
    from server.report.compare import compare_html, open_runs, render_comparison
    from server.report.data import ResultsError

    try:
        opened = open_runs(runs)
    except ResultsError as error:
        terminal.fail(str(error))
    page = output.expanduser().absolute()
    try:
        with replacing(page) as temporary:
            write_file(temporary, [encoded(compare_html(opened))])
    except OSError as error:
        terminal.fail(f"the page {page} cannot be written: {error.strerror}; name another --output")
    typer.echo(render_comparison(opened))
    typer.echo(f"page: {page}")


def compare_ledgers(
    results_dir: terminal.ResultsDir,
    site_ledgers: Annotated[
        list[Path], typer.Argument(metavar="SITE-LEDGER...", help="Sites' own ledger.jsonl, or their site-output-dir.")
    ],
) -> None:
    """Print whether the fusion center's ledger of a run and those of sites agree, and what differs."""
    from consilience.ledger_comparison import LedgerError, compare_all

    try:
        lines, agree = compare_all(results_dir.expanduser(), [path.expanduser() for path in site_ledgers])
    except LedgerError as error:
        terminal.fail(str(error))
    typer.echo("\n".join(lines))
    if not agree:
        raise typer.Exit(1)
