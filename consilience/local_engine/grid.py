"""A Flower grid in this process: every message becomes bytes and is read back, every site has a context of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, no_object_id_recompute
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

from clients.app import app as client_app


def node_configs(n_sites: int) -> list[dict[str, Any]]:
    """Return the node configurations of simulated sites, as Flower's simulation engine makes them.

    Examples
    --------
    >>> node_configs(2)
    [{'partition-id': 0, 'num-partitions': 2}, {'partition-id': 1, 'num-partitions': 2}]
    """
    return [{"partition-id": place, "num-partitions": n_sites} for place in range(n_sites)]


def over_the_wire(message: Message) -> Message:
    """Return the message as it arrives: taken apart into bytes and put together again, as Flower does."""
    with no_object_id_recompute():  # as Flower's own grid; else every part would be taken apart once a level above it
        objects = get_all_nested_objects(message)
        contents = {identity: each.deflate() for identity, each in objects.items()}
        copy = inflate_object_from_contents(message.object_id, contents)
    assert isinstance(copy, Message)
    return copy


class LocalGrid(Grid):
    """Sites that answer in this process, one after the other, when their messages are sent.

    Parameters
    ----------
    configs : Sequence of Mapping
        Node configuration of each site.
    run_config : Mapping
        Run configuration.
    run_id : int
        Number of the run.

    Attributes
    ----------
    contexts : dict
        Flower's context of each site, by node number.
    """

    def __init__(self, configs: Sequence[Mapping[str, Any]], run_config: Mapping[str, Any], run_id: int) -> None:
        self.contexts = {
            _node(place): Context(run_id, _node(place), dict(config), RecordDict(), dict(run_config))
            for place, config in enumerate(configs)
        }
        self._replies: dict[str, Message] = {}
        self._numbers = itertools.count(1)

    def set_run(self, run: Any) -> None:
        """Do nothing: there is one run."""

    @property
    def run(self) -> Any:
        """Not there: a run in this process is known by its context."""
        raise NotImplementedError

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        """Not there: a `Message` is made by its class."""
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        """Return the sites' node numbers."""
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let each site answer its message; return the messages' names."""
        names = []
        for message in messages:
            name = f"m{next(self._numbers)}"
            node = message.metadata.dst_node_id
            ask = over_the_wire(message)
            ask.metadata.__dict__["_message_id"] = name
            ask.metadata.__dict__["_dst_node_id"] = node
            reply = self.answer(node, ask)
            if reply is not None:
                self._replies[name] = reply
            names.append(name)
        return names

    def answer(self, node: int, ask: Message) -> Message | None:
        """Return a site's reply as it arrives; None: there is none."""
        reply = client_app(ask, self.contexts[node])
        return None if reply is None else over_the_wire(reply)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies that are there, and forget them."""
        return [self._replies.pop(name) for name in sorted(message_ids) if name in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send messages and return their replies."""
        return self.pull_messages(self.push_messages(messages))


def _node(place: int) -> int:
    """Return the node number of a site: like Flower's, it does not tell the place."""
    return 1000 + 7 * place
