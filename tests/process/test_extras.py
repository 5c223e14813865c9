"""What goes without the libraries of the extras: a fresh Python in which they cannot be imported."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from common.extras import EXTRA_OF
from server.results import load
from tests.support.documentation import ROOT
from tests.support.grid import config
from tests.support.runs import run

N = 60
RNG = np.random.default_rng(5)
ROWS = pd.DataFrame(
    {
        "case": [f"c{i:03}" for i in range(N)],
        "class_a": np.arange(N) % 2,
        "class_b": np.arange(N) // 2 % 2,
        "cluster_x": np.arange(N) % 3,
        "sex": ["F", "M"] * (N // 2),
        "age": RNG.normal(size=N),
        "iron": RNG.normal(size=N),
        "y": np.sin(np.arange(N)),
    }
)
KEYS: dict[str, dict[str, Any]] = {
    "bc3e": {"id": "case", "classes": "class_*", "bc3e.max-rounds": 2},
    "sec": {"target": "y", "features": "age iron", "sec.candidates": "lr"},
    "residual": {"target": "y", "features": "age iron", "id": "case", "residual.rounds": 2},
    "coreset": {"sensitive": "sex", "features": "age iron", "coreset.k": 2},
    "gp": {"target": "y", "features": "age iron", "gp.fit-rounds": 1},
}
CHILD = """
import importlib.abc, importlib.metadata, json, sys
absent, work = json.loads(sys.argv[1]), json.loads(sys.argv[2])

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def version(name, known=importlib.metadata.version):
    if name in absent:
        raise importlib.metadata.PackageNotFoundError(name)
    return known(name)

importlib.metadata.version = version
sys.meta_path.insert(0, Absent())
"""
RUN = """
from common.settings import SettingError
from tests.support.runs import load, run
for settings in work:
    try:
        report, arrays = load(run(settings, 2))
        print(json.dumps([report.metrics, sorted(arrays), report.notes, len(report.figures)]))
    except SettingError as error:
        print(json.dumps(str(error)))
"""
CHECK = """
import typer.testing
from consilience.cli import app
for arguments in work:
    done = typer.testing.CliRunner().invoke(app, arguments)
    print(json.dumps([done.exit_code, done.output]))
"""


def without(absent: Collection[str], work: list[Any], code: str) -> list[Any]:
    """What a Python says of each piece of work in which these libraries cannot be imported."""
    command = [sys.executable, "-c", CHILD + code, json.dumps(sorted(absent)), json.dumps(work)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line[0] in '["']


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sites: rows divided for most protocols, columns for `residual`, in a folder for each protocol."""
    home = tmp_path_factory.mktemp("sites")
    for protocol in KEYS:
        (home / protocol).mkdir()
        for place in (0, 1):
            own = ROWS[["case", "age" if place else "iron", "y"]] if protocol == "residual" else ROWS[place::2]
            own.drop(columns=["y"] if protocol == "residual" and place else []).to_csv(
                home / protocol / f"s{place}.csv", index=False
            )
    ROWS[["age", "iron"]][:5].to_csv(home / "queries.csv", index=False)
    return home


def settings(folder: Path, home: Path, protocol: str, **more: Any) -> dict[str, Any]:
    """A run on own data."""
    queries = {"gp.queries": str(folder / "queries.csv")} if protocol == "gp" else {}
    features = {"features": "age iron *"} if protocol == "residual" else {}
    return {
        **config(home, protocol=protocol, data=str(folder / protocol), scenario="bc3e-wine"),
        **KEYS[protocol],
        **queries,
        **features,
        **more,
    }


@pytest.fixture(scope="module")
def bare(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What runs of all protocols come to without any extra, by protocol."""
    home = tmp_path_factory.mktemp("bare")
    work = [settings(folder, home, protocol) for protocol in KEYS]
    return dict(zip(KEYS, without(EXTRA_OF, work, RUN), strict=True))


@pytest.mark.parametrize("protocol", [name for name in KEYS if name != "coreset"])
def test_a_run_without_any_extra_has_the_same_numbers_and_says_why_no_figures(
    folder: Path, tmp_path: Path, bare: dict[str, Any], protocol: str
) -> None:
    report, arrays = load(run(settings(folder, tmp_path, protocol), 2))
    metrics, names, notes, n_figures = bare[protocol]
    assert (metrics, names) == (report.metrics, sorted(arrays))
    assert n_figures == 0
    assert "a report with figures needs matplotlib: pip install 'consilience[report]'" in notes


def test_fair_clustering_is_refused_before_it_starts(bare: dict[str, Any]) -> None:
    assert bare["coreset"] == "fair clustering needs numba: pip install 'consilience[coreset]'"


def test_fair_clustering_needs_its_own_extra_only(folder: Path, tmp_path: Path) -> None:
    report, arrays = load(run(settings(folder, tmp_path, "coreset"), 2))
    absent = {library for library, extra in EXTRA_OF.items() if extra != "coreset"}
    [[metrics, names, _, _]] = without(absent, [settings(folder, tmp_path, "coreset")], RUN)
    assert (metrics, names) == (report.metrics, sorted(arrays))


def test_a_kernel_of_gpytorch_is_refused_before_it_starts(folder: Path, tmp_path: Path) -> None:
    work = [settings(folder, tmp_path, "gp", **{"gp.kernel": "se + linear"})]
    assert without({"torch", "gpytorch"}, work, RUN) == [
        "the kernel se + linear needs torch: pip install 'consilience[gpytorch]'"
    ]


def test_check_passes_without_any_extra(folder: Path) -> None:
    work = [
        ["check", str(folder / protocol / "s0.csv"), "--protocol", protocol]
        + [part for key, value in KEYS[protocol].items() for part in ("--set", f"{key}={value}")]
        for protocol in KEYS
        if protocol != "residual"
    ]
    work.append(["check", str(folder / "residual" / "s0.csv"), "--protocol", "residual", "--set", "target=y"])
    work[-1] += ["--set", "id=case"]
    for arguments, (code, output) in zip(work, without(EXTRA_OF, work, CHECK), strict=True):
        assert code == 0, output
        said = "before a run: fair clustering needs numba: pip install 'consilience[coreset]'" in output
        assert said == ("coreset" in arguments)


def test_flower_s_engine_is_refused_without_ray() -> None:
    [[code, output]] = without({"ray"}, [["run", "bc3e-wine", "--engine", "flower"]], CHECK)
    assert code == 2
    assert "--engine flower needs ray: pip install 'consilience[simulation]'" in " ".join(output.split())


def test_a_federation_of_processes_is_refused_before_one_starts(folder: Path) -> None:
    arguments = ["up", "--sites", str(folder / "coreset"), "--protocol", "coreset", "--set", "sensitive=sex"]
    [[code, output]] = without({"ortools"}, [arguments], CHECK)
    assert code == 2
    assert "fair clustering needs ortools: pip install 'consilience[coreset]'" in " ".join(output.split())


def test_a_parquet_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"")
    arguments = ["check", str(tmp_path / "a.parquet"), "--protocol", "gp", "--set", "target=y"]
    [[code, output]] = without({"pyarrow"}, [arguments], CHECK)
    assert code == 1
    sentence = f"{tmp_path / 'a.parquet'}: a Parquet file needs pyarrow: pip install 'consilience[parquet]'"
    assert " ".join(output.split()).endswith(sentence)
