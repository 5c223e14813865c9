"""Small disks that fill up or cannot be written to: real ones, which only root can make."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


def needs_root() -> None:
    """Skip the test where nobody may mount a disk."""
    if not hasattr(os, "getuid") or os.getuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a disk")


@contextlib.contextmanager
def disk(path: Path, kilobytes: int) -> Iterator[Path]:
    """A disk of this size at a new folder."""
    needs_root()
    path.mkdir(parents=True)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(path)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip(f"nothing can be mounted here: {made.stderr.decode().strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def remount(path: Path, options: str) -> None:
    """Change a disk: ``size=...``, ``ro``, ``rw``."""
    subprocess.run(["mount", "-o", f"remount,{options}", str(path)], check=True)


def fill(path: Path) -> Path:
    """Fill a disk to the last byte with one file, which is returned."""
    filler = path / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return filler
