"""``consilience certificates``."""

from pathlib import Path
from typing import Annotated

import typer

from consilience.commands import terminal


def make_certificates(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the files go; made if need be.")],
    hosts: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="NAME", help="Name or address by which sites reach the SuperLink; many times."),
    ] = None,
    sites: Annotated[
        list[str] | None, typer.Option("--site", metavar="NAME", help="Make this site's SuperNode key; many times.")
    ] = None,
    days: Annotated[int | None, typer.Option(min=1, max=3650, help="How long the server certificate is valid.")] = None,
) -> None:
    """Make the SuperLink's certificate (--host), by a CA of your own, or a site's key (--site). Nothing is replaced."""
    from consilience import certificates

    if not hosts and not sites:
        terminal.fail(
            "say what to make: --host NAME for the SuperLink's certificate, --site NAME for a site's key",
            terminal.USAGE,
        )
    try:
        for site in sites or ():
            certificates.check_name(site)  # before any file is written
        files = certificates.make_server(folder, hosts, days or certificates.DAYS) if hosts else []
        for site in sites or ():
            files += certificates.make_site_key(folder, site)
    except certificates.CertificateError as error:
        terminal.fail(str(error))
    for path in files:
        typer.echo(f"{path}: {certificates.purpose(path)}")
