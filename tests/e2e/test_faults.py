"""Real processes that are killed and started again, in the middle of a run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import strategies.fusion
from consilience import launch
from consilience.settings import Value
from consilience.up import CENTER, Federation, Party, federation
from server import app as server_app
from server.results import load
from tests.contract import Clock, make_grid, run_over
from tests.e2e.processes import APP, BackgroundRun, descendants, start_deployed_run
from tests.e2e.test_bc3e import assert_equal, results_of
from tests.faults import FaultyGrid
from tests.grid import config

pytestmark = pytest.mark.e2e

WARDS = {"east": 40, "north": 25, "west": 30}
CAUGHT = ("north", "west")
"""Whose SuperNodes are killed; the last one loses its disk, too."""
BRISK = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1"}

TRAPPED = '''
import os
import time
from pathlib import Path

import pandas as pd


def rows(config):
    """A ward's rows; once the trap is set, whoever asks for them says so and waits for its end."""
    folder = Path(config["folder"])
    if (folder / "trap").exists() and config["site"] != "east":
        (folder / f"caught-{config['site']}").touch()
        deadline = time.monotonic() + 300
        while (folder / "trap").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        os._exit(1)
    return pd.read_csv(config["rows"])
'''
"""The wards' own data function, by which SuperNodes are caught in an ask."""


def killed(process: subprocess.Popen[bytes]) -> Callable[[], subprocess.Popen[bytes]]:
    """Kill a process and all below it, as a machine does that loses its power; returns what starts it again."""
    about = Path(f"/proc/{process.pid}")
    folder = (about / "cwd").resolve()
    pairs = [pair.partition("=") for pair in (about / "environ").read_text().split("\0") if pair]
    env = {name: value for name, _, value in pairs}
    for pid in (process.pid, *descendants(process.pid)):
        os.kill(pid, signal.SIGKILL)
    process.wait(10)

    def again() -> subprocess.Popen[bytes]:
        with (folder / "again.log").open("ab") as log:
            return subprocess.Popen(
                process.args, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    return again
