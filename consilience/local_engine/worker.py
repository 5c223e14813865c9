"""A worker process: it answers for some of the sites, whose contexts live in it.

Its standard input and output are the pipes to the process that started it. When that process is gone, so is the worker.
"""

from __future__ import annotations

import logging
import os
import pickle  # nosec B403 - bytes of its own parent process
import queue
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO

from flwr.app import Context
from flwr.supercore.task_identity import TaskIdentity

from clients.data import in_memory
from consilience.local_engine.grid import answer
from consilience.local_engine.wire import pack, unpack


@dataclass(frozen=True)
class Start:
    """The first object that a worker reads.

    Attributes
    ----------
    contexts : Mapping[int, Context]
        Contexts of its sites.
    run_id : int
        Number of the run.
    tables : list
        Data given in Python, as exported by `clients.data.in_memory`.
    """

    contexts: Mapping[int, Context]
    run_id: int
    tables: list[in_memory.HeldTables]


@dataclass(frozen=True)
class WorkerAsk:
    """An ask to a site of the worker."""

    name: str
    node: int
    message: bytes


@dataclass(frozen=True)
class WorkerAnswer:
    """The site's answer; None: nothing."""

    message: bytes | None


@dataclass(frozen=True)
class WorkerLog:
    """A line of the worker's log."""

    level: int
    text: str


class _Log(logging.Handler):
    """Sends lines of the log to the other process."""

    def __init__(self, pipe: BinaryIO) -> None:
        super().__init__()
        self._pipe = pipe

    def emit(self, record: logging.LogRecord) -> None:
        _send(self._pipe, WorkerLog(record.levelno, self.format(record)))


def main() -> None:
    """Answer asks until there are no more."""
    asks, replies = _pipes()
    start: Start = pickle.load(asks)  # noqa: S301 - a pipe from the process that started this one
    in_memory.adopt(start.tables)
    jobs: queue.SimpleQueue[WorkerAsk] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(asks, jobs), daemon=True).start()
    logger = logging.getLogger("flwr")
    logger.handlers[:], logger.propagate = [_Log(replies)], False
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, start.run_id, 1
    while True:
        job = jobs.get()
        reply = answer(unpack(job.message, job.name), start.contexts[job.node])
        _send(replies, WorkerAnswer(None if reply is None else pack(reply)))


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """Reserve standard input and output, so that a user's function prints to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started this process decides what a Ctrl-C means
    asks, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return asks, replies


def _read(asks: BinaryIO, jobs: queue.SimpleQueue[WorkerAsk]) -> None:
    """Queue the asks; end the process at once when the pipe is closed."""
    try:
        while True:
            jobs.put(pickle.load(asks))  # noqa: S301 - as in main
    except EOFError:
        sys.stderr.flush()
        os._exit(0)


def _send(pipe: BinaryIO, what: WorkerAnswer | WorkerLog) -> None:
    pickle.dump(what, pipe)
    pipe.flush()
