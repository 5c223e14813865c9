"""Child processes: their output line by line, their end, signals, and free ports."""

import _thread
import contextlib
import os
import queue
import signal
import socket
import subprocess  # nosec B404 - programs named here, without a shell
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

import psutil

_STOP_SECONDS = 15.0

Lines = queue.SimpleQueue[str | None]
"""Lines of a process in order, then None."""


class Interruption(KeyboardInterrupt):
    """SIGINT, SIGTERM or SIGHUP; `run_id` is the number of the interrupted run, if any."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.exit_code = 128 + number
        self.run_id = ""


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Raise `Interruption` on SIGINT and SIGTERM, so that the caller can stop its run.

    SIGHUP, when the terminal is closed, does the same, unless it is ignored (``nohup``).
    """

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise Interruption(number)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


class OverdueError(RuntimeError):
    """Error: a block of `limit_time` took too long."""


@contextlib.contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Raise `OverdueError` in an `interruptible` main thread after `seconds`."""
    over = threading.Event()

    def end() -> None:
        over.set()
        _thread.interrupt_main()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Interruption:
        if over.is_set():
            raise OverdueError(f"longer than {seconds:g} s") from None
        raise
    finally:
        timer.cancel()


@contextlib.contextmanager
def start(command: list[str], folder: Path, env: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Start a process in `folder` whose output is read here, and end it on leaving."""
    process = subprocess.Popen(  # noqa: S603 - programs and arguments of our own, no shell
        command,
        cwd=folder,
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


def lines_of(process: subprocess.Popen[str]) -> Lines:
    """Return the process's lines, which a thread reads, so that a reader can stop waiting."""
    lines: Lines = queue.SimpleQueue()

    def read() -> None:
        # An error means that the pipe was closed here: nobody needs more lines.
        with contextlib.suppress(ValueError, OSError):
            for line in process.stdout or ():
                lines.put(line.rstrip("\r\n"))
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    return lines


def until(lines: Lines, deadline: float) -> Iterator[str]:
    """Yield the lines up to the last; raise TimeoutError at the deadline (``time.monotonic``)."""
    while True:
        try:
            line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise TimeoutError from None
        if line is None:
            return
        yield line


def _end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """End a child process: by a request first, then by force."""
    for ask in (process.terminate, process.kill):
        if process.poll() is None:
            ask()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_SECONDS)


def end_families(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End child processes at the same time, with all processes that they started.

    A SuperLink leaves the process of its simulation behind, which would finish its round.
    """
    family: list[psutil.Process] = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            family += psutil.Process(process.pid).children(recursive=True)
        process.terminate()
    for process in processes:
        # Flower's processes take a second request for impatience, and leave without cleaning up.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
        _end(process)
    for ask in (psutil.Process.terminate, psutil.Process.kill):
        for each in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                ask(each)
        _, family = psutil.wait_procs(family, _STOP_SECONDS)


def is_free(port: int) -> bool:
    """Whether a server could listen at this port of the loopback address."""
    with socket.socket() as probe:
        # As servers do: connections of the last listener that still linger do not occupy the port.
        if os.name == "posix":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(number: int) -> list[int]:
    """Return free ports of the loopback address."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(number)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
