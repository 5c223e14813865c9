"""The message with which a simulation starts its processes: it asks nothing, and a real site refuses it."""

from __future__ import annotations

from typing import Any

import pytest
from flwr.app import Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from clients.app import app


def ask(node_config: dict[str, Any]) -> tuple[Message, Context]:
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    context = Context(1, 7, node_config, RecordDict(), {"protocol": "bc3e", "data": "/nowhere"})
    return app(Message(RecordDict(), 7, "query.start"), context), context


def test_a_simulated_site_answers_nothing_and_remembers_nothing() -> None:
    reply, context = ask({"partition-id": 0, "num-partitions": 2})
    assert not reply.content
    assert not context.state


def test_a_real_site_refuses() -> None:
    with pytest.raises(ValueError, match="real site"):
        ask({"site": "north", "data": "north.csv"})
