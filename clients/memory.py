"""A site's memory between asks, in Flower's context and in the site's own directory.

It has two generations: the state after the newest round and the state before it. The fusion center may repeat a round,
if it was interrupted before it had saved the answer. Then the site starts from the state before the round, and its
second answer equals its first, bit for bit.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from clients.logged_fault import LoggedFault
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.payload import decode_array, encode_array
from protocols.wire.record_file import read_records, write_records

logger = logging.getLogger("flwr")

Arrays = dict[str, np.ndarray]

CONCLUDED = "concluded"
"""Name of the mark that a conversation is over: 1 if its model was saved, else 0."""


@dataclass
class Generation:
    """The memory after a round: arrays by ``lane/name``."""

    round: int = 0
    arrays: Arrays = field(default_factory=dict)


class Memory(MutableMapping[str, np.ndarray]):
    """One lane's view of the memory: a mapping from names to arrays.

    The arrays are stored with the answer; other values become arrays. Arrays of earlier rounds are read-only: replace
    an array that changes by a new one.

    Examples
    --------
    >>> arrays: Arrays = {}
    >>> Memory(arrays, "0")["steps"] = 3
    >>> list(Memory(arrays, "0")), list(Memory(arrays, "1")), arrays
    (['steps'], [], {'0/steps': array(3)})
    """

    def __init__(self, arrays: Arrays, lane: str) -> None:
        self._arrays, self._lane = arrays, lane

    def _key(self, name: str) -> str:
        return f"{self._lane}/{name}"

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[self._key(name)]

    def __setitem__(self, name: str, value: np.ndarray) -> None:
        self._arrays[self._key(name)] = np.asarray(value)

    def __delitem__(self, name: str) -> None:
        del self._arrays[self._key(name)]

    def __iter__(self) -> Iterator[str]:
        prefix = self._key("")
        return (key[len(prefix) :] for key in list(self._arrays) if key.startswith(prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class MemoryStore:
    """Loads the memory that an ask starts from, and stores the one that it leaves.

    Parameters
    ----------
    state : RecordDict
        ``Context.state`` of Flower, which a restarted SuperNode has lost.
    folder : Path or None
        The site's own directory, for a second copy; None: in the context only.
    session : str
        Run of the memory; memory of another run is not used.

    Examples
    --------
    >>> store = MemoryStore(RecordDict(), None, "7")
    >>> store.load(1)
    {}
    >>> store.store(1, {"0/steps": np.array(3)})
    >>> store.load(2)
    {'0/steps': array(3)}
    """

    def __init__(self, state: RecordDict, folder: Path | None, session: str) -> None:
        self._state, self._session = state, session
        self._folder = None if folder is None else folder / f"memory-{session}"
        self._base = Generation()
        self._forgotten = False

    def load(self, number: int) -> Arrays:
        """Return the arrays as they were after the newest round before `number`; they are read-only.

        Raises
        ------
        SiteFault
            If that state is lost, or its file cannot be read: another state would silently change the result.
        """
        rounds = set(self._in_context()) | set(self._files())
        if rounds and min(rounds) >= number:
            raise SiteFault(Fault.STALE_MEMORY, f"round {number} is asked, the memory begins with round {min(rounds)}")
        wanted = max((each for each in rounds if each < number), default=0)
        if wanted > 0:
            self._base = self._generation(wanted)
        for array in self._base.arrays.values():
            array.flags.writeable = False  # changed in place, it would no longer be the state before this round
        return dict(self._base.arrays)

    def _in_context(self) -> dict[int, bool]:
        """Return the rounds of the generations in the context, and whether each is the newest there."""
        rounds = {newest: _round_of(self._state, self._session, newest=newest) for newest in (True, False)}
        return {number: newest for newest, number in rounds.items() if number is not None}

    def _generation(self, number: int) -> Generation:
        """Return the memory after a round that is kept."""
        newest = self._in_context().get(number)
        return self._read(number) if newest is None else _from_state(self._state, number, newest=newest)

    def forget(self) -> Arrays:
        """Return an empty memory, except for marks of concluded conversations; `store` will replace the stored memory.

        Without the marks, a center that claims that the memory is lost could make a site repeat a conclusion.
        """
        marks: Arrays = {}
        for number in (*self._in_context(), *self._files()):
            with contextlib.suppress(SiteFault):
                arrays = self._generation(number).arrays
                marks |= {name: each for name, each in arrays.items() if name.endswith(f"/{CONCLUDED}")}
        self._base, self._forgotten = Generation(), True
        return marks

    def settle(self, number: int, arrays: Arrays) -> None:
        """Start the next round from `arrays`, the memory after a replayed round, without storing it."""
        self._base = Generation(number, dict(arrays))
        for array in self._base.arrays.values():
            array.flags.writeable = False

    def store(self, number: int, arrays: Arrays) -> None:
        """Keep `arrays` as the memory after round `number`, and the memory that it started from as the one before.

        Raises
        ------
        SiteFault
            If the file cannot be written; then the context does not change either.
        """
        if not self._forgotten and ((not arrays and not self._base.arrays) or self._is_unchanged(arrays)):
            return
        newest = _records(self._session, Generation(number, arrays), newest=True)
        records = {**self._records_before(), **newest}
        if self._folder is not None:
            try:
                self._write(self._folder, number, cast("ArrayRecord", newest[_names(newest=True)[1]]))
            except OSError as error:
                raise SiteFault(Fault.OUTPUT_NOT_WRITTEN, f"the site's memory cannot be written: {error}") from error
        for name, record in records.items():
            self._state[name] = record

    def _is_unchanged(self, arrays: Arrays) -> bool:
        """Whether the round has left the arrays as they were, and they are the newest in context and directory.

        Most rounds of some protocols change nothing, and need no storing.
        """
        before = self._base.arrays
        if arrays.keys() != before.keys() or any(arrays[key] is not before[key] for key in arrays):
            return False
        newest = {_round_of(self._state, self._session, newest=True)}
        if self._folder is not None:
            newest.add(max(self._files(), default=None))
        return newest == {self._base.round}

    def _records_before(self) -> dict[str, ConfigRecord | ArrayRecord]:
        """Return the records of the memory before the round; if it is the newest there, it is not encoded again."""
        if self._forgotten or _round_of(self._state, self._session, newest=True) != self._base.round:
            return _records(self._session, self._base, newest=False)
        return {
            before: cast("ConfigRecord | ArrayRecord", self._state[newest])
            for before, newest in zip(_names(newest=False), _names(newest=True), strict=True)
        }

    def _files(self) -> dict[int, Path]:
        """Return the files of the memory by round."""
        paths = [] if self._folder is None else self._folder.glob("round-*.zip")
        numbered = [(path.stem.removeprefix("round-"), path) for path in paths]
        return {int(number): path for number, path in numbered if number.isdecimal()}

    def _read(self, number: int) -> Generation:
        path = self._files()[number]
        try:
            _, [content] = read_records(path)
            return Generation(number, _decoded(content.array_records["arrays"]))
        except Exception as error:  # zipfile, JSON, Flower and the file system each have their own for a damaged file
            raise LoggedFault(Fault.STALE_MEMORY, f"{path} cannot be read: {error}") from error

    def _write(self, folder: Path, number: int, arrays: ArrayRecord) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        files = self._files()
        temporary = folder / ".writing"
        write_records(temporary, None, [RecordDict({"arrays": arrays})], durable=False)
        temporary.replace(folder / f"round-{number:05d}.zip")
        if self._base.round == 0 and 0 not in files:  # before this round the memory was empty
            write_records(folder / "round-00000.zip", None, [RecordDict({"arrays": ArrayRecord()})], durable=False)
        before = number if self._forgotten else self._base.round  # a file of that round holds something else
        for other, path in files.items():
            if other not in (before, number):
                path.unlink(missing_ok=True)


def _names(newest: bool) -> tuple[str, str]:
    which = "newest" if newest else "before"
    return f"memory-{which}", f"memory-{which}-arrays"


def _records(session: str, generation: Generation, *, newest: bool) -> dict[str, ConfigRecord | ArrayRecord]:
    about, arrays = _names(newest)
    return {
        about: ConfigRecord({"session": session, "round": generation.round}),
        arrays: ArrayRecord({key: encode_array(value) for key, value in generation.arrays.items()}),
    }


def _round_of(state: RecordDict, session: str, *, newest: bool) -> int | None:
    """Return the round of a generation in the context; None if there is none of this session."""
    about = state.get(_names(newest)[0])
    if not isinstance(about, ConfigRecord) or about["session"] != session:
        return None
    return cast(int, about["round"])


def _from_state(state: RecordDict, number: int, *, newest: bool) -> Generation:
    return Generation(number, _decoded(cast(ArrayRecord, state[_names(newest)[1]])))


def _decoded(arrays: ArrayRecord) -> Arrays:
    return {key: decode_array(value) for key, value in arrays.items()}
