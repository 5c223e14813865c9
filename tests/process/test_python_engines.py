"""cs.run by Flower's simulation engine, on a function and on DataFrames: the result of the local engine."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import consilience as cs
from tests.process.processes import FlowerHome

MODULE = """
import numpy as np
import pandas as pd

def load(place, n_sites):
    a, b, noise = np.random.default_rng(place).normal(size=(3, 40))
    return pd.DataFrame({"a": a, "b": b, "y": a - b + noise / 10})
"""


@pytest.fixture
def load(tmp_path: Path, flower: FlowerHome, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function in a module that this process can import."""
    (tmp_path / "wards_of_python.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, value in flower.env.items():
        monkeypatch.setenv(name, value)
    return importlib.import_module("wards_of_python").load


def both(data: Any, sites: int | None) -> list[cs.Run]:
    """A run by the local engine, and one by Flower's."""
    settings, more = cs.SEC(candidates="lr"), {"target": "y", "progress": False}
    local, other = (cs.run(settings, data=data, sites=sites, engine=each, **more) for each in ("local", "flower"))
    assert other.metrics == local.metrics
    for name, array in local.arrays.items():
        np.testing.assert_array_equal(other.arrays[name], array)
    return [local, other]


@pytest.mark.slow
def test_a_function_by_its_name(load: Any) -> None:
    for each in both("wards_of_python:load", 2):
        assert 'data="wards_of_python:load"' in each.report.command


@pytest.mark.slow
def test_frames_reach_flower_as_files(load: Any) -> None:
    local, other = both({f"ward-{place}": load(place, 2) for place in range(2)}, None)
    assert local.report.sites == other.report.sites == ["ward-0", "ward-1"]
