"""Gaussian process experts as a whole: what a center with all rows would say, said without them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

import protocols.gp.payloads as wire
from common.settings import ConfigError
from numerics.gp.calibration import Calibration, histogram
from numerics.gp.expert import Expert
from numerics.gp.kernel_registry import kernel_of
from numerics.gp.own_noise import with_own_noise
from numerics.gp.radial_kernels import SquaredExponential
from protocols.gp.payloads import (
    Disclose,
    Evaluate,
    Inputs,
    Likelihood,
    Moments,
    Predict,
    Predictions,
    Residuals,
    Rows,
    Slope,
    Survey,
    Train,
)
from protocols.prediction import PredictionError
from protocols.wire.message import find
from protocols.wire.payload import Payload
from tests.support import reference_gp as reference
from tests.support.gp_sites import (
    FEATURES,
    SITES,
    TARGET,
    PredictionRun,
    deployed_sites,
    gate_settings,
    later_config,
    own_data_config,
    points,
    predict,
    rows_of,
    soundings,
    split_over_sites,
    write_files,
    write_world,
)
from tests.support.parameters import few
from tests.support.runs import outcome_of

EXACT = {"gp__covariance": "inputs"}
ONE = ("everybody",)

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_world(tmp_path / "files")


def assert_close(found: PredictionRun, expected: tuple[np.ndarray, np.ndarray], error: float = 1e-8) -> None:
    """Mean and variance, in standardized units."""
    for told, true in zip(found.predictions, expected, strict=True):
        np.testing.assert_allclose(told, true, rtol=0, atol=error)


def shared_rows(found: PredictionRun) -> reference.Rows:
    """All that sites gave to the communication expert."""
    [asked, *_] = found.said(Predict)
    return asked.shared_x, asked.shared_y


def with_shared(found: PredictionRun) -> list[reference.Rows]:
    """Experts with the shared rows beside their own, each row once."""
    x, y = shared_rows(found)
    shared = np.column_stack([x, y])
    experts = []
    for rows in found.experts():
        every = np.unique(np.round(np.concatenate([shared, np.column_stack(rows)]), 12), axis=0)
        experts.append((every[:, :-1], every[:, -1]))
    return experts


def expected_of(found: PredictionRun, rule: str) -> tuple[np.ndarray, np.ndarray]:
    """What the reference says at the hyperparameters found, of the experts that were chosen."""
    selected = found.arrays["selected"]
    if rule == "grbcm":
        return reference.grbcm(found.theta, shared_rows(found), with_shared(found), found.queries, selected)
    if rule == "npae":
        return reference.npae(found.theta, found.experts(), found.queries, selected)
    return reference.independent(rule, found.theta, found.experts(), found.queries, selected)


# -- one expert is the full process -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {},
        EXACT,
        *({"gp__aggregation": rule} for rule in ("poe", "gpoe", "bcm", "grbcm")),
        {"gp__answers": 1, "gp__landmarks": 5},
    ],
)
def test_one_expert_is_the_process_of_all_rows(tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = write_files(tmp_path / "files", split_over_sites(soundings(), names=ONE))
    found = predict(own_data_config(tmp_path, folder, **changes), 1)
    [rows] = found.experts()
    assert_close(found, reference.full(found.theta, rows, found.queries))
    # And in the data's own units, from the rows as they are in the files.
    raw = reference.units([rows_of(soundings())])
    np.testing.assert_allclose(found.arrays["input_mean"], raw.mean, rtol=1e-12)
    np.testing.assert_allclose(found.arrays["input_scale"], raw.scale, rtol=1e-12)
    assert float(found.arrays["output_scale"]) == pytest.approx(raw.y_scale, rel=1e-12)
    mean, _ = reference.full(found.theta, raw.of(rows_of(soundings())), found.queries)
    np.testing.assert_allclose(found.arrays["mean"], mean * raw.y_scale + raw.y_mean, rtol=1e-9)


def test_it_predicts(tmp_path: Path, folder: Path) -> None:
    """Not only in the same way: the function is found again."""
    found = predict(own_data_config(tmp_path, folder, gp__gate="gaussian"))
    assert found.metrics["smse"] < 0.05
    assert found.metrics["msll"] < -1.4
    assert np.exp(found.theta[-1]) * float(found.arrays["output_scale"]) == pytest.approx(3, rel=0.35)


# -- hyperparameters --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["place", "random"])
def test_sums_over_sites_are_those_of_one_place(tmp_path: Path, how: str) -> None:
    """Log likelihood, gradient and average information of every candidate in every ask."""
    found = predict(own_data_config(tmp_path, write_world(tmp_path / "files", how=how)))
    experts = found.experts()
    asked, told = found.said(Evaluate), found.said(Likelihood)
    assert len(asked) == len(told) == len(SITES) * found.metrics["fit_rounds"]
    upper = np.triu_indices(len(found.theta))
    for first in range(0, len(asked), len(SITES)):
        answers = told[first : first + len(SITES)]
        for c, theta in enumerate(asked[first].thetas):
            value = sum(reference.log_likelihood(theta, *rows) for rows in experts)
            assert sum(answer.values[c] for answer in answers) == pytest.approx(value, rel=1e-8)
            slopes = [reference.derivatives(theta, *rows) for rows in experts]
            gradient, information = (np.sum(each, axis=0) for each in zip(*slopes, strict=True))
            size = np.abs(information).max()
            np.testing.assert_allclose(sum(answer.gradients[c] for answer in answers), gradient, atol=1e-8 * size)
            np.testing.assert_allclose(
                sum(answer.informations[c] for answer in answers), information[upper], atol=1e-8 * size
            )


@pytest.mark.parametrize("how", ["place", "random"])
def test_the_likeliest_hyperparameters_are_found(tmp_path: Path, how: str) -> None:
    """Within a thousandth per row of what a search with all rows in one place finds, and in 15 asks."""
    found = predict(own_data_config(tmp_path, write_world(tmp_path / "files", how=how)))
    experts = found.experts()
    told = float(found.arrays["log_likelihood"])
    n = sum(len(y) for _, y in experts)
    assert told == pytest.approx(sum(reference.log_likelihood(found.theta, *rows) for rows in experts) / n, abs=1e-9)
    starts = [found.theta, np.array([0.0, 0, 0, np.log(0.1) / 2])]
    assert told >= max(reference.best(experts, start) for start in starts) - 1e-3
    assert found.metrics["fit_rounds"] <= 15
    assert found.metrics["log_likelihood"] == told
    assert found.report.rounds == found.metrics["fit_rounds"] + 2
    assert not found.report.notes


def test_a_search_that_is_cut_short_is_told(tmp_path: Path, folder: Path) -> None:
    found = predict(own_data_config(tmp_path, folder, gp__fit_rounds=1, gp__candidates=1))
    assert found.metrics["fit_rounds"] == 1
    assert all(len(ask.thetas) == 1 for ask in found.said(Evaluate))
    [note] = found.report.notes
    assert note.startswith("the search for the hyperparameters still made progress after 1 asks")


@pytest.mark.parametrize("kernel", few(["matern52", "se + linear"]))
def test_other_kernels_are_carried_to_every_site(tmp_path: Path, folder: Path, kernel: str) -> None:
    found = predict(own_data_config(tmp_path, folder, gp__kernel=kernel))
    kinds: list[type[Any]] = [Survey, Evaluate, Predict]
    assert {ask.kernel for kind in kinds for ask in found.said(kind)} == {kernel}
    assert str(found.arrays["kernel"]) == kernel
    assert len(found.arrays["theta_names"]) == len(found.theta)
    assert found.metrics["smse"] < 0.06


@pytest.mark.parametrize(("kernel", "expected"), [("se", "se"), ("matern32", "matern32")])
def test_the_kernel_is_that_which_the_rows_favor(tmp_path: Path, kernel: str, expected: str) -> None:
    """Rows drawn from a process of one of the kernels."""
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 6, (320, 2))
    covariance = kernel_of(kernel, 2).matrix(np.log([1.0, 1.5, 1.0]), x, x)
    y = np.linalg.cholesky(covariance + 1e-6 * np.eye(len(x))) @ rng.normal(size=len(x)) + 0.02 * rng.normal(
        size=len(x)
    )
    frame = pd.DataFrame(
        {"well": [f"w{place}" for place in range(len(x))], "east": x[:, 0], "depth": x[:, 1], TARGET: y}
    )
    own = write_files(tmp_path / "rows", split_over_sites(frame[:300], "random"), frame[300:])
    found = predict(own_data_config(tmp_path, own, gp__kernel="auto"))
    assert {ask.kernel for ask in found.said(Survey)} == {"auto"}
    assert {ask.kernel for kind in (Evaluate, Predict) for ask in found.said(kind)} == {expected}
    assert f"the kernel is {expected}, by the likelihood of the sites' rows" in found.report.notes
    named = predict(own_data_config(tmp_path / "named", own, gp__kernel=expected))
    assert named.metrics["smse"] == found.metrics["smse"]


# -- gates and aggregation --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gate", ["knn", "all"])
@pytest.mark.parametrize("rule", ["npae", "poe", "gpoe", "bcm", "rbcm", "grbcm"])
def test_predictions_are_those_of_one_place(tmp_path: Path, folder: Path, rule: str, gate: str) -> None:
    exact = EXACT if rule == "npae" else {}
    found = predict(own_data_config(tmp_path, folder, gp__aggregation=rule, gp__gate=gate, **exact))
    order = reference.nearest(found.queries, found.experts())
    if gate == "all":
        assert (np.sort(found.arrays["selected"]) == np.arange(len(SITES))).all()
    else:
        np.testing.assert_array_equal(found.arrays["selected"], order[:, : len(SITES) // 2])
    assert_close(found, expected_of(found, rule))


@pytest.mark.parametrize("rule", few(["npae", "rbcm", "grbcm"]))
@pytest.mark.parametrize("gate", ["gaussian", "dnn", "ggm"])
def test_so_they_are_of_the_experts_that_other_gates_choose(tmp_path: Path, folder: Path, rule: str, gate: str) -> None:
    exact = EXACT if rule == "npae" else {}
    found = predict(
        own_data_config(tmp_path, folder, gp__aggregation=rule, gp__fit_rounds=3, **gate_settings(gate, 3), **exact)
    )
    selected = found.arrays["selected"]
    assert selected.shape == (len(points()), len(SITES) // 2)
    assert_close(found, expected_of(found, rule))
    if gate == "ggm":
        assert (selected == selected[0]).all()
    else:
        # A point among a site's rows goes to that site.
        west = split_over_sites(soundings())
        inside = [
            np.searchsorted([west[s]["east"].max() for s in SITES], east) for east in found.arrays["queries"][:, 1]
        ]
        first = found.arrays["expert_site"][selected[:, 0]]
        assert (first == np.array(SITES)[np.minimum(inside, len(SITES) - 1)]).mean() >= 0.8


@pytest.mark.parametrize("how", ["place", "random"])
def test_features_over_landmarks_stand_for_the_inputs(tmp_path: Path, how: str) -> None:
    """Close at the default, closer with more of them; the inputs never cross."""
    folder = write_world(tmp_path / "files", how=how)
    settings = {"gp__gate": "all"}
    exact = predict(own_data_config(tmp_path / "exact", folder, **settings, **EXACT))
    mean, variance = exact.predictions
    errors = []
    for landmarks in (0, 256):
        found = predict(
            own_data_config(tmp_path / str(landmarks), folder, gp__answers=1, gp__landmarks=landmarks, **settings)
        )
        assert not found.said(Disclose)
        assert not found.said(Inputs)
        np.testing.assert_array_equal(found.theta, exact.theta)
        errors.append(float(np.sqrt(((found.predictions[0] - mean) ** 2).mean())))
        np.testing.assert_allclose(found.predictions[1], variance, rtol=0.2)
        assert found.metrics["smse"] == pytest.approx(exact.metrics["smse"], rel=0.1)
    assert errors[0] < 0.3 * np.sqrt(variance.mean())
    assert errors[1] <= errors[0]


@pytest.mark.parametrize(
    ("experts", "K"), [("", 2), ("1", 1), ("3", 3), ("4", 4), ("50", 4), ("0.25", 1), ("0.6", 3), ("0.01", 1)]
)
def test_k_is_a_number_or_a_share(tmp_path: Path, folder: Path, experts: str, K: int) -> None:
    found = predict(own_data_config(tmp_path, folder, gp__experts=experts, gp__fit_rounds=1))
    assert found.arrays["selected"].shape[1] == found.metrics["n_selected"] == K
    assert sum(row["queries"] for row in found.report.table) == K * len(points())


def test_each_expert_is_sent_only_the_points_it_was_chosen_for(tmp_path: Path, folder: Path) -> None:
    found = predict(own_data_config(tmp_path, folder))
    n_bytes = 0
    for heard, ask in zip(found.heard(Predictions), found.said(Predict), strict=True):
        expert = found.arrays["expert_site"].tolist().index(heard.site)
        wanted = (found.arrays["selected"] == expert).any(axis=1)
        np.testing.assert_array_equal(ask.points[0], found.queries[wanted])
        row = {name: value for name, value in found.report.table[expert].items() if name != "alone"}
        assert row == {
            "expert": expert,
            "site": heard.site,
            "rows": len(soundings()) // len(SITES),
            "queries": wanted.sum(),
        }
        for payload in (ask, heard.payload):
            for value in vars(payload).values():
                n_bytes += sum(each.nbytes for each in (value if isinstance(value, tuple) else (value,)) if
                               isinstance(each, np.ndarray))  # fmt: skip
    assert found.metrics["bytes_per_query"] == pytest.approx(n_bytes / len(points()))


def test_grbcm_shares_as_many_rows_as_an_expert_has(tmp_path: Path, folder: Path) -> None:
    """Or the share that is set; those of every site are among its own rows, inputs with their outputs."""
    for communication, rows in [(0.0, 24), (0.5, 60)]:
        found = predict(own_data_config(tmp_path, folder, gp__aggregation="grbcm", gp__communication=communication))
        assert len(shared_rows(found)[1]) == rows
        experts = dict(zip(found.arrays["expert_site"].tolist(), found.experts(), strict=True))
        for heard in found.heard(Rows):
            every = np.column_stack(experts[heard.site])
            for row in np.column_stack([heard.payload.x, heard.payload.y]):
                assert np.abs(every - row).max(axis=1).min() < 1e-9


# -- the gate's network -----------------------------------------------------------------------------------------------


def test_the_network_learns_as_it_would_from_all_rows(tmp_path: Path, folder: Path) -> None:
    """Every ask's loss and gradient, summed over the sites, are those of all rows, and the best weights are kept."""
    found = predict(own_data_config(tmp_path, folder, gp__gate="dnn", gp__gate_rounds=8))
    x, _ = reference.together(found.experts())
    label = np.repeat(np.arange(len(SITES)), [len(y) for _, y in found.experts()])
    asked, told = found.said(Train), found.said(Slope)
    losses, weights = [], []
    for first in range(0, len(asked), len(SITES)):
        now = asked[first : first + len(SITES)]
        assert all((each.weights == now[0].weights).all() for each in now)
        loss, gradient = reference.cross_entropy(now[0].weights, x, label, now[0].hidden, len(SITES))
        answers = told[first : first + len(SITES)]
        assert sum(answer.loss for answer in answers) == pytest.approx(loss, rel=1e-9)
        np.testing.assert_allclose(sum(answer.gradient for answer in answers), gradient, atol=1e-8)
        losses.append(loss)
        weights.append(now[0].weights)
    assert len(losses) == 8
    assert min(losses) < 0.1 * len(x) * np.log(len(SITES))
    np.testing.assert_array_equal(found.arrays["network"], weights[int(np.argmin(losses))])
    # It takes no round of its own while hyperparameters are searched.
    assert found.report.rounds == max(8, found.metrics["fit_rounds"]) + 2


# -- a site of many rows ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_sites", [1, 2])
def test_a_site_of_many_rows_is_several_experts(tmp_path: Path, n_sites: int) -> None:
    parts = split_over_sites(soundings(), names=SITES[:n_sites])
    settings = own_data_config(tmp_path, write_files(tmp_path / "files", parts), gp__max_expert_rows=25, **EXACT)
    found = predict(settings, n_sites)
    counts = found.arrays["expert_rows"]
    assert counts.max() <= 25
    assert counts.sum() == len(soundings())
    assert found.metrics["n_experts"] == len(counts) >= {1: 5, 2: 6}[n_sites]
    # The experts' rows are all rows, each once; with them the predictions follow.
    raw = np.column_stack(reference.units([rows_of(soundings())]).of(rows_of(soundings())))
    outputs = {tuple(np.round(row[:-1], 9)): row[-1] for row in raw}
    by_site = {heard.site: heard.payload.x for heard in found.heard(Inputs)}
    experts = [x for site in dict.fromkeys(found.arrays["expert_site"].tolist()) for x in by_site[site]]
    rows = [(x, np.array([outputs.pop(tuple(np.round(row, 9))) for row in x])) for x in experts]
    assert not outputs
    np.testing.assert_allclose(found.arrays["centroids"], [x.mean(axis=0) for x, _ in rows], atol=1e-9)
    half = -(-len(counts) // 2)
    np.testing.assert_array_equal(found.arrays["selected"], reference.nearest(found.queries, rows)[:, :half])
    assert_close(found, reference.npae(found.theta, rows, found.queries, found.arrays["selected"]))
    names = {line["experts"] for line in pd.read_csv(found.path / "predictions.csv").to_dict("records")}
    assert all(set(name.split()) <= {f"{s}/{e}" for e, s in enumerate(found.arrays["expert_site"])} for name in names)


def test_a_site_of_many_rows_predicts_from_the_nearest(tmp_path: Path) -> None:
    """Beside sites of few rows; all its rows are one expert, which answers every point, now and later."""
    frame = soundings(400)
    parts = {"coast": frame[:320], "delta": frame[320:360], "hills": frame[360:]}
    folder = write_files(tmp_path / "files", parts)
    half = {"gp__experts": "0.5", "gp__answers": 1, "gp__landmarks": 128}
    settings = own_data_config(tmp_path / "now", folder, gp__max_expert_rows=100, gp__local=60, **half)
    found = predict(settings, 3)
    assert sorted(found.arrays["expert_rows"].tolist()) == [40, 40, 320]
    large = int(np.argmax(found.arrays["expert_rows"]))
    assert found.arrays["expert_nearest"].tolist() == [place == large for place in range(3)]
    assert (found.arrays["selected"][:, 0] == large).all()
    assert found.arrays["selected"].shape[1] == 2  # and half of the other two
    # Each point's nearest rows, in the kernel's lengths, are an expert of the textbook.
    units = reference.units([rows_of(frame)])
    rows = {name: units.of(rows_of(part)) for name, part in parts.items()}
    sites, (x, y) = found.arrays["expert_site"], rows["coast"]
    means = []
    for point, chosen in zip(found.queries, found.arrays["selected"], strict=True):
        near = np.argsort(np.sum(((x - point) / np.exp(found.theta[:2])) ** 2, axis=1))[:60]
        experts = [(x[near], y[near]), rows[sites[chosen[1]]]]
        means.append(reference.npae(found.theta, experts, point[np.newaxis], np.array([[0, 1]]))[0][0])
    np.testing.assert_allclose((found.arrays["mean"] - units.y_mean) / units.y_scale, means, atol=0.02)
    assert found.metrics["smse"] < 0.1
    later = predict(
        again_with(
            own_data_config(tmp_path / "later", folder, **half),
            found.path,
            folder / "_test.csv",
        ),
        3,
    )
    np.testing.assert_array_equal(later.arrays["mean"], found.arrays["mean"])


# -- a saved model ----------------------------------------------------------------------------------------------------


def again_with(settings: dict[str, Any], results: Path, points: Path) -> dict[str, Any]:
    """The configuration of a run that predicts at some points by the results of an earlier one."""
    return later_config(settings, results, data=str(points))


@pytest.mark.parametrize(
    "changes",
    few([{}, EXACT, {"gp__gate": "dnn", "gp__gate_rounds": 5}, {"gp__gate": "ggm"}, {"gp__aggregation": "grbcm"},
     {"gp__max_expert_rows": 20}], 3),
)  # fmt: skip
def test_a_saved_model_predicts_again_without_learning(tmp_path: Path, folder: Path, changes: dict[str, Any]) -> None:
    learning = {"gp__gate_rounds", "gp__max_expert_rows"}
    again = {key: value for key, value in changes.items() if key not in learning}
    before = predict(own_data_config(tmp_path / "before", folder, **changes))
    found = predict(again_with(own_data_config(tmp_path / "after", folder, **again), before.path, folder / "_test.csv"))
    assert not [*found.said(Survey), *found.said(Evaluate), *found.said(Train)]
    assert found.report.rounds == 1 + bool(found.said(Disclose) or found.said(Rows))
    assert found.arrays.keys() == before.arrays.keys()
    for name, array in before.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array, err_msg=name)
    assert found.report.table == before.report.table
    assert found.metrics == {**before.metrics, "fit_rounds": 0}
    assert (found.path / "predictions.csv").read_bytes() == (before.path / "predictions.csv").read_bytes()


def test_a_saved_model_predicts_elsewhere_by_another_rule(tmp_path: Path, folder: Path) -> None:
    """With the split that it was learned with, whatever the new run would split."""
    before = predict(own_data_config(tmp_path / "before", folder, gp__max_expert_rows=40))
    other = tmp_path / "other.csv"
    soundings(7, seed=3).to_csv(other, index=False)
    found = predict(
        again_with(own_data_config(tmp_path, folder, gp__aggregation="rbcm", gp__gate="all"), before.path, other)
    )
    np.testing.assert_allclose(found.arrays["queries"], rows_of(soundings(7, seed=3))[0], rtol=1e-12)
    assert found.report.rounds == 1
    assert_close(found, expected_of(found, "rbcm"))


def test_models_that_cannot_predict_are_one_line(tmp_path: Path, folder: Path) -> None:
    before = predict(own_data_config(tmp_path / "before", folder))
    points = folder / "_test.csv"
    told = outcome_of(
        again_with(own_data_config(tmp_path, folder, gp__gate="dnn"), before.path, points), len(SITES)
    ).refusal
    assert told.startswith("gp.gate=dnn: the earlier run (from) trained no network")
    with pytest.raises(PredictionError):
        predict(again_with(own_data_config(tmp_path, folder), tmp_path / "nothing", points))
    # Of other data: the points have other inputs than the experts.
    pd.read_csv(points).rename(columns={"east": "west"}).to_csv(tmp_path / "elsewhere.csv", index=False)
    told = outcome_of(
        again_with(own_data_config(tmp_path, folder), before.path, tmp_path / "elsewhere.csv"), len(SITES)
    ).refusal
    assert told == "the center's file of query points has no column of numbers 'east', an input"


def test_without_points_a_model_is_learned_for_later(tmp_path: Path, folder: Path) -> None:
    whole = predict(own_data_config(tmp_path / "whole", folder))
    (folder / "_test.csv").rename(tmp_path / "later.csv")
    found = predict(own_data_config(tmp_path / "none", folder))
    assert not found.said(Predict)
    assert not (found.path / "predictions.csv").exists()
    assert "smse" not in found.metrics
    np.testing.assert_array_equal(found.theta, whole.theta)
    assert found.report.notes == [
        "this run had no query points: to predict, start a run with from=RUN and a file of points"
    ]
    later = predict(again_with(own_data_config(tmp_path / "later", folder), found.path, tmp_path / "later.csv"))
    np.testing.assert_array_equal(later.arrays["mean"], whole.arrays["mean"])


# -- intervals --------------------------------------------------------------------------------------------------------


def test_intervals_are_those_of_the_residuals_over_all_sites(tmp_path: Path, folder: Path) -> None:
    found = predict(own_data_config(tmp_path, folder))
    experts = [Expert(SquaredExponential(2), found.theta, *rows) for rows in found.experts()]
    counts = histogram(np.concatenate([expert.left_out().residuals for expert in experts]))
    np.testing.assert_array_equal(found.arrays["residual_counts"], counts)
    half = Calibration(counts, len(found.theta)).reach(0.95) * found.arrays["std"]
    for line, mean, wide in zip(table_of(found), found.arrays["mean"], half, strict=True):
        assert (float(line["low_95"]), float(line["high_95"])) == pytest.approx((mean - wide, mean + wide))


def test_rules_of_independent_experts_keep_normal_intervals(tmp_path: Path, folder: Path) -> None:
    found = predict(own_data_config(tmp_path, folder, gp__aggregation="rbcm"))
    assert not found.said(Residuals)
    inside = np.abs(found.arrays["outputs"] - found.arrays["mean"]) <= ndtri(0.975) * found.arrays["std"]
    assert found.metrics["coverage_95"] == inside.mean()


def test_a_site_predicts_with_a_noise_of_its_own(tmp_path: Path) -> None:
    """As the textbook does with that noise; it does not cross, and is the same when the model predicts later."""
    parts = {site: frame.copy() for site, frame in split_over_sites(soundings(240), "random").items()}
    parts["delta"][TARGET] += 60 * np.random.default_rng(0).normal(size=60)
    folder = write_files(tmp_path / "files", parts)
    settings = {"gp__noise": "site", "gp__gate": "all", "gp__answers": 1, "gp__landmarks": 128}
    found = predict(own_data_config(tmp_path / "now", folder, **settings))
    noises = []
    for rows, mean, explained in zip(found.experts(), *own_answers(found), strict=True):
        own = with_own_noise(SquaredExponential(2), found.theta, [rows])
        expected = Expert(SquaredExponential(2), own, *rows).predict(found.queries)
        np.testing.assert_allclose((mean, explained), expected, atol=1e-9)
        noises.append(np.exp(own[-1]))
    assert max(noises) > 5 * np.median(noises)
    common = predict(own_data_config(tmp_path / "common", folder, **{**settings, "gp__noise": "common"}))
    assert found.metrics["smse"] < common.metrics["smse"]
    again = own_data_config(tmp_path / "later", folder, gp__gate="all", gp__answers=1, gp__landmarks=128)
    later = predict(again_with(again, found.path, folder / "_test.csv"))
    np.testing.assert_array_equal(later.arrays["mean"], found.arrays["mean"])


@pytest.mark.parametrize("wrong", [True, False])
def test_outlying_outputs_are_left_out_where_they_mislead(tmp_path: Path, wrong: bool) -> None:
    """Five in a hundred are wrong; or all are right, and a few high ones are foretold by the others."""
    frame, queries = soundings(160), points()
    for each in (frame, queries):
        each[TARGET] = each[TARGET] if wrong else np.exp(4 * np.sin(each["east"] / 5e3))
    if wrong:
        frame.loc[frame.index[::20], TARGET] += 1000
    folder = write_files(tmp_path / "files", split_over_sites(frame, "random"), queries)
    found, kept = (predict(own_data_config(tmp_path / how, folder, gp__outliers=how)) for how in ("auto", "keep"))
    if wrong:
        assert found.report.metrics["smse"] < 0.5 * kept.report.metrics["smse"]
        assert any("rows left out are predicted better" in note for note in found.report.notes)
        assert found.report.rounds == kept.report.rounds + 1
    else:
        np.testing.assert_array_equal(found.predictions[0], kept.predictions[0])


def own_answers(found: PredictionRun) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Means and explained variances of all points, by expert."""
    by_site = {heard.site: heard.payload for heard in found.heard(Predictions)}
    answers = [by_site[site] for site in found.arrays["expert_site"].tolist()]
    return [each.mean[0] for each in answers], [each.explained[0] for each in answers]


# -- questions and answers as files -----------------------------------------------------------------------------------


def table_of(found: PredictionRun) -> list[dict[str, str]]:
    """Lines of ``predictions.csv`` as text."""
    with (found.path / "predictions.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_answers_are_a_file(tmp_path: Path, folder: Path) -> None:
    found = predict(own_data_config(tmp_path, folder))
    lines = table_of(found)
    assert list(lines[0]) == ["query", "mean", "std", "low_95", "high_95", "experts", "measured"]
    assert [line["query"] for line in lines] == points()["well"].tolist()
    for column, name in (("mean", "mean"), ("std", "std"), ("measured", "outputs")):
        np.testing.assert_array_equal([float(line[column]) for line in lines], found.arrays[name])
    np.testing.assert_array_equal(found.arrays["outputs"], points()[TARGET])
    names = found.arrays["expert_site"]
    for line, chosen in zip(lines, found.arrays["selected"], strict=True):
        assert line["experts"].split() == names[chosen].tolist()


def test_points_without_names_are_numbered(tmp_path: Path, folder: Path) -> None:
    lines = table_of(predict(own_data_config(tmp_path, folder, id="")))
    assert [line["query"] for line in lines] == [str(number) for number in range(1, len(points()) + 1)]


def test_odd_names_are_written_as_they_are_but_for_formulas(tmp_path: Path) -> None:
    odd = ['o\'hara, "jo"', "line\nbreak", "=1+2", "Zoë"]
    queries = points(4).assign(well=odd)
    lines = table_of(predict(own_data_config(tmp_path, write_world(tmp_path / "files", queries=queries))))
    assert [line["query"] for line in lines] == [*odd[:2], "'=1+2", odd[3]]


def test_the_center_s_own_file_takes_the_place_of_the_folder_s(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "asked.csv"
    soundings(5, seed=9).drop(columns=TARGET).to_csv(path, index=False)
    found = predict(own_data_config(tmp_path, folder, gp__queries=str(path)))
    lines = table_of(found)
    assert list(lines[0]) == ["query", "mean", "std", "low_95", "high_95", "experts"]
    assert [line["query"] for line in lines] == soundings(5, seed=9)["well"].tolist()
    assert "outputs" not in found.arrays
    assert "smse" not in found.metrics


def test_errors_are_those_of_the_file(tmp_path: Path, folder: Path) -> None:
    found = predict(own_data_config(tmp_path, folder))
    y, (mean, variance) = points()[TARGET].to_numpy(), (found.arrays["mean"], found.arrays["std"] ** 2)
    assert found.metrics["smse"] == pytest.approx(reference.smse(y, mean))
    training = soundings()[TARGET].to_numpy()
    assert found.metrics["msll"] == pytest.approx(reference.msll(y, mean, variance, training))
    assert found.metrics["rmse"] == pytest.approx(np.sqrt(((y - mean) ** 2).mean()))
    intervals = Calibration(found.arrays["residual_counts"], len(found.theta))
    for level in (50, 80, 95, 99):
        inside = np.abs(y - mean) <= intervals.reach(level / 100) * np.sqrt(variance)
        assert found.metrics[f"coverage_{level}"] == pytest.approx(inside.mean())


def test_the_best_site_alone_predicts_with_its_own_hyperparameters(tmp_path: Path, folder: Path) -> None:
    """As one Gaussian process of its rows does, in its own units."""
    found = predict(own_data_config(tmp_path, folder))
    y, own = points()[TARGET].to_numpy(), {each.site: each.payload.theta for each in found.heard(Moments)}
    errors = {}
    for site, theta in own.items():
        rows = rows_of(pd.read_csv(folder / f"{site}.csv"))
        units = reference.units([rows])
        mean, _ = reference.predict(theta, units.of(rows), units.of((points()[list(FEATURES)].to_numpy(), y))[0])[:2]
        errors[site] = float(np.mean((y - mean * units.y_scale - units.y_mean) ** 2) / y.var())
    assert {row["site"]: row["alone"] for row in found.report.table} == pytest.approx(errors, rel=1e-2)
    assert found.metrics["smse_alone"] == pytest.approx(min(errors.values()), rel=1e-2)
    difference, error, groups, sites = found.arrays["paired_smse_alone"]
    assert found.metrics["smse"] == pytest.approx(found.metrics["smse_alone"] + difference)
    assert error > 0
    assert (groups, sites) == (5, len(SITES))
    nobody = predict(own_data_config(tmp_path / "off", folder, gp__alone=False))
    assert nobody.metrics.keys() == found.metrics.keys() - {"smse_alone"}


def test_it_suggests_where_to_measure_next(tmp_path: Path, folder: Path) -> None:
    """A measurement there takes nearly as much from the variance as at the best point, by one process of all rows."""
    settings = own_data_config(tmp_path, folder, gp__suggest=True, gp__gate="all")
    found = predict(settings)
    lines = pd.read_csv(found.path / "suggestions.csv")
    names = points()["well"].tolist()
    assert sorted(lines["query"]) == sorted(names)
    assert (np.diff(lines["reduction"]) <= 0).all()
    assert lines["reduction"][0] == pytest.approx(found.metrics["best_reduction"])
    assert any(note.startswith(f"measure next at {lines['query'][0]}: ") for note in found.report.notes)
    x, _ = reference.together(found.experts())
    theta, queries = found.theta, found.queries
    seen = reference.covariance(theta, x, queries)
    rows = reference.covariance(theta, x, x) + reference.noise(theta) * np.eye(len(x))
    left = reference.covariance(theta, queries, queries) - seen.T @ np.linalg.solve(rows, seen)
    exact = (left**2).mean(axis=0) / (np.diag(left) + reference.noise(theta))
    assert exact[names.index(lines["query"][0])] > 0.9 * exact.max()


# -- real sites -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes", few([{}, {**EXACT, "gp__gate": "dnn", "gp__gate_rounds": 3}, {"gp__aggregation": "grbcm"}], 2)
)
def test_real_sites_say_what_simulated_ones_do(tmp_path: Path, folder: Path, changes: dict[str, Any]) -> None:
    """All that is learned is equal to the bit; real sites round their predictions to a fraction of the deviation."""
    real = predict(*deployed_sites(tmp_path / "real", folder, **changes))
    simulated = predict(own_data_config(tmp_path / "simulated", folder, **changes))
    assert not real.report.missing
    deviation = simulated.arrays["std"]
    assert (np.abs(real.arrays["mean"] - simulated.arrays["mean"]) < 0.2 * deviation).all()
    np.testing.assert_allclose(real.arrays["std"], deviation, rtol=0.1)
    predicted = {"mean", "std", "tried_smse", "tried_msll", "paired_smse_alone"}
    for name in simulated.arrays.keys() - predicted:
        np.testing.assert_array_equal(real.arrays[name], simulated.arrays[name], err_msg=name)
    assert real.metrics["smse"] == pytest.approx(simulated.metrics["smse"], rel=0.05)


# -- what is refused before a site is asked ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [{"gp__kernel": "matern52"}, {"gp__max_expert_rows": 9}, {"gp__fit_rounds": 2}, {"gp__candidates": 2},
     {"gp__gate": "dnn", "gp__gate_rounds": 2}],
)  # fmt: skip
def test_a_saved_model_is_learned_no_further(tmp_path: Path, folder: Path, changes: dict[str, Any]) -> None:
    """What only a run that learns could heed is refused, rather than passed over."""
    before = predict(own_data_config(tmp_path / "before", folder, gp__fit_rounds=1, gp__candidates=1))
    key = list(changes)[-1].replace("__", ".").replace("_", "-")
    with pytest.raises(ConfigError) as told:
        predict(again_with(own_data_config(tmp_path, folder, **changes), before.path, folder / "_test.csv"))
    assert str(told.value) == f"{key} is for a run that learns, not for a run that predicts (from): leave it out"


def test_all_payloads_are_found_by_their_titles() -> None:
    declared = [each for each in vars(wire).values() if isinstance(each, type) and issubclass(each, Payload)]
    assert {Survey, Moments, Evaluate, Likelihood} <= set(declared)
    for payload in set(declared) - {Payload}:
        assert find(payload.title()) is payload


def test_inputs_are_told_in_the_order_of_their_names(tmp_path: Path, folder: Path) -> None:
    found = predict(own_data_config(tmp_path, folder))
    assert found.arrays["features"].tolist() == sorted(FEATURES)
    assert found.arrays["theta_names"].tolist() == ["log ell_1", "log ell_2", "log s", "log sigma"]
