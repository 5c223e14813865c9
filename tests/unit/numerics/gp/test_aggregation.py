"""Experts' predictions made one: NPAE against the equations, covariances without inputs, the products of experts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numerics.gp.aggregation import RULES, ExpertPredictions, aggregate
from numerics.gp.covariances import covariances
from numerics.gp.expert import Expert
from numerics.gp.kernel_registry import kernel_of
from numerics.gp.landmarks import offsets
from numerics.gp.metrics import coverage, msll, smse
from numerics.gp.npae import npae
from numerics.gp.sketch import covariance_of, features
from tests.support.examples import examples
from tests.support.parameters import few

NOISE = 0.1
THETA = np.log([0.8, 1.3, 1.2, np.sqrt(NOISE)])
SE = kernel_of("se", 2)


def generator(seed=0):
    return np.random.default_rng(seed)


def k(x, z):
    """The squared exponential of `THETA`, from its definition."""
    ell, s = np.exp(THETA[:2]), np.exp(THETA[2])
    return s**2 * np.exp(-0.5 * (((x[:, None] - z[None]) / ell) ** 2).sum(axis=2))


def rows(sizes=(30, 40, 25), seed=0):
    """Rows of several experts, each around a place of its own."""
    rng = generator(seed)
    parts = []
    for i, n in enumerate(sizes):
        x = rng.normal(size=(n, 2)) + 1.2 * np.array([np.cos(i), np.sin(i)])
        parts.append((x, np.sin(2 * x[:, 0]) * x[:, 1] + np.sqrt(NOISE) * rng.normal(size=n)))
    return parts


def queries(n=12, seed=1):
    return generator(seed).normal(size=(n, 2))


def gp(x, y, points):
    """Mean and variance of the latent function, from the textbook's equations."""
    z = k(x, x) + NOISE * np.eye(len(x))
    cross = k(x, points)
    return cross.T @ np.linalg.solve(z, y), np.diag(k(points, points) - cross.T @ np.linalg.solve(z, cross))


def everyone(points, m):
    return np.tile(np.arange(m), (len(points), 1))


def answers(parts, points, kernel=SE, theta=THETA):
    """Mean and explained ``(N, M)`` of all experts, exact covariances, and prior."""
    experts = [Expert(kernel, theta, x, y) for x, y in parts]
    mean, explained = (np.column_stack(v) for v in zip(*(e.predict(points) for e in experts), strict=True))
    exact = covariances(kernel, theta, [x for x, _ in parts], points, everyone(points, len(parts)))
    return mean, explained, exact, kernel.diagonal(theta[:-1], points)


def directions_of(parts, points, n=64, kernel=SE, theta=THETA):
    around = offsets(n, kernel.lengths(theta[:-1]), seed=0)
    return np.stack([features(Expert(kernel, theta, x, y), points, around).directions for x, y in parts], axis=1)


# One expert


def test_an_expert_is_the_textbooks_gaussian_process():
    (x, y), points = rows()[0], queries()
    expert = Expert(SE, THETA, x, y)
    mean, explained = expert.predict(points)
    expected_mean, expected_variance = gp(x, y, points)
    np.testing.assert_allclose(mean, expected_mean, atol=1e-12)
    np.testing.assert_allclose(SE.diagonal(THETA[:-1], points) - explained, expected_variance, atol=1e-12)
    np.testing.assert_allclose(expert.answer(points).weights.T @ y, mean, atol=1e-12)


def test_an_expert_of_one_row():
    mean, explained = Expert(SE, THETA, np.zeros((1, 2)), np.array([2.0])).predict(np.zeros((1, 2)))
    s2 = np.exp(2 * THETA[2])
    np.testing.assert_allclose([mean[0], explained[0]], [2.0 * s2 / (s2 + NOISE), s2**2 / (s2 + NOISE)])


def test_many_points_are_answered_as_few_are(monkeypatch):
    (x, y), points = rows()[0], queries(50)
    whole = features(Expert(SE, THETA, x, y), points, offsets(8, np.ones(2), 0))
    monkeypatch.setattr("numerics.gp.expert.BLOCK", 2000)
    for one, many in zip(features(Expert(SE, THETA, x, y), points, offsets(8, np.ones(2), 0)), whole, strict=True):
        np.testing.assert_allclose(one, many, atol=1e-12)
    np.testing.assert_allclose(Expert(SE, THETA, x, y).predict(points)[0], whole.mean, atol=1e-12)


def test_points_in_single_precision_are_taken():
    (x, y), points = rows()[0], queries().astype(np.float32)
    got = features(Expert(SE, THETA, x, y), points, offsets(8, np.ones(2), 0))
    assert got.mean.dtype == got.explained.dtype == np.float64
    np.testing.assert_allclose(got.mean, gp(x, y, points.astype(np.float64))[0], atol=1e-12)


# NPAE


def test_one_expert_is_its_own_gaussian_process():
    (x, y), points = rows()[0], queries()
    mean, variance = npae(*answers([(x, y)], points))
    expected_mean, expected_variance = gp(x, y, points)
    np.testing.assert_allclose(mean, expected_mean, atol=2e-10)
    np.testing.assert_allclose(variance, expected_variance, atol=2e-10)


def test_npae_is_its_equation_at_every_point():
    parts, points = rows((20, 30, 25, 8)), queries(15)
    inverse = [np.linalg.inv(k(x, x) + NOISE * np.eye(len(x))) for x, _ in parts]
    mean, variance = npae(*answers(parts, points))
    for q, point in enumerate(points):
        a = [z @ k(x, point[None])[:, 0] for z, (x, _) in zip(inverse, parts, strict=True)]
        mu = np.array([w @ y for w, (_, y) in zip(a, parts, strict=True)])
        r = np.array([w @ k(x, point[None])[:, 0] for w, (x, _) in zip(a, parts, strict=True)])
        R = np.array([[a[i] @ k(parts[i][0], parts[j][0]) @ a[j] for j in range(4)] for i in range(4)])
        R[np.diag_indices(4)] += [NOISE * w @ w for w in a]
        weights = np.linalg.pinv(R, rcond=1e-12) @ r
        np.testing.assert_allclose(mean[q], weights @ mu, atol=1e-6)
        np.testing.assert_allclose(variance[q], np.exp(2 * THETA[2]) - weights @ r, atol=1e-6)


def test_npae_conditions_the_function_on_two_predictions():
    """By the joint Gaussian of all outputs and the function, of which the predictions are linear readings."""
    (xa, ya), (xb, yb) = parts = rows((12, 9))
    point = queries(1)
    x = np.concatenate([xa, xb, point])
    joint = k(x, x) + NOISE * np.diag(np.r_[np.ones(21), 0.0])
    read = np.zeros((3, 22))
    read[0, :12] = np.linalg.solve(joint[:12, :12], joint[:12, -1])
    read[1, 12:21] = np.linalg.solve(joint[12:21, 12:21], joint[12:21, -1])
    read[2, -1] = 1.0
    S = read @ joint @ read.T
    said = read[:2, :21] @ np.concatenate([ya, yb])
    weights = np.linalg.solve(S[:2, :2], S[:2, 2])
    mean, variance = npae(*answers(parts, point))
    np.testing.assert_allclose([mean[0], variance[0]], [weights @ said, S[2, 2] - weights @ S[:2, 2]], atol=1e-8)


def test_an_expert_more_never_makes_the_variance_larger_nor_smaller_than_the_full_process():
    parts, points = rows((30, 40, 25, 20)), queries(30)
    mean, explained, exact, prior = answers(parts, points)
    _, full = gp(np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts]), points)
    before = prior
    for m in range(1, 5):
        _, variance = npae(mean[:, :m], explained[:, :m], exact[:, :m, :m], prior)
        assert np.all(variance <= before + 1e-8)
        assert np.all(variance >= full - 1e-8)
        before = variance


def test_an_expert_that_says_what_another_says_adds_nothing():
    """R is singular."""
    parts, points = rows(), queries()
    mean, explained, exact, prior = answers(parts, points)
    again = [0, 1, 2, 0, 0, 1]
    got = npae(mean[:, again], explained[:, again], exact[:, again][:, :, again], prior)
    for a, b in zip(got, npae(mean, explained, exact, prior), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-7)


def test_two_sites_with_the_same_rows():
    """Nobody can know that: they count as measured twice, so the full process with each row twice is surer still."""
    (x, y), points = rows()[0], queries()
    mean, explained, exact, prior = answers([(x, y)] * 2, points)
    once, twice = gp(x, y, points)[1], gp(np.tile(x, (2, 1)), np.tile(y, 2), points)[1]
    for covariance in (exact, covariance_of(explained, directions_of([(x, y)] * 2, points), prior)):
        got, variance = npae(mean, explained, covariance, prior)
        assert np.all((variance <= once + 1e-9) & (variance >= twice - 1e-9))
        assert np.all(np.abs(got) < 1.5 * np.abs(mean[:, 0]))


def test_rows_twice_at_one_site_and_almost_no_noise():
    (x, y), points = rows()[0], queries()
    theta = np.append(THETA[:-1], np.log(1e-3))
    x, y = np.tile(x, (3, 1)), np.tile(np.sin(x[:, 0]), 3)
    mean, explained, exact, prior = answers([(x, y), (x[:30], y[:30])], points, theta=theta)
    got, variance = npae(mean, explained, exact, prior)
    np.testing.assert_allclose(got, mean[:, 1], atol=5e-3)
    assert np.all((variance > 0) & (variance <= prior - explained.max(axis=1) + 1e-9))


def test_far_from_everything_the_prior_comes_back():
    parts = rows()
    points = np.concatenate([np.array([[12.0, 0.0], [60.0, 60.0], [1e6, -1e6]]), queries(2)])
    mean, explained, exact, prior = answers(parts, points)
    sketched = covariance_of(explained, directions_of(parts, points), prior)
    for covariance in (exact, sketched):
        got, variance = npae(mean, explained, covariance, prior)
        assert np.all(np.isfinite(got))
        np.testing.assert_allclose(got[1:3], 0.0, atol=1e-12)
        np.testing.assert_allclose(variance[1:3], prior[1:3])
        assert np.all(variance[3:] < 0.9 * prior[3:])


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e60])
def test_the_mean_is_linear_in_the_predictions(size):
    parts, points = rows(), queries()
    mean, explained, exact, prior = answers(parts, points)
    expected = npae(mean, explained, exact, prior)
    got = npae(size * mean, explained, exact, prior)
    np.testing.assert_allclose(got[0], size * expected[0])
    np.testing.assert_array_equal(got[1], expected[1])


def test_covariances_that_no_predictions_have_do_no_harm_to_other_points():
    """A matrix that is not positive semidefinite is mended, and only the one that needs it."""
    parts, points = rows(), queries(20)
    mean, explained, exact, prior = answers(parts, points)
    expected = npae(mean, explained, exact, prior)
    wrong = exact.copy()
    wrong[7] = 0.9 * np.array([[1, 1, -1], [1, 1, 1], [-1, 1, 1]]) * np.sqrt(np.outer(explained[7], explained[7]))
    got = npae(mean, explained, wrong, prior)
    others = np.arange(20) != 7
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a[others], b[others])
    assert np.isfinite(got[0][7])
    assert 0 < got[1][7] <= prior[7]


def test_the_order_of_experts_and_of_points_is_irrelevant():
    parts, points = rows((30, 40, 25, 20)), queries(30)
    mean, explained, exact, prior = answers(parts, points)
    expected = npae(mean, explained, exact, prior)
    experts, at = generator(3).permutation(4), generator(4).permutation(30)
    shuffled = exact[at][:, experts][:, :, experts]
    got = npae(mean[at][:, experts], explained[at][:, experts], shuffled, prior[at])
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b[at], atol=1e-8)


# Exact covariances


def test_covariances_of_the_experts_that_a_point_selected():
    parts, points = rows((30, 40, 25, 20)), queries(30)
    exact = answers(parts, points)[2]
    rng = generator(5)
    selected = np.array([rng.permutation(4)[:3] for _ in points])
    selected[4] = [-1, 2, -1]
    got = covariances(SE, THETA, [x for x, _ in parts], points, selected)
    for q, chosen in enumerate(selected):
        for a, i in enumerate(chosen):
            for b, j in enumerate(chosen):
                np.testing.assert_allclose(got[q, a, b], exact[q, i, j] if min(i, j) >= 0 else 0.0, atol=1e-10)


def test_covariances_in_blocks(monkeypatch):
    parts, points = rows(), queries(30)
    exact = answers(parts, points)[2]
    monkeypatch.setattr("numerics.gp.covariances.MEMORY", 500)
    np.testing.assert_allclose(answers(parts, points)[2], exact, atol=1e-12)


# Covariances from features


@pytest.mark.parametrize("name", few(["se + linear", "se", "matern32"]))
def test_features_are_the_specs_construction(name):
    """specs/gp.md: Nystrom features over the landmarks, and x* as one more landmark."""
    kernel = kernel_of(name, 2)
    params, points, parts = kernel.start(), queries(6), rows((20, 30))
    theta = np.append(params, 0.5 * np.log(NOISE))
    z0 = offsets(6, np.ones(2), seed=0)
    prior = kernel.diagonal(params, points)
    experts = [Expert(kernel, theta, x, y) for x, y in parts]
    sent = [features(e, points, z0) for e in experts]
    explained = np.column_stack([s.explained for s in sent])
    got = covariance_of(explained, np.stack([s.directions for s in sent], axis=1), prior)
    for q, point in enumerate(points):
        z = point + z0
        lower = np.linalg.cholesky(kernel.matrix(params, z, z))
        P = np.linalg.solve(lower, kernel.matrix(params, z, point[None])[:, 0])
        c = prior[q] - P @ P
        w = []
        for i, (e, (x, _)) in enumerate(zip(experts, parts, strict=True)):
            phi = np.linalg.solve(lower, kernel.matrix(params, z, x))
            w.append(phi @ e.answer(points[q : q + 1]).weights[:, 0] - P * explained[q, i] / prior[q])
        expected = explained[q, 0] * explained[q, 1] / prior[q] + w[0] @ w[1] + (w[0] @ P) * (w[1] @ P) / c
        np.testing.assert_allclose(got[q, 0, 1], expected, atol=2e-5)


def test_features_of_the_squared_exponential_do_not_depend_on_how_they_are_computed(monkeypatch):
    parts, points = rows(), queries(20)
    fast = directions_of(parts, points)
    monkeypatch.setattr("numerics.gp.sketch._LARGEST", 0.0)
    np.testing.assert_allclose(directions_of(parts, points), fast, atol=1e-8)


def test_more_landmarks_come_closer_to_the_exact_covariances():
    parts, points = rows((60, 60, 60), seed=2), queries(60)
    mean, explained, exact, prior = answers(parts, points)
    expected = npae(mean, explained, exact, prior)[0]
    anchor = covariance_of(explained, np.zeros((60, 3, 1)), prior)
    worst = np.sqrt(np.mean((npae(mean, explained, anchor, prior)[0] - expected) ** 2))
    apart = []
    for n in (4, 16, 64):
        sketched = covariance_of(explained, directions_of(parts, points, n), prior)
        apart.append(np.sqrt(np.mean((npae(mean, explained, sketched, prior)[0] - expected) ** 2)))
    assert worst > apart[0] > apart[1] > apart[2]
    assert apart[2] < worst / 10


def test_half_precision_loses_nothing_that_matters():
    parts, points = rows(), queries(40)
    mean, explained, _, prior = answers(parts, points)
    sent = directions_of(parts, points, 32)
    full = npae(mean, explained, covariance_of(explained, sent, prior), prior)
    half = npae(mean, explained, covariance_of(explained, sent.astype(np.float16), prior), prior)
    np.testing.assert_allclose(half[0], full[0], atol=2e-3)
    np.testing.assert_allclose(half[1], full[1], atol=2e-3)


@examples(40)
@given(st.integers(0, 10**6), st.sampled_from([1e-3, 1.0, 1e6]), st.integers(1, 6))
def test_whatever_a_site_sends_the_covariance_is_one(seed, size, n_experts):
    rng = generator(seed)
    prior = rng.uniform(0.5, 2.0, 5)
    explained = rng.uniform(0, 1, (5, n_experts)) ** 3 * prior[:, None]
    explained[0] = 0.0
    explained[1] = prior[1]
    covariance = covariance_of(explained, size * rng.normal(size=(5, n_experts, 4)), prior)
    joint = np.concatenate([covariance, explained[:, :, None]], axis=2)
    last = np.concatenate([explained, prior[:, None]], axis=1)
    joint = np.concatenate([joint, last[:, None, :]], axis=1)
    assert np.linalg.eigvalsh(joint).min() > -1e-12
    mean, variance = npae(rng.normal(size=explained.shape), explained, covariance, prior)
    assert np.all(np.isfinite(mean))
    assert np.all((variance > 0) & (variance <= prior))


def test_offsets_depend_on_nothing_but_their_arguments():
    lengths = np.array([0.1, 1.0, 1e4])
    first = offsets(20, lengths, seed=7)
    assert first.shape == (20, 3)
    np.testing.assert_array_equal(first, offsets(20, lengths, seed=7))
    assert np.abs(first - offsets(20, lengths, seed=8)).max() > 0.01
    # Of an input that does not matter, landmarks stay where inputs are.
    assert np.all(np.abs(first) < 10 * np.minimum(lengths, 1.0))
    assert offsets(1, np.ones(1), seed=0).shape == (1, 1)


def test_landmarks_do_not_differ_in_an_input_that_never_varies():
    lengths = np.array([0.7, 1.0, 2.0])
    among = offsets(20, lengths, seed=0, spread=np.array([1.0, 0.0, 1.0]))
    np.testing.assert_array_equal(among[:, 1], 0.0)
    assert np.all(among[:, [0, 2]].std(axis=0) > 0.1)
    (x, y), points = rows()[0], queries()
    got = features(Expert(SE, THETA, x, y), points, offsets(5, np.ones(2), 0, np.zeros(2)))
    np.testing.assert_allclose(got.directions, 0.0, atol=1e-6)


# Rules of independent experts


def predictions(seed=0, N=8, K=3, **more):
    rng = generator(seed)
    return ExpertPredictions(rng.normal(size=(N, K)), rng.uniform(0.1, 1.2, (N, K)), np.ones((N, K), bool), **more)


PRIOR = np.full(8, 1.5)


def by_hand(rule, mu, s2, prior):
    """specs/gp.md, at one point."""
    K = len(mu)
    beta = {"gpoe": np.full(K, 1 / K), "rbcm": 0.5 * (np.log(prior) - np.log(s2))}.get(rule, np.ones(K))
    precision = np.sum(beta / s2)
    if rule in ("bcm", "rbcm"):
        precision += (1 - beta.sum()) / prior
    return np.sum(beta * mu / s2) / precision, 1 / precision


@pytest.mark.parametrize("rule", ["poe", "gpoe", "bcm", "rbcm"])
def test_products_of_experts_and_committee_machines(rule):
    said = predictions()
    available = said.available.copy()
    available[3, 1] = False
    fused = aggregate(rule, ExpertPredictions(said.mean, said.explained, available), PRIOR, NOISE)
    for q in range(8):
        used = available[q]
        s2 = PRIOR[q] + NOISE - said.explained[q, used]
        expected = by_hand(rule, said.mean[q, used], s2, PRIOR[q] + NOISE)
        np.testing.assert_allclose([fused.mean[q], fused.variance[q]], expected)


def test_the_generalized_committee_machine():
    common = (generator(1).normal(size=8), np.full(8, 0.05))
    said = predictions(common=common)
    fused = aggregate("grbcm", said, PRIOR, NOISE)
    for q in range(8):
        s2, s2c = PRIOR[q] + NOISE - said.explained[q], PRIOR[q] + NOISE - 0.05
        beta = np.r_[1.0, 0.5 * (np.log(s2c) - np.log(s2[1:]))]
        precision = np.sum(beta / s2) - (beta.sum() - 1) / s2c
        mean = (np.sum(beta * said.mean[q] / s2) - (beta.sum() - 1) * common[0][q] / s2c) / precision
        np.testing.assert_allclose([fused.mean[q], fused.variance[q]], [mean, 1 / precision])


def test_an_expert_less_sure_than_the_communication_expert_adds_nothing():
    """Each expert knows the common rows and more, so it cannot be less sure: rounding is all that says so."""
    explained = np.array([[0.5, 0.2, 0.4]])  # the second explains less than the communication expert
    mean, prior = np.array([[1.0, 50.0, 3.0]]), np.array([1.0])
    common = (np.array([2.0]), np.array([0.3]))
    all_three = aggregate("grbcm", ExpertPredictions(mean, explained, np.ones((1, 3), bool), common=common), prior, 0.1)
    without = np.array([[True, False, True]])
    two = aggregate("grbcm", ExpertPredictions(mean, explained, without, common=common), prior, 0.1)
    np.testing.assert_allclose([all_three.mean, all_three.variance], [two.mean, two.variance])


def test_the_generalized_machine_of_rows_that_are_all_common_is_their_process():
    (x, y), points = rows()[0], queries(8)
    mean, explained = Expert(SE, THETA, x, y).predict(points)
    prior = SE.diagonal(THETA[:-1], points)
    same = ExpertPredictions(
        *(np.column_stack([v] * 3) for v in (mean, explained)), np.ones((8, 3), bool), common=(mean, explained)
    )
    fused = aggregate("grbcm", same, prior, NOISE)
    np.testing.assert_allclose(fused.mean, gp(x, y, points)[0], atol=1e-10)
    np.testing.assert_allclose(fused.variance, gp(x, y, points)[1] + NOISE, atol=1e-10)


def test_npae_by_features_and_by_covariances_is_one_call():
    parts, points = rows(), queries(8)
    mean, explained, exact, prior = answers(parts, points)
    available = np.ones((8, 3), bool)
    available[2, 0] = available[5] = False
    directions = directions_of(parts, points)
    for more in ({"covariance": exact}, {"directions": directions}):
        fused = aggregate("npae", ExpertPredictions(mean, explained, available, **more), prior, NOISE)
        without = npae(mean[2:3, 1:], explained[2:3, 1:], exact[2:3, 1:, 1:], prior[2:3])
        np.testing.assert_allclose(fused.mean[2], without[0][0], atol=5e-3)
        np.testing.assert_allclose(fused.variance[2], without[1][0] + NOISE, atol=5e-3)
        np.testing.assert_allclose([fused.mean[5], fused.variance[5]], [0.0, prior[5] + NOISE])


@pytest.mark.parametrize("rule", RULES)
def test_where_nobody_answered_the_prior_is_the_answer(rule):
    said = predictions(directions=np.zeros((8, 3, 2)), common=(np.full(8, 0.3), np.full(8, 0.5)))
    nobody = ExpertPredictions(said.mean, said.explained, np.zeros((8, 3), bool), said.directions, None, said.common)
    fused = aggregate(rule, nobody, PRIOR, NOISE)
    mean, variance = (0.3, 1.1) if rule == "grbcm" else (0.0, 1.6)
    np.testing.assert_allclose(fused.mean, mean)
    np.testing.assert_allclose(fused.variance, variance)


@pytest.mark.parametrize("rule", RULES)
def test_a_variance_is_positive_and_finite_whatever_was_answered(rule):
    said = ExpertPredictions(
        np.ones((8, 3)),
        np.array([-1.0, 1.5, 1e9]) * np.ones((8, 3)),
        np.ones((8, 3), bool),
        1e9 * np.ones((8, 3, 2)),
        None,
        (np.ones(8), np.full(8, 2.0)),
    )
    fused = aggregate(rule, said, PRIOR, NOISE)
    assert np.all(np.isfinite(fused.mean))
    assert np.all((fused.variance > 0) & np.isfinite(fused.variance))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("mean", "unknown aggregation 'mean'; there are npae, poe, gpoe, bcm, rbcm, grbcm"),
        ("npae", "npae needs the covariances between the experts, or features to take them from"),
        ("grbcm", "grbcm needs a communication expert"),
    ],
)
def test_what_a_rule_needs(rule, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        aggregate(rule, predictions(), PRIOR, NOISE)


# Scores


def test_scores_of_who_knows_no_more_than_the_training_outputs():
    y = generator().normal(size=500) * 3 + 1
    mean, variance = np.full(500, y.mean()), np.full(500, y.var())
    assert smse(y, mean) == pytest.approx(1.0)
    assert msll(y, mean, variance, y.mean(), y.var()) == 0.0
    assert coverage(y, mean, variance) == pytest.approx(0.95, abs=0.02)
    assert coverage(y, mean, variance, level=0.5) == pytest.approx(0.5, abs=0.05)


def test_scores_by_hand():
    y, mean, variance = np.array([0.0, 2.0]), np.array([0.0, 1.0]), np.array([1.0, 4.0])
    assert smse(y, mean) == 0.5
    own = 0.5 * np.log(2 * np.pi * variance) + np.array([0.0, 1 / 8])
    trivial = 0.5 * np.log(2 * np.pi * 9.0) + (y - 0.5) ** 2 / 18
    assert msll(y, mean, variance, 0.5, 9.0) == pytest.approx(np.mean(own - trivial))
    assert coverage(y, mean, np.array([1.0, 0.01])) == 0.5
    assert np.isnan(smse(np.ones(3), np.ones(3)))
