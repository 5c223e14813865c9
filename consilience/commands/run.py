"""``consilience run``: simulate a scenario, or a protocol on the user's data."""

import shlex
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from common.settings import to_toml
from consilience import flower_run, progress, superlink
from consilience.commands import results, terminal
from consilience.flower_programs import DEFAULT_PORT, PORT_VARIABLE, LaunchError, environment
from consilience.processes import Interrupted, interruptible
from consilience.run_request import RunRequest, simulated_run
from protocols.settings import declared
from server.preflight import REFUSALS

_KEPT_LINES = 40  # of a failed quiet run's log

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A key of the run configuration; may be given many times."),
]


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
    timeout: terminal.Timeout = terminal.DAY,
) -> None:
    """Simulate a scenario, or a protocol on your own data, with Flower; exit with the run's real status."""
    options = {"scenario": scenario, "protocol": protocol, "data": data, "output-dir": output_dir}
    try:
        texts = {key: None if value is None else str(value) for key, value in options.items()}
        request = simulated_run(assignments or (), texts, sites, timeout)
        to_toml(request.settings)
    except REFUSALS as error:
        terminal.fail(str(error), terminal.USAGE)
    try:
        with interruptible():
            outcome = launch(request, quiet, stop_superlink)
    except Interrupted as interrupt:
        terminal.fail(
            f"interrupted; the run was stopped{how_to_resume(request, interrupt.run_id)}", interrupt.exit_code
        )
    except LaunchError as error:
        terminal.fail(str(error))
    conclude(outcome)


def launch(request: RunRequest, quiet: bool, own: bool) -> flower_run.Outcome:
    """Start the run by the local SuperLink, or by one of its own, and show its log unless `quiet`."""
    env = environment()
    kept: deque[str] = deque(maxlen=_KEPT_LINES)
    with ExitStack() as stack:
        if own:
            env = stack.enter_context(superlink.own_superlink(env)).env
        elif not quiet:
            _print_superlink(env)
        if not quiet:
            typer.echo(f"$ {shlex.join(['flwr', *flower_run.flwr_arguments('.', request)])}", err=True)
        show = stack.enter_context(progress.kept(kept) if quiet else progress.followed(terminal.console()))
        outcome = flower_run.run(request, env, show)
    if not outcome.completed:
        # The one line of a refusal is printed last. What a site logged of its data before it is worth reading.
        for line in kept:
            if not outcome.transcript.refused or "ERROR" in line:
                typer.echo(line, err=True)
    return outcome


def how_to_resume(request: RunRequest, run_id: str) -> str:
    """Say how an interrupted run is resumed, or where its results are; nothing if it has left neither."""
    from common.results import results_name

    config = {**declared(), **request.settings}
    directory = Path(str(config["output-dir"])).absolute() / results_name(config) / run_id
    if run_id and (directory / "report.json").is_file():
        return f", but had completed: {directory}"
    if not run_id or not directory.with_name(f".{run_id}.partial").is_dir():
        return ""
    return f"; to resume it, type the same with --set resume-from={directory}"


def _print_superlink(env: Mapping[str, str]) -> None:
    address = f"127.0.0.1:{env.get(PORT_VARIABLE, DEFAULT_PORT)}"
    if superlink.is_up(env):
        typer.echo(f"using the local SuperLink that already runs on {address}", err=True)
    else:
        typer.echo(f"flwr starts a local SuperLink on {address} and leaves it up (--stop-superlink: not)", err=True)


def conclude(outcome: flower_run.Outcome) -> None:
    """Print the result of a run, and exit with 1 if it did not complete."""
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
    results.show(transcript.results)
