"""The local SuperLink: a check whether one is up, and a SuperLink of a run's own."""

import contextlib
import ssl
import subprocess  # nosec B404 - Flower's own programs, without a shell
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from consilience.flower_programs import DEFAULT_PORT, PORT_VARIABLE, ROOT_VARIABLE, LaunchError, flower_home, program
from consilience.processes import end_families, free_ports

_START_SECONDS = 60.0


@dataclass(frozen=True)
class SuperLink:
    """A local SuperLink that this process has started.

    Attributes
    ----------
    pid : int
        Process id.
    env : dict of str
        Environment in which `flwr` talks to it.
    log : Path
        Log file.
    """

    pid: int
    env: dict[str, str] = field(repr=False)
    log: Path


def is_up(env: Mapping[str, str]) -> bool:
    """Whether a local SuperLink answers at the address that `flwr` would use."""
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
    """Start a SuperLink for this process alone, on a free port and with its state in memory; end it on leaving.

    Raises
    ------
    LaunchError
        If it does not answer within a minute.
    """
    port = str(free_ports(1)[0])
    log = flower_home(env) / "local-superlink" / "own-superlink.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [
        *(program("flower-superlink", env), "--insecure", "--simulation", "--isolation", "subprocess"),
        *("--disable-runtime-dependency-installation", "--host", "127.0.0.1", "--port", port, "--log-file", str(log)),
    ]
    # In a session of its own, so that a Ctrl-C at the terminal reaches this process first and it can stop the run.
    process = subprocess.Popen(  # noqa: S603 - programs and arguments of our own, no shell
        command,
        cwd=flower_home(env),
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        umask=0o077,
    )
    try:
        link = SuperLink(process.pid, {**env, PORT_VARIABLE: port}, log)
        _await_start(process, link)
        yield link
    finally:
        end_families([process])


@contextlib.contextmanager
def superlink_of(port: int | None, env: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Return the environment in which `flwr` talks to the local SuperLink at this port; None: to one started here.

    Raises
    ------
    LaunchError
        If none answers at the port, or the new one does not start.
    """
    if port is None:
        with own_superlink(env) as own:
            yield own.env
        return
    variables = {**env, PORT_VARIABLE: str(port)}
    if not is_up(variables):
        raise LaunchError(
            f"no SuperLink answers at 127.0.0.1:{port}; leave out --superlink, and the run starts its own"
        )
    yield variables


def _await_start(process: subprocess.Popen[bytes], link: SuperLink) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise LaunchError(f"the SuperLink ended with {process.returncode} as it started; its log is {link.log}")
        if is_up(link.env):
            return
        time.sleep(0.2)
    raise LaunchError(f"the SuperLink did not answer within {_START_SECONDS:g} s; its log is {link.log}")
