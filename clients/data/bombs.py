"""Files that unpack to many times their size: refused before they fill the memory."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from clients.data.table import DataError

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

_LARGEST_RATIO = 100
"""Largest ratio of a file's unpacked size to its own; compression of real data stays far below."""
_ANY_SIZE = 10**8
"""Unpacked bytes that every file may have."""
_CELL_BYTES = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}
"""Bytes of a cell of a Parquet file in memory, by its type; 8 where a type is not named."""


def refuse_bomb(path: Path, size: int) -> None:
    """Refuse a file that unpacks to more bytes than real data of its size.

    Raises
    ------
    DataError
        If `size` is more than 100 times that of the file, and more than 100 MB.
    """
    if size > _most_bytes(path):
        raise DataError(
            f"{path}: {path.stat().st_size:,} bytes would become {size:,} in memory, more than {_LARGEST_RATIO} times"
            " as many; write the file without compression (.csv, or numpy.savez) if these are your data",
            "unreadable",
        )


def _most_bytes(path: Path) -> int:
    return max(_LARGEST_RATIO * path.stat().st_size, _ANY_SIZE)


def npz_bytes(path: Path) -> int:
    """Return the bytes of all arrays, by the archive's directory."""
    with zipfile.ZipFile(path) as archive:
        return sum(member.file_size for member in archive.infolist())


def parquet_bytes(file: ParquetFile) -> int:
    """Return the bytes of all cells, by the file's footer: a run of equal cells is stored as one."""
    size, about = 0, file.metadata
    for group in map(about.row_group, range(about.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            cells = column.num_values * _CELL_BYTES.get(column.physical_type, 8)
            size += max(column.total_uncompressed_size, cells)
    return size


class GzipText(gzip.GzipFile):
    """A compressed text, which is refused if its declared or its actual size is too large.

    Parameters
    ----------
    path : Path
        The compressed file.

    Raises
    ------
    DataError
        As `refuse_bomb`, also during reading: the file declares only the size of its last part, modulo 4 GiB.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path, self._most = path, _most_bytes(path)
        with path.open("rb") as file:
            file.seek(-min(4, path.stat().st_size), io.SEEK_END)
            refuse_bomb(path, int.from_bytes(file.read(), "little"))

    def read1(self, size: int = -1) -> bytes:
        """Return the next bytes, as a reader of text asks for them."""
        part = super().read1(size)
        if self.tell() > self._most:
            refuse_bomb(self._path, self.tell())
        return part
