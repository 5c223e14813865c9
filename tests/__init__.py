"""Tests, by layer; CONTRIBUTING.md says what each is for.

The numerical libraries get one thread, a number that they read when they are imported: several only wait for each other
where matrices are small and tests share the cores.
"""

import os

for _library in ("MKL", "OMP", "OPENBLAS"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
