"""Processes on another processor of this machine: a site answers there, or a whole run takes place there."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pytest
from flwr.app import Context, Message
from flwr.supercore.task_identity import TaskIdentity

from clients.app import app as client_app
from consilience.local_engine.grid import node_configs
from consilience.local_engine.wire import over_the_wire
from server.results import load
from tests.support.core_types import core_type, core_types, environment
from tests.support.documentation import ROOT
from tests.support.runs import InterruptibleGrid, Nodes, run_over, skip_waiting

Answer = TypeVar("Answer")

_RUN_IDS = itertools.count(20_000)


class Processor:
    """A process that uses other kernels than this one, as on an older processor; it answers one call at a time."""

    def __init__(self) -> None:
        others = [name for name in core_types() if name != core_type()]
        if not others:
            pytest.skip("OpenBLAS has one core type for this processor")
        command = [sys.executable, "-c", "from tests.support.processors import serve; serve()"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | environment(others[-1]), stdin=pipe, stdout=pipe
        )

    def call(self, function: Callable[..., Answer], *args: Any) -> Answer:
        """Return what a function of a module answers there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((function, args), self._process.stdin)
        self._process.stdin.flush()
        answer, problem = pickle.load(self._process.stdout)
        assert not problem, problem
        return cast("Answer", answer)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


def serve() -> None:
    """Answer the calls of `Processor.call`, until there are no more."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed must not come between the answers
    with pytest.MonkeyPatch.context() as patch:
        skip_waiting(patch)
        while True:
            try:
                function, args = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            try:
                reply = function(*args), ""
            except Exception:
                reply = None, traceback.format_exc()
            pickle.dump(reply, answers)
            answers.flush()


def answer(message: Message, context: Context) -> tuple[Message, Context]:
    """Return a site's reply, and the context that Flower keeps of it."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = context.run_id, 1, 1
    reply = client_app(message, context)
    assert reply is not None
    return over_the_wire(reply), context


class DispersedGrid(InterruptibleGrid):
    """A grid some of whose nodes are on another processor.

    Attributes
    ----------
    elsewhere : Processor or None
        The other processor.
    places : tuple of int
        The nodes that are there.
    """

    elsewhere: Processor | None = None
    places: tuple[int, ...] = ()

    def reply(self, node: int, asked: Message) -> Message:
        """Return a node's reply."""
        if self.elsewhere is None or (node - 1000) // 7 not in self.places:
            return super().reply(node, asked)
        reply, self.contexts[node] = self.elsewhere.call(answer, asked, self.contexts[node])
        return reply


def run_dispersed(config: Mapping[str, Any], nodes: Nodes, elsewhere: Processor, places: tuple[int, ...]) -> Path:
    """A whole run whose fusion center is on this processor, and the nodes of these places on another one."""
    grid = DispersedGrid(node_configs(nodes) if isinstance(nodes, int) else nodes, dict(config), next(_RUN_IDS))
    grid.elsewhere, grid.places = elsewhere, places
    return run_over(grid, config)


def interrupt(config: Mapping[str, Any], nodes: list[dict[str, Any]], number: int) -> str:
    """Interrupt a run after the answers of a round; return what to resume from."""
    grid = InterruptibleGrid(nodes, dict(config), 30_000)
    grid.stop_after = number
    with pytest.raises(KeyboardInterrupt):
        run_over(grid, config)
    [partial] = Path(config["output-dir"]).glob("*/.*.partial")
    return str(partial.parent / partial.name.removeprefix(".").removesuffix(".partial"))


def differences(first: Path, second: Path) -> dict[str, float]:
    """Return the metrics and arrays that differ between two runs, and by how much relative to their largest number.

    What is no floating-point number, or is of another shape, differs infinitely.
    """
    found: dict[str, float] = {}
    (report, arrays), (other_report, other_arrays) = load(first), load(second)
    assert report.metrics.keys() == other_report.metrics.keys()
    assert arrays.keys() == other_arrays.keys()
    pairs = {name: (np.array(value), np.array(other_report.metrics[name])) for name, value in report.metrics.items()}
    for name, (one, other) in {**pairs, **{name: (arrays[name], other_arrays[name]) for name in arrays}}.items():
        if one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes():
            continue
        comparable = one.dtype == other.dtype == np.float64 and one.shape == other.shape
        same = comparable and np.array_equal(np.isnan(one), np.isnan(other))
        scale = np.nanmax(np.abs(one), initial=0.0) if same else 0.0
        found[name] = float(np.nanmax(np.abs(one - other), initial=0.0) / scale) if scale > 0 else np.inf
    return found
