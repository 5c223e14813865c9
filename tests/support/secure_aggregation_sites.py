"""What tests of masked sums share: sites with real handlers and made-up numbers, and a conversation between them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, RecordDict

import clients.dispatch
import clients.gp.handlers
from clients.dispatch import handler_of
from clients.site import Site
from protocols.gp.payloads import Slope, Train
from protocols.secure_aggregation.payloads import Hide
from protocols.wire.faults import SiteFault
from protocols.wire.message import Ask, Parcel
from protocols.wire.payload import Payload, PayloadError, check
from strategies.conversation import Conversation, Tell

W = 5
"""Numbers of a site's vector."""

Meddle = Callable[[int, str, Payload, Payload | None], Payload | None]
"""``meddle(round, site, ask, answer)``: what arrives of a site's answer; None: nothing does."""


def inner(seed: int = 0) -> Train:
    """The ask whose answers are summed; what it says does not matter here."""
    return Train(1, np.ones(1, np.int64), np.zeros(1), np.ones(1), 0.0, 1.0, 1, 1, np.zeros(1, np.int64), np.ones(seed))


def slope(name: str) -> Slope:
    """What a site answers to it."""
    rng = np.random.default_rng(list(name.encode()))
    return Slope(float(rng.normal()), rng.normal(size=W) * 10.0 ** rng.integers(-9, 30, size=W))


ZERO = Slope(0.0, np.zeros(W))


@dataclass
class MaskingSite:
    """A site that stays the same over a run."""

    name: str
    config: dict[str, bool | int | float | str] = field(default_factory=dict)
    context: Context = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget whatever Flower's context held."""
        self.context = Context(7, 1, {"site": self.name, **self.config}, RecordDict(), {})

    def site(self, number: int = 1, payload: Payload | None = None) -> Site:
        parcels = [Parcel("0", payload)] if payload is not None else []
        return Site.open(self.name, self.context, Ask("s", number, 0, parcels))

    def answer(self, payload: Payload, number: int = 1) -> Payload:
        """Its own answer, as dispatch would have it, but for faults."""
        return handler_of(type(payload))(payload, self.site(number, payload))


@dataclass
class Transcript:
    """What crossed: by round, each site's ask and the answer that arrived; and why others gave none."""

    result: Any = None
    rounds: list[dict[str, tuple[Payload, Payload | None]]] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)

    def of(self, kind: type[Any]) -> list[tuple[str, Any]]:
        """All asks and answers of a class, with the site's name."""
        both = [(site, each) for asked in self.rounds for site, pair in asked.items() for each in pair]
        return [(site, each) for site, each in both if type(each) is kind]


def converse(
    conversation: Conversation[Any],
    members: Mapping[str, MaskingSite],
    meddle: Meddle = lambda _n, _s, _a, answer: answer,
    said: Transcript | None = None,
) -> Transcript:
    """Carry a conversation to its end; what crosses is added to `said`, of one that ends in an error too."""
    said = said or Transcript()
    try:
        request = next(conversation)
        while True:
            assert isinstance(request, Tell)
            found, asked = {}, {}
            for name, ask in sorted(request.asks.items()):
                assert isinstance(ask, Payload)
                asked[name] = (ask, _answer(request, members[name], ask, len(said.rounds) + 1, meddle, said.faults))
                if asked[name][1] is not None:
                    found[name] = asked[name][1]
            said.rounds.append(asked)
            request = conversation.send(found)
    except StopIteration as stop:
        said.result = stop.value
    return said


def _answer(
    request: Tell, member: MaskingSite, ask: Payload, number: int, meddle: Meddle, faults: dict[str, str]
) -> Payload | None:
    try:
        check(ask)
        answer: Payload | None = member.answer(ask, number)
    except SiteFault as fault:
        faults[member.name], answer = fault.fault.slug, None
    answer = meddle(number, member.name, ask, answer)
    if answer is None:
        return None
    try:
        check(answer)
        request.check(member.name, answer)
    except PayloadError as error:
        faults[member.name] = str(error)
        return None
    return answer


def masking_sites(monkeypatch: pytest.MonkeyPatch, names: Sequence[str], folder: Path) -> dict[str, MaskingSite]:
    """Sites that answer the inner ask with `slope`; what they keep in files lies in `folder`."""
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setitem(clients.dispatch._HANDLERS, Train, lambda ask, site: slope(site.name))
    return {name: MaskingSite(name) for name in names}


def silent(name: str, kind: type[Payload], times: int = 1) -> Meddle:
    """A site whose answers to one kind of ask do not arrive, so many times."""
    left = {"times": times}

    def meddle(_: int, site: str, ask: Payload, answer: Payload | None) -> Payload | None:
        if site == name and type(ask) is kind and left["times"]:
            left["times"] -= 1
            return None
        return answer

    return meddle


def hidden_words(said: Transcript) -> list[tuple[str, Any]]:
    """What arrived under masks."""
    return [
        (site, answer)
        for asked in said.rounds
        for site, (ask, answer) in asked.items()
        if type(ask) is Hide and answer is not None
    ]
