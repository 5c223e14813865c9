"""The answers a run received so far, on disk: replayed, they bring a conversation to where it was interrupted."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from protocols.payload import RAW

_RUN = "run.json"


class CheckpointError(ValueError):
    """A checkpoint that does not belong to this run, or cannot be read."""


@dataclass(frozen=True)
class SavedRound:
    """One round: who was asked, what came back, and what is said of those who failed.

    Attributes
    ----------
    number : int
        Round, from 1.
    asked : tuple of str
        Names of the sites asked, as far as they are known.
    contents : Mapping[str, RecordDict]
        Answers as they came, by site.
    failures : Mapping[str, str]
        By site, why it did not answer.
    """

    number: int
    asked: tuple[str, ...]
    contents: Mapping[str, RecordDict] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)


class Checkpoint:
    """A folder with a file a round.

    Parameters
    ----------
    folder : Path
        Made when the first file is written.
    identity : Mapping[str, Any]
        What must be equal for a replay to make sense: configuration and version, as JSON values.
    session : str
        Name under which the sites keep this run's memory; a resumed run takes over the saved one.

    Raises
    ------
    CheckpointError
        If the folder holds the rounds of a run with another identity.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any], session: str) -> None:
        self.folder = folder
        self.session = session
        run = folder / _RUN
        if not run.exists():
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(run, json.dumps({"session": session, "identity": identity}, indent=1).encode())
            return
        saved = json.loads(run.read_text())
        differing = sorted(
            key for key in saved["identity"].keys() | identity.keys() if saved["identity"].get(key) != identity.get(key)
        )
        if differing:
            changes = "; ".join(
                f"{key} was {saved['identity'].get(key)!r}, is {identity.get(key)!r}" for key in differing
            )
            raise CheckpointError(f"the interrupted run was another one: {changes}")
        self.session = saved["session"]

    def rounds(self) -> Iterator[SavedRound]:
        """The saved rounds in order, up to the first that is missing."""
        number = 1
        while (path := self._path(number)).exists():
            yield _read(path, number)
            number += 1

    def save(self, saved: SavedRound) -> None:
        """Write one round; when this returns, it is on disk."""
        arrays: dict[str, np.ndarray] = {}
        sites: dict[str, Any] = {}
        for site, content in saved.contents.items():
            place = len(sites)
            described: dict[str, Any] = {"configs": {}, "arrays": {}}
            for name, record in content.config_records.items():
                described["configs"][name] = dict(record)
            for name, array_record in content.array_records.items():
                described["arrays"][name] = {
                    key: [array.dtype, list(array.shape)] for key, array in array_record.items()
                }
                for key, array in array_record.items():
                    arrays[f"{place}/{name}/{key}"] = np.frombuffer(array.data, np.uint8)
            sites[site] = described
        about = {"asked": saved.asked, "failures": dict(saved.failures), "sites": sites}
        arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
        with _replacing(self._path(saved.number)) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())

    def _path(self, number: int) -> Path:
        return self.folder / f"round-{number:05d}.npz"


def _read(path: Path, number: int) -> SavedRound:
    try:
        with np.load(path, allow_pickle=False) as file:
            about = json.loads(file["about"].tobytes())
            contents = {}
            for place, (site, described) in enumerate(about["sites"].items()):
                content = RecordDict()
                for name, values in described["configs"].items():
                    content[name] = ConfigRecord(values)
                for name, listed in described["arrays"].items():
                    content[name] = ArrayRecord(
                        {
                            key: Array(dtype, tuple(shape), RAW, file[f"{place}/{name}/{key}"].tobytes())
                            for key, (dtype, shape) in listed.items()
                        }
                    )
                contents[site] = content
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); delete it to resume from the round before") from error
    return SavedRound(number, tuple(about["asked"]), contents, about["failures"])


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; it takes its place when the block ends well, and is removed when not."""
    temporary = path.with_name(f".{path.name}.writing")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all, and on disk when this returns."""
    with _replacing(path) as temporary, temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
