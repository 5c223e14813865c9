"""Moments as of all rows in one place, parts that lie together, and gates that find the experts of a neighborhood."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float64, Int64
from scipy.stats import multivariate_normal

from numerics.gp.gates import discriminant, graphical, nearest
from numerics.gp.gates.network import Adam, Network, from_moments
from numerics.gp.gates.ranking import best, ranking
from numerics.gp.moments import ExpertMoments, in_units, join, moments_of, units_of
from numerics.gp.split import kmeans_parts, split
from scenarios import data_set
from tests.support.examples import examples

ROOT = Path(__file__).resolve().parents[4]
SHARED = Path(os.environ.get(data_set.DATA_VARIABLE) or ROOT.parent / "shared" / "data")
CONCRETE = SHARED / "concrete.csv.gz"

Rows = tuple[Float64[np.ndarray, "n d"], Float64[np.ndarray, "n"], Int64[np.ndarray, "n"]]


def rows(seed: int, counts: tuple[int, ...], d: int = 3) -> Rows:
    """Inputs, outputs and parts, the inputs of every part about another place."""
    rng = np.random.default_rng(seed)
    part = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    places = 3 * rng.normal(size=(len(counts), d))
    x = places[part] + rng.normal(size=(len(part), d)) @ rng.normal(size=(d, d))
    return x, rng.normal(size=len(part)), part.astype(np.int64)


def standardized(x: Float64[np.ndarray, "n d"], part: Int64[np.ndarray, "n"]) -> ExpertMoments:
    moments = moments_of(x, x[:, 0], part)
    return in_units(moments, units_of(moments))


def picked(moments: ExpertMoments, order: Int64[np.ndarray, "m"]) -> ExpertMoments:
    return ExpertMoments(
        moments.counts[order],
        moments.means[order],
        moments.covariances[order],
        moments.y_mean[order],
        moments.y_variance[order],
    )


# -- moments ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.0, 1e9])
@pytest.mark.parametrize("counts", [(40, 7, 1), (1, 1, 1, 1), (25,)])
def test_pooled_moments_are_those_of_all_rows(counts: tuple[int, ...], offset: float) -> None:
    x, y, part = rows(0, counts)
    # A multiple of 2^-20 stays what it is beside 1e9, so that the offset changes no difference between rows.
    x, y = np.round(x * 2**20) / 2**20, np.round(y * 2**20) / 2**20
    units = units_of(moments_of(x + offset, y - offset, part))
    np.testing.assert_allclose(units.mean, x.mean(axis=0) + offset, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(units.scale, x.std(axis=0), rtol=1e-12 if offset == 0 else 1e-6)
    assert units.y_mean == pytest.approx(y.mean() - offset, rel=1e-14, abs=1e-14)
    assert units.y_scale == pytest.approx(y.std(), rel=1e-12 if offset == 0 else 1e-6)


def test_each_expert_has_the_moments_of_its_rows() -> None:
    x, y, part = rows(1, (12, 2, 1))
    moments = moments_of(x, y, part)
    assert moments.counts.tolist() == [12, 2, 1]
    for i in range(3):
        np.testing.assert_allclose(moments.means[i], x[part == i].mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(moments.covariances[i], np.cov(x[part == i].T, bias=True), rtol=1e-12, atol=1e-15)
        assert moments.y_mean[i] == pytest.approx(y[part == i].mean(), rel=1e-12)
        assert moments.y_variance[i] == pytest.approx(y[part == i].var(), rel=1e-12)


def test_sites_together_are_one() -> None:
    x, y, part = rows(2, (9, 5, 3))
    whole = moments_of(x, y, part)
    sites = [moments_of(x[part == i], y[part == i]) for i in range(3)]
    for name in ("counts", "means", "covariances", "y_mean", "y_variance"):
        np.testing.assert_allclose(getattr(join(sites), name), getattr(whole, name), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("constant", [0.1, 1 / 3, 1e9 / 7, -1e-200])
def test_what_does_not_vary_is_only_centered(constant: float) -> None:
    x, y, part = rows(3, (10, 3, 1, 6))
    x[:, 1], y[:] = constant, constant
    units = units_of(moments_of(x, y, part))
    assert units.scale[1] == 1.0
    assert units.y_scale == 1.0
    assert (units.inputs(x)[:, 1] == 0).all()
    assert (units.outputs(y) == 0).all()
    assert (in_units(moments_of(x, y, part), units).covariances[:, 1] == 0).all()


def test_the_smallest_difference_beside_a_large_offset_counts() -> None:
    x = np.full((6, 1), 1e9)
    x[3] = np.nextafter(1e9, np.inf)
    units = units_of(moments_of(x, np.zeros(6), np.array([0, 0, 0, 1, 1, 1])))
    assert 0 < units.scale[0] < 1e-6


def test_moments_in_units_are_those_of_standardized_rows() -> None:
    x, y, part = rows(4, (20, 4, 1))
    moments = moments_of(x, y, part)
    units = units_of(moments)
    there, here = in_units(moments, units), moments_of(units.inputs(x), units.outputs(y), part)
    for name in ("counts", "means", "covariances", "y_mean", "y_variance"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("part", [[], [0, 2, 2]])
def test_every_expert_needs_a_row(part: list[int]) -> None:
    with pytest.raises(ValueError, match="every expert needs a row or more"):
        moments_of(np.zeros((len(part), 2)), np.zeros(len(part)), np.array(part, np.int64))


# -- parts ------------------------------------------------------------------------------------------------------------


@examples(25)
@given(st.integers(0, 99), st.integers(1, 120), st.integers(1, 60), st.sampled_from(["drawn", "grid", "equal"]))
def test_no_expert_of_a_split_is_large_or_very_small(seed: int, n: int, most: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    x = {"drawn": rng.normal(size=(n, 2)), "grid": rng.integers(0, 3, (n, 2)) * 1.0, "equal": np.ones((n, 2))}[kind]
    part = split(x, most, np.random.default_rng(seed))
    counts = np.bincount(part)
    assert counts.max() <= most
    assert counts.min() >= min(n, max(1, (most + 1) // 4))
    np.testing.assert_array_equal(part, split(x, most, np.random.default_rng(seed)))


def test_parts_of_two_splits_lie_in_each_other_or_apart() -> None:
    x = np.random.default_rng(3).normal(size=(90, 2))
    parts = [split(x, most, np.random.default_rng(7)) for most in range(90, 4, -1)]
    for coarse, fine in pairwise(parts):
        assert len(set(zip(coarse.tolist(), fine.tolist(), strict=True))) == fine.max() + 1


def test_a_split_follows_the_rows_and_not_their_units() -> None:
    x, _, part = rows(5, (30, 30, 30))
    x += 40 * part[:, None]
    found = split(x * [1e-6, 1.0, 1e6], 40, np.random.default_rng(0))
    np.testing.assert_array_equal(found, kmeans_parts(x, 3, np.random.default_rng(0)))
    assert len(set(zip(found.tolist(), part.tolist(), strict=True))) == 3


def test_a_split_into_experts_without_rows() -> None:
    with pytest.raises(ValueError, match="an expert has 1 row or more at most, not 0"):
        split(np.zeros((3, 1)), 0, np.random.default_rng(0))


@pytest.mark.parametrize("x", [np.ones((9, 2)), np.repeat(np.eye(3), 3, axis=0), np.arange(9.0)[:, None]])
@pytest.mark.parametrize("M", [1, 5, 9])
def test_the_partition_has_exactly_so_many_parts(x: Float64[np.ndarray, "n d"], M: int) -> None:
    part = kmeans_parts(x, M, np.random.default_rng(1))
    assert np.unique(part).tolist() == list(range(M))
    np.testing.assert_array_equal(part, kmeans_parts(x, M, np.random.default_rng(1)))


@pytest.mark.parametrize("M", [0, 4])
def test_a_partition_into_more_parts_than_rows(M: int) -> None:
    with pytest.raises(ValueError, match=f"3 rows cannot be {M} parts"):
        kmeans_parts(np.zeros((3, 1)), M, np.random.default_rng(0))


# -- every gate -------------------------------------------------------------------------------------------------------


def test_equal_scores_go_by_number() -> None:
    scores = np.array([[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0], [-np.inf, 0.0, -np.inf, 1.0]])
    assert ranking(scores).tolist() == [[1, 2, 0, 3], [0, 1, 2, 3], [3, 1, 0, 2]]
    assert best(scores, 2).tolist() == [[1, 2], [0, 1], [3, 1]]


def test_experts_of_equal_moments_go_by_number() -> None:
    x, _, _ = rows(6, (20,))
    experts = standardized(np.tile(x, (3, 1)), np.repeat(np.arange(3), 20))
    points = np.random.default_rng(0).normal(size=(50, 3))
    for scores in (nearest.scores(points, experts), discriminant.scores(points, experts, np.ones(3))):
        assert (ranking(scores) == [0, 1, 2]).all()


def test_the_order_of_experts_and_points_is_irrelevant() -> None:
    x, _, part = rows(7, (30, 12, 3, 1))
    experts, order, points = (
        standardized(x, part),
        np.array([2, 0, 3, 1]),
        np.random.default_rng(0).normal(size=(40, 3)),
    )
    lengths = np.array([0.5, 2.0, 1.0])
    predictions = np.random.default_rng(1).normal(size=(40, 4)) + points[:, :1]
    for scores, same in (
        (nearest.scores(points, experts), nearest.scores(points[::-1], picked(experts, order))),
        (
            discriminant.scores(points, experts, lengths),
            discriminant.scores(points[::-1], picked(experts, order), lengths),
        ),
        (graphical.scores(predictions), graphical.scores(predictions[::-1, order])),
    ):
        np.testing.assert_allclose(same[::-1], scores[:, order], rtol=1e-5)


def test_one_expert_is_chosen_everywhere() -> None:
    x, _, part = rows(8, (5,))
    experts, points = standardized(x, part), np.random.default_rng(0).normal(size=(7, 3))
    network = Network(3, 1)
    for scores in (
        nearest.scores(points, experts),
        discriminant.scores(points, experts, np.ones(3)),
        network.log_probabilities(from_moments(network, experts, 0)[0], points),
        graphical.scores(points[:, :1]),
    ):
        assert np.isfinite(scores).all()
        assert (ranking(scores) == 0).all()


# -- nearest, discriminant --------------------------------------------------------------------------------------------


def test_nearest_is_minus_the_squared_distance() -> None:
    x, _, part = rows(9, (4, 6))
    experts, points = standardized(x, part), np.random.default_rng(0).normal(size=(5, 3))
    expected = -((points[:, None] - experts.means) ** 2).sum(axis=2)
    np.testing.assert_allclose(nearest.scores(points, experts), expected, rtol=1e-12)


def test_the_discriminant_survives_an_expert_whose_inputs_lie_on_a_line_without_end() -> None:
    usual = moments_of(np.random.default_rng(0).normal(size=(20, 2)), np.zeros(20))
    endless = ExpertMoments(np.array([20]), np.zeros((1, 2)), np.full((1, 2, 2), 1e100), np.zeros(1), np.ones(1))
    scores = discriminant.scores(np.ones((1, 2)), join([usual, endless]), np.ones(2))
    assert np.isfinite(scores).all()
    assert scores[0, 0] > scores[0, 1]


def test_the_discriminant_is_the_expected_number_of_rows_about_a_point() -> None:
    x, _, part = rows(10, (40, 9, 2, 1))
    experts, points = standardized(x, part), np.random.default_rng(0).normal(size=(30, 3))
    lengths = np.array([0.7, 1.5, 0.4])
    window = np.diag((discriminant.WINDOW * lengths) ** 2)
    expected = np.column_stack(
        [
            np.log(n) + multivariate_normal(mean, covariance + window).logpdf(points)
            for n, mean, covariance in zip(experts.counts, experts.means, experts.covariances, strict=True)
        ]
    )
    scores = discriminant.scores(points, experts, lengths)
    np.testing.assert_allclose(scores - scores[:, :1], expected - expected[:, :1], rtol=1e-9, atol=1e-9)


def test_inputs_that_do_not_matter_do_not_choose() -> None:
    x, _, part = rows(11, (20, 20, 20))
    experts, points = standardized(x, part), np.random.default_rng(0).normal(size=(30, 3))
    lengths = np.array([0.6, 1.1, np.inf])
    elsewhere = points + np.array([0.0, 0.0, 5.0])
    scores = discriminant.scores(points, experts, lengths)
    np.testing.assert_array_equal(scores, discriminant.scores(elsewhere, experts, lengths))
    np.testing.assert_allclose(scores, discriminant.scores(points, experts, np.array([0.6, 1.1, 1e8])), rtol=1e-6)


def test_a_point_far_out_belongs_to_the_expert_of_wide_spread() -> None:
    """Where centroids coincide, and the nearest of them says nothing."""
    rng = np.random.default_rng(12)
    x = np.concatenate([rng.normal(scale=0.1, size=(200, 2)), rng.normal(scale=3.0, size=(200, 2))])
    moments = moments_of(x, x[:, 0], np.repeat([0, 1], 200))
    scores = discriminant.scores(np.array([[0.0, 0.05], [4.0, -3.0]]), moments, np.full(2, 0.2))
    assert scores.argmax(axis=1).tolist() == [0, 1]


def test_experts_of_one_row_go_by_distance() -> None:
    x = np.random.default_rng(13).normal(size=(6, 4))
    experts = moments_of(x, x[:, 0], np.arange(6))
    points = np.random.default_rng(0).normal(size=(20, 4))
    np.testing.assert_array_equal(
        ranking(discriminant.scores(points, experts, np.ones(4))), ranking(nearest.scores(points, experts))
    )


# -- network ----------------------------------------------------------------------------------------------------------


def test_the_gradient_is_that_of_the_cross_entropy() -> None:
    x, _, label = rows(14, (7, 6, 5))
    network = Network(3, 3, hidden=4)
    parameters = network.start(0)
    loss, gradient = network.gradient(parameters, x, label)
    log_p = network.log_probabilities(parameters, x)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1.0, rtol=1e-12)
    assert loss == pytest.approx(-log_p[np.arange(18), label].sum())
    step = 1e-6 * np.eye(network.size)
    slopes = [
        (network.gradient(parameters + h, x, label)[0] - network.gradient(parameters - h, x, label)[0]) / 2e-6
        for h in step
    ]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6)


def test_gradients_of_sites_add_up_to_that_of_all_rows() -> None:
    x, _, label = rows(15, (20, 1, 8))
    network = Network(3, 3)
    parameters = network.start(1)
    whole_loss, whole = network.gradient(parameters, x, label)
    sites = [network.gradient(parameters, x[label == i], label[label == i]) for i in range(3)]
    assert sum(loss for loss, _ in sites) == pytest.approx(whole_loss, rel=1e-12)
    np.testing.assert_allclose(np.sum([part for _, part in sites], axis=0), whole, rtol=1e-10, atol=1e-12)


def test_adam_takes_the_steps_of_its_paper() -> None:
    rng = np.random.default_rng(16)
    parameters, optimizer = rng.normal(size=3), Adam.start(3)
    expected, m, v = parameters.tolist(), [0.0] * 3, [0.0] * 3
    for t in range(1, 6):
        gradient = rng.normal(size=3)
        parameters, optimizer = optimizer.step(parameters, gradient)
        for i, g in enumerate(gradient.tolist()):
            m[i], v[i] = 0.9 * m[i] + 0.1 * g, 0.999 * v[i] + 0.001 * g * g
            expected[i] -= 0.05 * (m[i] / (1 - 0.9**t)) / ((v[i] / (1 - 0.999**t)) ** 0.5 + 1e-8)
    np.testing.assert_allclose(parameters, expected, rtol=1e-12)
    assert optimizer.steps == 5


def test_a_network_from_moments_knows_separate_experts_without_an_ask() -> None:
    x, _, part = rows(17, (60, 40, 1, 30))
    x += 30 * np.eye(4)[part][:, :3]
    experts = standardized(x, part)
    z = units_of(moments_of(x, x[:, 0], part)).inputs(x)
    network = Network(3, 4)
    parameters, optimizer = from_moments(network, experts, 3)
    np.testing.assert_array_equal(network.log_probabilities(parameters, z).argmax(axis=1), part)
    np.testing.assert_array_equal(parameters, from_moments(network, experts, 3)[0])
    assert optimizer.mean.shape == (network.size,)


@pytest.mark.skipif(not CONCRETE.is_file(), reason="the shared concrete.csv.gz is absent")
def test_asks_that_the_network_needs_on_concrete() -> None:
    """specs/gp.md: accuracy .98 after 10 asks, 1.0 after 100; from moments as good before 10."""
    x = pd.read_csv(CONCRETE).iloc[:, :-1].to_numpy(np.float64)
    label = kmeans_parts(x, 10, np.random.default_rng(0))
    moments = moments_of(x, x[:, 0], label)
    units = units_of(moments)
    x, network = units.inputs(x), Network(8, 10)
    accuracy = []
    for (parameters, optimizer), asks in (
        ((network.start(0), Adam.start(network.size)), (10, 100)),
        (from_moments(network, in_units(moments, units), 0), (0, 5)),
    ):
        for ask in range(max(asks) + 1):
            if ask in asks:
                accuracy.append((network.log_probabilities(parameters, x).argmax(axis=1) == label).mean())
            parameters, optimizer = optimizer.step(parameters, network.gradient(parameters, x, label)[1] / len(x))
    assert accuracy[0] == pytest.approx(0.98, abs=0.02)
    assert accuracy[1] >= 0.995
    assert accuracy[2] >= 0.9
    assert accuracy[3] >= 0.97


# -- graphical model --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("covariance", [0.5, -0.5, 0.05])
def test_two_experts_have_the_closed_form(covariance: float) -> None:
    predictions = (
        np.random.default_rng(18).normal(size=(50, 2)) @ np.linalg.cholesky([[0.7, covariance], [covariance, 0.6]]).T
    )
    S = np.cov(predictions.T, bias=True)
    assert S.diagonal().max() < 1
    penalty = graphical.PENALTY
    W = S + penalty * np.eye(2)
    W[0, 1] = W[1, 0] = np.sign(S[0, 1]) * max(abs(S[0, 1]) - penalty, 0.0)
    expected = abs(np.linalg.inv(W)[0, 1])
    np.testing.assert_allclose(graphical.importance(predictions), expected, rtol=1e-4, atol=1e-12)


def test_the_expert_that_all_depend_on_is_the_most_important() -> None:
    rng = np.random.default_rng(19)
    hub = rng.normal(size=(400, 1))
    others = hub + 0.7 * rng.normal(size=(400, 5))
    predictions = np.concatenate([others[:, :3], hub, others[:, 3:], rng.normal(size=(400, 1))], axis=1)
    order = ranking(graphical.scores(predictions))
    assert (order == order[0]).all()
    assert order[0, 0] == 3
    assert order[0, -1] == 6


@pytest.mark.parametrize(
    "predictions",
    [np.ones((5, 3)), np.ones((1, 3)), np.zeros((4, 1)), np.array([[0.3, 0.1]])],
    ids=["constant", "one point", "one expert", "one point, two experts"],
)
def test_predictions_that_say_nothing_make_all_experts_equal(predictions: Float64[np.ndarray, "N M"]) -> None:
    assert (graphical.scores(predictions) == 0).all()
    assert graphical.scores(predictions).shape == predictions.shape


@pytest.mark.parametrize("M", [2, 10, 40])
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_experts_that_are_alike_still_have_an_importance(M: int, scale: float) -> None:
    predictions = np.repeat(scale * np.random.default_rng(20).normal(size=(100, 1)), M, axis=1)
    found = graphical.importance(predictions)
    assert np.isfinite(found).all()
    assert (found >= 0).all()
