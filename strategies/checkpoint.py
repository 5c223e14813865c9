"""The asks and answers of a run on disk, whose replay resumes an interrupted conversation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from common.files import replacing, write_arrays
from strategies.interrupted_run import CheckpointError, check_identity, note_run, writing_to

__all__ = ["Checkpoint", "CheckpointError", "SavedRound"]


@dataclass(frozen=True)
class SavedRound:
    """One round: the asks, the replies, and why sites failed.

    Attributes
    ----------
    number : int
        Round, from 1.
    asks : Mapping[str, RecordDict]
        Asks by site; ``node NUMBER`` for a node without a name.
    contents : Mapping[str, RecordDict]
        Replies by site, as they arrived.
    failures : Mapping[str, str]
        By site, the reason why it did not answer.
    """

    number: int
    asks: Mapping[str, RecordDict]
    contents: Mapping[str, RecordDict] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)


class Checkpoint:
    """A folder with one file for every round.

    Parameters
    ----------
    folder : Path
        Created when the first file is written.
    identity : Mapping[str, Any]
        Configuration and version, as JSON values. A replay needs equal ones.
    session : str
        Name under which the sites keep this run's memory; a resumed run takes the saved name.

    Raises
    ------
    CheckpointError
        If the folder holds the rounds of a run with another identity.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> Checkpoint(folder, {"seed": 0}, "5").save(SavedRound(1, {"north": RecordDict()}))
    >>> resumed = Checkpoint(folder, {"seed": 0}, "6")
    >>> resumed.session, [saved.number for saved in resumed.rounds()]
    ('5', [1])
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any], session: str) -> None:
        self.folder = folder
        saved = check_identity(folder, identity)
        self.session = session if saved is None else saved
        if saved is None:
            note_run(folder, identity, session)

    def rounds(self) -> Iterator[SavedRound]:
        """Read the saved rounds in order, up to the first missing one."""
        number = 1
        while (path := self._path(number)).exists():
            yield _read(path, number)
            number += 1

    def save(self, saved: SavedRound) -> None:
        """Write one round; when this returns, it is on disk. A `CheckpointError` if it cannot be written."""
        blobs: list[bytes] = []
        sites = {site: _describe(content, blobs) for site, content in saved.contents.items()}
        # Sites with equal asks share the records.
        asks = {id(content): _describe(content, blobs) for content in saved.asks.values()}
        place = {identity: place for place, identity in enumerate(asks)}
        about = {
            "asks": list(asks.values()),
            "asked": {site: place[id(content)] for site, content in saved.asks.items()},
            "failures": dict(saved.failures),
            "sites": sites,
        }
        arrays = {str(place): np.frombuffer(blob, np.uint8) for place, blob in enumerate(blobs)}
        arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
        with writing_to(self.folder), replacing(self._path(saved.number)) as temporary:
            write_arrays(temporary, arrays)

    def discard(self, number: int) -> None:
        """Delete this round and all later ones, the last one first, so that no gap can arise."""
        for path in sorted(self.folder.glob("round-*.npz"), reverse=True):
            if path >= self._path(number):
                path.unlink()

    def _path(self, number: int) -> Path:
        return self.folder / f"round-{number:05d}.npz"


_KINDS: dict[str, type[ConfigRecord] | type[MetricRecord]] = {"config": ConfigRecord, "metric": MetricRecord}


def _describe(content: RecordDict, blobs: list[bytes]) -> dict[str, Any]:
    """Return a message's records as JSON values, and append their bytes to `blobs`.

    Invalid records are kept, too, so that a replayed answer is refused again.
    """

    def keep(data: bytes) -> int:
        blobs.append(data)
        return len(blobs) - 1

    description: dict[str, Any] = {}
    for name, record in content.items():
        if isinstance(record, ArrayRecord):
            arrays = [[key, x.dtype, x.shape, x.stype, keep(x.data)] for key, x in record.items()]
            description[name] = ["array", arrays]
        else:
            description[name] = ["config" if isinstance(record, ConfigRecord) else "metric", keep(record.deflate())]
    return description


def _restore(description: Mapping[str, Any], blobs: Callable[[int], bytes]) -> RecordDict:
    """Restore records from the result of `_describe`."""
    content = RecordDict()
    for name, (kind, value) in description.items():
        if kind == "array":
            content[name] = ArrayRecord(
                {key: Array(dtype, tuple(shape), stype, blobs(place)) for key, dtype, shape, stype, place in value}
            )
        else:
            content[name] = _KINDS[kind].inflate(blobs(value))
    return content


def _read(path: Path, number: int) -> SavedRound:
    try:
        with np.load(path, allow_pickle=False) as file:
            about = json.loads(file["about"].tobytes())

            def blob(place: int) -> bytes:
                return bytes(file[str(place)])

            contents = {site: _restore(description, blob) for site, description in about["sites"].items()}
            sent = [_restore(description, blob) for description in about["asks"]]
            asks = {site: sent[place] for site, place in about["asked"].items()}
            return SavedRound(number, asks, contents, dict(about["failures"]))
    except Exception as error:  # numpy, zipfile, JSON and Flower have different errors for a damaged file
        raise CheckpointError(f"{path} cannot be read ({error}); delete it to resume from the round before") from error
