"""An in-process Flower grid: the real ServerApp and the real ClientApp, without Ray and without processes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, no_object_id_recompute
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from clients.app import app as client_app
from protocols.settings import declared

Tamper = Callable[[int, int, Message], Message | None]
"""``tamper(place, round, reply)``: what arrives of a site's reply; None: nothing does."""


class InProcessGrid(Grid):
    """Nodes that answer at once, each with its own Flower context.

    Parameters
    ----------
    node_configs : list of dict
        A node's configuration each.
    run_config : dict
        Of the run.
    order : random.Random or None
        Shuffles the replies.
    tamper : Callable or None
        Changes, drops or replaces replies.
    """

    def __init__(
        self,
        node_configs: list[dict[str, Any]],
        run_config: dict[str, Any],
        run_id: int,
        order: random.Random | None = None,
        tamper: Tamper | None = None,
    ) -> None:
        self.contexts = {
            1000 + 7 * place: Context(run_id, 1000 + 7 * place, dict(config), RecordDict(), dict(run_config))
            for place, config in enumerate(node_configs)
        }
        self.order, self.tamper = order, tamper
        self.replies: dict[str, Message] = {}
        self.crossed: list[tuple[str, RecordDict]] = []
        self._run = Run.create_empty(run_id)
        self._ids = itertools.count(1)
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = run_id, 1, 1

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Run:
        return self._run

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        sent = []
        for message in messages:
            identity = f"m{next(self._ids)}"
            sent.append(identity)
            node = message.metadata.dst_node_id
            asked = over_the_wire(message)
            asked.metadata.__dict__["_message_id"] = identity
            asked.metadata.__dict__["_dst_node_id"] = node
            self.crossed.append(("to_site", asked.content))
            reply = self.answer(node, asked)
            if reply is not None:
                if reply.has_content():
                    self.crossed.append(("from_site", reply.content))
                self.replies[identity] = reply
        return sent

    def answer(self, node: int, asked: Message) -> Message | None:
        """What the node answers, as it arrives; None: nothing does."""
        reply = self.reply(node, asked)
        return self.tamper((node - 1000) // 7, int(asked.metadata.group_id), reply) if self.tamper else reply

    def reply(self, node: int, asked: Message) -> Message:
        """Return the node's reply, whatever becomes of it."""
        reply = client_app(asked, self.contexts[node])
        assert reply is not None
        return over_the_wire(reply)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        pulled = [self.replies.pop(identity) for identity in sorted(message_ids) if identity in self.replies]
        if self.order:
            self.order.shuffle(pulled)
        return pulled

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))


def over_the_wire(message: Message) -> Message:
    """The message as it arrives: taken apart into bytes and put together again, as Flower does."""
    with no_object_id_recompute():  # as Flower's own grid; else every part would be taken apart once a level above it
        objects = get_all_nested_objects(message)
        contents = {identity: each.deflate() for identity, each in objects.items()}
        copy = inflate_object_from_contents(message.object_id, contents)
    assert isinstance(copy, Message)
    return copy


def config(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    """The declared run configuration with changes; ``bc3e__max_rounds`` may stand for ``bc3e.max-rounds``."""
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in changes.items()}
    return {**declared(), "output-dir": str(tmp_path / "results"), "round-timeout": 5.0, **named}


def prediction_config(settings: dict[str, Any], results: Path, **changes: Any) -> dict[str, Any]:
    """A run configuration that predicts by the results of a run, with the settings that differ from their defaults."""
    named = {key.replace("__", "."): value for key, value in changes.items()}
    return {**settings, "scenario": "predict", "protocol": "", "from": str(results), **named}


def simulated(n_sites: int) -> list[dict[str, Any]]:
    """Node configurations as Flower's simulation makes them."""
    return [{"partition-id": place, "num-partitions": n_sites} for place in range(n_sites)]


class Clock:
    """Stands in for the module `time`: sleeping moves it on and takes no time."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
