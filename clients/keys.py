"""A site's keys: private keys of a run, which live in Flower's context only, and secrets that outlive it.

Private keys are in no file and not in the run's memory. A restarted SuperNode has lost them, and makes new ones during
the run (strategies/secure_aggregation.py).

Flower may start several processes at once, each with the same state of the context. Two processes must not both
continue from the same private keys. So a process that replaces keys first renames an empty file, the turn. Only one
process can do that; for the others these keys are lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import Any

from flwr.app import ConfigRecord, RecordDict

from clients.commitments import record_of
from clients.data.entities import configured_secret
from clients.data.table import DataError
from protocols.wire.faults import Fault, SiteFault

_RECORD = "keys"
_TURN_LIFETIME = 30 * 24 * 3600.0
"""Seconds after which the turn of a run is deleted; such a run has ended."""


def turns_in(directory: Path | None) -> Path:
    """Return the folder of a real site's turns, which outlives a SuperNode: its own directory, else a temporary one.

    Parameters
    ----------
    directory : Path or None
        The site's own.
    """
    user = os.getuid() if hasattr(os, "getuid") else ""
    return Path(tempfile.gettempdir()) / f"consilience-{user}" if directory is None else directory / "turns"


class PrivateKeys:
    """Private keys of one run of Flower.

    Parameters
    ----------
    state : RecordDict
        ``Context.state`` of Flower.
    run_id : int
        Flower's number of the run; keys of another run are forgotten.
    turns : Path or None
        Folder of turns (`turns_in`); None: messages are answered one at a time, as in a simulation.

    Examples
    --------
    >>> keys = PrivateKeys(RecordDict(), 1)
    >>> keys.put("sum", {"seed": "0a1b"})
    >>> keys.get("sum"), keys.get("another")
    ({'seed': '0a1b'}, {})
    """

    def __init__(self, state: RecordDict, run_id: int, turns: Path | None = None) -> None:
        self._state, self._run, self._turns = state, run_id, turns

    def _record(self) -> ConfigRecord:
        return record_of(self._state, _RECORD, self._run)

    def _entry(self, name: str) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(str(self._record().get(name, "{}")))
        return record

    def get(self, name: str) -> dict[str, Any]:
        """Return the values under this name; empty if there are none."""
        values: dict[str, Any] = self._entry(name).get("values", {})
        return values

    def put(self, name: str, values: dict[str, Any], *, anew: bool = False) -> None:
        """Keep texts, numbers and lists of them under a name, in place of the former values.

        Parameters
        ----------
        name : str
            Name of the values.
        values : dict
            The values by name.
        anew : bool
            Whether the values do not depend on the former ones.

        Raises
        ------
        SiteFault
            If another process has replaced the former values already; never with `anew`.
        """
        turn = "" if self._turns is None else self._take_turn(self._turns, "" if anew else self._entry(name)["turn"])
        self._record()[name] = json.dumps({"turn": turn, "values": values}, separators=(",", ":"))

    def _take_turn(self, turns: Path, turn: str) -> str:
        """Replace a turn, or make a first one, and return its name."""
        after = f"{self._run}-{token_hex(16)}"
        try:
            if turn:
                (turns / turn).rename(turns / after)
            else:
                turns.mkdir(mode=0o700, parents=True, exist_ok=True)
                _refuse_foreign(turns)
                (turns / after).touch(mode=0o600, exist_ok=False)
                _prune(turns)
        except FileNotFoundError as error:
            raise SiteFault(Fault.NO_MASK_KEYS, "another process has gone on from the same keys") from error
        except OSError as error:
            raise SiteFault(Fault.OUTPUT_NOT_WRITTEN, f"{turns} cannot be written to: {error}") from error
        return after


def shared_secret(config: Mapping[str, object]) -> bytes:
    """Return the secret that the site shares with others (``align-key-file``); nothing without one.

    Raises
    ------
    SiteFault
        ``BAD_CONFIGURATION``; the detail stays in the site's own log.
    """
    try:
        return configured_secret(config)
    except DataError as error:
        raise SiteFault(Fault.BAD_CONFIGURATION, str(error)) from error


def own_secret(directory: Path) -> bytes:
    """Return the site's 32 secret random bytes, which are made at first use and serve all runs.

    Parameters
    ----------
    directory : Path
        The site's own. The file is ``secret``, which only the owner may read.

    Raises
    ------
    SiteFault
        ``OUTPUT_NOT_WRITTEN`` if the file cannot be read or made.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first, again = own_secret(Path(folder)), own_secret(Path(folder))
    >>> len(first), first == again
    (32, True)
    """
    path = directory / "secret"
    try:
        if not path.exists():
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=directory)
            with os.fdopen(handle, "wb") as file:
                file.write(token_bytes(32))
            # A link is made whole or not at all, and never in place of another process's.
            with contextlib.suppress(FileExistsError):
                os.link(temporary, path)
            os.unlink(temporary)
        return path.read_bytes()
    except OSError as error:
        raise SiteFault(Fault.OUTPUT_NOT_WRITTEN, f"{path} cannot be read or made: {error}") from error


def _refuse_foreign(turns: Path) -> None:
    """Refuse a folder that another user has made in the temporary directory: whoever owns it can give a turn twice."""
    if hasattr(os, "getuid") and turns.parent == Path(tempfile.gettempdir()) and turns.stat().st_uid != os.getuid():
        raise PermissionError(f"{turns} belongs to another user")


def _prune(turns: Path) -> None:
    with contextlib.suppress(OSError):  # another process may delete the same
        for entry in os.scandir(turns):
            if entry.stat().st_mtime < time.time() - _TURN_LIFETIME:
                os.unlink(entry)
