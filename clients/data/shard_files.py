"""A shard on disk: a file for each array, which can be mapped into memory, and a small file that describes the whole.

A shard is read bit for bit as it was written, with types, shapes, memory order of arrays and order of names. Every file
has a checksum that shows damage. There is no pickle: the only class that is instantiated is the protocol's shard.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np

ABOUT = "shard.json"

_PLAIN = (bool, int, float, str, type(None))
_NUMBERS = "biufU"
"""Kinds of arrays that are numbers, or text of a fixed width."""
_END = "\0"
"""Separates two texts."""


class StoredError(ValueError):
    """Error: a shard cannot be stored as it is, or files hold no shard."""


# -- writing ----------------------------------------------------------------------------------------------------------


class Writer:
    """Writes the files of one shard into an empty folder; only their owner may read them.

    Parameters
    ----------
    folder : Path
        Folder of the shard.
    room : ModuleType
        The protocol's module ``shard``, whose namespace has the class of its shards.

    Examples
    --------
    >>> import tempfile
    >>> room, folder = ModuleType("shard"), Path(tempfile.mkdtemp())
    >>> writer = Writer(folder, room)
    >>> writer.finish({"source": "ward.csv"}, writer.describe({"ages": np.array([41, 52])}))
    >>> read_shard(folder, read_about(folder), room)
    {'ages': array([41, 52])}
    """

    def __init__(self, folder: Path, room: ModuleType) -> None:
        self._folder, self._room = folder, room
        self._sums: dict[str, int] = {}

    def create(self, name: str) -> BinaryIO:
        """Return a new file of this folder, open for writing."""
        return os.fdopen(os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")

    def seal(self, name: str) -> str:
        """Take the checksum of a finished file; return its name."""
        self._sums[name] = _checksum(self._folder / name)
        return name

    def finish(self, about: Mapping[str, Any], value: Any) -> None:
        """Write the file that describes the shard: its origin `about`, and its `value` as `describe` returns it."""
        text = json.dumps({**about, "files": self._sums, "value": value})
        with self.create(ABOUT) as file:
            file.write(f"{zlib.crc32(text.encode()):08x}\n{text}".encode())

    def describe(self, value: Any) -> Any:
        """Return a value as JSON, its arrays written to files.

        Raises
        ------
        StoredError
            If it is, or holds, something that cannot be stored exactly.
        """
        if type(value) in _PLAIN:
            return value
        if type(value) is np.ndarray:
            return self._array(value)
        if type(value) is tuple:
            return {"tuple": [self.describe(each) for each in value]}
        if type(value) is dict and all(type(key) is str for key in value):
            return {"dict": [[key, self.describe(each)] for key, each in value.items()]}
        name = type(value).__name__
        if is_dataclass(value) and getattr(self._room, name, None) is type(value):
            return {
                "class": name,
                "fields": {each.name: self.describe(getattr(value, each.name)) for each in fields(value)},
            }
        raise StoredError(f"a {name} is not stored")

    def _array(self, values: np.ndarray) -> Any:
        if values.dtype == object:
            return self._texts(values)
        # An array in neither C's nor Fortran's order would be read in another order, and its sums rounded differently.
        if values.dtype.kind not in _NUMBERS or not (values.flags.c_contiguous or values.flags.f_contiguous):
            raise StoredError(f"an array of {values.dtype} with strides {values.strides} is not stored")
        name = f"{len(self._sums)}.npy"
        with self.create(name) as file:
            np.save(file, values, allow_pickle=False)
        return {"array": self.seal(name)}

    def _texts(self, values: np.ndarray) -> Any:
        cells = values.tolist()
        if values.ndim != 1 or not {type(cell) for cell in cells} <= {str, type(None)}:
            raise StoredError("an array of other objects than text is not stored")
        missing = np.array([cell is None for cell in cells], np.bool_)
        name = f"{len(self._sums)}.txt"
        with self.create(name) as file:
            file.write(join_texts([cell or "" for cell in cells]))
        return {"texts": self.seal(name), "n": len(cells), "missing": self._array(missing)}


def join_texts(texts: list[str]) -> bytes:
    """Return texts as bytes; a `StoredError` if `split_texts` could not separate them.

    Examples
    --------
    >>> split_texts(join_texts(["north", "", "south"]))
    ['north', '', 'south']
    """
    text = _END.join(texts)
    if text.count(_END) != max(len(texts) - 1, 0):
        raise StoredError("a text holds a NUL")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise StoredError("a text is not Unicode") from None


# -- reading ----------------------------------------------------------------------------------------------------------


def read_about(folder: Path) -> dict[str, Any]:
    """Return what `Writer.finish` wrote about the shard in a folder.

    Raises
    ------
    StoredError
        If the file is missing or damaged.
    """
    try:
        checksum, _, text = (folder / ABOUT).read_text(encoding="utf-8").partition("\n")
        if checksum != f"{zlib.crc32(text.encode()):08x}":
            raise StoredError(f"{folder / ABOUT} is damaged")
        about: dict[str, Any] = json.loads(text)
    except (OSError, ValueError) as error:
        raise StoredError(f"{folder / ABOUT} cannot be read: {error}") from error
    return about


def read_shard(folder: Path, about: Mapping[str, Any], room: ModuleType) -> Any:
    """Return the shard in a folder; changes of its arrays do not reach the files.

    Parameters
    ----------
    folder : Path
        Folder of a `Writer`.
    about : Mapping
        Result of `read_about`.
    room : ModuleType
        As in `Writer`. If the module has a function ``read_shard``, that reads the value (clients/__init__.py).

    Raises
    ------
    StoredError
        If a file is missing or damaged.
    """
    try:
        for name, checksum in about["files"].items():
            if _checksum(folder / name) != checksum:
                raise StoredError(f"{folder / name} is damaged")
        if hasattr(room, "read_shard"):
            return room.read_shard(folder, about["value"])
        return _read(folder, about["value"], room)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise StoredError(f"{folder} cannot be read: {error}") from error


def _read(folder: Path, value: Any, room: ModuleType) -> Any:
    """Return what `Writer.describe` described."""
    if not isinstance(value, dict):
        return value
    kind = next(iter(value))
    if kind == "array":
        return _map_array(folder / value["array"])
    if kind == "texts":
        return _read_texts(folder, value)
    if kind == "tuple":
        return tuple(_read(folder, each, room) for each in value["tuple"])
    if kind == "dict":
        return {key: _read(folder, each, room) for key, each in value["dict"]}
    shard_class: Any = getattr(room, value["class"])
    if not (isinstance(shard_class, type) and is_dataclass(shard_class)):
        raise StoredError(f"{value['class']} is no class of a shard")
    return shard_class(**{name: _read(folder, each, room) for name, each in value["fields"].items()})


def _map_array(path: Path) -> np.ndarray:
    """Map an array of a file into memory; changes stay in this process."""
    try:
        return np.asarray(np.load(path, mmap_mode="c", allow_pickle=False))
    except ValueError:  # an array without elements cannot be mapped
        return np.asarray(np.load(path, allow_pickle=False))


def _read_texts(folder: Path, value: Mapping[str, Any]) -> np.ndarray:
    cells = np.empty(value["n"], object)
    if value["n"]:
        cells[:] = split_texts((folder / value["texts"]).read_bytes())
    cells[_map_array(folder / value["missing"]["array"])] = None
    return cells


def split_texts(data: bytes) -> list[str]:
    """Return the texts that `join_texts` joined, one at least."""
    return data.decode().split(_END)


def _checksum(path: Path) -> int:
    """Return the checksum of a file's content, read in pieces: it need not fit in memory."""
    checksum = 0
    with path.open("rb") as file:
        for piece in iter(partial(file.read, 2**20), b""):
            checksum = zlib.crc32(piece, checksum)
    return checksum
