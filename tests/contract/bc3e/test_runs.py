"""BC3E from the run configuration to the results directory; its mathematics is tested in test_variational.py."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, Message, RecordDict

from clients.data import DataError
from clients.dispatch import handle
from consilience.local_engine.grid import node_configs
from numerics.bc3e.anderson import Weights
from protocols.bc3e.payloads import Survey
from protocols.wire.faults import Fault
from protocols.wire.message import Ask, Parcel, read_envelope, write_ask
from protocols.wire.payload import encode_array
from scenarios.registry import find
from server import app as server_app
from server.report.verdict import verdict
from server.results import load
from strategies.bc3e import from_config
from strategies.errors import FusionError
from tests.support.bc3e_ensembles import write_sites_of_labels
from tests.support.contract import StrategyContract
from tests.support.grid import config
from tests.support.parameters import few
from tests.support.runs import Nodes, make_grid, run
from tests.support.tampering import silent

QUICK: dict[str, Any] = {"bc3e__max_rounds": 2, "bc3e__sweeps": 2}
"""A fit cut short: what is compared holds at every step of it."""

pytestmark = pytest.mark.usefixtures("quick")


class Contract(StrategyContract):
    protocol = "bc3e"
    outputs: tuple[str, ...] = ("theta.csv",)
    distribution: str

    def run_config(self, tmp_path: Path) -> dict[str, Any]:
        return config(tmp_path, bc3e__distribution=self.distribution, **QUICK)

    def nodes(self) -> Nodes:
        return 3


class TestRow(Contract):
    distribution = "row"

    def run_config(self, tmp_path: Path) -> dict[str, Any]:
        return config(tmp_path, bc3e__max_rounds=3)


@pytest.mark.slow
class TestColumn(Contract):
    distribution = "column"


@pytest.mark.slow
class TestArbitrary(Contract):
    distribution = "arbitrary"


@pytest.mark.slow
class TestRowRepeatedAndRestarted(Contract):
    """Lanes within lanes, at real sites: two repetitions of two fits each, and memory in the sites' own directories."""

    distribution = "row"
    outputs = ("theta.csv", "theta-1.csv")
    # One lane or several, an answer passes or fails as a whole: that is tested with one.
    test_poisoned_answers_are_refused = None  # type: ignore[assignment]
    test_a_site_that_fails = None  # type: ignore[assignment]
    test_envelope_and_parcels_are_checked = None  # type: ignore[assignment]

    def run_config(self, tmp_path: Path) -> dict[str, Any]:
        self.folder = tmp_path
        return config(tmp_path, bc3e__restarts=2, repetitions=2, **QUICK)

    def nodes(self) -> Nodes:
        return [
            {**node, "site": f"site-{place}", "site-output-dir": str(self.folder / f"own-{place}")}
            for place, node in enumerate(node_configs(2))
        ]

    def n_sites(self) -> int:
        return 2

    def output_files(self, path: Path) -> dict[tuple[str, str], bytes]:
        """The files lie with the sites; they hold the newest run's."""
        folder = path.parents[2]
        return {
            (own.name, name): (own / name).read_bytes()
            for own in folder.glob("own-*")
            for name in self.outputs
            if (own / name).exists()
        }


def some_of(n_sites: int, places: list[int]) -> list[dict[str, Any]]:
    """Some of the sites of a scenario that is split over `n_sites`: the others are not there at all."""
    return [node_configs(n_sites)[place] for place in places]


# -- one result, however the data lie ---------------------------------------------------------------------------------


def test_every_split_gives_the_same_bits(tmp_path: Path) -> None:
    settings = config(tmp_path, bc3e__max_rounds=4, bc3e__sweeps=2)
    expected, wanted = load(run(settings, 2))
    for distribution, sites in [("row", 1), ("row", 7), ("column", 4), ("arbitrary", 5)]:
        report, arrays = load(run({**settings, "bc3e.distribution": distribution}, sites))
        assert report.metrics == expected.metrics, distribution
        assert report.table == expected.table, distribution
        assert {"alpha", "bounds"} <= set(arrays)
        if distribution == "row":
            assert arrays.keys() == wanted.keys()
        for name, array in arrays.items():
            if name in ("alpha", "bounds") or distribution == "row":
                np.testing.assert_array_equal(array, wanted[name], err_msg=f"{distribution}, {name}")


def test_it_converges_within_the_rounds_of_the_report(tmp_path: Path) -> None:
    report, arrays = load(run(config(tmp_path), 2))
    assert report.metrics["converged"] == 1.0
    assert report.metrics["rounds_to_converge"] == report.rounds - 2
    bounds = arrays["bounds"]
    assert (np.diff(bounds) >= 0).all()
    assert abs(bounds[-1] - bounds[-2]) <= 1e-6 * abs(bounds[-1])
    assert report.metrics["bound"] == bounds[-1]


def test_metrics_and_arrays_have_the_documented_names(tmp_path: Path) -> None:
    report, arrays = load(run(config(tmp_path, **QUICK), 2))
    documented = {"bound", "rounds_to_converge", "accuracy", "accuracy_majority", "accuracy_best_component"}
    assert documented <= report.metrics.keys()
    k = len(arrays["alpha"])
    assert k == 3
    betas = {name: array for name, array in arrays.items() if name.startswith("beta_")}
    assert set(betas) == {f"beta_{place}" for place in range(6)}
    for beta in betas.values():
        assert beta.shape[0] == k
        np.testing.assert_allclose(beta.sum(axis=1), 1.0)
    assert [row["method"] for row in report.table][:3] == ["BC3E", "majority vote", "best component"]


@pytest.mark.parametrize("distribution", ["row", "column", "arbitrary"])
def test_sites_count_the_pooled_baselines(tmp_path: Path, distribution: str) -> None:
    """What the sites counted, before the report puts the scenario's own numbers beside it."""
    settings = config(tmp_path, bc3e__distribution=distribution, **QUICK)
    strategy = from_config(settings, seed=0, n_sites=3)
    result = strategy.start(make_grid(settings, 3), timeout=5)
    counted = strategy.metrics(result.outcomes[0])
    pooled = find("bc3e-wine").baselines(settings, 0)
    names = set(pooled) - ({"accuracy_majority"} if distribution != "row" else set())
    assert {name: counted[name] for name in names} == {name: pooled[name] for name in names}
    assert ("accuracy_majority" in counted) == (distribution == "row")
    assert result.outcomes[0].total["bc3e"] == result.outcomes[0].total["tree"]


def test_theta_is_written_for_every_instance(tmp_path: Path) -> None:
    path = run(config(tmp_path, **QUICK), 3)
    frames = [pd.read_csv(path / "sites" / f"site-{place}" / "theta.csv") for place in range(3)]
    everything = pd.concat(frames)
    truth = find("bc3e-wine").shards(config(tmp_path), 0, 1)[0]
    assert sorted(everything["entity"]) == sorted(truth.entity)
    theta = everything.filter(like="theta_").to_numpy()
    np.testing.assert_allclose(theta.sum(axis=1), 1.0)
    right = everything.set_index("entity")["class"].loc[truth.entity].to_numpy() == truth.truth
    assert right.mean() == load(path)[0].metrics["accuracy"]


# -- a missing site ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", few(["keep", "drop"]))
def test_row_site_that_never_answered_an_e_step_counts_for_nothing(tmp_path: Path, missing: str) -> None:
    settings = config(tmp_path, bc3e__missing=missing)
    lost, arrays = load(run(settings, 3, tamper=silent(2, range(2, 1000))))
    without, wanted = load(run(settings, some_of(3, [0, 1])))
    np.testing.assert_allclose(arrays["bounds"][-1], wanted["bounds"][-1], rtol=1e-5)
    np.testing.assert_allclose(arrays["alpha"], wanted["alpha"], rtol=1e-2)
    assert lost.metrics["accuracy"] == without.metrics["accuracy"]
    assert set(lost.missing) == {"site-2"}


def test_row_keep_goes_on_with_the_last_statistics(tmp_path: Path) -> None:
    """Incremental EM: all instances stay in the bound, which never falls."""
    settings = config(tmp_path, bc3e__accelerate=False, bc3e__tolerance=1e-5)
    whole = load(run(settings, 3))[1]["bounds"]
    bounds = load(run(settings, 3, tamper=silent(2, range(6, 1000))))[1]["bounds"]
    np.testing.assert_array_equal(bounds[:4], whole[:4])
    assert (np.diff(bounds) >= 0).all()
    assert whole[4] > bounds[4] > bounds[3]


def test_row_drop_goes_on_with_the_rest(tmp_path: Path) -> None:
    settings = config(tmp_path, bc3e__missing="drop")
    bounds = load(run(settings, 3, tamper=silent(2, range(6, 1000))))[1]["bounds"]
    rest = load(run(settings, some_of(3, [0, 1])))[1]["bounds"]
    # Fewer instances, a higher bound; the fit ends where that of the others alone ends.
    assert bounds[4] > bounds[3] + 0.2 * abs(bounds[3])
    np.testing.assert_allclose(bounds[-1], rest[-1], rtol=1e-3)


@pytest.mark.parametrize("accelerate", few([True, False]))
def test_row_site_that_comes_back_takes_part_again(tmp_path: Path, accelerate: bool) -> None:
    settings = config(tmp_path, bc3e__accelerate=accelerate)
    whole, expected = load(run(settings, 3))  # nobody is missing
    for missing in ("keep", "drop"):
        path = run({**settings, "bc3e.missing": missing}, 3, tamper=silent(1, [4, 5]))
        report, arrays = load(path)
        assert [line[:8] for line in report.missing["site-1"]] == ["round 4:", "round 5:"]
        np.testing.assert_allclose(arrays["bounds"][-1], expected["bounds"][-1], rtol=1e-4, err_msg=missing)
        assert report.metrics["accuracy"] == whole.metrics["accuracy"], missing
        assert (path / "sites" / "site-1" / "theta.csv").exists()


def test_column_lost_site_takes_its_models_along(tmp_path: Path) -> None:
    settings = config(tmp_path, bc3e__distribution="column", bc3e__max_rounds=4, bc3e__sweeps=2)
    for first in (2, 5):
        report, arrays = load(run(settings, 3, tamper=silent(1, range(first, 1000))))
        assert report.missing["site-1"][0].startswith(f"round {first}: no answer")
        assert report.sites == ["site-0", "site-1", "site-2"]
        if first == 2:
            without, wanted = load(run(settings, some_of(3, [0, 2])))
            np.testing.assert_array_equal(arrays["alpha"], wanted["alpha"])
            np.testing.assert_array_equal(arrays["bounds"], wanted["bounds"])
            assert report.metrics["accuracy"] == without.metrics["accuracy"]


def test_column_site_that_is_lost_does_not_come_back(tmp_path: Path) -> None:
    settings = config(tmp_path, bc3e__distribution="column", **QUICK)
    once = run(settings, 3, tamper=silent(1, [4]))
    ever = run(settings, 3, tamper=silent(1, range(4, 1000)))
    np.testing.assert_array_equal(load(once)[1]["bounds"], load(ever)[1]["bounds"])
    assert not (once / "sites" / "site-1" / "theta.csv").exists()


def test_steps_from_before_a_site_was_dropped_are_not_combined_with_later_ones() -> None:
    """The blocks keep their images, but what is known of their residuals holds for other sums."""
    weights = Weights()
    for products in ([4], [1, 3], [1, 1, 2]):
        weights.accept(np.array(products))
    weights.forget()
    weights.accept(np.array([7, 7, 0, 1]))
    np.testing.assert_array_equal(weights.gram, [[2, 0], [0, 1]])
    assert len(weights.solve()) == 2


# -- consent ----------------------------------------------------------------------------------------------------------


def test_site_with_a_single_model_refuses(tmp_path: Path) -> None:
    settings = config(tmp_path, bc3e__distribution="column", **QUICK)
    with pytest.raises(FusionError, match=r"site-2 and 6 more: it holds a single model.*\[too-few-models\]"):
        run(settings, 9)
    assert load(run({**settings, "bc3e.allow-single-model": True}, 9))[0].missing == {}


def test_run_configuration_cannot_consent_for_a_site(tmp_path: Path) -> None:
    own = {"protocol": "bc3e", "bc3e.distribution": "column", "bc3e.allow-single-model": True, **QUICK}
    settings = config(tmp_path, **own)
    nodes = [{**node, "site": f"clinic-{place}"} for place, node in enumerate(single_models(tmp_path, 9))]
    with pytest.raises(FusionError, match="clinic-0, clinic-1, clinic-2 and 6 more: it holds a single model"):
        run(settings, nodes)
    willing = [{**node, "allow-single-model": place < 5} for place, node in enumerate(nodes)]
    report = load(run(settings, willing))[0]
    assert sorted(report.missing) == [f"clinic-{place}" for place in range(5, 9)]


def single_models(folder: Path, n: int) -> list[dict[str, Value]]:
    """Node configurations of sites with one model each, of the same 40 cases: a clustering, and classifiers."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 40)
    for place in range(n):
        label = truth if place == 0 else np.where(rng.random(40) < 0.2, 1 - truth, truth)
        column = "cluster_x" if place == 0 else f"class_{place}"
        pd.DataFrame({"case": [f"case-{i}" for i in range(40)], column: label}).to_csv(
            folder / f"{place}.csv", index=False
        )
    return [{"data": str(folder / f"{place}.csv"), "id": "case", "allow-shared-instances": True} for place in range(n)]


def test_site_keys_in_a_run_configuration_mean_nothing(tmp_path: Path) -> None:
    """A fusion center that hands out the site's own keys is not obeyed."""
    forged = {**config(tmp_path, bc3e__distribution="column"), "allow-single-model": True}
    node = {**node_configs(9)[0], "site": "clinic"}
    asked = Message(write_ask(Ask("s", 1, 0, [Parcel("0", Survey("column", "salt"))])), 5, "train")
    asked.metadata.__dict__["_message_id"] = "m1"
    reply = handle(asked, Context(1, 5, dict(node), RecordDict(), forged))
    assert read_envelope(reply.content).fault == Fault.TOO_FEW_MODELS


# -- repetitions and restarts -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_repetitions_are_the_runs_of_the_seeds_that_follow(tmp_path: Path) -> None:
    settings = config(tmp_path, seed=4)
    several, arrays = load(run({**settings, "repetitions": 3}, 2))
    single = [load(run({**settings, "seed": 4 + place}, 2)) for place in range(3)]
    for name in single[0][0].metrics:
        values = np.array([report.metrics[name] for report, _ in single])
        np.testing.assert_array_equal(arrays[f"repetitions_{name}"], values, err_msg=name)
        assert several.metrics[name] == values.mean()
        assert several.metrics[f"{name}_se"] == values.std(ddof=1) / np.sqrt(3)
    np.testing.assert_array_equal(arrays["alpha"], single[0][1]["alpha"])
    assert several.rounds == max(report.rounds for report, _ in single)
    assert len({report.rounds for report, _ in single}) > 1


def test_restarts_share_rounds_and_keep_the_best(tmp_path: Path) -> None:
    settings = config(tmp_path, bc3e__max_rounds=6)
    one, several = load(run(settings, 2))[0], load(run({**settings, "bc3e.restarts": 4}, 2))[0]
    assert several.metrics["bound"] >= one.metrics["bound"]
    assert several.rounds == one.rounds
    assert (
        several.ledger["by_payload"]["bc3e.EStep"]["messages"] == 4 * one.ledger["by_payload"]["bc3e.EStep"]["messages"]
    )
    assert several.ledger["by_payload"]["bc3e.Conclude"]["messages"] == 2


def write_clusterings(folder: Path) -> None:
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in ("north", "south"):
        group = rng.integers(0, 2, 30)
        noisy = {f"cluster_{letter}": np.where(rng.random(30) < 0.1, 1 - group, group) for letter in "abc"}
        pd.DataFrame({**noisy, "kind": group}).to_csv(folder / f"{name}.csv", index=False)


def test_clusterings_alone_start_from_random_tables(tmp_path: Path) -> None:
    """Without classifiers the uniform start is a saddle: ten random starts, of which the best tells groups apart."""
    write_clusterings(tmp_path / "data")
    own = {"protocol": "bc3e", "data": str(tmp_path / "data"), "bc3e__max_rounds": 30}
    with pytest.raises(DataError, match=r"no site has a column of class labels .*bc3e\.classes"):
        run(config(tmp_path, **own), 2)
    report, arrays = load(run(config(tmp_path, bc3e__classes=2, truth="kind", **own), 2))
    assert report.ledger["by_payload"]["bc3e.EStep"]["messages"] >= 2 * 10
    assert not any(name.startswith("accuracy") for name in report.metrics), "nobody knows which class is which"
    assert "classes have no names" in str(report.notes)
    assert np.abs(arrays["beta_0"][0] - arrays["beta_0"][1]).max() > 0.5


# -- answers that do not fit ------------------------------------------------------------------------------------------


def test_counts_that_cannot_be_are_refused(tmp_path: Path) -> None:
    def tamper(place: int, number: int, reply: Message) -> Message:
        if (place, number) == (1, 4):
            reply.content.array_records["0.arrays"]["correct"] = encode_array(np.full(5, 10**6))
        return reply

    report = load(run(config(tmp_path, **QUICK), 2, tamper=tamper))[0]
    assert "field 'correct'" in report.missing["site-1"][0]
    assert report.metrics["accuracy"] <= 1


# -- what a second reading found --------------------------------------------------------------------------------------


@pytest.mark.parametrize("accelerate", few([True, False]))
def test_the_bound_does_not_fall_when_a_site_falls_silent(tmp_path: Path, accelerate: bool) -> None:
    """The statistics that are kept of it count with the bound that they have at the newest parameters."""
    run_config = config(tmp_path, bc3e__accelerate=accelerate)
    report, arrays = load(run(run_config, 3, tamper=silent(2, range(5, 1000))))
    assert (np.diff(arrays["bounds"]) >= -1e-6).all()
    assert report.metrics["converged"] == 1.0
    assert report.rounds <= (20 if accelerate else 40)  # about as many as with all sites


@pytest.mark.slow
def test_min_sites_counts_sites_that_a_sweep_does_not_ask(tmp_path: Path) -> None:
    """A sweep goes to the sites that hold an instance still moving: the others have not failed."""
    report, _ = load(
        run(config(tmp_path, bc3e__distribution="arbitrary", bc3e__max_rounds=2, bc3e__sweeps=500, min_sites=9), 9)
    )
    answered = {row["sites"] for row in report.convergence}
    assert min(answered) < 9
    assert not report.missing


def column_sites(folder: Path, truth: str) -> list[dict[str, Any]]:
    """Three sites with two models each of the same forty instances; one of them knows the classes."""
    rng = np.random.default_rng(3)
    classes = rng.integers(0, 2, 40)
    nodes = []
    for name in ("a", "b", "c"):
        noisy = np.where(rng.random(40) < 0.2, 1 - classes, classes)
        frame = pd.DataFrame({"id": np.arange(40), f"class_{name}": noisy, f"cluster_{name}": (classes + noisy) % 3})
        node = {"site": name, "data": str(folder / f"{name}.csv"), "id": "id", "site-output-dir": str(folder / name)}
        node["allow-shared-instances"] = True
        if name == truth:
            frame["y"], node["truth"] = classes, "y"
        frame.to_csv(folder / f"{name}.csv", index=False)
        nodes.append(node)
    return nodes


def test_shared_instances_are_counted_by_a_site_that_knows_the_truth(tmp_path: Path) -> None:
    run_config = config(tmp_path, protocol="bc3e", bc3e__distribution="column", **QUICK)
    counted = [load(run(run_config, column_sites(tmp_path, truth)))[0].metrics["accuracy"] for truth in "abc"]
    assert counted[0] == counted[1] == counted[2] > 0.5


def test_a_column_site_keeps_its_own_tables(tmp_path: Path) -> None:
    """Beta of a clustering that one site alone holds is at the center in no file, and at the site in one of its own."""
    path = run(config(tmp_path, protocol="bc3e", bc3e__distribution="column", **QUICK), column_sites(tmp_path, "a"))
    learned = {"alpha", "bounds", "changed", "classifiers", "clusterings", "coverage", "draws"}
    assert set(load(path)[1]) == learned | {"paired_accuracy_best_component"}
    with np.load(tmp_path / "b" / "beta.npz") as tables:
        assert set(tables.files) == {"cluster_b", "confusion:class_b"}
        assert tables["cluster_b"].shape == (2, 3)
        for table in tables.values():
            np.testing.assert_allclose(table.sum(axis=1), 1.0)


def test_a_run_on_databases_is_that_on_files(tmp_path: Path) -> None:
    """Whatever each site's rows come from: a query, a Parquet file or a CSV file."""
    run_config = config(tmp_path, protocol="bc3e", bc3e__distribution="column", **QUICK)
    nodes = column_sites(tmp_path, "a")
    expected, arrays = load(run(run_config, nodes))
    frame = pd.read_csv(tmp_path / "a.csv")
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        frame.to_sql("labels", database, index=False)
    pd.read_csv(tmp_path / "b.csv").to_parquet(tmp_path / "b.parquet")
    nodes[0] |= {"data": "select * from labels order by id", "database": f"sqlite:///{tmp_path / 'a.db'}"}
    nodes[1] |= {"data": str(tmp_path / "b.parquet")}
    report, others = load(run(run_config, nodes))
    assert report.metrics == expected.metrics
    assert {name: array.tobytes() for name, array in arrays.items()} == {
        name: array.tobytes() for name, array in others.items()
    }


@pytest.mark.parametrize("field", ["log_theta", "mass"])
def test_impossible_statistics_are_refused(tmp_path: Path, field: str) -> None:
    def tamper(place: int, number: int, reply: Message) -> Message:
        if place == 1 and number == 3:
            record = reply.content.array_records["0.arrays"]
            name = next(name for name in record if name.startswith(field))
            record[name] = encode_array(-np.ones(record[name].shape, np.int64) * (-1 if field == "log_theta" else 1))
        return reply

    path = run(config(tmp_path, bc3e__max_rounds=3), 3, tamper=tamper)
    report, _ = load(path)
    assert report.missing["site-1"][0].startswith("round 3: refused: payload bc3e.Statistics")
    assert field in report.missing["site-1"][0]
    lines = [json.loads(line) for line in (path / "ledger.jsonl").read_text().splitlines()]
    [refused] = [line for line in lines if line["payload"] == "refused"]
    assert (refused["round"], refused["site"], refused["direction"]) == (3, "site-1", "from_site")
    assert refused["bytes"] > 0  # it left the site, whatever it was


def test_a_run_of_real_sites_can_be_resumed_with_one_site_fewer(tmp_path: Path) -> None:
    """Their data are their own: another number of them is no other run."""
    nodes = column_sites(tmp_path, "a")
    run_config = config(tmp_path, protocol="bc3e", **QUICK)
    grid = make_grid(run_config, nodes)

    def interrupt(place: int, number: int, reply: Message) -> Message:
        if number == 3:
            raise KeyboardInterrupt
        return reply

    grid.tamper = interrupt
    context = Context(9, 0, {}, RecordDict(), run_config)
    with pytest.raises(KeyboardInterrupt):
        server_app.run(grid, context)
    resumed = {**run_config, "resume-from": str(tmp_path / "results" / "bc3e-own-data" / "9")}
    report, _ = load(run(resumed, nodes[:2]))
    assert report.sites == ["a", "b", "c"]
    assert "not connected" in report.missing["c"][0]


def test_alpha_that_is_not_learned_stays_to_the_last_bit(tmp_path: Path) -> None:
    _, arrays = load(run(config(tmp_path, bc3e__learn_alpha=False, bc3e__alpha=0.1, **QUICK), 2))
    np.testing.assert_array_equal(arrays["alpha"], np.full(3, 0.1))


def test_unsure_instances_are_listed_at_their_site_and_coverage_is_counted(tmp_path: Path) -> None:
    nodes = write_sites_of_labels(tmp_path, {"east": 30, "north": 40})
    path = run(config(tmp_path, protocol="bc3e", bc3e__abstain=0.9, bc3e__max_rounds=3), list(nodes.values()))
    report, arrays = load(path)
    files = sorted(tmp_path.glob("out/*/theta.csv"))
    probabilities = [pd.read_csv(file).filter(like="theta_").max(axis=1) for file in files]
    listed = [pd.read_csv(file) for file in sorted(tmp_path.glob("out/*/unsure.csv"))]
    assert [len(each) for each in listed] == [int((each < 0.9).sum()) for each in probabilities]
    together = pd.concat(probabilities)
    half_steps = 2 * 2.5 / len(together)  # both sites round to multiples of five
    assert report.metrics["unsure"] == pytest.approx((together < 0.9).mean(), abs=half_steps)
    assert round(report.metrics["unsure"] * len(together), 6) % 5 == 0
    for level, share, right in arrays["coverage"].tolist():
        assert share == pytest.approx((together >= level).mean(), abs=half_steps)
        assert 0 <= right <= 1


def test_classifiers_that_are_copies_are_named_before_the_decision(tmp_path: Path) -> None:
    nodes = write_sites_of_labels(tmp_path, {"east": 40, "north": 50})
    settings = config(tmp_path, protocol="bc3e", bc3e__max_rounds=3)
    assert verdict(load(run(settings, list(nodes.values())))[0]).warnings == ()
    for node in nodes.values():
        table = pd.read_csv(str(node["data"]))
        table.assign(class_again=table["class_1"]).to_csv(str(node["data"]), index=False)
    [warning] = verdict(load(run(settings, list(nodes.values())))[0]).warnings
    assert "class_1 and class_again are the same" in warning
