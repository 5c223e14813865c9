"""What the ServerApp loads: a process is started for every run, also for one that is refused at once."""

from __future__ import annotations

import subprocess
import sys

from protocols.registry import names
from tests.support.documentation import ROOT

HEAVY = ("gpytorch", "matplotlib", "numba", "ortools", "pandas", "pyarrow", "scipy", "sklearn", "skops", "torch")
ROOMS = ("clients", "numerics", "protocols", "scenarios", "server.figures", "server.report", "strategies")


def test_the_server_app_loads_no_protocol_and_no_heavy_library() -> None:
    code = "import sys, server.app; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "server.app" in loaded
    assert not loaded & {*HEAVY, *(f"{room}.{protocol}" for room in ROOMS for protocol in names())}
