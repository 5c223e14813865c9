"""The life of a message at a site: open, admit, answer, commit; and the handlers that answer asks.

A handler is a function of ``(ask, site)`` decorated with ``@answers(AskClass)``, in the protocol's module ``handlers``.
That module is imported only for a message with an ask of the protocol, because a SuperNode may start a process for
every message.

A site answers the messages of a run one at a time. It checks its policy before it reads data, and writes its ledger
last. No text of an exception leaves the site, only a fault code.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from flwr.app import Context, Message, RecordDict

from clients.logged_fault import LoggedFault
from clients.mods import refuse_altering_mods
from common.extras import MissingLibraryError
from protocols import registry
from protocols.budget import ASKS, BYTES_IN, BYTES_OUT
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
    """One message at a site, and the results of the steps so far."""

    content: RecordDict
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
    return Message(answer_content(message.content, context), reply_to=message)


def answer_content(content: RecordDict, context: Context) -> RecordDict:
    """Return the records of the answer to a message's records; of a failure, those with its fault code."""
    with ExitStack() as lock:  # released when the answer is complete, ledger included
        exchange = _Exchange(content, context, lock)
        try:
            ask, site = _open(exchange)
            _admit(ask, encoded_bytes(content), site)
            return _commit(Answer(site.name, ask.round, 0, _answer(ask, site)), ask, site, exchange.context)
        except Exception as error:  # its text must not leave: it can hold private values
            return _refuse(error, exchange)


def _open(exchange: _Exchange) -> tuple[Ask, Site]:
    """Read the ask, wait until no other process of the site works on this run, and load the site's memory."""
    from clients.commitments import run_lock
    from clients.places import make_files_private, own_name, real_directory
    from clients.run_configuration import configure_protocol, configure_simulated_prediction
    from clients.site import Site

    make_files_private(exchange.context)
    exchange.context = configure_simulated_prediction(exchange.context)
    exchange.name = own_name(exchange.context)
    exchange.ask = ask = read_ask(exchange.content)
    exchange.context = configure_protocol(exchange.context, ask)
    exchange.lock.enter_context(run_lock(real_directory(exchange.context), exchange.context.run_id))
    exchange.site = site = Site.open(exchange.name, exchange.context, ask)
    return ask, site


def _admit(ask: Ask, size: int, site: Site) -> None:
    """Check the ask against the site's policy, and count it unless it only asks for the site's name.

    The first ask of a run also checks that the run's libraries are installed here.
    """
    site.policy.admit_size(size)
    for parcels in (*(past for _, past in ask.history), ask.parcels):
        site.policy.admit(parcels)
    if ask.round == 1:
        for protocol in {_protocol_of(type(parcel.payload)) for parcel in ask.parcels} - {*registry.SHARED}:
            check_libraries(site.config, protocol)
    if ask.parcels or ask.history:
        site.policy.count_ask(site.commitments, len(ask.history))
        site.charge(*(parcel.payload for parcel in ask.parcels), amounts={ASKS: 1, BYTES_IN: size})


def _answer(ask: Ask, site: Site) -> list[Parcel]:
    """Replay the earlier rounds that the ask brings, then answer its own parcels."""
    for number, parcels in ask.history:
        _answer_parcels(parcels, site.in_earlier_round(number))
        site.settle_round(number)
    return _answer_parcels(ask.parcels, site)


def _commit(answer: Answer, ask: Ask, site: Site, context: Context) -> RecordDict:
    """Store commitments and memory, and write the ledger last, when the answer is certain to leave."""
    from clients.places import ledger_of

    content = write_answer(answer)
    size = encoded_bytes(content)
    site.policy.count_bytes(size, site.commitments)
    if ask.parcels:
        site.charge(amounts={BYTES_OUT: size})
    site.close()
    ledger_of(site.name, context).record(content, answer.parcels, round_number=ask.round, session=ask.session)
    return content


def _refuse(error: Exception, exchange: _Exchange) -> RecordDict:
    """Return an answer that holds only a fault code; the ledger has it, too."""
    from clients.data.source import is_simulated

    name, ask, site = exchange.name, exchange.ask, exchange.site
    number, session = (ask.round, ask.session) if ask is not None else (0, "")
    fault = _fault_of(error, ask)
    if not is_simulated(exchange.context.node_config):  # the fusion center logs the faults of simulated sites
        logger.error("site %s: round %d: %s [%s]", name or "without a name", number, fault.message, fault.slug)
    if site is None or not site.log_failure(number):
        _log_details(name, error)
    elif site.simulated and not isinstance(error, SiteFault):
        # The file of a simulated site goes with a run that fails.
        logger.error("site %s: %s", name, _in_a_line(error))
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


def _in_a_line(error: Exception) -> str:
    """Return the type of an unexpected error and the line of code that raised it; its text may hold values of rows."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(frame.filename).name}, line {frame.lineno}: {frame.line}"


def _log_details(name: str, error: Exception) -> None:
    """Log the details of an error that no file of the site holds."""
    if not isinstance(error, SiteFault | MissingLibraryError):  # a missing library is logged with its code
        logger.error("site %s: %s", name or "without a name", "".join(traceback.format_exception(error)))
    elif isinstance(error, SiteFault) and not isinstance(error, LoggedFault) and str(error) != error.fault.message:
        logger.error("site %s: %s", name or "without a name", error)


def _answer_parcels(asks: Sequence[Parcel], site: Site) -> list[Parcel]:
    parcels = []
    for parcel in asks:
        handler = handler_of(type(parcel.payload))
        answer = handler(parcel.payload, site.in_lane(parcel.lane))
        if type(answer) is not parcel.payload.answer:
            raise SiteFault(Fault.HANDLER_FAILED, f"the handler of {parcel.payload.title()} answered {type(answer)}")
        parcels.append(Parcel(parcel.lane, answer))
    return parcels


def _fault_of(error: Exception, ask: Ask | None) -> Fault:
    """Return the code of an error. If the ask itself could be read, a bad payload is the handler's fault."""
    if isinstance(error, SiteFault):
        return error.fault
    if isinstance(error, MissingLibraryError):
        logger.error("%s", error)
        return Fault.MISSING_LIBRARY
    if isinstance(error, PayloadError) and ask is None:
        return Fault.MALFORMED_ASK
    return Fault.HANDLER_FAILED
