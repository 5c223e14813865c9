"""Rows of a scenario are public: a real site answers about them as a simulated one, and never about its own instead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, RecordDict

from clients.shards import shard
from clients.site import Site
from protocols.sec.payloads import Select
from protocols.wire.message import Ask, Parcel
from server.results import load
from tests.support.grid import config
from tests.support.parameters import few
from tests.support.runs import run

pytestmark = pytest.mark.usefixtures("quick")

SMALL: dict[str, tuple[int, dict[str, Any]]] = {
    "gp": (10, {"scenario": "gp-synthetic", "cells": "rule=grbcm gate=knn", "gp.rows": 200, "gp.fit-rounds": 1}),
    "residual": (5, {"scenario": "residual-friedman1", "cells": "algorithm=average"}),
    "bc3e": (3, {"scenario": "bc3e-wine", "bc3e.max-rounds": 2}),
    "coreset": (3, {"scenario": "coreset-synthetic", "coreset.rows": 300, "coreset.k": 3, "coreset.restarts": 1}),
    "sec": (20, {"scenario": "sec-simulation1", "cells": "p=5 SNR=16"}),
}
"""By protocol, number of sites and what differs from the defaults."""


PARCEL = Parcel("0", Select("lm", "cv", "learner", 1, "fitted", False))


def real_sites(folder: Path, n_sites: int, **more: str) -> list[dict[str, Any]]:
    """Nodes with a place in the scenario and a directory of their own."""
    nodes = []
    for place in range(n_sites):
        name = f"site-{place:0{len(str(n_sites - 1))}d}"
        where = {"site": name, "partition-id": place, "num-partitions": n_sites}
        nodes.append({**where, "site-output-dir": str(folder / name), **more})
    return nodes


@pytest.mark.parametrize("protocol", few(list(SMALL), 3))
def test_real_sites_answer_as_simulated_ones(tmp_path: Path, protocol: str) -> None:
    n_sites, settings = SMALL[protocol]
    (found, arrays), (expected, wanted) = (
        load(run(config(tmp_path / kind, **settings), nodes))
        for kind, nodes in (("real", real_sites(tmp_path, n_sites)), ("simulated", n_sites))
    )
    assert (found.metrics, found.table) == (expected.metrics, expected.table)
    for name, array in wanted.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)
    assert not list(tmp_path.glob("site-*/budget/*"))


@pytest.mark.parametrize("simulated", [True, False])
def test_a_scenario_does_not_read_a_real_site_s_own_file(monkeypatch: pytest.MonkeyPatch, simulated: bool) -> None:
    """Whose columns may be those of public data, so that its rows would leave without protection."""
    read: list[object] = []
    world = SimpleNamespace(shards=lambda settings, seed, n_sites: [read.append(settings.get("data"))] * n_sites)
    monkeypatch.setattr("scenarios.registry.find", lambda name: world)
    own = {"scenario": "public", "data": "/data/patients.csv", "partition-id": 0, "num-partitions": 1}
    shard(own if simulated else {**own, "site": "ward"}, 0, 1, 0, simulated=simulated)
    assert read == (["/data/patients.csv"] if simulated else [None])


def test_a_run_about_a_scenario_has_neither_memory_nor_models_of_the_site_s_own_rows(tmp_path: Path) -> None:
    """The center names the session, and whoever alters the app that a guard hears the scenario, too."""
    node, state, ask = {"site": "ward", "site-output-dir": str(tmp_path)}, RecordDict(), Ask("x", 2, 0, [PARCEL])
    own = Site.open("ward", Context(1, 7, node, state, {"protocol": "sec", "scenario": ""}), replace(ask, round=1))
    own.memory["rows"] = np.arange(3)
    own.close()
    public = Site.open("ward", Context(1, 7, node, state, {"protocol": "", "scenario": "sec-simulation1"}), ask)
    assert public.policy.trusts_center
    assert ("rows" in public.memory, public.earlier_directory) == (False, None)
    again = Site.open("ward", Context(1, 7, node, state, {"protocol": "sec", "scenario": ""}), ask)
    assert ("rows" in again.memory, again.has_private_rows) == (True, True)
