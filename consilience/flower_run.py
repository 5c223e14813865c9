"""Starts a run with Flower's own commands, follows its log, and says how it really ended.

``flwr run --stream`` exits with 0 whatever became of the run, and leaves a local SuperLink behind. So the run's status
is asked for afterwards (``flwr list``), and a SuperLink that was started here is ended here, by its process id.
"""

import contextlib
import json
import os
import queue
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import psutil

from common.settings import to_toml
from consilience.app_folder import stage_app
from consilience.run_request import Plan

PORT_VARIABLE = "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT"
"""Environment variable by which flwr finds its local SuperLink, and its default port."""
DEFAULT_PORT = "39091"
ROOT_VARIABLE = "CONSILIENCE_ROOT_CERTIFICATES"
"""Environment variable that names the CA certificate of a local SuperLink that speaks TLS."""
CONNECTION = "local"
"""Name that Flower's configuration gives to the local SuperLink: a simulation never goes elsewhere."""

_START_SECONDS = 60.0
_COMMAND_SECONDS = 60.0
_FINISH_SECONDS = 60.0
_STOP_SECONDS = 15.0
_SUBMIT_SECONDS = 5.0

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LEVEL = re.compile(r"^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s*:\s+")
_STARTED = re.compile(r"^Successfully started run (\d+)")
_ROUND = re.compile(r"^round +(\d+)\s+(.*)")
_MEASURE = re.compile(r"[\w.-]+=\S+(?: [kMGT]?B\b)?")


_Lines = queue.SimpleQueue[str | None]
"""Lines of a process as they come, then None."""


class LaunchError(RuntimeError):
    """Flower's commands could not do their part; the message says what to do."""


class Interrupted(KeyboardInterrupt):
    """The user (SIGINT) or the system (SIGTERM, SIGHUP) asked for an end; `run_id` names the run, if one had begun."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.exit_code = 128 + number
        self.run_id = ""


@dataclass
class Transcript:
    """What the log of a run has said so far.

    Attributes
    ----------
    run_id : str
        Flower's number of the run; empty until it is known.
    results : Path or None
        Results directory, once the run has said so.
    refused : str
        Why the app refused to run; empty if it did not.
    """

    run_id: str = ""
    results: Path | None = None
    refused: str = ""

    def read(self, line: str) -> None:
        """Take note of one line."""
        text = message(line)
        if started := _STARTED.match(text):
            self.run_id = started[1]
        elif text.startswith("results: "):
            self.results = Path(text.removeprefix("results: "))
        elif text.startswith("refused: "):
            self.refused = text.removeprefix("refused: ")


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    transcript : Transcript
        What its log said.
    status : str
        Flower's status, ``finished:completed`` if all is well; empty if no run was started.
    details : str
        Flower's reason for another status, or the last words of ``flwr run`` if no run was started.
    """

    transcript: Transcript
    status: str = ""
    details: str = ""

    @property
    def completed(self) -> bool:
        """Whether the run did all that it was asked."""
        return self.status == "finished:completed"


@dataclass(frozen=True)
class SuperLink:
    """A local SuperLink that was started here.

    Attributes
    ----------
    pid : int
        Its process id.
    env : dict of str
        Environment in which `flwr` talks to it.
    log : Path
        Its log file.
    """

    pid: int
    env: dict[str, str] = field(repr=False)
    log: Path


def message(line: str) -> str:
    """A log line without colours and without the level that Flower's logger puts before it."""
    return _LEVEL.sub("", _COLOUR.sub("", line)).strip()


def round_of(line: str) -> tuple[int, str] | None:
    """Round number and measures (``bound=-434.6 change=1e-04``) of a progress line; None for any other line."""
    found = _ROUND.match(message(line))
    return (int(found[1]), " ".join(_MEASURE.findall(found[2]))) if found else None


def environment() -> dict[str, str]:
    """The environment in which Flower's commands run: this Python's programs first, nothing installed or sent.

    Flower would otherwise build a new environment for every app, send usage statistics, look for updates, and ask
    the proxy of a company network for its own loopback address.
    """
    env = dict(os.environ)
    env["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), env.get("PATH", os.defpath)))
    env["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] = "1"
    env["FLWR_DISABLE_UPDATE_CHECK"] = "1"
    env.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    env["PYTHONUNBUFFERED"] = "1"
    env.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what Ray will do by default, without its warning
    env["no_proxy"] = ",".join(filter(None, (env.get("no_proxy") or env.get("NO_PROXY"), "127.0.0.1")))
    return env


def flwr_arguments(app: str, plan: Plan) -> list[str]:
    """Arguments of `flwr` that start the plan and stream its log."""
    arguments = ["run", app, CONNECTION, "--stream"]
    if plan.settings:
        arguments += ["--run-config", to_toml(plan.settings)]
    if plan.sites == 0:
        return arguments
    return [*arguments, "--federation-config", f"num-supernodes={plan.sites} client-resources-num-cpus=1"]


def is_up(env: Mapping[str, str]) -> bool:
    """Whether a local SuperLink answers where `flwr` would look for it."""
    certificates = env.get(ROOT_VARIABLE)
    address = f"127.0.0.1:{env.get(PORT_VARIABLE, DEFAULT_PORT)}"
    url = f"{'https' if certificates else 'http'}://{address}/health"
    try:
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if certificates:
            handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=certificates)))
        opener = urllib.request.build_opener(*handlers)
        with opener.open(url, timeout=1.0) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False


@contextlib.contextmanager
def own_superlink(env: Mapping[str, str]) -> Iterator[SuperLink]:
    """A SuperLink for this process alone: on a free port, its state in memory, ended by process id on leaving.

    Raises
    ------
    LaunchError
        If it does not answer within a minute.
    """
    port = str(free_ports(1)[0])
    log = _home(env) / "local-superlink" / "own-superlink.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [
        *(program("flower-superlink", env), "--insecure", "--simulation", "--isolation", "subprocess"),
        *("--disable-runtime-dependency-installation", "--host", "127.0.0.1", "--port", port, "--log-file", str(log)),
    ]
    # In a session of its own, so that a Ctrl-C at the terminal reaches this process first and it can stop the run.
    process = subprocess.Popen(
        command,
        cwd=_home(env),
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        link = SuperLink(process.pid, {**env, PORT_VARIABLE: port}, log)
        _await_start(process, link)
        yield link
    finally:
        end_families([process])


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Raise `Interrupted` on SIGINT and SIGTERM, so that whoever started a run also stops it.

    On SIGHUP too, when the terminal is closed, unless that is to be ignored (``nohup``).
    """

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise Interrupted(number)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def run(plan: Plan, env: Mapping[str, str], show: Callable[[str], None]) -> Outcome:
    """Start the plan, hand every line of its log to `show`, wait, and ask Flower how it ended.

    Raises
    ------
    Interrupted
        On SIGINT or SIGTERM (inside `interruptible`); the run has been stopped.
    LaunchError
        If the run took longer than the plan allows (it has been stopped), or Flower does not say how it ended.
    """
    transcript = Transcript()
    last = ""
    with tempfile.TemporaryDirectory(prefix="consilience-") as folder:
        stage_app(Path(folder))
        with _started([program("flwr", env), *flwr_arguments(folder, plan)], env) as process:
            lines = _reader(process)
            try:
                for line in _until(lines, time.monotonic() + plan.seconds):
                    transcript.read(line)
                    last = message(line) or last
                    if not transcript.refused:  # what follows is Flower's traceback of the refusal
                        show(line)
            except BaseException as error:
                _abandon(transcript, lines, env)
                if isinstance(error, Interrupted):
                    error.run_id = transcript.run_id
                if isinstance(error, TimeoutError):
                    raise LaunchError(f"the run took longer than {plan.seconds:g} s and was stopped") from None
                raise
    if not transcript.run_id:
        return Outcome(transcript, details=last)
    return Outcome(transcript, *await_finish(transcript.run_id, env))


def _abandon(transcript: Transcript, lines: _Lines, env: Mapping[str, str]) -> None:
    """Stop the run; one that is just being submitted gets a moment to say its number."""
    if not transcript.run_id:
        with contextlib.suppress(TimeoutError):
            for line in _until(lines, time.monotonic() + _SUBMIT_SECONDS):
                transcript.read(line)
                if transcript.run_id:
                    break
    if transcript.run_id:
        stop(transcript.run_id, env)


def stop(run_id: str, env: Mapping[str, str]) -> None:
    """Ask Flower to stop a run, and wait until it has (a minute at most)."""
    # `flwr stop` would start a SuperLink if there were none, and nobody would end that one.
    if is_up(env):
        flwr(["stop", run_id, CONNECTION, "--format", "json"], env)
        with contextlib.suppress(LaunchError):
            await_finish(run_id, env)


def await_finish(run_id: str, env: Mapping[str, str]) -> tuple[str, str]:
    """Status and details of a run whose log has ended: Flower closes the log a moment before the run.

    Raises
    ------
    LaunchError
        If the SuperLink is gone, or the run is not finished after a minute.
    """
    deadline = time.monotonic() + _FINISH_SECONDS
    status, details = "", ""
    while time.monotonic() < deadline:
        if not is_up(env):
            raise LaunchError(f"the SuperLink ended before run {run_id} did; start the run again")
        answer = flwr(["list", CONNECTION, "--run-id", run_id, "--format", "json"], env)
        status, details = parse_status(answer, run_id)
        if status.startswith("finished"):
            return status, details
        time.sleep(0.5)
    raise LaunchError(f"run {run_id} has no end after {_FINISH_SECONDS:g} s (status: {status or 'unknown'})")


def parse_status(answer: str, run_id: str) -> tuple[str, str]:
    """Status and details of a run in the JSON that ``flwr list --format json`` printed; empty if it is not there."""
    try:
        runs = json.loads(answer).get("runs", [])
    except (ValueError, AttributeError):
        return "", ""
    found: dict[str, str] = next((entry for entry in runs if entry.get("run-id") == run_id), {})
    details = found.get("status-details", "")
    return found.get("status", ""), "" if details == "N/A" else details


def flwr(arguments: list[str], env: Mapping[str, str]) -> str:
    """What a short `flwr` command printed; nothing if it did not end in time."""
    try:
        done = subprocess.run(
            [program("flwr", env), *arguments],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout


def program(name: str, env: Mapping[str, str]) -> str:
    """Path of one of Flower's programs; a `LaunchError` if it is not installed."""
    found = shutil.which(name, path=env.get("PATH"))
    if found is None:
        raise LaunchError(f"there is no program {name!r} beside {sys.executable}; install Flower: pip install flwr")
    return found


def _home(env: Mapping[str, str]) -> Path:
    """Flower's own directory, made if need be.

    Flower's processes are started in it: simulated sites import modules from the directory that their SuperLink was
    started in before those of the app's bundle, and a checkout there would run in the place of the app.
    """
    home = Path(env.get("FLWR_HOME") or Path.home() / ".flwr").expanduser().absolute()
    home.mkdir(parents=True, exist_ok=True)
    return home


@contextlib.contextmanager
def _started(command: list[str], env: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process whose output is read here, and which is ended on leaving."""
    process = subprocess.Popen(
        command,
        cwd=_home(env),
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _end(process)
        if process.stdout is not None:
            process.stdout.close()


def _reader(process: subprocess.Popen[str]) -> _Lines:
    """The process's lines, read in a thread so that waiting for one can have an end."""
    lines: _Lines = queue.SimpleQueue()

    def read() -> None:
        # The pipe was closed here if this raises: nobody wants more.
        with contextlib.suppress(ValueError, OSError):
            for line in process.stdout or ():
                lines.put(line.rstrip("\r\n"))
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    return lines


def _until(lines: _Lines, deadline: float) -> Iterator[str]:
    """The lines up to the last; TimeoutError at the deadline (``time.monotonic``)."""
    while True:
        try:
            line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise TimeoutError from None
        if line is None:
            return
        yield line


def _end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """End a process that was started here: politely, then not."""
    for ask in (process.terminate, process.kill):
        if process.poll() is None:
            ask()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_SECONDS)


def end_families(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes that were started here, all at the same time, and those that they started in turn.

    A SuperLink that ends leaves its simulation behind, which would go on with the round that it is in.
    """
    family: list[psutil.Process] = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            family += psutil.Process(process.pid).children(recursive=True)
        process.terminate()
    for process in processes:
        # Once asked, Flower's processes take a second request for impatience.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
        _end(process)
    for ask in (psutil.Process.terminate, psutil.Process.kill):
        for each in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                ask(each)
        _, family = psutil.wait_procs(family, _STOP_SECONDS)


def _await_start(process: subprocess.Popen[bytes], link: SuperLink) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise LaunchError(f"the SuperLink ended with {process.returncode} as it started; its log is {link.log}")
        if is_up(link.env):
            return
        time.sleep(0.2)
    raise LaunchError(f"the SuperLink did not answer within {_START_SECONDS:g} s; its log is {link.log}")


def is_free(port: int) -> bool:
    """Whether a server could listen at this port of the loopback address."""
    with socket.socket() as probe:
        # As servers do: a port is free though connections of the last one that listened there still linger.
        if os.name == "posix":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(number: int) -> list[int]:
    """Ports of the loopback address that nobody listens at."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(number)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
