"""Gaussian process experts between real Flower processes: the simulation engine, and real SuperNodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from common.value_ranges import Value
from server.results import load
from tests.process.processes import APP, FlowerHome, deployment, flwr_run
from tests.process.test_bc3e import assert_equal, results_of
from tests.process.test_deployment import deployed_run
from tests.support.gp_sites import TARGET, points, soundings, split_over_sites, write_files
from tests.support.grid import config
from tests.support.runs import run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick")]

SITES = ("coast", "hills", "plain")

COLUMNS: dict[str, Value] = {"target": TARGET, "id": "well"}

USED: dict[str, Value] = {"protocol": "gp", "min-sites": 3, **COLUMNS}
SHORT: dict[str, Value] = {**USED, "gp.fit-rounds": 3}
"""Between SuperNodes a round takes seconds."""

LEAVES = "coast"
"""The site whose SuperNode ends before the last run."""


def nodes_of(folder: Path) -> dict[str, dict[str, Value]]:
    """Each site's node configuration: its own file."""
    return {site: {**COLUMNS, "site": site, "data": str(folder / f"{site}.csv")} for site in SITES}


def assert_same(found: Path, expected: Path) -> pd.DataFrame:
    """Metrics, arrays, and the file of predictions, bit for bit; returns the predictions."""
    assert_equal(found, expected)
    written = found / "predictions.csv"
    assert written.read_bytes() == (expected / "predictions.csv").read_bytes()
    return pd.read_csv(written)


def assert_nothing_of_a_row(found: Path, folder: Path) -> None:
    """The fusion center's results name no site's row and hold none of its numbers."""
    rows = pd.concat(pd.read_csv(folder / f"{site}.csv") for site in SITES)
    told = "".join(path.read_text() for path in found.rglob("*") if path.suffix in {".json", ".jsonl", ".html", ".csv"})
    assert not [well for well in rows["well"] if well in told]
    for name, array in load(found)[1].items():
        assert array.dtype.kind != "f" or not np.isin(array, rows.select_dtypes("number")).any(), name
    assert not (found / "sites").exists()


def test_three_sites_in_simulation_and_beside_their_own_files(flower: FlowerHome, tmp_path: Path) -> None:
    """Learned twice, the same bit for bit; then other points are predicted by what was learned, and with a site gone.

    In a simulation the query points are those of the data's folder, between SuperNodes a file of the fusion center's.
    """
    folder = write_files(tmp_path / "files", split_over_sites(soundings(), names=SITES))
    simulate: dict[str, Value] = {**SHORT, "data": str(folder), "output-dir": str(tmp_path / "simulated")}
    simulated = results_of(flwr_run(APP, simulate, len(SITES), flower.env))
    nodes = nodes_of(folder)

    def in_process(name: str, settings: Mapping[str, Value], sites: tuple[str, ...]) -> Path:
        return run(config(tmp_path / name, **settings), [dict(nodes[site]) for site in sites])

    with deployment(tmp_path, nodes) as center:
        learned = deployed_run(center, tmp_path / "learned", {**SHORT, "gp.queries": str(folder / "_test.csv")})
        told = assert_same(learned, simulated)
        assert_nothing_of_a_row(learned, folder)
        report, _ = load(learned)
        assert (report.sites, report.missing, report.metrics["fit_rounds"]) == (list(SITES), {}, 3)
        assert np.mean((told["measured"] - told["mean"]) ** 2) < 0.5 * points()[TARGET].var()

        later = soundings(30, seed=2).drop(columns=TARGET)
        later.to_csv(tmp_path / "later.csv", index=False)
        predicting: dict[str, Value] = {
            "scenario": "predict",
            "from": str(learned),
            "data": str(tmp_path / "later.csv"),
        }
        predicted = deployed_run(center, tmp_path / "predicted", predicting)
        told = assert_same(predicted, in_process("predicted-again", predicting, SITES))
        assert load(predicted)[0].rounds == 1
        assert told.columns.tolist() == ["query", "mean", "std", "low_95", "high_95", "experts"]
        assert told["query"].tolist() == later["well"].tolist()

        center.supernodes[LEAVES].terminate()
        center.supernodes[LEAVES].wait(30)
        predicting["min-sites"] = 2
        without = deployed_run(center, tmp_path / "without", predicting)
    others = tuple(site for site in SITES if site != LEAVES)
    told_without = assert_same(without, in_process("without-again", predicting, others))
    asked = told["experts"].str.split().map(set)
    assert set(told_without["experts"].str.split().sum()) == set(others)
    # Whoever did not ask it before hears what it heard then; the others ask the next nearest in its place.
    same = ~asked.map(lambda sites: LEAVES in sites)
    assert 0 < same.sum() < len(same)
    assert told_without["mean"][same].tolist() == told["mean"][same].tolist()
    assert (told_without["experts"].str.split().map(len) == asked.map(len)).all()
