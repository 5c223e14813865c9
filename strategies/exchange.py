"""Messages over Flower's grid: wait for nodes, push messages, pull replies."""

from __future__ import annotations

import time
from collections.abc import Sequence

from flwr.app import Message
from flwr.serverapp import Grid

from strategies.errors import FusionError
from strategies.node_registry import NodeRegistry

_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25
"""Shortest and longest pause between two looks for replies, in seconds. It grows, so that quick rounds stay quick."""


class Stopwatch:
    """Seconds since it was made.

    Examples
    --------
    >>> Stopwatch().seconds >= 0
    True
    """

    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds until now."""
        return time.monotonic() - self._start


def exchange(grid: Grid, messages: Sequence[Message], registry: NodeRegistry, timeout: float) -> list[Message]:
    """Push messages and pull their replies until all have come or `timeout` seconds have passed.

    Parameters
    ----------
    grid : Grid
        Flower's connection to the nodes.
    messages : Sequence of Message
        At most one for each node.
    registry : NodeRegistry
        Registry that notes the node of each message.
    timeout : float
        Seconds.
    """
    # Identities are in the order of the messages; there are none if Flower could not send them.
    identities = zip(grid.push_messages(messages), messages, strict=False)
    node_by_message = {identity: message.metadata.dst_node_id for identity, message in identities if identity}
    registry.node_by_message |= node_by_message
    waiting = set(node_by_message)
    stopwatch, pause = Stopwatch(), _FIRST_PAUSE
    replies: list[Message] = []
    while waiting:
        pulled = list(grid.pull_messages(waiting))
        replies += pulled
        waiting -= {reply.metadata.reply_to_message_id for reply in pulled}
        if not waiting or stopwatch.seconds > timeout:
            break
        time.sleep(pause)
        pause = min(1.2 * pause, _LONGEST_PAUSE)
    return replies


def is_simulation(grid: Grid) -> bool:
    """Return whether the grid is that of Flower's simulation engine, whose class may not be installed."""
    return type(grid).__name__ == "InMemoryGrid"


def wait_for_nodes(grid: Grid, wanted: int, timeout: float) -> int:
    """Wait until `wanted` nodes are connected, and no more are connecting.

    A simulation, and a grid with ``all_connected``, has all its nodes from the start.

    Returns
    -------
    int
        Number of connected nodes.

    Raises
    ------
    FusionError
        If fewer are connected after `timeout` seconds, or at once if all nodes are connected.
    """
    stopwatch = Stopwatch()
    before = 0
    while True:
        nodes = len(set(grid.get_node_ids()))
        complete = is_simulation(grid) or getattr(grid, "all_connected", False)
        if nodes >= max(wanted, 1) and (nodes == before or complete):
            return nodes
        if nodes and complete:
            raise FusionError(f"min-sites is {wanted}, and there are {nodes} sites: they would not suffice")
        if stopwatch.seconds > timeout:
            raise FusionError(f"{nodes} of {wanted} sites connected within {timeout:g} s")
        before = nodes
        time.sleep(0.2)
