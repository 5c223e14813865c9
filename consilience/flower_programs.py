"""Flower's own programs: their paths, environment and directory, and the output of a short one."""

import os
import shutil
import subprocess  # nosec B404 - Flower's own programs, without a shell
import sys
from collections.abc import Mapping
from pathlib import Path

PORT_VARIABLE = "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT"
"""Environment variable by which flwr finds its local SuperLink."""
DEFAULT_PORT = "39091"
"""Its port if the variable is not set."""
ROOT_VARIABLE = "CONSILIENCE_ROOT_CERTIFICATES"
"""Environment variable that names the CA certificate of a local SuperLink that speaks TLS."""
CONNECTION = "local"
"""Name of the local SuperLink in Flower's configuration. A simulation never uses another."""

_COMMAND_SECONDS = 60.0


class LaunchError(RuntimeError):
    """Error: Flower's programs failed. The message says what to do."""


def environment(n_programs: int = 1) -> dict[str, str]:
    """Return the environment of Flower's programs, which prefers this Python and installs nothing.

    Flower would otherwise build a new environment for every app, send usage statistics, look for updates, and ask
    the proxy of a company network for its own loopback address.

    Parameters
    ----------
    n_programs : int
        Number of programs with this environment on the machine. Each looks for asks ten times a second; together at
        most fifty times, because each look takes 3 ms of a processor.

    Examples
    --------
    >>> environment()["FLWR_SUPEREXEC_TASK_POLL_INTERVAL"], environment(50)["FLWR_SUPEREXEC_TASK_POLL_INTERVAL"]
    ('0.1', '1.0')
    """
    env = dict(os.environ)
    env["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), env.get("PATH", os.defpath)))
    env["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] = "1"
    env["FLWR_DISABLE_UPDATE_CHECK"] = "1"
    env.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    # In seconds. Flower's own is 1, so that half a second passes before an ask is taken up.
    env.setdefault("FLWR_SUPEREXEC_TASK_POLL_INTERVAL", str(max(0.1, n_programs / 50)))
    env["PYTHONUNBUFFERED"] = "1"
    env.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what Ray will do by default, without its warning
    env["no_proxy"] = ",".join(filter(None, (env.get("no_proxy") or env.get("NO_PROXY"), "127.0.0.1")))
    return env


def program(name: str, env: Mapping[str, str]) -> str:
    """Return the path of one of Flower's programs; raise `LaunchError` if it is not installed."""
    path = shutil.which(name, path=env.get("PATH"))
    if path is None:
        raise LaunchError(f"there is no program {name!r} beside {sys.executable}; install Flower: pip install flwr")
    return path


def flwr(arguments: list[str], env: Mapping[str, str], seconds: float = _COMMAND_SECONDS) -> str:
    """Return the output of a short `flwr` command; empty if it did not end within `seconds`."""
    try:
        done = subprocess.run(  # noqa: S603 - programs and arguments of our own, no shell
            [program("flwr", env), *arguments],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout


def flower_home(env: Mapping[str, str]) -> Path:
    """Return Flower's own directory, made if need be.

    Flower's processes start in it. Simulated sites import modules from the directory in which their SuperLink
    started before those of the app's bundle: a checkout there would run in place of the app.
    """
    home = Path(env.get("FLWR_HOME") or Path.home() / ".flwr").expanduser().absolute()
    home.mkdir(parents=True, exist_ok=True)
    return home
