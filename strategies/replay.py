"""What every site was asked before: one that loses its memory is told, and comes by it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flwr.app import Message

from protocols.wire.faults import Fault, usable_name
from protocols.wire.message import Parcel, Past, read_envelope
from protocols.wire.payload import PayloadError

MOST_BYTES = 256 * 10**6
"""A run that has asked more than this keeps no histories: they stay in memory as long as it lasts."""


class Histories:
    """By site, the asks whose answers the run has used.

    What a site remembers follows from its data and from what it was asked. An ask whose answer was not used is left
    out: as far as the run is concerned, the site has not gone through it.
    """

    def __init__(self) -> None:
        self._asked: dict[str, list[Past]] = {}
        self._bytes = 0

    def add(self, number: int, asked: Mapping[str, Sequence[Parcel]], size: int) -> None:
        """Note a round.

        Parameters
        ----------
        number : int
            Of the round.
        asked : Mapping[str, Sequence[Parcel]]
            By site whose answer was used, what it was asked.
        size : int
            Bytes of all asks of the round; those that several sites were sent count once.
        """
        self._bytes += size
        if self._bytes > MOST_BYTES:
            self._asked.clear()
            return
        for site, parcels in asked.items():
            self._asked.setdefault(site, []).append((number, parcels))

    def of(self, site: str) -> Sequence[Past]:
        """What a site has gone through; nothing for one that never answered, or after too many bytes."""
        return tuple(self._asked.get(site, ()))


def forgetful_site(reply: Message, number: int) -> str:
    """Name of the site that says in this reply to the round's ask that it has lost its memory; empty: it does not."""
    if reply.has_error():
        return ""
    try:
        envelope = read_envelope(reply.content)
    except PayloadError:
        return ""
    lost = envelope.fault == Fault.STALE_MEMORY and envelope.round == number and usable_name(envelope.site)
    return envelope.site if lost else ""
