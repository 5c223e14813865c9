"""A shard on disk: an array a file, to be mapped into memory, and one small file that says how they belong together.

What is read is what was written, bit for bit: types, shapes, the order of arrays in memory, the order of names. Every
file has a checksum, so that a damaged one is noticed. No pickle: only the few classes of a shard are made again.
"""

from __future__ import annotations

import importlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from numerics.coreset.grouped_rows import GroupedRows, RowBlock

ABOUT = "shard.json"

_CLASSES = {
    "Columns": "numerics.residual.columns_and_outcomes",
    "Ensemble": "numerics.bc3e.ensemble",
    "Measurements": "numerics.gp.measurements",
    "RegressionRows": "numerics.shared.regression_rows",
}
"""What a shard may be, and where it is from."""
_PLAIN = (bool, int, float, str, type(None))
_NUMBERS = "biufU"
"""Kinds of arrays that are numbers, or text of a fixed width."""
_END = "\0"
"""Between two texts."""
_BLOCK_FILES = ("x", "colour", "entity")
"""Of points: the blocks' numbers and UTF-8 text, one behind the other."""


class StoredError(ValueError):
    """A shard that cannot be stored as it is, or files that do not hold one."""


# -- writing ----------------------------------------------------------------------------------------------------------


class Writer:
    """Writes the files of one shard into an empty folder; only their owner may read them.

    Parameters
    ----------
    folder : Path
        Of the shard.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sums: dict[str, int] = {}

    def create(self, name: str) -> BinaryIO:
        """A new file of this folder, open for writing."""
        return os.fdopen(os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")

    def seal(self, name: str) -> str:
        """Note what a finished file holds; returns its name."""
        self._sums[name] = _checksum(self._folder / name)
        return name

    def finish(self, about: Mapping[str, Any], value: Any) -> None:
        """Write what says how the files belong together, and with it what is known `about` the shard."""
        text = json.dumps({**about, "files": self._sums, "value": value})
        with self.create(ABOUT) as file:
            file.write(f"{zlib.crc32(text.encode()):08x}\n{text}".encode())

    def describe(self, value: Any) -> Any:
        """A value as JSON, its arrays written to files.

        Raises
        ------
        StoredError
            If it is, or holds, what could not be read again as it is.
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
        if is_dataclass(value) and _CLASSES.get(name) == type(value).__module__:
            return {
                "class": name,
                "fields": {each.name: self.describe(getattr(value, each.name)) for each in fields(value)},
            }
        raise StoredError(f"a {name} is not stored")

    def _array(self, values: np.ndarray) -> Any:
        if values.dtype == object:
            return self._texts(values)
        # What is neither in C's nor in Fortran's order would be read back in another one, and sums rounded otherwise.
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
            file.write(encoded([cell or "" for cell in cells]))
        return {"texts": self.seal(name), "n": len(cells), "missing": self._array(missing)}


def encoded(texts: list[str]) -> bytes:
    """Texts as bytes; a StoredError where they could not be told apart again."""
    joined = _END.join(texts)
    if joined.count(_END) != max(len(texts) - 1, 0):
        raise StoredError("a text holds a NUL")
    try:
        return joined.encode()
    except UnicodeEncodeError:
        raise StoredError("a text is not Unicode") from None


class BlockWriter:
    """Writes coloured points as they come, a block in memory at a time.

    Parameters
    ----------
    writer : Writer
        Of the shard's folder.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._files = {name: writer.create(name) for name in _BLOCK_FILES}
        self._ends: list[list[int]] = []
        self._names: tuple[str, ...] = ()

    def add(self, block: RowBlock) -> None:
        """Append a block.

        Raises
        ------
        StoredError
            If it is not made as those of a party's own file are.
        """
        x, colour, entity = self._files.values()
        if block.x.dtype != np.float64 or block.group.dtype != np.int64 or not block.x.flags.c_contiguous:
            raise StoredError("a block of other numbers is not stored")
        x.write(block.x.tobytes())
        colour.write(block.group.tobytes())
        if block.entity is not None:
            entity.write(encoded(block.entity.tolist()))
        n = self._ends[-1][0] if self._ends else 0
        self._ends.append([n + len(block.x), len(block.group_names), entity.tell() if block.entity is not None else -1])
        self._names = block.group_names

    def finish(self, about: Mapping[str, Any], features: tuple[str, ...]) -> None:
        """Write the rest; then the shard is whole."""
        self.close()
        for name in _BLOCK_FILES:
            self._writer.seal(name)
        points = {"features": list(features), "names": list(self._names), "ends": self._ends}
        self._writer.finish(about, {"points": points})

    def close(self) -> None:
        """Let go of the files, which are whole after `finish` only."""
        for file in self._files.values():
            file.close()


# -- reading ----------------------------------------------------------------------------------------------------------


def read_about(folder: Path) -> dict[str, Any]:
    """What `Writer.finish` wrote of the shard in a folder.

    Raises
    ------
    StoredError
        If it is not there, or damaged.
    """
    try:
        checksum, _, text = (folder / ABOUT).read_text(encoding="utf-8").partition("\n")
        if checksum != f"{zlib.crc32(text.encode()):08x}":
            raise StoredError(f"{folder / ABOUT} is damaged")
        about: dict[str, Any] = json.loads(text)
    except (OSError, ValueError) as error:
        raise StoredError(f"{folder / ABOUT} cannot be read: {error}") from error
    return about


def read_shard(folder: Path, about: Mapping[str, Any]) -> Any:
    """The shard in a folder; its arrays may be changed, which changes no file.

    Parameters
    ----------
    folder : Path
        As a `Writer` had it.
    about : Mapping
        As `read_about` returns it.

    Raises
    ------
    StoredError
        If a file is not there, or not what was written.
    """
    try:
        for name, checksum in about["files"].items():
            if _checksum(folder / name) != checksum:
                raise StoredError(f"{folder / name} is damaged")
        value = about["value"]
        return _points(folder, value["points"]) if "points" in value else _made(folder, value)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise StoredError(f"{folder} cannot be read: {error}") from error


def _made(folder: Path, value: Any) -> Any:
    """What `Writer.describe` described."""
    if not isinstance(value, dict):
        return value
    kind = next(iter(value))
    if kind == "array":
        return _mapped(folder / value["array"])
    if kind == "texts":
        return _read_texts(folder, value)
    if kind == "tuple":
        return tuple(_made(folder, each) for each in value["tuple"])
    if kind == "dict":
        return {key: _made(folder, each) for key, each in value["dict"]}
    made = getattr(importlib.import_module(_CLASSES[value["class"]]), value["class"])
    return made(**{name: _made(folder, each) for name, each in value["fields"].items()})


def _mapped(path: Path) -> np.ndarray:
    """An array, read from its file where it is used; changes stay in this process."""
    try:
        return np.asarray(np.load(path, mmap_mode="c", allow_pickle=False))
    except ValueError:  # an array without elements cannot be mapped
        return np.asarray(np.load(path, allow_pickle=False))


def _read_texts(folder: Path, value: Mapping[str, Any]) -> np.ndarray:
    cells = np.empty(value["n"], object)
    if value["n"]:
        cells[:] = (folder / value["texts"]).read_bytes().decode().split(_END)
    cells[_made(folder, value["missing"])] = None
    return cells


def _points(folder: Path, value: Mapping[str, Any]) -> GroupedRows:
    features, names, ends = tuple(value["features"]), tuple(value["names"]), value["ends"]
    n = ends[-1][0]
    x = np.memmap(folder / "x", np.float64, "r", shape=(n, len(features)))
    colour = np.memmap(folder / "colour", np.int64, "r", shape=(n,))
    entity = np.memmap(folder / "entity", np.uint8, "r") if ends[-1][2] > 0 else None

    def blocks() -> Iterator[RowBlock]:
        start, first = 0, 0
        for end, n_names, last in ends:
            # Copies: what is in memory is a block at a time, and compiled code knows arrays that may be changed only.
            texts = None if entity is None else np.array(entity[first:last].tobytes().decode().split(_END))
            yield RowBlock(np.array(x[start:end]), np.array(colour[start:end]), names[:n_names], texts)
            start, first = end, last

    return GroupedRows(features, blocks)


def _checksum(path: Path) -> int:
    """Of a file's content, read in pieces: it need not fit in memory."""
    found = 0
    with path.open("rb") as file:
        for piece in iter(partial(file.read, 2**20), b""):
            found = zlib.crc32(piece, found)
    return found
