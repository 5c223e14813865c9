"""A registry of the sites by node, and the assignment of replies to sites."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping

from flwr.app import Error, Message, RecordDict
from flwr.common.constant import ErrorCode

from protocols.wire.faults import Fault, describe, usable_name
from protocols.wire.message import Answer, read_envelope
from protocols.wire.payload import PayloadError
from strategies.errors import FusionError

logger = logging.getLogger("flwr")


class NodeRegistry:
    """The sites of a run. Flower's node ids are random; the name in its answers identifies a site.

    Attributes
    ----------
    node_by_site : dict[str, int]
        Node id by site name; a restarted SuperNode gets a new id under the old name.
    node_by_message : dict[str, int]
        Node id by message id, for messages that still may be answered.
    sites : list of str
        Sites with usable answers, in the order of their first ones.
    closed : bool
        Whether the run has begun, and admits no further site.
    known_name : Callable
        Name of the site at a node before its first answer; empty if the grid does not know it.

    Examples
    --------
    >>> registry = NodeRegistry()
    >>> registry.node_by_site["north"] = 7
    >>> registry.label(7), registry.label(8)
    ('north', 'node 8')
    """

    def __init__(self) -> None:
        self.node_by_site: dict[str, int] = {}
        self.node_by_message: dict[str, int] = {}
        self.sites: list[str] = []
        self.closed = False
        self.known_name: Callable[[int], str] = lambda _node: ""

    def site_at(self, node: int) -> str:
        """Return the name of the site at a node; empty if unknown."""
        return next((site for site, known in self.node_by_site.items() if known == node), "")

    def label(self, node: int) -> str:
        """Return the name of a node in log and report."""
        return self.site_at(node) or self.known_name(node) or f"node {node}"

    def sort_replies(
        self, number: int, recipients: Mapping[int, str], replies: Iterable[Message], timeout: float
    ) -> tuple[dict[str, RecordDict], dict[str, str]]:
        """Sort replies by site, and find the reasons of the recipients without a usable reply.

        Parameters
        ----------
        number : int
            Number of the round; an answer to another round is late and ignored.
        recipients : Mapping[int, str]
            Names of the asked nodes at the time of the ask (empty: unknown).
        replies : Iterable of Message
            Replies in order of arrival.
        timeout : float
            Seconds of waiting, for the message about silent nodes.

        Returns
        -------
        contents, failures
            Replies by site, in order of name; reasons by site or label of the node.

        Raises
        ------
        FusionError
            If two nodes gave the same name.
        """
        contents: dict[str, RecordDict] = {}
        failures: dict[str, str] = {}
        answered: set[int] = set()
        speakers: set[str] = set()
        for reply in replies:
            node = reply.metadata.src_node_id
            if reply.has_error():  # for a node that is gone, the SuperLink answers in its own name
                node = self.node_by_message.get(reply.metadata.reply_to_message_id, node)
            if node not in recipients or node in answered:
                continue
            envelope, problem = _read(reply)
            if envelope is not None and envelope.round != number:
                logger.warning("an answer of round %d came late from %s: ignored", envelope.round, self.label(node))
                continue
            answered.add(node)
            if envelope is None:
                failures[self.label(node)] = problem
            elif recipients[node] not in ("", envelope.site):
                failures[recipients[node]] = f"calls itself {envelope.site} now"
            elif self._admit(envelope.site, node, speakers):
                contents[envelope.site] = reply.content
        for node in set(recipients) - answered:
            failures[self.label(node)] = f"no answer within {timeout:g} s"
        return dict(sorted(contents.items())), failures

    def _admit(self, site: str, node: int, speakers: set[str]) -> bool:
        """Register a node under its site's name; False if the site came too late to take part."""
        if site in speakers:
            raise FusionError(
                f"two sites call themselves {site!r}: give each SuperNode its own name (--node-config 'site=\"...\"')"
            )
        speakers.add(site)
        if self.closed and site not in self.node_by_site and site not in self.sites:
            logger.warning("site %s connected after the run had begun: it takes no part", site)
            return False
        self.node_by_site[site] = node
        return True


_ALTERING_MODS = (f"[{Fault.ALTERING_MOD.slug}]", "'fitins.parameters'", "'secaggplus_configs'")
_COUNTING_MOD = "Config values must be either `bool`"
"""Words of consilience's and of Flower's own exceptions in the reason of a node that failed because of a mod."""
_END_OF_PROCESS = re.compile(r"(signal|exit code) \d{1,3}")
"""Complete reason for a worker process of the local engine that has ended."""


def _failure(error: Error) -> str:
    """Describe a node's failure. Flower's reason may hold a client's exception text: it is searched, not shown."""
    reason = error.reason or ""
    if error.code == ErrorCode.MOD_FAILED_PRECONDITION or any(words in reason for words in _ALTERING_MODS):
        return describe(Fault.ALTERING_MOD)
    if _COUNTING_MOD in reason:
        return describe(Fault.UNCOUNTED_TEXT)
    if error.code == ErrorCode.INVALID_FAB:
        return "its SuperNode refuses the app of this run: no trusted entity has signed it (--trusted-entities)"
    if error.code == ErrorCode.CLIENT_APP_CRASHED and _END_OF_PROCESS.fullmatch(reason):
        return f"its process ended ({reason})"
    return f"its node failed (Flower error code {error.code})"


def _read(reply: Message) -> tuple[Answer | None, str]:
    """Read a reply's envelope; if the reply cannot be used, return None and the reason."""
    if reply.has_error():
        return None, _failure(reply.error)
    try:
        envelope = read_envelope(reply.content)
    except PayloadError as error:
        return None, str(error)
    if envelope.fault and not (envelope.site and envelope.round):
        return None, describe(envelope.fault)  # the site knew neither its name nor the round
    if not usable_name(envelope.site):
        return None, describe(Fault.BAD_SITE_NAME)
    return envelope, ""
