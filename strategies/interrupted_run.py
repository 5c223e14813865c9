"""Identity of the run in a checkpoint: its configuration, its version, and the name of the sites' memory."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from common.files import replacing, write_file

_RUN = "run.json"


class CheckpointError(ValueError):
    """Error: a checkpoint does not belong to this run, or cannot be read or written."""


@contextlib.contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turn errors of a full or broken disk into a `CheckpointError`."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"nothing can be written to {folder} ({error.strerror or error}); repair that, then start the run again, "
            "with resume-from if the log says so"
        ) from error


def note_run(folder: Path, identity: Mapping[str, Any], session: str) -> None:
    """Write the identity of the folder's run; a `CheckpointError` if that fails."""
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / _RUN) as temporary:
            write_file(temporary, [json.dumps({"session": session, "identity": identity}, indent=1).encode()])


def check_identity(folder: Path, identity: Mapping[str, Any]) -> str | None:
    """Return the session of the run in this folder, which names the sites' memory; None if there is no run.

    Raises
    ------
    CheckpointError
        If the run in the folder has another identity.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> note_run(folder, {"seed": 0}, "5")
    >>> check_identity(folder, {"seed": 0})
    '5'
    >>> check_identity(folder, {"seed": 1})
    Traceback (most recent call last):
    strategies.interrupted_run.CheckpointError: the interrupted run was another one: seed was 0, is 1
    """
    run = folder / _RUN
    if not run.exists():
        return None
    try:
        saved = json.loads(run.read_text())
        before, session = dict(saved["identity"]), str(saved["session"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{run} cannot be read ({error}); start the run anew") from error
    differences = sorted(key for key in before.keys() | identity.keys() if before.get(key) != identity.get(key))
    if differences:
        changes = "; ".join(f"{key} was {before.get(key)!r}, is {identity.get(key)!r}" for key in differences)
        raise CheckpointError(f"the interrupted run was another one: {changes}")
    return session
