"""Flower's mods around a ClientApp: a check that none changes messages, and a mod that counts bytes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from flwr.app import Context, Message

from protocols.wire.faults import Fault
from protocols.wire.message import encoded_bytes

logger = logging.getLogger("flwr")

_ALTERING = {
    f"flwr.{place}.{name}"
    for place, names in (
        ("clientapp.mod", ("centraldp_mods", "localdp_mod")),
        ("client.mod", ("centraldp_mods", "localdp_mod", "secure_aggregation.secaggplus_mod")),
    )
    for name in names
}
"""Modules of Flower's mods that clip what a ClientApp returns, add noise to it, or mask it."""


class AlteringModError(RuntimeError):
    """Error: a mod would change an answer after the site has recorded it. The text is fixed: Flower sends it along."""

    def __init__(self) -> None:
        super().__init__(f"{Fault.ALTERING_MOD.message} [{Fault.ALTERING_MOD.slug}]")


def refuse_altering_mods() -> None:
    """Refuse to answer below a mod of Flower's that changes answers.

    A mod calls the ClientApp, so it is on the call stack. The site raises an error instead of answering with a fault,
    because the mod would change that answer, too.

    Raises
    ------
    AlteringModError
        If such a mod is on the call stack.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") in _ALTERING:
            logger.error("%s", Fault.ALTERING_MOD.message)
            raise AlteringModError
        frame = frame.f_back  # type: ignore[assignment]


def message_size_mod(message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
    """Log the bytes of each message and of its answer. Flower's mod of this name fails on empty texts."""
    logger.info("Incoming message size: %i bytes", encoded_bytes(message.content))
    answer = call_next(message, context)
    if answer.has_content():
        logger.info("Outgoing message size: %i bytes", encoded_bytes(answer.content))
    return answer
