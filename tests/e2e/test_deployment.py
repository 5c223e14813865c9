"""BC3E between real SuperNodes: the deployment engine, a process for every message, each party beside its own file."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from consilience import launch
from consilience.settings import Value, to_toml
from server.results import load
from tests.contract import run
from tests.e2e.processes import APP
from tests.grid import config

pytestmark = pytest.mark.e2e

PARTIES = {"north": 40, "south": 25}


@pytest.fixture
def parties(tmp_path: Path) -> dict[str, dict[str, str]]:
    """A file and a node configuration a party."""
    rng = np.random.default_rng(0)
    nodes = {}
    for name, n in PARTIES.items():
        truth = rng.integers(0, 3, n)
        columns = {"case": [f"{name}-{i}" for i in range(n)], "cluster_x": 2 - truth, "diagnosis": truth}
        columns |= {f"class_{i}": np.where(rng.random(n) < 0.3, rng.integers(0, 3, n), truth) for i in range(3)}
        pd.DataFrame(columns).to_csv(tmp_path / f"{name}.csv", index=False)
        node = {"site": name, "data": str(tmp_path / f"{name}.csv"), "id": "case", "truth": "diagnosis"}
        nodes[name] = {**node, "site-output-dir": str(tmp_path / "out" / name)}
    return nodes


def free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextlib.contextmanager
def started(command: list[str], env: dict[str, str], log: Path) -> Iterator[None]:
    with log.open("wb") as file:
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


@contextlib.contextmanager
def deployment(folder: Path, nodes: dict[str, dict[str, str]]) -> Iterator[dict[str, str]]:
    """A SuperLink and a SuperNode a party, on loopback; gives the environment in which the connection is ``center``."""
    port, *own_ports = free_ports(1 + len(nodes))
    address = f"127.0.0.1:{port}"
    home = folder / "home"
    home.mkdir()
    (home / "config.toml").write_text(f'[superlink.center]\naddress = "{address}"\ninsecure = true\n')
    env = {**launch.environment(), "FLWR_HOME": str(home)}
    with contextlib.ExitStack() as stack:
        superlink = ["flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(port)]
        superlink.append("--disable-runtime-dependency-installation")
        stack.enter_context(started(superlink, env, folder / "superlink.log"))
        deadline = time.monotonic() + 60
        while not launch.is_up({launch.PORT_VARIABLE: str(port)}):
            assert time.monotonic() < deadline, (folder / "superlink.log").read_text()
            time.sleep(0.2)
        for (name, node), own_port in zip(nodes.items(), own_ports, strict=True):
            settings = " ".join(f'{key}="{value}"' for key, value in node.items())
            supernode = ["flower-supernode", "--insecure", "--superlink", address, "--port", str(own_port)]
            own = {**env, "FLWR_HOME": str(folder / f"home-{name}")}
            log = folder / f"{name}.log"
            stack.enter_context(started([*supernode, "--node-config", settings], own, log))
        yield env


def test_two_parties_beside_their_own_files(tmp_path: Path, parties: dict[str, dict[str, str]]) -> None:
    """The same numbers as in process, bit for bit; each party's class probabilities stay in its own directory."""
    settings: dict[str, Value] = {"protocol": "bc3e", "min-sites": 2, "bc3e.max-rounds": 2}
    with deployment(tmp_path, parties) as env:
        run_config = to_toml({**settings, "output-dir": str(tmp_path / "results")})
        command = ["flwr", "run", str(APP), "center", "--stream", "--run-config", run_config]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, check=False)
    found = list((tmp_path / "results" / "bc3e-own-data").glob("[0-9]*"))
    assert len(found) == 1, done.stdout + done.stderr
    report, arrays = load(found[0])

    changes = {key.replace(".", "__").replace("-", "_"): value for key, value in settings.items()}
    nodes = [{**node, "site-output-dir": str(tmp_path / "again" / name)} for name, node in parties.items()]
    expected, wanted = load(run(config(tmp_path / "in-process", **changes), nodes))
    assert report.metrics == expected.metrics
    for name, array in wanted.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)
    assert not (found[0] / "sites").exists()
    for name in parties:
        theta = tmp_path / "out" / name / "theta.csv"
        assert theta.read_bytes() == (tmp_path / "again" / name / "theta.csv").read_bytes()
