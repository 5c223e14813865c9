"""Sites in networks of their own (Linux network namespaces): a line from the center to each, none between them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from consilience.certificates import make_server, make_site_key
from consilience.flower_programs import environment
from consilience.processes import end_families
from server.results import load
from tests.process.deploy_page import block
from tests.process.processes import APP

pytestmark = pytest.mark.slow

SITES = ("hospital-a", "hospital-b")
PORT = "8443"


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=20)


@dataclass(frozen=True)
class Network:
    """A namespace by its name, and programs in it."""

    name: str

    def start(self, command: list[str], folder: Path, log: str) -> subprocess.Popen[bytes]:
        folder.mkdir(exist_ok=True)
        env = {**environment(), "FLWR_HOME": str(folder / "flower")}
        with (folder / log).open("wb") as output:
            return subprocess.Popen(
                self._inside(command), cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def reaches(self, address: str, port: str) -> bool:
        probe = f"import socket; socket.create_connection(({address!r}, {port}), timeout=2)"
        done = subprocess.run(self._inside([shutil.which("python3") or "python3", "-c", probe]), capture_output=True)
        return done.returncode == 0

    def _inside(self, command: list[str]) -> list[str]:
        return ["ip", "netns", "exec", self.name, *command]


@pytest.fixture
def networks() -> Iterator[Mapping[str, Network]]:
    """The center at 10.77.N.1, site N at 10.77.N.2; a site sees the center's end of its own line and nothing else."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need Linux, root, and the program ip")
    mark = f"cz{os.getpid() % 100_000}"
    made = {name: Network(f"{mark}-{name}") for name in ("center", *SITES)}
    with ExitStack() as stack:
        try:
            for each in made.values():
                ip("netns", "add", each.name)
                stack.callback(ip, "netns", "delete", each.name)
                ip("-n", each.name, "link", "set", "lo", "up")
            for number, site in enumerate(SITES):
                ends = {made["center"].name: (f"{mark}c{number}", 1), made[site].name: (f"{mark}s{number}", 2)}
                (one, _), (other, _) = ends.values()
                ip("link", "add", one, "type", "veth", "peer", "name", other)
                for name, (end, last) in ends.items():
                    ip("link", "set", end, "netns", name)
                    ip("-n", name, "address", "add", f"10.77.{number}.{last}/24", "dev", end)
                    ip("-n", name, "link", "set", end, "up")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this machine makes no network namespaces: {error.stderr.decode().strip()}")
        yield made


def test_a_run_between_networks(tmp_path: Path, networks: Mapping[str, Network]) -> None:
    """By the center's address on each line, with one certificate; SuperNodes use no path but the Fleet API's."""
    center, keys = tmp_path / "center", tmp_path / "center" / "keys"
    make_server(keys, [f"10.77.{number}.1" for number, _ in enumerate(SITES)])
    secured = [
        "--ssl-ca-certfile",
        "keys/ca.pem",
        "--ssl-certfile",
        "keys/server.pem",
        "--ssl-keyfile",
        "keys/server.key",
    ]
    link = ["flower-superlink", "--host", "0.0.0.0", "--port", PORT, "--enable-supernode-auth", *secured]
    (center / "flower").mkdir()
    (center / "flower" / "config.toml").write_text(
        f'[superlink.center]\naddress = "127.0.0.1:{PORT}"\nroot-certificates = "{keys / "ca.pem"}"\n'
    )
    with ExitStack() as stack:
        processes: list[subprocess.Popen[bytes]] = []
        stack.callback(end_families, processes)
        processes.append(
            networks["center"].start([*link, "--disable-runtime-dependency-installation"], center, "superlink.log")
        )
        await_text(center / "superlink.log", "running on https", processes)
        for site in SITES:
            make_site_key(keys, site)
            registering = networks["center"].start(
                ["flwr", "supernode", "register", f"keys/{site}.pub", "center"], center, "registered"
            )
            assert registering.wait(60) == 0, (center / "registered").read_text()
        for number, site in enumerate(SITES):
            (tmp_path / site).mkdir()
            made = [sys.executable, "-c", block("import sys").text, site]
            subprocess.run(made, cwd=tmp_path / site, check=True, timeout=60)
            node = f'site="{site}" data="patients.csv" sensitive="sex" id="case"'
            own = ["--root-certificates", str(keys / "ca.pem"), "--auth-supernode-private-key", str(keys / site)]
            command = ["flower-supernode", "--superlink", f"10.77.{number}.1:{PORT}", "--node-config", node, *own]
            # Each has its own loopback address: the SuperNodes' own port is the same.
            processes.append(networks[site].start(command, tmp_path / site, "supernode.log"))
        for site in SITES:
            await_text(tmp_path / site / "supernode.log", "SuperNode ID", processes)
        assert networks[SITES[0]].reaches("10.77.0.1", PORT)
        assert not networks[SITES[0]].reaches("10.77.1.2", "9094"), "there is a way from site to site"

        settings = 'protocol="coreset" min-sites=2 coreset.k=3'
        run = ["flwr", "run", str(APP), "center", "--stream", "--run-config", settings]
        running = networks["center"].start(run, center, "run.log")
        assert running.wait(240) == 0
    [found] = (center / "results").glob("*/[0-9]*")
    report, _ = load(found)
    assert (report.sites, report.missing) == (list(SITES), {})
    asked = [line.split() for line in (center / "superlink.log").read_text().splitlines() if "10.77." in line]
    assert asked
    assert {words[words.index('"POST') + 1].rpartition("/")[0] for words in asked} == {"/v1/fleet"}


def await_text(log: Path, text: str, processes: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + 90
    while text not in (said := log.read_text(errors="replace")):
        assert all(process.poll() is None for process in processes), said
        assert time.monotonic() < deadline, said
        time.sleep(0.1)
