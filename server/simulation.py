"""Start of the processes of Flower's simulation engine, before a run begins to count seconds."""

from __future__ import annotations

import logging
import os

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from strategies.exchange import Stopwatch, exchange, is_simulation
from strategies.node_registry import NodeRegistry

logger = logging.getLogger("flwr")


def start_processes(grid: Grid, timeout: float) -> None:
    """Send an empty message to as many simulated sites as there are cores, and wait for the answers.

    The message makes Flower's simulation engine start its processes and import the app, which takes many times the
    seconds of a round. Other grids get no such message.

    Parameters
    ----------
    grid : Grid
        Flower's connection to the nodes.
    timeout : float
        Seconds to wait.
    """
    if not is_simulation(grid):
        return
    nodes = sorted(set(grid.get_node_ids()))[: os.cpu_count() or 1]
    stopwatch = Stopwatch()
    exchange(grid, [Message(RecordDict(), node, "query.start") for node in nodes], NodeRegistry(), timeout)
    logger.info("Flower's simulation engine started its processes in %.1f s", stopwatch.seconds)
