"""Records in Flower's context that belong to one run; another run may get the same context."""

from __future__ import annotations

from flwr.app import ConfigRecord, RecordDict

_RUN = "run"


def record_of(state: RecordDict, name: str, run_id: int) -> ConfigRecord:
    """Return the record of this name and run; if there is none, put a new one in its place.

    Parameters
    ----------
    state : RecordDict
        ``Context.state`` of Flower.
    name : str
        Name of the record.
    run_id : int
        Flower's number of the run.

    Examples
    --------
    >>> state = RecordDict()
    >>> record_of(state, "counters", 7)["asks"] = 3
    >>> record_of(state, "counters", 7)["asks"], "asks" in record_of(state, "counters", 8)
    (3, False)
    """
    earlier = state.get(name)
    if isinstance(earlier, ConfigRecord) and earlier.get(_RUN) == run_id:
        return earlier
    record = ConfigRecord({_RUN: run_id})
    state[name] = record
    return record
