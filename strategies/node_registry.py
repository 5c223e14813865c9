"""Which node is which site: names as the nodes gave them, and whose reply is whose."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from flwr.app import Message, RecordDict

from protocols.wire.faults import Fault, describe, usable_name
from protocols.wire.message import Answer, read_envelope
from protocols.wire.payload import PayloadError

logger = logging.getLogger("flwr")


class FusionError(RuntimeError):
    """A run that cannot go on; one line that says why, and names the sites."""


class Roster:
    """The sites of a run. Flower's node ids are random; a site is known by the name that its answers carry.

    Attributes
    ----------
    nodes : dict[str, int]
        Node id by site name; a restarted SuperNode gets a new id under the old name.
    sites : list of str
        Sites that gave an answer the run could use, in the order of their first.
    closed : bool
        Whether the run has begun: a site with another name then comes too late.
    sent_to : dict[str, int]
        Node id by message id, of the messages that replies may answer.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, int] = {}
        self.sent_to: dict[str, int] = {}
        self.sites: list[str] = []
        self.closed = False

    def name_of(self, node: int) -> str:
        """The site at a node; empty while it is not known."""
        return next((name for name, known in self.nodes.items() if known == node), "")

    def label(self, node: int) -> str:
        """What log and report call a node."""
        return self.name_of(node) or f"node {node}"

    def sort(
        self, number: int, asked: Mapping[int, str], replies: Iterable[Message], timeout: float
    ) -> tuple[dict[str, RecordDict], dict[str, str]]:
        """Replies by site name, and why the other nodes that were asked gave none.

        Parameters
        ----------
        number : int
            Of the round; an answer of another round is late, and ignored.
        asked : Mapping[int, str]
            Nodes that were asked, with the names they had then (empty: none yet).
        replies : Iterable of Message
            As they came.
        timeout : float
            Seconds that were waited, for the reason of those who are silent.

        Raises
        ------
        FusionError
            If two nodes gave one name.
        """
        contents: dict[str, RecordDict] = {}
        failures: dict[str, str] = {}
        answered: set[int] = set()
        speakers: set[str] = set()
        for reply in replies:
            node = reply.metadata.src_node_id
            if reply.has_error():  # for a node that is gone, the SuperLink answers in its own name
                node = self.sent_to.get(reply.metadata.reply_to_message_id, node)
            if node not in asked or node in answered:
                continue
            envelope, problem = _read(reply)
            if envelope is not None and envelope.round != number:
                logger.warning("an answer of round %d came late from %s: ignored", envelope.round, self.label(node))
                continue
            answered.add(node)
            if envelope is None:
                failures[self.label(node)] = problem
            elif asked[node] not in ("", envelope.site):
                failures[asked[node]] = f"calls itself {envelope.site} now"
            elif self._take_in(envelope.site, node, speakers):
                contents[envelope.site] = reply.content
        for node in set(asked) - answered:
            failures[self.label(node)] = f"no answer within {timeout:g} s"
        return dict(sorted(contents.items())), failures

    def _take_in(self, site: str, node: int, speakers: set[str]) -> bool:
        """Note the name that a node gave; False for a site that came too late to take part."""
        if site in speakers:
            raise FusionError(
                f"two sites call themselves {site!r}: give each SuperNode its own name (--node-config 'site=\"...\"')"
            )
        speakers.add(site)
        if self.closed and site not in self.nodes and site not in self.sites:
            logger.warning("site %s connected after the run had begun: not taken in", site)
            return False
        self.nodes[site] = node
        return True


def _read(reply: Message) -> tuple[Answer | None, str]:
    """The envelope of a reply; None, and what is wrong with it, when it says nothing that could be used."""
    if reply.has_error():
        # The reason that Flower sends along may be a client's exception text: it is not shown.
        return None, f"its node failed (Flower error code {reply.error.code})"
    try:
        envelope = read_envelope(reply.content)
    except PayloadError as error:
        return None, str(error)
    if envelope.fault and not (envelope.site and envelope.round):
        return None, describe(envelope.fault)  # it could not say who it is, or to what it answers
    if not usable_name(envelope.site):
        return None, describe(Fault.BAD_SITE_NAME)
    return envelope, ""
