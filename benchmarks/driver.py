"""Drives a protocol in one process: the real fusion center and the real handlers of all sites, in a loop.

Asks and answers are passed on as objects, so that only calculations are timed. Their bytes on the wire are counted
untimed, by the code that encodes them there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from flwr.app import Context, RecordDict

from clients.dispatch import handler_of
from clients.places import own_name
from clients.site import Site
from protocols.settings import declared
from protocols.wire.message import Answer, Ask, Parcel, encoded_bytes, write_answer, write_ask
from scenarios.registry import Scenario, find, register
from strategies.conversation import Answers, Conversation, Request, flatten, gather, parcels_for, sort_answers, together
from strategies.fusion import FusionStrategy
from strategies.result import Reference

Settings = Mapping[str, Any]
Clock = Callable[[], float]

_SESSION = "benchmark"
_worlds = itertools.count(1)


@dataclass(frozen=True)
class Seconds:
    """Seconds of a conversation.

    Attributes
    ----------
    center : float
        Seconds of the fusion center.
    sites : float
        Seconds of all sites, one after the other.
    slowest : float
        Seconds of the slowest site of every round, summed.
    """

    center: float
    sites: float
    slowest: float

    @property
    def all(self) -> float:
        """Seconds of the center and all sites, one after the other."""
        return self.center + self.sites


@dataclass(frozen=True)
class Round:
    """One round of a conversation.

    Attributes
    ----------
    center : float
        Seconds of the center, before it asks.
    sites : tuple of float
        Seconds of every site that gets an ask.
    to_sites, from_sites : int
        Bytes of the messages, as the ledger counts them.
    """

    center: float
    sites: tuple[float, ...] = ()
    to_sites: int = 0
    from_sites: int = 0


@dataclass(frozen=True)
class Transcript:
    """A conversation from start to end.

    Attributes
    ----------
    strategy : FusionStrategy
        The fusion center.
    outcome : Any
        Result of the conversation.
    rounds : list of Round
        All rounds; in the last one the center asks no site, and computes the result.
    """

    strategy: FusionStrategy
    outcome: Any
    rounds: list[Round]

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the report, from what a simulation's sites and center know."""
        return self.strategy.metrics(self.outcome)

    @property
    def n_rounds(self) -> int:
        """Rounds of messages."""
        return len(self.rounds) - 1

    @property
    def seconds(self) -> Seconds:
        """Seconds of all rounds."""
        return Seconds(
            sum(each.center for each in self.rounds),
            sum(sum(each.sites) for each in self.rounds),
            sum(max(each.sites, default=0.0) for each in self.rounds),
        )

    @property
    def to_sites(self) -> int:
        """Bytes of all sites together."""
        return sum(each.to_sites for each in self.rounds)

    @property
    def from_sites(self) -> int:
        """Bytes of all sites together."""
        return sum(each.from_sites for each in self.rounds)


@contextmanager
def world(protocol: str, shards: Sequence[Any], **parts: Any) -> Iterator[str]:
    """Register shards as a scenario of this process and yield its name; they are released at the end.

    Parameters
    ----------
    protocol : str
        The shards' protocol.
    shards : sequence
        One shard for each site.
    **parts
        Other fields of `Scenario`, e.g. ``queries=lambda config, seed: Queries(...)``.
    """
    name, copy = f"benchmark-{next(_worlds)}", list(shards)
    fields = {"source": "benchmark", "summary": "benchmark", **parts}
    register(
        Scenario(
            name=name,
            protocol=protocol,
            sites=len(copy),
            any_number=False,
            shards=lambda config, seed, n_sites: copy,
            **fields,
        )
    )
    try:
        yield name
    finally:
        copy.clear()  # the cache of worlds holds this very list


def config_of(scenario: str, seed: int = 0, **settings: Any) -> dict[str, Any]:
    """Return the default run configuration with a scenario and settings, e.g. ``gp__parts`` for ``gp.parts``."""
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in settings.items()}
    return {**declared(), "scenario": scenario, "seed": seed, "output-dir": "", **named}


def strategy_of(config: Settings, n_sites: int) -> FusionStrategy:
    """Return the fusion center of a scenario, with the truth, outcomes and queries that it knows."""
    scenario, seed = find(config["scenario"]), config["seed"]
    outcome, queries, truth = scenario.outcome, scenario.queries, scenario.truth
    names = [f"site-{place:0{len(str(n_sites - 1))}d}" for place in range(n_sites)]

    def truth_of(repetition: int) -> Mapping[str, int]:
        labels = truth(config, seed + repetition, n_sites) if truth else None
        return {} if labels is None else dict(zip(names, labels, strict=True))

    reference = Reference(
        truth=truth_of if truth else None,
        outcome=(lambda repetition: outcome(config, seed + repetition)) if outcome else None,
        queries=(lambda repetition: queries(config, seed + repetition)) if queries else None,
    )
    from_config = import_module(f"strategies.{scenario.protocol}").from_config
    strategy: FusionStrategy = from_config(config, seed=seed, n_sites=n_sites, reference=reference)
    return strategy


def sites_of(config: Settings, n_sites: int) -> dict[str, Site]:
    """Return the sites by name, each with its shard of the scenario."""
    sites = {}
    for place in range(n_sites):
        node: dict[str, bool | float | int | str] = {"partition-id": place, "num-partitions": n_sites}
        context = Context(1, place + 1, node, RecordDict(), dict(config))
        site = Site.open(own_name(context), context, Ask(_SESSION, 1, config["seed"], ()))
        assert site.shard is not None
        sites[site.name] = site
    return sites


def drive(strategy: FusionStrategy, sites: Mapping[str, Site], clock: Clock) -> Transcript:
    """Run the first repetition's conversation from start to end.

    Parameters
    ----------
    strategy : FusionStrategy
        The center.
    sites : Mapping[str, Site]
        Sites from `sites_of`; the conversation changes their memory.
    clock : Callable
        ``time.perf_counter`` or ``time.process_time``.
    """
    conversation: Conversation[dict[str, Any]] = together({"0": strategy.conversation()})
    rounds: list[Round] = []
    answers: Answers | None = None
    while True:
        started = clock()
        try:
            request = next(conversation) if answers is None else conversation.send(answers)
        except StopIteration as stop:
            rounds.append(Round(clock() - started))
            return Transcript(strategy, stop.value["0"], rounds)
        center = clock() - started
        answers, answered = _answer(request, sites, len(rounds) + 1, clock)
        rounds.append(replace(answered, center=center))


def _answer(request: Request, sites: Mapping[str, Site], number: int, clock: Clock) -> tuple[Answers, Round]:
    """Return the sites' answers, and their seconds and bytes."""
    flat, replies, seconds, traffic = flatten(request), {}, [], _Traffic()
    for name, remembered in sites.items():
        asks = parcels_for(flat, name)
        if not asks:
            continue
        site = replace(remembered, round=number)
        started = clock()
        # Not `in_lane`: that takes the settings of a table's row, and here there is one row, the configuration's own.
        replies[name] = [
            Parcel(each.lane, handler_of(type(each.payload))(each.payload, replace(site, lane=each.lane)))
            for each in asks
        ]
        seconds.append(clock() - started)
        traffic.count(site, asks, replies[name])
    answers = sort_answers(flat, replies)
    for lane, each in flat.items():
        for name, answer in answers[lane].items():
            each.check(name, answer)
    return gather(request, answers), Round(0.0, tuple(seconds), traffic.to_sites, traffic.from_sites)


class _Traffic:
    """Bytes of a round's messages; an ask to many sites is encoded once."""

    def __init__(self) -> None:
        self.to_sites = self.from_sites = 0
        self._sizes: dict[tuple[int, ...], int] = {}

    def count(self, site: Site, asks: Sequence[Parcel], replies: Sequence[Parcel]) -> None:
        """Add a site's messages."""
        key = tuple(id(each.payload) for each in asks)  # the request holds all of them until the round ends
        if key not in self._sizes:
            self._sizes[key] = encoded_bytes(write_ask(Ask(site.session, site.round, site.seed, asks)))
        self.to_sites += self._sizes[key]
        self.from_sites += encoded_bytes(write_answer(Answer(site.name, site.round, 0, replies)))
