"""Disks that are full or cannot be written to, at a site and at the fusion center: real ones, mounted by root.

Whatever the disk, a run ends with whole results or with one sentence and none; a site that could not write sends
nothing, and takes part again by itself when there is room.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from protocols.wire.faults import Fault
from server.results import load
from tests.support.disks import disk, fill, remount
from tests.support.engines import assert_same_run
from tests.support.fault_federations import WORLDS, at_home
from tests.support.parameters import few
from tests.support.runs import InterruptibleGrid, make_grid, outcome_of, run, run_over

pytestmark = pytest.mark.usefixtures("quick")

MEGABYTES_64 = "size=64m"
NOT_WRITTEN = f"{Fault.OUTPUT_NOT_WRITTEN.message} [output-not-written]"
STUCK: dict[str, Callable[[Path], object]] = {
    "full": fill,
    "read-only": lambda path: remount(path, "ro"),
}


class Watched(InterruptibleGrid):
    """A grid that calls back before a round."""

    before: dict[int, Callable[[], object]]

    def push_messages(self, messages: Any) -> Any:
        messages = list(messages)
        self.before.pop(min(int(each.metadata.group_id) for each in messages), lambda: None)()
        return super().push_messages(messages)


def watched(settings: dict[str, Any], nodes: Any, before: dict[int, Callable[[], object]]) -> Path:
    grid = make_grid(settings, nodes)
    grid.__class__ = Watched
    grid.before = before  # type: ignore[attr-defined]
    return run_over(grid, settings)


# -- at a site --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", few(list(STUCK), 2))
@pytest.mark.parametrize("protocol", few(list(WORLDS), 2))
def test_a_site_whose_disk_is_stuck_sends_nothing_and_the_others_go_on(tmp_path: Path, protocol: str, how: str) -> None:
    world = WORLDS[protocol](tmp_path)
    with disk(tmp_path / "homes" / world.name, 4096) as home:
        stick = {world.strikes: lambda: STUCK[how](home)}
        report = load(watched(world.settings, at_home(world.nodes, tmp_path / "homes"), stick))[0]
        assert set(report.missing) == {world.name}
        assert all(line.endswith(NOT_WRITTEN) for line in report.missing[world.name])
        ledger = (home / "ledger.jsonl").read_text()
        assert not ledger or ledger.endswith("\n") or how == "full"
        assert f'"round": {world.strikes}, "direction": "from_site"' not in ledger.replace(NOT_WRITTEN, "")


def test_it_takes_part_again_when_there_is_room(tmp_path: Path) -> None:
    world = WORLDS["bc3e"](tmp_path)
    with disk(tmp_path / "homes" / world.name, 4096) as home:
        steps: dict[int, Callable[[], object]] = {2: lambda: fill(home), 4: (home / "filler").unlink}
        report = load(watched(world.settings, at_home(world.nodes, tmp_path / "homes"), steps))[0]
    assert report.missing == {world.name: [f"round {number}: {NOT_WRITTEN}" for number in (2, 3)]}


# -- at the fusion center ---------------------------------------------------------------------------------------------

SIZES = (4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Kilobytes: on some of these the first file has no room, on others the last."""


@pytest.mark.parametrize("protocol", few(list(WORLDS), 1))
def test_a_full_disk_at_the_center_is_one_sentence_and_the_run_goes_on_later(tmp_path: Path, protocol: str) -> None:
    world = WORLDS[protocol](tmp_path)
    whole = run(world.settings, at_home(world.nodes, tmp_path / "whole"))
    refused = 0
    for size in SIZES:
        with disk(tmp_path / f"results-{size}", size) as output:
            settings = {**world.settings, "output-dir": str(output)}
            outcome = outcome_of(settings, at_home(world.nodes, tmp_path / f"homes-{size}"))
            if outcome.report is not None:
                continue
            refused += 1
            assert "No space left on device" in outcome.refusal, size
            remount(output, MEGABYTES_64)
            if partial := list(output.glob("*/.*.partial")):
                again = {**settings, "resume-from": str(partial[0].with_name(partial[0].name.split(".")[1]))}
                assert_same_run(run(again, at_home(world.nodes, tmp_path / f"homes-{size}")), whole, ledger=False)
    assert 0 < refused < len(SIZES)


def test_an_output_directory_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    world = WORLDS["bc3e"](tmp_path)
    with disk(tmp_path / "results", 64) as output:
        remount(output, "ro")
        refusal = outcome_of(world.settings, at_home(world.nodes, tmp_path / "homes")).refusal
        assert f"nothing can be written to {output} (Read-only file system); set another output-dir" in refusal
