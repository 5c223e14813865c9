"""Another process, with other threads and another hash seed, draws the same worlds and fits the same models."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from numerics.shared.candidates import METHODS
from tests.support.data_files import few_songs, write
from tests.support.documentation import ROOT
from tests.support.worlds import world
from tests.unit.scenarios.test_worlds import NAMES, config

SCRIPT = """
import hashlib, numpy as np
from numerics.shared.candidates import METHODS
from numerics.shared.candidates import parse_candidates
from numerics.sec.selection import select
from protocols.models import encode_model
rng = np.random.default_rng(0)
x = rng.normal(size=(60, 5)); y = x[:, 0] + np.sin(x[:, 1])
for method in METHODS:
    found = select(parse_candidates(method), x, y, standardize="model", min_leaf=2, rng_seed=1)
    sent = hashlib.sha256(encode_model(found.model).tobytes()).hexdigest()
    print(method, found.cv_error.hex(), found.fitted_error.hex(), sent)
"""


def test_learners_choose_and_send_the_same_bit_for_bit() -> None:
    other = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "PYTHONHASHSEED": "2"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    here = io.StringIO()
    with contextlib.redirect_stdout(here):
        exec(SCRIPT, {})
    assert here.getvalue() == other
    assert len(other.splitlines()) == len(METHODS)


def test_worlds_are_the_same_without_heavy_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_data_variable: None
) -> None:
    """Neither the hash seed nor the number of threads has an influence; nobody waits for a compiler."""
    few_songs(monkeypatch)
    folder = write(tmp_path)
    configs = {name: (name, config(name, folder)) for name in NAMES}
    for changes in ({"bc3e.distribution": "column"}, {"bc3e.distribution": "arbitrary"}, {"coreset.split": "group"}):
        protocol = next(iter(changes)).partition(".")[0]
        for name in NAMES:
            if name.startswith(f"{protocol}-"):
                configs[f"{name} {changes}"] = name, {**config(name, folder), **changes}
    code = f"""
import json, sys
from tests.support.worlds import world
from tests.support.data_files import few_songs
import pytest
with pytest.MonkeyPatch.context() as patch:
    few_songs(patch)
    found = {{key: world(name, config, 5) for key, (name, config) in {configs!r}.items()}}
print(json.dumps([found, sorted({{"torch", "numba", "ortools", "matplotlib", "flwr"}} & sys.modules.keys())]))
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, check=True)
    assert json.loads(done.stdout) == [{key: world(name, own, 5) for key, (name, own) in configs.items()}, []]
