"""Scenarios that are tables: which rows a run works on, on which lanes, what they add up to, and the whole contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, RecordDict

import clients.site
from clients.shards import cell_settings
from clients.site import Site
from numerics.shared.regression_rows import RegressionRows
from protocols.bc3e.payloads import Survey
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.message import ENVELOPE, Ask
from scenarios import registry
from scenarios.registry import Cell, Config, Scenario, ScenarioError, select_cells
from server.evaluation import evaluate
from server.results import load
from strategies.cells import Table
from strategies.conversation import Broadcast, Conversation
from strategies.fusion import FusionStrategy
from tests.support.contract import StrategyContract, WholeRun
from tests.support.grid import config
from tests.support.runs import Nodes, run_with_grid
from tests.support.runs import run as run_whole

NAME = "test-table"
N_SITES, REPETITIONS = 3, 3


# -- a small world of three learners, the last of which differs by the cell's effect ----------------------------------


def _shards(config: Config, seed: int, n_sites: int) -> list[RegressionRows]:
    """Fifteen rows each of two inputs, and eight to measure errors with."""
    found = []
    for site in range(n_sites):
        rng = np.random.default_rng([seed, site])
        x = rng.normal(size=(23, 2))
        slope = 1.0 + float(config["sec.effect"]) * (site == n_sites - 1)
        y = slope * x[:, 0] - x[:, 1] + 0.1 * rng.normal(size=23)
        found.append(RegressionRows(x[:15], y[:15], x[15:], y[15:], ("a", "b")))
    return found


def _baselines(config: Config, seed: int) -> dict[str, float]:
    return {"effect_and_seed": float(config["sec.effect"]) + 100 * seed}


def _cells(config: Config) -> list[Cell]:
    pinned = {"sec.standardize": "none", "sec.candidates": "lr"}
    return [
        Cell({"effect": effect}, {**pinned, "sec.effect": effect}, {"mse_all": 0.25} if effect else {})
        for effect in (0.0, 4.0)
    ]


WORLD = Scenario(
    name=NAME, protocol="sec", sites=N_SITES, any_number=False, source="drawn", summary="a test",
    shards=_shards, baselines=_baselines, cells=_cells, at_once=1, columns=("n_clusters", "mse_all"),
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry._SCENARIOS, NAME, WORLD)
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


@pytest.mark.parametrize("at_once", [0, 2])
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


# -- which rows -------------------------------------------------------------------------------------------------------


def _grid_of_cells(config: Config) -> list[Cell]:
    return [Cell({"p": p, "c": c, "scans": "made"}, {}) for p in (5, 10) for c in (0.5, 1.0)]


GRID = replace(WORLD, name="grid", cells=_grid_of_cells)


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        ("", [(5, 0.5), (5, 1.0), (10, 0.5), (10, 1.0)]),
        ("p=5", [(5, 0.5), (5, 1.0)]),
        ("c=0.5 p=10", [(10, 0.5)]),
        ("c=0.5,p=10", [(10, 0.5)]),
        ("c=1", [(5, 1.0), (10, 1.0)]),  # as the table shows it
        ("c=1.0", [(5, 1.0), (10, 1.0)]),
        ("scans=made p=5", [(5, 0.5), (5, 1.0)]),
    ],
)
def test_rows_are_chosen_by_their_labels(cells: str, labels: list[tuple[int, float]]) -> None:
    chosen = select_cells(GRID, {"cells": cells})
    assert [(cell.labels["p"], cell.labels["c"]) for cell in chosen] == labels


def test_a_published_figure_is_of_the_papers_settings() -> None:
    paper = Cell({"p": 5}, {"sec.effect": 1.0}, {"mse_all": 0.25}, {"sec.k-min": 2})
    world = replace(GRID, cells=lambda config: [paper])
    for typed, published in ((0, paper.published), (2, paper.published), (3, {})):
        (cell,) = select_cells(world, {"sec.k-min": typed})
        assert cell.published == published
        assert ("sec.k-min" in cell.settings) == (typed == 0)


@pytest.mark.parametrize("cells", ["p=7", "q=5", "p", "p=5 c=2", "5"])
def test_labels_that_no_row_has_are_answered_by_those_there_are(cells: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        select_cells(GRID, {"cells": cells})
    there_are = "p=5, 10; c=0.5, 1; scans=made"
    assert str(caught.value) == f"cells={cells!r}: no row of grid has these labels; there are: {there_are}"


def test_a_scenario_that_is_no_table_has_no_rows_to_choose() -> None:
    plain = replace(WORLD, name="plain", cells=registry.no_cells)
    assert select_cells(plain, {}) == []
    with pytest.raises(ScenarioError) as caught:
        select_cells(plain, {"cells": "p=5"})
    assert str(caught.value) == "cells='p=5': plain has no table"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, {"sec.k": 2, "sec.combine": "pooled-linear"}),
        ({"sec.k": 0, "sec.combine": ""}, {"sec.k": 2, "sec.combine": "pooled-linear"}),
        ({"sec.k": 3, "sec.combine": ""}, {"sec.k": 2, "sec.combine": "pooled-linear"}),
        ({"sec.k": 3, "sec.combine": "average"}, {"sec.k": 2}),
    ],
)
def test_a_row_s_defaults_hold_where_the_run_says_nothing(config: Config, expected: dict[str, Any]) -> None:
    """And its settings whatever the run says."""
    cell = Cell({"p": 5}, {"sec.k": 2}, defaults={"sec.combine": "pooled-linear"})
    for cells in ("", "p=5"):
        [chosen] = select_cells(replace(WORLD, cells=lambda _: [cell]), {**config, "cells": cells})
        assert chosen.settings == expected


# -- lanes at the sites -----------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("node", [{}, {"site": "clinic"}, {"site-output-dir": "out"}, {"candidates": "ridge"}])
def test_a_cell_pins_what_the_run_sets_and_leaves_a_node_its_own(node: dict[str, Any]) -> None:
    site = open_site("2.1", **node)
    assert site.config["sec.effect"] == 4.0
    assert site.config["sec.candidates"] == "lr"
    assert {key: site.config[key] for key in node} == node
    assert site.repetition == 2


# -- a site's randomness ----------------------------------------------------------------------------------------------


@pytest.fixture
def _same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients.site, "shard", lambda *_, **__: _shards({"sec.effect": 0.0}, 0, 1)[0])


@pytest.mark.usefixtures("_same_rows")
@pytest.mark.parametrize(("lane", "number"), [("1.0", 1), ("1.0", 9), ("1.1", 1), ("1", 3)])
def test_randomness_of_a_shard_is_that_of_its_repetition_in_every_ask_and_cell(lane: str, number: int) -> None:
    expected = open_site("1.0").shard_rng.random(4)
    np.testing.assert_array_equal(open_site(lane, number=number).shard_rng.random(4), expected)


@pytest.mark.usefixtures("_same_rows")
def test_randomness_of_a_shard_differs_between_repetitions_and_seeds() -> None:
    """Though the rows, here, are the same."""
    draws = {tuple(open_site(lane, seed=seed).shard_rng.random(4)) for lane in ("0.0", "1.0", "2.0") for seed in (0, 9)}
    assert len(draws) == 6


def test_randomness_of_a_shard_differs_between_shards() -> None:
    draws = {tuple(open_site("0.0", **{"partition-id": place}).shard_rng.random(4)) for place in range(N_SITES)}
    assert len(draws) == N_SITES


# -- what repetitions and cells add up to -----------------------------------------------------------------------------


class Told(FusionStrategy):
    """Its outcomes are its metrics."""

    def conversation(self, repetition: int = 0) -> Conversation[dict[str, float]]:
        raise NotImplementedError

    def metrics(self, outcome: dict[str, float]) -> dict[str, float]:
        return {name: value for name, value in outcome.items() if not name.startswith("left out ")}

    def arrays(self, outcome: dict[str, float]) -> dict[str, np.ndarray]:
        return {"first": np.array(outcome["m"])}

    def excluded(self, outcome: dict[str, Any]) -> Mapping[str, str]:
        return {name.removeprefix("left out "): value for name, value in outcome.items() if name.startswith("left")}

    def costs(self, lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        return {"bytes": float(sum(line["bytes"] for line in lines))} if lines else {}


def evaluated(
    outcomes: Sequence[Any], shown: tuple[str, ...] = (), cells: str = "", ledger: Sequence[Mapping[str, Any]] = ()
) -> Any:
    scenario = replace(WORLD, columns=shown)
    members = [Told(seed=5) for _ in select_cells(scenario, {"cells": cells})]
    return evaluate({"cells": cells, "sec.effect": 1.0}, scenario, Table(members, seed=5), outcomes, ledger)


def test_metrics_of_a_table_are_means_over_its_cells() -> None:
    found = evaluated([[{"m": 1.0}, {"m": 5.0}], [{"m": 2.0}, {"m": 10.0}]])
    assert found.metrics["m"] == 4.5
    assert found.metrics["m_se"] == pytest.approx(1.5)  # of 3 and 6: repetitions vary, cells do not
    np.testing.assert_array_equal(found.arrays["cells_m"], [[1, 2], [5, 10]])
    assert found.arrays["first"] == 1.0
    assert [(row["m"], row["m_se"]) for row in found.table] == [(1.5, 0.5), (7.5, 2.5)]


def test_baselines_are_those_of_the_cell_and_of_the_repetitions_seed() -> None:
    found = evaluated([[{"m": 1.0}, {"m": 5.0}], [{"m": 2.0}, {"m": 10.0}]])
    np.testing.assert_array_equal(found.arrays["cells_effect_and_seed"], [[500, 600], [504, 604]])


def test_one_repetition_has_no_standard_error() -> None:
    found = evaluated([[{"m": 1.0}, {"m": 5.0}]])
    assert not [name for name in [*found.metrics, *found.table[0]] if name.endswith("_se")]


def test_a_metric_that_some_repetition_lacks_is_left_out() -> None:
    found = evaluated([[{"m": 1.0, "q": 1.0}, {"m": 2.0, "q": 3.0}], [{"m": 1.0}, {"m": 2.0, "q": 5.0}]])
    assert "q" not in found.table[0]
    assert found.table[1]["q"] == 4.0
    assert "q" not in found.metrics, "a mean over some of the cells would be compared with one over all"


def test_a_row_shows_what_the_scenario_wants_in_its_order_with_the_papers_figures() -> None:
    outcomes = [[{"mse_all": 1.0, "m": 2.0}, {"mse_all": 3.0, "m": 4.0}]]
    found = evaluated(outcomes, shown=("m", "absent", "mse_all"))
    assert found.table == [
        {"effect": 0.0, "m": 2.0, "mse_all": 1.0},
        {"effect": 4.0, "m": 4.0, "mse_all": 3.0, "mse_all published": 0.25},
    ]
    [row] = evaluated([outcomes[0][1:]], shown=("mse_all",), cells="effect=4").table
    assert row == {"effect": 4.0, "mse_all": 3.0, "mse_all published": 0.25}


def test_a_site_is_left_out_for_the_first_reason_of_all_cells_and_repetitions() -> None:
    one, two = {"m": 1.0, "left out x": "first"}, {"m": 1.0, "left out x": "second", "left out y": "third"}
    assert evaluated([[one, two], [two, one]]).excluded == {"x": "first", "y": "third"}


def test_own_data_have_no_baselines_and_every_repetitions_values() -> None:
    found = evaluate({}, None, Told(), [{"m": 1.0, "q": 7.0}, {"m": 4.0}])
    assert found.metrics == pytest.approx({"m": 2.5, "m_se": 1.5})
    np.testing.assert_array_equal(found.arrays["repetitions_m"], [1, 4])
    assert found.table == []
    assert not [name for name in evaluate({}, None, Told(), [{"m": 1.0}]).arrays if name != "first"]


def crossed(**sizes: int) -> list[dict[str, Any]]:
    """A ledger of two sites: by lane (``_1_0`` for ``1.0``, ``_`` for an envelope), the bytes of each one's line."""
    lanes = {name.removeprefix("_").replace("_", "."): size for name, size in sizes.items()}
    return [{"lane": lane, "site": site, "bytes": size} for lane, size in lanes.items() for site in "ab"]


def test_what_crossed_in_a_repetition_joins_its_metrics() -> None:
    outcomes = [{"m": 1.0}] * 11
    sizes = {f"_{r}": r for r in range(11)}  # lane 10 is not lane 1
    found = evaluate({}, None, Told(), outcomes, crossed(_=100, **sizes, _1_0=1000, _1_0_2=10_000))
    np.testing.assert_array_equal(found.arrays["repetitions_bytes"], [0, 22_002, *range(4, 22, 2)])
    assert found.metrics["bytes"] == pytest.approx((22_000 + 2 * 55) / 11)


def test_what_crossed_in_a_cell_joins_that_cells_row() -> None:
    outcomes = [[{"m": 1.0}, {"m": 5.0}], [{"m": 2.0}, {"m": 10.0}]]
    ledger = crossed(_=100, _0_0=1, _0_1=2, _1_0=3, _1_1=4, _1_1_0=40, _0_10=1000)
    found = evaluated(outcomes, ledger=ledger)
    np.testing.assert_array_equal(found.arrays["cells_bytes"], [[2, 6], [4, 88]])
    assert [row["bytes"] for row in found.table] == [4, 46]
    assert found.metrics["bytes"] == 25


def test_costs_that_some_repetition_lacks_are_left_out() -> None:
    assert "bytes" not in evaluate({}, None, Told(), [{"m": 1.0}] * 2, crossed(_0=1)).metrics


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


def test_conversations_of_the_cells_run_side_by_side() -> None:
    class Asking(Told):
        def conversation(self, repetition: int = 0) -> Conversation[Any]:
            answers = yield Broadcast(Survey("row", f"{self.seed}/{repetition}"))
            return answers

    conversation = Table([Asking(seed=1), Asking(seed=2)]).conversation(3)
    request: Any = next(conversation)
    assert {lane: each.ask.salt for lane, each in request.requests.items()} == {"0": "1/3", "1": "2/3"}
    with pytest.raises(StopIteration) as ended:
        conversation.send({"0": {"a": 1}, "1": {"a": 2}})
    assert ended.value.value == [{"a": 1}, {"a": 2}]
