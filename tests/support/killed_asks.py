"""Runs of which one site is killed in an ask: when it is asked what, and what the run says of it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protocols.wire.payload import Payload
from server import app as server_app
from server.results import load
from tests.support.fault_federations import Node
from tests.support.faults import Delivery, FaultyGrid, Injection
from tests.support.runs import complete_results, run_over
from tests.support.tampering import parcels_of


@dataclass(frozen=True)
class Run:
    """What is run, and the place of the site that is killed."""

    settings: dict[str, Any]
    nodes: list[Node]
    victim: int = 1

    @property
    def name(self) -> str:
        """The site that is killed."""
        return str(self.nodes[self.victim]["site"])


Whole = tuple[Run, dict[type[Payload], int]]
"""A run, and in which round of it the victim is first asked each kind of ask."""


_RUN_IDS = itertools.count(1000)


def disturbed(run: Run, folder: Path, injection: Injection) -> dict[str, list[str]] | str:
    """What the report of a run says of silent sites when the victim is in trouble, or the line with which it stops."""
    settings = {**run.settings, "output-dir": str(folder / "results"), "min-sites": 1}
    nodes = [{**node, "site-output-dir": str(folder / "homes" / str(node["site"]))} for node in run.nodes]
    grid = FaultyGrid(nodes, settings, next(_RUN_IDS))
    grid.victims, grid.injection = (run.victim,), injection
    try:
        return load(run_over(grid, settings))[0].missing
    except server_app.REFUSALS as error:
        assert not complete_results(folder / "results")
        return str(error)


def first_rounds(run: Run, folder: Path) -> dict[type[Payload], int]:
    """In which round of an undisturbed run the victim is first asked each kind of ask."""
    rounds: dict[type[Payload], int] = {}

    def record(asked: Delivery) -> Any:
        for kind in parcels_of(asked.message.content) if asked.round else ():
            rounds.setdefault(kind, asked.round)
        return asked.answer()

    said = disturbed(run, folder, record)
    assert said == {}, said
    return rounds
