"""What the ServerApp loads: a process is started for every run, also for one that is refused at once."""

from __future__ import annotations

import subprocess
import sys

from common.extras import EXTRA_OF
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


def test_no_room_of_a_protocol_loads_a_library_of_an_extra() -> None:
    """Neither at the center nor at a site: such a library is imported where the work begins that needs it."""
    code = (
        "import sys; from protocols import registry\n"
        "for name in registry.BUILT_IN:\n"
        "    [registry.room(name, room) for room in registry._ROOMS if registry.has_room(name, room)]\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"strategies.coreset", "clients.gp.handlers"} <= loaded
    assert not loaded & (EXTRA_OF.keys() - {"pyarrow"})  # which pandas loads by itself where it is installed
