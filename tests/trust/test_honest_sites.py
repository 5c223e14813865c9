"""No honest site is refused or named, whatever its rows: a few of the drawn worlds of `benchmarks.honest`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.honest import run_world
from benchmarks.honest_worlds import WORLDS, draw_world
from tests.support.parameters import few

pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.parametrize("protocol", sorted(WORLDS))
@pytest.mark.parametrize("number", few(range(8), 2))
def test_real_sites_with_the_default_policy(tmp_path: Path, protocol: str, number: int) -> None:
    assert run_world(draw_world(protocol, number), tmp_path) == []


@pytest.mark.parametrize(
    ("protocol", "number"),
    [("bc3e", 44), ("gp", 191), ("residual", 134)],
    ids=["a site with most instances", "rounded predictions at landmarks", "an average with an irrelevant site"],
)
def test_honest_sites_that_were_refused_or_named_once(tmp_path: Path, protocol: str, number: int) -> None:
    assert run_world(draw_world(protocol, number), tmp_path) == []
