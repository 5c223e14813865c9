"""Code that another process runs: what it computes must not depend on the process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from scenarios.sources import DATA_VARIABLE
from tests.support.documentation import ROOT


def in_other_process(code: str) -> Any:
    """Return the JSON that the code prints, in a process of another hash seed and two threads, without data files."""
    kept = {key: value for key, value in os.environ.items() if key != DATA_VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**kept, "PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return json.loads(done.stdout)
