"""Repetition of asks: to a site that has lost its memory, and in a resumed run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from flwr.app import Array, Message, RecordDict

from protocols.wire.faults import Fault, usable_name
from protocols.wire.message import Parcel, Past, read_envelope
from protocols.wire.packing import unpack_records
from protocols.wire.payload import PayloadError, decode_array

MOST_BYTES = 256 * 10**6
"""Most bytes of asks in the log, which is in memory during the run. A larger log is discarded."""
ROUNDING = 1e-9
"""Largest relative difference of equal numbers from two processors. Answers to them differ as little."""


class ReplayLog:
    """By site, the asks whose answers the run has used.

    They and the site's data determine its memory. An ask without a used answer is left out, as if the site had never
    received it.

    Examples
    --------
    >>> log = ReplayLog()
    >>> log.add(1, {"north": []}, size=120)
    >>> log.of("north"), log.of("south")
    (((1, []),), ())
    """

    def __init__(self) -> None:
        self._asks: dict[str, list[Past]] = {}
        self._bytes = 0

    def add(self, number: int, asks: Mapping[str, Sequence[Parcel]], size: int) -> None:
        """Add a round.

        Parameters
        ----------
        number : int
            Number of the round.
        asks : Mapping[str, Sequence[Parcel]]
            Asks by site, of the sites with used answers.
        size : int
            Bytes of all asks of the round; an ask to several sites counts once.
        """
        self._bytes += size
        if self._bytes > MOST_BYTES:
            self._asks.clear()
            return
        for site, parcels in asks.items():
            self._asks.setdefault(site, []).append((number, parcels))

    def of(self, site: str) -> Sequence[Past]:
        """Return the earlier asks of a site; empty if it never answered, or the log has become too large."""
        return tuple(self._asks.get(site, ()))


def forgetful_site(reply: Message, number: int) -> str:
    """Return the site whose reply to this round reports a lost memory; an empty name for other replies."""
    if reply.has_error():
        return ""
    try:
        envelope = read_envelope(reply.content)
    except PayloadError:
        return ""
    lost = envelope.fault == Fault.STALE_MEMORY and envelope.round == number and usable_name(envelope.site)
    return envelope.site if lost else ""


def same_ask(saved: RecordDict, content: RecordDict) -> bool:
    """Return whether an ask equals the saved one, up to the rounding of another processor.

    Floating-point numbers may differ by `ROUNDING` times the largest number of their array, also within packed bytes.
    Everything else must be equal, such as lists of instances, assignments and keys.
    """
    return saved.keys() == content.keys() and all(_same(saved[name], content[name]) for name in saved)


def _same(saved: Any, now: Any) -> bool:
    if type(saved) is not type(now):
        return False
    if isinstance(saved, Array):
        return _same_array(saved, now)
    if isinstance(saved, float):
        return bool(abs(saved - now) <= ROUNDING * abs(saved))
    if isinstance(saved, Mapping):
        return saved.keys() == now.keys() and all(_same(saved[key], now[key]) for key in saved)
    return bool(saved == now)


def _same_array(saved: Array, now: Array) -> bool:
    if (saved.dtype, saved.shape) != (now.dtype, now.shape):
        return _same_packed(saved, now)
    if saved.data == now.data:
        return True
    one, other = decode_array(saved), decode_array(now)
    if one.dtype.kind != "f":
        return _same_packed(saved, now)
    rounding = max(ROUNDING, 4 * float(np.finfo(one.dtype).eps))
    return bool(np.abs(one - other).max() <= rounding * np.abs(one).max())


def _same_packed(saved: Array, now: Array) -> bool:
    """Return whether both are bytes of the same packed payload."""
    if not saved.dtype == now.dtype == "uint8":
        return False
    try:
        return all(map(_same, unpack_records(saved.data), unpack_records(now.data)))
    except PayloadError:
        return False
