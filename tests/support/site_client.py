"""A real site that is asked through Flower's bytes, by a fusion center that keeps to the protocol or does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from clients.messenger import handle
from consilience.local_engine.wire import over_the_wire
from protocols.wire.message import Answer, Ask, Parcel, read_answer, write_ask
from protocols.wire.payload import Payload

NODE = 5


class RealSite:
    """One SuperNode, in one run of Flower.

    Parameters
    ----------
    node, run_config : Mapping
        Its own configuration, and that of the run.
    """

    def __init__(self, node: Mapping[str, Any], run_config: Mapping[str, Any], run_id: int = 9) -> None:
        self.context = Context(run_id, NODE, dict(node), RecordDict(), dict(run_config))

    def answer(
        self,
        number: int,
        *asks: Payload,
        past: Sequence[tuple[int, Payload]] = (),
        session: str = "x",
        lane: str = "0",
    ) -> Answer:
        """What it answers in a round, of whatever session, with or without a history."""
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = self.context.run_id, NODE, 1
        parcels = [Parcel(lane, each) for each in asks]
        history = [(earlier, [Parcel(lane, each)]) for earlier, each in past]
        content = write_ask(Ask(session, number, 0, parcels, history))
        message = over_the_wire(Message(content, NODE, "train", group_id=str(number)))
        return read_answer(over_the_wire(handle(message, self.context)).content, parcels)

    def fault(self, number: int, *asks: Payload, **how: Any) -> int:
        """The code of the same; 0: it answers."""
        return self.answer(number, *asks, **how).fault

    def restart(self) -> None:
        """Its SuperNode is started anew."""
        self.context.state = RecordDict()
