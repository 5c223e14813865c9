"""The start of Flower's simulation engine, before a run counts seconds."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest
from flwr.app import Message
from flwr.supercore.task_identity import TaskIdentity

from consilience.local_engine.grid import LocalGrid, contexts_of, node_configs
from server.simulation import start_processes
from strategies.errors import FusionError
from strategies.exchange import wait_for_nodes


class InMemoryGrid(LocalGrid):
    """A grid that is called as that of Flower's simulation engine."""

    def __init__(self, n_sites: int) -> None:
        super().__init__(contexts_of(node_configs(n_sites), {}, 1), 1)
        self.pushed: list[str] = []
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        listed = list(messages)
        self.pushed += [each.metadata.message_type for each in listed]
        return super().push_messages(listed)


class AnotherGrid(InMemoryGrid):
    """Any other one."""


@pytest.mark.parametrize("n_sites", [1, 200])
def test_a_simulation_gets_a_message_a_core(n_sites: int) -> None:
    grid = InMemoryGrid(n_sites)
    start_processes(grid, 5.0)
    assert grid.pushed == ["query.start"] * min(n_sites, os.cpu_count() or 1)
    assert all(not context.state for context in grid.contexts.values())


def test_a_simulation_with_fewer_sites_than_wanted_ends_at_once() -> None:
    with pytest.raises(FusionError, match="min-sites is 4, and there are 3 sites: they would not suffice"):
        wait_for_nodes(InMemoryGrid(3), 4, 600.0)


def test_another_grid_gets_none() -> None:
    grid: Any = AnotherGrid(3)
    start_processes(grid, 5.0)
    assert grid.pushed == []
