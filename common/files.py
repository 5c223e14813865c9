"""Files that are written whole or not at all, are on the disk when the call returns, and have deterministic bytes."""

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
    """Write a file and wait until it is on the disk, so that no crash after a rename can lose it.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "report.json"
    >>> with replacing(path) as temporary:
    ...     write_file(temporary, [b"{", b"}"])
    >>> path.read_bytes()
    b'{}'
    """
    with path.open("wb") as file:
        file.writelines(chunks)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to; it replaces `path` if the block succeeds, and is removed if it fails."""
    temporary = path.with_name(f".{path.name}.writing")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_arrays(path: Path, arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> None:
    """Write an NPZ file whose bytes depend on names and values alone: sorted, no times, C order, not compressed.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "arrays.npz"
    >>> write_arrays(path, {"b": np.ones(2), "a": np.zeros(1)})
    >>> np.load(path).files
    ['a', 'b']
    """
    with path.open("wb") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, values in sorted(arrays.items()):
                array = np.asarray(values, order="C")
                entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
                with archive.open(entry, "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())


def file_state(path: Path) -> list[int]:
    """Return numbers that differ after any change of a file; empty if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return []
    return [status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino]


def sync_directory(path: Path) -> None:
    """Wait until the directory's entries are on the disk, if the system supports that."""
    # Windows and some network file systems cannot; a disk that fails has already failed on the files themselves.
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def lock(file: IO[Any], *, wait: bool = True) -> None:
    """Lock a file for this process, until it is closed. Windows has no such locks: nothing is locked there.

    Raises
    ------
    BlockingIOError
        If another process has locked it and `wait` is false.
    """
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


@contextlib.contextmanager
def locked_directory(path: Path) -> Iterator[None]:
    """Lock a directory until the block ends or the process dies, whatever it is renamed to.

    Windows and some network file systems have no such locks: nothing is locked there.
    """
    if fcntl is None:
        yield
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether a directory is locked by `locked_directory`; False if it does not exist.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with locked_directory(folder):
    ...     is_locked(folder)
    True
    >>> is_locked(folder)
    False
    """
    if fcntl is None:
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def encode_text(text: str) -> bytes:
    """Return a text as UTF-8; a lone surrogate, which UTF-8 cannot hold, is escaped.

    Examples
    --------
    >>> encode_text("age"), encode_text(chr(0xD800)) == chr(92).encode() + b"ud800"
    (b'age', True)
    """
    return text.encode("utf-8", "backslashreplace")
