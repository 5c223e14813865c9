"""What a fusion center has said once in a run and may not say otherwise, and how much it has had in it.

Sums over one set of rows say little of a row; the same sums over many sets of them may say all. A site that answers
such sums holds the center to what it first asked for, in every round, lane and repetition of one run. The memory of a
run cannot do that: it is by lane, and starts anew where a round is asked again (clients/memory.py).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, RecordDict

from clients.run_state import record_of
from common.files import lock, replacing, sync_directory, write_file
from protocols.wire.faults import Fault, SiteFault

_RECORD = "pledges"
_FOLDER = "pledges"
MOST_RUNS = 20
"""Runs of which a site's directory keeps the pledges: those of the others are long over."""


@contextlib.contextmanager
def one_at_a_time(directory: Path | None, run_id: int) -> Iterator[None]:
    """Let a site answer one ask of a run at a time.

    Flower starts a process for every message, and two that were sent at once would both find what had been promised and
    counted before either.

    Parameters
    ----------
    directory : Path or None
        The site's own; None: there is nothing that its processes could wait at.
    run_id : int
        Flower's number of the run.

    Raises
    ------
    SiteFault
        If nothing can be written there.
    """
    if directory is None:
        yield
        return
    path = directory / _FOLDER / f"{run_id}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise SiteFault(Fault.OUTPUT_NOT_WRITTEN, f"{path} cannot be written: {error}") from error
    with file:
        lock(file)
        yield


class Pledges:
    """Kept in Flower's context, for the run that Flower says it is, whatever session the center calls it.

    A restarted SuperNode has lost that context. With a directory of the site's own they are kept there too, so that no
    restart lets the center begin anew; where both say something, the stricter of them counts.

    Parameters
    ----------
    state : RecordDict
        ``Context.state`` of Flower.
    run_id : int
        Flower's number of the run; pledges of another are not those of this one.
    directory : Path or None
        The site's own, of which ``pledges/RUN-ID.json`` is used; None: in the context only.

    Raises
    ------
    SiteFault
        If the file is there and cannot be read: a run that has had its share must not begin anew.
    """

    def __init__(self, state: RecordDict, run_id: int, directory: Path | None = None) -> None:
        self._state, self._run = state, run_id
        self._file = None if directory is None else directory / _FOLDER / f"{run_id}.json"
        self._kept = {} if self._file is None else _read(self._file)
        self._saved = dict(self._kept)
        self._rehearsal = False

    def rehearsed(self) -> Pledges:
        """The same for asks that the site answers to itself only: none of their answers leaves, so none is counted."""
        view = object.__new__(Pledges)
        view.__dict__ = {**self.__dict__, "_rehearsal": True}  # what is kept is shared, not copied
        return view

    def _record(self) -> ConfigRecord:
        return record_of(self._state, _RECORD, self._run)

    def keeps(self, name: str, digest: str) -> bool:
        """Whether this is what the center said under this name before; what it says first counts from then on."""
        record = self._record()
        said = {kept[name] for kept in (record, self._kept) if name in kept}
        if said - {digest}:
            return False
        record[name] = self._kept[name] = digest
        return True

    def count(self, name: str, more: int) -> int:
        """How many there have been in this run, with these."""
        record = self._record()
        so_far = max(int(str(kept.get(name, 0))) for kept in (record, self._kept))
        if self._rehearsal:
            return so_far
        record[name] = self._kept[name] = so_far + more
        return so_far + more

    def save(self) -> None:
        """Have them in the site's directory before an answer leaves.

        Raises
        ------
        SiteFault
            If the file cannot be written.
        """
        if self._file is None or self._kept == self._saved:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self._file) as temporary:
                write_file(temporary, [json.dumps(self._kept, sort_keys=True).encode()])
            sync_directory(self._file.parent)
        except OSError as error:
            raise SiteFault(Fault.OUTPUT_NOT_WRITTEN, f"{self._file} cannot be written: {error}") from error
        self._saved = dict(self._kept)
        _prune(self._file.parent, self._file)


def _read(path: Path) -> dict[str, Any]:
    try:
        kept = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise SiteFault(Fault.OUTPUT_NOT_WRITTEN, f"{path} cannot be read: {error}") from error
    if not isinstance(kept, dict) or not all(type(value) in (int, str) for value in kept.values()):
        raise SiteFault(Fault.OUTPUT_NOT_WRITTEN, f"{path} cannot be read: it is not what this site wrote")
    return kept


def _prune(folder: Path, newest: Path) -> None:
    """Delete the pledges of runs before the last `MOST_RUNS`."""
    with contextlib.suppress(OSError):  # another run's process may delete the same
        others = [entry for entry in os.scandir(folder) if entry.name.endswith(".json") and entry.name != newest.name]
        for entry in sorted(others, key=lambda entry: entry.stat().st_mtime_ns)[: -(MOST_RUNS - 1)]:
            os.unlink(entry)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(Path(entry.path).with_suffix(".lock"))
