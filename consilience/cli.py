"""The command ``consilience``: sugar for Flower's commands; all that it does can be typed with ``flwr``."""

import importlib
import shlex
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from consilience import __version__, progress
from consilience import flower_run as launch
from consilience.run_request import Plan, federated_plan, make_plan
from consilience.settings import SettingError, Value, declared, parse, to_toml

if TYPE_CHECKING:
    from consilience.local_federation import Federation, Party

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
    },
    "sec": {"candidates": "", "min-leaf": 0, "allow-row-models": False},
    "residual": {"agent": "", "min-leaf": 0, "sealed-only": False},
}
"""What a site says in its node configuration only, beside the keys of a run, with values of each key's type."""
_OF_ALL_PROTOCOLS: Mapping[str, Value] = {"cache": True, "min-rows": 0}

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
    from common.results import results_name

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
    port: Annotated[int, typer.Option(min=0, max=65535, help="The SuperLink's; default: a free one.")] = 0,
    folder: Annotated[Path, typer.Option(help="Where logs, results and the sites' own directories go.")] = Path(
        "federation"
    ),
    timeout: Annotated[float, typer.Option(min=1.0, help="Seconds after which the run is stopped.")] = _DAY,
) -> None:
    """Start a SuperLink and a SuperNode for every site's file on this machine; Ctrl-C ends them all."""
    from consilience.certificates import CertificateError
    from consilience.local_federation import federation, make_parties
    from protocols.registry import names

    try:
        own_keys = (_OF_ALL_PROTOCOLS, *_NODE_KEYS.values())
        node_keys = {key: value for keys in own_keys for key, value in keys.items()}
        parties, settings = make_parties(sites, assignments or (), node_keys, run=protocol is not None)
        plan = federated_plan(settings, protocol, timeout) if protocol is not None else None
    except SettingError as error:
        _fail(str(error), _USAGE)
    outcome = None
    try:
        with launch.interruptible(), federation(parties, folder, port, tls=tls) as started:
            _say_federation(parties, started)
            if plan:
                with progress.followed(_console()) as show:
                    outcome = launch.run(plan, started.env, show)
            else:
                typer.echo(f"\nto start a run, type in another terminal:\n\n{started.how_to_run(settings)}\n")
                typer.echo(f"PROTOCOL is {', '.join(names())}. Ctrl-C here ends all.")
                started.watch()
    except launch.Interrupted as interrupt:
        if plan:
            _fail("interrupted; the run was stopped, and all processes have ended", interrupt.exit_code)
        typer.echo("all processes have ended", err=True)
    except (CertificateError, launch.LaunchError, OSError, SettingError) as error:
        _fail(str(error), 1)
    if outcome:
        _conclude(outcome)


def _say_federation(parties: "list[Party]", started: "Federation") -> None:
    log = started.logs["center"]
    typer.echo(f"center  results {log.parent / 'results'}\n        log {log}")
    for party in parties:
        log = started.logs[party.name]
        typer.echo(f"site {party.name}  data {party.data}\n        keeps {log.parent / 'out'}\n        log {log}")


@app.command("certificates")
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
        _fail("say what to make: --host NAME for the SuperLink's certificate, --site NAME for a site's key", _USAGE)
    try:
        for site in sites or ():
            certificates.check_name(site)  # before anything is made
        made = certificates.make_server(folder, hosts, days or certificates.DAYS) if hosts else []
        for site in sites or ():
            made += certificates.make_site_key(folder, site)
    except certificates.CertificateError as error:
        _fail(str(error), 1)
    for path in made:
        typer.echo(f"{path}: {certificates.purpose(path)}")


@app.command()
def check(
    file: Annotated[str, typer.Argument(help="A party's CSV, Parquet or NPZ file, or package.module:function.")],
    protocol: Annotated[str, typer.Option(help="The protocol it is meant for.")],
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A key of the run's or of the node's own configuration."),
    ] = None,
    policy: Annotated[Path | None, typer.Option(help="The site's policy file: say what it refuses, too.")] = None,
) -> None:
    """Check a party's data, and say what of it would be used and what would leave the site. Nothing is sent."""
    from clients.data import DataError, load
    from protocols.registry import names
    from server.config import ConfigError, checked

    if protocol not in names():
        _fail(f"no check for protocol {protocol!r}; there is: {', '.join(names())}", _USAGE)
    try:
        keys, of_the_node = declared(), {**_OF_ALL_PROTOCOLS, **_NODE_KEYS.get(protocol, {})}
        given = parse(assignments or (), {**keys, **of_the_node})
        own = {key: value for key, value in given.items() if key in of_the_node}
        of_the_run = {key: value for key, value in given.items() if key not in of_the_node}
        config = checked(keys | of_the_run | {"data": file}) | own
    except (ConfigError, SettingError) as error:
        _fail(str(error), _USAGE)
    try:
        client = importlib.import_module(f"clients.{protocol}.handlers")
        # One that opens its shard reads its data itself, as `clients.shards` knows too.
        given_data = () if hasattr(client, "open_shard") else (load(config),)
        lines = client.check_lines(*given_data, config)
        if policy is not None:
            lines += [
                "",
                *_policy_lines(policy, protocol, client.own_shard(*given_data, config) if given_data else None, config),
            ]
        typer.echo("\n".join(lines))
    except DataError as error:
        _fail(str(error), 1)


def _policy_lines(file: Path, protocol: str, shard: Any, config: Mapping[str, Any]) -> list[str]:
    """What the policy refuses of the protocol; `shard`: the party's own, None where it is read in blocks."""
    from clients.policy import Policy, PolicyError, check_lines
    from protocols.wire.message import asks_of

    try:
        n_rows = None if shard is None else shard.n
        return check_lines(Policy.read(file.expanduser()), asks_of(protocol), n_rows, int(config.get("min-rows", 0)))
    except PolicyError as error:
        _fail(str(error), 1)


@app.command("ledger")
def compare_ledgers(
    results_dir: Annotated[Path, typer.Argument(help="OUTPUT-DIR/NAME/RUN-ID of a finished run.")],
    site_ledgers: Annotated[
        list[Path], typer.Argument(metavar="SITE-LEDGER...", help="Sites' own ledger.jsonl, or their site-output-dir.")
    ],
) -> None:
    """Say whether the fusion center's ledger of a run and those of sites agree, and what differs."""
    from consilience.ledger_comparison import LedgerError, compare_all

    try:
        lines, agree = compare_all(results_dir.expanduser(), [path.expanduser() for path in site_ledgers])
    except LedgerError as error:
        _fail(str(error), 1)
    typer.echo("\n".join(lines))
    if not agree:
        raise typer.Exit(1)


@app.command()
def predict(
    results_dir: Annotated[Path, typer.Argument(help="OUTPUT-DIR/NAME/RUN-ID of a finished run of sec or coreset.")],
    file: Annotated[str, typer.Argument(metavar="DATA", help="A CSV, Parquet or NPZ file of new rows.")],
    output: Annotated[Path, typer.Option(metavar="FILE", help="Where the predictions go.")] = Path("predictions.csv"),
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="id, target or sensitive, where they differ from the run's."),
    ] = None,
    cluster: Annotated[int | None, typer.Option(help="sec: what this cluster predicts.")] = None,
    learner: Annotated[str, typer.Option(help="sec: what this learner's cluster predicts.")] = "",
    rule: Annotated[str, typer.Option(help="coreset: fair, nearest or points (docs/predict.md).")] = "",
) -> None:
    """Predict new rows by what the fusion center holds of a run; of other protocols say what to type instead."""
    from clients.data import DataError
    from common.files import encoded, replacing
    from consilience.predict import GIVEN, UseError, Wish, use
    from server.report.data import ResultsError

    if output.expanduser().resolve() == Path(file).expanduser().resolve():
        _fail(f"{output} is the file of the rows: name another --output", _USAGE)
    keys = declared()
    try:
        given = parse(assignments or (), {key: keys[key] for key in GIVEN})
    except SettingError as error:
        _fail(str(error), _USAGE)
    try:
        found = use(results_dir, file, given, Wish(cluster, learner, rule))
        with replacing(output.expanduser()) as temporary:
            temporary.write_bytes(encoded(found.csv()))
    except (DataError, ResultsError, UseError) as error:
        _fail(str(error), 1)
    except OSError as error:
        _fail(f"{output} cannot be written: {error.strerror or error}", 1)
    typer.echo("\n".join(found.lines))
    typer.echo(f"predictions: {output.expanduser().absolute()}")


@app.command()
def show(
    results_dir: Annotated[Path, typer.Argument(help="OUTPUT-DIR/NAME/RUN-ID, the path that a run printed last.")],
) -> None:
    """Print the result table of a finished run, and the absolute paths of its page and of its results."""
    from server.report.data import ResultsError
    from server.report.summary import render_table
    from server.results import load

    try:
        report, _ = load(results_dir)
    except ResultsError as error:
        _fail(str(error), 1)
    typer.echo(render_table(report))
    path = results_dir.expanduser().absolute()
    if (path / "report.html").is_file():
        typer.echo(f"to read: {path / 'report.html'}")
    typer.echo(f"results: {path}")


@app.command("compare")
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
        found = open_runs(runs)
    except ResultsError as error:
        _fail(str(error), 1)
    page = output.expanduser().absolute()
    try:
        with replacing(page) as temporary:
            write_file(temporary, [encoded(compare_html(found))])
    except OSError as error:
        _fail(f"the page {page} cannot be written: {error.strerror}; name another --output", 1)
    typer.echo(render_comparison(found))
    typer.echo(f"page: {page}")


def _console() -> Console:
    return Console(file=sys.stdout, highlight=False)
