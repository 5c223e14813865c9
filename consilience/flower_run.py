"""Start a run with Flower's own commands, follow its log, and report its real status.

``flwr run --stream`` always exits with 0. The run's status is therefore read afterwards, by ``flwr list``.
"""

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from common.settings import to_toml
from consilience.app_folder import stage_app
from consilience.flower_programs import CONNECTION, LaunchError, flower_home, flwr, program
from consilience.outcome import Outcome
from consilience.processes import Interruption, Lines, lines_of, start, until
from consilience.ray_crashes import CrashFilter
from consilience.run_log import Transcript, message
from consilience.run_request import RunRequest
from consilience.superlink import is_up
from protocols import registry
from protocols.settings import ProtocolSettings

_FINISH_SECONDS = 60.0
_SUBMIT_SECONDS = 5.0


def flwr_arguments(app: str, request: RunRequest) -> list[str]:
    """Return the arguments of `flwr` that start a run and stream its log."""
    arguments = ["run", app, CONNECTION, "--stream"]
    if request.settings:
        arguments += ["--run-config", to_toml(request.settings)]
    if request.sites == 0:
        return arguments
    one = " init-args-num-cpus=1" if _is_quick(request) and "RAY_ADDRESS" not in os.environ else ""
    return [*arguments, "--federation-config", f"num-supernodes={request.sites} client-resources-num-cpus=1{one}"]


def _is_quick(request: RunRequest) -> bool:
    """Whether one process of Flower's engine is quicker than one a core, since each must start and import."""
    if request.plan is None or request.plan.scenario is None:
        return False
    settings: type[ProtocolSettings] = registry.room(request.plan.protocol, "settings").Settings
    return settings.quick


def run(request: RunRequest, env: Mapping[str, str], show: Callable[[str], None]) -> Outcome:
    """Start a run, hand every line of its log to `show`, wait, and ask Flower for its status.

    Raises
    ------
    Interrupted
        On SIGINT or SIGTERM (inside `interruptible`); the run has been stopped.
    LaunchError
        If the run took longer than the request allows (it has been stopped), or Flower does not say how it ended.
    """
    transcript = Transcript()
    show = CrashFilter(show, flower_home(env) / "ray-crashes.log")
    last = ""
    with tempfile.TemporaryDirectory(prefix="consilience-") as folder:
        stage_app(Path(folder))
        command = [program("flwr", env), *flwr_arguments(folder, request)]
        with start(command, flower_home(env), env) as process:
            lines = lines_of(process)
            try:
                for line in until(lines, time.monotonic() + request.seconds):
                    transcript.read(line)
                    last = message(line) or last
                    if not transcript.refused:  # what follows is Flower's traceback of the refusal
                        show(line)
            except BaseException as error:
                _abandon(transcript, lines, env)
                if isinstance(error, Interruption):
                    error.run_id = transcript.run_id
                if isinstance(error, TimeoutError):
                    raise LaunchError(f"the run took longer than {request.seconds:g} s and was stopped") from None
                raise
    if not transcript.run_id:
        return Outcome(transcript, details=last)
    return Outcome(transcript, *await_finish(transcript.run_id, env))


def _abandon(transcript: Transcript, lines: Lines, env: Mapping[str, str]) -> None:
    """Stop the run. A run that is just being submitted has a moment to print its number."""
    if not transcript.run_id:
        with contextlib.suppress(TimeoutError):
            for line in until(lines, time.monotonic() + _SUBMIT_SECONDS):
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
    """Return status and details of a run whose log has ended: Flower closes the log a moment before the run.

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
    """Return status and details of a run from the output of ``flwr list --format json``; empty without the run.

    Examples
    --------
    >>> parse_status('{"runs": [{"run-id": "7", "status": "running", "status-details": "N/A"}]}', "7")
    ('running', '')
    """
    try:
        runs = json.loads(answer).get("runs", [])
    except (ValueError, AttributeError):
        return "", ""
    entry: dict[str, str] = next((entry for entry in runs if entry.get("run-id") == run_id), {})
    details = entry.get("status-details", "")
    return entry.get("status", ""), "" if details == "N/A" else details
