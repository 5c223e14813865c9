"""A Flower grid in this process. Every message becomes bytes and is read back; every site has a context of its own."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid
from flwr.supercore.run import Run

from clients.app import app as client_app
from clients.places import own_name
from consilience.local_engine.wire import over_the_wire
from protocols.wire.faults import SiteFault

logger = logging.getLogger("flwr")


def node_configs(n_sites: int) -> list[dict[str, Any]]:
    """Return the node configurations of simulated sites, as Flower's simulation engine makes them.

    Examples
    --------
    >>> node_configs(2)
    [{'partition-id': 0, 'num-partitions': 2}, {'partition-id': 1, 'num-partitions': 2}]
    """
    return [{"partition-id": place, "num-partitions": n_sites} for place in range(n_sites)]


def contexts_of(configs: Sequence[Mapping[str, Any]], run_config: Mapping[str, Any], run_id: int) -> dict[int, Context]:
    """Return new contexts of Flower by node number, as of nodes that have just started."""
    # Like Flower's, a node number does not tell the place.
    numbered = {1000 + 7 * place: config for place, config in enumerate(configs)}
    return {
        node: Context(run_id, node, dict(config), RecordDict(), dict(run_config)) for node, config in numbered.items()
    }


def answer(ask: Message, context: Context) -> Message | None:
    """Return a site's answer; after an exception, the message that Flower sends in its place."""
    try:
        reply: Message | None = client_app(ask, context)
    except Exception as error:
        logger.exception("a site's app failed")
        return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, type(error).__name__), reply_to=ask)
    return reply


class LocalGrid(Grid):
    """Sites that answer in this process, one after the other, when their messages are sent.

    A round's time-out has no effect on them. It does on sites in worker processes
    (`consilience.local_engine.workers.WorkerGrid`).

    Parameters
    ----------
    contexts : Mapping[int, Context]
        Flower's context of each site, by node number.
    run_id : int
        Number of the run.

    Attributes
    ----------
    contexts : Mapping[int, Context]
        The same.
    all_connected : bool
        True: there will be no more sites.
    """

    all_connected = True

    def __init__(self, contexts: Mapping[int, Context], run_id: int) -> None:
        self.contexts = contexts
        self._run = Run.create_empty(run_id)
        self._replies: dict[str, Message] = {}
        self._numbers = itertools.count(1)

    def set_run(self, run: Any) -> None:
        """Do nothing: there is one run."""

    @property
    def run(self) -> Run:
        """The run, with its number only."""
        return self._run

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        """Raise an error: messages are made by their class."""
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        """Return the sites' node numbers."""
        return list(self.contexts)

    def site_name(self, node: int) -> str:
        """Return the name of the site at a node; empty if it has none that can be used."""
        try:
            return own_name(self.contexts[node])
        except SiteFault:
            return ""

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let each site answer its message; return the messages' names."""
        names = []
        for message in messages:
            name = self.next_name()
            reply = self.answer(message.metadata.dst_node_id, over_the_wire(message, name))
            if reply is not None:
                self._replies[name] = reply
            names.append(name)
        return names

    def next_name(self) -> str:
        """Return a name for a message."""
        return f"m{next(self._numbers)}"

    def answer(self, node: int, ask: Message) -> Message | None:
        """Return a site's reply after its way over the wire; None: there is none."""
        reply = answer(ask, self.contexts[node])
        return None if reply is None else over_the_wire(reply)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies that are there, and forget them."""
        return [self._replies.pop(name) for name in sorted(message_ids) if name in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send messages and return their replies."""
        return self.pull_messages(self.push_messages(messages))

    def close(self) -> None:
        """Do nothing: there is nothing to end."""
