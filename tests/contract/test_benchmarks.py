"""TODO."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.driver import config_of, drive, sites_of, strategy_of
from server.results import load
from tests.support.grid import config
from tests.support.runs import run_with_grid


def test_the_driver_counts_what_a_run_counts(tmp_path: Path) -> None:
    """Rounds, bytes and results are those of the real server and client, which exchange real messages."""
    settings = {"coreset__rows": 400, "coreset__k": 3}
    path, _ = run_with_grid(config(tmp_path, scenario="coreset-synthetic", **settings), 3)
    report, _ = load(path)
    own = config_of("coreset-synthetic", **settings)
    driven = drive(strategy_of(own, 3), sites_of(own, 3), clock=time.perf_counter)
    assert driven.n_rounds == report.rounds
    assert driven.from_sites == report.ledger["bytes_from_sites"]
    assert driven.metrics["cost"] == report.metrics["cost"]
    # A session's name is part of every ask.
    assert abs(driven.to_sites - report.ledger["bytes_to_sites"]) < 100 * 3 * driven.n_rounds
    assert 0 < driven.spent.center < driven.spent.together <= driven.spent.all
