"""The command ``consilience``: sugar for Flower's commands; all that it does can be typed with ``flwr``."""

import importlib
import shlex
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from consilience import __version__, launch, progress
from consilience.plan import Plan, make_plan
from consilience.settings import SettingError, Value, declared, parse, to_toml

_USAGE = 2
_DAY = 86_400.0
_PIPE_WIDTH = 200  # columns of a table that no terminal limits
_KEPT_LINES = 40  # of a failed quiet run's log

_NODE_KEYS: Mapping[str, Mapping[str, Value]] = {
    "bc3e": {"allow-single-model": False},
    "coreset": {"min-weight": 0, "allow-prices": False},
    "gp": {
        "allow-gate-training": False,
        "allow-inputs": False,
        "allow-rows": False,
        "max-queries": 0,
        "min-rows": 0,
    },
    "sec": {"candidates": "", "min-leaf": 0, "allow-row-models": False},
    "residual": {"agent": "", "min-leaf": 0, "sealed-only": False},
}
"""What a site says in its node configuration only, beside the keys of a run, with values of each key's type."""

app = typer.Typer(
    help="Parties that may not share rows learn together: five fusion protocols on Flower.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A key of the run configuration; may be given many times."),
]


def _fail(message: str, code: int) -> NoReturn:
    """One line to standard error, and out."""
    typer.echo(message, err=True)
    raise typer.Exit(code)


@app.callback(invoke_without_command=True)
def main(
    version: Annotated[bool, typer.Option("--version", is_eager=True, help="Print the version.")] = False,
) -> None:
    """Parties that may not share rows learn together: five fusion protocols on Flower."""
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command("list")
def list_scenarios() -> None:
    """The scenarios: what each one runs, on how many sites, with which data."""
    from scenarios.registry import scenarios  # brings scikit-learn along: not for `--help`

    table = Table("scenario", "protocol", "sites", "source", "about", box=None, pad_edge=False)
    for each in scenarios().values():
        sites = f"{each.sites} or any" if each.any_number else str(each.sites)
        table.add_row(*map(escape, (each.name, each.protocol, sites, each.source, each.summary)))
    console = _console()
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    console.print(table)


@app.command()
def run(
    scenario: Annotated[str | None, typer.Argument(help="Its name, from `consilience list`.")] = None,
    assignments: Settings = None,
    sites: Annotated[int | None, typer.Option(min=1, help="Number of simulated sites.")] = None,
    protocol: Annotated[str | None, typer.Option(help="With --data: the protocol to run on your own data.")] = None,
    data: Annotated[Path | None, typer.Option(help="With --protocol: a folder with one file for every site.")] = None,
    output_dir: Annotated[Path | None, typer.Option(help="Where results go; default: results.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the result only.")] = False,
    stop_superlink: Annotated[
        bool, typer.Option("--stop-superlink", help="Give the run a SuperLink of its own, and end that afterwards.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=1.0, help="Seconds after which the run is stopped.")] = _DAY,
) -> None:
    """Simulate a scenario, or a protocol on your own data, with Flower; exit with the run's real status."""
    options = {"scenario": scenario, "protocol": protocol, "data": data, "output-dir": output_dir}
    try:
        given = {key: None if value is None else str(value) for key, value in options.items()}
        plan = make_plan(assignments or (), given, sites, timeout)
        to_toml(plan.settings)
    except SettingError as error:
        _fail(str(error), _USAGE)
    try:
        with launch.interruptible():
            outcome = _launch(plan, quiet, stop_superlink)
    except launch.Interrupted as interrupt:
        _fail(f"interrupted; the run was stopped{_how_to_go_on(plan, interrupt.run_id)}", interrupt.exit_code)
    except launch.LaunchError as error:
        _fail(str(error), 1)
    _conclude(outcome)


def _launch(plan: Plan, quiet: bool, own: bool) -> launch.Outcome:
    env = launch.environment()
    kept: deque[str] = deque(maxlen=_KEPT_LINES)
    with ExitStack() as stack:
        if own:
            env = stack.enter_context(launch.own_superlink(env)).env
        elif not quiet:
            _say_superlink(env)
        if not quiet:
            typer.echo(f"$ {shlex.join(['flwr', *launch.flwr_arguments('.', plan)])}", err=True)
        show = stack.enter_context(progress.kept(kept) if quiet else progress.followed(_console()))
        outcome = launch.run(plan, env, show)
    if not outcome.completed:
        # Of a refusal its one line is printed last; what a site said of its data before is worth reading.
        for line in kept:
            if not outcome.transcript.refused or "ERROR" in line:
                typer.echo(line, err=True)
    return outcome


def _how_to_go_on(plan: Plan, run_id: str) -> str:
    """Where an interrupted run can be resumed from, if it got so far as to leave anything, or where its results are."""
    from clients.site import results_name

    config = {**declared(), **plan.settings}
    results = Path(str(config["output-dir"])).absolute() / results_name(config) / run_id
    if run_id and (results / "report.json").is_file():
        return f", but had completed: {results}"
    if not run_id or not results.with_name(f".{run_id}.partial").is_dir():
        return ""
    return f"; to go on, type the same with --set resume-from={results}"


def _say_superlink(env: dict[str, str]) -> None:
    place = f"127.0.0.1:{env.get(launch.PORT_VARIABLE, launch.DEFAULT_PORT)}"
    if launch.is_up(env):
        typer.echo(f"using the local SuperLink that already runs on {place}", err=True)
    else:
        typer.echo(f"flwr starts a local SuperLink on {place} and leaves it up (--stop-superlink: not)", err=True)


def _conclude(outcome: launch.Outcome) -> None:
    """Print what came of the run, and exit with 1 if it did not complete."""
    transcript = outcome.transcript
    if transcript.refused:
        _fail(transcript.refused, 1)
    if not transcript.run_id:
        _fail(f"flwr started no run: {outcome.details or 'it said nothing'}", 1)
    if not outcome.completed:
        reason = f" ({outcome.details})" if outcome.details else ""
        _fail(f"run {transcript.run_id} ended as {outcome.status}{reason}", 1)
    if transcript.results is None:
        _fail(f"run {transcript.run_id} completed but named no results directory", 1)
    show(transcript.results)


@app.command()
def check(
    file: Annotated[str, typer.Argument(help="A party's CSV, Parquet or NPZ file, or package.module:function.")],
    protocol: Annotated[str, typer.Option(help="The protocol it is meant for.")],
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A key of the run's or of the node's own configuration."),
    ] = None,
) -> None:
    """Check a party's data, and say what of it would be used and what would leave the site. Nothing is sent."""
    from clients.data import DataError, load
    from protocols import PROTOCOLS
    from server.config import ConfigError, checked

    if protocol not in PROTOCOLS:
        _fail(f"no check for protocol {protocol!r}; there is: {', '.join(PROTOCOLS)}", _USAGE)
    try:
        keys, of_the_node = declared(), _NODE_KEYS[protocol]
        given = parse(assignments or (), {**keys, **of_the_node})
        own = {key: value for key, value in given.items() if key in of_the_node}
        of_the_run = {key: value for key, value in given.items() if key not in of_the_node}
        config = checked(keys | of_the_run | {"data": file}) | own
    except (ConfigError, SettingError) as error:
        _fail(str(error), _USAGE)
    try:
        client = importlib.import_module(f"clients.{protocol}")
        # One that opens its shard reads its data itself, as `clients.shards` knows too.
        given_data = () if hasattr(client, "open_shard") else (load(config),)
        typer.echo("\n".join(client.check_lines(*given_data, config)))
    except DataError as error:
        _fail(str(error), 1)


@app.command()
def show(
    results_dir: Annotated[Path, typer.Argument(help="OUTPUT-DIR/NAME/RUN-ID, the path that a run printed last.")],
) -> None:
    """Print the result table of a finished run and the absolute path of its results."""
    from server.results import ResultsError, load, render_table

    try:
        report, _ = load(results_dir)
    except ResultsError as error:
        _fail(str(error), 1)
    typer.echo(render_table(report))
    typer.echo(f"results: {results_dir.expanduser().absolute()}")


def _console() -> Console:
    return Console(file=sys.stdout, highlight=False)
