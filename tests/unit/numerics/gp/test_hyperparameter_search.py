from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from scipy.optimize import lsq_linear, minimize

from numerics.gp.hyperparameter_search import MOST_ASKS, TOLERANCE, Evaluations, Scoring, pooled_starts
from numerics.gp.likelihood import evaluate, start_theta, theta_bounds
from numerics.gp.radial_kernels import SquaredExponential
from tests.support.parameters import few

Site = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]
"""Value, gradient and information at a theta."""


def answer(site: Site, candidates: np.ndarray) -> Evaluations:
    values, gradients, informations = zip(*map(site, candidates), strict=True)
    return Evaluations(np.array(values), np.array(gradients), np.array(informations))


def ask(search: Scoring, sites: Mapping[str, Site], rows: Mapping[str, int]) -> None:
    search.update({name: answer(site, search.candidates) for name, site in sites.items()}, rows)


def search_all(search: Scoring, sites: Mapping[str, Site], rows: Mapping[str, int]) -> Scoring:
    while not search.done:
        ask(search, sites, rows)
    return search


def quadratic(best: np.ndarray, hessian: np.ndarray, told: np.ndarray | None = None) -> Site:
    """A site whose likelihood is quadratic, and which may misstate its information."""
    information = hessian if told is None else told

    def site(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        off = theta - best
        return -0.5 * float(off @ hessian @ off), -hessian @ off, information

    return site


def positive(rng: np.random.Generator, p: int) -> np.ndarray:
    half = rng.normal(size=(p, p))
    return half @ half.T + 0.1 * np.eye(p)


def box(p: int, reach: float = 10.0) -> np.ndarray:
    return np.array([[-reach, reach]] * p)


def expert(x: np.ndarray, y: np.ndarray) -> Site:
    kernel = SquaredExponential(x.shape[1])

    def site(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        at = evaluate(kernel, theta, x, y)
        return at.value, at.gradient, at.information

    return site


def rough(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """A function of the first input mostly, a little of the last, and of no other."""
    x = rng.uniform(-1.7, 1.7, (n, d))
    y = np.sin(3 * x[:, 0]) + 0.3 * x[:, -1] ** 2 + 0.1 * rng.normal(size=n)
    return x, (y - y.mean()) / y.std()


def best_of(sites: Mapping[str, Site], rows: int, starts: np.ndarray, bounds: np.ndarray) -> float:
    """Largest log likelihood per row, by L-BFGS-B run long from several starts."""

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        each = [site(theta) for site in sites.values()]
        return -sum(e[0] for e in each) / rows, -np.sum([e[1] for e in each], axis=0) / rows

    options = {"maxiter": 150, "ftol": 1e-12, "gtol": 1e-8}
    return max(-minimize(loss, s, jac=True, method="L-BFGS-B", bounds=bounds, options=options).fun for s in starts)


@pytest.mark.parametrize("candidates", [1, 3, 8])
def test_quadratic_likelihood_is_maximized_by_one_step(candidates: int) -> None:
    rng = np.random.default_rng(0)
    hessians, bests = [positive(rng, 4) for _ in range(3)], rng.uniform(-0.4, 0.4, (3, 4))
    sites = {f"s{i}": quadratic(b, h) for i, (b, h) in enumerate(zip(bests, hessians, strict=True))}
    search = Scoring(box(4), np.zeros((1, 4)), candidates=candidates, tolerance=1e-12)
    rows = dict.fromkeys(sites, 10)
    ask(search, sites, rows)
    ask(search, sites, rows)
    expected = np.linalg.solve(sum(hessians), sum(h @ b for h, b in zip(hessians, bests, strict=True)))
    np.testing.assert_allclose(search.theta, expected, atol=1e-7)
    assert search.value == pytest.approx(sum(site(expected)[0] for site in sites.values()) / 30, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_and_the_best_point_within_them_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    hessian, best = positive(rng, 6), 2 * rng.normal(size=6)
    bounds = np.column_stack([np.full(6, -0.7), np.full(6, 0.5)])
    tried = []

    def site(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        tried.append(theta)
        return quadratic(best, hessian)(theta)

    search = search_all(Scoring(bounds, np.full((1, 6), 3.0), tolerance=1e-12), {"a": site}, {"a": 1})
    root = np.linalg.cholesky(hessian).T
    expected = lsq_linear(root, root @ best, (bounds[:, 0], bounds[:, 1]), tol=1e-14).x
    np.testing.assert_allclose(search.theta, expected, atol=1e-6)
    assert np.min(tried) >= -0.7
    assert np.max(tried) <= 0.5


def test_gradients_mend_a_wrong_information() -> None:
    rng = np.random.default_rng(4)
    hessian, best = positive(rng, 5), rng.normal(size=5)
    told = np.diag(np.diagonal(hessian)) * 3
    search = Scoring(box(5), np.zeros((1, 5)), tolerance=0.0, most_asks=8)
    search_all(search, {"a": quadratic(best, hessian, told)}, {"a": 1})
    # Newton steps with the wrong matrix alone get nearer by the same factor in every ask.
    plain, step = np.zeros(5), np.linalg.inv(told) @ hessian
    for _ in range(7):
        plain = plain + step @ (best - plain)
    assert -search.value < 0.2 * -quadratic(best, hessian)(plain)[0]


def test_a_parameter_that_runs_to_its_bound_does_not_slow_the_others() -> None:
    def site(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        # Twenty lengths that should be infinite, as of inputs that do not matter, and one parameter that is well known.
        lost = 5 * np.exp(-2 * theta[1:])
        value = -500 * (theta[0] - 1.3) ** 2 - lost.sum()
        information = np.diag(np.append(1000.0, 4 * lost**2))
        return float(value), np.append(-1000 * (theta[0] - 1.3), 2 * lost), information

    bounds = np.array([[-7.0, 9.2]] * 21)
    search = search_all(Scoring(bounds, np.zeros((1, 21))), {"a": site}, {"a": 1000})
    assert search.asks <= 7
    assert search.value > -1e-3


@pytest.mark.parametrize(("d", "candidates"), few([(1, 1), (6, 4), (1, 8), (6, 8)], 2))
def test_likelihood_is_maximized_without_knowledge(d: int, candidates: int) -> None:
    rng = np.random.default_rng(d)
    parts = [rough(rng, 40, d) for _ in range(4)]
    sites, rows = {f"s{i}": expert(*part) for i, part in enumerate(parts)}, {f"s{i}": 40 for i in range(4)}
    kernel = SquaredExponential(d)
    start, bounds = start_theta(kernel), theta_bounds(kernel)
    search = search_all(Scoring(bounds, start[None], candidates=candidates), sites, rows)
    assert search.asks <= MOST_ASKS
    assert search.value >= best_of(sites, 160, np.array([start, search.theta]), bounds) - TOLERANCE


def test_values_never_fall_and_start_from_the_best_candidate() -> None:
    rng = np.random.default_rng(2)
    sites = {"a": expert(*rough(rng, 50, 3)), "b": expert(*rough(rng, 30, 3))}
    starts = rng.normal(size=(5, 5))
    search = Scoring(theta_bounds(SquaredExponential(3)), starts, candidates=4, tolerance=0.0, most_asks=6)
    values = []
    while not search.done:
        ask(search, sites, {"a": 50, "b": 30})
        values.append(search.value)
    first = [sum(site(start)[0] for site in sites.values()) / 80 for start in starts[:4]]
    assert values[0] == pytest.approx(max(first))
    assert np.all(np.diff(values) >= 0)
    assert values[-1] == pytest.approx(sum(site(search.theta)[0] for site in sites.values()) / 80)


def test_the_order_of_sites_is_irrelevant_to_the_bit() -> None:
    rng = np.random.default_rng(3)
    sites = {f"s{i}": expert(*rough(rng, 20 + i, 2)) for i in range(5)}
    rows = {f"s{i}": 20 + i for i in range(5)}
    found = []
    for names in (list(sites), list(sites)[::-1]):
        search = Scoring(theta_bounds(SquaredExponential(2)), np.zeros((1, 4)), most_asks=5)
        found.append(search_all(search, {name: sites[name] for name in names}, rows))
    np.testing.assert_array_equal(found[0].theta, found[1].theta)
    assert found[0].value == found[1].value


def test_a_missing_site_is_not_taken_for_a_gain() -> None:
    rng = np.random.default_rng(5)
    hessian = positive(rng, 3)
    sites = {"a": quadratic(np.zeros(3), hessian), "b": quadratic(np.zeros(3), hessian)}
    low = {name: (lambda theta, site=site: (site(theta)[0] - 1000, *site(theta)[1:])) for name, site in sites.items()}
    search = Scoring(box(3), np.zeros((1, 3)), tolerance=0.0)
    ask(search, low, {"a": 5, "b": 5})
    assert search.value == pytest.approx(-200)
    # Without b the sum is larger by 1000 everywhere, but no candidate is better than the optimum for a.
    ask(search, {"a": low["a"]}, {"a": 5})
    assert search.gain == 0
    np.testing.assert_array_equal(search.theta, np.zeros(3))


def test_a_site_that_comes_back_is_heard_again() -> None:
    rng = np.random.default_rng(6)
    parts = {f"s{i}": rough(rng, 40, 2) for i in range(3)}
    sites, rows = {name: expert(*part) for name, part in parts.items()}, dict.fromkeys(parts, 40)
    bounds = theta_bounds(SquaredExponential(2))
    search = Scoring(bounds, np.zeros((1, 4)), tolerance=1e-6)
    while not search.done:
        present = {name: site for name, site in sites.items() if (name, search.asks) not in {("s0", 0), ("s1", 1)}}
        ask(search, present, rows)
    assert search.value == pytest.approx(best_of(sites, 120, search.theta[None], bounds), abs=1e-5)


def test_candidates_that_cannot_be_evaluated_are_never_accepted() -> None:
    def walled(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        if theta[0] > 0.5:
            return -np.inf, np.zeros(2), np.zeros((2, 2))
        return quadratic(np.array([2.0, 1.0]), np.eye(2))(theta)

    search = search_all(Scoring(box(2), np.array([[3.0, 0.0], [0.0, 0.0]])), {"a": walled}, {"a": 1})
    assert search.theta[0] <= 0.5
    assert np.isfinite(search.value)
    assert search.value > walled(np.zeros(2))[0]


def test_a_site_that_can_evaluate_nothing_does_not_stop_the_others() -> None:
    def never(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        return -np.inf, np.zeros(2), np.zeros((2, 2))

    best = np.array([0.3, -0.2])
    search = Scoring(box(2), np.zeros((1, 2)), tolerance=1e-9)
    search_all(search, {"a": never, "b": quadratic(best, np.eye(2))}, {"a": 7, "b": 7})
    np.testing.assert_allclose(search.theta, best, atol=1e-6)
    assert search.value == pytest.approx(0, abs=1e-9)


def test_an_ask_without_answers_is_spent_but_nothing_is_lost() -> None:
    search = Scoring(box(2), np.zeros((1, 2)), most_asks=3)
    asked = search.candidates
    search.update({}, {})
    assert search.asks == 1
    assert not search.done
    np.testing.assert_array_equal(search.candidates, asked)
    for _ in range(2):
        search.update({}, {})
    assert search.done
    assert search.value == -np.inf


def test_candidates_differ_and_are_as_many_as_asked_for() -> None:
    site = quadratic(np.array([0.1, 0.2, 0.3]), np.eye(3))
    starts = np.array([[0.0, 0, 0], [0, 0, 0], [1, 0, 0], [99, 0, 0], [10, 0, 0], [0, 1, 0]])
    search = Scoring(box(3), starts, candidates=4)
    np.testing.assert_array_equal(search.candidates, [[0, 0, 0], [1, 0, 0], [10, 0, 0], [0, 1, 0]])
    ask(search, {"a": site}, {"a": 1})
    assert len(np.unique(search.candidates, axis=0)) == len(search.candidates) <= 4
    assert not (search.candidates == search.theta).all(axis=1).any()


def test_no_information_at_all_still_moves_along_the_gradient() -> None:
    def slope(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        return float(theta @ [1.0, -2.0]), np.array([1.0, -2.0]), np.zeros((2, 2))

    search = search_all(Scoring(box(2, 3.0), np.zeros((1, 2))), {"a": slope}, {"a": 1})
    np.testing.assert_allclose(search.theta, [3, -3])


def test_constant_likelihood_ends_the_search() -> None:
    def flat(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        return -1.0, np.zeros(2), np.zeros((2, 2))

    search = search_all(Scoring(box(2), np.zeros((1, 2))), {"a": flat}, {"a": 4})
    assert search.asks == 1
    assert search.value == -0.25


def around(best: float, weight: float) -> Site:
    """A site whose log likelihood is a parabola."""
    return lambda theta: (
        -weight * float((theta[0] - best) ** 2), -2 * weight * (theta - best), np.full((1, 1), 2 * weight)
    )  # fmt: skip


@pytest.mark.parametrize("leaves", [True, False])
def test_without_a_site_the_search_goes_on_from_the_best_candidate_of_the_others(leaves: bool) -> None:
    sites, rows = {"a": around(0.0, 1.0), "b": around(0.2, 1.0), "liar": around(3.0, 50.0)}, 10
    search = Scoring(np.array([[-5.0, 5.0]]), np.array([[0.0], [3.0]]))
    for ask in range(10):
        if ask == 1:
            pulls = search.pulls()
            assert search.theta[0] == 3.0
            assert max(pulls, key=pulls.__getitem__) == "liar"
            del sites["liar"]
            if leaves:
                search.leave_out("liar")
        if search.done:
            break
        answers = {name: answer(site, search.candidates) for name, site in sites.items()}
        search.update(answers, dict.fromkeys(answers, rows))
    np.testing.assert_allclose(search.theta, [0.1], atol=1e-3)
    assert search.pulls() == {}


def test_pooled_starts_trust_each_site_where_it_knows() -> None:
    start, fits = np.array([0.0, 0.0]), np.array([[1.0, 5.0], [-4.0, 2.0]])
    informations = np.array([np.diag([1e6, 0.0]), np.diag([0.0, 1e6])])
    starts = pooled_starts(start, fits, informations, [10, 20])
    np.testing.assert_allclose(starts[:2], [[1, 2], [1, 2]], atol=1e-4)
    np.testing.assert_array_equal(starts[2:], [[0, 0], [-1.5, 3.5], [-4, 2], [1, 5]])
    np.testing.assert_allclose(pooled_starts(start, fits, 0 * informations, [1, 1])[0], fits.mean(axis=0))


def test_pooled_starts_are_exact_for_quadratic_sites_that_know_much() -> None:
    rng = np.random.default_rng(8)
    hessians, bests = 1e7 * np.array([positive(rng, 3) for _ in range(4)]), rng.normal(size=(4, 3))
    expected = np.linalg.solve(hessians.sum(axis=0), np.einsum("spq,sq->p", hessians, bests))
    np.testing.assert_allclose(pooled_starts(np.zeros(3), bests, hessians, [1] * 4)[0], expected, atol=1e-5)


def test_pooled_starts_survive_a_site_that_knows_one_direction_too_well() -> None:
    start, fits = np.zeros(2), np.array([[1.0, 5.0], [-4.0, 2.0]])
    starts = pooled_starts(start, fits, np.array([np.full((2, 2), 1e27), np.eye(2)]), [10, 20])
    np.testing.assert_allclose(starts[:2], [[1, 5], [1, 5]])


def test_without_fits_there_is_one_start() -> None:
    starts = pooled_starts(np.array([0.5, 1.0]), np.zeros((0, 2)), np.zeros((0, 2, 2)), [])
    np.testing.assert_array_equal(starts, [[0.5, 1.0]])
