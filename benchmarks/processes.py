"""Processes of a benchmark: their answers, their memory, and the machine. Imports no library at the start."""

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


def run_process(command: Sequence[str], limit: float) -> dict[str, Any] | str:
    """Run a process with one thread; return its last line, which is JSON, or a short reason why there is none.

    Parameters
    ----------
    command : sequence of str
        Program and arguments; the working directory is the repository.
    limit : float
        Seconds after which the process is ended.
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
    answer: dict[str, Any] = json.loads(output.splitlines()[-1])
    return answer


def _end(pid: int) -> None:
    """End a process and its children, which would slow down other measurements."""
    import psutil  # not at the top: a process that measures itself does not import it

    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in (*process.children(recursive=True), process):
            with suppress(psutil.NoSuchProcess):
                each.kill()


def memory(key: str) -> int:
    """Return the bytes that this process holds (``VmRSS``) or held at most (``VmHWM``); 0 if unknown.

    The peak of `resource.getrusage` would be too high: it starts at the memory of the parent process.
    """
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    sizes = [int(line.split()[1]) for line in lines if line.startswith(f"{key}:")]
    return 1024 * sizes[0] if sizes else 0


def load() -> str:
    """Return the load averages of 1, 5 and 15 minutes, this process included."""
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
