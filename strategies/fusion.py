"""What all fusion centers have in common: the conversation carried through Flower's own hooks."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

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
    together,
)
from strategies.node_registry import FusionError, Roster
from strategies.recorder import Books, Sent
from strategies.replay import Histories, forgetful_site
from strategies.result import FusionResult, Reference

__all__ = ["FusionResult", "FusionStrategy", "Reference", "connected_nodes"]

logger = logging.getLogger("flwr")

MEGABYTE = 10**6

_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25
"""Seconds between two looks for replies: short at first, so that a quick round is not rounded up to a polling step."""


class FusionStrategy(Strategy):
    """A fusion center: asks, fuses, decides when to stop.

    A subclass writes `conversation`. This class sends what it yields and hands back what the sites answered: by site
    name and in the order of names, every answer decoded and checked.

    Parameters
    ----------
    seed : int
        Of everything random, here and at the sites.
    repetitions : int
        Conversations run side by side in the same rounds, each on its own draw of the scenario.
    min_sites : int
        The run stops when fewer sites are left that answered when they were last asked.
    n_sites : int
        Number of sites to wait for at the start (0: `min_sites`).
    session : str
        Name under which the sites keep their memory of this run.
    checkpoint : Checkpoint or None
        Where answers are kept; rounds it already holds are replayed first.
    max_payload : int
        Bytes of an answer at most; a larger one is refused. 0: no limit.
    at_once : int
        How many repetitions share their rounds; 0: all. A site answers for so many in one message.
    reference : Reference
        What the center knows beside what the sites tell it, to judge a result by.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        repetitions: int = 1,
        min_sites: int = 1,
        n_sites: int = 0,
        session: str = "",
        checkpoint: Checkpoint | None = None,
        max_payload: int = 0,
        at_once: int = 0,
        reference: Reference | None = None,
    ) -> None:
        self.seed = seed
        self.at_once = at_once
        self.reference = reference or Reference()
        self.repetitions = repetitions
        self.min_sites = min_sites
        self.n_sites = n_sites
        self.session = checkpoint.session if checkpoint else session
        self.checkpoint = checkpoint
        self.max_payload = max_payload
        self._conversation: Conversation[dict[str, Any]] = together({})
        self._request: Request | None = None
        self._flat: dict[str, Broadcast | Tell] = {}
        self._roster = Roster()
        self._greeted: set[int] = set()
        self._silent: set[str] = set()
        self._reminded: set[str] = set()
        self._measure: Mapping[str, float] = {}
        self._asked: dict[int, str] = {}
        self._sent: dict[int, Sent] = {}
        self._histories = Histories()
        self._result = FusionResult()
        self._books = Books(self._result)
        self._round_started = 0.0
        self._timeout = 0.0

    @abstractmethod
    def conversation(self, repetition: int = 0) -> Conversation[Any]:
        """What this fusion center asks, and what it makes of the answers.

        Parameters
        ----------
        repetition : int
            Which repetition this is; its seed is ``self.seed + repetition``.
        """

    def metrics(self, outcome: Any) -> dict[str, float]:
        """Numbers of `report.json` by name, of one repetition's outcome."""
        return {}

    def costs(self, lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Numbers of `report.json` by name, of what crossed the wire in one repetition; they join its `metrics`.

        Parameters
        ----------
        lines : Sequence of Mapping
            The repetition's lines of the ledger, of every inner lane too and in the order of the rounds, as
            `protocols.wire.message.ledger_lines` writes them. Envelopes belong to no repetition and are not among them.
        """
        return {}

    def arrays(self, outcome: Any) -> dict[str, np.ndarray]:
        """Arrays of `arrays.npz` by name, of the first repetition's outcome; never a site's private rows."""
        return {}

    def diagnostics(self, outcome: Any) -> dict[str, np.ndarray]:
        """Compute optional arrays of `arrays.npz` by name, for figures, from the first repetition's outcome.

        Called once, after the run. It may take a few seconds; `arrays` only hands over what the run has.
        """
        return {}

    def curves(self, outcome: Any) -> dict[str, np.ndarray]:
        """Arrays ``(t,)`` by name, of one outcome, that a scenario's table has of every cell and repetition."""
        return {}

    def table(self, metrics: Mapping[str, float], outcome: Any) -> list[dict[str, Any]]:
        """Rows of the result table, from the metrics of all repetitions and the first repetition's outcome."""
        return []

    def excluded(self, outcome: Any) -> Mapping[str, str]:
        """Sites that answered and yet were left out of one repetition, and why."""
        return {}

    def files(self, outcome: Any) -> dict[str, bytes]:
        """Files that stand beside `report.json`, by name, of the first repetition's outcome."""
        return {}

    def notes(self, outcome: Any) -> list[str]:
        """What a reader should know before using one repetition's result, a sentence each."""
        return []

    @property
    def sites(self) -> list[str]:
        """Names of the sites that have answered so far, in order."""
        return sorted(self._roster.sites)

    # -- the run ------------------------------------------------------------------------------------------------------

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int = 0,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> FusionResult:
        """Carry the conversation to its end.

        Parameters
        ----------
        grid : Grid
            Flower's connection to the nodes.
        num_rounds : int
            Rounds at most; 0: as many as the conversation takes.
        timeout : float
            Seconds to wait for the nodes at the start, and for the answers of a round.
        initial_arrays, train_config, evaluate_config, evaluate_fn
            Of Flower's own signature; a conversation has no use for them.

        Returns
        -------
        FusionResult

        Raises
        ------
        FusionError
            When fewer than `min_sites` sites answer, two sites have one name, or `num_rounds` do not suffice.
        """
        self._begin()
        number = self._replay()
        if self._request is not None:
            connected_nodes(grid, max(self.n_sites, self.min_sites), timeout)
        started = time.monotonic()
        while self._request is not None:
            if num_rounds and number >= num_rounds:
                raise FusionError(f"the conversation did not end within num_rounds={num_rounds}")
            self._greet_if_needed(grid, timeout)
            number += 1
            messages = list(self.configure_train(number, ArrayRecord(), ConfigRecord(), grid))
            replies = self._exchange(grid, messages, timeout)
            self.aggregate_train(number, self._remind(grid, number, replies, timeout))
        self._result.seconds = time.monotonic() - started
        self._result.rounds = number
        self._result.sites = self.sites
        return self._result

    def _begin(self) -> None:
        lanes = {str(r): self.conversation(r) for r in range(self.repetitions)}
        self._conversation = together(lanes, self.at_once)
        self._result = FusionResult()
        self._books = Books(self._result)
        self._roster = Roster()
        self._histories = Histories()
        self._silent.clear()
        self._measure = {}
        self._advance(None)

    def _advance(self, answers: dict[str, Any] | None) -> Mapping[str, float]:
        """Hand the conversation its answers and take the next request; returns the measure of the round that ended."""
        try:
            self._request = next(self._conversation) if answers is None else self._conversation.send(answers)
        except StopIteration as stop:
            self._request, self._flat = None, {}
            self._result.outcomes = list(stop.value.values())
            return getattr(self._result.outcomes[0], "measure", {}) if self._result.outcomes else {}
        self._flat = flatten(self._request)
        # Of several conversations in one round the first is shown, also when it has ended before the others.
        lane, request = next(iter(self._flat.items()))
        if self.at_once or set(lane) <= {"0", "."}:
            self._measure = request.measure
        return {**self._measure, "open": float(len(self._flat))} if len(self._flat) > 1 else self._measure

    def _replay(self) -> int:
        """Feed the conversation the rounds that an interrupted run saved; returns how many."""
        number = 0
        for saved in self.checkpoint.rounds() if self.checkpoint else ():
            if self._request is None:
                break
            number = saved.number
            self._round_started = time.monotonic()
            asked = {
                site: self._encode(number, parcels_for(self._flat, site if usable_name(site) else None))
                for site in saved.asked
            }
            self._receive(saved, asked)
        if number:
            logger.info("resumed after round %d", number)
        return number

    def _greet_if_needed(self, grid: Grid, timeout: float) -> None:
        """Learn new nodes' names when a request goes to a site that has none (after a resume, or its restart)."""
        nodes = set(grid.get_node_ids())
        strangers = nodes - set(self._roster.nodes.values()) - self._greeted
        if not strangers or addressed(self._flat) <= {
            site for site, node in self._roster.nodes.items() if node in nodes
        }:
            return
        self._greeted |= strangers
        self._asked = dict.fromkeys(sorted(nodes), "")
        content, parcels = self._encode(0, [])
        self._sent = dict.fromkeys(self._asked, (content, parcels))
        messages = [Message(content, node, "train", group_id="0") for node in self._asked]
        contents, failures = self._roster.sort(0, self._asked, self._exchange(grid, messages, timeout), timeout)
        self._books.sent(0, {self._roster.label(node): (content, parcels) for node in self._asked})
        for site, answer in contents.items():
            self._books.came(0, site, answer, ())
        self._note(0, failures, contents)

    def _remind(self, grid: Grid, number: int, replies: list[Message], timeout: float) -> list[Message]:
        """Ask sites that have lost their memory once more, together with all that they were asked before.

        Their answers then stand in the place of their refusals.
        """
        again: dict[int, Message] = {}
        encoded: dict[tuple[Any, ...], RecordDict] = {}
        connected = set(grid.get_node_ids())
        self._reminded.clear()
        for reply in replies:
            site, node = forgetful_site(reply, number), reply.metadata.src_node_id
            history = self._histories.of(site)
            if node not in self._sent or node in again or self._asked[node] not in ("", site) or not history:
                continue
            if self._roster.nodes.get(site, node) in connected - {node}:
                continue  # another node goes by this name, and what it was asked is for that one
            parcels = self._sent[node][1]
            # Sites that have been asked the same all along are sent the same records.
            alike = (id(parcels), *((earlier, id(past)) for earlier, past in history))
            content = encoded.get(alike) or write_ask(Ask(self.session, number, self.seed, parcels, history))
            encoded[alike] = content
            everything = [parcel for _, earlier in history for parcel in earlier] + parcels
            self._books.came(number, site, reply.content, ())
            self._books.sent(number, {site: (content, everything)})
            self._reminded.add(site)
            logger.warning("round %d: %s has lost its memory: asked again, with all it was asked before", number, site)
            again[node] = Message(content, node, "train", group_id=str(number))
        if not again:
            return replies
        kept = [reply for reply in replies if reply.metadata.src_node_id not in again]
        return kept + self._exchange(grid, list(again.values()), timeout)

    def _exchange(self, grid: Grid, messages: list[Message], timeout: float) -> list[Message]:
        """Push messages and pull replies until all are there or `timeout` seconds have passed."""
        # In the order of the messages; none at all when Flower could not send them.
        identities = zip(grid.push_messages(messages), messages, strict=False)
        sent_to = {identity: message.metadata.dst_node_id for identity, message in identities if identity}
        self._roster.sent_to |= sent_to
        waiting = set(sent_to)
        deadline = time.monotonic() + timeout
        pause = _FIRST_PAUSE
        replies: list[Message] = []
        while waiting:
            pulled = list(grid.pull_messages(waiting))
            replies += pulled
            waiting -= {reply.metadata.reply_to_message_id for reply in pulled}
            if not waiting or time.monotonic() > deadline:
                break
            time.sleep(pause)
            pause = min(1.2 * pause, _LONGEST_PAUSE)
        self._timeout = timeout
        return replies

    # -- Flower's hooks -----------------------------------------------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Turn what the conversation yielded into messages."""
        self._round_started = time.monotonic()
        names = {node: name for name, node in self._roster.nodes.items()}
        self._asked, self._sent = {}, {}
        messages = []
        encoded: dict[tuple[tuple[str, int], ...], Sent] = {}
        for node in sorted(set(grid.get_node_ids())):
            name = names.get(node, "")
            parcels = parcels_for(self._flat, name or None)
            if not parcels:
                continue
            # Sites that are asked the same are sent the same records: encoded once, however many sites there are.
            alike = tuple((parcel.lane, id(parcel.payload)) for parcel in parcels)
            sent = encoded.get(alike) or self._encode(server_round, parcels)
            encoded[alike] = self._sent[node] = sent
            self._asked[node] = name
            messages.append(Message(sent[0], node, "train", group_id=str(server_round)))
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Decode the replies and resume the conversation."""
        contents, failures = self._roster.sort(server_round, self._asked, replies, self._timeout)
        failures |= self._refuse_huge(server_round, contents)
        sent = {name: self._sent[node] for name, node in sorted(self._roster.nodes.items()) if node in self._sent}
        for node, name in self._asked.items():
            if not name and not self._roster.name_of(node):
                sent[f"node {node}"] = self._sent[node]
        broadcast = any(isinstance(request, Broadcast) for request in self._flat.values())
        for site in (addressed(self._flat) | set(self.sites if broadcast else ())) - set(sent):
            failures[site] = "its node is not connected"
        saved = SavedRound(server_round, tuple(sent), contents, failures)
        for site in self._receive(saved, sent) & self._reminded:
            self._result.rebuilt.setdefault(site, []).append(server_round)
        if self.checkpoint:
            self.checkpoint.save(saved)
        return None, MetricRecord(dict(self._result.convergence[-1]))

    def _refuse_huge(self, number: int, contents: dict[str, RecordDict]) -> dict[str, str]:
        """Take out the answers that are larger than is allowed: they are neither decoded nor kept."""
        sizes = {site: encoded_bytes(content) for site, content in contents.items()} if self.max_payload else {}
        huge = {site: size for site, size in sizes.items() if size > self.max_payload}
        for site in huge:
            self._books.refused(number, site, contents.pop(site))
        return {
            site: f"refused: its answer has {size / MEGABYTE:.1f} MB, max-payload-mb is {self.max_payload / MEGABYTE:g}"
            for site, size in huge.items()
        }

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """A conversation evaluates by asking; Flower's separate phase is not used."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """See `configure_evaluate`."""
        return None

    def summary(self) -> None:
        """Log what is about to run."""
        logger.info("%s: seed %d, min-sites %d", type(self).__name__, self.seed, self.min_sites)

    # -- a round's answers --------------------------------------------------------------------------------------------

    def _encode(self, number: int, parcels: list[Parcel]) -> Sent:
        return write_ask(Ask(self.session, number, self.seed, parcels)), parcels

    def _receive(self, saved: SavedRound, sent: Mapping[str, Sent]) -> set[str]:
        """Check a round's answers, keep the books, and resume the conversation; returns whose answers were used."""
        failures = dict(saved.failures)
        parcels: dict[str, list[Parcel]] = {}
        size = self._books.sent(saved.number, sent)
        for site, content in saved.contents.items():
            try:
                answer = read_answer(content, sent[site][1])
                self._check(site, list(answer.parcels))
            except PayloadError as error:
                failures[site] = f"refused: {error}"
                self._books.refused(saved.number, site, content)
                continue
            self._books.came(saved.number, site, content, answer.parcels)
            if answer.fault:
                failures[site] = describe(answer.fault)
            else:
                parcels[site] = list(answer.parcels)
        self._histories.add(saved.number, {site: sent[site][1] for site in parcels}, size)
        self._note(saved.number, failures, parcels)
        self._result.rounds = saved.number
        self._roster.closed = True
        self._silent = (self._silent | set(failures)) - set(parcels)
        left = set(self._roster.sites) - self._silent  # a site that this round did not ask is as it was
        needed = any(isinstance(request, Broadcast) or request.needed for request in self._flat.values())
        if needed and len(left) < self.min_sites:
            reasons = "; ".join(f"{site}: {reason}" for site, reason in sorted(failures.items()))
            every = left | self._silent
            raise FusionError(
                f"round {saved.number}: {len(left)} of {len(every)} sites answered, min-sites is {self.min_sites}"
                + (f" ({reasons})" if reasons else "")
            )
        assert self._request is not None
        measure = self._advance(gather(self._request, sort_answers(self._flat, parcels)))
        seconds = time.monotonic() - self._round_started
        self._books.round_ends(saved.number, len(parcels), len(sent), measure, seconds)
        return set(parcels)

    def _check(self, site: str, parcels: list[Parcel]) -> None:
        """The strategy's own checks of a site's answers."""
        for lane, request in self._flat.items():
            payloads = tuple(parcel.payload for parcel in parcels if parcel.lane == lane)
            if payloads:
                asks = request.ask if isinstance(request, Broadcast) else request.asks[site]
                request.check(site, payloads if isinstance(asks, tuple) else payloads[0])

    def _note(self, number: int, failures: Mapping[str, str], answered: Mapping[str, Any]) -> None:
        """Remember who failed, and who is there."""
        self._books.failed(number, failures)
        for site in answered:
            if site not in self._roster.sites:
                self._roster.sites.append(site)


def connected_nodes(grid: Grid, wanted: int, timeout: float) -> int:
    """Wait until `wanted` nodes are connected, and for those that connect at the same moment; returns how many are.

    Raises
    ------
    FusionError
        If fewer are connected after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    seen = 0
    while True:
        nodes = len(set(grid.get_node_ids()))
        if nodes >= max(wanted, 1) and nodes == seen:
            return nodes
        if time.monotonic() > deadline:
            raise FusionError(f"{nodes} of {wanted} sites connected within {timeout:g} s")
        seen = nodes
        time.sleep(0.2)
