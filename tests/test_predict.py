"""Predictions by the sites, with what an earlier run has learnt: ``scenario="predict"``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from consilience.durable import write_arrays
from consilience.plan import make_plan
from consilience.prediction import PredictionError, resolved
from consilience.settings import SettingError, declared
from protocols.message import Ask, write_ask
from server.results import load
from tests.contract import outcome_of, run
from tests.e2e.test_residual import PARTIES, customers, write_shards
from tests.grid import config
from tests.parties_gp import TARGET, dealt, own, soundings, write_files

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


LEARN: dict[str, Any] = {"protocol": "bc3e", "id": "patient", "truth": "diagnosis"}


def predicting(tmp_path: Path, learnt: Path, **changes: Any) -> dict[str, Any]:
    return config(tmp_path, scenario="predict", **{"from": str(learnt), **changes})


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of bc3e; the wards' files lie in ``then`` beside its results."""
    tmp_path = tmp_path_factory.mktemp("classes")
    return run(config(tmp_path, **LEARN, data=str(write_wards(tmp_path / "then"))), len(WARDS))


def then(learnt: Path) -> Path:
    return learnt.parents[2] / "then"


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
    assert all("bc3e.Predicted" in line or '"envelope"' in line for line in lines)
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


def test_sites_that_share_instances_are_told_to_learn_anew(tmp_path: Path) -> None:
    folder = write_wards(tmp_path / "then", south=60)
    for ward, names in {"north": ["class_a", "cluster_x"], "south": ["class_b", "cluster_y"]}.items():
        frame = pd.read_csv(folder / "north.csv")[["patient", *names]]
        frame.to_csv(folder / f"{ward}.csv.new", index=False)
    for ward in WARDS:
        (folder / f"{ward}.csv.new").replace(folder / f"{ward}.csv")
    learn = {"protocol": "bc3e", "id": "patient", "bc3e.distribution": "column", "bc3e.max-rounds": 2}
    learnt = run(config(tmp_path, **learn, data=str(folder)), 2)
    told = outcome_of(predicting(tmp_path / "later", learnt, data=str(folder)), 2).refusal
    assert "bc3e.distribution=column" in told
    assert "run bc3e on the new instances" in told


# -- residual and gp --------------------------------------------------------------------------------------------------


def test_residual_predicts_as_with_its_model(tmp_path: Path) -> None:
    folder = write_shards(tmp_path / "then", customers(120, seed=1), outcome_at="bank")
    settings = {"protocol": "residual", "id": "customer", "target": "y", "residual.rounds": 2, "residual.refit": False}
    learnt = run(config(tmp_path, **settings, data=str(folder)), len(PARTIES))
    later = str(write_shards(tmp_path / "now", customers(40, seed=2)))
    by_model = config(tmp_path / "model", **settings, **{"residual.model": str(learnt)}, data=later)
    one, other = run(by_model, 3), run(predicting(tmp_path, learnt, data=later), 3)
    assert load(one)[0].metrics == load(other)[0].metrics
    told = [path / "sites" / "bank" / "predictions.csv" for path in (one, other)]
    assert told[0].read_bytes() == told[1].read_bytes()


def test_gp_predicts_other_points_as_with_its_model(tmp_path: Path) -> None:
    names = ("coast", "hills")
    folder = write_files(tmp_path / "then", dealt(soundings(60), names=names))
    learnt = run(own(tmp_path, folder, gp__fit_rounds=1, gp__kernel="matern32"), 2)
    later = tmp_path / "later.csv"
    soundings(12, seed=3).drop(columns=TARGET).to_csv(later, index=False)
    one = run(own(tmp_path / "model", folder, gp__model=str(learnt), gp__queries=str(later)), 2)
    other = run(predicting(tmp_path, learnt, data=str(later)), 2)
    assert (one / "predictions.csv").read_bytes() == (other / "predictions.csv").read_bytes()
    assert load(other)[0].config["data"] == str(folder)
    changed = run(predicting(tmp_path / "all", learnt, data=str(later), gp__gate="all", gp__aggregation="poe"), 2)
    asked = pd.read_csv(changed / "predictions.csv")["experts"]
    assert {frozenset(each.split()) for each in asked} == {frozenset(names)}


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scenario": "bc3e-wine"}, 'from is for scenario="predict"'),
        ({"from": ""}, 'needs from="RESULTS-DIR"'),
        ({"from": "/nowhere"}, "/nowhere holds no report.json"),
        ({"protocol": "gp"}, "protocol: a prediction has the protocol of the run that from names; leave it out"),
        ({"repetitions": 3}, "repetitions: there is one prediction of a row; leave it out"),
        ({"seed": 3}, "seed: a prediction has the seed of the run"),
    ],
)
def test_settings_that_no_prediction_has(classes: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PredictionError) as refused:
        resolved({**declared(), "scenario": "predict", "from": str(classes), **changes})
    assert message in str(refused.value)


def test_predictions_are_nothing_to_predict_by(classes: Path, tmp_path: Path) -> None:
    found = run(predicting(tmp_path, classes, data=str(then(classes))), 2)
    told = outcome_of(predicting(tmp_path, found, data=str(then(classes))), 2).refusal
    assert told == f"from: {found} are predictions themselves; name the run that has learnt"


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


@pytest.mark.parametrize("changes", [{"alpha": [-1.0, 1.0, 1.0]}, {"max_sweeps": 0}, {"clusterings": ("x", "x")}])
def test_a_real_site_holds_the_center_to_sound_parameters(
    classes: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    from flwr.app import Context, Message, RecordDict

    from clients.dispatch import handle
    from protocols.bc3e import Predict
    from protocols.faults import Fault
    from protocols.message import Parcel, read_envelope

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


# -- what is typed ----------------------------------------------------------------------------------------------------


def test_the_command_finds_the_number_of_sites(classes: Path, tmp_path: Path) -> None:
    options = {"scenario": "predict", "data": str(then(classes))}
    plan = make_plan([f"from={classes}"], options, None, 9.0)
    assert (plan.sites, plan.settings["from"]) == (2, str(classes))
    with pytest.raises(SettingError, match="needs --data"):
        make_plan([f"from={classes}"], {"scenario": "predict"}, None, 9.0)
