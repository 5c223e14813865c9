"""The asks and answers of a run on disk, whose replay resumes an interrupted conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flwr.app import RecordDict

from common.files import replacing
from protocols.wire.record_file import read_records, write_records
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
        # Sites with equal asks share the records.
        asks = {id(content): content for content in saved.asks.values()}
        place = {identity: place for place, identity in enumerate(asks)}
        about = {
            "asked": {site: place[id(content)] for site, content in saved.asks.items()},
            "failures": dict(saved.failures),
            "sites": list(saved.contents),
        }
        with writing_to(self.folder), replacing(self._path(saved.number)) as temporary:
            write_records(temporary, about, [*saved.contents.values(), *asks.values()])

    def discard(self, number: int) -> None:
        """Delete this round and all later ones, the last one first, so that no gap can arise."""
        for path in sorted(self.folder.glob("round-*.zip"), reverse=True):
            if path >= self._path(number):
                path.unlink()

    def _path(self, number: int) -> Path:
        return self.folder / f"round-{number:05d}.zip"


def _read(path: Path, number: int) -> SavedRound:
    try:
        about, contents = read_records(path)
        sites, sent = about["sites"], contents[len(about["sites"]) :]
        asks = {site: sent[place] for site, place in about["asked"].items()}
        return SavedRound(number, asks, dict(zip(sites, contents, strict=False)), dict(about["failures"]))
    except Exception as error:  # zipfile, JSON and Flower have different errors for a damaged file
        raise CheckpointError(f"{path} cannot be read ({error}); delete it to resume from the round before") from error
