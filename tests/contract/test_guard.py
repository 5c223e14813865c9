"""Whole runs of sites with guards: the code of the run is a messenger, and the result is that of a run without."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from protocols.wire.faults import Fault
from server.results import load
from tests.support.engines import assert_same_run
from tests.support.fault_federations import WORLDS, Node, at_home
from tests.support.guards import guarded
from tests.support.parameters import few
from tests.support.residual_sites import same_learning
from tests.support.runs import InterruptibleGrid, make_grid, run, run_over

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    """What Flower's logger says."""
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    return caplog


VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in WORLDS},
    "masked": ("bc3e", {"secure-aggregation": True}),
}
"""Protocol and further settings: also masked sums, whose private keys the guards have."""


def written(home: Path) -> dict[str, bytes]:
    """The files that a site has for its operator, but the ledger and what belongs to one run."""
    kept = ("budget", "commitments", "memory-", "models", "shard-cache", "turns", "ledger.jsonl", "guard.lock")
    files = {path.relative_to(home): path for path in home.rglob("*") if path.is_file()}
    return {str(name): path.read_bytes() for name, path in files.items() if not name.parts[0].startswith(kept)}


def lines(home: Path) -> list[tuple[Any, ...]]:
    """What the site's ledger says has left, but for what every run has of its own."""
    with (home / "ledger.jsonl").open(encoding="utf-8") as file:
        return [tuple(line[key] for key in ("round", "lane", "payload")) for line in map(json.loads, file)]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_run_through_guards_is_the_run_without_to_the_bit(tmp_path: Path, variant: str) -> None:
    name, further = VARIANTS[variant]
    world = WORLDS[name](tmp_path)
    settings = {**world.settings, **further}
    plain = run(settings, at_home(world.nodes, tmp_path / "plain"))
    with guarded(at_home(world.nodes, tmp_path / "guarded")) as nodes:
        through = run(settings, nodes)
    assert_same_run(through, plain)
    for site in world.names:
        one, other = tmp_path / "guarded" / site, tmp_path / "plain" / site
        assert lines(one) == lines(other)
        assert written(one) == written(other)


@pytest.mark.parametrize("variant", few(list(VARIANTS), 2))
def test_an_interrupted_run_through_guards_goes_on_though_they_forgot_all(tmp_path: Path, variant: str) -> None:
    """The guards are started again in between, and their disks are lost: all is asked anew."""
    name, further = VARIANTS[variant]
    world = WORLDS[name](tmp_path)
    settings = {**world.settings, **further}
    plain = run(settings, at_home(world.nodes, tmp_path / "plain"))
    homes = tmp_path / "guarded"
    with guarded(at_home(world.nodes, homes)) as nodes:
        partial = interrupted(make_grid(settings, nodes), settings, world.strikes)
    shutil.rmtree(homes)
    with guarded(at_home(world.nodes, homes)) as nodes:
        through = run({**settings, "resume-from": str(partial)}, nodes)
    same_learning(load(through), load(plain))


def interrupted(grid: InterruptibleGrid, settings: dict[str, Any], after: int) -> Path:
    """The name of a run that was stopped after a round."""
    grid.stop_after = after
    with pytest.raises(KeyboardInterrupt):
        run_over(grid, settings)
    [partial] = Path(settings["output-dir"]).glob("*/.*.partial")
    return partial.with_name(partial.name.split(".")[1])


def test_a_node_configuration_with_a_guard_has_no_data(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    world = WORLDS["bc3e"](tmp_path)
    with guarded(at_home(world.nodes, tmp_path / "homes")) as nodes:
        mixed: list[Node] = [*nodes[:-1], {**nodes[-1], "data": str(world.nodes[-1]["data"])}]
        report = load(run(world.settings, mixed))[0]
    assert report.missing == {world.names[-1]: [f"round 1: {Fault.BAD_CONFIGURATION.message} [bad-configuration]"]}
    assert "guard is set, so data belongs to the guard's own configuration" in log.text
