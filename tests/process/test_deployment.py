"""Between real SuperNodes: the deployment engine, a process for every message, each site beside its own file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io

import consilience as cs
from common.value_ranges import Value
from consilience.ledger_comparison import compare_all
from protocols.models import decode_model
from server.results import load
from tests.process.processes import (
    APP,
    PATIENCE,
    BackgroundRun,
    Deployment,
    deployment,
    payloads_of,
    start_deployed_run,
)
from tests.process.test_bc3e import assert_equal, results_of
from tests.support.bc3e_ensembles import write_sites_of_labels
from tests.support.grid import config
from tests.support.raw_rows import raw_rows
from tests.support.runs import run
from tests.support.sec_sites import write_sites
from tests.support.tampering import silent

SITES = {"east": 30, "north": 40, "south": 25}
LABS = {"lab-0": 0, "lab-1": 1, "lab-2": 0}
"""The relation that each lab measures."""


@pytest.fixture
def sites(tmp_path: Path) -> dict[str, dict[str, Value]]:
    """A file and a node configuration a site."""
    return write_sites_of_labels(tmp_path, SITES)


@pytest.fixture
def labs(tmp_path: Path) -> dict[str, dict[str, Value]]:
    """Likewise; the last lab has a list of candidate methods of its own."""
    folder = write_sites(tmp_path / "labs", list(LABS.values()), n=120)
    nodes: dict[str, dict[str, Value]] = {
        name: {
            "site": name,
            "data": str(folder / f"{name}.csv"),
            "target": "y",
            "site-output-dir": str(tmp_path / "out" / name),
        }
        for name in LABS
    }
    nodes["lab-2"]["candidates"] = "ridge"
    return nodes


def in_process(folder: Path, nodes: Mapping[str, Mapping[str, Value]], **options: Any) -> Path:
    """The run of the labs of `nodes` beside their own files, in this process; their directories are in `folder`."""
    own = [{**node, "site-output-dir": str(folder / "out" / name)} for name, node in nodes.items()]
    return run(config(folder, protocol="sec", **{"min-sites": 2}), own, **options)


def deployed_run(center: Deployment, folder: Path, settings: Mapping[str, Value]) -> Path:
    """A run on the SuperNodes with its results and log in a new `folder`; returns the results directory."""
    folder.mkdir()
    started = start_deployed_run(APP, {**settings, "output-dir": str(folder)}, center.env, folder / "log")
    try:
        found = results_of(started.wait())
    finally:
        started.end()
    assert [found] == list(folder.glob("*/[0-9]*"))
    return found


@pytest.mark.slow
def test_three_sites_beside_their_own_files(tmp_path: Path, sites: dict[str, dict[str, Value]]) -> None:
    """The same numbers as in process, bit for bit; each site's class probabilities stay in its own directory.

    The center sees their sums alone: in process it sees every site's.
    """
    settings: dict[str, Value] = {"protocol": "bc3e", "min-sites": 3, "bc3e.max-rounds": 1}
    with deployment(tmp_path, sites) as center:
        found = deployed_run(center, tmp_path / "results", {**settings, "secure-aggregation": True})
    nodes = [{**node, "site-output-dir": str(tmp_path / "again" / name)} for name, node in sites.items()]
    assert_equal(found, run(config(tmp_path / "in-process", **settings), nodes))
    assert not (found / "sites").exists()
    payloads = payloads_of(found)
    assert "secure_aggregation.MaskedAnswer" in payloads
    assert "bc3e.Statistics" not in payloads
    lines, agree = compare_all(found, [tmp_path / "out" / name for name in sites])
    assert agree, lines
    for name in sites:
        theta = tmp_path / "out" / name / "theta.csv"
        assert theta.read_bytes() == (tmp_path / "again" / name / "theta.csv").read_bytes()


@pytest.mark.slow
def test_scenarios_and_predictions_between_sites(tmp_path: Path, sites: dict[str, dict[str, Value]]) -> None:
    """A scenario runs between them as in a simulation, if each has its place in it. Predicted by an earlier run, their
    instances get the same classes."""
    settings: dict[str, Value] = {"protocol": "bc3e", "min-sites": 3, "bc3e.max-rounds": 2}
    scenario: dict[str, Value] = {"scenario": "bc3e-wine", "min-sites": 3, "bc3e.max-rounds": 1}
    for place, node in enumerate(sites.values()):
        node |= {"partition-id": place, "num-partitions": len(sites)}
    with deployment(tmp_path, sites) as center:
        of_scenario = deployed_run(center, tmp_path / "of-scenario", scenario)
        found = deployed_run(center, tmp_path / "results", settings)
        predicted = deployed_run(
            center, tmp_path / "predicted", {"scenario": "predict", "from": str(found), "min-sites": 3}
        )
    assert_equal(of_scenario, run(config(tmp_path / "simulated", **scenario), len(sites)))
    for name in sites:
        theta = tmp_path / "out" / name / "theta.csv"
        again = pd.read_csv(theta.with_name("predictions.csv"))
        pd.testing.assert_frame_equal(again, pd.read_csv(theta), rtol=0, atol=1e-6)
    assert payloads_of(predicted) == {"envelope", "bc3e.Predict", "bc3e.PredictionTally"}


@pytest.mark.slow
def test_labels_prepared_by_sites_from_their_own_rows(tmp_path: Path) -> None:
    """The commands of docs/bc3e.md between SuperNodes: clusters by coreset, classifiers as files, then bc3e.

    The labels are those of all rows in one place, and so is the result of the run on them.
    """
    frames = {name: frame.assign(all="all") for name, frame in raw_rows({"a": 180, "b": 140, "c": 160}).items()}
    nodes: dict[str, dict[str, Value]] = {}
    for name, frame in frames.items():
        (tmp_path / name).mkdir()
        frame.to_csv(tmp_path / name / f"{name}.csv", index=False)
        nodes[name] = {
            "site": name,
            "data": str(tmp_path / name / f"{name}.csv"),
            "features": "x*",
            "sensitive": "all",
            "id": "id",
            "site-output-dir": str(tmp_path / "own" / name),
        }
    (tmp_path / "points").mkdir()
    with deployment(tmp_path / "points", nodes) as center:
        deployed_run(center, tmp_path / "clusterings", {"protocol": "coreset", "coreset.k": 3, "min-sites": 3})
    for name in [*frames, *frames]:
        # Once to write the classifiers, once to label with those of the others.
        own = tmp_path / "own" / name / "clusters.csv"
        options = {"models": str(tmp_path / "models"), "clusterings": str(own), "classifiers": "discriminant logistic"}
        cs.prepare(
            cs.BC3E(),
            {name: frames[name]},
            tmp_path / "labels",
            target="kind",
            id="id",
            truth="truth",
            features="x*",
            **options,
        )
    labeled: dict[str, dict[str, Value]] = {
        name: {"site": name, "data": str(tmp_path / "labels" / f"{name}.csv"), "id": "id", "truth": "truth"}
        for name in frames
    }
    (tmp_path / "fits").mkdir()
    with deployment(tmp_path / "fits", labeled) as center:
        deployed = deployed_run(center, tmp_path / "result", {"protocol": "bc3e", "min-sites": 3})
    assert_equal(
        deployed, run(config(tmp_path / "in-process", protocol="bc3e", **{"min-sites": 3}), [*labeled.values()])
    )
    report, _ = load(deployed)
    assert len(pd.read_csv(str(labeled["a"]["data"])).filter(like="class_").columns) == 6
    assert report.metrics["accuracy"] > 0.85


@pytest.mark.slow
def test_three_labs_beside_their_own_files(tmp_path: Path, labs: dict[str, dict[str, Value]]) -> None:
    """The same numbers as in one process, bit for bit; each lab keeps the models that its answers use, ready to use."""
    with deployment(tmp_path, labs) as center:
        found = deployed_run(center, tmp_path / "results", {"protocol": "sec", "min-sites": 3})
    assert_equal(found, in_process(tmp_path / "in-process", labs))
    report, arrays = load(found)
    assert report.sites == arrays["learners"].tolist() == list(LABS)
    assert report.missing == {}
    assert arrays["labels"].tolist() == list(LABS.values())
    assert arrays["methods"].tolist() == ["lr", "lr", "ridge"]
    assert not (found / "sites").exists()
    for name, cluster in LABS.items():
        own = tmp_path / "out" / name
        members = [other for other, label in LABS.items() if label == cluster]
        assert pd.read_csv(own / "collaborators.csv")["learner"].tolist() == members
        used = sorted({*members, *pd.read_csv(own / "personal.csv")["learner"]})
        assert sorted(path.stem for path in (own / "models").glob("*.skops")) == used
        assert not (own / "errors.log").exists()
        for member in used:
            assert_usable(own / "models" / f"{member}.skops", arrays[f"model_{list(LABS).index(member)}"])


def assert_usable(path: Path, model: np.ndarray) -> None:
    """The file is the model that its owner showed, and whoever has skops can predict with it."""
    content = np.frombuffer(path.read_bytes(), np.uint8)
    np.testing.assert_array_equal(content, model)
    x = np.random.default_rng(0).normal(size=(20, 3))
    loaded = skops.io.load(path, trusted=skops.io.get_untrusted_types(file=path))
    np.testing.assert_array_equal(loaded.predict(x), decode_model(content).predict(x))


LEAVING = '''
import os
import time
from pathlib import Path

import pandas as pd


def rows(config):
    """The site's rows; in the trap only the first process gets them: the next one waits, with a word to the test."""
    folder = Path(config["folder"])
    first = folder / "first"
    trapped = (folder / "trap").exists()
    if trapped and first.exists() and first.read_text() != str(os.getpid()):
        (folder / "asked-again").touch()
        deadline = time.monotonic() + 1200
        while not (folder / "over").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        os._exit(1)
    if trapped:
        first.write_text(str(os.getpid()))
    return pd.read_csv(config["rows"])
'''
"""A site's own data function, by which its SuperNode is caught between its first ask and the next."""


@pytest.mark.slow
def test_a_supernode_that_ends_after_select_is_clustered_by_what_the_others_saw(
    tmp_path: Path, labs: dict[str, dict[str, Value]]
) -> None:
    """Flower knows at once that it is gone, so nobody waits for the round's end, and the report says so."""
    (tmp_path / "leaving.py").write_text(LEAVING)
    (tmp_path / "trap").touch()
    leaving: dict[str, Value] = {"data": "leaving:rows", "rows": labs["lab-2"]["data"], "folder": str(tmp_path)}
    traps = {**labs, "lab-2": {**labs["lab-2"], **leaving}}
    settings: dict[str, Value] = {"protocol": "sec", "min-sites": 2, "output-dir": str(tmp_path / "results")}
    with deployment(tmp_path, traps, {"PYTHONPATH": str(tmp_path)}) as center:
        started = start_deployed_run(APP, settings, center.env, tmp_path / "log")
        try:
            await_file(tmp_path / "asked-again", started)
            center.supernodes["lab-2"].terminate()
            center.supernodes["lab-2"].wait(30)
            found = results_of(started.wait())
        finally:
            (tmp_path / "over").touch()
            started.end()
    report, arrays = load(found)
    assert report.missing == {"lab-2": ["round 2: its node failed (Flower error code 5)"]}
    assert report.seconds < report.config["round-timeout"]
    assert arrays["labels"].tolist() == list(LABS.values())
    # As if only its answer had been lost: what the others' rows said of its model is all that is known of it.
    assert_equal(found, in_process(tmp_path / "in-process", labs, tamper=silent(2, [2])))


def await_file(path: Path, deployed: BackgroundRun) -> None:
    deadline = time.monotonic() + PATIENCE
    while not path.exists():
        assert deployed.process.poll() is None, deployed.log()
        assert time.monotonic() < deadline, deployed.log()
        time.sleep(0.1)
