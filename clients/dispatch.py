"""The life of a message at a site: open, admit, answer, commit; and the handlers that answer asks.

A handler is a function of ``(ask, site)`` decorated with ``@answers(AskClass)``. It stands in the protocol's module
``handlers``, which is imported only when a message asks something of that protocol: a SuperNode may start a process for
every message.

What holds for every message: one at a time is worked on in a run; the policy is checked before data are read; the
ledger is written last; no text of an exception leaves the site, only a fault code.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from flwr.app import Context, Message, RecordDict

from clients.logged_fault import LoggedFault
from clients.mods import refuse_altering_mods
from common.extras import MissingLibraryError
from protocols import registry
from protocols.settings import check_libraries
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
    """Register the function that answers an ask.

    Parameters
    ----------
    ask : type[Payload]
        Class of the ask, which declares its answer.

    Raises
    ------
    TypeError
        If the class declares no answer.
    """
    if ask.answer is None:
        raise TypeError(f"{ask.title()} declares no answer")

    def register(handler: Callable[[AskType, Site], Payload]) -> Callable[[AskType, Site], Payload]:
        _HANDLERS[ask] = handler
        return handler

    return register


def handler_of(ask: type[Payload]) -> Handler:
    """Return the handler of an ask; its protocol's handlers are imported first."""
    registry.room(_protocol_of(ask), "handlers")
    if ask not in _HANDLERS:
        raise SiteFault(Fault.UNKNOWN_ASK, f"no handler answers {ask.title()}")
    return _HANDLERS[ask]


def _protocol_of(ask: type[Payload]) -> str:
    return ask.title().partition(".")[0]


# -- the life of a message --------------------------------------------------------------------------------------------


@dataclass
class _Exchange:
    """One message at a site, as far as it has come."""

    message: Message
    context: Context
    lock: ExitStack
    name: str = ""
    ask: Ask | None = None
    site: Site | None = None


def handle(message: Message, context: Context) -> Message:
    """Answer a message. A failure becomes a fault code, and its details stay in the site's own log.

    Raises
    ------
    AlteringModError
        If a mod of Flower's around this function would change the answer.
    """
    refuse_altering_mods()
    with ExitStack() as lock:  # released when the reply is complete, ledger included
        exchange = _Exchange(message, context, lock)
        try:
            ask, site = _open(exchange)
            _admit(ask, encoded_bytes(message.content), site)
            content = _commit(Answer(site.name, ask.round, 0, _answer(ask, site)), ask, site, exchange.context)
        except Exception as error:  # its text must not leave: it can hold private values
            content = _refuse(error, exchange)
        return Message(content, reply_to=message)


def _open(exchange: _Exchange) -> tuple[Ask, Site]:
    """Read the ask, wait until no other process of the site works on this run, and load what the site remembers."""
    from clients.commitments import run_lock
    from clients.places import make_files_private, own_name, real_directory
    from clients.run_configuration import configure_protocol, configure_simulated_prediction
    from clients.site import Site

    make_files_private(exchange.context)
    exchange.context = configure_simulated_prediction(exchange.context)
    exchange.name = own_name(exchange.context)
    exchange.ask = ask = read_ask(exchange.message.content)
    exchange.context = configure_protocol(exchange.context, ask)
    exchange.lock.enter_context(run_lock(real_directory(exchange.context), exchange.context.run_id))
    exchange.site = site = Site.open(exchange.name, exchange.context, ask)
    return ask, site


def _admit(ask: Ask, size: int, site: Site) -> None:
    """Check the ask against the site's policy, and count it, unless it asks for the site's name only.

    A run that would later need a library which is not installed here is refused at its first ask.
    """
    site.policy.admit_size(size)
    for parcels in (*(past for _, past in ask.history), ask.parcels):
        site.policy.admit(parcels)
    if ask.round == 1:
        for protocol in {_protocol_of(type(parcel.payload)) for parcel in ask.parcels} - {*registry.SHARED}:
            check_libraries(site.config, protocol)
    if ask.parcels or ask.history:
        site.policy.count_ask(site.commitments, len(ask.history))


def _answer(ask: Ask, site: Site) -> list[Parcel]:
    """Replay the earlier rounds that the ask brings, then answer its own parcels."""
    for number, parcels in ask.history:
        _answer_parcels(parcels, site.in_earlier_round(number))
        site.settle_round(number)
    return _answer_parcels(ask.parcels, site)


def _commit(answer: Answer, ask: Ask, site: Site, context: Context) -> RecordDict:
    """Write down what the answer leaves at the site; the ledger comes last, so that it holds what leaves."""
    from clients.places import ledger_of

    content = write_answer(answer)
    site.policy.count_bytes(encoded_bytes(content), site.commitments)
    site.close()
    ledger_of(site.name, context).record(content, answer.parcels, round_number=ask.round, session=ask.session)
    return content


def _refuse(error: Exception, exchange: _Exchange) -> RecordDict:
    """Return the message that says by a code why there is no answer; it stands in the ledger, too."""
    from clients.data.source import is_simulated

    name, ask, site = exchange.name, exchange.ask, exchange.site
    number, session = (ask.round, ask.session) if ask is not None else (0, "")
    fault = _fault_of(error, ask)
    if not is_simulated(exchange.context.node_config):  # of simulated sites the fusion center says it, in one log
        logger.error("site %s: round %d: %s [%s]", name or "without a name", number, fault.message, fault.slug)
    if site is None or not site.log_failure(number):
        _log_details(name, error)
    content = write_answer(Answer(name, number, fault, ()))
    try:
        from clients.places import ledger_of

        if site is not None:
            site.commitments.save()
        ledger_of(name, exchange.context).record(content, (), round_number=number, session=session)
    except Exception as unwritten:  # Flower would send its text along
        logger.error("site %s: %s", name or "without a name", unwritten)
        return write_answer(Answer(name, number, Fault.OUTPUT_NOT_WRITTEN, ()))
    return content


def _log_details(name: str, error: Exception) -> None:
    """Write to the log of the site's process what no file of the site's own has."""
    if not isinstance(error, SiteFault | MissingLibraryError):  # of that, a line is in the log
        logger.error("site %s: %s", name or "without a name", "".join(traceback.format_exception(error)))
    elif isinstance(error, SiteFault) and not isinstance(error, LoggedFault) and str(error) != error.fault.message:
        logger.error("site %s: %s", name or "without a name", error)


def _answer_parcels(asked: Sequence[Parcel], site: Site) -> list[Parcel]:
    parcels = []
    for parcel in asked:
        handler = handler_of(type(parcel.payload))
        answer = handler(parcel.payload, site.in_lane(parcel.lane))
        if type(answer) is not parcel.payload.answer:
            raise SiteFault(Fault.HANDLER_FAILED, f"the handler of {parcel.payload.title()} answered {type(answer)}")
        parcels.append(Parcel(parcel.lane, answer))
    return parcels


def _fault_of(error: Exception, ask: Ask | None) -> Fault:
    """Return the code of an error; if the ask itself could be read, a bad payload is the handler's own."""
    if isinstance(error, SiteFault):
        return error.fault
    if isinstance(error, MissingLibraryError):
        logger.error("%s", error)
        return Fault.MISSING_LIBRARY
    if isinstance(error, PayloadError) and ask is None:
        return Fault.MALFORMED_ASK
    return Fault.HANDLER_FAILED
