"""Private keys of a site, which live in Flower's context and nowhere else: no file, no memory of the run.

A restarted SuperNode has lost them, and is given new ones in the course of the run (strategies/masks.py).
"""

from __future__ import annotations

import json
from typing import Any

from flwr.app import ConfigRecord, RecordDict

_RECORD, _RUN = "secrets", "run"


class Secrets:
    """Kept for the run that Flower says it is, whatever session the fusion center calls it.

    Parameters
    ----------
    state : RecordDict
        ``Context.state`` of Flower.
    run_id : int
        Flower's number of the run; secrets of another are forgotten.
    """

    def __init__(self, state: RecordDict, run_id: int) -> None:
        self._state, self._run = state, run_id

    def _record(self) -> ConfigRecord:
        kept = self._state.get(_RECORD)
        if isinstance(kept, ConfigRecord) and kept.get(_RUN) == self._run:
            return kept
        record = ConfigRecord({_RUN: self._run})
        self._state[_RECORD] = record
        return record

    def get(self, name: str) -> dict[str, Any]:
        """What was put under this name; nothing: empty."""
        found: dict[str, Any] = json.loads(str(self._record().get(name, "{}")))
        return found

    def put(self, name: str, values: dict[str, Any]) -> None:
        """Keep texts, numbers and lists of them under a name, in place of what was there."""
        self._record()[name] = json.dumps(values, separators=(",", ":"))
