"""A protocol driven by a loop: the real fusion center and the real handlers of all sites in this process.

Asks and answers are handed over as they are, so that the seconds are those of the calculations: no wire, no files. What
they would take on the wire is counted beside the clock, by the code that encodes them there.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

from flwr.app import Context, RecordDict

from clients.dispatch import handler_of
from clients.places import site_name
from clients.site import Site
from protocols.settings import declared
from protocols.wire.message import Answer, Ask, Parcel, encoded_bytes, write_answer, write_ask
from scenarios.common import no_baselines
from scenarios.registry import Scenario, find, register
from strategies.conversation import Answers, Conversation, Request, flatten, gather, parcels_for, sort_answers, together
from strategies.fusion import FusionStrategy
from strategies.result import Reference

Settings = Mapping[str, Any]
Clock = Callable[[], float]

_SESSION = "benchmark"
_worlds = itertools.count(1)


@dataclass(frozen=True)
class Spent:
    """Seconds of a part of a conversation.

    Attributes
    ----------
    center : float
        Of the fusion center.
    sites : float
        Of all sites, one after the other.
    slowest : float
        Of the slowest site of every round.
    """

    center: float
    sites: float
    slowest: float

    @classmethod
    def of(cls, rounds: Sequence[Round]) -> Spent:
        """What some rounds took."""
        return cls(
            sum(each.center for each in rounds),
            sum(sum(each.sites) for each in rounds),
            sum(max(each.sites, default=0.0) for each in rounds),
        )

    @property
    def all(self) -> float:
        """Everybody's, one after the other."""
        return self.center + self.sites

    @property
    def together(self) -> float:
        """From the beginning to the end, where the sites work at the same time, each on a machine of its own."""
        return self.center + self.slowest


@dataclass(frozen=True)
class Round:
    """One round of a conversation.

    Attributes
    ----------
    center : float
        Seconds of the center, before it asks.
    sites : tuple of float
        Seconds of every site that was asked.
    asked : frozenset of str
        Kinds of payloads that were asked, by title.
    to_sites, from_sites : int
        Bytes of the messages, as the ledger counts them.
    """

    center: float
    sites: tuple[float, ...] = ()
    asked: frozenset[str] = field(default_factory=frozenset)
    to_sites: int = 0
    from_sites: int = 0


@dataclass(frozen=True)
class Driven:
    """A conversation that has come to its end.

    Attributes
    ----------
    strategy : FusionStrategy
        Whose it was.
    outcome : Any
        What it returned.
    rounds : list of Round
        The last one has no sites: there the center concludes.
    """

    strategy: FusionStrategy
    outcome: Any
    rounds: list[Round]

    @property
    def metrics(self) -> dict[str, float]:
        """Numbers of the report, of what a simulation's sites and center know."""
        return self.strategy.metrics(self.outcome)

    @property
    def n_rounds(self) -> int:
        """Rounds of messages."""
        return len(self.rounds) - 1

    @property
    def spent(self) -> Spent:
        """Seconds of all rounds."""
        return Spent.of(self.rounds)

    @property
    def to_sites(self) -> int:
        """Bytes, of all sites together."""
        return sum(each.to_sites for each in self.rounds)

    @property
    def from_sites(self) -> int:
        """Bytes, of all sites together."""
        return sum(each.from_sites for each in self.rounds)


@contextmanager
def world(protocol: str, shards: Sequence[Any], **parts: Any) -> Iterator[str]:
    """Shards at hand as a scenario of this process, whose name is given; they are let go of at the end.

    Parameters
    ----------
    protocol : str
        Whose shards they are.
    shards : sequence
        One a site.
    **parts
        Other fields of `Scenario`, e.g. ``queries=lambda config, seed: Queries(...)``.
    """
    name, dealt = f"benchmark-{next(_worlds)}", list(shards)
    fields = {"source": "benchmark", "summary": "benchmark", "baselines": no_baselines, **parts}
    register(
        Scenario(
            name=name,
            protocol=protocol,
            sites=len(dealt),
            any_number=False,
            shards=lambda config, seed, n_sites: dealt,
            **fields,
        )
    )
    try:
        yield name
    finally:
        dealt.clear()  # the cache of worlds holds this very list


def config_of(scenario: str, seed: int = 0, **settings: Any) -> dict[str, Any]:
    """The declared run configuration with a scenario; ``bc3e__max_rounds`` may stand for ``bc3e.max-rounds``."""
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in settings.items()}
    return {**declared(), "scenario": scenario, "seed": seed, "output-dir": "", **named}


def strategy_of(config: Settings, n_sites: int, earlier: Mapping[str, Any] | None = None) -> FusionStrategy:
    """The fusion center of a scenario, with what the center of that scenario knows; `earlier`: arrays to go on from."""
    scenario, seed = find(config["scenario"]), config["seed"]
    outcome, queries, truth = scenario.outcome, scenario.queries, scenario.truth
    names = [f"site-{place:0{len(str(n_sites - 1))}d}" for place in range(n_sites)]

    def known(repetition: int) -> Mapping[str, int]:
        told = truth(config, seed + repetition, n_sites) if truth else None
        return {} if told is None else dict(zip(names, told, strict=True))

    reference = Reference(
        truth=known if truth else None,
        outcome=(lambda repetition: outcome(config, seed + repetition)) if outcome else None,
        queries=(lambda repetition: queries(config, seed + repetition)) if queries else None,
        earlier=earlier or {},
    )
    from_config = import_module(f"strategies.{scenario.protocol}").from_config
    strategy: FusionStrategy = from_config(config, seed=seed, n_sites=n_sites, reference=reference)
    return strategy


def sites_of(config: Settings, n_sites: int) -> dict[str, Site]:
    """Sites by name, each with its part of the scenario at hand."""
    sites = {}
    for place in range(n_sites):
        node: dict[str, bool | float | int | str] = {"partition-id": place, "num-partitions": n_sites}
        context = Context(1, place + 1, node, RecordDict(), dict(config))
        site = Site.open(site_name(context), context, Ask(_SESSION, 1, config["seed"], ()))
        assert site.shard is not None
        sites[site.name] = site
    return sites


def drive(
    strategy: FusionStrategy, sites: Mapping[str, Site], *, clock: Clock = time.process_time, counted: bool = True
) -> Driven:
    """Carry the first repetition's conversation to its end.

    Parameters
    ----------
    strategy : FusionStrategy
        The center.
    sites : Mapping[str, Site]
        As `sites_of` makes them; their memory is used up.
    clock : Callable
        What seconds are told by: of the processor, unless it is ``time.perf_counter``.
    counted : bool
        Whether bytes are counted, which takes time and memory beside what is measured.
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
            return Driven(strategy, stop.value["0"], rounds)
        center = clock() - started
        answers, answered = _answered(request, sites, len(rounds) + 1, clock, counted)
        rounds.append(replace(answered, center=center))


def _answered(
    request: Request, sites: Mapping[str, Site], number: int, clock: Clock, counted: bool
) -> tuple[Answers, Round]:
    """What the sites answer, and what it took."""
    flat, told, seconds, crossed = flatten(request), {}, [], _Crossed()
    for name, remembered in sites.items():
        asked = parcels_for(flat, name)
        if not asked:
            continue
        site = replace(remembered, round=number)
        started = clock()
        # Not `in_lane`: that takes the settings of a table's row, and here there is one row, the configuration's own.
        told[name] = [
            Parcel(each.lane, handler_of(type(each.payload))(each.payload, replace(site, lane=each.lane)))
            for each in asked
        ]
        seconds.append(clock() - started)
        crossed.count(site, asked, told[name], weighed=counted)
    answers = sort_answers(flat, told)
    for lane, each in flat.items():
        for name, answer in answers[lane].items():
            each.check(name, answer)
    return gather(request, answers), Round(
        0.0, tuple(seconds), frozenset(crossed.titles), crossed.to_sites, crossed.from_sites
    )


class _Crossed:
    """What a round's messages hold; asks that go to many sites alike are encoded once."""

    def __init__(self) -> None:
        self.titles: set[str] = set()
        self.to_sites = self.from_sites = 0
        self._known: dict[tuple[int, ...], int] = {}

    def count(self, site: Site, asked: Sequence[Parcel], told: Sequence[Parcel], *, weighed: bool) -> None:
        self.titles |= {each.payload.title() for each in asked}
        if not weighed:
            return
        key = tuple(id(each.payload) for each in asked)  # all are held by the request until the round ends
        if key not in self._known:
            self._known[key] = encoded_bytes(write_ask(Ask(site.session, site.round, site.seed, asked)))
        self.to_sites += self._known[key]
        self.from_sites += encoded_bytes(write_answer(Answer(site.name, site.round, 0, told)))
