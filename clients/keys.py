"""Private keys of a site, which live in Flower's context and nowhere else: no file, no memory of the run.

A restarted SuperNode has lost them, and is given new ones in the course of the run (strategies/secure_aggregation.py).

Flower may start a process for every message at once, each with the context as it then was: two would go on from the
same secrets, and each believe that it says the only thing ever said under them. So whoever puts secrets in the place of
others takes their turn, an empty file that can be renamed once; for all others those secrets are lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any

from flwr.app import ConfigRecord, RecordDict

from clients.data.entities import configured_secret
from clients.data.table import DataError
from clients.run_state import record_of
from protocols.wire.faults import Fault, SiteFault

_RECORD = "secrets"
_KEPT = 30 * 24 * 3600.0
"""Seconds after which the turn of a run is deleted: that run is long over."""


def turns_in(directory: Path | None) -> Path:
    """Where a real site's turns lie: in its own directory, else in one for temporary files; both outlive a SuperNode.

    Parameters
    ----------
    directory : Path or None
        The site's own.
    """
    user = os.getuid() if hasattr(os, "getuid") else ""
    return Path(tempfile.gettempdir()) / f"consilience-{user}" if directory is None else directory / "turns"


class Secrets:
    """Kept for the run that Flower says it is, whatever session the fusion center calls it.

    Parameters
    ----------
    state : RecordDict
        ``Context.state`` of Flower.
    run_id : int
        Flower's number of the run; secrets of another are forgotten.
    turns : Path or None
        Folder of turns (`turns_in`); None: messages are answered one after the other, as in a simulation.
    """

    def __init__(self, state: RecordDict, run_id: int, turns: Path | None = None) -> None:
        self._state, self._run, self._turns = state, run_id, turns

    def _record(self) -> ConfigRecord:
        return record_of(self._state, _RECORD, self._run)

    def _kept(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(str(self._record().get(name, "{}")))
        return found

    def get(self, name: str) -> dict[str, Any]:
        """What was put under this name; nothing: empty."""
        found: dict[str, Any] = self._kept(name).get("values", {})
        return found

    def put(self, name: str, values: dict[str, Any], *, anew: bool = False) -> None:
        """Keep texts, numbers and lists of them under a name, in place of what was there.

        Parameters
        ----------
        anew : bool
            Whether they owe nothing to what was there.

        Raises
        ------
        SiteFault
            If another process has put others in their place already; with `anew` never.
        """
        turn = "" if self._turns is None else self._taken(self._turns, "" if anew else self._kept(name)["turn"])
        self._record()[name] = json.dumps({"turn": turn, "values": values}, separators=(",", ":"))

    def _taken(self, turns: Path, turn: str) -> str:
        """The turn after this one; after none, a first one."""
        after = f"{self._run}-{token_hex(16)}"
        try:
            if turn:
                (turns / turn).rename(turns / after)
            else:
                turns.mkdir(mode=0o700, parents=True, exist_ok=True)
                (turns / after).touch(mode=0o600, exist_ok=False)
                _prune(turns)
        except FileNotFoundError as error:
            raise SiteFault(Fault.NO_MASK_KEYS, "another process has gone on from the same secrets") from error
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


def _prune(turns: Path) -> None:
    with contextlib.suppress(OSError):  # another process may delete the same
        for entry in os.scandir(turns):
            if entry.stat().st_mtime < time.time() - _KEPT:
                os.unlink(entry)
