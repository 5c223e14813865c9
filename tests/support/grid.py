"""The product's grid in this process as tests want it: the real ServerApp and the real ClientApp, and what crosses."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from flwr.app import Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from consilience.local_engine.grid import LocalGrid, contexts_of
from protocols.settings import declared

Tamper = Callable[[int, int, Message], Message | None]
"""``tamper(place, round, reply)``: what arrives of a site's reply; None: nothing does."""


class InProcessGrid(LocalGrid):
    """The product's own grid, with a record of what crosses and a hand on the replies.

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

    all_connected = False  # nodes of a test come and go, and their names are known by their answers only

    def __init__(
        self,
        node_configs: list[dict[str, Any]],
        run_config: dict[str, Any],
        run_id: int,
        order: random.Random | None = None,
        tamper: Tamper | None = None,
    ) -> None:
        super().__init__(contexts_of(node_configs, run_config, run_id), run_id)
        self.order, self.tamper = order, tamper
        self.crossed: list[tuple[str, RecordDict]] = []
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = run_id, 1, 1

    def site_name(self, node: int) -> str:
        return ""

    def answer(self, node: int, ask: Message) -> Message | None:
        """What the node answers, as it arrives; None: nothing does."""
        self.crossed.append(("to_site", ask.content))
        arrived = self.reply(node, ask)
        reply = self.tamper((node - 1000) // 7, int(ask.metadata.group_id), arrived) if self.tamper else arrived
        if reply is not None and reply.has_content():
            self.crossed.append(("from_site", reply.content))
        return reply

    def reply(self, node: int, ask: Message) -> Message:
        """Return the node's reply, whatever becomes of it."""
        reply = super().answer(node, ask)
        assert reply is not None
        return reply

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        pulled = list(super().pull_messages(message_ids))
        if self.order:
            self.order.shuffle(pulled)
        return pulled


def config(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    """The declared run configuration with changes; ``bc3e__max_rounds`` may stand for ``bc3e.max-rounds``."""
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in changes.items()}
    return {**declared(), "output-dir": str(tmp_path / "results"), "round-timeout": 5.0, **named}


def prediction_config(settings: dict[str, Any], results: Path, **changes: Any) -> dict[str, Any]:
    """A run configuration that predicts by the results of a run, with the settings that differ from their defaults."""
    named = {key.replace("__", "."): value for key, value in changes.items()}
    return {**settings, "scenario": "predict", "protocol": "", "from": str(results), **named}


class Clock:
    """Stands in for the module `time`: sleeping moves it on and takes no time."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
