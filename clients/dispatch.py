"""From an ask to the handler that answers it.

A handler is a function of ``(ask, site)`` decorated with ``@answers(AskClass)``. It lives in ``clients/PROTOCOL.py``,
which is imported only when a message of that protocol arrives: a SuperNode may start a process for every message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from flwr.app import Context, Message, RecordDict

from protocols import registry
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.message import Answer, Ask, Parcel, encoded_bytes, read_ask, write_answer
from protocols.wire.payload import Payload, PayloadError

if TYPE_CHECKING:
    from clients.site import Site

logger = logging.getLogger("flwr")

AskType = TypeVar("AskType", bound=Payload)
Handler = Callable[[Any, "Site"], Payload]

_HANDLERS: dict[type[Payload], Handler] = {}


def answers(ask: type[AskType]) -> Callable[[Callable[[AskType, Site], Payload]], Callable[[AskType, Site], Payload]]:
    """Register the function that answers an ask."""
    if ask.answer is None:
        raise TypeError(f"{ask.title()} declares no answer")

    def register(handler: Callable[[AskType, Site], Payload]) -> Callable[[AskType, Site], Payload]:
        _HANDLERS[ask] = handler
        return handler

    return register


def handler_of(ask: type[Payload]) -> Handler:
    """The handler of an ask; its protocol's client module is imported first."""
    registry.room(ask.title().partition(".")[0], "handlers")
    if ask not in _HANDLERS:
        raise SiteFault(Fault.UNKNOWN_ASK, f"no handler answers {ask.title()}")
    return _HANDLERS[ask]


def handle(message: Message, context: Context) -> Message:
    """Answer a message, whatever happens: what goes wrong becomes a fault code, its details the site's own log."""
    with ExitStack() as alone:
        return Message(_answered(message, context, alone), reply_to=message)


def _answered(message: Message, context: Context, alone: ExitStack) -> RecordDict:
    """What leaves; `alone`: until it is closed, no other process of the site answers an ask of this run."""
    name, number = "", 0
    ask: Ask | None = None
    site: Site | None = None
    try:
        from clients.commitments import one_at_a_time
        from clients.prediction import as_it_is_asked, as_it_learnt
        from clients.site import Site, ledger_of, own_directory, private_files, site_name

        private_files(context)
        context = as_it_learnt(context)
        name = site_name(context)
        ask = read_ask(message.content)
        context = as_it_is_asked(context, ask)
        number = ask.round
        alone.enter_context(one_at_a_time(own_directory(context), context.run_id))
        site = Site.open(name, context, ask)
        _admit(ask, encoded_bytes(message.content), site)
        for earlier, parcels in ask.history:
            _answer_all(parcels, site.in_round(earlier))
            site.went_through(earlier)
        answer = Answer(name, number, 0, _answer_all(ask.parcels, site))
        content = write_answer(answer)
        site.policy.count_bytes(encoded_bytes(content), site.pledges)
        site.close()
        # Last of all, so that what stands in the ledger is what leaves.
        ledger_of(name, context).record(content, answer.parcels, round_number=number, session=ask.session)
    except Exception as error:  # nothing of it may travel: its text can hold private values
        fault = _fault_of(error, asked=ask is not None)
        logger.error("site %s: round %d: %s [%s]", name or "without a name", number, fault.message, fault.slug)
        if site is not None:
            site.log_failure(number)
        return _refusal(Answer(name, number, fault, ()), ask, site, context)
    return content


def _admit(ask: Ask, size: int, site: Site) -> None:
    """Hold an ask against the site's policy, and count it; one that only asks for the site's name asks for no data."""
    site.policy.admit_size(size)
    for parcels in (*(past for _, past in ask.history), ask.parcels):
        site.policy.admit(parcels)
    if ask.parcels or ask.history:
        site.policy.count_ask(site.pledges, len(ask.history))


def _refusal(answer: Answer, ask: Ask | None, site: Site | None, context: Context) -> RecordDict:
    """The message that says why there is no answer; where even that cannot be written down, it says just so."""
    content = write_answer(answer)
    try:
        from clients.site import ledger_of

        if site is not None:
            site.pledges.save()
        session = "" if ask is None else ask.session
        ledger_of(answer.site, context).record(content, (), round_number=answer.round, session=session)
    except Exception as error:  # Flower would send its text along
        logger.error("site %s: %s", answer.site or "without a name", error)
        return write_answer(Answer(answer.site, answer.round, Fault.OUTPUT_NOT_WRITTEN, ()))
    return content


def _answer_all(asked: Sequence[Parcel], site: Site) -> list[Parcel]:
    parcels = []
    for parcel in asked:
        handler = handler_of(type(parcel.payload))
        answer = handler(parcel.payload, site.in_lane(parcel.lane))
        if type(answer) is not parcel.payload.answer:
            raise SiteFault(Fault.HANDLER_FAILED, f"the handler of {parcel.payload.title()} answered {type(answer)}")
        parcels.append(Parcel(parcel.lane, answer))
    return parcels


def _fault_of(error: Exception, *, asked: bool) -> Fault:
    """The code of an error; `asked`: the ask itself was in order, so that a bad payload is the handler's own."""
    if isinstance(error, SiteFault):
        return error.fault
    if isinstance(error, PayloadError) and not asked:
        return Fault.MALFORMED_ASK
    return Fault.HANDLER_FAILED
