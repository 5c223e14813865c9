"""Lanes at a site: the settings of their cell, and a randomness of their repetition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, RecordDict

import clients.site
from clients.digest import digest_of
from clients.shards import cell_settings
from clients.site import Site
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.message import Ask
from tests.support.table_scenario import N_SITES, NAME, registered, shards


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Iterator[None]:
    with registered():
        yield


@pytest.mark.parametrize(("lane", "effect"), [("0.0", 0.0), ("0.1", 4.0), ("7.1", 4.0), ("0", 0.0)])
def test_a_lane_has_the_settings_of_its_cell(lane: str, effect: float) -> None:
    assert cell_settings({"scenario": NAME}, lane)["sec.effect"] == effect


def test_a_lane_counts_the_rows_that_were_chosen() -> None:
    assert cell_settings({"scenario": NAME, "cells": "effect=4"}, "2.0")["sec.effect"] == 4.0


@pytest.mark.parametrize(("cells", "lane", "n"), [("", "0.2", 2), ("effect=4", "0.1", 1)])
def test_a_lane_beyond_the_table_is_refused(cells: str, lane: str, n: int) -> None:
    with pytest.raises(SiteFault, match=f"lane {lane}: the scenario's table has {n} cells") as caught:
        cell_settings({"scenario": NAME, "cells": cells}, lane)
    assert caught.value.fault == Fault.MALFORMED_ASK


@pytest.mark.parametrize(
    "config",
    [{"scenario": "bc3e-wine"}, {"scenario": "unheard-of"}, {"protocol": "sec", "scenario": NAME}, {}],
    ids=["no table", "no scenario", "own data", "nothing"],
)
def test_where_there_is_no_table_a_lane_sets_nothing(config: dict[str, str]) -> None:
    assert cell_settings(config, "0") == {}
    assert cell_settings(config, "3.1") == {}


def open_site(lane: str, *, number: int = 1, seed: int = 0, **node: Any) -> Site:
    node_config = {"partition-id": 0, "num-partitions": N_SITES, **node}
    context = Context(1, 7, node_config, RecordDict(), {"scenario": NAME, "sec.effect": 1.0, "sec.candidates": "rf"})
    return Site.open("a", context, Ask("1", number, seed, ())).in_lane(lane)


def draw(site: Site) -> list[float]:
    """Return what the site draws at random from the digest of its rows."""
    return site.rng_of(digest_of(site.shard)).random(4).tolist()


@pytest.mark.parametrize("node", [{}, {"site": "clinic"}, {"site-output-dir": "out"}, {"candidates": "ridge"}])
def test_a_cell_pins_what_the_run_sets_and_leaves_a_node_its_own(node: dict[str, Any]) -> None:
    site = open_site("2.1", **node)
    assert site.config["sec.effect"] == 4.0
    assert site.config["sec.candidates"] == "lr"
    assert {key: site.config[key] for key in node} == node
    assert site.repetition == 2


@pytest.fixture
def _same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients.site, "shard", lambda *_, **__: shards({"sec.effect": 0.0}, 0, 1)[0])


@pytest.mark.usefixtures("_same_rows")
@pytest.mark.parametrize(("lane", "number"), [("1.0", 1), ("1.0", 9), ("1.1", 1), ("1", 3)])
def test_randomness_of_a_shard_is_that_of_its_repetition_in_every_ask_and_cell(lane: str, number: int) -> None:
    expected = draw(open_site("1.0"))
    np.testing.assert_array_equal(draw(open_site(lane, number=number)), expected)


@pytest.mark.usefixtures("_same_rows")
def test_randomness_of_a_shard_differs_between_repetitions_and_seeds() -> None:
    """Though the rows, here, are the same."""
    draws = {tuple(draw(open_site(lane, seed=seed))) for lane in ("0.0", "1.0", "2.0") for seed in (0, 9)}
    assert len(draws) == 6


def test_randomness_of_a_shard_differs_between_shards() -> None:
    draws = {tuple(draw(open_site("0.0", **{"partition-id": place}))) for place in range(N_SITES)}
    assert len(draws) == N_SITES
