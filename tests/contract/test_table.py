"""Scenarios that are tables: which rows a run works on, on which lanes, what they add up to, and the whole contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protocols.wire.message import ENVELOPE
from scenarios import registry
from scenarios.registry import ScenarioError
from server.results import load
from strategies.fusion import FusionStrategy
from tests.support.contract import StrategyContract, WholeRun
from tests.support.grid import config
from tests.support.parameters import few
from tests.support.runs import Nodes, run_with_grid
from tests.support.runs import run as run_whole
from tests.support.table_scenario import N_SITES, NAME, REPETITIONS, WORLD, registered

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Iterator[None]:
    with registered():
        yield


def table_config(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    return config(tmp_path, scenario=NAME, repetitions=REPETITIONS, **changes)


class TableRun(WholeRun):
    """Two cells and three repetitions that share their rounds one at a time."""

    protocol = "sec"

    def run_config(self, tmp_path: Path) -> dict[str, Any]:
        return table_config(tmp_path)

    def nodes(self) -> Nodes:
        return N_SITES

    def output_files(self, path: Path) -> dict[tuple[str, str], bytes]:
        assert not list(path.glob("sites/*/*.csv")), "sites of a table play many parts, and write for none of them"
        return {}


@pytest.mark.slow
class TestContract(TableRun, StrategyContract):
    def test_names_of_the_sites_do_not_matter(self, tmp_path: Path, whole: Path) -> None:
        """Arrays are in the order of the names; apart from that, nothing depends on them."""
        expected = load(whole)[0]
        for names in (["a", "b", "c"], ["z", "y", "x"]):
            report, arrays = load(run_whole(self.run_config(tmp_path), self.named_nodes(names)))
            assert report.sites == arrays["learners"].tolist() == sorted(names)
            assert report.metrics == pytest.approx(expected.metrics, rel=1e-12)


class TestTable(TableRun):
    def test_every_cell_is_what_a_run_of_it_alone_is(self, tmp_path: Path, whole: Path) -> None:
        report, arrays = load(whole)
        for place, effect in enumerate((0, 4)):
            path = run_whole({**table_config(tmp_path), "cells": f"effect={effect}"}, N_SITES)
            alone, of_one = load(path)
            assert alone.table == report.table[place : place + 1]
            assert alone.published == ({"mse_all": 0.25} if effect else {}), "the paper's figure of that row"
            assert not report.published
            for name in alone.metrics:
                if not name.endswith("_se") and name != "n_cells":
                    np.testing.assert_array_equal(of_one[f"cells_{name}"][0], arrays[f"cells_{name}"][place])

    def test_a_repetition_is_what_a_run_with_its_seed_is(self, tmp_path: Path, whole: Path) -> None:
        arrays = load(whole)[1]
        for repetition in range(REPETITIONS):
            path = run_whole({**table_config(tmp_path), "repetitions": 1, "seed": repetition}, N_SITES)
            of_one = load(path)[1]
            for name in ("mse_alone", "mse_cluster", "mse_all", "n_clusters", "effect_and_seed"):
                np.testing.assert_array_equal(of_one[f"cells_{name}"][:, 0], arrays[f"cells_{name}"][:, repetition])

    def test_repetitions_take_turns_and_cells_do_not(self, whole: Path) -> None:
        report = load(whole)[0]
        assert report.rounds == 3 * REPETITIONS
        assert report.ledger["messages"] == 2 * N_SITES * report.rounds
        assert report.ledger["by_payload"]["sec.Select"]["messages"] == N_SITES * 2 * REPETITIONS

    def test_the_table_has_a_row_for_every_cell(self, whole: Path) -> None:
        report = load(whole)[0]
        assert [list(row) for row in report.table] == [
            ["effect", "n_clusters", "n_clusters_se", "mse_all", "mse_all_se"],
            ["effect", "n_clusters", "n_clusters_se", "mse_all", "mse_all_se", "mse_all published"],
        ]
        assert [row["n_clusters"] for row in report.table] == [1, 2]
        assert report.metrics["effect_and_seed"] == 2 + 100  # means of 0 and 4, of the seeds 0, 1 and 2
        assert report.metrics["effect_and_seed_se"] == pytest.approx(100 / np.sqrt(3))


@pytest.mark.parametrize("at_once", few([0, 2]))
def test_how_many_repetitions_share_their_rounds_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    one, expected = load(run_with_grid(table_config(tmp_path), N_SITES)[0])
    monkeypatch.setitem(registry._SCENARIOS, NAME, replace(WORLD, at_once=at_once))
    report, arrays = load(run_with_grid(table_config(tmp_path), N_SITES, run_id=2)[0])
    assert report.table == one.table
    assert report.metrics == one.metrics
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array)
    assert report.rounds == 3 * -(-REPETITIONS // (at_once or REPETITIONS))


def test_a_row_that_is_not_there_is_one_line_and_no_results(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"cells='effect=9': no row of test-table has these labels; there are: "):
        run_with_grid(table_config(tmp_path, cells="effect=9"), N_SITES)
    assert not list(tmp_path.rglob("report.json"))


def test_a_run_gives_its_strategies_what_crossed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def costs(self: FusionStrategy, lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        return {"bytes": float(sum(line["bytes"] for line in lines)), "lanes": float(len({x["lane"] for x in lines}))}

    monkeypatch.setattr(FusionStrategy, "costs", costs)
    report, arrays = load(run_whole(table_config(tmp_path), N_SITES))
    assert arrays["cells_bytes"].shape == (2, REPETITIONS)
    assert (arrays["cells_lanes"] == 1).all()
    envelopes = report.ledger["by_payload"][ENVELOPE]["bytes"]
    everything = report.ledger["bytes_to_sites"] + report.ledger["bytes_from_sites"]
    assert arrays["cells_bytes"].sum() == everything - envelopes
