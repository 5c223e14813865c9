"""Removal of answers from a SuperLink's ``state.db``.

Flower deletes the messages of a run only after its log was read to the end. SQLite marks deleted data as free and
leaves them in the file; the write-ahead log (``state.db-wal``) has another copy.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TABLES = {
    "run",
    "task",
    "series_runs",
    "series_context",
    "compacted_contexts",
    "message",
    "message_ins",
    "message_res",
    "task_message",
    "task_event",
    "objects",
    "object_children",
    "run_objects",
    "object_push_sessions",
    "object_push_session_roots",
    "object_push_session_pending",
}
"""Required tables; a SuperLink of another version may keep answers elsewhere."""

_FIND = (
    "CREATE TEMP TABLE finished AS SELECT run.run_id FROM run"
    " JOIN task ON task.task_id = run.primary_task_id WHERE task.finished_at IS NOT NULL",
    "CREATE TEMP TABLE open_series AS SELECT series_id FROM series_runs WHERE run_id NOT IN finished",
    "CREATE TEMP VIEW of_others AS SELECT object_id FROM run_objects WHERE run_id NOT IN finished",
)
"""Finished runs, as temporary tables for the other statements."""

_COUNT = (
    "SELECT count(*) FROM message_ins WHERE run_id IN finished",
    "SELECT count(*) FROM message_res WHERE run_id IN finished",
    "SELECT count(*) FROM message WHERE run_id IN finished",
    "SELECT count(*) FROM task_message WHERE run_id IN finished",
    "SELECT count(*) FROM task_event WHERE run_id IN finished",
    "SELECT count(*) FROM objects WHERE object_id NOT IN of_others",
)

_DELETE = (
    "DELETE FROM message_res WHERE run_id IN finished",
    "DELETE FROM message_ins WHERE run_id IN finished",
    "DELETE FROM message WHERE run_id IN finished",
    "DELETE FROM task_message WHERE run_id IN finished",
    "DELETE FROM task_event WHERE run_id IN finished",
    "DELETE FROM series_context WHERE series_id NOT IN open_series",
    "DELETE FROM compacted_contexts WHERE series_id NOT IN open_series",
    "DELETE FROM objects WHERE object_id NOT IN of_others",
    "DELETE FROM run_objects WHERE run_id IN finished",
    "DELETE FROM object_children WHERE parent_id NOT IN (SELECT object_id FROM objects)",
    "DELETE FROM object_push_sessions WHERE run_id IN finished",
    "DELETE FROM object_push_session_roots WHERE session_id NOT IN (SELECT session_id FROM object_push_sessions)",
    "DELETE FROM object_push_session_pending WHERE session_id NOT IN (SELECT session_id FROM object_push_sessions)",
)


class WipeError(Exception):
    """Error: a file cannot be wiped. The message is one line that says why."""


@dataclass(frozen=True)
class Leftovers:
    """Answers in a ``state.db``.

    Attributes
    ----------
    finished, unfinished : int
        Numbers of runs.
    rows : int
        Number of messages and objects of finished runs.
    free, log : int
        Free bytes of the file, and bytes of its write-ahead log; both may hold deleted data.
    size : int
        Bytes of the file.
    """

    finished: int
    unfinished: int
    rows: int
    free: int
    log: int
    size: int

    @property
    def lines(self) -> list[str]:
        """Lines for the terminal."""
        said = [
            f"finished runs: {self.finished}; messages and objects of theirs: {self.rows}",
            f"{self.size:,} bytes, {self.free:,} of them deleted but there, and {self.log:,} in the write-ahead log",
        ]
        if self.unfinished:
            said.append(
                f"runs that have not ended: {self.unfinished}; what they hold stays: start the SuperLink, type flwr"
                " stop RUN-ID, end it, and wipe again"
            )
        return said


def look(path: Path) -> Leftovers:
    """Return the answers in the file, without changing it.

    Raises
    ------
    WipeError
        If it is not the state of a SuperLink.
    """
    with _opened(path, writing=False) as state:
        return _leftovers(path, state)


def wipe(path: Path) -> Leftovers:
    """Remove the messages and objects of finished runs, and their bytes, from the file.

    Registered SuperNodes, runs with their configuration and log, and apps stay.

    Parameters
    ----------
    path : Path
        ``--database`` of a SuperLink that is not running.

    Returns
    -------
    Leftovers
        Answers that are left.

    Raises
    ------
    WipeError
        If it is not the state of a SuperLink, or a process has it open.
    """
    with _opened(path, writing=True) as state:
        try:
            # Out of write-ahead logging, which needs the file for itself; its log is written back and removed.
            state.execute("PRAGMA journal_mode = DELETE")
            state.execute("PRAGMA secure_delete = ON")
            state.execute("PRAGMA foreign_keys = OFF")  # the rows of all tables go
            state.execute("BEGIN EXCLUSIVE")
            for statement in _DELETE:
                state.execute(statement)
            state.execute("COMMIT")
            state.execute("VACUUM")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            raise WipeError(f"{path}: a process has it open; end the SuperLink first") from None
        return _leftovers(path, state)


@contextlib.contextmanager
def _opened(path: Path, *, writing: bool) -> Iterator[sqlite3.Connection]:
    """Open the state of a SuperLink. Every statement outside a transaction is a transaction of its own."""
    if not path.is_file():
        raise WipeError(f"{path}: there is no such file; name the --database of a SuperLink")
    address = f"{path.absolute().as_uri()}?mode={'rw' if writing else 'ro'}"
    try:
        with contextlib.closing(sqlite3.connect(address, timeout=1.0, isolation_level=None, uri=True)) as state:
            names = {name for (name,) in state.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if missing := sorted(_TABLES - names):
                raise WipeError(f"{path}: is not the state of a SuperLink of this version of Flower: no {missing[0]}")
            for statement in _FIND:
                state.execute(statement)
            yield state
    except sqlite3.Error as error:
        raise WipeError(f"{path}: {error}") from error


def _leftovers(path: Path, state: sqlite3.Connection) -> Leftovers:
    def number(query: str) -> int:
        return int(state.execute(query).fetchone()[0])

    finished = number("SELECT count(*) FROM finished")
    log = path.with_name(f"{path.name}-wal")
    return Leftovers(
        finished=finished,
        unfinished=number("SELECT count(*) FROM run") - finished,
        rows=sum(map(number, _COUNT)),
        free=number("PRAGMA freelist_count") * number("PRAGMA page_size"),
        log=log.stat().st_size if log.exists() else 0,
        size=path.stat().st_size,
    )
