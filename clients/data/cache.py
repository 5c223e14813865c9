"""A cache of a site's shards on its own disk: in deployment every ask is a process, and would read the file again.

Shards lie in ``shard-cache`` in the site's own directory and hold only the data that the protocol uses. A shard is used
as long as the source, the settings by which it was read, and the code are the same. Else, or if it is damaged, the
source is read again. No failure of the cache stops a site from answering.
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
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any, Self, TypeVar

from clients.data.shard_files import StoredError, Writer, read_about, read_shard
from common.files import file_state
from protocols import registry

logger = logging.getLogger("flwr")

T = TypeVar("T")

FOLDER = "shard-cache"
FORMAT = 2
"""Version of the layout."""
MOST_KEPT = 4
"""Most shards of one protocol, of different settings or sources."""
SETTLED_NS = 2 * 10**9
"""Nanoseconds since the source's last change before a shard is kept: two changes in one tick look like one."""

_WRITING = ".writing-"
_ABANDONED = 3600.0
"""Seconds after which an unfinished folder counts as abandoned."""


class ObservedConfig(Mapping[str, Any]):
    """A configuration that records which of its settings are read.

    Attributes
    ----------
    used : dict
        Values by key that were read.
    absent : set of str
        Keys that were looked up and are not set.

    Examples
    --------
    >>> config = ObservedConfig({"target": "y", "id": "case"})
    >>> config["target"], config.get("features", "*")
    ('y', '*')
    >>> config.used, config.absent
    ({'target': 'y'}, {'features'})
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self.used: dict[str, Any] = {}
        self.absent: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        if key not in self._config:
            self.absent.add(key)
            raise KeyError(key)
        self.used[key] = self._config[key]
        return self.used[key]

    def __iter__(self) -> Iterator[str]:
        self.used.update(self._config)
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
        Name of the protocol.
    source : Path
        The site's file.
    """

    def __init__(self, directory: Path, protocol: str, source: Path) -> None:
        self.folder = directory / FOLDER
        self._protocol = protocol
        self._source = source.absolute()
        self._state = file_state(self._source)

    @property
    def room(self) -> ModuleType:
        """The protocol's module ``shard``."""
        return registry.room(self._protocol, "shard")

    def load(self, config: Mapping[str, Any]) -> Any | None:
        """Return the shard of these settings; None if there is none, or it cannot be read.

        In that case, shards of a former state of the source are deleted.
        """
        for entry in self._entries():
            try:
                about = read_about(entry)
                if self._is_current(about) and _has_settings(config, about):
                    return read_shard(entry, about, self.room)
            except StoredError as error:
                logger.warning("%s; the data are read again", error)
                shutil.rmtree(entry, ignore_errors=True)
        self.delete_stale()
        return None

    def keep(self, shard: Any, config: ObservedConfig) -> Any:
        """Keep a shard on the disk, and return the shard to use.

        Parameters
        ----------
        shard : object
            The shard that was read.
        config : ObservedConfig
            The configuration with which it was read.
        """
        if not self._state or time.time_ns() - max(self._state[:2]) < SETTLED_NS:
            return shard
        about = {
            "format": FORMAT,
            "code": self._code(),
            "source": os.fspath(self._source),
            "state": self._state,
            "used": {key: value for key, value in config.used.items() if key != "data"},
            "absent": sorted(config.absent),
        }
        entry = Entry(self, about)
        if hasattr(self.room, "keep_shard"):
            return self.room.keep_shard(shard, entry)
        with entry.attempt() as attempt:
            attempt.conclude(lambda: attempt.writer.describe(shard))
        return shard

    def take(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Give the folder of a complete shard its final name; an `OSError` if that fails."""
        name = f"{self._protocol}-{zlib.crc32(json.dumps(about).encode()):08x}"
        folder.rename(self.folder / name)

    def has_changed(self) -> bool:
        """Whether the source has changed since this object was made."""
        return file_state(self._source) != self._state

    def delete_stale(self) -> None:
        """Delete shards of a former state of the source, whose rows may have been removed, and the oldest ones."""
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
        """Return the shards' folders, the newest first."""
        with contextlib.suppress(OSError):
            dated = [(entry.stat().st_mtime_ns, entry) for entry in self.folder.glob(f"{self._protocol}-*")]
            return [entry for _, entry in sorted(dated, reverse=True)]
        return []

    def _is_current(self, about: Mapping[str, Any]) -> bool:
        mine = (FORMAT, self._code(), os.fspath(self._source), self._state)
        return mine == tuple(about.get(key) for key in ("format", "code", "source", "state"))

    def _code(self) -> int:
        return _checksum_of_code(Path(str(self.room.__file__)).parent)


def delete_shards(directory: Path) -> None:
    """Delete all shards in a site's own directory."""
    shutil.rmtree(directory / FOLDER, ignore_errors=True)


class Entry:
    """The place of one shard in a cache, for a protocol that writes its shards itself.

    Parameters
    ----------
    cache : ShardCache
        The cache.
    about : Mapping
        The state of the source, and the settings with which it is read.
    """

    def __init__(self, cache: ShardCache, about: Mapping[str, Any]) -> None:
        self._cache, self._about = cache, about

    def load(self) -> Any | None:
        """Return the shard if another process has kept it meanwhile, else None."""
        return self._cache.load(self._about["used"])

    def attempt(self) -> Attempt:
        """Begin to write the shard."""
        return Attempt(self._cache, self._about)


class Attempt:
    """An attempt to write a shard, into a folder with a temporary name; it ends with the first failure.

    A context manager, which deletes a folder without its final name.

    Attributes
    ----------
    writer : Writer
        Writer of the folder; not set if the folder could not be made.
    failed : bool
        Whether the attempt has failed.
    """

    writer: Writer

    def __init__(self, cache: ShardCache, about: Mapping[str, Any]) -> None:
        self.failed = False
        self._cache, self._about = cache, about
        self._folder: Path | None = None
        self.to(self._begin)

    def _begin(self) -> None:
        parent = self._cache.folder
        parent.parent.mkdir(parents=True, exist_ok=True)
        parent.mkdir(mode=0o700, exist_ok=True)
        for left in parent.glob(f"{_WRITING}*"):
            if time.time() - left.stat().st_mtime > _ABANDONED:
                shutil.rmtree(left, ignore_errors=True)
        self._folder = Path(tempfile.mkdtemp(prefix=_WRITING, dir=parent))
        self.writer = Writer(self._folder, self._cache.room)

    def to(self, action: Callable[[], T]) -> T | None:
        """Do a step unless one has failed; note a failure, since a full disk must not keep a site from answering."""
        if self.failed:
            return None
        try:
            return action()
        except (OSError, StoredError) as error:
            self.failed = True
            logger.warning("the shard is not kept in %s: %s", self._cache.folder, error)
            return None

    def conclude(self, describe: Callable[[], Any]) -> None:
        """Write the shard's description, and give its folder the final name unless the source has changed meanwhile.

        Parameters
        ----------
        describe : Callable
            Returns the shard as JSON, its arrays written to files.
        """
        self.to(lambda: self.writer.finish(self._about, describe()))
        if not self._cache.has_changed() and self._folder is not None:
            self.to(partial(self._cache.take, self._folder, self._about))
        self._end()
        self._cache.delete_stale()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _has_settings(config: Mapping[str, Any], about: Mapping[str, Any]) -> bool:
    """Whether the settings with which a shard was read are the same now; 1 is neither 1.0 nor true."""
    same = all(key in config and repr(config[key]) == repr(value) for key, value in about["used"].items())
    return same and not any(key in config for key in about["absent"])


@cache
def _checksum_of_code(package: Path) -> int:
    """Return a checksum of all code that reads data, the protocol's own package included, and of library versions."""
    versions = [f"{name} {_version(name)}" for name in ("numpy", "pandas", "pyarrow")]
    checksum = zlib.crc32(f"{sys.version_info} {versions}".encode())
    home = Path(__file__).parents[2]
    paths = {path for folder in (home / "clients", home / "numerics", package) for path in folder.rglob("*.py")}
    for path in sorted(paths):
        checksum = zlib.crc32(path.read_bytes(), checksum)
    return checksum


def _version(package: str) -> str:
    """Return the version of a package, empty if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
