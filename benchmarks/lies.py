"""Lies of sites: false answers, or answers computed from false rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from flwr.app import Message

from consilience.local_engine.grid import LocalGrid
from protocols.wire.message import read_answer, read_ask, write_answer
from protocols.wire.payload import Payload

Say = Callable[[Payload, int], Payload]
"""Returns the false answer in place of a payload, given also the number of the round."""
Falsify = Callable[[pd.DataFrame], pd.DataFrame]


@dataclass(frozen=True)
class Lie:
    """A lie, and the number of sites that tell it.

    Attributes
    ----------
    name : str
        Name in the table.
    say : Callable or None
        ``say(payload, round)`` returns the false answer.
    rows : Callable or None
        ``rows(frame)`` returns the false rows that the site works with.
    n_liars : int
        Number of lying sites, the first ones.
    """

    name: str
    say: Say | None = None
    rows: Falsify | None = None
    n_liars: int = 1


def saying(title: str, **changes: Callable[[Any], Any]) -> Say:
    """Return a `Say` that changes fields of one kind of payload."""

    def say(payload: Payload, number: int) -> Payload:
        if payload.title() != title:
            return payload
        said: Any = payload
        changed: Payload = replace(
            said, **{name: _of_each(change, getattr(said, name)) for name, change in changes.items()}
        )
        return changed

    return say


def both(*says: Say) -> Say:
    """Return a `Say` that changes several kinds of payloads."""

    def say(payload: Payload, number: int) -> Payload:
        for each in says:
            payload = each(payload, number)
        return payload

    return say


def drifting(title: str, field: str, share: float) -> Say:
    """Return a `Say` under which a field of one kind of payload grows by a share in every round."""

    def say(payload: Payload, number: int) -> Payload:
        factor = (1 + share) ** number
        return saying(title, **{field: lambda each: (factor * each).astype(each.dtype)})(payload, number)

    return say


def stale(title: str) -> Say:
    """Return a `Say` that repeats the first answer of a kind whenever the shapes are the same."""
    first: dict[str, Payload] = {}

    def say(payload: Payload, number: int) -> Payload:
        if payload.title() != title:
            return payload
        return first.setdefault(_shape(payload), payload)

    return say


def _shape(payload: Payload) -> str:
    return str([getattr(value, "shape", type(value)) for value in vars(payload).values()])


def _of_each(change: Callable[[Any], Any], value: Any) -> Any:
    return tuple(change(each) for each in value) if isinstance(value, tuple | list) else change(value)


def grid_of(lie: Lie | None) -> type[LocalGrid]:
    """Return a grid in which the first sites tell a lie."""

    class LyingGrid(LocalGrid):
        def answer(self, node: int, ask: Message) -> Message | None:
            reply = super().answer(node, ask)
            liars = list(self.contexts)[: lie.n_liars] if lie and lie.say else []
            if reply is None or node not in liars or not reply.has_content():
                return reply
            said, number = read_answer(reply.content, read_ask(ask.content).parcels), int(ask.metadata.group_id)
            parcels = [replace(each, payload=lie.say(each.payload, number)) for each in said.parcels]  # type: ignore
            for name, record in write_answer(replace(said, parcels=parcels)).items():
                reply.content[name] = record
            return reply

    return LyingGrid


def _flip(payload: str, *fields: str) -> Say:
    return saying(payload, **dict.fromkeys(fields, lambda each: -each))


def _classes_swapped() -> Say:
    return saying("bc3e.Statistics", mass=lambda each: each[::-1], log_theta=lambda each: each[::-1])


def _wrong_cell(column: str) -> Falsify:
    def falsify(frame: pd.DataFrame) -> pd.DataFrame:
        frame = frame.copy()
        frame.loc[frame.index[3], column] = 1e4 * (1 + frame[column].abs().max())
        return frame

    return falsify


def _changed(column: str, change: Callable[[Any], Any]) -> Falsify:
    return lambda frame: frame.assign(**{column: change(frame[column])})


def _shifted(shift: float) -> Falsify:
    return _changed("y", lambda each: each + shift * each.std())


def _no_errors() -> Say:
    """Say that the own model, and all others', have hardly an error on the own rows."""
    own = saying("sec.FittedModel", error=lambda _: 1e-9, variance=lambda _: 1e-10)
    return both(own, saying("sec.Losses", losses=lambda each: 0 * each + 1e-9))


def _half_hidden(keys: Any) -> Any:
    hidden = keys.copy()
    hidden[::2] = keys[::2, ::-1]
    return hidden


def _negative(value: Any) -> Any:
    return -value


def _many(value: Any) -> Any:
    return 0 * value + 10**9


LIES: Mapping[str, tuple[Lie, ...]] = {
    "bc3e": (
        Lie("mass x 100, classes swapped", saying("bc3e.Statistics", mass=lambda each: 100 * each[::-1])),
        Lie("bound = 2^62", saying("bc3e.Statistics", bound=lambda _: 2**62)),
        Lie("classes swapped", _classes_swapped()),
        Lie("two sites: classes swapped", _classes_swapped(), n_liars=2),
        Lie("mass 5 % less a round", drifting("bc3e.Statistics", "mass", -0.05)),
        Lie("repeats its first answer", stale("bc3e.Statistics")),
        Lie("mass = 0", saying("bc3e.Statistics", mass=lambda each: 0 * each)),
        Lie("20 % surer of its classes", saying("bc3e.Statistics", squares=lambda each: each * 6 // 5)),
        Lie(
            "two sites: 20 % surer of their classes",
            saying("bc3e.Statistics", squares=lambda each: each * 6 // 5),
            n_liars=2,
        ),
        Lie("10^5 clusters", saying("bc3e.Holdings", n_clusters=lambda each: 0 * each + 10**5)),
        Lie("10^9 right decisions", saying("bc3e.Tally", correct=_many, total=_many)),
        Lie("no right decision", saying("bc3e.Tally", correct=lambda each: 0 * each)),
        Lie("wrong labels of one classifier", rows=_changed("class_0", lambda each: (each + 1) % 3)),
    ),
    "gp": (
        Lie(
            "explained + 1e6, mean + 1000",
            saying("gp.Predictions", explained=lambda each: each + 1e6, mean=lambda each: each + 1000),
        ),
        Lie("y mean = 1e30", saying("gp.Moments", y_means=lambda each: 0 * each + 1e30)),
        Lie("mean + 5", saying("gp.Predictions", mean=lambda each: each + 5)),
        Lie("mean + 1", saying("gp.Predictions", mean=lambda each: each + 1)),
        Lie("mean + .5", saying("gp.Predictions", mean=lambda each: each + 0.5)),
        Lie("two sites: mean + 1", saying("gp.Predictions", mean=lambda each: each + 1), n_liars=2),
        Lie("two sites: mean + .5", saying("gp.Predictions", mean=lambda each: each + 0.5), n_liars=2),
        Lie("mean with the sign flipped", _flip("gp.Predictions", "mean")),
        Lie(
            "minus 50 times its likelihood",
            saying(
                "gp.Likelihood",
                values=lambda each: -50 * each - 1e6,
                gradients=lambda each: -50 * each,
                informations=lambda each: 50 * each,
            ),
        ),
        Lie("one wrong cell of an input", rows=_wrong_cell("x0")),
        Lie("one wrong output", rows=_wrong_cell("y")),
    ),
    "residual": (
        Lie("later rows x 1000", saying("residual.FittedValues", held=lambda each: 1000 * each)),
        Lie("later rows with the sign flipped", _flip("residual.FittedValues", "held")),
        Lie("later rows x 3", saying("residual.FittedValues", held=lambda each: 3 * each)),
        Lie("two sites: sign flipped", _flip("residual.FittedValues", "held"), n_liars=2),
        Lie("two sites: later rows x 3", saying("residual.FittedValues", held=lambda each: 3 * each), n_liars=2),
        Lie("later rows 20 % larger a round", drifting("residual.FittedValues", "held", 0.2)),
        Lie("repeats its first answer", stale("residual.FittedValues")),
        Lie("no entity that others know", saying("residual.Holdings", keys=lambda each: each[:, ::-1])),
        Lie("half of its entities hidden", saying("residual.Holdings", keys=_half_hidden)),
        Lie("one entity for all rows", saying("residual.Holdings", keys=lambda each: 0 * each)),
        Lie("one wrong cell of an input", rows=_wrong_cell("x0")),
    ),
    "coreset": (
        Lie("points + 1000", saying("coreset.Summary", points=lambda each: each + 1000)),
        Lie("points + 5", saying("coreset.Summary", points=lambda each: each + 5)),
        Lie("points + 1", saying("coreset.Summary", points=lambda each: each + 1)),
        Lie("points with the sign flipped", _flip("coreset.Summary", "points")),
        Lie("two sites: points + 5", saying("coreset.Summary", points=lambda each: each + 5), n_liars=2),
        Lie("two sites: points + 1", saying("coreset.Summary", points=lambda each: each + 1), n_liars=2),
        Lie("weights x 10", saying("coreset.Summary", weights=lambda each: 10 * each)),
        Lie("groups swapped", saying("coreset.Summary", group=lambda each: 1 - each)),
        Lie("one wrong cell", rows=_wrong_cell("x0")),
    ),
    "sec": (
        Lie("n = 1e8", saying("sec.FittedModel", n=lambda _: 10**8)),
        Lie("error = 0, n = 1e8", saying("sec.FittedModel", n=lambda _: 10**8, error=lambda _: 1e-12)),
        *(
            Lie(f"error and losses = 1e-9, outcomes + {shift} deviations", _no_errors(), _shifted(shift))
            for shift in (0.0, 0.3, 0.6)
        ),
        Lie("outcomes + 5", rows=_changed("y", lambda each: each + 5)),
        Lie("outcomes + 1", rows=_changed("y", lambda each: each + 1)),
        Lie("outcomes with the sign flipped", rows=_changed("y", _negative)),
        Lie("two sites: sign flipped", rows=_changed("y", _negative), n_liars=2),
        Lie("says that all others err", saying("sec.Losses", losses=lambda each: 100 * each)),
        Lie("one wrong cell of an input", rows=_wrong_cell("x0")),
    ),
}
"""Lies of the first of five sites, by protocol."""
