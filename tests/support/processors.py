"""Other processors on this machine: processes whose numerical libraries use the instructions of an older one.

OpenBLAS, NumPy and the C library each choose their kernels when a process starts. The kernels of two processors differ
in the last digit, as two machines would.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pytest
from flwr.app import Context, Message
from flwr.supercore.task_identity import TaskIdentity
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
from threadpoolctl import threadpool_info

from clients.app import app as client_app
from server.results import load
from tests.support.documentation import ROOT
from tests.support.grid import over_the_wire
from tests.support.runs import Wire, in_no_time

Answer = TypeVar("Answer")

CORE_TYPES: Mapping[str, tuple[str, ...]] = {
    "SkylakeX": ("AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL"),
    "Haswell": ("AVX2", "FMA3"),
    "Sandybridge": ("AVX",),
}
"""Names of OpenBLAS, from new to old, and the processor's features that each one needs, as NumPy names them."""
_OLD: Mapping[str, str] = {
    "NPY_DISABLE_CPU_FEATURES": " ".join(__cpu_dispatch__),
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA",
    "ATEN_CPU_CAPABILITY": "default",
}
"""Without the newer instructions in NumPy, in the C library's functions, and in PyTorch."""


def core_types() -> list[str]:
    """Return the core types that this processor can run."""
    return [name for name, needed in CORE_TYPES.items() if all(__cpu_features__.get(each) for each in needed)]


def core_type() -> str:
    """Return the core type that OpenBLAS uses in this process; empty without OpenBLAS."""
    import scipy.linalg  # noqa: F401  # with a BLAS of its own

    found = {each["architecture"] for each in threadpool_info() if each["internal_api"] == "openblas"}
    assert len(found) <= 1, f"NumPy and SciPy use kernels of several processors: {found}"
    return str(*found)


class Processor:
    """A process on an older processor than this one; it does what it is called to do, one call after the other.

    Parameters
    ----------
    core : str
        Core type of OpenBLAS; empty: the oldest one that is not this process's.
    """

    def __init__(self, core: str = "") -> None:
        others = [name for name in core_types() if name != core_type()]
        if not others:
            pytest.skip("this processor has the instructions of one core type only")
        environment = {**os.environ, **_OLD, "OPENBLAS_CORETYPE": core or others[-1]}
        command = [sys.executable, "-c", "from tests.support.processors import serve; serve()"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe)

    def call(self, function: Callable[..., Answer], *args: Any) -> Answer:
        """Return what a function of a module answers there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((function, args), self._process.stdin)
        self._process.stdin.flush()
        answer, problem = pickle.load(self._process.stdout)
        assert not problem, problem
        return cast("Answer", answer)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


def serve() -> None:
    """Answer the calls of `Processor.call`, until there are no more."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed must not come between the answers
    with pytest.MonkeyPatch.context() as patch:
        in_no_time(patch)
        while True:
            try:
                function, args = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            try:
                reply = function(*args), ""
            except Exception:
                reply = None, traceback.format_exc()
            pickle.dump(reply, answers)
            answers.flush()


def answer(message: Message, context: Context) -> tuple[Message, Context]:
    """Return a site's reply, and the context that Flower keeps of it."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = context.run_id, 1, 1
    reply = client_app(message, context)
    assert reply is not None
    return over_the_wire(reply), context


class DispersedGrid(Wire):
    """A grid some of whose nodes are on another processor.

    Attributes
    ----------
    elsewhere : Processor or None
        Where the nodes of `places` answer.
    places : tuple of int
        Which nodes.
    """

    elsewhere: Processor | None = None
    places: tuple[int, ...] = ()

    def reply(self, node: int, asked: Message) -> Message:
        """Return a node's reply."""
        if self.elsewhere is None or (node - 1000) // 7 not in self.places:
            return super().reply(node, asked)
        reply, self.contexts[node] = self.elsewhere.call(answer, asked, self.contexts[node])
        return reply


def differences(first: Path, second: Path) -> dict[str, float]:
    """Return what differs between two runs: names of metrics and arrays, and the relative difference of the numbers.

    Numbers of an array are compared with its largest. What is no floating-point number and differs is infinitely so.
    """
    found: dict[str, float] = {}
    (report, arrays), (other_report, other_arrays) = load(first), load(second)
    assert report.metrics.keys() == other_report.metrics.keys()
    assert arrays.keys() == other_arrays.keys()
    pairs = {name: (np.array(value), np.array(other_report.metrics[name])) for name, value in report.metrics.items()}
    for name, (one, other) in {**pairs, **{name: (arrays[name], other_arrays[name]) for name in arrays}}.items():
        if one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes():
            continue
        comparable = one.dtype == other.dtype == np.float64 and one.shape == other.shape
        same = comparable and np.array_equal(np.isnan(one), np.isnan(other))
        scale = np.nanmax(np.abs(one), initial=0.0) if same else 0.0
        found[name] = float(np.nanmax(np.abs(one - other), initial=0.0) / scale) if scale > 0 else np.inf
    return found
