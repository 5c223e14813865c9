"""What is measured in a process of its own, and what such a process knows of itself. Imports no library."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

SINGLE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Environment of a process whose libraries compute with one thread."""
_ROOT = Path(__file__).parents[1]


def told(command: Sequence[str], limit: float) -> dict[str, Any] | str:
    """What a process of one thread says in its last line, as JSON; or in a few words why it says nothing.

    Parameters
    ----------
    command : sequence of str
        Program and arguments; it is run in the repository's directory.
    limit : float
        Seconds after which it is ended.
    """
    environment = {**os.environ, **SINGLE_THREAD}
    try:
        process = subprocess.Popen(
            command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    except OSError as error:
        return f"cannot be run: {error}"
    with process:
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            _end(process.pid)
            return f"did not end within {limit:g} s"
        except BaseException:
            _end(process.pid)
            raise
    if process.returncode:
        lines = errors.strip().splitlines()
        return f"ended with {process.returncode}: {lines[-1] if lines else 'no message'}"
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def _end(pid: int) -> None:
    """End a process and all that it has started, which would go on and take other measurements' time."""
    import psutil  # here: a process that measures itself imports nothing

    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in (*process.children(recursive=True), process):
            with suppress(psutil.NoSuchProcess):
                each.kill()


def memory(key: str) -> int:
    """Bytes this process holds (``VmRSS``) or held at most (``VmHWM``); 0 where the system does not say.

    `resource.getrusage` would not do: its peak starts from what the parent process held.
    """
    status = Path("/proc/self/status")
    found = [
        line for line in (status.read_text().splitlines() if status.exists() else []) if line.startswith(f"{key}:")
    ]
    return int(found[0].split()[1]) * 1024 if found else 0


def load() -> str:
    """Processes that wanted to run at the same time in the last 1, 5 and 15 minutes; these are among them."""
    return "load " + " ".join(f"{value:.1f}" for value in os.getloadavg())


def machine() -> str:
    """Return processor, cores and versions in one line."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return (
        f"{names[0] if names else platform.processor() or platform.machine()}, {cores} cores;"
        f" Python {platform.python_version()}, NumPy {version('numpy')}"
    )
