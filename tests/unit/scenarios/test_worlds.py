"""All scenarios on small data: worlds by their seed, and tables that a run configuration can take."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from protocols.settings import run_keys
from scenarios import registry
from scenarios.registry import ScenarioError
from tests.support.documentation import ROOT
from tests.support.worlds import config_of, world

NAMES = list(registry.scenarios())
TABLES = [name for name in NAMES if not name.startswith("bc3e-") and name not in ("coreset-synthetic", "gp-cancer")]


def config(name: str, folder: Path) -> dict[str, Any]:
    """With the settings of the last row of its table."""
    own = config_of(name, folder)
    cells = registry.find(name).cells(own)
    return {**own, **(cells[-1].settings if cells and not name.startswith("gp-") else {})}


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_is_another_world(name: str, folder: Path) -> None:
    own = config(name, folder)
    assert world(name, own, 5) != world(name, own, 6)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_rows_that_the_run_configuration_can_take(name: str, folder: Path) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    scenario, own = registry.find(name), {"data": str(folder)}
    main, every = scenario.cells(own), scenario.cells({**own, "cells": "all=1"})
    assert main
    assert main == every[: len(main)]
    assert len({tuple(cell.labels.items()) for cell in every}) == len(every)
    for cell in every:
        assert set(cell.published) <= set(scenario.columns)
        for key, value in (*cell.settings.items(), *cell.defaults.items()):
            section, _, short = key.rpartition(".")
            assert type(value) is type((declared[section] if section else declared)[short]), key
            assert run_keys()[key].check(value) == value
        # A row can be selected by its labels.
        labels = [f"{label}={value}" for label, value in cell.labels.items() if " " not in str(value)]
        chosen = registry.select_cells(scenario, {**own, "cells": " ".join(labels)})
        assert cell.labels in [each.labels for each in chosen]
        assert len(chosen) == 1 or len(labels) < len(cell.labels)


@pytest.mark.parametrize("name", [name for name in TABLES if "file" in registry.find(name).source])
def test_wrong_data_are_an_error_before_any_site_is_asked(name: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="is neither a CSV file nor a directory that holds "):
        registry.find(name).cells({"data": str(tmp_path)})


@pytest.mark.parametrize("name", ["coreset-bank", "gp-pumadyn"])
def test_a_missing_file_that_openml_does_not_have_is_an_error_before_any_site_is_asked(name: str) -> None:
    with pytest.raises(ScenarioError, match=r"^no file of the .* data was found: set the run configuration's data to "):
        registry.find(name).cells({})


@pytest.mark.parametrize("name", [name for name in NAMES if name not in TABLES])
def test_other_scenarios_have_no_table(name: str) -> None:
    assert registry.find(name).cells({}) == ()
