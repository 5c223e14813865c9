"""Predictions by the sites, with what an earlier run has learned: ``scenario="predict"``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import Message, RecordDict

from common.files import write_arrays
from common.settings import SettingError
from consilience.run_request import simulated_run
from protocols.wire.message import Ask, write_ask
from server.results import load
from tests.process.test_residual import SITES, customers, write_shards
from tests.support.gp_sites import TARGET, own_data_config, soundings, split_over_sites, write_files
from tests.support.grid import config
from tests.support.parameters import few
from tests.support.runs import make_grid, outcome_of, run, run_over

pytestmark = pytest.mark.usefixtures("quick")

WARDS = {"north": 60, "south": 45}
ROW_SITES = list(WARDS)


def write_wards(folder: Path, seed: int = 0, **sizes: int) -> Path:
    """Each ward's instances: two classifiers that are often right, two clusterings that follow the classes."""
    folder.mkdir(parents=True)
    for place, (ward, n) in enumerate({**WARDS, **sizes}.items()):
        rng = np.random.default_rng([seed, place])
        truth = rng.integers(0, 3, n)
        frame = pd.DataFrame({"patient": [f"{ward}-{seed}-{row}" for row in range(n)], "diagnosis": truth})
        for name in ("class_a", "class_b"):
            frame[name] = np.where(rng.random(n) < 0.3, rng.integers(0, 3, n), truth)
        frame["cluster_x"] = np.where(rng.random(n) < 0.2, rng.integers(0, 3, n), 2 - truth)
        frame["cluster_y"] = truth + 3 * rng.integers(0, 2, n)
        frame.to_csv(folder / f"{ward}.csv", index=False)
    return folder


LEARN: dict[str, Any] = {"bc3e.reliability": "none", "protocol": "bc3e", "id": "patient", "truth": "diagnosis"}


def predicting(tmp_path: Path, learned: Path, **changes: Any) -> dict[str, Any]:
    return config(tmp_path, scenario="predict", **{"from": str(learned), **changes})


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of bc3e; the wards' files lie in ``then`` beside its results."""
    tmp_path = tmp_path_factory.mktemp("classes")
    return run(config(tmp_path, **LEARN, data=str(write_wards(tmp_path / "then"))), len(WARDS))


def then(learned: Path) -> Path:
    return learned.parents[2] / "then"


def theta_of(file: Path) -> np.ndarray:
    return pd.read_csv(file).filter(like="theta_").to_numpy()


# -- bc3e -------------------------------------------------------------------------------------------------------------


def test_the_instances_of_then_are_told_the_classes_of_then(classes: Path, tmp_path: Path) -> None:
    found = run(predicting(tmp_path, classes, data=str(then(classes))), len(WARDS))
    report, before = load(found)[0], load(classes)[0]
    assert (found.parent.name, report.scenario, report.protocol, report.rounds) == ("predict", "predict", "bc3e", 1)
    assert report.metrics["n_predicted"] == sum(WARDS.values())
    assert {name: report.metrics[name] for name in before.metrics if name.startswith("accuracy")} == {
        name: value for name, value in before.metrics.items() if name.startswith("accuracy")
    }
    for ward in WARDS:
        told = found / "sites" / ward / "predictions.csv"
        np.testing.assert_allclose(theta_of(told), theta_of(classes / "sites" / ward / "theta.csv"), atol=1e-6)
        assert pd.read_csv(told)["entity"].tolist() == pd.read_csv(then(classes) / f"{ward}.csv")["patient"].tolist()
    assert {row["site"]: row["instances"] for row in report.table} == WARDS


def test_nothing_but_counts_leaves_a_site_that_predicts(classes: Path, tmp_path: Path) -> None:
    found = run(predicting(tmp_path, classes, data=str(write_wards(tmp_path / "new", seed=1))), len(WARDS))
    lines = [line for line in (found / "ledger.jsonl").read_text().splitlines() if '"from_site"' in line]
    assert len(lines) == 2 * len(WARDS)
    assert all("bc3e.PredictionTally" in line or '"envelope"' in line for line in lines)
    assert load(found)[0].metrics["accuracy"] > 0.7


def test_an_instance_is_told_its_class_whoever_else_is_there(classes: Path, tmp_path: Path) -> None:
    few = tmp_path / "few"
    few.mkdir()
    for ward in WARDS:
        pd.read_csv(then(classes) / f"{ward}.csv").iloc[10:16].drop(columns="diagnosis").to_csv(
            few / f"{ward}.csv", index=False
        )
    found = run(predicting(tmp_path, classes, data=str(few)), len(WARDS))
    for ward in WARDS:
        told = theta_of(found / "sites" / ward / "predictions.csv")
        np.testing.assert_allclose(told, theta_of(classes / "sites" / ward / "theta.csv")[10:16], atol=1e-6)
    assert load(found)[0].metrics == {"n_predicted": 12.0}


def test_labels_that_were_not_seen_then_are_none(classes: Path, tmp_path: Path) -> None:
    new, empty = (write_wards(tmp_path / name, seed=2) for name in ("new", "empty"))
    for folder, unseen in ((new, 9), (empty, None)):
        frame = pd.read_csv(folder / "north.csv").astype({"cluster_x": "Int64", "class_a": "Int64"})
        frame.loc[:4, ["cluster_x", "class_a"]] = unseen
        frame["cluster_of_now"] = 1
        frame.to_csv(folder / "north.csv", index=False)
    one, other = (
        theta_of(run(predicting(tmp_path / folder.name, classes, data=str(folder)), 2) / "sites/north/predictions.csv")
        for folder in (new, empty)
    )
    np.testing.assert_array_equal(one, other)


def test_between_real_sites_the_center_names_no_protocol_and_no_file(classes: Path, tmp_path: Path) -> None:
    nodes = [
        {
            **{"site": ward, "data": str(then(classes) / f"{ward}.csv"), "id": "patient"},
            "site-output-dir": str(tmp_path / ward),
        }
        for ward in WARDS
    ]
    found = run(predicting(tmp_path, classes), nodes)
    assert load(found)[0].sites == ROW_SITES
    for ward in WARDS:
        told = theta_of(tmp_path / ward / "predictions.csv")
        np.testing.assert_allclose(told, theta_of(classes / "sites" / ward / "theta.csv"), atol=1e-6)


def test_a_lost_site_is_named_and_the_others_are_told(classes: Path, tmp_path: Path) -> None:
    folder = write_wards(tmp_path / "new", seed=3)
    frame = pd.read_csv(folder / "south.csv").drop(columns=["cluster_x", "cluster_y"])
    frame.assign(cluster_z=1).to_csv(folder / "south.csv", index=False)
    found = outcome_of(predicting(tmp_path, classes, data=str(folder)), 2)
    assert found.report is not None
    assert found.report.metrics["n_predicted"] == WARDS["north"]
    assert "south" in found.text
    assert "missing-column" in found.text


# -- bc3e where instances are shared ----------------------------------------------------------------------------------

HELD = {
    "column": {
        "east": (0, 50, ["class_a", "cluster_x"]),
        "north": (0, 50, ["class_b", "cluster_y"]),
        "south": (0, 50, ["cluster_z", "diagnosis", "class_c"]),
    },
    "arbitrary": {
        "east": (0, 40, ["class_a", "class_b", "cluster_x"]),
        "north": (20, 70, ["class_a", "class_b", "cluster_x", "cluster_y", "diagnosis"]),
        "south": (10, 30, ["class_c", "cluster_z"]),
    },
}
"""By distribution and site: which of the instances, and what of them."""


def write_shares(folder: Path, distribution: str, seed: int = 0) -> Path:
    """In `arbitrary`, a clustering that two sites hold, two of one site each, and instances of one site to three."""
    folder.mkdir(parents=True)
    everything = write_wards(folder / "all", seed=seed, north=70)
    frame = pd.read_csv(everything / "north.csv")
    rng = np.random.default_rng([seed, 7])
    for name in ("class_c", "cluster_z"):
        frame[name] = np.where(rng.random(len(frame)) < 0.3, rng.integers(0, 3, len(frame)), frame["diagnosis"])
    shutil.rmtree(everything)
    for site, (first, last, names) in HELD[distribution].items():
        frame.loc[first : last - 1, ["patient", *names]].to_csv(folder / f"{site}.csv", index=False)
    return folder


@pytest.fixture(scope="module", params=HELD)
def sharing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of bc3e where instances are shared; the files lie in ``then`` beside its results."""
    tmp_path = tmp_path_factory.mktemp(request.param)
    folder = write_shares(tmp_path / "then", request.param)
    learn = {"protocol": "bc3e", "id": "patient", "bc3e.distribution": request.param, "bc3e.max-rounds": 3}
    learn |= {"bc3e.reliability": "none", "bc3e.sweeps": 500}  # a prediction sweeps to convergence, too
    return run(config(tmp_path, **learn, data=str(folder)), 3)


def distribution_of(learned: Path) -> str:
    return str(load(learned)[0].config["bc3e.distribution"])


def test_shared_instances_of_then_are_told_the_classes_of_then(sharing: Path, tmp_path: Path) -> None:
    found = run(predicting(tmp_path, sharing, data=str(then(sharing)), truth="diagnosis"), 3)
    report = load(found)[0]
    assert not report.missing
    held = HELD[distribution_of(sharing)]
    assert report.metrics["n_predicted"] == len({row for first, last, _ in held.values() for row in range(first, last)})
    assert report.metrics["accuracy"] > 0.7
    for site, (first, last, _) in held.items():
        told = found / "sites" / site / "predictions.csv"
        np.testing.assert_allclose(theta_of(told), theta_of(sharing / "sites" / site / "theta.csv"), atol=1e-6)
        assert len(theta_of(told)) == last - first
        assert not (told.parent / "theta.csv").exists()
        assert not (told.parent / "models").exists()


def test_of_shared_instances_only_shares_and_counts_leave(sharing: Path, tmp_path: Path) -> None:
    """Of an M-step, which there is none of, no sum does; a table that a site alone holds stays there."""
    folder = write_shares(tmp_path / "new", distribution_of(sharing), seed=4)
    found = run(predicting(tmp_path, sharing, data=str(folder)), 3)
    report = load(found)[0]
    up = {
        title
        for title, sizes in report.ledger["by_payload"].items()
        if title in ("bc3e.Holdings", "bc3e.Starts", "bc3e.Shares", "bc3e.Tally", "bc3e.Statistics")
    }
    assert up == {"bc3e.Holdings", "bc3e.Starts", "bc3e.Shares", "bc3e.Tally"}
    assert set(load(found)[1]) == set()


@pytest.mark.parametrize("how", few(["lost", "of other classes", "no table"], 2))
def test_a_site_that_has_lost_its_tables_is_left_out(sharing: Path, tmp_path: Path, how: str) -> None:
    learned = tmp_path / "learned"
    shutil.copytree(sharing, learned)
    [kept] = (learned / "sites" / "south" / "models").iterdir()
    if how == "lost":
        kept.unlink()
    elif how == "no table":
        kept.write_bytes(b"PK no archive")
    else:
        write_arrays(kept, {"cluster_z": np.ones((2, 3))})
    found = outcome_of(predicting(tmp_path, learned, data=str(then(sharing))), 3)
    assert found.report is not None
    assert "no-saved-model" in found.report.missing["south"][0]
    assert [row["site"] for row in found.report.table] == ["east", "north"]


def test_between_real_sites_each_finds_its_tables_of_that_run(tmp_path: Path) -> None:
    """Also after another run has written its own."""
    folder = write_shares(tmp_path / "then", "column")
    nodes = [
        {
            **{"site": site, "data": str(folder / f"{site}.csv"), "id": "patient", "allow-shared-instances": True},
            "site-output-dir": str(tmp_path / site),
        }
        for site in HELD["column"]
    ]
    learn = {"protocol": "bc3e", "bc3e.distribution": "column", "bc3e.max-rounds": 2, "bc3e.reliability": "none"}
    learn |= {"bc3e.sweeps": 500}
    learned = run(config(tmp_path, **learn), nodes)
    theta = {site: theta_of(tmp_path / site / "theta.csv") for site in HELD["column"]}
    run(config(tmp_path, **{**learn, "bc3e.smoothing": 50.0, "bc3e.sweeps": 2}), nodes)
    run(predicting(tmp_path, learned), nodes)
    for site, before in theta.items():
        np.testing.assert_allclose(theta_of(tmp_path / site / "predictions.csv"), before, atol=1e-6)


@pytest.mark.parametrize("distribution", few(["row", "arbitrary", "column"]))
def test_confusion_matrices_predict_too(distribution: str, tmp_path: Path) -> None:
    """Nearly every class of then: an instance between two fixed points may find the other one from a cold start."""
    row = distribution == "row"
    folder = write_wards(tmp_path / "then") if row else write_shares(tmp_path / "then", distribution)
    learn = {"protocol": "bc3e", "id": "patient", "bc3e.distribution": distribution, "bc3e.max-rounds": 4}
    learn |= {"bc3e.sweeps": 500}
    n_sites = len(WARDS) if row else 3
    learned = run(config(tmp_path, **learn, data=str(folder)), n_sites)
    found = run(predicting(tmp_path, learned, data=str(folder)), n_sites)
    assert not load(found)[0].missing
    for before in sorted(learned.glob("sites/*/theta.csv")):
        told = theta_of(found / "sites" / before.parent.name / "predictions.csv")
        assert (np.abs(told - theta_of(before)).max(axis=1) < 1e-5).mean() > 0.9


def test_a_site_that_forgets_while_it_predicts_is_reminded(sharing: Path, tmp_path: Path) -> None:
    asked = predicting(tmp_path, sharing, data=str(then(sharing)))
    whole, grid = run(asked, 3), make_grid(asked, 3)
    forgetful = list(grid.contexts.values())[1]

    def forget(place: int, number: int, reply: Message) -> Message:
        if (place, number) == (1, 3):
            forgetful.state = RecordDict()
            for memory in Path(asked["output-dir"]).glob(f"predict/.{forgetful.run_id}.partial/sites/north/memory-*"):
                shutil.rmtree(memory)
        return reply

    grid.tamper = forget
    again = run_over(grid, asked)
    assert any("north lost its memory" in note for note in load(again)[0].notes)
    told = [path / "sites" / "north" / "predictions.csv" for path in (whole, again)]
    assert told[0].read_bytes() == told[1].read_bytes()


def test_an_interrupted_prediction_goes_on(sharing: Path, tmp_path: Path) -> None:
    asked = predicting(tmp_path, sharing, data=str(then(sharing)))
    whole, grid = run(asked, 3), make_grid(asked, 3)
    grid.stop_after = 4
    with pytest.raises(grid.stop):
        run_over(grid, asked)
    run_id = next(iter(grid.contexts.values())).run_id
    resumed = run({**asked, "resume-from": str(tmp_path / "results" / "predict" / str(run_id))}, 3)
    assert load(resumed)[0].metrics == load(whole)[0].metrics
    for site in HELD["column"]:
        told = [path / "sites" / site / "predictions.csv" for path in (whole, resumed)]
        assert told[0].read_bytes() == told[1].read_bytes()


# -- residual and gp --------------------------------------------------------------------------------------------------


def test_residual_predicts_with_the_settings_of_its_run(tmp_path: Path) -> None:
    folder = write_shards(tmp_path / "then", customers(120, seed=1), outcome_at="bank")
    settings = {"id": "customer", "target": "y", "residual.rounds": 2, "residual.refit": False}
    learned = run(config(tmp_path, protocol="residual", **settings, data=str(folder)), len(SITES))
    later = str(write_shards(tmp_path / "now", customers(40, seed=2)))
    one = run(predicting(tmp_path, learned, data=later), 3)
    other = run(predicting(tmp_path / "typed", learned, data=later, **settings), 3)
    assert load(one)[0].metrics == load(other)[0].metrics
    assert load(one)[0].metrics["n_predicted"] > 0
    told = [path / "sites" / "bank" / "predictions.csv" for path in (one, other)]
    assert told[0].read_bytes() == told[1].read_bytes()


def test_gp_predicts_other_points(tmp_path: Path) -> None:
    names = ("coast", "hills")
    folder = write_files(tmp_path / "then", split_over_sites(soundings(60), names=names))
    learned = run(own_data_config(tmp_path, folder, gp__fit_rounds=1, gp__kernel="matern32"), 2)
    later = tmp_path / "later.csv"
    soundings(12, seed=3).drop(columns=TARGET).to_csv(later, index=False)
    one = run(predicting(tmp_path / "queries", learned, gp__queries=str(later)), 2)
    other = run(predicting(tmp_path, learned, data=str(later)), 2)
    assert (one / "predictions.csv").read_bytes() == (other / "predictions.csv").read_bytes()
    assert load(other)[0].config["data"] == str(folder)
    changed = run(predicting(tmp_path / "all", learned, data=str(later), gp__gate="all", gp__aggregation="poe"), 2)
    asked = pd.read_csv(changed / "predictions.csv")["experts"]
    assert {frozenset(each.split()) for each in asked} == {frozenset(names)}


# -- what is refused --------------------------------------------------------------------------------------------------


def test_what_no_prediction_has_is_refused(classes: Path, tmp_path: Path) -> None:
    told = outcome_of(predicting(tmp_path, classes, data=str(then(classes)), seed=3), 2).refusal
    assert told == "seed: a prediction has the seed of the run that from names; leave it out"


def test_predictions_are_nothing_to_predict_by(classes: Path, tmp_path: Path) -> None:
    found = run(predicting(tmp_path, classes, data=str(then(classes))), 2)
    told = outcome_of(predicting(tmp_path, found, data=str(then(classes))), 2).refusal
    assert told == f"from: {found} are predictions themselves; name the run that has learned"


def test_another_number_of_sites_is_told_the_command(classes: Path, tmp_path: Path) -> None:
    told = outcome_of(predicting(tmp_path, classes, data=str(then(classes))), 3).refusal
    assert "has 2 sites, the federation has 3" in told
    assert "--run-config 'scenario=\"predict\"'" in told
    assert "protocol" not in told


def test_sites_without_a_file_of_then_are_told(classes: Path, tmp_path: Path) -> None:
    lost = tmp_path / "lost"
    shutil.copytree(classes, lost)
    arrays = dict(load(lost)[1])
    del arrays["clusterings"]
    write_arrays(lost / "arrays.npz", arrays)
    told = outcome_of(predicting(tmp_path, lost, data=str(then(classes))), 2).refusal
    assert "does not name its clusterings; run it again with this version" in told


@pytest.mark.parametrize(
    ("name", "spoilt"),
    [
        ("alpha", None),
        ("alpha", np.array([1.0, -1.0, 1.0])),
        ("alpha", np.ones(3, np.float32)),
        ("beta_1", None),
        ("beta_1", np.full((2, 6), 1 / 6)),
        ("beta_0", np.full((3, 3), np.nan)),
        ("clusterings", np.array([["cluster_x", "cluster_y"]])),
        ("clusterings", np.array(["cluster_x", "cluster_x"])),
    ],
)
def test_arrays_that_were_changed_are_told_by_name(
    classes: Path, tmp_path: Path, name: str, spoilt: np.ndarray | None
) -> None:
    shutil.copytree(classes, tmp_path / "changed")
    arrays = {**load(classes)[1], name: spoilt}
    write_arrays(tmp_path / "changed" / "arrays.npz", {key: each for key, each in arrays.items() if each is not None})
    told = outcome_of(predicting(tmp_path, tmp_path / "changed", data=str(then(classes))), 2).refusal
    assert f"{name} in arrays.npz is not what this version of bc3e writes there" in told


@pytest.mark.parametrize("changes", [{"alpha": [-1.0, 1.0, 1.0]}, {"max_sweeps": 0}, {"clusterings": ("x", "x")}])
def test_a_real_site_holds_the_center_to_sound_parameters(
    classes: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    from flwr.app import Context, Message, RecordDict

    from clients.dispatch import handle
    from protocols.bc3e.payloads import Predict
    from protocols.wire.faults import Fault
    from protocols.wire.message import Parcel, read_envelope

    node: dict[str, Any] = {
        "site": "north",
        "data": str(then(classes) / "north.csv"),
        "site-output-dir": str(tmp_path / "own"),
    }
    context = Context(1, 7, node, RecordDict(), predicting(tmp_path, classes))

    def fault(**fields: Any) -> int:
        beta = np.full((3, 3), 1 / 3)
        given = {"alpha": np.ones(3), "clusterings": ("cluster_x", "cluster_y"), "beta": (beta, beta)}
        ask = Predict(**{**given, "tolerance": 1e-8, "max_sweeps": 5, **fields})
        asked = Message(write_ask(Ask("s", 1, 0, [Parcel("0", ask)])), dst_node_id=7, message_type="train")
        return read_envelope(handle(asked, context).content).fault

    assert fault(**{name: np.array(each) if name == "alpha" else each for name, each in changes.items()}) == (
        Fault.MALFORMED_ASK
    )
    assert not fault()
    assert fault(alpha=np.array([2.0, 1.0, 1.0])) == Fault.MALFORMED_ASK, "two tables tell of their difference"
    assert fault(max_sweeps=1) == fault(tolerance=1.0) == Fault.MALFORMED_ASK, "and so do two ends of an E-step"


# -- what is typed ----------------------------------------------------------------------------------------------------


def test_the_command_finds_the_number_of_sites(classes: Path, tmp_path: Path) -> None:
    options = {"scenario": "predict", "data": str(then(classes))}
    request = simulated_run([f"from={classes}"], options, None, 9.0)
    assert (request.sites, request.settings["from"]) == (2, str(classes))
    with pytest.raises(SettingError, match="needs data"):
        simulated_run([f"from={classes}"], {"scenario": "predict"}, None, 9.0)
