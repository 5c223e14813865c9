"""Guards as processes: beside real SuperNodes, as the deployment page types them, and how they end."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from common.settings import to_toml
from common.value_ranges import Value
from protocols.bc3e.payloads import Survey
from tests.process.deploy_page import block, blocks
from tests.process.processes import APP, deployment, start_deployed_run
from tests.process.test_bc3e import assert_equal, results_of
from tests.support.bc3e_ensembles import write_sites_of_labels
from tests.support.grid import config
from tests.support.runs import run
from tests.support.site_client import RealSite

SITES = {"east": 30, "north": 24}


@pytest.fixture
def sites(tmp_path: Path) -> dict[str, dict[str, Value]]:
    """A file and a node configuration each."""
    return write_sites_of_labels(tmp_path, SITES)


@pytest.mark.slow
def test_real_supernodes_with_guards_give_the_result_of_sites_without(
    tmp_path: Path, sites: dict[str, dict[str, Value]]
) -> None:
    """What the SuperNodes' processes are told is a socket; the ledgers are the guards'."""
    settings: dict[str, Value] = {"protocol": "bc3e", "min-sites": 2, "bc3e.max-rounds": 1}
    with deployment(tmp_path, sites, guards=True) as center:
        to_disk = {**settings, "output-dir": str(tmp_path / "results")}
        started = start_deployed_run(APP, to_disk, center.env, tmp_path / "log")
        try:
            found = results_of(started.wait())
        finally:
            started.end()
        for name in SITES:
            told = " ".join(map(str, center.supernodes[name].args))  # type: ignore[arg-type]
            assert str(sites[name]["data"]) not in told
            guard = center.processes[f"guard of {name}"]
            guard.send_signal(signal.SIGTERM)
            assert guard.wait(20) == 0
    nodes = [{**node, "site-output-dir": str(tmp_path / "again" / name)} for name, node in sites.items()]
    assert_equal(found, run(config(tmp_path / "in-process", **settings), nodes))
    for name in SITES:
        one, other = ((tmp_path / folder / name / "theta.csv").read_bytes() for folder in ("out", "again"))
        assert one == other
        assert (tmp_path / "out" / name / "ledger.jsonl").stat().st_size > 0


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="guard-") as name:
        yield Path(name)


def started(command: Sequence[str], folder: Path, socket: Path) -> subprocess.Popen[str]:
    """A guard that listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "consilience", *command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.endswith(f"listens at {socket}\n"):
            return process
    raise AssertionError("".join(lines))


def test_its_end_its_crash_and_a_second_one(folder: Path, sites: dict[str, dict[str, Value]]) -> None:
    socket, node = folder / "guard.sock", sites["north"]
    command = ["guard", str(socket), "--node-config", to_toml(node)]
    asks = RealSite({"guard": str(socket)}, {"protocol": "bc3e", "round-timeout": 20.0})
    killed = started(command, folder, socket)
    with killed:
        assert asks.fault(1, Survey("row", "salt")) == 0
        second = subprocess.run(
            [sys.executable, "-m", "consilience", *command], capture_output=True, text=True, timeout=60, check=False
        )
        assert second.returncode == 1
        assert second.stderr == f"guard: another guard works in {node['site-output-dir']}; end it first\n"
        killed.kill()
    assert socket.exists()
    with started(command, folder, socket) as ended:
        assert asks.fault(1, Survey("row", "salt")) == 0
        ended.send_signal(signal.SIGTERM)
        assert ended.wait(20) == 0
        assert ended.stderr is not None
        assert ended.stderr.read().splitlines()[-1] == "guard of north: ended"
    assert not socket.exists()


def test_the_guard_of_the_deployment_page_starts_and_says_what_others_can_read(folder: Path) -> None:
    """The page's own command, typed in a folder with the page's files; the unit starts the same."""
    pd.DataFrame({"age": np.arange(30.0), "sex": ["f", "m"] * 15, "case": range(30)}).to_csv(
        folder / "patients.csv", index=False
    )
    [policy] = [each for each in blocks() if each.label == "policy.toml"]
    (folder / "policy.toml").write_text(policy.text)
    program, *command = shlex.split(block("consilience guard").text.replace("\\\n", " "))
    assert program == "consilience"
    with started(command, folder, folder / "guard.sock") as process:
        process.terminate()
        assert process.wait(20) == 0
    [unit] = [each for each in blocks() if each.label.endswith("guard.service")]
    [line] = [line for line in unit.text.replace("\\\n", " ").splitlines() if line.startswith("ExecStart=")]
    words = shlex.split(line.partition("/bin/consilience ")[2])
    assert words[2:4] == ["--group", "flower"]
    assert [words[0], words[-1].split()] == [command[0], command[-1].split()]
    node = next(each for each in blocks() if each.label.endswith("with a guard") and "supernode" in each.text)
    assert f'guard="{words[1]}"' in node.text
