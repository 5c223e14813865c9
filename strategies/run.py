"""One run of a conversation over Flower's messages: its rounds, its sites and its record."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from common.grouping import group_messages
from protocols.wire.faults import describe, usable_name
from protocols.wire.message import Ask, Parcel, encoded_bytes, read_answer, write_ask
from protocols.wire.payload import PayloadError
from strategies.checkpoint import Checkpoint, SavedRound
from strategies.conversation import (
    Broadcast,
    Conversation,
    Request,
    Tell,
    addressed,
    flatten,
    gather,
    parcels_for,
    sort_answers,
)
from strategies.errors import FusionError
from strategies.exchange import Stopwatch, exchange
from strategies.node_registry import NodeRegistry
from strategies.recorder import EncodedAsk, RunRecorder
from strategies.replay import ReplayLog, forgetful_site, same_ask
from strategies.result import FusionResult

logger = logging.getLogger("flwr")

MEGABYTE = 10**6

Recipient = TypeVar("Recipient", int, str)


class ConversationRun:
    """A running conversation: each round sends its request to the sites and returns their answers to it.

    A round calls `messages`, `exchange`, `remind` and `receive`, in this order; `request` is None after the end of the
    conversation. `replay` comes first: it repeats the rounds of a checkpoint without messages.

    Parameters
    ----------
    conversation : Conversation
        Returns a mapping of outcomes.
    session : str
        Name under which the sites keep their memory of this run.
    seed : int
        Seed, which every ask carries to the sites.
    min_sites : int
        Fewest sites: the run stops if fewer have answered their last ask.
    max_payload : int
        Most bytes of an answer; 0: no limit.
    checkpoint : Checkpoint or None
        Store of the answers.
    message_type : str
        Flower's type of all messages.
    shows_first_lane : bool
        Whether the progress line stays with the first conversation after its end; False: it shows the first running
        one.

    Attributes
    ----------
    result : FusionResult
        Result so far; complete after the end of the conversation.
    registry : NodeRegistry
        The sites.
    request : Request or None
        Current request of the conversation; None: it has ended.
    """

    def __init__(
        self,
        conversation: Conversation[Mapping[str, Any]],
        *,
        session: str,
        seed: int,
        min_sites: int,
        max_payload: int = 0,
        checkpoint: Checkpoint | None = None,
        message_type: str = "train",
        shows_first_lane: bool = True,
    ) -> None:
        self.session, self.seed, self.min_sites, self.max_payload = session, seed, min_sites, max_payload
        self.checkpoint, self.message_type, self.shows_first_lane = checkpoint, message_type, shows_first_lane
        self.result = FusionResult()
        self.registry = NodeRegistry()
        self.request: Request | None = None
        self._conversation = conversation
        self._flat: dict[str, Broadcast | Tell] = {}
        self._measure: Mapping[str, float] = {}
        self._recorder = RunRecorder(self.result)
        self._replay_log = ReplayLog()
        self._silent: set[str] = set()
        self._greeted: set[int] = set()
        # The current round: its nodes with their names at its begin, their asks, and the reminded sites.
        self._recipients: dict[int, str] = {}
        self._asks: dict[int, EncodedAsk] = {}
        self._reminded: set[str] = set()
        self._stopwatch = Stopwatch()
        self._timeout = 0.0
        self._advance(None)

    # -- a round ------------------------------------------------------------------------------------------------------

    def messages(self, number: int, grid: Grid) -> list[Message]:
        """Turn the request of the conversation into messages to the connected nodes."""
        self._stopwatch = Stopwatch()
        self.registry.known_name = getattr(grid, "site_name", self.registry.known_name)
        site_by_node = {node: site for site, node in self.registry.node_by_site.items()}
        nodes = {node: site_by_node.get(node, "") for node in sorted(set(grid.get_node_ids()))}
        parcels = {node: parcels_for(self._flat, site or None) for node, site in nodes.items()}
        self._asks = self._encode_all(number, {node: listed for node, listed in parcels.items() if listed})
        self._recipients = {node: nodes[node] for node in self._asks}
        return [
            Message(content, node, self.message_type, group_id=str(number)) for node, (content, _) in self._asks.items()
        ]

    def exchange(self, grid: Grid, messages: Sequence[Message], timeout: float) -> list[Message]:
        """Push messages and pull their replies for `timeout` seconds at most."""
        self._timeout = timeout
        return exchange(grid, messages, self.registry, timeout)

    def remind(self, grid: Grid, number: int, replies: list[Message], timeout: float) -> list[Message]:
        """Repeat the ask to sites that have lost their memory, together with all earlier asks.

        Their answers replace their first replies.
        """
        again: dict[int, Message] = {}
        encoded: dict[tuple[Any, ...], RecordDict] = {}
        connected = set(grid.get_node_ids())
        self._reminded.clear()
        for reply in replies:
            site, node = forgetful_site(reply, number), reply.metadata.src_node_id
            history = self._replay_log.of(site)
            if node not in self._asks or node in again or self._recipients[node] not in ("", site) or not history:
                continue
            if self.registry.node_by_site.get(site, node) in connected - {node}:
                continue  # another node has this name, and the earlier asks are for that one
            parcels = self._asks[node][1]
            # Sites with the same asks in all rounds get the same records.
            equal = (id(parcels), *((earlier, id(past)) for earlier, past in history))
            content = encoded.get(equal) or write_ask(Ask(self.session, number, self.seed, parcels, history))
            encoded[equal] = content
            everything = [parcel for _, earlier in history for parcel in earlier] + parcels
            self._recorder.record_reply(number, site, reply.content, ())
            self._recorder.record_asks(number, {site: (content, everything)})
            self._reminded.add(site)
            logger.warning("round %d: %s has lost its memory: all asks are repeated", number, site)
            again[node] = Message(content, node, self.message_type, group_id=str(number))
        if not again:
            return replies
        others = [reply for reply in replies if reply.metadata.src_node_id not in again]
        return others + self.exchange(grid, list(again.values()), timeout)

    def receive(self, number: int, replies: Iterable[Message]) -> None:
        """Decode the replies to `messages`, resume the conversation, and save the round."""
        contents, failures = self.registry.sort_replies(number, self._recipients, replies, self._timeout)
        failures |= self._refuse_huge(number, contents)
        node_by_site = sorted(self.registry.node_by_site.items())
        asks = {site: self._asks[node] for site, node in node_by_site if node in self._asks}
        for node, site in self._recipients.items():
            if not site and not self.registry.site_at(node):
                asks[self.registry.label(node)] = self._asks[node]
        broadcast = any(isinstance(request, Broadcast) for request in self._flat.values())
        for site in (addressed(self._flat) | set(self.registry.sites if broadcast else ())) - set(asks):
            failures[site] = "its node is not connected"
        saved = SavedRound(number, {site: content for site, (content, _) in asks.items()}, contents, failures)
        for site in self._take(saved, asks) & self._reminded:
            self.result.rebuilt.setdefault(site, []).append(number)
        if self.checkpoint:
            self.checkpoint.save(saved)

    # -- before the first round, and between rounds -------------------------------------------------------------------

    def replay(self) -> int:
        """Replay the saved rounds of an interrupted run, and return their number.

        The replay stops at a round whose asks differ from the saved ones, and deletes this and all later rounds:
        another processor rounds differently, and a decision may depend on the last digit. The sites are asked again.
        """
        number = 0
        for saved in self.checkpoint.rounds() if self.checkpoint else ():
            if self.request is None:
                break
            self._stopwatch = Stopwatch()
            by_name = {site: parcels_for(self._flat, site if usable_name(site) else None) for site in saved.asks}
            asks = self._encode_all(saved.number, by_name)
            if not all(same_ask(saved.asks[site], content) for site, (content, _) in asks.items()):
                logger.warning(
                    "round %d: the asks are not those of the interrupted run, whose processor or libraries rounded"
                    " differently: the sites are asked again from this round on",
                    saved.number,
                )
                assert self.checkpoint is not None  # noqa: S101 - it had a saved round
                self.checkpoint.discard(saved.number)
                break
            number = saved.number
            self._take(saved, asks)
        if number:
            logger.info("resumed after round %d", number)
        return number

    def greet_if_needed(self, grid: Grid, timeout: float) -> None:
        """Ask new nodes for their names if a request addresses a site without a node (after a resume or restart)."""
        nodes = set(grid.get_node_ids())
        strangers = nodes - set(self.registry.node_by_site.values()) - self._greeted
        present = {site for site, node in self.registry.node_by_site.items() if node in nodes}
        if not strangers or addressed(self._flat) <= present:
            return
        self._greeted |= strangers
        self._recipients = dict.fromkeys(sorted(nodes), "")
        ask = self._encode(0, [])
        self._asks = dict.fromkeys(self._recipients, ask)
        messages = [Message(ask[0], node, self.message_type, group_id="0") for node in self._recipients]
        replies = self.exchange(grid, messages, timeout)
        contents, failures = self.registry.sort_replies(0, self._recipients, replies, timeout)
        self._recorder.record_asks(0, {self.registry.label(node): ask for node in self._recipients})
        for site, answer in contents.items():
            self._recorder.record_reply(0, site, answer, ())
        self._note_sites(0, failures, contents)

    # -- a round's answers --------------------------------------------------------------------------------------------

    def _take(self, saved: SavedRound, asks: Mapping[str, EncodedAsk]) -> set[str]:
        """Check and record a round's answers, and resume the conversation; return the sites with used answers."""
        failures = dict(saved.failures)
        parcels: dict[str, list[Parcel]] = {}
        size = self._recorder.record_asks(saved.number, asks)
        for site, content in saved.contents.items():
            try:
                answer = read_answer(content, asks[site][1])
                self._check(site, list(answer.parcels))
            except PayloadError as error:
                failures[site] = f"refused: {error}"
                self._recorder.record_refusal(saved.number, site, content)
                continue
            self._recorder.record_reply(saved.number, site, content, answer.parcels)
            if answer.fault:
                failures[site] = describe(answer.fault)
            else:
                parcels[site] = list(answer.parcels)
        self._replay_log.add(saved.number, {site: asks[site][1] for site in parcels}, size)
        self._note_sites(saved.number, failures, parcels)
        self.result.rounds = saved.number
        self.registry.closed = True
        self._refuse_too_few(saved.number, failures, parcels)
        assert self.request is not None  # noqa: S101 - the caller has looked
        try:
            measure = self._advance(gather(self.request, sort_answers(self._flat, parcels)))
        except FusionError as error:
            unnamed = "; ".join(
                group_messages((site, failures[site]) for site in sorted(failures) if failures[site] not in str(error))
            )
            raise FusionError(f"{error} ({unnamed})" if unnamed else str(error)) from None
        self._recorder.record_round(saved.number, len(parcels), len(asks), measure, self._stopwatch.seconds)
        return set(parcels)

    def _check(self, site: str, parcels: list[Parcel]) -> None:
        """Apply the checks of the conversation's requests to a site's answers."""
        for lane, request in self._flat.items():
            payloads = tuple(parcel.payload for parcel in parcels if parcel.lane == lane)
            if payloads:
                asks = request.ask if isinstance(request, Broadcast) else request.asks[site]
                request.check(site, payloads if isinstance(asks, tuple) else payloads[0])

    def _refuse_huge(self, number: int, contents: dict[str, RecordDict]) -> dict[str, str]:
        """Remove answers that are too large, without decoding or saving them; return the reasons by site."""
        sizes = {site: encoded_bytes(content) for site, content in contents.items()} if self.max_payload else {}
        huge = {site: size for site, size in sizes.items() if size > self.max_payload}
        for site in huge:
            self._recorder.record_refusal(number, site, contents.pop(site))
        return {
            site: f"refused: its answer has {size / MEGABYTE:.1f} MB, max-payload-mb is {self.max_payload / MEGABYTE:g}"
            for site, size in huge.items()
        }

    def _note_sites(self, number: int, failures: Mapping[str, str], answers: Iterable[str]) -> None:
        """Record the failed sites, and those that answer for the first time."""
        self._recorder.record_failures(number, failures)
        self.registry.sites += [site for site in answers if site not in self.registry.sites]

    @property
    def lost(self) -> list[str]:
        """Names of the sites that did not answer their last ask, in order."""
        return sorted(self._silent)

    def _refuse_too_few(self, number: int, failures: Mapping[str, str], answers: Iterable[str]) -> None:
        """End the run if fewer than `min_sites` sites are left and the conversation needs them."""
        self._silent = (self._silent | set(failures)) - set(answers)
        left = set(self.registry.sites) - self._silent  # a site that this round did not ask is as it was
        needed = any(isinstance(request, Broadcast) or request.needed for request in self._flat.values())
        if needed and len(left) < self.min_sites:
            reasons = "; ".join(group_messages(sorted(failures.items())))
            raise FusionError(
                f"round {number}: {len(left)} of {len(left | self._silent)} sites answered,"
                f" min-sites is {self.min_sites}" + (f" ({reasons})" if reasons else "")
            )

    def _advance(self, answers: dict[str, Any] | None) -> Mapping[str, float]:
        """Send the conversation its answers and take the next request; return the measure of the finished round."""
        try:
            self.request = next(self._conversation) if answers is None else self._conversation.send(answers)
        except StopIteration as stop:
            self.request, self._flat = None, {}
            self.result.outcomes = list(stop.value.values())
            return getattr(self.result.outcomes[0], "measure", {}) if self.result.outcomes else {}
        self._flat = flatten(self.request)
        lane, request = next(iter(self._flat.items()))
        if not self.shows_first_lane or set(lane) <= {"0", "."}:
            self._measure = request.measure
        return {**self._measure, "open": float(len(self._flat))} if len(self._flat) > 1 else self._measure

    def _encode(self, number: int, parcels: list[Parcel]) -> EncodedAsk:
        return write_ask(Ask(self.session, number, self.seed, parcels)), parcels

    def _encode_all(self, number: int, parcels: Mapping[Recipient, list[Parcel]]) -> dict[Recipient, EncodedAsk]:
        """Encode the asks of a round, equal ones once."""
        encoded: dict[tuple[tuple[str, int], ...], EncodedAsk] = {}
        asks = {}
        for recipient, listed in parcels.items():
            equal = tuple((parcel.lane, id(parcel.payload)) for parcel in listed)
            asks[recipient] = encoded[equal] = encoded.get(equal) or self._encode(number, listed)
        return asks
