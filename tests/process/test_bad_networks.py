"""A network that delays and drops, a clock that is set back, and a key that two SuperNodes have, between processes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from consilience.local_federation import LocalFederation, LocalSite, federation
from consilience.processes import end_families, free_ports
from server.results import load
from tests.process.processes import APP, start_deployed_run
from tests.process.test_bc3e import assert_equal, results_of
from tests.process.test_faults import OFTEN, await_true
from tests.support.fault_federations import WORLDS, Federation
from tests.support.runs import complete_results, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

VICTIM = "north"

CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    const char *file = getenv("CLOCK_BACK");
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (clock == CLOCK_REALTIME && file && access(file, F_OK) == 0) now->tv_sec -= 3600;
    return failed;
}
"""
"""A library that sets the clock of the processes that load it back by an hour, once there is a file."""


class Proxy:
    """A line from a site to the SuperLink that delays every piece, and drops every so many connections, or all.

    Parameters
    ----------
    port : int
        The SuperLink's.
    """

    def __init__(self, port: int) -> None:
        self.seconds, self.dropped_of, self.down = 0.0, 0, False
        self.n_connections = self.n_dropped = 0
        self._port, self._open = port, set[socket.socket]()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End all connections, in the midst of what they carry."""
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                here, _ = self._listener.accept()
                self.n_connections += 1
                if self.down or (self.dropped_of and self.n_connections % self.dropped_of == 0):
                    self.n_dropped += 1
                    here.close()
                    continue
                there = socket.create_connection(("127.0.0.1", self._port))
                for ends in ((here, there), (there, here)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        self._open.add(source)
        with suppress(OSError), source, target:
            while data := source.recv(65536):
                time.sleep(self.seconds)
                target.sendall(data)
        self._open.discard(source)


@contextmanager
def started(folder: Path, world: Federation) -> Iterator[LocalFederation]:
    """The processes of a world."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(OFTEN)
    sites = [LocalSite(name, Path(node["data"]), node) for name, node in zip(world.names, world.nodes, strict=True)]
    with federation(sites, folder / "federation", tls=True, node_env={"PYTHONPATH": str(folder)}) as processes:
        yield processes


@dataclass
class Another:
    """Another SuperNode with the victim's key."""

    process: subprocess.Popen[bytes]
    path: Path

    @property
    def log(self) -> str:
        return self.path.read_text(encoding="utf-8", errors="replace")

    def await_connected(self) -> None:
        await_true(lambda: "SuperNode ID" in self.log, None, 90)


def end_session(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it has left behind: Flower's SuperExec outlives a SuperNode that was refused."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(20)


def another(processes: LocalFederation, stack: ExitStack, *, instead: bool, **changed: str) -> Another:
    """Start it, `instead` of the victim's or beside it, with other options or another environment."""
    first, folder = processes.processes[VICTIM], processes.logs[VICTIM].parent / "another"
    folder.mkdir()
    pairs = Path(f"/proc/{first.pid}/environ").read_text().split("\0")
    env = {**dict(pair.split("=", 1) for pair in pairs if pair), "FLWR_HOME": str(folder)}
    command = [str(word) for word in first.args]  # type: ignore[union-attr]
    for name, value in {"port": str(free_ports(1)[0]), **changed}.items():
        if f"--{name}" in command:
            command[command.index(f"--{name}") + 1] = value
        else:
            env[name] = value
    if instead:
        end_families([first])
    path = folder / "log"
    with path.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    stack.callback(end_session, process)
    return Another(process, path)


def settings_of(world: Federation, folder: Path) -> dict[str, Any]:
    settings = {"output-dir": str(folder / "results"), "min-sites": 1, "round-timeout": 120.0, "bc3e.max-rounds": 2}
    return {**world.settings, **settings}


def undisturbed(world: Federation, folder: Path) -> Path:
    """The results of the same run in this process."""
    return run({**settings_of(world, folder / "in-process"), "min-sites": 3}, world.nodes)


def test_a_network_that_delays_and_drops_costs_time_or_an_answer(tmp_path: Path) -> None:
    """Every fourth connection ends at once, pieces are late, and for a while nothing passes at all.

    Flower asks again for what was lost on the way. Where that takes longer than a round may, the site is named.
    """
    world = WORLDS["bc3e"](tmp_path / "world")
    with ExitStack() as stack, started(tmp_path, world) as processes:
        command = [str(word) for word in processes.processes[VICTIM].args]  # type: ignore[union-attr]
        line = Proxy(int(command[command.index("--superlink") + 1].rpartition(":")[2]))
        stack.callback(line.close)
        line.seconds, line.dropped_of = 0.1, 4
        another(processes, stack, instead=True, superlink=f"127.0.0.1:{line.port}").await_connected()
        deployed = start_deployed_run(APP, settings_of(world, tmp_path), processes.env, tmp_path / "log")
        stack.callback(deployed.end)
        deployed.wait_for("round   1", 400)
        line.down = True
        line.cut()
        time.sleep(10)
        line.down = False
        found = results_of(deployed.wait(500))
    assert line.n_dropped > 1
    missing = load(found)[0].missing
    if not missing:
        assert_equal(found, undisturbed(world, tmp_path))
    assert len(missing) <= 1
    for name, failures in missing.items():
        assert re.fullmatch(rf"{VICTIM}|node \d+", name), "a site that has not answered yet has told no name"
        for said in failures:
            assert re.fullmatch(
                r"round \d: (no answer within 120 s|its node (failed \(Flower error code \d+\)|is not connected))", said
            ), said
    assert complete_results(tmp_path / "results") == [found]


def test_a_clock_that_is_set_back_leaves_its_site_out(tmp_path: Path) -> None:
    """Messages are signed with the time, so the SuperLink does not hear the site; the run ends without it."""
    if shutil.which("cc") is None:
        pytest.skip("a clock can be set for some processes only by a library, which needs a compiler")
    (tmp_path / "clock.c").write_text(CLOCK)
    library, trap = tmp_path / "clock.so", tmp_path / "back"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "clock.c"), "-ldl"], check=True, timeout=60
    )
    world = WORLDS["bc3e"](tmp_path / "world")
    with ExitStack() as stack, started(tmp_path, world) as processes:
        site = another(processes, stack, instead=True, LD_PRELOAD=str(library), CLOCK_BACK=str(trap))
        site.await_connected()
        deployed = start_deployed_run(APP, settings_of(world, tmp_path), processes.env, tmp_path / "log")
        stack.callback(deployed.end)
        deployed.wait_for("round   1", 240)
        trap.touch()
        found = results_of(deployed.wait(500))
        report = load(found)[0]
        assert list(report.missing) == [VICTIM], (report.missing, site.log)
        assert all(
            re.fullmatch(r"round \d: its node (failed \(Flower error code 5\)|is not connected)", said)
            for said in report.missing[VICTIM]
        ), report.missing
    assert complete_results(tmp_path / "results") == [found]


def test_a_second_supernode_with_the_same_key_does_not_disturb_the_first(tmp_path: Path) -> None:
    world = WORLDS["bc3e"](tmp_path / "world")
    with ExitStack() as stack, started(tmp_path, world) as processes:
        deployed = start_deployed_run(APP, settings_of(world, tmp_path), processes.env, tmp_path / "log")
        stack.callback(deployed.end)
        deployed.wait_for("round   1", 180)
        second = another(processes, stack, instead=False)
        found = results_of(deployed.wait(300))
        assert second.process.wait(60) != 0
        assert "SuperNode ID" not in second.log
        assert "Failed to activate SuperNode" in second.log, second.log
    assert load(found)[0].missing == {}
    assert_equal(found, undisturbed(world, tmp_path))
