"""What the outcomes of repetitions and cells add up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from protocols.bc3e.payloads import Survey
from scenarios.registry import select_cells
from server.evaluation import evaluate
from strategies.cells import Table
from strategies.conversation import Broadcast, Conversation
from strategies.fusion import FusionStrategy
from tests.support.table_scenario import WORLD


class Measured(FusionStrategy):
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
    members = [Measured(seed=5) for _ in select_cells(scenario, {"cells": cells})]
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
    found = evaluate({}, None, Measured(), [{"m": 1.0, "q": 7.0}, {"m": 4.0}])
    assert found.metrics == pytest.approx({"m": 2.5, "m_se": 1.5})
    np.testing.assert_array_equal(found.arrays["repetitions_m"], [1, 4])
    assert found.table == []
    assert not [name for name in evaluate({}, None, Measured(), [{"m": 1.0}]).arrays if name != "first"]


def crossed(**sizes: int) -> list[dict[str, Any]]:
    """A ledger of two sites: by lane (``_1_0`` for ``1.0``, ``_`` for an envelope), the bytes of each one's line."""
    lanes = {name.removeprefix("_").replace("_", "."): size for name, size in sizes.items()}
    return [{"lane": lane, "site": site, "bytes": size} for lane, size in lanes.items() for site in "ab"]


def test_what_crossed_in_a_repetition_joins_its_metrics() -> None:
    outcomes = [{"m": 1.0}] * 11
    sizes = {f"_{r}": r for r in range(11)}  # lane 10 is not lane 1
    found = evaluate({}, None, Measured(), outcomes, crossed(_=100, **sizes, _1_0=1000, _1_0_2=10_000))
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
    assert "bytes" not in evaluate({}, None, Measured(), [{"m": 1.0}] * 2, crossed(_0=1)).metrics


def test_conversations_of_the_cells_run_side_by_side() -> None:
    class Asking(Measured):
        def conversation(self, repetition: int = 0) -> Conversation[Any]:
            answers = yield Broadcast(Survey("row", f"{self.seed}/{repetition}"))
            return answers

    conversation = Table([Asking(seed=1), Asking(seed=2)]).conversation(3)
    request: Any = next(conversation)
    assert {lane: each.ask.salt for lane, each in request.requests.items()} == {"0": "1/3", "1": "2/3"}
    with pytest.raises(StopIteration) as ended:
        conversation.send({"0": {"a": 1}, "1": {"a": 2}})
    assert ended.value.value == [{"a": 1}, {"a": 2}]
