"""Whose rounds a checkpoint holds: the run's configuration and version, and the name of the sites' memory of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.files import replacing, write_file

_RUN = "run.json"


class CheckpointError(ValueError):
    """A checkpoint that does not belong to this run, or cannot be read."""


def note_run(folder: Path, identity: Mapping[str, Any], session: str) -> None:
    """Write down whose rounds the folder is going to hold."""
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / _RUN) as temporary:
        write_file(temporary, [json.dumps({"session": session, "identity": identity}, indent=1).encode()])


def check_identity(folder: Path, identity: Mapping[str, Any]) -> str | None:
    """Return the name under which the sites keep the memory of the run in this folder; None: it holds none.

    Raises
    ------
    CheckpointError
        If the run in the folder has another identity.
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
