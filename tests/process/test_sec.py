"""SEC through real `flwr run`: simulation engine, Ray, FAB, a SuperLink process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from scenarios.data_set import DATA_VARIABLE
from server.results import load
from tests.process.processes import APP, FlowerHome, flwr_run
from tests.process.test_bc3e import assert_equal, results_of
from tests.support.grid import config
from tests.support.runs import run_with_grid
from tests.support.sec_sites import draw_rows, write_sites

pytestmark = pytest.mark.slow

SHARED = Path(os.environ.get(DATA_VARIABLE) or APP.parent / "shared" / "data").absolute()
GRID = next((path for n in ("", ".gz") if (path := SHARED / f"grid_stability.csv{n}").is_file()), None)
GROUPS = [0, 1, 0, 1, 0]


def test_a_scenario_is_the_same_in_the_simulation_engine_and_in_process(flower: FlowerHome, tmp_path: Path) -> None:
    """The electrical grid with half of its sites attacked, if its data are there; else a made world."""
    settings: dict[str, Any] = {"scenario": "sec-simulation1", "cells": "p=5 SNR=16"}
    sites, clusters = 20, 2
    if GRID is not None:
        settings, sites = {"scenario": "sec-grid", "cells": "attacked=25", "data": str(GRID)}, 50
    found = results_of(flwr_run(APP, {**settings, "output-dir": str(tmp_path / "results")}, sites, flower.env))
    assert_equal(found, run_with_grid(config(tmp_path / "in-process", **settings), sites)[0])
    report, _ = load(found)
    assert (len(report.sites), report.rounds, report.missing) == (sites, 3, {})
    assert report.metrics["n_clusters"] == clusters
    assert report.metrics["clusters_correct"] == 1
    assert report.metrics["mse_cluster"] < min(report.metrics["mse_alone"], report.metrics["mse_all"])


def test_own_data_of_five_labs(flower: FlowerHome, tmp_path: Path) -> None:
    folder = write_sites(tmp_path / "labs", GROUPS)
    draw_rows(0, 50, 99).to_csv(folder / "_test.csv", index=False)  # the center is interested in the first relation
    settings = {"protocol": "sec", "data": str(folder), "target": "y"}
    config_of_run = {**settings, "output-dir": str(tmp_path / "results")}
    found = results_of(flwr_run(APP, config_of_run, len(GROUPS), flower.env))
    assert_equal(found, run_with_grid(config(tmp_path / "in-process", **settings), len(GROUPS))[0])

    report, arrays = load(found)
    assert report.sites == [f"lab-{place}" for place in range(len(GROUPS))]
    assert arrays["labels"].tolist() == GROUPS
    assert report.metrics["mse_cluster"] < report.metrics["mse_all"]
    of_first, of_second = (row["mse_test_cluster"] for row in report.table)
    assert of_first < report.metrics["mse_test_all"] < of_second
    for place, group in enumerate(GROUPS):
        told = pd.read_csv(found / "sites" / f"lab-{place}" / "collaborators.csv")
        assert told["learner"].tolist() == [f"lab-{other}" for other in range(len(GROUPS)) if GROUPS[other] == group]
        assert not (found / "sites" / f"lab-{place}" / "errors.log").exists()

    command = [sys.executable, "-m", "consilience", "show", str(found)]
    shown = subprocess.run(command, cwd=APP, capture_output=True, text=True, timeout=120, check=False)
    assert shown.returncode == 0, shown.stderr
    for row in report.table:
        assert row["who"] in shown.stdout
    assert f"results: {found}" in shown.stdout
