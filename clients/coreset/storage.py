"""Rows with groups on a site's disk: written and read in blocks, because they need not fit in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from clients.data.cache import Attempt, Entry
from clients.data.shard_files import StoredError, join_texts, split_texts
from numerics.coreset.grouped_rows import GroupedRows, RowBlock

_FILES = ("x", "group", "entity")
"""Files of a shard: numbers and UTF-8 text of all blocks, one after the other."""
_GROUP = np.int32


def keep_shard(rows: GroupedRows, entry: Entry) -> GroupedRows:
    """Return the same rows: the first complete pass writes them to the site's disk, and later passes read that copy.

    A source that is read as quickly as a copy would be is read again.
    """
    if rows.quick:
        return rows
    return GroupedRows(rows.features, partial(_pass, rows, entry))


def _pass(rows: GroupedRows, entry: Entry) -> Iterator[RowBlock]:
    stored = entry.load()
    if isinstance(stored, GroupedRows):
        yield from stored.blocks()
        return
    with entry.attempt() as attempt, closing(_BlockWriter(attempt)) as writer:
        for block in rows.blocks():
            attempt.to(partial(writer.add, block))
            yield block
        attempt.conclude(partial(writer.finish, rows.features))


class _BlockWriter:
    """Writer of blocks, with one block in memory at a time.

    Parameters
    ----------
    attempt : Attempt
        Attempt to store all blocks.
    """

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._files: dict[str, BinaryIO] = {}
        self._open_files = ExitStack()
        self._ends: list[list[int]] = []
        self._names: tuple[str, ...] = ()

    def add(self, block: RowBlock) -> None:
        """Append a block.

        Raises
        ------
        StoredError
            If its arrays do not have the types of a site's own file.
        """
        if not self._files:
            for name in _FILES:
                self._files[name] = self._open_files.enter_context(self._attempt.writer.create(name))
        x, group, entity = self._files.values()
        if block.x.dtype != np.float64 or block.group.dtype != np.int64 or not block.x.flags.c_contiguous:
            raise StoredError("a block with arrays of other types cannot be stored")
        x.write(block.x.tobytes())
        group.write(block.group.astype(_GROUP).tobytes())
        if block.entity is not None:
            entity.write(join_texts(block.entity.tolist()))
        n = self._ends[-1][0] if self._ends else 0
        self._ends.append([n + len(block.x), len(block.group_names), entity.tell() if block.entity is not None else -1])
        self._names = block.group_names

    def finish(self, features: tuple[str, ...]) -> Mapping[str, Any]:
        """Complete the files, and return the description of all blocks."""
        self.close()
        for name in _FILES:
            self._attempt.writer.seal(name)
        return {"features": list(features), "names": list(self._names), "ends": self._ends}

    def close(self) -> None:
        """Close the files."""
        self._open_files.close()


def read_shard(folder: Path, value: Mapping[str, Any]) -> GroupedRows:
    """Return the rows in a folder, given the description of `_BlockWriter.finish`."""
    features, names, ends = tuple(value["features"]), tuple(value["names"]), value["ends"]
    named = ends[-1][2] > 0

    def blocks() -> Iterator[RowBlock]:
        # Read, not mapped: one block is in memory at a time, also as the system counts it.
        with ExitStack() as opened:
            x, group, entity = (opened.enter_context((folder / name).open("rb")) for name in _FILES)
            start, first = 0, 0
            for end, n_names, last in ends:
                own = np.fromfile(x, np.float64, (end - start) * len(features)).reshape(end - start, len(features))
                places = np.fromfile(group, _GROUP, end - start).astype(np.int64)
                texts = np.array(split_texts(entity.read(last - first))) if named else None
                yield RowBlock(own, places, names[:n_names], texts)
                start, first = end, last

    return GroupedRows(features, blocks)
