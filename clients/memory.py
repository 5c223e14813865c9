"""What a site remembers between asks, in Flower's context and in the site's own directory.

Two generations are kept: the state after the newest round and the state before it. When a round is asked again - the
fusion center was interrupted before it had saved the answer - the site starts from the state before it, and its second
answer equals its first, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from protocols.payload import decode_array, encode_array

Arrays = dict[str, np.ndarray]


@dataclass
class Generation:
    """The state after a round: arrays by ``lane/name``."""

    round: int = 0
    arrays: Arrays = field(default_factory=dict)


class Memory(MutableMapping[str, np.ndarray]):
    """One lane's view of the memory: a mapping from names to arrays.

    Arrays are stored as they are when the ask has been answered; values that are not arrays are made arrays.
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
    """Loads the generation that an ask is to start from, and stores the one it leaves.

    Parameters
    ----------
    state : RecordDict
        ``Context.state`` of Flower, which a restarted SuperNode has lost.
    folder : Path or None
        Where it is also kept; None: in the context only.
    session : str
        Run that the memory belongs to; memory of another run is not used.
    """

    def __init__(self, state: RecordDict, folder: Path | None, session: str) -> None:
        self._state, self._session = state, session
        self._folder = None if folder is None else folder / f"memory-{session}"
        self._base = Generation()

    def load(self, number: int) -> Arrays:
        """The arrays as they were after the newest round before `number`."""
        for generation in self._generations():
            if generation.round < number and generation.round > self._base.round:
                self._base = generation
        return dict(self._base.arrays)

    def store(self, number: int, arrays: Arrays) -> None:
        """Keep `arrays` as the state after round `number`, and the state it came from as the one before."""
        if not arrays and not self._base.arrays:
            return
        kept = [self._base, Generation(number, arrays)]
        for generation in kept:
            _to_state(self._state, self._session, generation, newest=generation.round == number)
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._write(kept[1])
            wanted = {self._path(generation.round).name for generation in kept}
            for path in self._folder.glob("round-*.npz"):
                if path.name not in wanted:
                    path.unlink(missing_ok=True)

    def _generations(self) -> Iterator[Generation]:
        for newest in (True, False):
            found = _from_state(self._state, self._session, newest=newest)
            if found is not None:
                yield found
        if self._folder is not None:
            for path in sorted(self._folder.glob("round-*.npz")):
                with np.load(path, allow_pickle=False) as file:
                    yield Generation(int(path.stem.removeprefix("round-")), {key: file[key] for key in file.files})

    def _path(self, number: int) -> Path:
        assert self._folder is not None
        return self._folder / f"round-{number:05d}.npz"

    def _write(self, generation: Generation) -> None:
        path = self._path(generation.round)
        temporary = path.with_name(f".{path.name}.writing")
        with temporary.open("wb") as file:
            np.savez(file, **generation.arrays)  # type: ignore[arg-type]
        temporary.replace(path)


def _names(newest: bool) -> tuple[str, str]:
    which = "newest" if newest else "before"
    return f"memory-{which}", f"memory-{which}-arrays"


def _to_state(state: RecordDict, session: str, generation: Generation, *, newest: bool) -> None:
    about, arrays = _names(newest)
    state[about] = ConfigRecord({"session": session, "round": generation.round})
    state[arrays] = ArrayRecord({key: encode_array(value) for key, value in generation.arrays.items()})


def _from_state(state: RecordDict, session: str, *, newest: bool) -> Generation | None:
    about, arrays = _names(newest)
    if about not in state.config_records or state.config_records[about]["session"] != session:
        return None
    number = state.config_records[about]["round"]
    assert isinstance(number, int)
    return Generation(number, {key: decode_array(value) for key, value in state.array_records[arrays].items()})
