"""Small files in the shape of every real data set, for tests that need no data."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from scenarios.data_set import DATA_VARIABLE
from scenarios.datasets import DATA_SETS, locate
from scenarios.registry import ScenarioError
from tests.support.documentation import ROOT

SHARED = Path(os.environ.get(DATA_VARIABLE) or ROOT.parent / "shared" / "data").absolute()
"""Directory of the real data sets, if there is one."""


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip a test where a file of these data sets is absent."""
    absent = [name for name in names if not _is_there(name)]
    return pytest.mark.skipif(bool(absent), reason=f"no file of {', '.join(absent)} in {SHARED}")


def _is_there(name: str) -> bool:
    with suppress(ScenarioError):
        return locate(name, {"data": str(SHARED)}) is not None
    return False


N_ROWS = 300
"""Rows of most files."""
N_TEST = 30
"""Test rows of SARCOS."""
SONGS = (range(160), range(190, 230))
"""Training rows and test rows of the few songs."""


def tables() -> dict[str, pd.DataFrame]:
    """Return a small table for every data set but Wine, by its name, with the columns that its file has."""
    rng = np.random.default_rng(6)

    def numbers(*names: str, rows: int = N_ROWS) -> pd.DataFrame:
        return pd.DataFrame(rng.normal(size=(rows, len(names))).round(6), columns=list(names))

    def inputs(prefix: str, n: int) -> list[str]:
        return [f"{prefix}{j + 1}" for j in range(n)]

    grid = numbers(*inputs("tau", 4), *inputs("p", 4), *inputs("g", 4), "stab", rows=1000)
    pole = numbers(*inputs("f", 48), "foo")
    pole[inputs("f", 48)[26:]] = 3.0
    pumadyn = numbers(*inputs("x", 32), "y")
    pumadyn["split"] = np.where(np.arange(N_ROWS) % 8 == 5, "test", "train")
    updrs = ["subject#", "age", "sex", "test_time", "motor_UPDRS", "total_UPDRS", *inputs("voice", 16)]
    return {
        "heart": numbers(*inputs("x", 13)).assign(**{"class": rng.integers(1, 3, N_ROWS)}),
        "german": numbers(*inputs("x", 24)).assign(**{"class": rng.integers(1, 3, N_ROWS)}),
        "pima": numbers(*inputs("x", 8)).assign(**{"class": rng.integers(2, size=N_ROWS)}),
        "airfoil": numbers(*DATA_SETS["airfoil"].columns.inputs, "sound_pressure_db"),
        "concrete": numbers(*inputs("part", 8), "strength_mpa", rows=760),
        "ct": ct_table(),
        "grid": grid.assign(stabf=np.where(grid["stab"] > 0, "unstable", "stable")),
        "parkinsons": numbers(*updrs),
        "pole": pole,
        "protein": numbers("RMSD", *inputs("F", 9)),
        "pumadyn": pumadyn,
        "sarcos": numbers(*inputs("V", 28)),
        "song": numbers("year", *inputs("t", 90)),
        **_grouping_tables(),
    }


def ct_table(n_scans: int = 97) -> pd.DataFrame:
    """Return CT slices, their scans of unequal length and out of order."""
    rng = np.random.default_rng(1)
    scan = rng.permutation(np.repeat(np.arange(n_scans), 4 + np.arange(n_scans) % 4))
    table = pd.DataFrame(rng.normal(size=(len(scan), 3)), columns=["value0", "value1", "value2"])
    table.insert(0, "patientId", scan)
    return table.assign(reference=scan + np.linspace(0, 0.5, len(scan)))


def _grouping_tables() -> dict[str, pd.DataFrame]:
    """Return the tables with categories; two of three rows are in the larger group."""
    rng = np.random.default_rng(5)

    def counts(*names: str) -> dict[str, np.ndarray]:
        return {name: rng.integers(0, 90, N_ROWS) for name in names}

    def categories(**values: str) -> dict[str, np.ndarray]:
        return {name: rng.choice(np.array(listed.split(), object), N_ROWS) for name, listed in values.items()}

    adult = {
        **counts(*DATA_SETS["adult"].columns.inputs),
        **categories(workclass="Private ?", education="HS-grad 11th", marital_status="Divorced", occupation="Sales ?"),
        **categories(relationship="Wife Husband", race="White Black Other", sex="Male Male Female"),
        **categories(native_country="? Peru", income="<=50K >50K"),
    }
    diabetes = {
        **counts("encounter_id", *DATA_SETS["diabetes"].columns.inputs),
        **categories(race="Caucasian ? Asian", gender="Female Female Male", age="[10-20) [60-70) [70-80)"),
    }
    diabetes["gender"][[3, 8]] = "Unknown/Invalid"
    bank = {
        **counts(*DATA_SETS["bank"].columns.inputs),
        **categories(job="admin. services", marital="married married divorced single", education="primary unknown"),
        **categories(default="no yes", housing="no yes", loan="no yes", y="no yes"),
    }
    return {"adult": pd.DataFrame(adult), "bank": pd.DataFrame(bank), "diabetes": pd.DataFrame(diabetes)}


def write(folder: Path, *names: str) -> Path:
    """Write the files of some data sets, of all by default, as they are at their sources; return the folder."""
    for name, table in tables().items():
        if names and name not in names:
            continue
        if name == "sarcos":
            array = table.to_numpy()
            savemat(folder / "sarcos_inv.mat", {"sarcos_inv": array[:-N_TEST]})
            savemat(folder / "sarcos_inv_test.mat", {"sarcos_inv_test": array[-N_TEST:]})
        elif name == "bank":
            table.to_csv(folder / "bank.csv", index=False, sep=";", quoting=2)
        else:
            table.to_csv(folder / DATA_SETS[name].files[-1], index=False, header=name != "song")
    return folder


def few_songs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the rows of the small file of songs."""
    song = DATA_SETS["song"]
    monkeypatch.setitem(DATA_SETS, "song", replace(song, columns=replace(song.columns, rows=SONGS)))
