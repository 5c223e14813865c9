"""Rows of a scenario's table: which a run works on, and with which settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scenarios.registry import Cell, Config, ScenarioError, select_cells
from tests.support.table_scenario import WORLD


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
    plain = replace(WORLD, name="plain", cells=lambda config: ())
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
