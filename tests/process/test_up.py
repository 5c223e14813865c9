"""`consilience up` with real processes, as docs/deploy.md types it; ends by a SuperNode's death and leaves nothing.

The run between them is the only one of the deployment engine that is not marked slow: its sums are masked, so that keys
have to outlive the process of a message, and its result is that of the same run in this process, bit for bit.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from common.settings import to_toml
from common.value_ranges import Value
from consilience.flower_programs import environment
from consilience.ledger_comparison import compare_all
from server.results import load
from tests.process.deploy_page import SITES, block
from tests.process.processes import descendants, payloads_of
from tests.process.test_bc3e import assert_equal
from tests.support.bc3e_ensembles import write_sites_of_labels
from tests.support.grid import config
from tests.support.runs import run


@pytest.mark.usefixtures("quick")
def test_the_pages_federation_on_one_machine(tmp_path: Path) -> None:
    """It is up, the command that it prints runs, and the death of a SuperNode ends it by name, without remains."""
    hospitals = tmp_path / "hospitals"
    hospitals.mkdir()
    sites = SITES
    nodes = write_sites_of_labels(hospitals, dict.fromkeys(sites, 30))
    settings: dict[str, Value] = {"min-sites": 3, "bc3e.max-rounds": 1}
    command = shlex.split(block("consilience up").text.replace("sensitive=sex", "truth=diagnosis"))
    with (tmp_path / "log").open("wb") as output:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    below: dict[int, str] = {}
    try:
        said = printed(process, tmp_path / "log", "Ctrl-C here ends all")
        [typed] = [line for line in said.splitlines() if line.startswith("flwr run")]
        [exported] = [line for line in said.splitlines() if line.startswith("export")]
        more = to_toml({**settings, "secure-aggregation": True})
        typed = f"{exported}\n{typed.replace('PROTOCOL', 'bc3e')} --run-config '{more}'"
        streamed = subprocess.run(
            ["bash", "-euc", typed], cwd="/", env=environment(), capture_output=True, text=True, timeout=240
        )
        completed = [*(tmp_path / "federation" / "center" / "results").glob("*/[0-9]*")]
        assert len(completed) == 1, streamed.stdout + streamed.stderr
        [found] = completed
        assert load(found)[0].sites == list(sites), streamed.stdout + streamed.stderr
        assert_equal(found, run(config(tmp_path / "in-process", protocol="bc3e", **settings), [*nodes.values()]))
        payloads = payloads_of(found)
        assert "secure_aggregation.MaskedAnswer" in payloads
        assert "bc3e.Statistics" not in payloads
        lines, agree = compare_all(found, [tmp_path / "federation" / site / "out" for site in sites])
        assert agree, lines
        for site in sites:
            there = tmp_path / "federation" / site / "out" / "theta.csv"
            assert there.read_bytes() == (hospitals / "out" / site / "theta.csv").read_bytes()

        below = descendants(process.pid)
        killed = next(pid for pid, words in below.items() if "flower-supernode" in words and sites[1] in words)
        os.kill(killed, 9)
        assert process.wait(60) == 1
        log = tmp_path / "federation" / sites[1] / "supernode.log"
        assert f"the SuperNode of {sites[1]} ended with -9; its log is {log}" in (tmp_path / "log").read_text()
        _, left = psutil.wait_procs([psutil.Process(pid) for pid in below if psutil.pid_exists(pid)], 10)
        assert not left
    finally:
        process.terminate()
        process.wait(60)


def printed(process: subprocess.Popen[bytes], log: Path, text: str) -> str:
    deadline = time.monotonic() + 120
    while text not in (said := log.read_text(errors="replace")):
        assert process.poll() is None, said
        assert time.monotonic() < deadline, said
        time.sleep(0.1)
    return said
