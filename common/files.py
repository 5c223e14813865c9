"""Files that are there whole or not at all, on the disk when the call returns, their bytes given by their content."""

from __future__ import annotations

import contextlib
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from jaxtyping import Shaped

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def write_file(path: Path, chunks: Iterable[bytes]) -> None:
    """Write and wait until it is on the disk: a rename that outlives its files would leave a hollow directory."""
    with path.open("wb") as file:
        file.writelines(chunks)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; it takes its place when the block ends well, and is removed when not."""
    temporary = path.with_name(f".{path.name}.writing")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_arrays(path: Path, arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> None:
    """An NPZ file whose bytes follow from names and values alone: sorted, no times, C order, not compressed."""
    with path.open("wb") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, values in sorted(arrays.items()):
                array = np.asarray(values, order="C")
                entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
                with archive.open(entry, "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Wait until the directory's entries are on the disk, where the system can be asked for that."""
    # Windows and some network file systems cannot; a disk that fails has already failed on the files themselves.
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def lock(file: IO[Any], *, wait: bool = True) -> None:
    """Have a file alone among all that lock it, until it is closed. Windows has no such locks: nothing is locked there.

    Raises
    ------
    BlockingIOError
        If another has it, and there is to be no waiting.
    """
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def encoded(text: str) -> bytes:
    """UTF-8; half of a surrogate pair, which UTF-8 does not have, in the notation that JSON reads back."""
    return text.encode("utf-8", "backslashreplace")
