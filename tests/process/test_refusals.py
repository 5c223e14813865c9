"""What is wrong is said by the command in less than two seconds, and nothing is left behind."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from tests.support.documentation import ROOT

SECONDS = 2.0

REFUSED = {
    "nothing to run": ([], "say what to run"),
    "scenario": (["bc3e-whine"], "did you mean bc3e-wine?"),
    "protocol": (["--protocol", "bce3", "--data", "sites"], "did you mean bc3e?"),
    "key": (["bc3e-wine", "--set", "bc3e.maxrounds=3"], "did you mean bc3e.max-rounds?"),
    "value": (["bc3e-wine", "--set", "seed=-1"], "seed must be 0 or greater"),
    "key of another protocol": (["bc3e-wine", "--set", "gp.experts=3"], "gp.experts is a key of gp"),
    "number of sites": (["sec-simulation1", "--sites", "3"], "sec-simulation1 has 20 sites"),
    "file of a scenario": (["sec-grid"], "no file of the Electrical Grid Stability data was found"),
    "target": (["--protocol", "gp", "--data", "sites", "--set", "target=levle"], "did you mean 'level'?"),
    "columns that differ": (["--protocol", "gp", "--data", "sites", "--set", "target=level"], "no column 'iron'"),
    "output": (["bc3e-wine", "--output-dir", "sites/north.csv"], "north.csv is a file, not a folder"),
    "resume": (["bc3e-wine", "--set", "resume-from=results/bc3e-wine/7"], "there is no interrupted run"),
    "from": (["predict", "--set", "from=results/gp-own-data/7"], "holds no report.json"),
    "settings in a file": (["--config", "run.toml"], "run.toml cannot be read"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifty sites of 10,000 rows; one has another column."""
    folder = tmp_path_factory.mktemp("refused")
    (folder / "sites").mkdir()
    rows = pd.DataFrame({name: [float(row % 97) for row in range(10_000)] for name in ("age", "iron", "level")})
    for place in range(49):
        rows.to_csv(folder / "sites" / f"site-{place:02d}.csv", index=False)
    rows.rename(columns={"iron": "zinc"}).to_csv(folder / "sites" / "north.csv", index=False)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("what", REFUSED)
def test_it_is_said_in_two_seconds(what: str, folder: Path) -> None:
    """Seconds of a processor: how long other processes take is not for this test to say."""
    arguments, words = REFUSED[what]
    env = {**os.environ, "CONSILIENCE_DATA": str(folder), "SCIKIT_LEARN_DATA": str(folder), "PYTHONPATH": str(ROOT)}
    before = sorted(folder.rglob("*"))
    start, used = time.monotonic(), seconds_of_children()
    command = [sys.executable, "-m", "consilience", "run", *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    used = seconds_of_children() - used
    print(f"{what}: {used:.2f} s of a processor, {time.monotonic() - start:.2f} s on this machine")
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert sorted(folder.rglob("*")) == before
    assert used < SECONDS


def seconds_of_children() -> float:
    """Return the seconds of a processor that all processes started here have used."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
