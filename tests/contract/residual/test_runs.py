"""Residual as a whole: a run over the grid is the algorithm of the paper, and depends on nothing that it should not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import protocols.residual.payloads as wire
from protocols.wire.message import find
from protocols.wire.payload import Payload
from scenarios import registry
from tests.support import reference_residual as reference
from tests.support.grid import config, prediction_config
from tests.support.parameters import few
from tests.support.residual_sites import (
    COLUMNS,
    Arrays,
    N,
    customers,
    deployed_sites,
    learn,
    own_data_config,
    same_learning,
    write_world,
)
from tests.support.runs import outcome_of

LEAF, HOLDOUT = 8, 0.2


pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_world(tmp_path / "files")


def world_of(
    columns: Sequence[str],
    *,
    validation: float = 0.0,
    agent: str = "tree",
    intercept: bool = True,
    leaves: int | None = None,
) -> Any:
    """The world of `customers` in one place: an agent a column, rows in the order of a run with the seed 0."""
    people = customers()
    order, n_learn = reference.agreed_order(N, HOLDOUT)
    x, y = people[list(columns)].to_numpy()[order], people["y"].to_numpy()[order]
    n_validation = round(validation * n_learn)
    agents = [
        reference.tree(x[:, [j]], LEAF, leaves) if agent == "tree" else reference.line(x[:, [j]])
        for j in range(len(columns))
    ]
    return reference.World(agents, y, n_learn - n_validation, n_validation, intercept)


def one_each(tmp_path: Path, columns: str) -> Path:
    return write_world(tmp_path / "files", columns={name: (name,) for name in columns})


def assert_curves(arrays: Arrays, course: reference.Course, *, kinds: Sequence[str] = ("train", "test")) -> None:
    curve = np.array(course.curve)
    for kind in kinds:
        place = ("train", "validation", "test").index(kind)
        np.testing.assert_allclose(arrays[f"curve_{kind}"], curve[:, place], rtol=1e-9, atol=1e-15)


# -- the algorithms ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", few(["a", "cda", "ab", "abcdef"], 2))
@pytest.mark.parametrize("algorithm", ["sip", "greedy"])
@pytest.mark.parametrize(
    ("nu", "steps", "intercept"), few([(0.5, 3, True), (1.0, 2, False), (1.0, 1, True), (0.3, 1, True)])
)
def test_sequential_algorithms_are_those_of_the_paper(
    tmp_path: Path, columns: str, algorithm: str, nu: float, steps: int, intercept: bool
) -> None:
    columns = "".join(sorted(columns))
    settings = own_data_config(
        tmp_path, one_each(tmp_path, columns), residual__algorithm=algorithm, residual__shrinkage=nu,
        residual__steps=steps, residual__intercept=intercept,
    )  # fmt: skip
    report, arrays, _ = learn(settings, len(columns))
    world = world_of(columns, intercept=intercept)
    course = reference.sequential(world, greedy=algorithm == "greedy", rounds=10, nu=nu, steps=steps)
    assert_curves(arrays, course)
    chosen = course.best(0)
    assert report.metrics["iterations"] == chosen
    np.testing.assert_array_equal(arrays["beta"], course.beta[-1])
    np.testing.assert_allclose(arrays["mean"], world.mean, rtol=1e-12)
    power = np.array([fits.var(axis=1) for fits in course.fits])
    np.testing.assert_allclose(arrays["power"], power, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("columns", few(["a", "acd", "ab", "abcdef"], 2))
@pytest.mark.parametrize(("p", "intercept"), few([(1, True), (1.5, True), (7, False), (1, False), (3, True)]))
@pytest.mark.parametrize("step", few(["search", "full"], 2))
def test_parallel_is_algorithm_3(tmp_path: Path, columns: str, p: float, intercept: bool, step: str) -> None:
    settings = own_data_config(
        tmp_path, one_each(tmp_path, columns), residual__algorithm="parallel", residual__power=str(p),
        residual__intercept=intercept, residual__step=step, residual__ridge=0.0,
    )  # fmt: skip
    report, arrays, _ = learn(settings, len(columns))
    world = world_of(columns, intercept=intercept)
    course = reference.parallel(world, p=p, rounds=10, full=step == "full")
    assert_curves(arrays, course)
    # An agent alone can do no better than at once: which of its equal errors is the smallest is a matter of rounding.
    chosen = int(report.metrics["iterations"])
    assert course.curve[chosen][0] == pytest.approx(course.curve[course.best(0)][0], rel=1e-9)
    assert report.metrics["power"] == p
    np.testing.assert_allclose(arrays["beta"], course.beta[chosen], rtol=1e-8, atol=1e-12)
    power = [beta**2 * fits.var(axis=1) for beta, fits in zip(course.beta, course.fits, strict=True)]
    np.testing.assert_allclose(arrays["power"], power, rtol=1e-8, atol=1e-14)


def test_the_ridge_is_that_of_eq_35(tmp_path: Path) -> None:
    settings = own_data_config(
        tmp_path, one_each(tmp_path, "abcd"), residual__algorithm="parallel", residual__power="2", residual__ridge=0.05,
        residual__step="full",
    )  # fmt: skip
    _, arrays, _ = learn(settings, 4)
    course = reference.parallel(world_of("abcd"), p=2, rounds=10, ridge=0.05, full=True)
    assert_curves(arrays, course)
    np.testing.assert_allclose(arrays["beta"], course.beta[course.best(0)], rtol=1e-9)


@pytest.mark.parametrize("columns", ["a", "abcd"])
@pytest.mark.parametrize("algorithm", ["average", "meta-linear", "meta-boosting"])
@pytest.mark.parametrize("intercept", few([True, False]))
def test_algorithms_without_collaboration(tmp_path: Path, columns: str, algorithm: str, intercept: bool) -> None:
    settings = own_data_config(
        tmp_path, one_each(tmp_path, columns), residual__algorithm=algorithm, residual__intercept=intercept,
        residual__ridge=0.0,
    )  # fmt: skip
    report, arrays, _ = learn(settings, len(columns))
    course = reference.once(world_of(columns, intercept=intercept), algorithm, min_leaf=LEAF)
    assert_curves(arrays, course)
    np.testing.assert_allclose(arrays["beta"], course.beta[0], rtol=1e-9)
    assert report.metrics["iterations"] == 0


@pytest.mark.parametrize("columns", few(["abcd", "cda", "abcdef"], 2))
def test_boosting_is_that_in_one_place(tmp_path: Path, columns: str) -> None:
    settings = own_data_config(
        tmp_path, one_each(tmp_path, columns), residual__algorithm="boosted", residual__stop="held-out",
        residual__rounds=30,
    )  # fmt: skip
    report, arrays, _ = learn(settings, len(columns))
    course, finished = reference.boosted(world_of(columns, validation=0.25, leaves=8), rounds=30)
    best = course.best(1)
    assert best > 2
    for kind, place in (("train", 0), ("validation", 1), ("test", 2)):
        curve = [errors[place] for errors in course.curve[: best + 1]]
        np.testing.assert_allclose(arrays[f"curve_{kind}"][: best + 1], curve, rtol=1e-9)
        assert arrays[f"curve_{kind}"][-1] == pytest.approx(finished[place], rel=1e-6)
    assert report.metrics["test_mse"] == pytest.approx(finished[2], rel=1e-6)


@pytest.mark.parametrize("holder", few(["", "bank"]))
def test_every_site_alone_is_boosting_of_its_own_columns(tmp_path: Path, holder: str) -> None:
    folder = write_world(tmp_path / "files", holder=holder)
    report, arrays, _ = learn(own_data_config(tmp_path, folder, residual__baselines=True))
    order, n_learn = reference.agreed_order(N, HOLDOUT)
    people = customers()
    y, errors = people["y"].to_numpy()[order], {}
    for site, own in COLUMNS.items():
        x = people[list(own)].to_numpy()[order]
        _, model = reference.chosen_trees(x[:n_learn], y[:n_learn], n_learn - round(0.25 * n_learn))
        errors[site] = np.square(y[n_learn:] - model.predict(x[n_learn:]))
    found = {row["site"]: row["alone"] for row in report.table if "alone" in row}
    assert found == pytest.approx({site: each.mean() for site, each in errors.items()}, rel=1e-9)
    best = min(found, key=lambda site: found[site])
    assert report.metrics["mse_alone"] == found[best]
    assert report.metrics.get("mse_holder", found[best]) == found.get(holder, found[best])
    difference, _, n_test, n_sites = arrays["paired_mse_alone"]
    assert n_sites == len(found)
    assert difference == pytest.approx(report.metrics["test_mse"] - found[best], rel=1e-9)
    assert n_test == N - n_learn


# -- what is chosen ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refit", few([True, False]))
@pytest.mark.parametrize("algorithm", few(["sip", "greedy"], 2))
def test_the_end_is_chosen_on_held_out_rows(tmp_path: Path, algorithm: str, refit: bool) -> None:
    settings = own_data_config(
        tmp_path, one_each(tmp_path, "abcd"), residual__algorithm=algorithm, residual__stop="held-out",
        residual__patience=4, residual__rounds=30, residual__shrinkage=0.5, residual__refit=refit,
    )  # fmt: skip
    report, arrays, _ = learn(settings, 4)
    greedy = algorithm == "greedy"
    trial = reference.sequential(
        world_of("abcd", validation=0.25), greedy=greedy, rounds=30, nu=0.5, patience=4, kind=1
    )
    chosen = trial.best(1)
    assert chosen > 0
    assert report.metrics["iterations"] == chosen
    assert_curves(arrays, trial, kinds=["validation"])
    assert report.metrics["validation_mse"] == pytest.approx(trial.curve[chosen][1], rel=1e-9)
    course = reference.sequential(world_of("abcd"), greedy=greedy, rounds=chosen, nu=0.5) if refit else trial
    assert_curves(arrays, course)
    assert report.metrics["test_mse"] == pytest.approx(course.curve[chosen][2], rel=1e-9)


@pytest.mark.parametrize("refit", few([True, False]))
@pytest.mark.parametrize("stop", ["held-out", "rounds"])
def test_p_and_the_end_are_chosen_on_held_out_rows(tmp_path: Path, stop: str, refit: bool) -> None:
    settings = own_data_config(
        tmp_path, one_each(tmp_path, "abcdef"), residual__algorithm="parallel", residual__powers="1 2 4",
        residual__stop=stop, residual__patience=3, residual__refit=refit, residual__ridge=0.0,
    )  # fmt: skip
    report, arrays, _ = learn(settings, 6)
    patience = 3 if stop == "held-out" else 0
    trials = {
        p: reference.parallel(world_of("abcdef", validation=0.25), p=p, rounds=10, patience=patience, kind=1)
        for p in (1, 2, 4)
    }
    best = min(trials, key=lambda p: trials[p].curve[trials[p].best(1)][1])
    chosen = trials[best].best(1)
    assert (report.metrics["power"], report.metrics["iterations"]) == (best, chosen)
    assert_curves(arrays, trials[best], kinds=["validation"])
    course = reference.parallel(world_of("abcdef"), p=best, rounds=chosen) if refit else trials[best]
    assert_curves(arrays, course)
    np.testing.assert_allclose(arrays["beta"], course.beta[chosen], rtol=1e-8)


def test_the_training_error_may_end_it_and_the_best_iterate_is_kept(tmp_path: Path) -> None:
    settings = own_data_config(
        tmp_path, one_each(tmp_path, "cd"), residual__algorithm="parallel", residual__power="1",
        residual__stop="train", residual__patience=2, residual__rounds=40, residual__ridge=0.0,
    )  # fmt: skip
    report, arrays, _ = learn(settings, 2)
    course = reference.parallel(world_of("cd"), p=1, rounds=40, patience=2)
    assert_curves(arrays, course)
    assert len(course.curve) < 41
    assert report.metrics["train_mse"] == arrays["curve_train"].min()
    assert report.metrics["train_mse_last"] == arrays["curve_train"][-1]
    assert report.metrics["test_mse_best"] == arrays["curve_test"].min()
    assert report.metrics["test_mse_once"] == arrays["curve_test"][0]


def test_the_seed_draws_the_rows(tmp_path: Path) -> None:
    report, arrays, _ = learn(own_data_config(tmp_path, one_each(tmp_path, "ab"), seed=5), 2)
    people = customers()
    order, n_learn = reference.agreed_order(N, HOLDOUT, seed=5)
    x, y = people[["a", "b"]].to_numpy()[order], people["y"].to_numpy()[order]
    world = reference.World([reference.tree(x[:, [j]], LEAF) for j in range(2)], y, n_learn)
    assert_curves(arrays, reference.sequential(world, greedy=False, rounds=10))
    assert report.metrics["n_test"] == N - n_learn


# -- what the result may depend on ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "agent"), few([("sip", "lr"), ("parallel", "tree"), ("greedy", "rf(n_estimators=5)")])
)
def test_the_order_of_rows_and_columns_in_the_sites_files_does_not_matter(
    tmp_path: Path, algorithm: str, agent: str
) -> None:
    chosen: dict[str, Any] = {"residual__algorithm": algorithm, "residual__agent": agent}
    runs = []
    for seed in (None, 1, 2):
        folder = write_world(tmp_path / f"files-{seed}", shuffle=seed)
        if seed == 2:
            for site in COLUMNS:
                frame = pd.read_csv(folder / f"{site}.csv")
                frame[frame.columns[::-1]].to_csv(folder / f"{site}.csv", index=False)
        runs.append(learn(own_data_config(tmp_path, folder, **chosen))[:2])
    same_learning(runs[0], runs[1])
    same_learning(runs[0], runs[2])


_AT_THE_HOLDER = (
    "mse_holder",
    "paired_mse_holder",
    "mean",
    "model",
    "weights",
    "widths",
    "levels",
    "part_limits",
    "reach",
    "curve_validation",
    "validation_mse",
)
"""What the center does not have where a site holds the outcome, or only then."""


@pytest.mark.slow
def test_where_the_outcome_lies_does_not_matter(tmp_path: Path) -> None:
    """At the center or at a site: with the same order of its rows the same, bit for bit."""
    for name, algorithm in (
        ("s", "sip"),
        ("b", "boosted"),
        ("q", "bins"),
        ("g", "greedy"),
        ("p", "parallel"),
        ("l", "meta-linear"),
        ("a", "average"),
    ):
        chosen = {
            "residual__algorithm": algorithm,
            "residual__power": "2",
            "residual__baselines": algorithm in ("boosted", "bins"),
        }
        center = learn(own_data_config(tmp_path, write_world(tmp_path / name / "center"), **chosen))
        holder = learn(own_data_config(tmp_path, write_world(tmp_path / name / "bank", holder="bank"), **chosen))
        same_learning(center[:2], holder[:2], but=[*_AT_THE_HOLDER, "holder"])
        assert str(holder[1]["holder"]) == "bank"
        assert holder[0].metrics["n_lost"] == 0


@pytest.mark.parametrize("holder", few(["", "telecom", "bank"], 2))
@pytest.mark.parametrize(("stop", "refit"), few([("rounds", True), ("held-out", True), ("held-out", False)]))
@pytest.mark.parametrize("steps", few([2, 1]))
def test_the_ring_s_result_is_the_center_s(tmp_path: Path, holder: str, stop: str, refit: bool, steps: int) -> None:
    chosen: dict[str, Any] = {
        "residual__stop": stop, "residual__refit": refit, "residual__steps": steps, "residual__patience": 3,
        "residual__shrinkage": 0.7,
    }  # fmt: skip
    center = learn(own_data_config(tmp_path, write_world(tmp_path / "center"), **chosen))
    there = write_world(tmp_path / "there", holder=holder)
    ring = learn(own_data_config(tmp_path, there, residual__topology="ring", **chosen))
    same_learning(center[:2], ring[:2], but=["holder", "mean", "part_limits", "reach"])
    assert center[0].metrics["iterations"] > 2


def test_less_precision_halves_the_bytes_and_keeps_the_result(tmp_path: Path, folder: Path) -> None:
    for algorithm in ("sip", "parallel"):
        chosen = {"residual__algorithm": algorithm, "residual__power": "1", "residual__agent": "lr"}
        full = learn(own_data_config(tmp_path, folder, **chosen))
        half = learn(own_data_config(tmp_path, folder, residual__precision="float32", **chosen))
        for name in ("train_mse", "test_mse"):
            assert half[0].metrics[name] == pytest.approx(full[0].metrics[name], rel=1e-4)
            assert half[0].metrics[name] != full[0].metrics[name]
        for title in ("residual.Fit", "residual.FittedValues"):
            fields, wanted = (each[0].ledger["by_payload"][title]["fields"] for each in (half, full))
            for name, field in fields.items():
                if field["dtype"] == "float32":
                    assert field["bytes"] * 2 == wanted[name]["bytes"]


def _two_cells(config: registry.Config) -> list[registry.Cell]:
    settings: dict[str, int | float | str] = {"residual.stop": "rounds", "residual.rounds": 4, "residual.agent": "tree"}
    return [registry.Cell({"algorithm": name}, {**settings, "residual.algorithm": name}) for name in ("average", "sip")]


def test_a_table_of_cells_is_the_runs_of_its_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = replace(registry.find("residual-friedman1"), cells=_two_cells)
    monkeypatch.setitem(registry._SCENARIOS, "residual-friedman1", scenario)
    report, arrays, _ = learn(config(tmp_path, scenario="residual-friedman1"), 5)
    assert [row["algorithm"] for row in report.table] == ["average", "sip"]
    for place, name in enumerate(("average", "sip")):
        alone = learn(config(tmp_path, scenario="residual-friedman1", cells=f"algorithm={name}"), 5)[1]
        for metric in ("train_mse", "test_mse"):
            np.testing.assert_array_equal(alone[f"cells_{metric}"][0], arrays[f"cells_{metric}"][place])
        length = len(alone["cells_curve_train"][0, 0])
        np.testing.assert_array_equal(alone["cells_curve_train"][0, 0], arrays["cells_curve_train"][place, 0, :length])


# -- sites of a deployment ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_deployment_learns_what_a_simulation_does(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clients.residual.agent.FEWEST_EQUAL", 1)  # a simulated site does not group its values
    for changes in (
        {},
        {"residual__algorithm": "parallel", "residual__power": "2"},
        {"residual__algorithm": "boosted"},
        {"residual__algorithm": "bins"},  # a real site's draws of randomized response depend on its own secret
    ):
        simulated = learn(own_data_config(tmp_path, folder, **changes))
        settings, nodes = deployed_sites(tmp_path, folder, **changes)
        same_learning(simulated[:2], learn(settings, [{**node, "allow-bins": True} for node in nodes])[:2])


def test_a_site_chooses_its_own_agent(tmp_path: Path, folder: Path) -> None:
    settings, nodes = deployed_sites(tmp_path, folder)
    nodes[0]["agent"] = "lr"
    nodes[1]["agent"] = "sklearn.linear_model.HuberRegressor(max_iter=500)"
    report, arrays, _ = learn(settings, nodes)
    assert [row["agent"] for row in report.table[1:]] == [nodes[0]["agent"], nodes[1]["agent"], "tree"]
    plain = learn(*deployed_sites(tmp_path, folder))[1]
    assert arrays["curve_train"][1] != plain["curve_train"][1]
    assert np.isfinite(arrays["curve_test"]).all()


def test_the_run_may_not_name_an_estimator_in_full_but_in_a_simulation(tmp_path: Path, folder: Path) -> None:
    named = {"residual__agent": "sklearn.linear_model.HuberRegressor(max_iter=500)"}
    assert "[bad-agent]" in outcome_of(*deployed_sites(tmp_path, folder, **named)).text
    assert learn(own_data_config(tmp_path, folder, **named))[0].metrics["test_mse"] > 0


def test_text_is_of_categories(tmp_path: Path) -> None:
    people = customers().copy()
    people["city"] = np.where(people["c"] > 0, "Paris", "Rome")
    columns = {"bank": ("a", "b"), "shop": ("city",), "telecom": ("d", "e")}
    folder = write_world(tmp_path / "files", columns=columns, people=people)
    settings, nodes = deployed_sites(tmp_path, folder)
    nodes[1]["features"] = "city"
    report, arrays, _ = learn(settings, nodes)
    assert [row["columns"] for row in report.table[1:]] == [2, 2, 2]
    assert arrays["power"][-1, 1] > 0.1


def test_a_file_of_test_rows_is_tested_on(tmp_path: Path) -> None:
    folder = write_world(tmp_path / "files", n_test=40)
    report, _, path = learn(own_data_config(tmp_path, folder))
    assert report.metrics["n_test"] == 40
    again = learn(prediction_config(own_data_config(tmp_path, folder), path))[1]
    rows = dict(zip(again["entity"].tolist(), again["prediction"].tolist(), strict=True))
    people = customers()[-40:]
    mse = np.mean([(rows[name] - y) ** 2 for name, y in zip(people["customer"], people["y"], strict=True)])
    assert report.metrics["test_mse"] == pytest.approx(mse, rel=1e-12)


def test_all_payloads_are_found_by_their_titles() -> None:
    declared = [each for each in vars(wire).values() if isinstance(each, type) and issubclass(each, Payload)]
    assert len(declared) > 20
    for payload in declared:
        assert find(payload.title()) is payload


def test_theorem_2_is_seen_in_a_run(tmp_path: Path) -> None:
    report, _, _ = learn(config(tmp_path, scenario="residual-theorem2", cells="rho=0.5"), 2)
    [row] = report.table
    # What is left of the next polynomial and the lattice's error are below a hundredth.
    assert row["contraction"] == pytest.approx(0.5**4, rel=0.01)
