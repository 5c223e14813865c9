"""A whole run in this process: the ServerApp over a `LocalGrid`."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from flwr.app import Context, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from clients.shards import forget_shards
from common.settings import ConfigError
from common.value_ranges import Value
from consilience.local_engine.grid import LocalGrid, contexts_of, node_configs
from consilience.local_engine.workers import WorkerGrid
from protocols.settings import declared
from server import app as server_app
from server.run_plan import RunPlan

_SERVER_NODE = 1


def new_run_id() -> int:
    """Return a number for a run, as Flower numbers its own."""
    return secrets.randbits(63)


def run(
    settings: Mapping[str, Value],
    nodes: int | Sequence[Mapping[str, Value]],
    *,
    run_id: int | None = None,
    workers: int | None = None,
    plan: RunPlan | None = None,
    grid_class: type[LocalGrid] = LocalGrid,
    with_page: bool = True,
) -> Path:
    """Run to the end in this process, and return the absolute path of the results directory.

    Parameters
    ----------
    settings : Mapping
        Run configuration that differs from the defaults.
    nodes : int or sequence of Mapping
        Number of simulated sites; or of real sites, each one's node configuration.
    run_id : int or None
        Number of the run; None: a new one.
    workers : int or None
        Number of processes that share the sites; None: they answer one after the other in this process, without a
        time-out.
    plan : RunPlan or None
        Plan of `server.preflight.preflight` for these settings; None: it is made here.
    grid_class : type
        Class of the grid without workers.
    with_page : bool
        As of `server.app.run`.

    Raises
    ------
    ConfigError, DataError, FusionError, ...
        `server.app.REFUSALS`: errors that the user can correct.
    """
    config = {**declared(), **settings}
    run_id = new_run_id() if run_id is None else run_id
    if workers and str(config["data"]).startswith("__main__:"):
        raise ConfigError(
            f"{config['data']}: workers cannot import a function of the program itself; put it in a module"
        )
    contexts = contexts_of(node_configs(nodes) if isinstance(nodes, int) else nodes, config, run_id)
    grid = WorkerGrid(contexts, run_id, workers) if workers else grid_class(contexts, run_id)
    with _identity(run_id), closing(grid):
        try:
            context = Context(run_id, _SERVER_NODE, {}, RecordDict(), dict(config))
            return server_app.run(grid, context, plan=plan, with_page=with_page)
        finally:
            forget_shards()


@contextmanager
def _identity(run_id: int) -> Iterator[None]:
    """Let messages made in this process belong to the run, and restore their former owner afterwards."""
    names = ("_task_id", "_run_id", "_node_id")
    before = {name: getattr(TaskIdentity, name) for name in names}
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, run_id, _SERVER_NODE
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(TaskIdentity, name, value)
