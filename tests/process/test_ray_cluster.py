"""Simulations on a Ray cluster of two nodes on this machine, as docs/cluster.md types it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from consilience.processes import free_ports
from scenarios.data_set import DATA_VARIABLE
from tests.support.data_files import SHARED, needs
from tests.support.documentation import blocks
from tests.support.engines import assert_same_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]  # 200 sites on two cores that others may use, too
BIN = Path(sys.executable).parent
RUNS = {
    "bc3e": ("bc3e-halfmoon", "--sites", "200", "--set", "bc3e.max-rounds=2", "--set", "repetitions=1"),
    "sec": ("sec-grid", "--set", "cells=attacked=25"),
}


def typed(start: str) -> list[str]:
    """Words of the one line of the page that begins with `start`."""
    lines = [line for block in blocks("docs/cluster.md") for line in block.text.splitlines()]
    [line] = [line for line in lines if line.startswith(start)]
    return line.split()


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    """Two nodes of one core each; gives the environment of a command that uses them."""
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:  # paths of Unix sockets are short
        env = {**os.environ, "RAY_TMPDIR": folder, "FLWR_HOME": f"{folder}/flwr", "RAY_ADDRESS": f"127.0.0.1:{port}"}
        before = set(psutil.pids())
        try:
            for command, address in (("ray start --head", "127.0.0.1"), ("ray start --address", "127.0.0.2")):
                words = [
                    word.replace("HOST:6379", f"127.0.0.1:{port}").replace("6379", str(port)) for word in typed(command)
                ]
                subprocess.run(
                    [BIN / words[0], *words[1:], "--num-cpus=1", f"--node-ip-address={address}"],
                    env={key: value for key, value in env.items() if key != "RAY_ADDRESS"},
                    check=True,
                    capture_output=True,
                    timeout=600,
                )
            yield env
        finally:
            for process in psutil.process_iter(["pid", "cmdline"]):
                if process.pid not in before and any(
                    str(port) in word or folder in word for word in process.info["cmdline"] or ()
                ):
                    process.kill()


@pytest.mark.parametrize("name", ["bc3e", pytest.param("sec", marks=needs("grid"))])
def test_a_run_on_two_nodes_is_the_run_in_one_process_to_the_bit(
    name: str, cluster: dict[str, str], tmp_path: Path
) -> None:
    results = []
    for engine, env in (("flower", cluster), ("local", os.environ)):
        done = subprocess.run(
            [BIN / "consilience", "run", *RUNS[name], "--engine", engine, "--output-dir", str(tmp_path / engine)],
            env={**env, DATA_VARIABLE: str(SHARED)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        results.append(Path(re.findall(r"results: (/\S+)$", done.stdout, re.M)[-1]))
    assert_same_run(*results)
    logs = list((Path(cluster["RAY_TMPDIR"]) / "ray").glob("session_*/logs/python-core-worker-*.log"))
    hosts = {found for log in logs for found in re.findall(r"worker at address: ([\d.]+):", log.read_text())}
    assert len(hosts) == 2, "workers of both nodes"
