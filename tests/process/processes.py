"""Real Flower processes for tests: SuperLinks with a home and ports of their own, SuperNodes, runs, and their ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from common.settings import to_toml
from common.value_ranges import Value
from consilience import flower_run
from consilience.flower_programs import CONNECTION, environment
from consilience.local_federation import LocalSite, federation
from consilience.run_log import Transcript, message
from consilience.run_request import RunRequest
from consilience.superlink import own_superlink

APP = Path(__file__).resolve().parents[2]
"""The checkout: the app that `flwr run .` runs."""

THREADS = {f"{library}_NUM_THREADS": "2" for library in ("MKL", "OMP", "OPENBLAS")}
"""The tests' own process has one thread for numerical libraries: results do not depend on their number."""

PATIENCE = 1200.0
"""Seconds until a run counts as hanging: with other work on the machine it takes ten times as long as alone."""


@dataclass(frozen=True)
class FlowerHome:
    """A SuperLink of the tests' own.

    Attributes
    ----------
    path : Path
        Its FLWR_HOME; the SuperLink's log is in ``local-superlink``.
    env : dict of str
        Environment for `flwr`, and for `consilience run` with ``--superlink``.
    superlink_pid : int
        Process id of the SuperLink; it ends when the context of `flower_home` does.
    """

    path: Path
    env: dict[str, str] = field(repr=False)
    superlink_pid: int


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended.

    Attributes
    ----------
    run_id : str
        Flower's number of the run; empty if none was started.
    status : str
        ``finished:completed``, ``finished:failed``, ...; empty if none was started.
    log : str
        All that `flwr run --stream` printed, without colors.
    results : Path or None
        The results directory that the log names.
    refused : str
        The app's one line, if it refused to run.
    """

    run_id: str
    status: str
    log: str
    results: Path | None
    refused: str

    @property
    def completed(self) -> bool:
        return self.status == "finished:completed"


@contextlib.contextmanager
def flower_home(path: Path) -> Iterator[FlowerHome]:
    """A SuperLink with `path` as its FLWR_HOME, on a free port: it neither meets nor disturbs the developer's own."""
    env = {**environment(), **THREADS, "FLWR_HOME": str(path)}
    with own_superlink(env) as superlink:
        yield FlowerHome(path, superlink.env, superlink.pid)


@dataclass
class BackgroundRun:
    """A run under way: what a test needs to disturb it.

    `log_path` grows as the run goes on; `wait` gives the outcome.
    """

    process: subprocess.Popen[bytes]
    log_path: Path
    env: Mapping[str, str]

    def log(self) -> str:
        text = self.log_path.read_text(encoding="utf-8", errors="replace")
        return "\n".join(message(line) for line in text.splitlines())

    def wait_for(self, text: str, timeout: float = PATIENCE) -> None:
        """Return as soon as the log holds `text`; fail if the run ends or time runs out before."""
        deadline = time.monotonic() + timeout
        while text not in self.log():
            ended = self.process.poll() is not None
            if text in self.log():
                return
            if ended or time.monotonic() > deadline:
                raise AssertionError(f"{'the run ended' if ended else 'time ran out'} before {text!r}:\n{self.log()}")
            time.sleep(0.1)

    def wait(self, timeout: float = PATIENCE) -> RunOutcome:
        """The outcome, once the log has ended; the run is given up after `timeout` seconds."""
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.end()
            raise AssertionError(f"the run took longer than {timeout:g} s:\n{self.log()}") from None
        transcript = self._transcript()
        status = flower_run.await_finish(transcript.run_id, self.env)[0] if transcript.run_id else ""
        return RunOutcome(transcript.run_id, status, self.log(), transcript.results, transcript.refused)

    def end(self) -> None:
        """Stop the run if there is one, and the process that streams its log."""
        if self.process.poll() is None:
            if run_id := self._transcript().run_id:
                flower_run.stop(run_id, self.env)
            self.process.kill()
            self.process.wait(10)

    def _transcript(self) -> Transcript:
        transcript = Transcript()
        for line in self.log().splitlines():
            transcript.read(line)
        return transcript


def start_run(
    app_dir: Path, run_config: Mapping[str, Value], sites: int, env: Mapping[str, str], log_path: Path
) -> BackgroundRun:
    """``flwr run APP local --stream`` in the background, in `app_dir`; paths in `run_config` must be absolute."""
    return _start(flower_run.flwr_arguments(".", RunRequest(dict(run_config), sites, 0.0)), app_dir, env, log_path)


def start_deployed_run(
    app_dir: Path, run_config: Mapping[str, Value], env: Mapping[str, str], log_path: Path
) -> BackgroundRun:
    """The same on the SuperNodes of a `deployment`, however many there are; `env` is the deployment's."""
    return _start(["run", ".", CONNECTION, "--stream", "--run-config", to_toml(run_config)], app_dir, env, log_path)


def _start(arguments: list[str], app_dir: Path, env: Mapping[str, str], log_path: Path) -> BackgroundRun:
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            ["flwr", *arguments],
            cwd=app_dir,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return BackgroundRun(process, log_path, env)


def flwr_run(app_dir: Path, run_config: Mapping[str, Value], sites: int, env: Mapping[str, str]) -> RunOutcome:
    """``flwr run APP local --stream`` until it ends, then the status that Flower gives the run."""
    with tempfile.TemporaryDirectory() as folder:
        run = start_run(app_dir, run_config, sites, env, Path(folder) / "log")
        try:
            return run.wait()
        finally:
            run.end()


# -- the deployment engine --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Deployment:
    """A SuperLink with a SuperNode for every site, on loopback.

    Attributes
    ----------
    env : dict of str
        Environment for `start_deployed_run`.
    supernodes : dict of Popen
        Each site's SuperNode, by the site's name.
    processes : dict of Popen
        All processes, as `consilience.local_federation.LocalFederation` names them.
    """

    env: dict[str, str] = field(repr=False)
    supernodes: dict[str, subprocess.Popen[bytes]]
    processes: dict[str, subprocess.Popen[bytes]] = field(repr=False)


@contextlib.contextmanager
def deployment(
    folder: Path,
    nodes: Mapping[str, Mapping[str, Value]],
    node_env: Mapping[str, str] | None = None,
    *,
    guards: bool = False,
) -> Iterator[Deployment]:
    """A SuperLink, and a SuperNode for every site, with TLS and registered keys; homes and logs are in `folder`.

    Parameters
    ----------
    folder : Path
        Existing and empty of homes.
    nodes : Mapping
        Each site's node configuration, by its name.
    node_env : Mapping of str or None
        Added to the environment of every SuperNode.
    guards : bool
        Whether every site has a guard.
    """
    sites = [LocalSite(name, Path(str(node["data"])), node) for name, node in nodes.items()]
    env = {**THREADS, **(node_env or {})}
    with federation(sites, folder / "federation", tls=True, guards=guards, node_env=env) as started:
        yield Deployment(started.env, {name: started.processes[name] for name in nodes}, started.processes)


# -- by process id ----------------------------------------------------------------------------------------------------


def descendants(pid: int) -> dict[int, str]:
    """Command lines of all living processes below `pid`, by process id (Linux: reads /proc)."""
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, ValueError):
                # The name of a process, in parentheses, may hold spaces: the fields begin behind the last one.
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                words = (entry / "cmdline").read_bytes().split(b"\0")
                commands[int(entry.name)] = " ".join(word.decode(errors="replace") for word in words).strip()
    below, frontier = set[int](), {pid}
    while frontier := {child for child, parent in parents.items() if parent in frontier} - below:
        below |= frontier
    return {child: commands.get(child, "") for child in sorted(below)}


def kill_serverapp(superlink_pid: int, number: signal.Signals = signal.SIGKILL) -> int:
    """Kill the process in which the ServerApp and the simulation engine run; returns its process id."""
    found = [pid for pid, command in descendants(superlink_pid).items() if "flwr-simulation" in command]
    if not found:
        raise AssertionError(f"no ServerApp runs below the SuperLink {superlink_pid}")
    os.kill(found[0], number)
    return found[0]


# -- what crossed -----------------------------------------------------------------------------------------------------


def payloads_of(results: Path) -> set[str]:
    """Titles of all payloads in the center's ledger."""
    return {line["payload"] for line in map(json.loads, (results / "ledger.jsonl").read_text().splitlines())}
