"""A party's shard kept on its own disk: in deployment every ask is a process, and each would read the file again.

What is kept lies in ``shard-cache`` in the site's own directory and holds what the protocol uses of the source, nothing
else. It counts as long as the source is as it was, the settings by which it was read are the same, and so is our code;
else, or if it is damaged, the source is read again. Nothing that goes wrong here stops a site from answering.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from clients.data.stored import BlockWriter, StoredError, Writer, read_about, read_shard
from numerics.coreset.grouped_rows import GroupedRows, RowBlock

logger = logging.getLogger("flwr")

FOLDER = "shard-cache"
FORMAT = 1
"""Version of the layout."""
MOST_KEPT = 4
"""Shards of one protocol: of other settings, or of other sources."""
SETTLED_NS = 2 * 10**9
"""Nanoseconds for which a kept source has not changed: a second change in one tick of its clock would not be seen."""

_WRITING = ".writing-"
_ABANDONED = 3600.0
"""Seconds after which what is being written no longer is."""


class Heard(Mapping[str, Any]):
    """A configuration that notes what is asked of it: by which settings a shard was read.

    Attributes
    ----------
    heard : dict
        Value by key.
    absent : set of str
        Keys that are not set.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self.heard: dict[str, Any] = {}
        self.absent: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        if key not in self._config:
            self.absent.add(key)
            raise KeyError(key)
        self.heard[key] = self._config[key]
        return self.heard[key]

    def __iter__(self) -> Iterator[str]:
        self.heard.update(self._config)
        return iter(self._config)

    def __len__(self) -> int:
        return len(self._config)


class ShardCache:
    """The shards of one protocol that a site keeps of one source.

    Parameters
    ----------
    directory : Path
        The site's own.
    protocol : str
        Whose shards.
    source : Path
        The party's file.
    """

    def __init__(self, directory: Path, protocol: str, source: Path) -> None:
        self._folder, self._protocol = directory / FOLDER, protocol
        self._source = source.absolute()
        self._state = _state(self._source)

    def load(self, config: Mapping[str, Any]) -> Any | None:
        """The shard that is kept for these settings; None if none is, or none that can be read.

        Then those of what the source no longer is are deleted, whether or not it can be read and kept as it is now.
        """
        for entry in self._entries():
            try:
                about = read_about(entry)
                if self._is_current(about) and _has_settings(config, about):
                    return read_shard(entry, about)
            except StoredError as error:
                logger.warning("%s; the data are read again", error)
                shutil.rmtree(entry, ignore_errors=True)
        self.let_go()
        return None

    def keep(self, shard: Any, config: Heard) -> Any:
        """Have a shard kept; points, as soon as all their blocks have been read.

        Parameters
        ----------
        shard : object
            As it was read.
        config : Heard
            By which it was read.

        Returns
        -------
        object
            The shard to use.
        """
        if not self._state or time.time_ns() - max(self._state[:2]) < SETTLED_NS:
            return shard
        about = {
            "format": FORMAT,
            "code": _code(),
            "source": os.fspath(self._source),
            "state": self._state,
            "heard": {key: value for key, value in config.heard.items() if key != "data"},
            "absent": sorted(config.absent),
        }
        if isinstance(shard, GroupedRows):
            return GroupedRows(shard.features, partial(self._kept_blocks, shard, about))
        attempt = _Attempt(self._folder)
        attempt.to(lambda: attempt.writer.finish(about, attempt.writer.describe(shard)))
        self._conclude(attempt, about)
        return shard

    def _kept_blocks(self, points: GroupedRows, about: Mapping[str, Any]) -> Iterator[RowBlock]:
        """One pass over the rows, from the source as long as no pass over it has come to its end."""
        kept = self.load({**about["heard"]})
        if isinstance(kept, GroupedRows):
            yield from kept.blocks()
            return
        attempt = _Attempt(self._folder)
        try:
            for block in points.blocks():
                attempt.to(partial(attempt.add, block))
                yield block
            attempt.to(lambda: attempt.blocks.finish(about, points.features))
            self._conclude(attempt, about)
        finally:
            attempt.end()

    def _conclude(self, attempt: _Attempt, about: Mapping[str, Any]) -> None:
        """Put what was written in its place, unless the source changed meanwhile."""
        if _state(self._source) != self._state:
            attempt.failed = True
        name = f"{self._protocol}-{zlib.crc32(json.dumps(about).encode()):08x}"
        attempt.to(lambda: attempt.folder.rename(self._folder / name))
        attempt.end()
        self.let_go()

    def let_go(self) -> None:
        """Delete the shards of what the source no longer is: rows that were taken out of it are not to stay here."""
        current = 0
        for entry in self._entries():
            try:
                about = read_about(entry)
                stale = about["source"] == os.fspath(self._source) and not self._is_current(about)
            except (StoredError, KeyError):
                stale = True
            current += not stale
            if stale or current > MOST_KEPT:
                shutil.rmtree(entry, ignore_errors=True)

    def _entries(self) -> list[Path]:
        """Folders of kept shards, the newest first."""
        with contextlib.suppress(OSError):
            found = [(entry.stat().st_mtime_ns, entry) for entry in self._folder.glob(f"{self._protocol}-*")]
            return [entry for _, entry in sorted(found, reverse=True)]
        return []

    def _is_current(self, about: Mapping[str, Any]) -> bool:
        mine = (FORMAT, _code(), os.fspath(self._source), self._state)
        return mine == tuple(about.get(key) for key in ("format", "code", "source", "state"))


def forget_shards(directory: Path) -> None:
    """Delete all shards that a site keeps in its own directory."""
    shutil.rmtree(directory / FOLDER, ignore_errors=True)


class _Attempt:
    """A shard being written, in a folder that has no name yet: after the first failure nothing more is tried.

    Parameters
    ----------
    parent : Path
        Where the folder is made; so is this, if need be.
    """

    def __init__(self, parent: Path) -> None:
        self.failed = False
        self._parent = parent
        self.to(self._begin)

    def _begin(self) -> None:
        self._parent.parent.mkdir(parents=True, exist_ok=True)
        self._parent.mkdir(mode=0o700, exist_ok=True)
        for left in self._parent.glob(f"{_WRITING}*"):
            if time.time() - left.stat().st_mtime > _ABANDONED:
                shutil.rmtree(left, ignore_errors=True)
        self.folder = Path(tempfile.mkdtemp(prefix=_WRITING, dir=self._parent))
        self.writer = Writer(self.folder)

    def to(self, action: Callable[[], object]) -> None:
        """Do something that may fail: a full disk must not keep a site from answering."""
        if self.failed:
            return
        try:
            action()
        except (OSError, StoredError) as error:
            self.failed = True
            logger.warning("the shard is not kept in %s: %s", self._parent, error)

    @cached_property
    def blocks(self) -> BlockWriter:
        """For points."""
        return BlockWriter(self.writer)

    def add(self, block: RowBlock) -> None:
        """Write a block."""
        self.blocks.add(block)

    def end(self) -> None:
        """Let go of files, and of the folder if it has not come to its place."""
        if "blocks" in vars(self):
            self.blocks.close()
        if "folder" in vars(self):
            shutil.rmtree(self.folder, ignore_errors=True)


def _state(source: Path) -> list[int]:
    """By which a changed file is known; empty if there is none."""
    try:
        found = source.stat()
    except OSError:
        return []
    return [found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino]


def _has_settings(config: Mapping[str, Any], about: Mapping[str, Any]) -> bool:
    """Whether the settings by which a shard was read are the same now; 1 is neither 1.0 nor true."""
    same = all(key in config and repr(config[key]) == repr(value) for key, value in about["heard"].items())
    return same and not any(key in config for key in about["absent"])


@cache
def _code() -> int:
    """Checksum of our code for reading data, and of the versions it was read with."""
    versions = [f"{package} {version(package)}" for package in ("numpy", "pandas", "pyarrow")]
    found = zlib.crc32(f"{sys.version_info} {versions}".encode())
    home = Path(__file__).parents[2]
    for path in sorted([*(home / "clients").rglob("*.py"), *(home / "numerics").rglob("*.py")]):
        found = zlib.crc32(path.read_bytes(), found)
    return found
