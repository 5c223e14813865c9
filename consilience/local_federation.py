"""A federation for trying out: a SuperLink and a SuperNode for every party's file, all on this machine.

The processes are those of a real deployment (docs/deploy.md), with every party's own directory as its machine would
have it; they end when whoever started them does, unless that is killed without a word (SIGKILL).
"""

from __future__ import annotations

import contextlib
import json
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from common.files import lock
from common.settings import SettingError, Value, absolute, parse, to_toml
from consilience import certificates
from consilience import flower_run as launch
from consilience.app_folder import stage_app
from protocols.settings import run_keys, site_keys

CENTER = "center"
"""Folder of the fusion center, beside those of the sites."""

_OF_A_PARTY = ("data", "site", "site-output-dir")
"""Keys of a node configuration that each site has its own value of."""
_START_SECONDS = 120.0
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Party:
    """A site of the federation.

    Attributes
    ----------
    name : str
        Stem of its file.
    data : Path
        Its file, absolute.
    settings : Mapping
        Node configuration besides ``site``, ``data`` and ``site-output-dir``, or instead of them.
    """

    name: str
    data: Path
    settings: Mapping[str, Value]


@dataclass(frozen=True)
class Federation:
    """Processes under way.

    Attributes
    ----------
    env : dict of str
        Environment in which `flwr` and `launch.run` reach its SuperLink.
    app : Path
        The app that `flwr run` runs.
    logs : dict of Path
        Log file of each process, by the name of its party; the SuperLink's is that of `CENTER`.
    processes : dict of Popen
        The processes themselves, by the same names.
    """

    env: dict[str, str] = field(repr=False)
    app: Path
    logs: dict[str, Path]
    processes: dict[str, subprocess.Popen[bytes]] = field(repr=False)

    def check(self) -> None:
        """Raise a `LaunchError` that names the process, and its log, if one has ended."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                who = "the SuperLink" if name == CENTER else f"the SuperNode of {name}"
                raise launch.LaunchError(f"{who} ended with {process.returncode}; its log is {self.logs[name]}")

    def watch(self) -> None:
        """Wait until one of the processes ends, which is a `LaunchError`, or until interrupted."""
        while True:
            self.check()
            time.sleep(_LOOK_SECONDS)

    def how_to_run(self, settings: Mapping[str, Value]) -> str:
        """What to type in another terminal to start a run."""
        config = to_toml({"protocol": "PROTOCOL", **settings})
        run = shlex.join(["flwr", "run", str(self.app), launch.CONNECTION, "--stream", "--run-config", config])
        home = shlex.quote(self.env["FLWR_HOME"])
        # Flower would ask a company's proxy for its own loopback address.
        return f"export FLWR_HOME={home} FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1 no_proxy=127.0.0.1\n{run}"


def make_parties(folder: Path, assignments: Iterable[str], *, run: bool) -> tuple[list[Party], dict[str, Value]]:
    """The parties whose files are in `folder`, and what the assignments say of a run.

    Parameters
    ----------
    folder : Path
        With a file for every site.
    assignments : iterable of str
        ``KEY=VALUE`` for all sites or for the run, ``SITE:KEY=VALUE`` for one site.
    run : bool
        Whether there is a run for which keys may be set.

    Returns
    -------
    list of Party, dict of Value
        The dictionary holds keys of the run configuration; which column is what is a site's and the run's.

    Raises
    ------
    SettingError
        If a key, a value or a site cannot be used, or the folder holds no party's files.
    """
    from clients.data import DataError, party_files, site_name  # not for `--help`

    try:
        files = {site_name(path): path.absolute() for path in party_files(folder)}
    except DataError as error:
        raise SettingError(str(error)) from None
    if CENTER in files:
        raise SettingError(f"{files[CENTER]}: {CENTER!r} is the fusion center's folder; rename the file")
    of_all, of_one = _by_site(assignments, files)
    of_a_run = run_keys()
    of_a_site = {
        key: each
        for key, each in {**{key: each for key, each in of_a_run.items() if each.own}, **site_keys()}.items()
        if key not in _OF_A_PARTY
    }
    keys = {**of_a_run, **of_a_site}
    given = absolute(parse(of_all, keys), keys)
    if not run and (stray := [key for key in given if key not in of_a_site]):
        raise SettingError(
            f"{stray[0]} is a run's, not a site's: give --protocol too, or set it where you type flwr run"
        )
    common = {key: value for key, value in given.items() if key in of_a_site}
    parties = [
        Party(name, path, {**common, **absolute(parse(of_one[name], of_a_site), keys)}) for name, path in files.items()
    ]
    return parties, {key: value for key, value in given.items() if key in of_a_run}


def _by_site(assignments: Iterable[str], sites: Iterable[str]) -> tuple[list[str], dict[str, list[str]]]:
    """The assignments for all, and those for one site by its name."""
    of_all: list[str] = []
    of_one: dict[str, list[str]] = {name: [] for name in sites}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        site, colon, own = key.partition(":")
        if not colon:
            of_all.append(assignment)
        elif site.strip() in of_one:
            of_one[site.strip()].append(f"{own}{equals}{value}")
        else:
            raise SettingError(
                f"--set {assignment!r}: there is no site {site.strip()!r}; there are: {', '.join(of_one)}"
            )
    return of_all, of_one


@contextlib.contextmanager
def federation(
    parties: Sequence[Party],
    folder: Path,
    port: int = 0,
    *,
    tls: bool = False,
    node_env: Mapping[str, str] | None = None,
    link_options: Sequence[str] = (),
) -> Iterator[Federation]:
    """A SuperLink with a connected SuperNode for every party, ended by process id on leaving.

    Parameters
    ----------
    parties : list of Party
        One SuperNode each.
    folder : Path
        Made if need be. ``center/`` holds the SuperLink's log, configuration and results, ``NAME/`` a site's log and
        in ``NAME/out`` what it keeps for itself.
    port : int
        The SuperLink's; 0: a free one.
    tls : bool
        Whether it speaks TLS and takes only SuperNodes with registered keys. What keys there are in `folder` are used.
    node_env : Mapping of str or None
        Added to the environment of every SuperNode.
    link_options : Sequence of str
        Added to the SuperLink's command line.

    Raises
    ------
    LaunchError
        If a process does not start.
    CertificateError
        If keys cannot be made.
    """
    if port and not launch.is_free(port):
        raise launch.LaunchError(f"somebody listens at port {port} already; leave out --port, or give another")
    folder = folder.expanduser().absolute()
    link_port, *own_ports = launch.free_ports(1 + len(parties))
    address = f"127.0.0.1:{port or link_port}"
    home = folder / CENTER
    secured = _Secured(home / "certificates", folder) if tls else None
    if secured and not secured.certificate.exists():
        certificates.make_server(secured.center, ["127.0.0.1"])
    commands = {
        party.name: _supernode(party, folder / party.name, address, own_port, secured)
        for party, own_port in zip(parties, own_ports, strict=True)
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(_alone_in(folder))
        env = _center(home, address, secured)
        app = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="consilience-app-")))
        stage_app(app)
        processes: dict[str, subprocess.Popen[bytes]] = {}
        stack.callback(_end_undisturbed, processes)
        logs = {CENTER: home / "superlink.log"} | {each.name: folder / each.name / "supernode.log" for each in parties}
        started = Federation(env, app, logs, processes)
        link = [*_superlink(address, secured), *link_options]
        processes[CENTER] = _start(link, home, env, logs[CENTER])
        started_by = time.monotonic() + _START_SECONDS
        _await(partial(launch.is_up, env), started, CENTER, started_by)
        if secured:
            # Each takes Flower a second, nearly all of it to start.
            with ThreadPoolExecutor() as threads:
                try:
                    list(threads.map(partial(secured.register, env=env), commands))
                finally:
                    threads.shutdown(cancel_futures=True)
        for name, command in commands.items():
            own = folder / name
            own_env = {**launch.environment(), **(node_env or {}), "FLWR_HOME": str(own / "flower")}
            processes[name] = _start(command, own, own_env, logs[name])
        for party in parties:
            _await(partial(_is_connected, logs[party.name]), started, party.name, started_by)
        yield started


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Refuse a folder in which another federation is up: its processes would be written over."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("ab") as file:
        try:
            lock(file, wait=False)
        except BlockingIOError:
            raise launch.LaunchError(
                f"another federation is up in {folder}; end it, or give another --folder"
            ) from None
        yield


@dataclass(frozen=True)
class _Secured:
    """Where the keys of a federation with TLS are: the SuperLink's, and in the sites' folders theirs."""

    center: Path
    sites: Path

    @property
    def certificate(self) -> Path:
        return self.center / certificates.SERVER_CERTIFICATE

    @property
    def root(self) -> Path:
        return self.center / certificates.CA_CERTIFICATE

    def key(self, site: str) -> Path:
        return self.sites / site / "keys" / site

    def register(self, site: str, env: Mapping[str, str]) -> None:
        """Have the SuperLink let the site's SuperNode in, by a key that is made if there is none."""
        key = self.key(site)
        if not key.exists():
            certificates.make_site_key(key.parent, site)
        public = str(key.with_name(f"{site}.pub"))
        answer = launch.flwr(["supernode", "register", public, launch.CONNECTION, "--format", "json"], env)
        if '"success": true' not in answer:
            raise launch.LaunchError(f"the SuperLink did not register {public}: {answer.strip() or 'no answer'}")


def _center(home: Path, address: str, secured: _Secured | None) -> dict[str, str]:
    """Flower's directory of the fusion center and of whoever starts runs; returns the environment to use it in."""
    home.mkdir(parents=True, exist_ok=True)
    trust = f"root-certificates = {json.dumps(str(secured.root), ensure_ascii=False)}" if secured else "insecure = true"
    # A connection with an address is the user's own SuperLink: `flwr` starts none in its place.
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "{launch.CONNECTION}"\n\n'
        f'[superlink.{launch.CONNECTION}]\naddress = "{address}"\n{trust}\n',
        encoding="utf-8",
    )
    env = {**launch.environment(), "FLWR_HOME": str(home), launch.PORT_VARIABLE: address.rpartition(":")[2]}
    env.pop(launch.ROOT_VARIABLE, None)
    return env | ({launch.ROOT_VARIABLE: str(secured.root)} if secured else {})


def _superlink(address: str, secured: _Secured | None) -> list[str]:
    host, _, port = address.rpartition(":")
    command = ["flower-superlink", "--host", host, "--port", port, "--disable-runtime-dependency-installation"]
    if secured is None:
        return [*command, "--insecure"]
    command += ["--enable-supernode-auth", "--ssl-ca-certfile", str(secured.root)]
    command += ["--ssl-certfile", str(secured.certificate)]
    return [*command, "--ssl-keyfile", str(secured.center / certificates.SERVER_KEY)]


def _supernode(party: Party, own: Path, address: str, port: int, secured: _Secured | None) -> list[str]:
    node = {"site": party.name, "data": str(party.data), "site-output-dir": str(own / "out"), **party.settings}
    command = ["flower-supernode", "--superlink", address, "--port", str(port), "--node-config", to_toml(node)]
    if secured is None:
        return [*command, "--insecure"]
    key = str(secured.key(party.name))
    return [*command, "--root-certificates", str(secured.root), "--auth-supernode-private-key", key]


def _start(command: list[str], folder: Path, env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """One of Flower's programs in `folder`, in a session of its own: Ctrl-C at the terminal is for this process."""
    folder.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        return subprocess.Popen(
            [launch.program(command[0], env), *command[1:]],
            cwd=folder,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _await(ready: Callable[[], bool], started: Federation, name: str, deadline: float) -> None:
    while not ready():
        started.check()
        if time.monotonic() > deadline:
            raise launch.LaunchError(
                f"{name} was not ready after {_START_SECONDS:g} s; its log is {started.logs[name]}"
            )
        time.sleep(0.1)


def _is_connected(supernode_log: Path) -> bool:
    return "SuperNode ID" in supernode_log.read_text(encoding="utf-8", errors="replace")


def _end_undisturbed(processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """End them, the SuperLink last; a second Ctrl-C must not leave any behind."""
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        launch.end_families([process for name, process in processes.items() if name != CENTER])
        launch.end_families([process for name, process in processes.items() if name == CENTER])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
