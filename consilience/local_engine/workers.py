"""Sites in worker processes: each process answers for its share of the sites, one ask after the other."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle  # nosec B403 - bytes of its own child processes
import subprocess  # nosec B404 - this Python, without a shell
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from flwr.app import Context, Error, Message, RecordDict
from flwr.common.constant import ErrorCode

from clients.data import in_memory
from consilience.local_engine.grid import LocalGrid
from consilience.local_engine.wire import over_the_wire, pack, unpack
from consilience.local_engine.worker import Start, WorkerAnswer, WorkerAsk, WorkerLog

_Take = Callable[[str, Message], None]

logger = logging.getLogger("flwr")

_LOOK_SECONDS = 0.2
"""Seconds that a look for replies may wait for the last of them."""
_END_SECONDS = 5.0
_PROGRAM = "import sys; sys.path[:] = {path!r}; from consilience.local_engine.worker import main; main()"
_THREADS = ("MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class WorkerGrid(LocalGrid):
    """Sites that answer in worker processes, which are started with the first messages.

    A process that ends loses its current answer, as a failing node does. Another process takes its place, in which the
    sites are as after a restart, with the memory on their disks.

    Parameters
    ----------
    contexts : Mapping[int, Context]
        Flower's context of each site, by node number.
    run_id : int
        Number of the run.
    n_workers : int
        Number of processes.
    """

    def __init__(self, contexts: Mapping[int, Context], run_id: int, n_workers: int) -> None:
        super().__init__(contexts, run_id)
        self._arrived = threading.Condition()
        threads = max(1, (os.cpu_count() or 1) // n_workers)
        self._workers = [
            _Worker({node: contexts[node] for node in list(contexts)[place::n_workers]}, run_id, threads, self._take)
            for place in range(min(n_workers, len(contexts)))
        ]
        self._worker_of = {node: worker for worker in self._workers for node in worker.nodes}

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Hand each message to the worker of its site; return the messages' names."""
        names = []
        for message in messages:
            names.append(self.next_name())
            self._worker_of[message.metadata.dst_node_id].ask(names[-1], message)
        return names

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies that have arrived, and forget them; wait a moment for the last one."""
        wanted = set(message_ids)
        with self._arrived:
            self._arrived.wait_for(lambda: wanted <= self._replies.keys(), _LOOK_SECONDS)
            return list(super().pull_messages(wanted))

    def close(self) -> None:
        """End all processes at once."""
        for worker in self._workers:
            worker.close()

    def _take(self, name: str, reply: Message) -> None:
        with self._arrived:
            self._replies[name] = reply
            self._arrived.notify_all()


class _Worker:
    """One worker process, and the thread that talks to it."""

    def __init__(self, contexts: Mapping[int, Context], run_id: int, n_threads: int, take: _Take) -> None:
        self.nodes = tuple(contexts)
        self._contexts, self._run_id, self._take = contexts, run_id, take
        self._environment = {**dict.fromkeys(_THREADS, str(n_threads)), **os.environ}
        self._asks: deque[tuple[str, Message]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def ask(self, name: str, message: Message) -> None:
        """Queue a message, and drop an older waiting one to the same site."""
        node = message.metadata.dst_node_id
        with self._changed:
            late = [each for each in self._asks if each[1].metadata.dst_node_id == node]
            for each in late:
                self._asks.remove(each)
            self._asks.append((name, message))
            self._changed.notify()

    def close(self) -> None:
        """End the process and the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            if self._process is not None:
                self._process.kill()
        self._thread.join(_END_SECONDS)

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._asks or self._closed)
                if self._closed:
                    break
                name, message = self._asks.popleft()
                process = self._process = self._process or self._start()
            try:
                reply = self._answer(process, name, message)
            except (EOFError, OSError, pickle.UnpicklingError):
                reply = self._reply_of_crash(process, name, message)
            if reply is not None:
                self._take(name, reply)
        if self._process is not None:
            _end(self._process)

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the process. It does not import the user's script, which therefore needs no main guard."""
        process = subprocess.Popen(  # noqa: S603 - this Python, a program of our own
            [sys.executable, "-c", _PROGRAM.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment,
            start_new_session=True,  # a Ctrl-C at the terminal reaches the run, which ends its workers
        )
        with contextlib.suppress(OSError):  # it is noticed when the first answer does not come
            _send(process, Start(self._contexts, self._run_id, in_memory.export()))
        return process

    def _answer(self, process: subprocess.Popen[bytes], name: str, message: Message) -> Message | None:
        """Return a site's reply, and pass the worker's log lines on."""
        assert process.stdout is not None  # noqa: S101 - opened as a pipe
        _send(process, WorkerAsk(name, message.metadata.dst_node_id, pack(message)))
        while True:
            what: WorkerAnswer | WorkerLog = pickle.load(process.stdout)  # noqa: S301 - a pipe from a process started here
            if isinstance(what, WorkerAnswer):
                return None if what.message is None else unpack(what.message)
            logger.log(what.level, "%s", what.text)

    def _reply_of_crash(self, process: subprocess.Popen[bytes], name: str, message: Message) -> Message | None:
        """Return the reply in place of the answer of a process that has ended; the next ask starts another process."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)  # its pipes end a moment before it does
        _end(process)
        with self._changed:
            self._process = None
            if self._closed:
                return None
        self._contexts = {
            each: Context(self._run_id, each, old.node_config, RecordDict(), old.run_config)
            for each, old in self._contexts.items()
        }
        ask, code = over_the_wire(message, name), process.returncode
        reason = f"signal {-code}" if code < 0 else f"exit code {code}"
        return over_the_wire(Message(Error(ErrorCode.CLIENT_APP_CRASHED, reason), reply_to=ask))


def _send(process: subprocess.Popen[bytes], what: Start | WorkerAsk) -> None:
    assert process.stdin is not None  # noqa: S101 - opened as a pipe
    pickle.dump(what, process.stdin)
    process.stdin.flush()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
