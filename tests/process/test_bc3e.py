"""BC3E through real `flwr run`: simulation engine, Ray, FAB, a SuperLink process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from consilience.flower_programs import PORT_VARIABLE
from server.results import load
from tests.process.processes import APP, FlowerHome, RunOutcome, flwr_run, kill_serverapp, start_run

QUICK = {"bc3e.max-rounds": 4, "bc3e.sweeps": 2, "bc3e.allow-single-model": True}
"""A fit cut short: what is compared is that every distribution cuts it at the same bits."""


def results_of(outcome: RunOutcome) -> Path:
    assert outcome.completed, outcome.log
    assert outcome.results is not None
    return outcome.results


def assert_equal(one: Path, other: Path, arrays: tuple[str, ...] = (), besides: tuple[str, ...] = ()) -> None:
    """Same metrics and table, and the same arrays, bit for bit; metrics named in `besides` may differ."""
    (report, held), (expected, wanted) = load(one), load(other)
    own, others = (
        {name: value for name, value in each.metrics.items() if name not in besides} for each in (report, expected)
    )
    assert own == others
    assert report.table == expected.table
    for name in arrays or wanted:
        np.testing.assert_array_equal(held[name], wanted[name], err_msg=name)


@pytest.mark.slow
def test_the_distributions_agree_bit_for_bit_over_two_and_seven_sites(flower: FlowerHome, tmp_path: Path) -> None:
    def run(distribution: str, sites: int) -> Path:
        config: dict[str, Any] = {**QUICK, "output-dir": str(tmp_path), "bc3e.distribution": distribution}
        return results_of(flwr_run(APP, config, sites, flower.env))

    rows = run("row", 2)
    assert_equal(run("row", 7), rows)
    assert_equal(run("column", 7), rows, arrays=("alpha", "bounds"))
    # Sites that share instances do not count the vote, so they compare fewer methods.
    assert_equal(rows, run("arbitrary", 7))
    assert load(rows)[0].sites == ["site-0", "site-1"]
    assert {path.name for path in rows.iterdir()} >= {"report.json", "arrays.npz", "ledger.jsonl", "report.html"}


@pytest.mark.slow
def test_killed_serverapp_resumes_to_the_same_result(flower: FlowerHome, tmp_path: Path) -> None:
    # Without acceleration the fit takes some thirty rounds: time enough to be killed in their midst.
    config: dict[str, Any] = {"output-dir": str(tmp_path), "bc3e.accelerate": False, "repetitions": 2}
    whole = results_of(flwr_run(APP, config, 2, flower.env))

    run = start_run(APP, config, 2, flower.env, tmp_path / "log")
    try:
        run.wait_for("round   6")
        kill_serverapp(flower.superlink_pid)
        killed = run.wait()
    finally:
        run.end()
    assert not killed.completed
    [partial] = (tmp_path / "bc3e-wine").glob(".*.partial")
    assert not (partial / "report.json").exists()
    assert [path.name for path in (tmp_path / "bc3e-wine").iterdir() if not path.name.startswith(".")] == [whole.name]

    resumed = flwr_run(APP, {**config, "resume-from": str(partial)}, 2, flower.env)
    assert "resumed after round" in resumed.log
    assert_equal(results_of(resumed), whole)
    for site in ("site-0", "site-1"):
        for name in ("theta.csv", "theta-1.csv"):
            assert (results_of(resumed) / "sites" / site / name).read_bytes() == (
                whole / "sites" / site / name
            ).read_bytes()


@pytest.mark.slow
def test_own_data_of_three_sites(flower: FlowerHome, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    folder = tmp_path / "files"
    folder.mkdir()
    for name, n in {"north": 40, "south": 25, "west": 33}.items():
        truth = rng.integers(0, 3, n)
        noisy = [np.where(rng.random(n) < 0.3, rng.integers(0, 3, n), truth) for _ in range(3)]
        columns = {"patient": [f"{name}-{i}" for i in range(n)], "class_a": noisy[0], "class_b": noisy[1]}
        columns |= {"class_c": noisy[2], "cluster_x": 2 - truth, "diagnosis": truth}
        pd.DataFrame(columns).to_csv(folder / f"{name}.csv", index=False)
    config = {"protocol": "bc3e", "data": str(folder), "id": "patient", "truth": "diagnosis"}
    outcome = flwr_run(APP, {**config, "output-dir": str(tmp_path / "results")}, 3, flower.env)
    report, _ = load(results_of(outcome))
    assert report.sites == ["north", "south", "west"]
    assert report.metrics["accuracy"] >= report.metrics["accuracy_majority"]
    theta = pd.read_csv(results_of(outcome) / "sites" / "south" / "theta.csv")
    assert list(theta["entity"]) == [f"south-{i}" for i in range(25)]
    np.testing.assert_allclose(theta.filter(like="theta_").sum(axis=1), 1.0)


@pytest.mark.slow
def test_consilience_run_exits_with_the_runs_status(flower: FlowerHome, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "consilience", "run", "bc3e-wine", "--engine", "flower"]
    command += ["--superlink", flower.env[PORT_VARIABLE], "--output-dir", str(tmp_path)]
    env = {**os.environ, **flower.env}
    good = subprocess.run(
        [*command, "--set", "bc3e.max-rounds=3"], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert good.returncode == 0, good.stdout + good.stderr
    assert "majority vote" in good.stdout
    [results] = (tmp_path / "bc3e-wine").glob("[!.]*")
    assert str(results) in good.stdout
    assert json.loads((results / "report.json").read_text())["schema"] == 1

    bad = subprocess.run(
        [*command, "--set", "bc3e.tolerance=-1"], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert bad.returncode != 0
    assert "bc3e.tolerance must be greater than 0" in bad.stderr
