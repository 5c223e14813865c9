"""Processors that this one can stand for, as OpenBLAS, NumPy, the C library and PyTorch tell them apart.

Each of these chooses its kernels when a process starts, and the kernels of two processors differ in the last digit. So
tests that pass on one processor may fail on another. ``python -m tests.support.core_types TESTS`` runs TESTS once for
every core type of OpenBLAS that this processor can run, and once without the newer instructions in NumPy and the C
library.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping

from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

CORE_TYPES: Mapping[str, tuple[str, ...]] = {
    "SkylakeX": ("AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL"),
    "Haswell": ("AVX2", "FMA3"),
    "Sandybridge": ("AVX",),
}
"""Names of OpenBLAS, from new to old, and the features that each one needs, as NumPy names them."""

WITHOUT_NEWER_INSTRUCTIONS: Mapping[str, str] = {
    "NPY_DISABLE_CPU_FEATURES": " ".join(__cpu_dispatch__),
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA",
    "ATEN_CPU_CAPABILITY": "default",
}
"""Environment of a process whose NumPy, C library and PyTorch use no instructions that an old processor lacks."""


def core_types() -> list[str]:
    """Return the core types that this processor can run, from new to old."""
    return [name for name, features in CORE_TYPES.items() if all(__cpu_features__.get(each) for each in features)]


def core_type() -> str:
    """Return the core type that OpenBLAS uses in this process; empty without OpenBLAS."""
    import scipy.linalg  # noqa: F401  # brings a BLAS of its own
    from threadpoolctl import threadpool_info

    names = {each["architecture"] for each in threadpool_info() if each["internal_api"] == "openblas"}
    assert len(names) <= 1, f"NumPy and SciPy use the kernels of several core types: {names}"
    return str(*names)


def main(arguments: list[str]) -> int:
    """Run pytest with these arguments on every processor; return how many runs failed."""
    runs = {name: {"OPENBLAS_CORETYPE": name} for name in core_types()}
    failed = 0
    for name in CORE_TYPES.keys() - runs.keys():
        print(f"{name}: skipped, this processor lacks {' or '.join(CORE_TYPES[name])}", flush=True)
    for name, environment in {**runs, "without newer instructions": WITHOUT_NEWER_INSTRUCTIONS}.items():
        begin = time.monotonic()
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        done = subprocess.run(command, env={**os.environ, **environment}, check=False)
        failed += done.returncode != 0
        print(f"{name}: {'failed' if done.returncode else 'passed'}, {time.monotonic() - begin:.0f} s", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
