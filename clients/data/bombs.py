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
"""Times its own size that a file may take when it is unpacked; compression of real data stays far below."""
_ANY_SIZE = 10**8
"""Bytes that any file may take when it is unpacked."""
_CELL_BYTES = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}
"""Bytes of a cell of a Parquet file in memory, by its type; 8 where a type is not named."""


def refuse_bomb(path: Path, size: int) -> None:
    """Refuse a file that unpacks to more bytes than it could hold of data.

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
    """A compressed text, which is refused if it says that it is too large, and when it turns out to be.

    Parameters
    ----------
    path : Path
        Its file.

    Raises
    ------
    DataError
        As `refuse_bomb`; also while it is read, since only the size of its last part, modulo 4 GiB, stands in the file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path, self._most = path, _most_bytes(path)
        with path.open("rb") as file:
            file.seek(-min(4, path.stat().st_size), io.SEEK_END)
            refuse_bomb(path, int.from_bytes(file.read(), "little"))

    def read1(self, size: int = -1) -> bytes:
        """Return the next bytes; text is read in this way."""
        part = super().read1(size)
        if self.tell() > self._most:
            refuse_bomb(self._path, self.tell())
        return part
