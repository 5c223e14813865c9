"""Fair clustering between real Flower processes: the simulation engine, and real SuperNodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from consilience.settings import Value
from server.results import load
from tests.contract import run, silent
from tests.e2e.processes import APP, Deployment, FlowerHome, deployment, flwr_run, start_deployed_run
from tests.e2e.test_bc3e import assert_equal, results_of
from tests.e2e.test_deployment import LEAVING, await_file
from tests.grid import config
from tests.parties_coreset import FEATURES, SITES, Clustered, dealt, patients, write_files

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("quick")]

BRISK = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1"}
"""A SuperNode looks every so many seconds, by default 1, whether there is a message to start a process for."""

SHORT: dict[str, Value] = {"protocol": "coreset", "coreset.k": 3, "coreset.size": 12, "coreset.restarts": 1}

COLUMNS: dict[str, Value] = {"sensitive": "sex", "id": "patient", "features": " ".join(FEATURES)}

CAREFUL = SITES[1], 20
"""A site whose own `min-weight` is larger than what the fusion center asks."""


def of_the_run(settings: Mapping[str, Value]) -> dict[str, Value]:
    """Settings as `tests.grid.config` takes them."""
    return {key.replace(".", "__").replace("-", "_"): value for key, value in settings.items()}


def write_parties(folder: Path) -> Path:
    """A file for every site, as many women as men in all of them together; returns the folder."""
    frame = patients().assign(patient=lambda known: "case-" + known["patient"])
    return write_files(folder, dealt(frame))


def in_simulation(tmp_path: Path, folder: Path, settings: Mapping[str, Value], **options: Any) -> Path:
    """The run on the files of `folder` as a simulation does it, in this process."""
    places: list[dict[str, Any]] = [{"partition-id": n, "num-partitions": len(SITES)} for n in range(len(SITES))]
    places[SITES.index(CAREFUL[0])]["min-weight"] = CAREFUL[1]
    return run(config(tmp_path, **of_the_run({**settings, **COLUMNS, "data": str(folder)})), places, **options)


def nodes_of(folder: Path, directories: Path) -> dict[str, dict[str, Value]]:
    """Each site's node configuration: its file and its own directory."""
    nodes: dict[str, dict[str, Value]] = {
        site: {**COLUMNS, "site": site, "data": str(folder / f"{site}.csv"), "site-output-dir": str(directories / site)}
        for site in SITES
    }
    nodes[CAREFUL[0]]["min-weight"] = CAREFUL[1]
    return nodes


# -- the simulation engine --------------------------------------------------------------------------------------------


def test_a_scenario_is_the_same_in_the_simulation_engine_and_in_process(flower: FlowerHome, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"scenario": "coreset-synthetic", "coreset.rows": 20_000}
    found = results_of(flwr_run(APP, {**settings, "output-dir": str(tmp_path / "results")}, 3, flower.env, 300))
    assert_equal(found, run(config(tmp_path / "in-process", **of_the_run(settings)), 3))
    report, arrays = load(found)
    assert (len(report.sites), report.rounds, report.missing) == (3, 2, {})
    assert {path.name for path in found.iterdir()} >= {"report.json", "arrays.npz", "ledger.jsonl", "report.html"}
    assert not (found / "sites").exists(), "a made row is nobody's: its cluster is not kept"
    # Two colours of 10,000 rows: as many of one as of the other in every cluster.
    np.testing.assert_array_equal(arrays["counts"][:, 0], arrays["counts"][:, 1])
    assert arrays["counts"].sum() == report.metrics["n_rows"] == 20_000
    assert (report.metrics["max_violation"], report.metrics["balance"]) == (0, 1)
    assert report.metrics["cost"] <= report.metrics["cost_bound"]
    assert report.metrics["excess"] < 0.05


# -- the deployment engine --------------------------------------------------------------------------------------------


def deployed_run(center: Deployment, folder: Path, settings: Mapping[str, Value]) -> Path:
    """A run on the SuperNodes with its results and log in a new `folder`; returns the results directory."""
    folder.mkdir()
    started = start_deployed_run(APP, {**settings, "output-dir": str(folder)}, center.env, folder / "log")
    try:
        return results_of(started.wait(240))
    finally:
        started.end()


def rows_of(found: Path, folder: Path, homes: Path, *sites: str) -> tuple[Clustered, pd.DataFrame]:
    """A run's results, and the rows of these sites' files with the clusters that the sites have kept."""
    clustered = Clustered(*load(found), found, {**COLUMNS, "data": str(folder)})
    return clustered, clustered.rows(*sites, homes=homes)


def cost_of(clustered: Clustered, rows: pd.DataFrame) -> float:
    """Of rows in their clusters."""
    return float(((clustered.in_units(rows) - clustered.centers[rows["cluster"]]) ** 2).sum())


def assert_nothing_of_a_row(found: Path, folder: Path) -> None:
    """The fusion center's results hold no row's name, no row, and no value of one."""
    rows = pd.concat(pd.read_csv(path) for path in sorted(folder.glob("*.csv")))
    values = rows[[*FEATURES]].to_numpy()
    written = "".join(path.read_text() for path in found.rglob("*") if path.suffix in {".json", ".jsonl", ".html"})
    assert not [word for word in [*rows["patient"], *map(repr, values.ravel().tolist())] if word in written]
    arrays = load(found)[1]
    for array in arrays.values():
        assert not (np.isin(array, values) if array.dtype.kind == "f" else np.isin(array, rows["patient"])).any()
    assert not (found / "sites").exists()


def test_three_sites_beside_their_own_files(tmp_path: Path) -> None:
    """Fair in all rows, as the sites' own lists of clusters say; the points', and the rows', assignment.

    All is as in a simulation on the same files, bit for bit, and a site that insists on more rows behind a point is
    heard.
    """
    folder, own = write_parties(tmp_path / "files"), tmp_path / "own"
    priced: dict[str, Value] = {**SHORT, "coreset.assignment": "exact", "coreset.price-rounds": 2}
    costs = {}
    with deployment(tmp_path, nodes_of(folder, own), BRISK) as center:
        for name, settings in {"points": SHORT, "rows": priced}.items():
            found = deployed_run(center, tmp_path / name, settings)
            again = in_simulation(tmp_path / f"{name}-again", folder, settings)
            assert_equal(found, again)
            assert_nothing_of_a_row(found, folder)
            clustered, rows = rows_of(found, folder, own)
            counts = clustered.counts(rows)
            np.testing.assert_array_equal(clustered.arrays["counts"], counts)
            np.testing.assert_array_equal(counts[:, 0], counts[:, 1])
            assert counts.sum() == clustered.metrics["n_rows"] == len(patients())
            assert clustered.metrics["max_violation"] == 0
            np.testing.assert_allclose(clustered.metrics["cost"], cost_of(clustered, rows), rtol=1e-9)
            assert clustered.report.missing == {}
            for site in SITES:
                kept = (own / site / "clusters.csv").read_bytes()
                assert kept == (again / "sites" / site / "clusters.csv").read_bytes()
                assert not (own / site / "errors.log").exists()
            costs[name] = clustered.metrics["cost"]
    assert load(found)[0].metrics["cost_lower"] <= costs["rows"] <= costs["points"]


def test_a_supernode_that_ends_after_its_coreset(tmp_path: Path) -> None:
    """Nobody waits for it, its points have helped to find the centers, and what is said is said of the others' rows."""
    folder, own = write_parties(tmp_path / "files"), tmp_path / "own"
    nodes = nodes_of(folder, own)
    *others, leaves = SITES
    (tmp_path / "leaving.py").write_text(LEAVING)
    nodes[leaves] |= {"data": "leaving:rows", "rows": str(folder / f"{leaves}.csv"), "folder": str(tmp_path)}
    settings: dict[str, Value] = {**SHORT, "min-sites": 2, "output-dir": str(tmp_path / "results")}
    with deployment(tmp_path, nodes, {**BRISK, "PYTHONPATH": str(tmp_path)}) as center:
        started = start_deployed_run(APP, settings, center.env, tmp_path / "log")
        try:
            await_file(tmp_path / "asked-again", started, 150)
            center.supernodes[leaves].terminate()
            center.supernodes[leaves].wait(30)
            found = results_of(started.wait(150))
        finally:
            (tmp_path / "over").touch()
            started.end()
    gone = silent(SITES.index(leaves), [2])
    assert_equal(found, in_simulation(tmp_path / "again", folder, {**SHORT, "min-sites": 2}, tamper=gone))
    clustered, rows = rows_of(found, folder, own, *others)
    assert clustered.report.missing == {leaves: ["round 2: its node failed (Flower error code 5)"]}
    assert any(f"{leaves}: sent a coreset and did not confirm" in note for note in clustered.report.notes)
    np.testing.assert_array_equal(clustered.arrays["counts"], clustered.counts(rows))
    np.testing.assert_allclose(clustered.metrics["cost"], cost_of(clustered, rows), rtol=1e-9)
    assert not (own / leaves / "clusters.csv").exists()
