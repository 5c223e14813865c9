"""The protocol driven by a loop: fusion center and sites in this process, for benchmarks/gp.py.

Asks and answers are handed over as they are, so that the seconds are those of the calculations: no wire, no files.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flwr.app import Context, RecordDict

from clients.dispatch import handler_of
from clients.site import Site, site_name
from protocols.gp import Predict
from protocols.message import Ask, Parcel
from scenarios.registry import find
from strategies.conversation import Answers, Conversation, Request, flatten, gather, parcels_for, sort_answers
from strategies.gp import Outcome, from_config
from strategies.result import Reference
from tests.grid import simulated

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Spent:
    """Processor seconds of a part of a conversation.

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
    """Of one round: whether query points are asked in it, and processor seconds of the center and of every site."""

    predicting: bool
    center: float
    sites: tuple[float, ...]


def sites_of(config: Settings, n_sites: int) -> dict[str, Site]:
    """Sites by name, each with its part of the scenario at hand."""
    sites = {}
    for place, node_config in enumerate(simulated(n_sites)):
        context = Context(1, place + 1, node_config, RecordDict(), dict(config))
        site = Site.open(site_name(context), context, Ask("benchmark", 1, config["seed"], ()))
        assert site.shard.n
        sites[site.name] = site
    return sites


def conversation_of(config: Settings, earlier: Mapping[str, Any] | None = None) -> Conversation[Outcome]:
    """The center's part; with `earlier`, the arrays of an outcome, it predicts with what was learnt there."""
    queries = find(config["scenario"]).queries
    assert queries
    asked = queries(config, config["seed"])
    reference = Reference(queries=lambda _: asked, earlier=earlier or {})
    return from_config(config, seed=config["seed"], reference=reference).conversation()


def drive(conversation: Conversation[Outcome], sites: Mapping[str, Site]) -> tuple[Outcome, list[Round]]:
    """Carry a conversation to its end; the last round has no sites."""
    rounds: list[Round] = []
    predicting, answers = False, None
    while True:
        started = time.process_time()
        try:
            request = next(conversation) if answers is None else conversation.send(answers)
        except StopIteration as stop:
            rounds.append(Round(predicting, time.process_time() - started, ()))
            return stop.value, rounds
        center = time.process_time() - started
        predicting = predicting or any(isinstance(each.payload, Predict) for each in _asked(request, sites))
        answers, seconds = _answered(request, sites)
        rounds.append(Round(predicting, center, seconds))


def _asked(request: Request, sites: Mapping[str, Site]) -> Iterator[Parcel]:
    flat = flatten(request)
    for name in sites:
        yield from parcels_for(flat, name)


def _answered(request: Request, sites: Mapping[str, Site]) -> tuple[Answers, tuple[float, ...]]:
    """What the sites answer, and the seconds of each that was asked."""
    flat, told, seconds = flatten(request), {}, []
    for name, site in sites.items():
        asked = parcels_for(flat, name)
        if asked:
            started = time.process_time()
            told[name] = [Parcel(each.lane, handler_of(type(each.payload))(each.payload, site)) for each in asked]
            seconds.append(time.process_time() - started)
    answers = sort_answers(flat, told)
    for lane, each in flat.items():
        for name, answer in answers[lane].items():
            each.check(name, answer)
    return gather(request, answers), tuple(seconds)


def spent(rounds: Sequence[Round]) -> tuple[Spent, Spent]:
    """Seconds to learn, and to predict."""
    learnt, predicted = (_sum([each for each in rounds if each.predicting is part]) for part in (False, True))
    return learnt, predicted


def _sum(rounds: Sequence[Round]) -> Spent:
    return Spent(
        sum(each.center for each in rounds),
        sum(sum(each.sites) for each in rounds),
        sum(max(each.sites, default=0.0) for each in rounds),
    )
