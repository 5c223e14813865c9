"""A fusion protocol as a conversation: a generator that yields the center's requests and receives the sites' answers.

Phases compose with ``yield from``; independent conversations share their rounds with `together`. A test of a
conversation needs no grid: it sends answers to the generator.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from protocols.wire.message import Parcel
from protocols.wire.payload import Payload

Result = TypeVar("Result")
Asks = Payload | tuple[Payload, ...]
Check = Callable[[str, Any], None]


def accept_all(site: str, answer: Any) -> None:
    """Accept every answer that keeps the payload's own contract."""


@dataclass(frozen=True)
class Broadcast:
    """Ask every site the same.

    Attributes
    ----------
    ask : Payload or tuple of Payload
        The ask; a tuple is answered by a tuple.
    check : Callable
        ``check(site, answer)`` raises `protocols.wire.payload.PayloadError` for an unusable answer; the site then
        counts as failed in this round.
    measure : Mapping[str, float]
        The strategy's own measure of progress after the previous round, for the progress line; if several conversations
        share a round, the line shows the first one's.

    Examples
    --------
    >>> from protocols.secure_aggregation.payloads import Join
    >>> def count():
    ...     answers = yield Broadcast(Join("count"))
    ...     return len(answers)
    >>> conversation = count()
    >>> next(conversation).ask
    Join(total='count')
    """

    ask: Asks
    check: Check = accept_all
    measure: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Tell:
    """Ask the named sites, each its own ask; `check` and `measure` as in `Broadcast`.

    Attributes
    ----------
    needed : bool
        Whether the run ends if fewer than `min_sites` sites are left after the round; False if earlier answers are
        enough.
    """

    asks: Mapping[str, Asks]
    check: Check = accept_all
    measure: Mapping[str, float] = field(default_factory=dict)
    needed: bool = True


@dataclass(frozen=True)
class Lanes:
    """Requests of several conversations in one round, by lane."""

    requests: Mapping[str, Request]


Request = Broadcast | Tell | Lanes
Answers = dict[str, Any]
"""Answers by site, in order of name, without failed sites; for `Lanes`, by lane."""

Conversation = Generator[Request, Answers, Result]


def together(conversations: Mapping[str, Conversation[Result]], at_once: int = 0) -> Conversation[dict[str, Result]]:
    """Run conversations side by side: their asks of a round cross in one message a site.

    Parameters
    ----------
    conversations : Mapping[str, Conversation]
        Conversations by lane; a lane is a number in decimal digits, unique among its siblings.
    at_once : int
        Number of conversations that run at the same time (0: all); when one ends, the next one starts.

    Returns
    -------
    Conversation
        Returns every conversation's result by lane.

    Examples
    --------
    >>> from protocols.secure_aggregation.payloads import Join
    >>> def ask(name):
    ...     yield Broadcast(Join(name))
    >>> flatten(next(together({"0": ask("one"), "1": ask("other")}))).keys()
    dict_keys(['0', '1'])
    """
    results: dict[str, Result] = {}
    requests: dict[str, Request] = {}
    waiting = iter(conversations.items())

    def fill() -> None:
        while not at_once or len(requests) < at_once:
            lane, conversation = next(waiting, ("", None))
            if conversation is None:
                return
            try:
                requests[lane] = next(conversation)
            except StopIteration as stop:
                results[lane] = stop.value

    fill()
    while requests:
        answers = yield Lanes(dict(requests))
        for lane in list(requests):
            try:
                requests[lane] = conversations[lane].send(answers[lane])
            except StopIteration as stop:
                results[lane] = stop.value
                del requests[lane]
        fill()
    return {lane: results[lane] for lane in conversations}


def with_extra_asks(extra: Mapping[str, Payload], conversation: Conversation[Result]) -> Conversation[Result]:
    """Add one more ask to a conversation's first request, without a round of its own.

    A site that does not answer it receives it again with its next ask.

    Parameters
    ----------
    extra : Mapping[str, Payload]
        Further ask by site. It precedes the conversation's own, and its answer is not used.
    conversation : Conversation
        Conversation whose requests name their sites (`Tell`).
    """
    left, everybody = dict(extra), True
    try:
        request = next(conversation)
        while True:
            if not isinstance(request, Tell):
                raise TypeError("only a request that names its sites can carry another")
            sites = [*request.asks, *(site for site in left if everybody and site not in request.asks)]
            carried = {site: left[site] for site in sites if site in left}
            asks: dict[str, Asks] = {}
            for site in sites:
                own = as_tuple(request.asks.get(site, ()))
                asks[site] = (carried[site], *own) if site in carried else request.asks[site]
            answers = yield Tell(asks, _without(request.check, carried), request.measure, request.needed)
            for site in set(carried) & set(answers):
                del left[site]
            inner = {site: _inner(each) if site in carried else each for site, each in answers.items()}
            everybody = False
            request = conversation.send({site: each for site, each in inner.items() if site in request.asks})
    except StopIteration as stop:
        return cast("Result", stop.value)


def no_asks(result: Result) -> Conversation[Result]:
    """Return a result without any request, in place of a conversation that is not needed."""
    yield from ()
    return result


def in_step(*conversations: Conversation[Any]) -> Conversation[tuple[Any, ...]]:
    """Run conversations whose requests name their sites (`Tell`) in the same rounds, in one lane.

    Their asks to a site in a round become one ask of several payloads. When one conversation ends, the others go on. A
    site that fails, or any of whose answers is refused, fails for all conversations in that round.

    Returns
    -------
    Conversation
        Returns the conversations' results in their order.
    """
    results: dict[int, Any] = {}
    requests: dict[int, Tell] = {}

    def move(place: int, answers: Answers | None) -> None:
        conversation = conversations[place]
        try:
            request = next(conversation) if answers is None else conversation.send(answers)
        except StopIteration as stop:
            results[place] = stop.value
            requests.pop(place, None)
            return
        if not isinstance(request, Tell):
            raise TypeError("only requests that name their sites can go in step")
        requests[place] = request

    for place in range(len(conversations)):
        move(place, None)
    while requests:
        answers = yield _joined(dict(requests))
        for place, own in _parted(requests, answers).items():
            move(place, own)
    return tuple(results[place] for place in range(len(conversations)))


def _joined(requests: Mapping[int, Tell]) -> Tell:
    asks: dict[str, Asks] = {}
    for site in sorted({site for request in requests.values() for site in request.asks}):
        asks[site] = tuple(ask for each in requests.values() for ask in as_tuple(each.asks.get(site, ())))
    # Of several measures with one name, the first conversation's is kept.
    measure = {
        name: value for place in sorted(requests, reverse=True) for name, value in requests[place].measure.items()
    }

    def check(site: str, answer: Any) -> None:
        for place, own in _parted(requests, {site: answer}).items():
            if site in own:
                requests[place].check(site, own[site])

    return Tell(asks, check, measure, any(request.needed for request in requests.values()))


def _parted(requests: Mapping[int, Tell], answers: Answers) -> dict[int, Answers]:
    """Return each request's own answers."""
    parted: dict[int, Answers] = {place: {} for place in requests}
    for site, answer in answers.items():
        left = list(answer)
        for place, request in requests.items():
            if site in request.asks:
                asks = request.asks[site]
                own, left = left[: len(as_tuple(asks))], left[len(as_tuple(asks)) :]
                parted[place][site] = tuple(own) if isinstance(asks, tuple) else own[0]
    return parted


def _inner(answer: tuple[Payload, ...]) -> Any:
    """Return an answer without the one to the carried ask."""
    return answer[1] if len(answer) == 2 else answer[1:]


def _without(check: Check, carried: Mapping[str, Payload]) -> Check:
    """Return a check that skips the answers to carried asks."""

    def check_inner(site: str, answer: Any) -> None:
        if site not in carried:
            check(site, answer)
        elif len(answer) > 1:
            check(site, _inner(answer))

    return check_inner


def flatten(request: Request, lane: str = "") -> dict[str, Broadcast | Tell]:
    """Return the single requests by the path of their lane (``"2.0"``)."""
    if not isinstance(request, Lanes):
        return {lane: request}
    flat: dict[str, Broadcast | Tell] = {}
    for name, inner in request.requests.items():
        flat.update(flatten(inner, f"{lane}.{name}" if lane else name))
    return flat


def gather(request: Request, answers: Mapping[str, Answers], lane: str = "") -> Answers:
    """Return answers by lane path in the shape of `request`."""
    if not isinstance(request, Lanes):
        return answers[lane]
    return {
        name: gather(inner, answers, f"{lane}.{name}" if lane else name) for name, inner in request.requests.items()
    }


def as_tuple(asks: Asks) -> tuple[Payload, ...]:
    """Return one ask or several as a tuple."""
    return asks if isinstance(asks, tuple) else (asks,)


def addressed(flat: Mapping[str, Broadcast | Tell]) -> set[str]:
    """Return the sites that some request names."""
    return {site for request in flat.values() if isinstance(request, Tell) for site in request.asks}


def parcels_for(flat: Mapping[str, Broadcast | Tell], site: str | None) -> list[Parcel]:
    """Return a site's asks in this round; a site without a known name (None) gets broadcasts only."""
    parcels = []
    for lane, request in flat.items():
        if isinstance(request, Broadcast):
            parcels += [Parcel(lane, payload) for payload in as_tuple(request.ask)]
        elif site is not None and site in request.asks:
            parcels += [Parcel(lane, payload) for payload in as_tuple(request.asks[site])]
    return parcels


def sort_answers(flat: Mapping[str, Broadcast | Tell], parcels: Mapping[str, list[Parcel]]) -> dict[str, Answers]:
    """Return answers by lane and site, in order of site name, each in the shape of its ask."""
    answers: dict[str, Answers] = {}
    for lane, request in flat.items():
        of_lane: Answers = {}
        for site in sorted(parcels):
            payloads = tuple(parcel.payload for parcel in parcels[site] if parcel.lane == lane)
            asks = request.ask if isinstance(request, Broadcast) else request.asks.get(site, ())
            if payloads:
                of_lane[site] = payloads if isinstance(asks, tuple) else payloads[0]
        answers[lane] = of_lane
    return answers
