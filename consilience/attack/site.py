"""The site under attack: its own code, asked by messages in bytes, as a fusion center asks it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from jaxtyping import Float64

from clients.dispatch import handle
from consilience.local_engine.wire import over_the_wire
from protocols.wire.faults import slug_of
from protocols.wire.message import Ask, Parcel, read_answer, write_ask
from protocols.wire.payload import Payload

_NODE = 1


class AttackedSite:
    """A real site, as Flower would start it, in successive runs of a fusion center that may ask anything.

    Parameters
    ----------
    node : Mapping
        The site's node configuration: its data, its policy, its consents, a directory of its own.
    run_config : Mapping
        The run configuration, which is the center's.
    ranges : ndarray
        ``(2, q)`` least and greatest value of each column of the true rows.
    most_runs : int
        Runs that the center may start.

    Attributes
    ----------
    n_asks : int
        Asks so far, refused ones too.
    faults : Counter
        Refusals so far, by their codes.
    """

    def __init__(
        self, node: Mapping[str, Any], run_config: Mapping[str, Any], ranges: Float64[np.ndarray, "2 q"], most_runs: int
    ) -> None:
        self.ranges, self.most_runs = ranges, most_runs
        self.n_asks, self.n_runs, self.faults = 0, 0, Counter[str]()
        self.round = 0
        self._node, self._config = dict(node), dict(run_config)
        self._context = self._of_run({})

    @property
    def name(self) -> str:
        """Name of the site."""
        return str(self._node["site"])

    def start_run(self, settings: Mapping[str, Any] | None = None) -> bool:
        """Start a run, whose rounds count from 1; False if the center may start no more. An attack begins with this.

        Parameters
        ----------
        settings : Mapping
            Keys of the run configuration that the center sets.
        """
        if self.n_runs >= self.most_runs:
            return False
        self.n_runs += 1
        self.round = 0
        self._context = self._of_run(settings or {})
        return True

    def _of_run(self, settings: Mapping[str, Any]) -> Context:
        return Context(self.n_runs, _NODE, dict(self._node), RecordDict(), {**self._config, **settings})

    def restart(self) -> None:
        """Restart the SuperNode: it loses Flower's context and keeps its own directory."""
        self._context.state = RecordDict()

    def ask(self, payload: Payload, *, number: int = 0, lane: str = "0", seed: int = 0, session: str = "x") -> Any:
        """Ask the site, and return the payload of its answer; None if it refuses, and `faults` counts the reason.

        Parameters
        ----------
        payload : Payload
            The ask.
        number : int
            The round; 0: the next one.
        lane, seed, session
            The center may choose them freely.
        """
        self.round = number or self.round + 1
        self.n_asks += 1
        parcels = [Parcel(lane, payload)]
        names = ("_task_id", "_run_id", "_node_id")
        before = {name: getattr(TaskIdentity, name) for name in names}
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, self._context.run_id, _NODE
        try:
            content = write_ask(Ask(f"{session}{self.n_runs}", self.round, seed, parcels))
            message = over_the_wire(Message(content, _NODE, "train", group_id=str(self.round)))
            answer = read_answer(over_the_wire(handle(message, self._context)).content, parcels)
        finally:
            for name, value in before.items():
                setattr(TaskIdentity, name, value)
        if answer.fault:
            self.faults[slug_of(answer.fault)] += 1
            return None
        return answer.parcels[0].payload


def real_node(data: Path, folder: Path, policy: Path | None, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the node configuration of a real site with this data file and a directory of its own."""
    node = {"site": "attacked", "data": str(data.absolute()), "site-output-dir": str(folder), **keys}
    return node if policy is None else {**node, "policy": str(policy.absolute())}
