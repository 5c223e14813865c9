"""``consilience run``: simulate a scenario, or a protocol on the user's data."""

import shlex
from collections import deque
from collections.abc import Collection
from contextlib import AbstractContextManager, ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from common.extras import require
from common.settings import SettingError, to_toml
from consilience import flower_run, local_run, progress, superlink
from consilience.commands import results, terminal
from consilience.flower_programs import LaunchError, environment
from consilience.outcome import Outcome
from consilience.processes import Interruption, interruptible
from consilience.progress import Show
from consilience.run_log import message
from consilience.run_request import RunRequest, simulated_run
from protocols.settings import declared
from server.preflight import REFUSALS
from server.report.data import ResultsError

_KEPT_LINES = 40  # of a failed quiet run's log


class Engine(StrEnum):
    """The engine that runs the ServerApp and the sites."""

    LOCAL = "local"
    FLOWER = "flower"


Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A key of the run configuration; may be given many times.",
        autocompletion=terminal.key_names,
    ),
]


def run(
    scenario: Annotated[
        str | None, typer.Argument(help="Its name, from `consilience list`.", autocompletion=terminal.scenario_names)
    ] = None,
    assignments: Settings = None,
    sites: Annotated[int | None, typer.Option(min=1, help="Number of simulated sites.")] = None,
    protocol: Annotated[
        str | None,
        typer.Option(help="With --data: the protocol to run on your own data.", autocompletion=terminal.protocol_names),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="With --protocol: a folder with one file for every site, NAME=PATH of each, or a function."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Settings of the run in TOML (`consilience init`); what is typed wins."),
    ] = None,
    output_dir: Annotated[Path | None, typer.Option(help="Where results go; default: results.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the result only.")] = False,
    as_json: terminal.Json = False,
    open_page: terminal.Open = False,
    engine: Annotated[
        Engine, typer.Option(help="In this process, or by Flower's simulation engine (Ray), as `flwr run` does.")
    ] = Engine.LOCAL,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="With --engine local: number of processes that share the sites; default: none, in line."
        ),
    ] = None,
    superlink_port: Annotated[
        int | None,
        typer.Option(
            "--superlink",
            metavar="PORT",
            min=1,
            max=65_535,
            help="With --engine flower: port of a local SuperLink that runs already; default: one of the run's own.",
        ),
    ] = None,
    timeout: terminal.Timeout = terminal.DAY,
) -> None:
    """Simulate a scenario, or a protocol on your own data; exit with the run's real status."""
    options = {"scenario": scenario, "protocol": protocol, "data": data, "output-dir": output_dir}
    try:
        if superlink_port is not None and engine is not Engine.FLOWER:
            raise SettingError("--superlink is for --engine flower: the local engine has no SuperLink")
        if workers is not None and engine is not Engine.LOCAL:
            raise SettingError("--workers is for --engine local: Flower's engine has processes of its own")
        if engine is Engine.FLOWER:
            require("ray", "--engine flower")
        texts = {key: None if value is None else str(value) for key, value in options.items()}
        request = simulated_run(assignments or (), texts, sites, timeout, config)
        to_toml(request.settings)
    except REFUSALS as error:
        terminal.fail(str(error), terminal.USAGE)
    try:
        with interruptible():
            outcome = launch(request, engine, quiet, superlink_port, workers, terminal.console(stderr=as_json))
    except Interruption as interrupt:
        terminal.fail(
            f"interrupted; the run was stopped{how_to_resume(request, interrupt.run_id)}", interrupt.exit_code
        )
    except LaunchError as error:
        terminal.fail(str(error))
    path = conclude(outcome, as_json=as_json)
    if open_page:
        results.open_in_browser(path)


def launch(
    request: RunRequest,
    engine: Engine,
    quiet: bool,
    superlink_port: int | None,
    workers: int | None,
    console: Console,
) -> Outcome:
    """Run to the end, and show the log on the console unless `quiet`."""
    lines: deque[str] = deque(maxlen=_KEPT_LINES)
    with ExitStack() as stack:
        if engine is Engine.FLOWER:
            env = stack.enter_context(superlink.superlink_of(superlink_port, environment()))
            if not quiet:
                typer.echo(f"$ {shlex.join(['flwr', *flower_run.flwr_arguments('.', request)])}", err=True)
            show = stack.enter_context(_progress(quiet, lines, console, "starting Flower"))
            outcome = flower_run.run(request, env, show)
        else:
            show = stack.enter_context(_progress(quiet, lines, console, "starting"))
            outcome = local_run.run(request, workers, show)
    if not outcome.completed:
        # The one line of a refusal is printed last. What a site logged of its data before it is worth reading.
        for line in lines:
            if not outcome.transcript.refused or "ERROR" in line:
                typer.echo(message(line), err=True)
    return outcome


def _progress(quiet: bool, lines: deque[str], console: Console, waiting: str) -> AbstractContextManager[Show]:
    return progress.keep(lines) if quiet else progress.follow(console, waiting)


def how_to_resume(request: RunRequest, run_id: str) -> str:
    """Return how to resume an interrupted run, or where its results are; empty if it has left neither."""
    from common.results import results_name

    config = {**declared(), **request.settings}
    directory = Path(str(config["output-dir"])).absolute() / results_name(config) / run_id
    if run_id and (directory / "report.json").is_file():
        return f", but had completed: {directory}"
    if not run_id or not directory.with_name(f".{run_id}.partial").is_dir():
        return ""
    return f"; to resume it, type the same with --set resume-from={directory}"


def conclude(outcome: Outcome, *, as_json: bool = False, printed: Collection[str] = ()) -> Path:
    """Print the result of a run without `printed` notes, and return its directory; exit with 1 if it is incomplete."""
    transcript = outcome.transcript
    if transcript.refused:
        terminal.fail(transcript.refused)
    if not transcript.run_id:
        terminal.fail(f"flwr started no run: {outcome.details or 'it printed nothing'}")
    if not outcome.completed:
        reason = f" ({outcome.details})" if outcome.details else ""
        terminal.fail(f"run {transcript.run_id} ended as {outcome.status}{reason}")
    if transcript.results is None:
        terminal.fail(f"run {transcript.run_id} completed but named no results directory")
    try:
        results.print_results(transcript.results, as_json=as_json, printed=printed)
    except ResultsError as error:
        terminal.fail(str(error))
    return transcript.results
