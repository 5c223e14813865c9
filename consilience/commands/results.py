"""``consilience show``, ``compare`` and ``ledger``: results of finished runs."""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from consilience.commands import terminal


def show(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help=f"A finished run: {terminal.RUN_NAME}.")] = None,
    latest: Annotated[bool, typer.Option("--latest", help="The run in --output-dir that was finished last.")] = False,
    as_json: terminal.Json = False,
    open_page: terminal.Open = False,
    output_dir: terminal.OutputDir = terminal.RESULTS,
) -> None:
    """Print the result table of a finished run, and the absolute paths of its page and of its results."""
    from server.report.data import ResultsError
    from server.run_names import find_newest

    if latest == (run is not None):
        terminal.fail("say which run to show: RUN, or --latest", terminal.USAGE)
    try:
        path = terminal.results_of(run) if run is not None else find_newest(output_dir)
        print_results(path, as_json=as_json)
    except ResultsError as error:
        terminal.fail(str(error))
    if open_page:
        open_in_browser(path)


def print_results(results_dir: Path, *, as_json: bool = False, printed: Collection[str] = ()) -> None:
    """Print the results of a run, as a table with their paths and without `printed` notes, or as its ``report.json``.

    Raises
    ------
    ResultsError
        As `server.results.load`.
    """
    from server.report.summary import render_table
    from server.results import load
    from server.run_names import short_names

    report, _ = load(results_dir)
    if as_json:
        typer.echo(report.to_json())
        return
    typer.echo(render_table(report, printed))
    path = results_dir.expanduser().absolute()
    if name := short_names(path.parent).get(path.name):
        typer.echo(f"short name: {name}")
    if (path / "report.html").is_file():
        typer.echo(f"to read: {path / 'report.html'}")
    typer.echo(f"results: {path}")


def open_in_browser(results_dir: Path) -> None:
    """Open a run's page in the browser, or print that there is no page or no browser."""
    import webbrowser

    page = results_dir.expanduser().absolute() / "report.html"
    if not page.is_file():
        typer.echo(f"there is no page {page}", err=True)
    elif not webbrowser.open(page.as_uri()):
        typer.echo(f"no browser was found; open {page}", err=True)


def compare_runs(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN RUN...", help=f"Finished runs, each {terminal.RUN_NAME}.")],
    output: Annotated[Path, typer.Option(help="The page to write; one that is there is replaced.")] = Path(
        "compare.html"
    ),
) -> None:
    """Put several runs side by side: a table here, and one page with their answers, metrics, cost and figures."""
    from common.files import encode_text, replacing, write_file
    from server.report.compare import compare_html, open_runs, render_comparison
    from server.report.data import ResultsError

    try:
        opened = open_runs([terminal.results_of(run) for run in runs])
    except ResultsError as error:
        terminal.fail(str(error))
    page = output.expanduser().absolute()
    try:
        with replacing(page) as temporary:
            write_file(temporary, [encode_text(compare_html(opened))])
    except OSError as error:
        terminal.fail(f"the page {page} cannot be written: {error.strerror}; name another --output")
    typer.echo(render_comparison(opened))
    typer.echo(f"page: {page}")


def compare_ledgers(
    results_dir: terminal.ResultsDir,
    site_ledgers: Annotated[
        list[Path], typer.Argument(metavar="SITE-LEDGER...", help="Sites' own ledger.jsonl, or the folders with them.")
    ],
) -> None:
    """Print whether the fusion center's ledger of a run and those of sites agree, and what differs."""
    from consilience.ledger_comparison import LedgerError, compare_all

    try:
        lines, agree = compare_all(terminal.results_of(results_dir), [path.expanduser() for path in site_ledgers])
    except LedgerError as error:
        terminal.fail(str(error))
    typer.echo("\n".join(lines))
    if not agree:
        raise typer.Exit(1)
