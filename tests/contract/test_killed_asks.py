"""A SuperNode is killed in every kind of ask of every protocol: the run ends, and names the site.

Over the in-process grid: what the site had in Flower's context is gone, and it is there again with its disk. Between
real processes tests/process/test_killed_asks.py does the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from protocols import registry
from protocols.wire.payload import Payload
from tests.support import coreset_sites, faults, gp_sites, residual_sites
from tests.support.fault_federations import CUSTOMERS, WARDS, WORLDS, Federation
from tests.support.faults import once
from tests.support.grid import Clock, config
from tests.support.killed_asks import Run, Whole, disturbed, first_rounds
from tests.support.parameters import few
from tests.support.runs import skip_waiting


def run_of(world: Federation) -> Run:
    return Run(world.settings, world.nodes)


def masked(folder: Path) -> Run:
    """The wards, whose sums the center cannot read one by one."""
    world = WORLDS["bc3e"](folder)
    return Run({**world.settings, "secure-aggregation": True, "bc3e.max-rounds": 2}, world.nodes)


def columns(folder: Path) -> Run:
    """Wards with other models of the same patients."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 30)
    nodes = []
    for name in WARDS:
        models = {f"{name}_{each}": np.where(rng.random(30) < 0.4, rng.integers(0, 3, 30), truth) for each in "ab"}
        shared = {"case": range(30), f"class_{name}": models[f"{name}_a"], f"cluster_{name}": models[f"{name}_b"]}
        folder.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(shared).to_csv(folder / f"{name}.csv", index=False)
        nodes.append({"site": name, "data": str(folder / f"{name}.csv"), "id": "case", "allow-shared-instances": True})
    settings = config(folder, protocol="bc3e", bc3e__distribution="column", bc3e__max_rounds=2, bc3e__sweeps=2)
    return Run(settings, nodes)


def residual(folder: Path, holder: str = "", victim: int = 1, **chosen: Any) -> Run:
    """Customers, whose predictions are sealed if a site has the outcome or if they go round a ring."""
    files = residual_sites.write_world(folder / "files", holder=holder, people=residual_sites.customers(CUSTOMERS))
    return Run(
        *residual_sites.deployed_sites(folder, files, holder=holder, residual__rounds=2, **chosen), victim=victim
    )


def binned(folder: Path) -> Run:
    """Customers at sites that allow their bins to be sent."""
    run = residual(folder, residual__algorithm="bins")
    return Run(run.settings, [{**node, "allow-bins": True} for node in run.nodes])


def pooled(folder: Path) -> Run:
    """Labs that allow the center to have their rows."""
    world = WORLDS["sec"](folder)
    nodes = [{**node, "allow-pooling": True} for node in world.nodes]
    return Run({**world.settings, "sec.combine": "pooled-rows"}, nodes)


def exact(folder: Path) -> Run:
    """Patients, whose rows move the centers and are assigned by prices."""
    files = coreset_sites.write_world(folder / "files", coreset_sites.patients(60, groups=3, equal=False))
    chosen: dict[str, Any] = {"coreset__assignment": "exact", "coreset__price_rounds": 2, "coreset__gap": 1e-9}
    chosen |= {"coreset__refine": 1, "coreset__alone": True}
    return Run(
        *coreset_sites.deployed_sites(folder, files, coreset__size=6, coreset__k=2, coreset__restarts=1, **chosen)
    )


def network(folder: Path) -> Run:
    """Wells, with a network that the sites train, and rows that all sites are given."""
    parts = gp_sites.split_over_sites(gp_sites.soundings(48))
    files = gp_sites.write_files(folder / "files", parts, gp_sites.points(6))
    chosen: dict[str, Any] = {"gp__experts": "2", "gp__candidates": 2, "gp__fit_rounds": 1}
    chosen |= {"gp__gate": "dnn", "gp__gate_rounds": 2, "gp__aggregation": "grbcm"}
    return Run(*gp_sites.deployed_sites(folder, files, **chosen))


def large(folder: Path) -> Run:
    """Wells with so many rows that each predicts from the nearest ones."""
    parts = gp_sites.split_over_sites(gp_sites.soundings(320))
    files = gp_sites.write_files(folder / "files", parts, gp_sites.points(6))
    chosen: dict[str, Any] = {"gp__candidates": 2, "gp__fit_rounds": 1, "gp__max_expert_rows": 60, "gp__local": 50}
    return Run(*gp_sites.deployed_sites(folder, files, **chosen))


def graded(folder: Path) -> Run:
    """Wells whose outcome is one of two classes."""

    def of_classes(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(grade=np.where(frame["grade"] > 300, "rich", "poor"))

    parts = gp_sites.split_over_sites(of_classes(gp_sites.soundings(80)), "random")
    files = gp_sites.write_files(folder / "files", parts, of_classes(gp_sites.points(6)))
    return Run(*gp_sites.deployed_sites(folder, files, gp__candidates=2, gp__fit_rounds=1))


RUNS: dict[str, Callable[[Path], Run]] = {
    **{name: lambda folder, name=name: run_of(WORLDS[name](folder)) for name in WORLDS},  # type: ignore[misc]
    "bc3e, masked": masked,
    "bc3e, by column": columns,
    "residual, sealed": lambda folder: residual(folder, "bank", residual__algorithm="parallel"),
    "residual, with the outcome": lambda folder: residual(folder, "shop", residual__algorithm="parallel"),
    "residual, greedy": lambda folder: residual(folder, victim=2, residual__algorithm="greedy"),
    "residual, ring from a site": lambda folder: residual(folder, "shop", residual__topology="ring"),
    "residual, ring": lambda folder: residual(folder, residual__topology="ring"),
    "residual, powers": lambda folder: residual(
        folder,
        residual__algorithm="parallel",
        residual__powers="1 2",
        residual__stop="held-out",
        residual__baselines=True,
    ),
    "residual, bins": binned,
    "sec, pooled rows": pooled,
    "coreset, exact": exact,
    "gp, network": network,
    "gp, large sites": large,
    "gp, classes": graded,
}
OF_PREDICTIONS = {
    "bc3e.Predict",
    "bc3e.PredictShared",
    "residual.Predict",
    "residual.Present",
    "residual.Sum",
}
"""Asks of later predictions, which are runs of one ask."""


@pytest.fixture(scope="module")
def clock() -> Iterator[Clock]:
    with pytest.MonkeyPatch.context() as patch:
        yield skip_waiting(patch)


@pytest.fixture(scope="module")
def undisturbed(clock: Clock, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Whole]:
    """Each run, and when the victim is asked what; each is made once."""

    @cache
    def whole(name: str) -> Whole:
        folder = tmp_path_factory.mktemp("whole")
        run = RUNS[name](folder / "world")
        return run, first_rounds(run, folder)

    return whole


@pytest.mark.parametrize("name", few(list(RUNS), 5))
def test_a_supernode_is_killed_in_every_ask(
    name: str, tmp_path: Path, clock: Clock, undisturbed: Callable[[str], Whole]
) -> None:
    """Before it has done anything of the ask, and when it has done everything but answer."""
    run, rounds = undisturbed(name)
    for number, death in itertools.product(sorted(set(rounds.values())), (faults.dies_before, faults.dies_behind)):
        folder, began = tmp_path / f"{number}-{death.__name__}", clock.now
        called = run.name if number > 1 else f"node {1000 + 7 * run.victim}"
        said = disturbed(run, folder, once(death)(number))
        if isinstance(said, str):
            assert said.endswith(f"({called}: its node failed (Flower error code 5))"), said
        else:
            assert said[called][0] == f"round {number}: its node failed (Flower error code 5)"
            assert set(said) <= {called, run.name}
        assert clock.now - began < 20 * run.settings["round-timeout"], "a wait has no limit"


@pytest.mark.slow
def test_every_kind_of_ask_is_among_them(undisturbed: Callable[[str], Whole]) -> None:
    asked = {kind.title() for name in RUNS for kind in undisturbed(name)[1]}
    declared = {
        kind.title()
        for name in (*WORLDS, *registry.SHARED)
        for kind in vars(registry.room(name, "payloads")).values()
        if isinstance(kind, type) and issubclass(kind, Payload) and kind.answer is not None
    }
    assert sorted(declared - asked) == sorted(OF_PREDICTIONS)
