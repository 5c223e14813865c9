"""The arithmetic of the fusion center: formulas against their definitions, and what is published or proved."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial.hermite_e import hermegauss, hermevander

from numerics.residual.linear import ALPHA, LinearCombination, combine, direction, solve, step_length
from numerics.residual.rules import MOST_POWERS, MOST_ROUNDS, Rules, still_falls
from tests.support import reference_residual as reference
from tests.support.examples import examples

DRAWS = examples(60, derandomize=True)
POWERS = st.sampled_from([1.0, 1.5, 2.0, 3.0, 5.0])


def drawn(seed: int, D: int, n: int, twins: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Predictions of D agents, of which the first `twins` have a twin that predicts the same, and an outcome."""
    rng = np.random.default_rng([seed, D, n])
    F = rng.normal(size=(D, n)) * 10.0 ** rng.uniform(-2, 2, size=(D, 1))
    y = rng.normal(size=D) @ F + rng.normal(size=n)
    return np.vstack([F, F[:twins]]), y


def by_formula(combination: LinearCombination, shares: np.ndarray, y: np.ndarray, r: np.ndarray, delta: float) -> float:
    """``E(F + delta r W')`` as `step_length` has it, without a row."""
    slope, spread = shares @ combination.beta, (r @ r) * (shares @ solve(combination.gram, shares))
    return float(y @ y - (r @ r) * (1 - delta * slope) ** 2 / (1 + delta**2 * spread))


# -- the step ---------------------------------------------------------------------------------------------------------


@DRAWS
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(0, 2), POWERS, st.floats(0.01, 2.0))
def test_what_a_step_explains_is_known_without_a_row(seed: int, D: int, twins: int, p: float, delta: float) -> None:
    """``E(F) = y' P_F y`` after the step, also where two agents predict the same."""
    F, y = drawn(seed, D, 40, min(twins, D))
    combination = combine(F, y, 0.0)
    r = y - combination.beta @ F
    shares = direction(combination.beta, p)
    shares = shares / np.abs(shares).max()
    expected = reference.explained(F + delta * np.outer(shares, r), y)
    assert by_formula(combination, shares, y, r, delta) == pytest.approx(expected, rel=1e-7)


@DRAWS
@given(st.integers(0, 10**6), st.integers(2, 5), POWERS)
def test_of_predictions_that_depend_on_each_other_no_less_is_explained(seed: int, D: int, p: float) -> None:
    """The last agent predicts the sum of all others: shares outside the span of the coefficients explain even more."""
    F, y = drawn(seed, D, 40)
    F = np.vstack([F, F.sum(axis=0)])
    combination = combine(F, y, 0.0)
    r = y - combination.beta @ F
    shares = direction(combination.beta, p)
    delta = 1 / max(1.0, float(shares @ combination.beta))
    expected = reference.explained(F + delta * np.outer(shares, r), y)
    assert by_formula(combination, shares, y, r, delta) <= expected * (1 + 1e-7)
    assert step_length(combination, shares, float(r @ r), search=True) > 0


@DRAWS
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(0, 2), POWERS)
def test_the_step_s_length_is_the_back_search_s(seed: int, D: int, twins: int, p: float) -> None:
    F, y = drawn(seed, D, 40, min(twins, D))
    combination = combine(F, y, 0.0)
    shares = direction(combination.beta, p)
    r = y - combination.beta @ F
    delta = step_length(combination, shares, float(r @ r), search=True)
    assert delta == reference.back_search(F, y, combination.beta, shares)
    assert delta > 0


@DRAWS
@given(st.integers(0, 10**6), st.integers(1, 6))
def test_for_p_1_the_test_is_algorithm_4_s_as_printed(seed: int, D: int) -> None:
    F, y = drawn(seed, D, 40)
    combination = combine(F, y, 0.0)
    r = y - combination.beta @ F
    dF = np.outer(combination.beta, r)
    delta, now = 1.0, reference.explained(F, y)
    while reference.explained(F + delta * dF, y) < now + ALPHA * delta * float(np.sum(dF**2)):
        delta /= 2
    assert step_length(combination, direction(combination.beta, 1.0), float(r @ r), search=True) == delta


@DRAWS
@given(st.integers(0, 10**6), st.integers(1, 6), POWERS)
def test_the_full_step_explains_everything(seed: int, D: int, p: float) -> None:
    F, y = drawn(seed, D, 40)
    combination = combine(F, y, 0.0)
    shares = direction(combination.beta, p)
    r = y - combination.beta @ F
    delta = step_length(combination, shares, float(r @ r), search=False)
    np.testing.assert_allclose(combination.beta @ (F + delta * np.outer(shares, r)), y, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("search", [True, False])
def test_where_nothing_can_be_gained_there_is_no_step(search: bool) -> None:
    F, y = drawn(0, 3, 40)
    combination = combine(F, y, 0.0)
    across = LinearCombination(np.array([2.0, 1.0, 0.0]), combination.gram, combination.power)
    assert step_length(combination, np.zeros(3), 1.0, search=search) == 0
    assert step_length(combination, -combination.beta, 1.0, search=search) == 0
    assert step_length(combination, combination.beta, 0.0, search=search) == 0
    assert step_length(across, np.array([1.0, -2.0, 0.0]), 1.0, search=search) == 0  # W.beta = 0
    nothing = combine(np.zeros((3, 40)), y, 1e-6)
    assert step_length(nothing, direction(nothing.beta, 3.0), float(y @ y), search=search) == 0


@pytest.mark.parametrize("p", [1.0, 3.0, 7.0])
@pytest.mark.parametrize("scale", [1e-200, 1e-100, 1e-30, 1.0, 1e30, 1e60])
def test_the_shares_survive_coefficients_of_any_size(p: float, scale: float) -> None:
    beta = scale * np.array([1.0, -0.5, 0.0])
    shares = direction(beta, p)
    assert np.isfinite(shares).all()
    assert shares[0] > 0 > shares[1]
    assert shares[2] == 0
    np.testing.assert_allclose(shares[1] / shares[0], -(0.5**p), rtol=1e-12)
    assert shares @ beta > 0 or scale < 1e-160  # where it is no number any more
    if scale == 1:
        np.testing.assert_allclose(shares, np.sign(beta) * np.abs(beta) ** p, rtol=1e-14)


# -- the coefficients -------------------------------------------------------------------------------------------------


@DRAWS
@given(st.integers(0, 10**6), st.integers(1, 6), st.sampled_from([0.0, 1e-6, 0.1]))
def test_coefficients_are_those_of_eq_35(seed: int, D: int, ridge: float) -> None:
    F, y = drawn(seed, D, 40)
    F /= np.sqrt(np.sum(F**2, axis=1, keepdims=True))
    np.testing.assert_allclose(combine(F, y, ridge).beta, reference.coefficients(F, y, ridge), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("ridge", [0.0, 1e-6])
def test_agents_that_predict_the_same_share_and_one_that_predicts_nothing_has_none(ridge: float) -> None:
    F, y = drawn(1, 2, 40)
    alone = combine(F, y, ridge).beta
    combination = combine(np.vstack([F[:1], F, np.zeros(40)]), y, ridge)
    first, second, other, nothing = combination.beta
    assert nothing == 0
    np.testing.assert_allclose([first + second, other], alone, rtol=100 * ridge + 1e-12)
    # The sum is well conditioned. The difference is not: it lies along the eigenvector of the least eigenvalue, which
    # is 0 (the solution of minimum norm leaves it out) or the ridge, and a rounding error comes out as many times
    # larger as the condition number is. How large the error is depends on the processor's kernels.
    scale = np.sqrt(np.diag(combination.gram)[:3])
    eigenvalues = np.linalg.eigvalsh(combination.gram[:3, :3] / np.outer(scale, scale))
    kept = eigenvalues[eigenvalues > 1e-12]
    error = 8 * np.finfo(np.float64).eps * kept.max() / kept.min() * np.linalg.norm(scale * [first, second, other])
    assert abs(first - second) * scale[0] <= error


def test_the_error_is_never_below_the_least_squares_optimum() -> None:
    for seed in range(20):
        F, y = drawn(seed, 4, 30, seed % 3)
        best = np.sum((y - np.linalg.lstsq(F.T, y, rcond=None)[0] @ F) ** 2)
        for ridge in (0.0, 1e-6, 0.1):
            left = y - combine(F, y, ridge).beta @ F
            assert left @ left >= best * (1 - 1e-12)


# -- rules ------------------------------------------------------------------------------------------------------------


def test_rules_cross_as_text() -> None:
    rules = Rules(algorithm="sip", powers=(1.0, 2.5), rounds=7, stop="train", shrinkage=0.3, keep=True)
    assert Rules.from_json(rules.to_json()) == rules


@pytest.mark.parametrize(
    "change",
    [
        {"algorithm": "backwards"}, {"rounds": 10**9}, {"rounds": -1}, {"rounds": "many"}, {"powers": []},
        {"powers": [1.0] * (MOST_POWERS + 1)}, {"powers": "all"}, {"powers": None}, {"shrinkage": 0.0},
        {"shrinkage": 2.0}, {"validation": 1.0}, {"validation": 0.0}, {"colour": "red"}, {"steps": 10**9},
        {"rounds": MOST_ROUNDS + 1}, {"patience": 0}, {"patience": -5}, {"stop": "never"}, {"powers": [float("nan")]},
        {"ridge": -1.0}, {"ridge": "much"}, {"min_leaf": 0}, {"min_leaf": "small"}, {"idle_share": "half"},
        {"rounds": 1.5}, {"steps": 0},
    ],
)  # fmt: skip
def test_rules_that_nobody_would_make_are_refused(change: dict[str, Any]) -> None:
    text = json.dumps({**json.loads(Rules().to_json()), **change})
    with pytest.raises(ValueError, match=r"out of range|no rules|Expecting"):
        Rules.from_json(text)


@pytest.mark.parametrize("text", ["", "{}", "[]", "7", "null", '{"powers": {}}', "[" * 10000])
def test_what_is_no_rules_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"out of range|no rules|Expecting"):
        Rules.from_json(text)


@DRAWS
@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20), st.integers(1, 6))
def test_it_stops_when_the_smallest_error_is_old(errors: list[float], patience: int) -> None:
    assert still_falls(errors, patience) != reference.stops(errors, patience)


# -- what is proved ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.7, 0.95])
def test_theorem_2_holds_exactly_on_polynomials(rho: float) -> None:
    """Two agents in turn: ``T = E[E[. | x2] | x1]`` maps He_n to ``rho^(2n) He_n``, so that |T| = rho^2 and the squared
    distance shrinks by rho^4 or more. By Gauss-Hermite quadrature, which is exact for polynomials of this degree."""
    degree, (nodes, weights) = 6, hermegauss(40)
    weights = weights / weights.sum()
    norm = np.sqrt(weights @ hermevander(nodes, degree) ** 2)
    noise = np.sqrt(1 - rho**2)

    def conditional(at: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Mean of the polynomial of the other variable, where this one is `at`."""
        other = rho * at[:, None] + noise * nodes[None, :]
        return np.asarray(np.einsum("k,mkn,n->m", weights, hermevander(other, degree), coefficients))

    def expand(values: np.ndarray) -> np.ndarray:
        return np.asarray(np.einsum("m,mn,m->n", weights, hermevander(nodes, degree), values) / norm**2)

    T = np.array([expand(conditional(nodes, expand(conditional(nodes, e)))) for e in np.eye(degree + 1)]).T
    np.testing.assert_allclose(T, np.diag(rho ** (2 * np.arange(degree + 1))), atol=1e-9)
    scaled = norm[1:, None] * T[1:, 1:] / norm[None, 1:]
    assert np.linalg.norm(scaled, 2) ** 2 == pytest.approx(rho**4, abs=1e-9)
