"""Whole runs over the in-process grid, from the run configuration to the results directory.

Time is told by a clock that a sleeping fusion center moves on, so that a silent site costs no waiting.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Message, RecordDict

import server.evaluation
import server.preflight
import strategies.exchange
from consilience.local_engine.grid import node_configs
from protocols.registry import names as protocol_names
from scenarios.registry import scenarios
from server import app as server_app
from server.figures.figure import Figure
from server.report.data import Report
from server.report.glossary import meaning
from server.results import load
from tests.support.grid import Clock, InProcessGrid

Nodes = int | list[dict[str, Any]]


def skip_waiting(patch: pytest.MonkeyPatch) -> Clock:
    """Runs wait for nothing, not for the disk either; they compute and draw no figures, and nothing without each site.

    Returns their clock. Nobody's result depends on what is left out, which takes half of a small run's time.
    """
    clock = Clock()
    patch.setattr(os, "fsync", _nothing)
    patch.setattr(strategies.exchange, "time", clock)
    patch.setattr(server_app, "figures", _no_figures)
    patch.setattr(server.evaluation, "diagnostics", _no_diagnostics)
    patch.setattr(server.evaluation, "influence", _nothing)
    return clock


def _nothing(*_: object) -> None:
    return None


def _no_figures(report: Report, arrays: object) -> list[Figure]:
    return []


def _no_diagnostics(strategy: object, outcome: object) -> dict[str, Any]:
    return {}


class InterruptibleGrid(InProcessGrid):
    """The in-process grid with a fusion center that can be stopped, and with replies that come twice.

    Attributes
    ----------
    stop_before, stop_after : int
        Round before whose messages are sent, or after whose replies are there, the run is interrupted; None: never.
    stop : type of BaseException
        How it is interrupted.
    twice : bool
        Whether every reply is delivered two times.
    """

    stop_before: int | None = None
    stop_after: int | None = None
    stop: type[BaseException] = KeyboardInterrupt
    twice = False

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        messages = list(messages)
        rounds = {int(message.metadata.group_id) for message in messages}
        if self.stop_before in rounds:
            raise self.stop
        sent = super().push_messages(messages)
        if self.stop_after in rounds:
            raise self.stop
        return sent

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        pulled = list(super().pull_messages(message_ids))
        return pulled * 2 if self.twice else pulled


_RUN_IDS = itertools.count(1000)  # of one length: the run is named in every envelope, whose bytes are counted


def make_grid(config: Mapping[str, Any], nodes: Nodes, **options: Any) -> InterruptibleGrid:
    """Nodes that have just been started: they remember what is on their disks and nothing else."""
    return InterruptibleGrid(
        node_configs(nodes) if isinstance(nodes, int) else nodes, dict(config), next(_RUN_IDS), **options
    )


def run_over(grid: InterruptibleGrid, config: Mapping[str, Any]) -> Path:
    """A whole run over this grid; returns the results directory."""
    run_id = next(iter(grid.contexts.values())).run_id
    return server_app.run(grid, Context(run_id, 0, {}, RecordDict(), dict(config)))


def run(config: Mapping[str, Any], nodes: Nodes, **options: Any) -> Path:
    """A whole run over nodes that have just been started."""
    return run_over(make_grid(config, nodes, **options), config)


_DONE: dict[str, tuple[Path, InterruptibleGrid]] = {}


def run_once(config: Mapping[str, Any], nodes: Nodes) -> tuple[Path, InterruptibleGrid]:
    """A whole run that nobody disturbs; returns the results directory and the grid.

    Of several with equal settings on equal files of a folder, the first takes place, on a copy of the files; the others
    get a copy of its results. A test may change both; one that patches the product needs a run of its own.
    """
    folder, output = Path(str(config["data"])), Path(config["output-dir"])
    if not isinstance(nodes, int) or not config["data"] or not folder.is_dir():
        grid = make_grid(config, nodes)
        return run_over(grid, config), grid
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    patched = [server_app.figures, *(vars(server.evaluation)[name] for name in ("diagnostics", "influence"))]
    patched += [vars(server.preflight)[name] for name in ("check_sites", "check_rows")]
    settings = {**config, "data": "", "output-dir": ""}
    key = repr((sorted(settings.items()), nodes, sorted(files.items()), patched))
    if key not in _DONE:
        place = output.parent / f"run-{len(_DONE)}"
        copied = {**config, "data": str(shutil.copytree(folder, place / "files")), "output-dir": str(place / "results")}
        grid = make_grid(copied, nodes)
        _DONE[key] = run_over(grid, copied), grid
    path, grid = _DONE[key]
    own = output / path.parent.name / path.name
    shutil.copytree(path, own, dirs_exist_ok=True)
    return own, grid


@dataclass(frozen=True)
class Outcome:
    """How a disturbed run ended: with a report, or with one line that says why not."""

    report: Report | None
    refusal: str

    @property
    def text(self) -> str:
        """All that it says about sites in trouble."""
        missing = self.report.missing if self.report else {}
        return self.refusal + "\n".join(f"{site}: {line}" for site, lines in missing.items() for line in lines)


def outcome_of(config: Mapping[str, Any], nodes: Nodes, **options: Any) -> Outcome:
    """Run; a refusal must be a line that the user can act on and leave no results, anything else is a failed test."""
    output = Path(config["output-dir"])
    before = complete_results(output)
    refusal = ""
    try:
        return Outcome(load(run(config, nodes, **options))[0], "")
    except server_app.REFUSALS as error:
        refusal = str(error)
    assert refusal
    assert "\n" not in refusal
    assert complete_results(output) == before
    return Outcome(None, refusal)


def complete_results(output: Path) -> list[Path]:
    """Directories that look like those of a complete run; one that is half-written is a failed test."""
    found = [path for path in output.glob("*/*") if not path.name.startswith(".")]
    for path in found:
        _assert_readable(path)
    assert not list(output.glob("*/.*/report.json"))
    return found


@cache
def _assert_readable(path: Path) -> None:
    """Once for every run: many share a directory, and each looks at all of it."""
    load(path)


def run_with_grid(
    run_config: dict[str, Any],
    nodes: int | list[dict[str, Any]] = 2,
    run_id: int = 1,
    **options: Any,
) -> tuple[Path, InProcessGrid]:
    """A whole run; returns the results directory and the grid."""
    configs = node_configs(nodes) if isinstance(nodes, int) else nodes
    grid = InProcessGrid(configs, run_config, run_id, **options)
    context = Context(run_id, 0, {}, RecordDict(), run_config)
    path = server_app.run(grid, context)
    report, _ = load(path)
    assert not (unknown := metrics_without_words(report)), (
        f"server/report/{report.protocol}.py has no words for {unknown}"
    )
    assert server_app.NO_FIGURES not in report.notes
    return path, grid


def metrics_without_words(report: Report) -> list[str]:
    """Metrics that the page would have no words for, of own data and of scenarios that no test made."""
    scenario = scenarios().get(report.scenario)
    made_here = scenario is not None and scenario.baselines.__module__.startswith("tests.")
    ours = report.protocol in protocol_names() and not made_here
    names = [name for name in report.metrics if ours and not name.endswith("_se")]
    return [name for name in names if meaning(report.protocol, name) is None]
