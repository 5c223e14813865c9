"""``consilience up``: a whole federation on this machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from common.settings import SettingError
from consilience import flower_run, progress
from consilience.commands import terminal
from consilience.commands.run import conclude
from consilience.flower_programs import LaunchError
from consilience.processes import Interruption, interruptible
from consilience.run_request import federated_run

if TYPE_CHECKING:
    from consilience.local_federation import LocalFederation, LocalSite


def up(
    sites: Annotated[Path, typer.Option("--sites", metavar="DIR", help="A folder with one file for every site.")],
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[SITE:]KEY=VALUE",
            help="A key of every node's own configuration, of SITE's only, or, with --protocol, of the run.",
        ),
    ] = None,
    protocol: Annotated[str | None, typer.Option(help="Run this protocol once, show the result, and end.")] = None,
    tls: Annotated[bool, typer.Option("--tls", help="With TLS, and only for SuperNodes whose key is known.")] = False,
    guard: Annotated[
        bool,
        typer.Option("--guard", help="With a guard for every site, which reads its data in place of its SuperNode."),
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The SuperLink's; default: a free one.")] = 0,
    folder: Annotated[Path, typer.Option(help="Where logs, results and the sites' own directories go.")] = Path(
        "federation"
    ),
    timeout: terminal.Timeout = terminal.DAY,
) -> None:
    """Start a SuperLink and a SuperNode for every site's file on this machine; Ctrl-C ends them all."""
    from consilience.certificates import CertificateError
    from consilience.local_federation import federation, read_sites
    from protocols.registry import names

    try:
        local_sites, settings = read_sites(sites, assignments or (), run=protocol is not None)
        request = federated_run(settings, protocol, timeout) if protocol is not None else None
    except SettingError as error:
        terminal.fail(str(error), terminal.USAGE)
    outcome = None
    try:
        with interruptible(), federation(local_sites, folder, port, tls=tls, guards=guard) as started:
            _print_federation(local_sites, started)
            if request:
                with progress.follow(terminal.console(), "starting Flower") as show:
                    outcome = flower_run.run(request, started.env, show)
            else:
                typer.echo(f"\nto start a run, type in another terminal:\n\n{started.how_to_run(settings)}\n")
                typer.echo(f"PROTOCOL is {', '.join(names())}. Ctrl-C here ends all.")
                started.watch()
    except Interruption as interrupt:
        if request:
            terminal.fail("interrupted; the run was stopped, and all processes have ended", interrupt.exit_code)
        typer.echo("all processes have ended", err=True)
    except (CertificateError, LaunchError, OSError, SettingError) as error:
        terminal.fail(str(error))
    if outcome:
        conclude(outcome)


def _print_federation(sites: "Sequence[LocalSite]", started: "LocalFederation") -> None:
    log = started.logs["center"]
    typer.echo(f"center  results {log.parent / 'results'}\n        log {log}")
    for site in sites:
        log = started.logs[site.name]
        typer.echo(f"site {site.name}  data {site.data}\n        keeps {log.parent / 'out'}\n        log {log}")
