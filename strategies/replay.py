"""The asks that each site has answered, so that a site which has lost its memory can go through them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flwr.app import Message

from protocols.wire.faults import Fault, usable_name
from protocols.wire.message import Parcel, Past, read_envelope
from protocols.wire.payload import PayloadError

MOST_BYTES = 256 * 10**6
"""Bytes of asks beyond which a run keeps no log: it stays in memory as long as the run lasts."""


class ReplayLog:
    """By site, the asks whose answers the run has used.

    What a site remembers follows from its data and from what it was asked. An ask whose answer was not used is left
    out: as far as the run is concerned, the site has not gone through it.
    """

    def __init__(self) -> None:
        self._asks: dict[str, list[Past]] = {}
        self._bytes = 0

    def add(self, number: int, asks: Mapping[str, Sequence[Parcel]], size: int) -> None:
        """Add a round.

        Parameters
        ----------
        number : int
            Of the round.
        asks : Mapping[str, Sequence[Parcel]]
            Asks of the sites whose answers were used.
        size : int
            Bytes of all asks of the round; those that several sites were sent count once.
        """
        self._bytes += size
        if self._bytes > MOST_BYTES:
            self._asks.clear()
            return
        for site, parcels in asks.items():
            self._asks.setdefault(site, []).append((number, parcels))

    def of(self, site: str) -> Sequence[Past]:
        """Return the earlier asks of a site; none if it never answered, or the log has become too large."""
        return tuple(self._asks.get(site, ()))


def forgetful_site(reply: Message, number: int) -> str:
    """Return the name of the site whose reply to this round says that it has lost its memory; else an empty name."""
    if reply.has_error():
        return ""
    try:
        envelope = read_envelope(reply.content)
    except PayloadError:
        return ""
    lost = envelope.fault == Fault.STALE_MEMORY and envelope.round == number and usable_name(envelope.site)
    return envelope.site if lost else ""
