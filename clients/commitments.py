"""Commitments: values that the fusion center may not change during a run, and counters of a run.

Sums over one set of rows reveal little of a row; the same sums over many sets of rows may reveal all. A site that
answers such sums holds the center to its first ask, in every round, lane and repetition of a run. The run's memory
(clients/memory.py) cannot hold commitments: it is kept by lane, and rebuilt when rounds are repeated.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, RecordDict

from clients.digest import digest_of
from common.files import lock, replacing, sync_directory, write_file
from protocols.wire.faults import Fault, SiteFault

_RECORD = "commitments"
_RUN = "run"
_FOLDER = "commitments"
_ONLY_LANE = "0"
MOST_RUNS = 20
"""Runs of which a site's directory keeps the commitments; older runs have ended."""


@contextlib.contextmanager
def run_lock(directory: Path | None, run_id: int) -> Iterator[None]:
    """Let a site answer one ask of a run at a time.

    Flower starts a process for every message. Two processes at once would start from the same commitments and counters.

    Parameters
    ----------
    directory : Path or None
        The site's own; None: no lock.
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


def record_of(state: RecordDict, name: str, run_id: int) -> ConfigRecord:
    """Return the record of this name and run; if there is none, put a new one in its place.

    Parameters
    ----------
    state : RecordDict
        ``Context.state`` of Flower.
    name : str
        Name of the record.
    run_id : int
        Flower's number of the run.

    Examples
    --------
    >>> state = RecordDict()
    >>> record_of(state, "counters", 7)["asks"] = 3
    >>> record_of(state, "counters", 7)["asks"], "asks" in record_of(state, "counters", 8)
    (3, False)
    """
    earlier = state.get(name)
    if isinstance(earlier, ConfigRecord) and earlier.get(_RUN) == run_id:
        return earlier
    record = ConfigRecord({_RUN: run_id})
    state[name] = record
    return record


class Commitments:
    """Commitments of one run, kept in Flower's context and in the site's own directory.

    They belong to Flower's run, not to the session, which the center names. A restarted SuperNode has lost Flower's
    context; the copy in the site's directory survives. If the two differ, the stricter one holds.

    Parameters
    ----------
    state : RecordDict
        ``Context.state`` of Flower.
    run_id : int
        Flower's number of the run; commitments of another run do not hold.
    directory : Path or None
        The site's own, for the copy ``commitments/RUN-ID.json``; None: no copy.
    binding : bool
        Whether the commitments hold; False for public rows, about which the center may change everything. Counters
        always count.

    Raises
    ------
    SiteFault
        If the file exists and cannot be read: a run that has used its share must not begin anew.

    Examples
    --------
    >>> commitments = Commitments(RecordDict(), 1)
    >>> commitments.keeps("split", 5), commitments.keeps("split", 5), commitments.keeps("split", 6)
    (True, True, False)
    >>> commitments.count("queries", 3), commitments.count("queries", 4)
    (3, 7)
    """

    def __init__(self, state: RecordDict, run_id: int, directory: Path | None = None, *, binding: bool = True) -> None:
        self._state, self._run, self._binding = state, run_id, binding
        self._file = None if directory is None else directory / _FOLDER / f"{run_id}.json"
        self._kept = {} if self._file is None else _read(self._file)
        self._saved = dict(self._kept)
        self._counting = True

    def uncounted(self) -> Commitments:
        """Return the same commitments for replayed rounds, whose answers do not leave and do not count."""
        view = object.__new__(type(self))
        view.__dict__ = {**self.__dict__, "_counting": False}  # what is kept is shared, not copied
        return view

    def _record(self) -> ConfigRecord:
        return record_of(self._state, _RECORD, self._run)

    def keeps(self, name: str, *words: object) -> bool:
        """Return whether the values equal the first ones under this name; the first call commits the center to them."""
        if not self._binding:
            return True
        record, digest = self._record(), str(digest_of(words))
        known = {source[name] for source in (record, self._kept) if name in source}
        if known - {digest}:
            return False
        record[name] = self._kept[name] = digest
        return True

    def hold(self, name: str, *words: object) -> None:
        """Refuse an ask whose values differ from the first ones under this name, as `keeps` compares them.

        Raises
        ------
        SiteFault
            ``MALFORMED_ASK``.
        """
        if not self.keeps(name, *words):
            raise SiteFault(Fault.MALFORMED_ASK, f"another {name} than in an earlier ask of this run")

    def allows_lane(self, lane: str) -> bool:
        """Return whether the site answers in this lane: in one only, since its own rows are the same in every lane."""
        return lane == _ONLY_LANE or not self._binding

    def count(self, name: str, more: int) -> int:
        """Add to a counter of the run, and return its value."""
        record = self._record()
        so_far = max(int(str(source.get(name, 0))) for source in (record, self._kept))
        if not self._counting:
            return so_far
        record[name] = self._kept[name] = so_far + more
        return so_far + more

    def save(self) -> None:
        """Write the commitments to the site's directory, before an answer leaves.

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
        record = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise SiteFault(Fault.OUTPUT_NOT_WRITTEN, f"{path} cannot be read: {error}") from error
    if not isinstance(record, dict) or not all(type(value) in (int, str) for value in record.values()):
        raise SiteFault(Fault.OUTPUT_NOT_WRITTEN, f"{path} cannot be read: it is not what this site wrote")
    return record


def _prune(folder: Path, newest: Path) -> None:
    """Delete the commitments of runs before the last `MOST_RUNS`."""
    with contextlib.suppress(OSError):  # another run's process may delete the same
        others = [entry for entry in os.scandir(folder) if entry.name.endswith(".json") and entry.name != newest.name]
        for entry in sorted(others, key=lambda entry: entry.stat().st_mtime_ns)[: -(MOST_RUNS - 1)]:
            os.unlink(entry)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(Path(entry.path).with_suffix(".lock"))
