"""The registry of scenarios: every scenario by name, and only the scenarios of one protocol to find one."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from protocols.registry import names
from protocols.settings import declared, run_keys
from scenarios import registry
from scenarios.registry import ScenarioError
from tests.support.documentation import ROOT


def test_all_protocols_scenarios_are_listed_in_alphabetical_order() -> None:
    known = registry.scenarios()
    assert list(known) == sorted(known)
    assert {scenario.protocol for scenario in known.values()} == set(names())


SITES = {
    **dict.fromkeys(("bc3e-german", "bc3e-halfmoon", "bc3e-heart", "bc3e-pima", "bc3e-wine"), 2),
    **dict.fromkeys(("coreset-adult", "coreset-bank", "coreset-diabetes", "coreset-synthetic"), 5),
    **dict.fromkeys(("gp-airfoil", "gp-cancer", "gp-concrete"), 5),
    **dict.fromkeys(("gp-parkinsons", "gp-pole", "gp-protein", "gp-pumadyn"), 10),
    **dict.fromkeys(("gp-sarcos", "gp-song", "gp-synthetic"), 10),
    **dict.fromkeys(("residual-friedman1", "residual-friedman2", "residual-friedman3"), 5),
    **{"residual-concrete": 8, "residual-concrete-nuisance": 16, "residual-curves": 10, "residual-irrelevant": 30},
    **{"residual-cost": 10, "residual-theorem2": 2},
    **{"sec-ct": 97, "sec-fairness": 50, "sec-grid": 50, "sec-simulation1": 20, "sec-simulation2": 20},
}
FIXED = (
    "residual-cost",
    "residual-theorem2",
    "sec-ct",
    "sec-fairness",
    "sec-grid",
    "sec-simulation1",
    "sec-simulation2",
)
"""Scenarios of one number of sites."""


def test_names_protocols_and_numbers_of_sites() -> None:
    known = registry.scenarios()
    assert {name: scenario.sites for name, scenario in known.items()} == SITES
    assert [name for name, scenario in known.items() if not scenario.any_number] == sorted(FIXED)
    for name, scenario in known.items():
        assert (scenario.name, scenario.protocol) == (name, name.partition("-")[0])
        assert not scenario.published
        assert scenario.source
        assert scenario.summary


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("bc3e-whine", "did you mean bc3e-wine[?]"),
        ("theorem", "did you mean residual-theorem2[?]"),
        ("zzz", "there are: bc3e-g.*, sec-simulation2"),
    ],
)
def test_an_unknown_name_has_a_hint(name: str, hint: str) -> None:
    with pytest.raises(ScenarioError, match=f"unknown scenario '{name}'; {hint}$"):
        registry.find(name)


def test_a_second_scenario_of_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="registered twice"):
        registry.register(registry.find("bc3e-wine"))


ONE_OF_EACH_PROTOCOL = ("bc3e-wine", "gp-synthetic", "coreset-synthetic", "residual-theorem2", "sec-simulation1")


@pytest.mark.parametrize("name", ONE_OF_EACH_PROTOCOL)
def test_finding_one_loads_no_other_protocol_and_no_heavy_library(name: str) -> None:
    """A simulated site finds its scenario for every message."""
    others = {*names()} - {name.partition("-")[0]}
    modules = loaded(ONE_OF_EACH_PROTOCOL)[name]
    assert f"scenarios.{name.partition('-')[0]}" in modules
    assert not {module.split(".")[1] for module in modules if module.startswith(("scenarios.", "numerics."))} & others
    assert not {"sklearn", "pandas", "torch", "numba", "ortools", "matplotlib", "flwr"} & modules


@cache
def loaded(scenarios: tuple[str, ...]) -> dict[str, set[str]]:
    """Modules that a fresh process has loaded when it has found one scenario; each one in a copy of one process."""
    code = f"""
import os, sys
from scenarios.registry import find
for name in {scenarios!r}:
    if (child := os.fork()) == 0:
        find(name)
        print(name, *sys.modules, flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return {line.split()[0]: set(line.split()[1:]) for line in done.stdout.splitlines()}


@pytest.mark.parametrize("name", SITES)
def test_what_a_table_sets_is_not_set_by_default(name: str, folder: Path) -> None:
    """Else a user who types the default would get the table's value, and not know."""
    config = {**declared(), "data": str(folder)}
    cells = [cell for chosen in ("", "part") for cell in registry.find(name).cells({**config, "cells": chosen})]
    keys = {key for cell in cells for key in (*cell.settings, *cell.defaults)}
    assert not {key for key in keys if run_keys()[key].declared not in ("", 0)} - WITHOUT_ANY_OTHER_VALUE


WITHOUT_ANY_OTHER_VALUE = {"residual.intercept", "residual.ridge", "sec.allow-row-models"}
"""True or false, or any number, and nothing that could stand for neither; their help says so."""
