"""Real processes that are killed and started again in the middle of a run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from common.value_ranges import Value
from consilience.local_federation import CENTER, LocalFederation, LocalSite, federation
from consilience.run_log import round_of
from consilience.superlink import is_up
from server.report.data import Report
from server.results import load
from tests.process.processes import APP, BackgroundRun, descendants, start_deployed_run
from tests.process.test_bc3e import assert_equal, results_of
from tests.support.disks import disk, fill, remount
from tests.support.faults import FaultyGrid, no_ask, once
from tests.support.grid import config
from tests.support.runs import complete_results, run_over

pytestmark = pytest.mark.slow

WARDS = {"east": 40, "north": 25, "west": 30}
KILLED, FORGETFUL = "north", "west"
SETTINGS: dict[str, Value] = {"protocol": "bc3e", "min-sites": 2, "bc3e.max-rounds": 3, "round-timeout": 240.0}

TRAPPED = '''
import os
import time
from pathlib import Path

import pandas as pd


def rows(config):
    """A ward's rows; while the trap is set, whoever wants them says so and waits, and the one to be killed ends."""
    folder = Path(config["folder"])
    if (folder / "trap").exists():
        (folder / f"caught-{config['site']}").touch()
        deadline = time.monotonic() + 300
        while (folder / "trap").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
    return pd.read_csv(config["rows"])
'''
"""The wards' own data function, by which they are caught in an ask."""

OFTEN = """
import sys

if any("flower-supernode" in word for word in sys.orig_argv):
    from flwr.supercore import heartbeat
    from flwr.supernode import fleet_http_connection

    for module in (heartbeat, fleet_http_connection):
        module.HEARTBEAT_DEFAULT_INTERVAL = 15
"""
"""SuperNodes say that they are there every 15 seconds at most, instead of 30: one that does not is missed sooner.

The processes that answer asks still have 30 seconds to start.
"""


@pytest.fixture
def wards(tmp_path: Path) -> list[LocalSite]:
    """A file and a node configuration each."""
    rng = np.random.default_rng(0)
    (tmp_path / "trapped.py").write_text(TRAPPED)
    (tmp_path / "sitecustomize.py").write_text(OFTEN)
    sites = []
    for name, n in WARDS.items():
        truth = rng.integers(0, 3, n)
        frame = pd.DataFrame({"case": [f"{name}-{i}" for i in range(n)]})
        for place in range(3):
            frame[f"class_{place}"] = np.where(rng.random(n) < 0.3, rng.integers(0, 3, n), truth)
        for place in range(2):
            frame[f"cluster_{place}"] = np.where(rng.random(n) < 0.3, 0, 2 - truth)
        path = tmp_path / f"{name}.csv"
        frame.to_csv(path, index=False)
        settings = {"data": "trapped:rows", "rows": str(path), "folder": str(tmp_path), "id": "case"}
        sites.append(LocalSite(name, path, settings))
    return sites


def test_a_supernode_and_the_superlink_are_killed_and_started_again(tmp_path: Path, wards: list[LocalSite]) -> None:
    """One answer is lost, and nothing else, though the run breaks off, and a site forgets all of it."""
    env = {"PYTHONPATH": str(tmp_path)}
    database = ("--database", str(tmp_path / "superlink.db"))
    settings = {**SETTINGS, "output-dir": str(tmp_path / "results")}
    with federation(wards, tmp_path / "wards", tls=True, node_env=env, link_options=database) as started:
        first = start_deployed_run(APP, settings, started.env, tmp_path / "log")
        second: BackgroundRun | None = None
        try:
            lost = lose_an_answer(first, started, tmp_path)
            restart_superlink(first, started)
            shutil.rmtree(tmp_path / "wards" / FORGETFUL / "out")
            [partial] = (tmp_path / "results").glob("*/.*.partial")
            again = {**settings, "resume-from": str(partial.with_name(partial.name.split(".")[1]))}
            second = start_deployed_run(APP, again, started.env, tmp_path / "log-again")
            found = results_of(second.wait())
        finally:
            (tmp_path / "trap").unlink(missing_ok=True)
            first.end()
            if second is not None:
                second.end()
    report: Report = load(found)[0]
    assert report.missing == {KILLED: [f"round {lost}: its node failed (Flower error code 5)"]}
    assert f"{FORGETFUL} lost its memory, and rebuilt it from repeated asks in round {lost + 1}" in report.notes
    assert_equal(found, in_process(tmp_path, wards, lost))


@pytest.mark.parametrize(("how", "told"), [("full", "No space left on device"), ("ro", "Read-only file system")])
def test_disks_of_a_site_and_of_the_center_cannot_be_written(
    tmp_path: Path, wards: list[LocalSite], how: str, told: str
) -> None:
    """The site sends nothing, and takes part again when there is room; the center leaves no half result."""
    with disk(tmp_path / "home", 1024) as home, disk(tmp_path / "small", 16) as small:
        first, *others = wards
        stuck = LocalSite(first.name, first.data, {**first.settings, "site-output-dir": str(home)})
        env = {"PYTHONPATH": str(tmp_path)}
        with federation([stuck, *others], tmp_path / "wards", tls=True, node_env=env) as started:

            def start(output: Path, log: str) -> BackgroundRun:
                return start_deployed_run(APP, {**SETTINGS, "output-dir": str(output)}, started.env, tmp_path / log)

            if how == "full":
                filler = fill(home)
            else:
                remount(home, how)
                remount(small, how)
            runs = [start(tmp_path / "results", "log")]
            try:
                report: Report = load(results_of(runs[0].wait()))[0]
                assert list(report.missing) == [stuck.name]
                assert all(line.endswith("[output-not-written]") for line in report.missing[stuck.name]), report.missing
                if how == "full":
                    filler.unlink()
                else:
                    remount(home, "rw")
                runs.append(start(small, "log-small"))
                outcome = runs[1].wait()
            finally:
                for each in runs:
                    each.end()
        assert told in outcome.refused, outcome.log
        assert stuck.name not in "".join(line for line in outcome.log.splitlines() if "output-not-written" in line)
        assert complete_results(small) == []


def lose_an_answer(run: BackgroundRun, started: LocalFederation, folder: Path) -> int:
    """Kill a SuperNode while it works, and start it again; returns the round that ends without it."""
    run.wait_for("round   1")
    (folder / "trap").touch()
    for name in WARDS:
        await_true(lambda name=name: (folder / f"caught-{name}").exists(), run, 120)  # type: ignore[misc]
    again = killed(started.processes[KILLED])
    # Until the SuperLink has missed it twice, it lets no other in under the same key: that one ends.
    log = started.logs[KILLED].with_name("again.log")

    def is_back() -> bool:
        if started.processes[KILLED].poll() is not None:
            started.processes[KILLED] = again(log)
        return log.exists() and "SuperNode ID" in log.read_text(encoding="utf-8", errors="replace")

    await_true(is_back, run, 150)
    rounds = [line for line in run.log().splitlines() if round_of(line)]
    (folder / "trap").unlink()
    lost = len(rounds) + 1
    run.wait_for(f"round {lost:3d}")
    return lost


def restart_superlink(run: BackgroundRun, started: LocalFederation) -> None:
    """Kill the SuperLink, and with it the run; with its database, it has the SuperNodes back by themselves."""
    again = killed(started.processes[CENTER])
    assert run.process.wait(60) != 0
    started.processes[CENTER] = again(started.logs[CENTER].with_name("again.log"))
    await_true(lambda: is_up(started.env), None, 60)


def killed(process: subprocess.Popen[bytes]) -> Callable[[Path], subprocess.Popen[bytes]]:
    """Kill a process and all below it, as a machine does that loses its power; returns what starts it again."""
    about = Path(f"/proc/{process.pid}")
    folder = (about / "cwd").resolve()
    pairs = [pair.partition("=") for pair in (about / "environ").read_text().split("\0") if pair]
    env = {name: value for name, _, value in pairs}
    for pid in (process.pid, *descendants(process.pid)):
        os.kill(pid, signal.SIGKILL)
    process.wait(10)

    def again(log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as file:
            return subprocess.Popen(
                process.args, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                start_new_session=True,
            )  # fmt: skip

    return again


def await_true(condition: Callable[[], bool], run: BackgroundRun | None, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        told = run.log() if run else ""
        assert run is None or run.process.poll() is None, told
        assert time.monotonic() < deadline, told
        time.sleep(0.2)


def in_process(folder: Path, wards: list[LocalSite], lost: int) -> Path:
    """The same run over the in-process grid, where one ask does not reach its site."""
    settings = config(folder / "in-process", **SETTINGS)
    nodes = [
        {"site": ward.name, "data": str(ward.data), "id": "case", "site-output-dir": str(folder / "again" / ward.name)}
        for ward in wards
    ]
    grid = FaultyGrid(nodes, settings, 1000)
    grid.victims, grid.injection = (list(WARDS).index(KILLED),), once(no_ask)(lost)
    return run_over(grid, {**settings, "round-timeout": 0.1})
