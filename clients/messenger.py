"""The messenger: passes a message to the handlers in this process, or to the site's guard in another process.

The code of this process comes with the run. If the node configuration has a ``guard``, this process knows neither data
nor policy: it passes the message's bytes to the guard (`clients.guard`), and the guard's bytes to the fusion center.
"""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict

from clients.mods import refuse_altering_mods
from protocols.wire.faults import Fault

logger = logging.getLogger("flwr")

_OWN_KEYS = {"guard", "site"}
"""The only keys of a node configuration with a guard; all others belong to the guard's own configuration."""
_TIMEOUT = 600.0
"""Seconds to wait for the guard by default."""


def handle(message: Message, context: Context) -> Message:
    """Answer a message, here or by the site's guard. A failure becomes a fault code.

    Parameters
    ----------
    message : Message
        The fusion center's message.
    context : Context
        Flower's context, with the node configuration.

    Raises
    ------
    AlteringModError
        If a mod of Flower's around this function would change the answer.
    """
    if "guard" not in context.node_config:
        from clients.dispatch import handle as answer_here

        return answer_here(message, context)
    refuse_altering_mods()
    return Message(_ask_guard(message.content, context), reply_to=message)


def _ask_guard(content: RecordDict, context: Context) -> RecordDict:
    from clients.guard_wire import GuardAsk, answer_of_guard

    node = context.node_config
    if strange := sorted(set(node) - _OWN_KEYS):
        logger.error("configuration: guard is set, so %s belongs to the guard's own configuration", strange[0])
        return _refusal(Fault.BAD_CONFIGURATION, content, node)
    path = Path(str(node["guard"])).expanduser()
    seconds = _seconds(context)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(seconds)
            connection.connect(str(path))
            return answer_of_guard(connection, GuardAsk(context.run_id, dict(context.run_config), content), seconds)
    except (OSError, AttributeError) as error:  # without Unix sockets there is no such attribute
        logger.error("the guard at %s does not answer: %s", path, error)
        return _refusal(Fault.GUARD_SILENT, content, node)


def _seconds(context: Context) -> float:
    """Return the seconds to wait: the time of a round, after which an answer is useless."""
    value = context.run_config.get("round-timeout", _TIMEOUT)
    return float(value) if isinstance(value, int | float) and value > 0 else _TIMEOUT


def _refusal(fault: Fault, content: RecordDict, node: Any) -> RecordDict:
    """Return an answer with a fault code."""
    from protocols.wire.message import Answer, read_ask, write_answer
    from protocols.wire.payload import PayloadError

    try:
        number = read_ask(content).round
    except PayloadError:
        number = 0
    return write_answer(Answer(str(node.get("site", "")), number, fault, ()))
