"""Fair clustering between real Flower processes: the simulation engine, and real SuperNodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from common.value_ranges import Value
from server.results import load
from tests.process.processes import APP, Deployment, FlowerHome, deployment, flwr_run, start_deployed_run
from tests.process.test_bc3e import assert_equal, results_of
from tests.process.test_deployment import LEAVING, await_file, deployed_run
from tests.support.coreset_sites import FEATURES, SITES, ClusteringRun, patients, split_over_sites, write_files
from tests.support.grid import config
from tests.support.runs import run
from tests.support.tampering import silent

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick")]

SHORT: dict[str, Value] = {"protocol": "coreset", "min-sites": 3, "coreset.k": 3, "coreset.size": 12}

FEWER: dict[str, Value] = {**SHORT, "min-sites": 2}

COLUMNS: dict[str, Value] = {"sensitive": "sex", "id": "patient", "features": " ".join(FEATURES)}

LEAST = {"clinic": 5, "hospital": 20, "practice": 5}
"""Rows behind a point, at each site: one site's own configuration insists on more than the fusion center asks."""

SUMS = ("Summary", "Masses", "ClusterCounts", "ClusterCosts")
"""All that a site may answer."""

LEAVES = "practice"
"""The site whose SuperNode ends in a run."""


def in_simulation(tmp_path: Path, folder: Path, settings: Mapping[str, Value], **options: Any) -> Path:
    """The run on the files of `folder` as a simulation does it, in this process."""
    places = [
        {"partition-id": place, "num-partitions": len(LEAST), "min-weight": LEAST[site]}
        for place, site in enumerate(LEAST)
    ]
    return run(config(tmp_path, **{**settings, **COLUMNS, "data": str(folder)}), places, **options)


# -- the simulation engine --------------------------------------------------------------------------------------------


def test_a_scenario_is_the_same_in_the_simulation_engine_and_in_process(flower: FlowerHome, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"scenario": "coreset-synthetic", "coreset.rows": 20_000}
    found = results_of(flwr_run(APP, {**settings, "output-dir": str(tmp_path / "results")}, 3, flower.env))
    assert_equal(found, run(config(tmp_path / "in-process", **settings), 3))
    report, arrays = load(found)
    assert (len(report.sites), report.rounds, report.missing) == (3, 2, {})
    assert {path.name for path in found.iterdir()} >= {"report.json", "arrays.npz", "ledger.jsonl", "report.html"}
    assert not (found / "sites").exists(), "a made row is nobody's: its cluster is not kept"
    # Two colors of 10,000 rows: as many of one as of the other in every cluster.
    np.testing.assert_array_equal(arrays["counts"][:, 0], arrays["counts"][:, 1])
    assert arrays["counts"].sum() == report.metrics["n_rows"] == 20_000
    assert (report.metrics["max_violation"], report.metrics["balance"]) == (0, 1)
    assert report.metrics["cost"] <= report.metrics["cost_bound"]
    assert report.metrics["excess"] < 0.05


# -- the deployment engine --------------------------------------------------------------------------------------------


def nodes_of(tmp_path: Path, folder: Path) -> dict[str, dict[str, Value]]:
    """Each site's node configuration: its file and its own directory; the last has its rows from its own function."""
    nodes: dict[str, dict[str, Value]] = {
        site: {
            **COLUMNS,
            "site": site,
            "data": str(folder / f"{site}.csv"),
            "site-output-dir": str(tmp_path / "own" / site),
            "allow-prices": True,
        }
        for site in SITES
    }
    nodes["hospital"]["min-weight"] = LEAST["hospital"]
    (tmp_path / "leaving.py").write_text(LEAVING)
    nodes[LEAVES] |= {"data": "leaving:rows", "rows": str(folder / f"{LEAVES}.csv"), "folder": str(tmp_path)}
    return nodes


def test_three_sites_beside_their_own_data(tmp_path: Path) -> None:
    """The assignment of the points, and that of all rows; then a SuperNode ends after it has sent its coreset.

    All is as in a simulation on the same rows, bit for bit, and the sites' own lists of clusters are what the fusion
    center says of them.
    """
    folder, own = tmp_path / "files", tmp_path / "own"
    write_files(folder, split_over_sites(patients().assign(patient=lambda known: "case-" + known["patient"])))
    rows: dict[str, Value] = {**SHORT, "coreset.assignment": "exact", "coreset.refine": 1, "coreset.price-rounds": 2}
    with deployment(tmp_path, nodes_of(tmp_path, folder), {"PYTHONPATH": str(tmp_path)}) as center:
        costs = {}
        for name, settings in {"points": SHORT, "rows": rows}.items():
            found = deployed_run(center, tmp_path / name, settings)
            again = in_simulation(tmp_path / f"{name}-again", folder, settings)
            assert_equal(found, again)
            assert_fair_in_all_rows(found, folder, own)
            assert_nothing_of_a_row(found, folder)
            for site in SITES:
                kept = (own / site / "clusters.csv").read_bytes()
                assert kept == (again / "sites" / site / "clusters.csv").read_bytes()
                assert not (own / site / "errors.log").exists()
            costs[name] = load(found)[0].metrics["cost"]
        assert costs["rows"] < costs["points"]
        assert load(found)[0].metrics["cost_lower"] <= costs["rows"] * (1 + 1e-9)

        before = (own / LEAVES / "clusters.csv").read_bytes()
        ended = run_without_its_end(center, tmp_path)
    lost = in_simulation(tmp_path / "ended-again", folder, FEWER, tamper=silent(SITES.index(LEAVES), [2]))
    assert_equal(ended, lost)
    assert (own / LEAVES / "clusters.csv").read_bytes() == before
    clustered = clusters_in(ended, folder)
    assert clustered.report.missing == {LEAVES: ["round 2: its node failed (Flower error code 5)"]}
    assert any(f"{LEAVES}: sent a coreset, but did not confirm" in note for note in clustered.report.notes)
    assert_told(clustered, clustered.rows(*SITES[:2], homes=own))


def run_without_its_end(center: Deployment, tmp_path: Path) -> Path:
    """A run in which the SuperNode of the site that leaves ends as soon as it is asked for the second time."""
    settings: dict[str, Value] = {**FEWER, "output-dir": str(tmp_path / "ended")}
    (tmp_path / "trap").touch()
    started = start_deployed_run(APP, settings, center.env, tmp_path / "log")
    try:
        await_file(tmp_path / "asked-again", started)
        center.supernodes[LEAVES].terminate()
        center.supernodes[LEAVES].wait(30)
        return results_of(started.wait())
    finally:
        (tmp_path / "over").touch()
        started.end()


def clusters_in(found: Path, folder: Path) -> ClusteringRun:
    """A run's results and the files that it was about."""
    return ClusteringRun(*load(found), found, {**COLUMNS, "data": str(folder)})


def assert_fair_in_all_rows(found: Path, folder: Path, own: Path) -> None:
    """As many women as men in every cluster, by the sites' own lists; there are equally many in all."""
    clustered = clusters_in(found, folder)
    rows = clustered.rows(homes=own)
    assert clustered.report.missing == {}
    assert len(rows) == clustered.metrics["n_rows"] == len(patients())
    women, men = clustered.counts(rows).T
    np.testing.assert_array_equal(women, men)
    assert clustered.metrics["max_violation"] == 0
    assert_told(clustered, rows)


def assert_told(clustered: ClusteringRun, rows: pd.DataFrame) -> None:
    """What the fusion center says of these rows is what comes out of the rows themselves."""
    np.testing.assert_array_equal(clustered.arrays["counts"], clustered.counts(rows))
    cost = ((clustered.in_units(rows) - clustered.centers[rows["cluster"]]) ** 2).sum()
    if "cost_lower" in clustered.metrics:  # an exact assignment: the sites have told what their rows cost
        np.testing.assert_allclose(clustered.metrics["cost"], cost, rtol=1e-9)
    assert cost <= clustered.metrics["cost"] * (1 + 1e-9) <= clustered.metrics["cost_bound"] * (1 + 1e-8)


def assert_nothing_of_a_row(found: Path, folder: Path) -> None:
    """The fusion center's results hold no row's name, no value of a row, and no point of fewer rows than agreed."""
    rows = pd.concat(pd.read_csv(folder / f"{site}.csv") for site in SITES)
    values = rows[[*FEATURES]].to_numpy()
    written = "".join(path.read_text() for path in found.rglob("*") if path.suffix in {".json", ".jsonl", ".html"})
    assert not [word for word in [*rows["patient"], *map(repr, values.ravel().tolist())] if word in written]
    _, arrays = load(found)
    for name, array in arrays.items():
        assert not np.isin(array, values if array.dtype.kind == "f" else rows["patient"]).any(), name
    assert not (found / "sites").exists()
    sent = [line for line in map(json.loads, (found / "ledger.jsonl").open()) if line["direction"] == "from_site"]
    assert {line["payload"] for line in sent} <= {"envelope", *(f"coreset.{name}" for name in SUMS)}
    n_points = {line["site"]: line["fields"]["points"]["shape"][0] for line in sent if "points" in line["fields"]}
    assert all(n_points[site] * least <= len(patients()) / len(SITES) for site, least in LEAST.items())
    assert arrays["weights"].min() >= min(LEAST.values())
