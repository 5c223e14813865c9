"""The M-step of BC3E: eq. (7) in closed form, eq. (8) against a general optimizer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import polygamma, psi

from numerics.bc3e.m_step import (
    ALPHA_MAX,
    ALPHA_MIN,
    alpha_objective,
    initial_beta,
    maximize_alpha,
    maximize_beta,
    smoothing_bound,
)
from tests.support import reference_bc3e as reference
from tests.support.examples import examples

SEEDS = st.integers(0, 2**32 - 1)
CLASSES = st.sampled_from([2, 3, 5, 10, 50])


def gradient(alpha: np.ndarray, mean: np.ndarray) -> np.ndarray:
    return np.asarray(psi(alpha.sum()) - psi(alpha) + mean)


def sampled_mean(seed: int, k: int, n: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """A random alpha, and the mean of log theta over a sample of its Dirichlet distribution."""
    rng = np.random.default_rng(seed)
    alpha = np.exp(rng.uniform(np.log(0.2), np.log(20), size=k))
    theta = rng.dirichlet(alpha, size=n)
    return alpha, np.log(np.maximum(theta, 1e-200)).mean(axis=0)


# -- beta -------------------------------------------------------------------------------------------------------------

MASSES = st.integers(1, 4).flatmap(
    lambda k: st.integers(1, 6).flatmap(
        lambda k_m: st.lists(
            st.lists(st.one_of(st.just(0), st.integers(0, 2**50)), min_size=k_m, max_size=k_m), min_size=k, max_size=k
        ).map(lambda rows: np.array(rows, np.int64))
    )
)


@given(MASSES, st.sampled_from([20, 30]), st.sampled_from([0.0, 1e-3, 1.0]))
def test_rows_of_beta_are_probabilities_in_proportion_to_the_masses(
    mass: np.ndarray, bits: int, smoothing: float
) -> None:
    beta = maximize_beta(mass, bits, smoothing)
    assert (beta >= 0).all()
    np.testing.assert_allclose(beta.sum(axis=1), 1.0, rtol=1e-12)
    counts = mass / 2.0**bits + smoothing
    for row, of in zip(beta, counts, strict=True):
        np.testing.assert_allclose(row * of.sum(), of, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(beta, reference.maximize_beta(mass / 2.0**bits, smoothing))


@given(MASSES)
def test_a_class_without_mass_gets_a_uniform_row(mass: np.ndarray) -> None:
    mass[0] = 0
    np.testing.assert_array_equal(maximize_beta(mass, 30)[0], np.full(mass.shape[1], 1 / mass.shape[1]))


def test_one_cluster_has_probability_one() -> None:
    np.testing.assert_array_equal(maximize_beta(np.array([[3], [0]]), 30), [[1.0], [1.0]])


@examples(50)
@given(SEEDS, st.sampled_from([0.0, 0.2]))
def test_beta_maximizes_its_part_of_the_bound(seed: int, smoothing: float) -> None:
    """sum (T + eta) log beta is no larger at any other table of probabilities."""
    rng = np.random.default_rng(seed)
    mass = np.rint(rng.gamma(1.0, size=(3, 4)) * 2.0**30).astype(np.int64)
    counts = mass / 2.0**30 + smoothing
    best = maximize_beta(mass, 30, smoothing)
    other = 0.9 * best + 0.1 * rng.dirichlet(np.ones(4), size=3)
    assert (counts * np.log(best)).sum() >= (counts * np.log(other)).sum()


def test_smoothing_bound_is_that_of_the_prior() -> None:
    beta = np.array([[0.25, 0.75], [0.5, 0.5]])
    assert smoothing_bound(beta, 0.0) == 0.0
    assert smoothing_bound(beta, 2.0) == pytest.approx(2 * np.log(beta).sum())
    assert np.isfinite(smoothing_bound(np.array([[0.0, 1.0]]), 0.5))


def test_initial_beta_is_drawn_by_name() -> None:
    """Uniform at start 0; else the same rows for a name wherever they are drawn, other rows for another."""
    np.testing.assert_array_equal(initial_beta("a", 2, 4, 0), np.full((2, 4), 0.25))
    drawn = initial_beta("a", 2, 4, 7)
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0)
    np.testing.assert_array_equal(drawn, initial_beta("a", 2, 4, 7))
    assert not np.array_equal(drawn, initial_beta("b", 2, 4, 7))
    assert not np.array_equal(drawn, initial_beta("a", 2, 4, 8))


# -- alpha ------------------------------------------------------------------------------------------------------------


@examples(40)
@given(SEEDS, CLASSES)
def test_alpha_is_that_of_a_general_optimizer(seed: int, k: int) -> None:
    """Its objective is no lower, and the point is the same."""
    _, mean = sampled_mean(seed, k)
    alpha = maximize_alpha(np.ones(k), mean)
    other = reference.maximize_alpha(np.ones(k), mean)
    assert alpha_objective(alpha, mean) >= reference.alpha_objective(other, mean) - 1e-12 * k
    np.testing.assert_allclose(alpha, other, rtol=2e-4)


@examples(100)
@given(SEEDS, CLASSES)
def test_alpha_is_stationary(seed: int, k: int) -> None:
    _, mean = sampled_mean(seed, k)
    alpha = maximize_alpha(np.ones(k), mean)
    inside = (alpha > ALPHA_MIN) & (alpha < ALPHA_MAX)
    assert np.abs((gradient(alpha, mean) * alpha)[inside]).max(initial=0.0) < 1e-10


@examples(60)
@given(SEEDS, st.integers(2, 50))
def test_alpha_is_found_again_from_its_own_moments(seed: int, k: int) -> None:
    """With the exact expectation of log theta the maximizer is the alpha it came from."""
    rng = np.random.default_rng(seed)
    alpha = np.exp(rng.uniform(np.log(0.01), np.log(300), size=k))
    found = maximize_alpha(np.ones(k), psi(alpha) - psi(alpha.sum()))
    np.testing.assert_allclose(found, alpha, rtol=1e-7)


@examples(60)
@given(SEEDS, CLASSES, st.floats(-6.9, 9.2), st.floats(-6.9, 9.2))
def test_alpha_does_not_depend_on_the_start(seed: int, k: int, low: float, high: float) -> None:
    """From anywhere in the box."""
    _, mean = sampled_mean(seed, k)
    start = np.exp(np.random.default_rng(seed).uniform(min(low, high), max(low, high), size=k))
    np.testing.assert_allclose(maximize_alpha(start, mean), maximize_alpha(np.ones(k), mean), rtol=1e-7)


@examples(100)
@given(
    st.lists(st.floats(-800, -1e-6), min_size=2, max_size=20).map(np.array),
    st.floats(ALPHA_MIN, ALPHA_MAX),
    st.integers(1, 5),
)
def test_alpha_never_lowers_the_objective_and_stays_in_the_box(
    mean: np.ndarray, start: float, max_iterations: int
) -> None:
    """For any statistics, sensible or not, and however few iterations it is given."""
    before = np.full(len(mean), start)
    for limit in (max_iterations, 200):
        alpha = maximize_alpha(before, mean, limit)
        assert ((alpha >= ALPHA_MIN) & (alpha <= ALPHA_MAX)).all()
        value = alpha_objective(before, mean)
        assert alpha_objective(alpha, mean) >= value - 1e-10 * max(1.0, abs(value))


@examples(60)
@given(SEEDS, st.integers(2, 8))
def test_coordinates_at_the_bounds_are_held(seed: int, k: int) -> None:
    """A class never seen goes to the lower bound; the others are then the optimum given that."""
    _, mean = sampled_mean(seed, k)
    mean[0] = -2000.0
    alpha = maximize_alpha(np.ones(k), mean)
    assert alpha[0] == ALPHA_MIN
    slope = gradient(alpha, mean)
    assert slope[0] < 0
    inside = alpha[1:] < ALPHA_MAX
    np.testing.assert_allclose((slope * alpha)[1:][inside], 0.0, atol=1e-9)
    assert (slope[1:][~inside] >= 0).all()


@pytest.mark.parametrize("k", [2, 5, 50])
def test_alpha_at_its_upper_bound(k: int) -> None:
    """All theta alike: alpha runs off, to where the box holds it."""
    mean = np.full(k, np.log(1 / k))
    np.testing.assert_array_equal(maximize_alpha(np.ones(k), mean), np.full(k, ALPHA_MAX))


def test_alpha_starts_at_a_bound_and_leaves_it() -> None:
    target = np.array([0.5, 3.0, 40.0])
    mean = psi(target) - psi(target.sum())
    for start in (np.full(3, ALPHA_MIN), np.full(3, ALPHA_MAX), np.array([ALPHA_MIN, ALPHA_MAX, 1.0])):
        np.testing.assert_allclose(maximize_alpha(start, mean), target, rtol=1e-8)


def test_classes_permute() -> None:
    _, mean = sampled_mean(5, 6)
    order = np.array([3, 1, 5, 0, 2, 4])
    alpha = maximize_alpha(np.ones(6), mean)
    np.testing.assert_allclose(maximize_alpha(np.ones(6), mean[order]), alpha[order], rtol=1e-9)


@examples(40)
@given(SEEDS, st.integers(2, 6))
def test_the_sign_of_eq_8(seed: int, k: int) -> None:
    """With the corrected sign the optimum is a maximum: the Hessian is negative definite, and values around are lower.

    As printed, eq. (8) has the log-Gamma terms with the other sign, and no maximum there.
    """
    rng = np.random.default_rng(seed)
    _, mean = sampled_mean(seed, k)
    alpha = maximize_alpha(np.ones(k), mean)
    hessian = polygamma(1, alpha.sum()) - np.diag(polygamma(1, alpha))
    assert np.linalg.eigvalsh(hessian).max() < 0
    top = alpha_objective(alpha, mean)
    for _ in range(5):
        step = 1e-3 * alpha * rng.normal(size=k)
        assert alpha_objective(alpha + step, mean) < top
        assert alpha_objective(alpha - step, mean) < top

    def printed(a: np.ndarray) -> float:
        return 2 * float(((a - 1) * mean).sum()) - alpha_objective(a, mean)

    direction = 0.1 * alpha * np.sign(printed(1.1 * alpha) - printed(0.9 * alpha))
    assert printed(alpha + direction) > printed(alpha)
