"""Benchmarks of lies and of guards: what they change arrives, and what they read is what the report says."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.guard_cost import run_world
from benchmarks.lies import LIES, Lie
from benchmarks.lying import NOTHING, WORLDS, draw_world, run_lie

pytestmark = pytest.mark.usefixtures("influence")


def lie(protocol: str, name: str) -> Lie:
    return next(each for each in LIES[protocol] if each.name == name)


@pytest.mark.parametrize(
    ("protocol", "name", "named"),
    [
        ("bc3e", "bound = 2^62", "refused"),
        ("bc3e", "mass = 0", "refused"),
        ("bc3e", "10^9 right decisions", "refused"),
        ("bc3e", "20 % surer of its classes", "note"),
        ("bc3e", "no right decision", "note"),
        ("bc3e", "10^5 clusters", "left out"),
        ("gp", "mean + 5", "note"),
        ("sec", "outcomes with the sign flipped", "a cluster of its own"),
        ("sec", "n = 1e8", "influence"),
        ("coreset", "points + 5", "influence"),
        ("residual", "later rows x 1000", "refused"),
        ("residual", "no entity that others know", "left out"),
        ("residual", "one entity for all rows", "left out"),
    ],
)
def test_a_lie_is_named_as_the_report_names_it(protocol: str, name: str, named: str) -> None:
    assert run_lie(draw_world(protocol, 0), lie(protocol, name), robust=False).named == named


def test_a_refused_lie_changes_nothing_but_that_the_site_is_not_there() -> None:
    world = draw_world("coreset", 0)
    lied = run_lie(world, lie("coreset", "weights x 10"), robust=False)
    assert lied.measure == run_lie(world, NOTHING, robust=False, absent=1).measure
    assert lied.measure != run_lie(world, NOTHING, robust=False).measure


def test_one_site_does_not_choose_the_draws_where_it_must_not() -> None:
    world, surer = draw_world("bc3e", 0), lie("bc3e", "20 % surer of its classes")
    assert run_lie(world, surer, robust=True).measure < run_lie(world, surer, robust=False).measure / 2


def test_real_sites_run_the_same_world() -> None:
    world = WORLDS["bc3e"](np.random.default_rng(0))
    assert run_world(world, real=True) == pytest.approx(run_world(world, real=False), abs=0.05)
