"""Attribute-distributed regression between real Flower processes: the simulation engine, and real SuperNodes."""

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
from tests.support.grid import config
from tests.support.runs import run

pytestmark = pytest.mark.slow

SITES = {"bank": ["income", "debt"], "shop": ["city", "visits"], "telecom": ["calls"]}
"""The columns of each; the outcome depends on the first of each."""

HOLDER = "bank"
"""Where the outcome is, if the fusion center does not have it."""

SHORT: dict[str, Value] = {"protocol": "residual", "min-sites": 3, "residual.rounds": 3}

ONCE: dict[str, Value] = {**SHORT, "residual.refit": False}
"""Between SuperNodes a round takes seconds, and learning once more from all rows adds no other kind of round."""


def customers(n: int, seed: int) -> pd.DataFrame:
    """Customers with everything that anybody knows of them."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 4)), columns=["income", "debt", "visits", "calls"])
    frame["city"] = np.where(rng.random(n) < 0.4, "Paris", "Rome")
    frame["y"] = (
        2 * np.sin(2 * frame["income"]) + 1.5 * (frame["city"] == "Paris") + frame["calls"] + 0.1 * rng.normal(size=n)
    )
    frame.insert(0, "customer", [f"c{seed}-{place:04d}" for place in range(n)])
    return frame


def write_shards(folder: Path, everybody: pd.DataFrame, outcome_at: str = "") -> Path:
    """Each site's file, in an order of its own and without some of the customers; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for place, (site, columns) in enumerate(SITES.items()):
        known = everybody.sample(len(everybody) - 7 * place - 5, random_state=place)
        known[["customer", *columns, *(["y"] if site == outcome_at else [])]].to_csv(
            folder / f"{site}.csv", index=False
        )
    return folder


# -- the simulation engine --------------------------------------------------------------------------------------------


def test_own_data_of_three_sites_and_predictions_of_rows_to_come(flower: FlowerHome, tmp_path: Path) -> None:
    """The center has the outcomes; bit for bit what happens in process, when it learns and when it predicts."""
    settings: dict[str, Value] = {**SHORT, "target": "y", "id": "customer", "output-dir": str(tmp_path / "results")}
    everybody = customers(400, seed=1)
    folder = write_shards(tmp_path / "then", everybody)
    everybody[["customer", "y"]].sample(frac=1, random_state=9).to_csv(folder / "_labels.csv", index=False)
    learn = {**settings, "data": str(folder)}
    learned = results_of(flwr_run(APP, learn, len(SITES), flower.env))
    expected = run(config(tmp_path, **{**learn, "output-dir": str(tmp_path / "again")}), len(SITES))
    assert_equal(learned, expected)
    report, arrays = load(learned)
    assert (report.sites, report.missing) == (list(SITES), {})
    assert arrays["agents"].tolist() == list(SITES)
    known = everybody["customer"].isin
    common = everybody[
        np.logical_and.reduce([known(pd.read_csv(folder / f"{each}.csv")["customer"]) for each in SITES])
    ]
    assert report.metrics["n_aligned"] == len(common)
    assert report.metrics["n_lost"] == len(everybody) - len(common)
    assert report.metrics["test_mse"] < 0.5 * everybody["y"].var()
    for site in SITES:
        assert (learned / "sites" / site / "models" / f"{report.session}.skops").is_file()
        assert not (learned / "sites" / site / "errors.log").exists()

    later = customers(60, seed=2)
    use = {**settings, "data": str(write_shards(tmp_path / "now", later))}
    later[["customer", "y"]].to_csv(tmp_path / "now" / "_labels.csv", index=False)
    predict: dict[str, Value] = {"scenario": "predict", "from": str(learned), "data": use["data"]}
    predict["output-dir"] = use["output-dir"]
    predicted = results_of(flwr_run(APP, predict, len(SITES), flower.env))
    again = {**predict, "output-dir": str(tmp_path / "again"), "from": str(expected)}
    assert_equal(predicted, run(config(tmp_path, **again), len(SITES)))
    report, arrays = load(predicted)
    truth = later.set_index("customer")["y"][arrays["entity"].tolist()].to_numpy()
    assert report.metrics["n_predicted"] == len(truth) == len(set(arrays["entity"].tolist()))
    np.testing.assert_allclose(np.mean((truth - arrays["prediction"]) ** 2), report.metrics["test_mse"], rtol=1e-12)
    assert report.metrics["test_mse"] < 0.5 * later["y"].var()


def test_classes_of_three_sites_by_bins(flower: FlowerHome, tmp_path: Path) -> None:
    """A site has the classes; bit for bit what happens in process."""
    everybody = customers(300, seed=3)
    everybody["y"] = np.where(everybody["y"] > everybody["y"].median(), "buys", "does not")
    folder = write_shards(tmp_path / "files", everybody, outcome_at=HOLDER)
    named: dict[str, Value] = {"target": "y", "id": "customer", "data": str(folder), "residual.algorithm": "bins"}
    settings: dict[str, Value] = {**ONCE, **named, "output-dir": str(tmp_path / "results")}
    learned = results_of(flwr_run(APP, settings, len(SITES), flower.env))
    assert_equal(learned, run(config(tmp_path, **{**settings, "output-dir": str(tmp_path / "again")}), len(SITES)))
    assert load(learned)[0].metrics["auc"] > 0.9


# -- the deployment engine --------------------------------------------------------------------------------------------


def nodes_of(folder: Path, directories: Path) -> dict[str, dict[str, Value]]:
    """Each site's node configuration: its file, its own directory, and the secret that the sites share."""
    (folder / "secret").write_text("the sites agreed on this by telephone")
    nodes: dict[str, dict[str, Value]] = {
        site: {
            "site": site,
            "data": str(folder / f"{site}.csv"),
            "id": "customer",
            "features": " ".join(columns),
            "align-key-file": str(folder / "secret"),
            "site-output-dir": str(directories / site),
        }
        for site, columns in SITES.items()
    }
    nodes[HOLDER]["target"] = "y"
    nodes["shop"]["allow-bins"] = True
    return nodes


def test_three_sites_beside_their_own_files_and_the_outcome_at_one(tmp_path: Path) -> None:
    """Sealed by the holder of the outcome, and around the ring; then the agents predict the rows of new files.

    All is as in process with the same nodes, bit for bit, and the center sees neither outcome nor prediction.
    """
    ring: dict[str, Value] = {**ONCE, "residual.algorithm": "sip", "residual.topology": "ring"}
    relayed: dict[str, Value] = {**ONCE, "residual.rounds": 1}
    binned: dict[str, Value] = {**relayed, "residual.algorithm": "bins"}
    everybody = customers(300, seed=1)
    folder = write_shards(tmp_path / "files", everybody, outcome_at=HOLDER)
    nodes, again = (nodes_of(folder, tmp_path / name) for name in ("own", "again"))
    in_process = list(again.values())

    def same(name: str, settings: Mapping[str, Value]) -> Path:
        return run(config(tmp_path / name, **settings), in_process)

    with deployment(tmp_path, nodes) as center:
        sealed = deployed_run(center, tmp_path / "sealed", relayed)
        expected = same("sealed-again", relayed)
        assert_equal(sealed, expected)
        report, arrays = load(sealed)
        assert (report.sites, report.missing) == (list(SITES), {})
        assert arrays["holder"] == HOLDER
        assert arrays["mean"] == 0, "the outcome's mean stays where the outcome is"
        assert report.metrics["test_mse"] < 0.5 * everybody["y"].var()
        assert_equal(deployed_run(center, tmp_path / "ring", ring), same("ring-again", ring))
        # Bins of the shop beside an agent of the telecom.
        assert_equal(deployed_run(center, tmp_path / "bins", binned), same("bins-again", binned))

        # The same SuperNodes, other rows in their files, of which nobody knows the outcome.
        later = customers(60, seed=2)
        write_shards(folder, later)
        predicted = deployed_run(center, tmp_path / "predicted", {"scenario": "predict", "from": str(sealed)})
    assert_equal(predicted, same("predicted-again", {"scenario": "predict", "from": str(expected)}))
    assert "prediction" not in load(predicted)[1]
    written = tmp_path / "own" / HOLDER / "predictions.csv"
    assert written.read_bytes() == (tmp_path / "again" / HOLDER / "predictions.csv").read_bytes()
    told = pd.read_csv(written)
    assert load(predicted)[0].metrics["n_predicted"] == len(told)
    truth = later.set_index("customer")["y"][told["entity"]].to_numpy()
    assert np.mean((truth - told["prediction"]) ** 2) < 0.7 * truth.var()
    for site in SITES:
        assert not (tmp_path / "own" / site / "errors.log").exists()
