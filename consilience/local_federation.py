"""A federation to try out: a SuperLink and a SuperNode for every site's file, all on this machine.

The processes are those of a real deployment (docs/deploy.md). Each site has a directory in place of a machine. The
processes end with the one that started them, unless that is killed by SIGKILL.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess  # nosec B404 - Flower's own programs, without a shell
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from common.files import lock
from common.settings import SettingError, absolute, to_toml
from common.value_ranges import Value
from consilience import certificates, flower_programs
from consilience.app_folder import stage_app
from consilience.assignments import parse
from consilience.flower_programs import CONNECTION, PORT_VARIABLE, ROOT_VARIABLE, LaunchError
from consilience.processes import end_families, free_ports, is_free
from consilience.superlink import is_up
from protocols.settings import run_keys, site_keys

CENTER = "center"
"""Folder of the fusion center, beside those of the sites."""

_OF_ONE_SITE = ("data", "guard", "site", "site-output-dir")
"""Keys of a node configuration that differ between sites."""

_START_SECONDS = 120.0
_SITE_SECONDS = 10.0
"""Seconds that each further site may add to the start, because all share the processor."""
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class LocalSite:
    """A site of the federation.

    Attributes
    ----------
    name : str
        Stem of its file.
    data : Path
        Absolute path of its file.
    settings : Mapping
        Node configuration beside ``site``, ``data`` and ``site-output-dir``; may override them.
    """

    name: str
    data: Path
    settings: Mapping[str, Value]


@dataclass(frozen=True)
class LocalFederation:
    """A running federation.

    Attributes
    ----------
    env : dict of str
        Environment in which `flwr` and `flower_run.run` reach its SuperLink.
    app : Path
        The app for `flwr run`.
    logs : dict of Path
        Log file of each process: by site for SuperNodes, `CENTER` for the SuperLink, ``guard of NAME`` for guards.
    processes : dict of Popen
        The processes by the same names.
    """

    env: dict[str, str] = field(repr=False)
    app: Path
    logs: dict[str, Path]
    processes: dict[str, subprocess.Popen[bytes]] = field(repr=False)

    def check(self) -> None:
        """Raise a `LaunchError` that names the process and its log if one has ended."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                who = "the SuperLink" if name == CENTER else f"the {'' if ' ' in name else 'SuperNode of '}{name}"
                raise LaunchError(f"{who} ended with {process.returncode}; its log is {self.logs[name]}")

    def watch(self) -> None:
        """Wait until interrupted, or until one of the processes ends, which raises `LaunchError`."""
        while True:
            self.check()
            time.sleep(_LOOK_SECONDS)

    def how_to_run(self, settings: Mapping[str, Value]) -> str:
        """Return the command that starts a run from another terminal."""
        config = to_toml({"protocol": "PROTOCOL", **settings})
        run = shlex.join(["flwr", "run", str(self.app), CONNECTION, "--stream", "--run-config", config])
        home = shlex.quote(self.env["FLWR_HOME"])
        # Flower would ask a company's proxy for its own loopback address.
        return f"export FLWR_HOME={home} FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1 no_proxy=127.0.0.1\n{run}"


def read_sites(folder: Path, assignments: Iterable[str], *, run: bool) -> tuple[list[LocalSite], dict[str, Value]]:
    """Return the sites of the files in `folder`, and the settings of a run.

    Parameters
    ----------
    folder : Path
        A file for every site.
    assignments : iterable of str
        ``KEY=VALUE`` for all sites or for the run, ``SITE:KEY=VALUE`` for one site.
    run : bool
        Whether there is a run, whose keys may be set.

    Returns
    -------
    list of LocalSite, dict of Value
        Sites, and keys of the run configuration. Keys that name columns go to both.

    Raises
    ------
    SettingError
        If a key, a value or a site cannot be used, or the folder holds no site's files.
    """
    from clients.data import DataError, site_files, site_name  # not for `--help`

    try:
        files = {site_name(path): path.absolute() for path in site_files(folder)}
    except DataError as error:
        raise SettingError(str(error)) from None
    if CENTER in files:
        raise SettingError(f"{files[CENTER]}: {CENTER!r} is the fusion center's folder; rename the file")
    of_all, of_one = _by_site(assignments, files)
    of_runs = run_keys()
    own = {key: each for key, each in of_runs.items() if each.own}
    of_sites = {key: each for key, each in {**own, **site_keys()}.items() if key not in _OF_ONE_SITE}
    keys = {**of_runs, **of_sites}
    settings = absolute(parse(of_all, keys), keys)
    if not run and (stray := [key for key in settings if key not in of_sites]):
        raise SettingError(
            f"{stray[0]} is a run's, not a site's: give --protocol too, or set it where you type flwr run"
        )
    common = {key: value for key, value in settings.items() if key in of_sites}
    sites = [
        LocalSite(name, path, {**common, **absolute(parse(of_one[name], of_sites), keys)})
        for name, path in files.items()
    ]
    return sites, {key: value for key, value in settings.items() if key in of_runs}


def _by_site(assignments: Iterable[str], sites: Iterable[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the assignments for all sites, and by site name those for one."""
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
    sites: Sequence[LocalSite],
    folder: Path,
    port: int = 0,
    *,
    tls: bool = False,
    guards: bool = False,
    node_env: Mapping[str, str] | None = None,
    link_options: Sequence[str] = (),
) -> Iterator[LocalFederation]:
    """Start a SuperLink with a connected SuperNode for every site; end them by process id on leaving.

    Parameters
    ----------
    sites : list of LocalSite
        One SuperNode each.
    folder : Path
        Made if need be. ``center/`` holds the SuperLink's log, configuration and results, ``NAME/`` a site's log, and
        ``NAME/out`` the site's own directory.
    port : int
        Port of the SuperLink; 0: a free one.
    tls : bool
        Whether the SuperLink speaks TLS and admits only SuperNodes with registered keys; existing keys are used.
    guards : bool
        Whether every site has a guard, which reads its data in place of its SuperNode.
    node_env : Mapping of str or None
        Added to the environment of every SuperNode and guard.
    link_options : Sequence of str
        Added to the SuperLink's command line.

    Raises
    ------
    LaunchError
        If a process does not start.
    CertificateError
        If keys cannot be made.
    """
    if port and not is_free(port):
        raise LaunchError(f"port {port} is in use already; leave out --port, or give another")
    folder = folder.expanduser().absolute()
    link_port, *own_ports = free_ports(1 + len(sites))
    address = f"127.0.0.1:{port or link_port}"
    home = folder / CENTER
    tls_keys = _TlsKeys(home / "certificates", folder) if tls else None
    if tls_keys and not tls_keys.certificate.exists():
        certificates.make_server(tls_keys.center, ["127.0.0.1"])
    nodes = {site.name: _node(site, folder / site.name) for site in sites}
    with contextlib.ExitStack() as stack:
        stack.enter_context(_alone_in(folder))
        behind: dict[str, dict[str, Value]] = {}
        if guards:  # a socket's path may have a hundred characters, and the folder's may have more
            sockets = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="consilience-guards-")))
            behind, nodes = nodes, {name: {"site": name, "guard": str(sockets / name)} for name in nodes}
        commands = {
            name: _supernode(node, address, own_port, tls_keys)
            for (name, node), own_port in zip(nodes.items(), own_ports, strict=True)
        }
        env = _center(home, address, tls_keys)
        app = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="consilience-app-")))
        stage_app(app)
        processes: dict[str, subprocess.Popen[bytes]] = {}
        stack.callback(_end_all, processes)
        logs = {CENTER: home / "superlink.log"} | {each.name: folder / each.name / "supernode.log" for each in sites}
        started = LocalFederation(env, app, logs, processes)
        link = [*_superlink(address, tls_keys), *link_options]
        processes[CENTER] = _start(link, home, env, logs[CENTER])
        started_by = time.monotonic() + _START_SECONDS + _SITE_SECONDS * len(sites)
        _await(partial(is_up, env), started, CENTER, started_by)
        if tls_keys:
            # Each registration takes a processor second, nearly all of it for flwr to start.
            with ThreadPoolExecutor(os.cpu_count()) as threads:
                try:
                    list(threads.map(partial(tls_keys.register, env=env, deadline=started_by), commands))
                finally:
                    threads.shutdown(cancel_futures=True)
        env_of_nodes = {**flower_programs.environment(len(sites)), **(node_env or {})}
        for name, node in behind.items():
            guard = f"guard of {name}"
            logs[guard] = folder / name / "guard.log"
            command = ["consilience", "guard", str(nodes[name]["guard"]), "--node-config", to_toml(node)]
            processes[guard] = _start(command, folder / name, env_of_nodes, logs[guard])
        for name, command in commands.items():
            own = folder / name
            processes[name] = _start(command, own, {**env_of_nodes, "FLWR_HOME": str(own / "flower")}, logs[name])
        for name in behind:
            _await(partial(Path(str(nodes[name]["guard"])).exists), started, f"guard of {name}", started_by)
        for site in sites:
            _await(partial(_is_connected, logs[site.name]), started, site.name, started_by)
        yield started


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Refuse the folder of another running federation, whose files would be overwritten."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("ab") as file:
        try:
            lock(file, wait=False)
        except BlockingIOError:
            raise LaunchError(f"another federation is up in {folder}; end it, or give another --folder") from None
        yield


@dataclass(frozen=True)
class _TlsKeys:
    """Keys of a federation with TLS: the SuperLink's folder, and the folder of the sites' folders."""

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

    def register(self, site: str, env: Mapping[str, str], deadline: float) -> None:
        """Register the site's key, a new one if need be, so that the SuperLink admits its SuperNode."""
        key = self.key(site)
        if not key.exists():
            certificates.make_site_key(key.parent, site)
        public = str(key.with_name(f"{site}.pub"))
        command = ["supernode", "register", public, CONNECTION, "--format", "json"]
        answer = flower_programs.flwr(command, env, max(1.0, deadline - time.monotonic()))
        if '"success": true' not in answer:
            raise LaunchError(f"the SuperLink did not register {public}: {answer.strip() or 'no answer'}")


def _center(home: Path, address: str, tls_keys: _TlsKeys | None) -> dict[str, str]:
    """Write Flower's directory of the fusion center and of users who start runs; return its environment."""
    home.mkdir(parents=True, exist_ok=True)
    trust = (
        f"root-certificates = {json.dumps(str(tls_keys.root), ensure_ascii=False)}" if tls_keys else "insecure = true"
    )
    # A connection with an address is the user's own SuperLink: `flwr` starts none in its place.
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\naddress = "{address}"\n{trust}\n',
        encoding="utf-8",
    )
    env = {**flower_programs.environment(), "FLWR_HOME": str(home), PORT_VARIABLE: address.rpartition(":")[2]}
    env.pop(ROOT_VARIABLE, None)
    return env | ({ROOT_VARIABLE: str(tls_keys.root)} if tls_keys else {})


def _superlink(address: str, tls_keys: _TlsKeys | None) -> list[str]:
    host, _, port = address.rpartition(":")
    command = ["flower-superlink", "--host", host, "--port", port, "--disable-runtime-dependency-installation"]
    if tls_keys is None:
        return [*command, "--insecure"]
    command += ["--enable-supernode-auth", "--ssl-ca-certfile", str(tls_keys.root)]
    command += ["--ssl-certfile", str(tls_keys.certificate)]
    return [*command, "--ssl-keyfile", str(tls_keys.center / certificates.SERVER_KEY)]


def _node(site: LocalSite, own: Path) -> dict[str, Value]:
    return {"site": site.name, "data": str(site.data), "site-output-dir": str(own / "out"), **site.settings}


def _supernode(node: Mapping[str, Value], address: str, port: int, tls_keys: _TlsKeys | None) -> list[str]:
    command = ["flower-supernode", "--superlink", address, "--port", str(port), "--node-config", to_toml(node)]
    if tls_keys is None:
        return [*command, "--insecure"]
    key = str(tls_keys.key(str(node["site"])))
    return [*command, "--root-certificates", str(tls_keys.root), "--auth-supernode-private-key", key]


def _start(command: list[str], folder: Path, env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start one of Flower's programs in `folder`, in a session of its own, which Ctrl-C does not reach."""
    folder.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        return subprocess.Popen(  # noqa: S603 - programs and arguments of our own, no shell
            [flower_programs.program(command[0], env), *command[1:]],
            cwd=folder,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o077,  # answers of sites stay in the SuperLink's state, and results beside it
        )


def _await(ready: Callable[[], bool], started: LocalFederation, name: str, deadline: float) -> None:
    while not ready():
        started.check()
        if time.monotonic() > deadline:
            raise LaunchError(f"{name} was not ready in time; its log is {started.logs[name]}")
        time.sleep(0.1)


def _is_connected(supernode_log: Path) -> bool:
    return "SuperNode ID" in supernode_log.read_text(encoding="utf-8", errors="replace")


def _end_all(processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """End all processes, the SuperLink last; a second Ctrl-C must not leave any behind."""
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        end_families([process for name, process in processes.items() if name != CENTER])
        end_families([process for name, process in processes.items() if name == CENTER])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
