"""`consilience up` with real processes, as docs/deploy.md types it; ends by a SuperNode's death and leaves nothing."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import psutil

from consilience.flower_programs import environment
from server.results import load
from tests.process.deploy_page import SITES, block
from tests.process.processes import descendants


def test_the_pages_federation_on_one_machine(tmp_path: Path) -> None:
    """It is up, the command that it prints runs, and the death of a SuperNode ends it by name, without remains."""
    hospitals = tmp_path / "hospitals"
    hospitals.mkdir()
    sites = SITES[:2]
    for site in sites:
        made = block("import sys").text.replace('"patients.csv"', f'"{site}.csv"')
        subprocess.run([sys.executable, "-c", made, site], cwd=hospitals, check=True, timeout=60)
    command = shlex.split(block("consilience up").text)
    with (tmp_path / "log").open("wb") as output:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    below: dict[int, str] = {}
    try:
        said = printed(process, tmp_path / "log", "Ctrl-C here ends all")
        [typed] = [line for line in said.splitlines() if line.startswith("flwr run")]
        [exported] = [line for line in said.splitlines() if line.startswith("export")]
        typed = f"{exported}\n{typed.replace('PROTOCOL', 'coreset')} --run-config 'coreset.k=3 min-sites=2'"
        streamed = subprocess.run(
            ["bash", "-euc", typed], cwd="/", env=environment(), capture_output=True, text=True, timeout=240
        )
        [found] = (tmp_path / "federation" / "center" / "results").glob("*/[0-9]*")
        assert load(found)[0].sites == list(sites), streamed.stdout + streamed.stderr
        for site in sites:
            assert (tmp_path / "federation" / site / "out" / "clusters.csv").is_file()

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
