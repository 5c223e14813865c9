"""What a fusion center has said once in a run and may not say otherwise.

Sums over one set of rows say little of a row; the same sums over many sets of them may say all. A site that answers
such sums holds the center to what it first asked for, in every round, lane and repetition of one run. The memory of a
run cannot do that: it is by lane, and starts anew where a round is asked again (clients/memory.py).
"""

from __future__ import annotations

from flwr.app import ConfigRecord, RecordDict

_RECORD, _RUN = "pledges", "run"


class Pledges:
    """Kept in Flower's context, for the run that Flower says it is, whatever session the center calls it.

    Parameters
    ----------
    state : RecordDict
        ``Context.state`` of Flower.
    run_id : int
        Flower's number of the run; pledges of another are forgotten.
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

    def keeps(self, name: str, digest: str) -> bool:
        """Whether this is what the center said under this name before; what it says first counts from then on."""
        record = self._record()
        if name not in record:
            record[name] = digest
        return record[name] == digest

    def count(self, name: str, more: int) -> int:
        """How many there have been in this run, with these."""
        record = self._record()
        so_far = record.get(name, 0)
        assert isinstance(so_far, int)
        record[name] = so_far + more
        return so_far + more
