"""Processors that this one can stand for, as OpenBLAS, NumPy, the C library and PyTorch tell them apart.

Each of these chooses its kernels when a process starts, and the kernels of two processors differ in the last digit. So
tests that pass on one processor may fail on another. ``python -m tests.support.core_types TESTS`` runs TESTS on the
newest and the oldest processor that this one can stand for, where it is another one; with ``--all`` on those between,
too. What rests on a digit that two kernels round otherwise has failed at one of the two ends so far.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

CORE_TYPES: Mapping[str, tuple[str, ...]] = {
    "SkylakeX": ("AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL"),
    "Haswell": ("AVX2", "FMA3"),
    "Sandybridge": ("AVX",),
}
"""Names of OpenBLAS, from new to old, and the features that each one needs, as NumPy names them."""
_OLDEST = "Sandybridge"


def core_types() -> list[str]:
    """Return the core types that this processor can run, from new to old."""
    return [name for name, features in CORE_TYPES.items() if all(__cpu_features__.get(each) for each in features)]


def environment(name: str) -> dict[str, str]:
    """Return what a process needs in its environment to use no instruction that this core type lacks."""
    newer = {
        "SkylakeX": [],
        "Haswell": [each for each in __cpu_dispatch__ if each == "X86_V4" or each.startswith("AVX512")],
        _OLDEST: list(__cpu_dispatch__),
    }
    variables = {"OPENBLAS_CORETYPE": name, "NPY_DISABLE_CPU_FEATURES": " ".join(newer[name])}
    older = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA", "ATEN_CPU_CAPABILITY": "default"}
    return variables | older if name == _OLDEST else variables


def core_type() -> str:
    """Return the core type that OpenBLAS uses in this process; empty without OpenBLAS."""
    import scipy.linalg  # noqa: F401  # brings a BLAS of its own
    from threadpoolctl import threadpool_info

    names = {each["architecture"] for each in threadpool_info() if each["internal_api"] == "openblas"}
    assert len(names) <= 1, f"NumPy and SciPy use the kernels of several core types: {names}"
    return str(*names)


def main(arguments: list[str]) -> int:
    """Run pytest with these arguments on other processors, all at once; return how many runs failed."""
    own, available = core_type(), core_types()
    for name in CORE_TYPES:
        if name == own:
            print(f"{name}: this processor's own, on which all other tests run")
        elif name not in available:
            print(f"{name}: skipped, this processor lacks {' or '.join(CORE_TYPES[name])}")
    tests = [each for each in arguments if each != "--all"]
    chosen = available if tests != arguments else dict.fromkeys((*available[:1], *available[-1:]))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests]
    pipe = subprocess.PIPE
    runs = {
        name: subprocess.Popen(command, env=os.environ | environment(name), stdout=pipe, stderr=subprocess.STDOUT)
        for name in chosen
        if name != own
    }
    failed = 0
    for name, run in runs.items():
        output = run.communicate()[0].decode(errors="replace")
        failed += run.returncode != 0
        print(f"{name}: {output if run.returncode else output.splitlines()[-1]}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
