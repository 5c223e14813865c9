"""Fair assignment to given centers: the best there is, certified, whole where it must be, priced from sums alone."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float64, Int64
from scipy.optimize import linear_sum_assignment, linprog
from scipy.special import logsumexp

from numerics.coreset.fairness.assignment import Assignment, fair_assignment
from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.dual import Pricing, duals_of, prices_from, prices_of
from numerics.coreset.fairness.flow import balanced_flow, capacitated_flow
from numerics.coreset.fairness.price_response import PriceResponse, _temperatures, price_points
from numerics.coreset.fairness.rounding import corrected, corrections_by_site, whole_rows, whole_targets
from tests.support import reference_coreset as reference
from tests.support.examples import examples
from tests.support.parameters import few

Squared = Float64[np.ndarray, "n k"]
Ints = Int64[np.ndarray, "n"]
Case = tuple[Float64[np.ndarray, "n d"], Ints, Ints, Float64[np.ndarray, "k d"]]


def case(seed: int, n: int, k: int, H: int, *, heaviest: int = 5, balanced: bool = False) -> Case:
    """Points, weights, groups and centers; groups lie in different places."""
    rng = np.random.default_rng(seed)
    groups = np.arange(n) % H if balanced else np.concatenate([np.arange(H), rng.integers(0, H, n - H)])
    weights = rng.integers(1, heaviest + 1, n)
    if balanced:
        weights = np.repeat(weights[: n // H], H)
    points = rng.normal(size=(n, 3)) + 0.8 * groups[:, None]
    return points, weights.astype(np.int64), groups.astype(np.int64), 1.5 * rng.normal(size=(k, 3)) + 0.8


def shares(weights: Ints, groups: Ints) -> Float64[np.ndarray, "H"]:
    return np.asarray(np.bincount(groups, weights) / weights.sum())


def assigned(points: Case, alpha: float, **options: object) -> tuple[Assignment, Bounds, Squared]:
    x, weights, groups, centers = points
    squared = reference.squares(x, centers)
    bounds = Bounds.of(shares(weights, groups), alpha)
    return fair_assignment(squared, weights, groups, bounds, **options), bounds, squared  # type: ignore[arg-type]


def assert_gives_everything_away(found: Assignment, points: Case) -> None:
    _, weights, groups, centers = points
    H, k = int(groups.max()) + 1, len(centers)
    assert (found.mass > 0).all()
    assert (np.diff(found.point * k + found.center) > 0).all()
    np.testing.assert_allclose(np.bincount(found.point, found.mass, len(weights)), weights, rtol=1e-6)
    counts = np.zeros((k, H))
    np.add.at(counts, (found.center, groups[found.point]), found.mass)
    np.testing.assert_allclose(found.counts, counts, rtol=1e-9, atol=1e-9)


# -- the optimum ------------------------------------------------------------------------------------------------------


@examples(40)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(6, 60),
    k=st.integers(1, 6),
    H=st.integers(1, 4),
    alpha=st.sampled_from([1.0, 0.8, 0.3]),
)
def test_a_fractional_assignment_is_the_linear_program_s_and_certified(
    seed: int, n: int, k: int, H: int, alpha: float
) -> None:
    points = case(seed, n, k, H)
    found, bounds, _ = assigned(points, alpha, whole=False)
    best = reference.fair_cost(points[0], points[1], points[2], points[3], alpha)
    assert found.cost == pytest.approx(best, rel=1e-7, abs=1e-7)
    assert found.bound == pytest.approx(found.cost, rel=1e-8)
    assert bounds.violation(found.counts) <= 1e-6 * points[1].sum()
    assert_gives_everything_away(found, points)


@examples(25)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(6, 60),
    k=st.integers(1, 6),
    H=st.integers(2, 4),
    alpha=st.sampled_from([1.0, 0.8]),
)
def test_whole_masses_are_the_fractional_ones_rounded_and_no_dearer(
    seed: int, n: int, k: int, H: int, alpha: float
) -> None:
    points = case(seed, n, k, H)
    found, bounds, _ = assigned(points, alpha)
    fractional, _, _ = assigned(points, alpha, whole=False)
    assert found.mass.dtype == found.counts.dtype == np.int64
    assert found.cost <= fractional.cost * (1 + 1e-9)
    assert (np.abs(found.counts - fractional.counts) < 1 + 1e-6).all()
    assert (np.abs((found.counts - fractional.counts).sum(axis=1)) < 1 + 1e-6).all()
    assert bounds.violation(found.counts) < 2
    assert_gives_everything_away(found, points)


@pytest.mark.parametrize("seed", few(range(6), 2))
def test_whole_masses_against_all_labelings(seed: int) -> None:
    points = case(seed, 8, 3, 2, heaviest=1, balanced=True)
    found, _, squared = assigned(points, 1.0)
    groups = points[2]
    costs = [
        squared[np.arange(8), list(labels)].sum()
        for labels in product(range(3), repeat=8)
        if all(
            (np.array(labels)[groups == 0] == c).sum() == (np.array(labels)[groups == 1] == c).sum() for c in range(3)
        )
    ]
    assert found.cost == pytest.approx(min(costs), rel=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_the_flow_through_centers_is_the_matching_of_algorithm_8(seed: int) -> None:
    points = case(seed, 80, 5, 2, heaviest=1, balanced=True)
    found, _, squared = assigned(points, 1.0)
    blue, red = squared[points[2] == 0], squared[points[2] == 1]
    pair = (blue[:, None] + red[None]).min(axis=2)
    assert found.cost == pytest.approx(pair[linear_sum_assignment(pair)].sum(), rel=1e-13)


@pytest.mark.parametrize(("seed", "k"), [(0, 1), (1, 4), (2, 12)])
def test_two_groups_of_equal_weight_are_balanced_in_every_cluster(seed: int, k: int) -> None:
    points = case(seed, 400, k, 2, balanced=True)
    found, bounds, _ = assigned(points, 1.0)
    np.testing.assert_array_equal(found.counts[:, 0], found.counts[:, 1])
    assert bounds.violation(found.counts) == 0
    assert found.bound == pytest.approx(found.cost, rel=1e-9)
    x, weights, groups, centers = points
    assert found.cost == pytest.approx(reference.fair_cost(x, weights, groups, centers), rel=1e-8)


@pytest.mark.parametrize(("H", "alpha", "balanced"), [(2, 1.0, True), (3, 1.0, False), (3, 0.7, False)])
def test_other_prices_to_begin_with_change_nothing(H: int, alpha: float, balanced: bool) -> None:
    points = case(3, 240, 5, H, balanced=balanced)
    cold, _, _ = assigned(points, alpha, whole=False)
    rng = np.random.default_rng(0)
    for prices in (cold.prices, np.zeros((H, 5)), 10 * rng.normal(size=(H, 5))):
        warm, _, _ = assigned(points, alpha, whole=False, prices=prices)
        assert warm.cost == pytest.approx(cold.cost, rel=1e-8)


def test_the_same_points_give_the_same_assignment() -> None:
    points = case(5, 300, 6, 3)
    one, other = assigned(points, 0.9)[0], assigned(points, 0.9)[0]
    for field in ("point", "center", "mass", "prices"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


# -- edges ------------------------------------------------------------------------------------------------------------


def test_one_group_goes_to_the_nearest_center() -> None:
    points = case(0, 50, 4, 1)
    found, _, squared = assigned(points, 1.0)
    np.testing.assert_array_equal(found.center, squared.argmin(axis=1))
    assert found.bound == pytest.approx(found.cost, rel=1e-12)


def test_bounds_that_nothing_breaks_cost_nothing() -> None:
    points = case(1, 50, 4, 2)
    squared = reference.squares(points[0], points[3])
    found = fair_assignment(squared, points[1], points[2], Bounds(np.zeros(2), np.ones(2)))
    assert found.cost == pytest.approx(points[1] @ squared.min(axis=1))


def test_as_many_centers_as_points() -> None:
    x, weights, groups, _ = case(2, 12, 1, 2, heaviest=1, balanced=True)
    found, _, _ = assigned((x, weights, groups, x), 1.0)
    np.testing.assert_array_equal(found.counts[:, 0], found.counts[:, 1])
    assert found.cost == pytest.approx(reference.fair_cost(x, weights, groups, x), rel=1e-9)


def test_points_all_in_one_place() -> None:
    x, weights, groups, _ = case(2, 40, 1, 3)
    same = np.zeros_like(x)
    found, _, _ = assigned((same, weights, groups, np.vstack([same[:3], same[:1] + 1])), 1.0)
    assert found.cost == found.bound == 0


def test_duplicated_points_cost_what_their_weight_says() -> None:
    x, weights, groups, centers = case(7, 30, 4, 3, heaviest=4)
    once, _, _ = assigned((x, weights, groups, centers), 0.9, whole=False)
    again = np.repeat(np.arange(30), weights)
    many, _, _ = assigned((x[again], np.ones(len(again), np.int64), groups[again], centers), 0.9, whole=False)
    assert many.cost == pytest.approx(once.cost, rel=1e-8)


def test_a_group_of_one_row_cannot_be_in_every_cluster_and_is_in_one_as_a_whole() -> None:
    x, _, _, centers = case(4, 41, 5, 1)
    groups = np.zeros(41, np.int64)
    groups[17] = 1
    found, bounds, _ = assigned((x, np.ones(41, np.int64), groups, centers), 1.0)
    assert sorted(found.counts[:, 1].tolist()) == [0, 0, 0, 0, 1]
    assert 0 < bounds.violation(found.counts) < 1


def test_points_without_weight_go_nowhere() -> None:
    x, weights, groups, centers = case(9, 60, 4, 3)
    weights[::7] = 0
    found, _, _ = assigned((x, weights, groups, centers), 0.8)
    assert not np.isin(found.point, np.arange(0, 60, 7)).any()


def test_a_far_cluster_of_few_rows_gets_its_share_of_every_group() -> None:
    """Prices there have to be larger than anywhere else by orders of magnitude."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 2))
    x[:60] += 80
    groups = rng.choice(4, 3000, p=[0.8, 0.15, 0.03, 0.02])
    groups[:60] = 0
    centers = np.vstack([x[:60].mean(axis=0), rng.normal(size=(5, 2))])
    points = (x, np.ones(3000, np.int64), groups, centers)
    found, bounds, _ = assigned(points, 0.8, whole=False)
    assert found.bound == pytest.approx(found.cost, rel=1e-8)
    assert bounds.violation(found.counts) < 1e-6
    assert found.cost == pytest.approx(reference.fair_cost(*points, 0.8), rel=1e-7)


def test_bounds_that_the_points_themselves_break_are_refused() -> None:
    x, weights, groups, centers = case(0, 30, 3, 2)
    squared = reference.squares(x, centers)
    with pytest.raises(ValueError, match="no assignment is fair: the points' own shares"):
        fair_assignment(squared, weights, groups, Bounds(np.array([0.9, 0.0]), np.array([1.0, 0.1])))


def test_means_keep_the_center_of_an_empty_cluster() -> None:
    x, weights, groups, centers = case(0, 30, 3, 1)
    centers[2] += 1000
    found, _, squared = assigned((x, weights, groups, centers), 1.0)
    means = found.means(x, centers)
    np.testing.assert_array_equal(means[2], centers[2])
    mine = squared.argmin(axis=1) == 0
    np.testing.assert_allclose(means[0], np.average(x[mine], axis=0, weights=weights[mine]))


# -- bounds -----------------------------------------------------------------------------------------------------------


@given(
    counts=st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=5),
    alpha=st.floats(0.05, 1),
)
def test_balance_is_the_largest_alpha_without_violation(counts: list[list[int]], alpha: float) -> None:
    table = np.array(counts, np.int64)
    totals = table.sum(axis=0)
    if not totals.all():
        return
    xi = totals / totals.sum()
    reached = Bounds.balance(table, xi)
    assert reached == pytest.approx(reference.balance(table, totals))
    assert Bounds.of(xi, alpha).violation(table) == pytest.approx(reference.violation(table, totals, alpha))
    if reached > 0:
        assert Bounds.of(xi, reached * (1 - 1e-12)).violation(table) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("alpha", [0.0, -1.0, 1.5])
def test_alpha_out_of_range(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha must be greater than 0 and at most 1"):
        Bounds.of(np.array([0.5, 0.5]), alpha)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        ([0.5, 0.6], [1, 1], "no cluster keeps the bounds"),
        ([0, 0], [0.4, 0.4], "no cluster keeps the bounds"),
        ([0.5, 0], [0.4, 1], "0 <= low <= high <= 1"),
    ],
)
def test_bounds_that_no_cluster_keeps(low: list[float], high: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Bounds(np.array(low, float), np.array(high, float))


# -- prices -----------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10_000), H=st.integers(1, 4), alpha=st.sampled_from([1.0, 0.8, 0.3]))
def test_normalized_prices_are_those_that_multipliers_make(seed: int, H: int, alpha: float) -> None:
    rng = np.random.default_rng(seed)
    bounds = Bounds.of(rng.dirichlet(np.ones(H)), alpha)
    prices = bounds.normalized(rng.normal(size=(H, 5)))
    duals = duals_of(prices, bounds)
    assert (duals >= 0).all()
    np.testing.assert_allclose(prices_from(duals, bounds), prices, atol=1e-12)
    np.testing.assert_allclose(bounds.normalized(prices), prices, atol=1e-12)
    if alpha == 1:
        np.testing.assert_allclose((bounds.low @ prices), 0, atol=1e-12)


@examples(30)
@given(seed=st.integers(0, 10_000), alpha=st.sampled_from([1.0, 0.8, 0.3]))
def test_any_multipliers_bound_the_cost_from_below(seed: int, alpha: float) -> None:
    points = case(seed, 40, 4, 3)
    found, bounds, squared = assigned(points, alpha, whole=False)
    rng = np.random.default_rng(seed)
    duals = rng.exponential(size=(2, 3, 4)) * (rng.random((2, 3, 4)) < 0.3)
    below = price_points(squared, points[1], points[2], prices_from(duals, bounds), 0.0)
    assert below.exact <= found.cost * (1 + 1e-9)
    assert price_points(squared, points[1], points[2], prices_from(duals, bounds), 0.1).exact == pytest.approx(
        below.exact
    )


def smoothed_dual(squared: np.ndarray, weights: np.ndarray, priced: np.ndarray, temperature: float) -> float:
    T = _temperatures(squared, temperature)
    return float(weights @ (-T * logsumexp(-priced / T[:, np.newaxis], axis=1)))


def test_gradient_and_curvature_of_the_smoothed_dual() -> None:
    x, weights, groups, centers = case(11, 50, 4, 2)
    squared = reference.squares(x, centers)
    shift = np.random.default_rng(0).normal(size=(2, 4))
    here, step = price_points(squared, weights, groups, shift, 0.3), 1e-5
    for h, c in product(range(2), range(4)):
        ahead, behind = shift.copy(), shift.copy()
        ahead[h, c] += step
        behind[h, c] -= step
        up, down = (price_points(squared, weights, groups, s, 0.3) for s in (ahead, behind))
        high, low = (smoothed_dual(squared, weights, squared + s[groups], 0.3) for s in (ahead, behind))
        assert (high - low) / (2 * step) == pytest.approx(here.masses[h, c], rel=1e-6, abs=1e-6)
        bent = (up.masses - down.masses) / (2 * step)
        np.testing.assert_allclose(bent[h], -here.curvature[h, c], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(bent[1 - h], 0, atol=1e-9)


@pytest.mark.parametrize("temperature", [0.0, 0.05])
def test_sites_sums_add_up_to_those_of_all_points(temperature: float) -> None:
    x, weights, groups, centers = case(12, 90, 4, 3)
    squared = reference.squares(x, centers)
    shift = np.random.default_rng(1).normal(size=(3, 4))
    parts = [price_points(squared[i::3], weights[i::3], groups[i::3], shift, temperature) for i in range(3)]
    together, whole = parts[0] + parts[1] + parts[2], price_points(squared, weights, groups, shift, temperature)
    for field in ("exact", "masses", "curvature"):
        np.testing.assert_allclose(getattr(together, field), getattr(whole, field), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(whole.masses.sum(axis=1), np.bincount(groups, weights))


@pytest.mark.parametrize(("H", "alpha"), few([(2, 1.0), (3, 0.8), (3, 1.0)], 2))
def test_a_federation_finds_the_prices_in_few_rounds(H: int, alpha: float) -> None:
    """No points but in `price_points`: start from the prices of a sample, as those of a coreset are."""
    points = case(13, 6000, 6, H)
    best, bounds, squared = assigned(points, alpha, whole=False)
    x, weights, groups, centers = points
    sample = (x[::10], weights[::10], groups[::10], centers)
    start = assigned(sample, alpha, whole=False)[0].prices
    totals = np.bincount(groups, weights).astype(np.int64)
    sites = [np.arange(6000) % 3 == site for site in range(3)]
    search = Pricing(bounds, totals, 6, best.cost / weights.sum(), start, gap=1e-5)
    while not search.done and search.rounds < 20:
        shifts, temperatures = search.candidates()
        assert shifts.shape[1:] == (H, 6)
        assert len(shifts) == len(temperatures) <= 4
        answers = []
        for shift, temperature in zip(shifts, temperatures, strict=True):
            each = [price_points(squared[s], weights[s], groups[s], shift, float(temperature)) for s in sites]
            answers.append(sum(each[1:], start=each[0]))
        before = search.bound
        search.update(answers)
        assert search.bound >= before
        assert any(np.array_equal(search.shift, shift) for shift in shifts) or search.bound == before
    assert search.done
    assert search.bound <= best.cost * (1 + 1e-9)
    assert search.bound >= best.cost * (1 - 1e-4)
    np.testing.assert_allclose(search.masses.sum(axis=1), totals)


def test_prices_of_one_center_and_of_points_at_their_centers_are_found() -> None:
    x, weights, groups, centers = case(14, 20, 1, 2)
    bounds = Bounds.of(shares(weights, groups), 1.0)
    for squared in (reference.squares(x, centers), np.zeros((20, 3))):
        assert np.isfinite(prices_of(squared, weights, groups, bounds)).all()


@pytest.mark.parametrize("unit", [1e-18, 1.0, 1e18])
def test_prices_are_found_in_any_unit(unit: float) -> None:
    """A column of 1e9 without a scale has squared distances of 1e18."""
    x, weights, groups, centers = case(14, 60, 2, 4)
    squared, bounds = unit * reference.squares(x, centers), Bounds.of(shares(weights, groups), 1.0)
    bound = price_points(squared, weights, groups, prices_of(squared, weights, groups, bounds), 0.0).exact
    assert bound >= 0.995 * fair_assignment(squared, weights, groups, bounds, whole=False).cost


def test_nothing_priced_is_nothing() -> None:
    none = price_points(np.zeros((0, 3)), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((2, 3)), 0.1)
    assert isinstance(none, PriceResponse)
    assert none.exact == none.masses.sum() == none.curvature.sum() == 0


# -- given numbers ----------------------------------------------------------------------------------------------------


@examples(30)
@given(seed=st.integers(0, 10_000), n=st.integers(2, 40), k=st.integers(1, 6))
def test_given_masses_are_met_at_least_cost(seed: int, n: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    squared, weights = rng.exponential(size=(n, k)), np.ones(n, np.int64)
    targets = np.bincount(rng.integers(0, k, n), minlength=k)
    found = capacitated_flow(squared, weights, targets)
    np.testing.assert_array_equal(np.bincount(found.center, found.mass, k), targets)
    place = np.repeat(np.arange(k), targets)
    rows, columns = linear_sum_assignment(squared[:, place])
    assert found.cost == pytest.approx(squared[rows, place[columns]].sum(), rel=1e-12)
    assert found.bound == pytest.approx(found.cost, rel=1e-9)
    other = capacitated_flow(squared, weights, targets, potentials=rng.normal(size=k))
    assert other.cost == pytest.approx(found.cost, rel=1e-12)


def test_numbers_that_do_not_add_up_are_refused() -> None:
    squared, ones = np.ones((3, 2)), np.ones(3, np.int64)
    with pytest.raises(ValueError, match="must sum to the points' weight, 3, not 4"):
        capacitated_flow(squared, ones, np.array([2, 2]))
    with pytest.raises(ValueError, match="same total weight"):
        balanced_flow(squared, ones, np.array([0, 0, 1]))


@examples(30)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 6), H=st.integers(1, 4), alpha=st.sampled_from([1.0, 0.8]))
def test_whole_targets_are_close_and_essentially_fair(seed: int, k: int, H: int, alpha: float) -> None:
    rng = np.random.default_rng(seed)
    totals = rng.integers(5, 400, H)
    masses = totals[:, None] * rng.dirichlet(np.full(k, 3.0), H)
    bounds = Bounds.of(totals / totals.sum(), alpha)
    targets = whole_targets(masses, bounds, totals)
    assert targets.dtype == np.int64
    assert (targets >= 0).all()
    np.testing.assert_array_equal(targets.sum(axis=1), totals)
    assert bounds.violation(targets.T) < 2
    fair = totals[:, None] * rng.dirichlet(np.full(k, 3.0))
    assert (np.abs(whole_targets(fair, bounds, totals) - fair) < 1).all()


def test_whole_targets_are_the_nearest() -> None:
    one = Bounds.of(np.ones(1), 1.0)
    assert whole_targets(np.array([[2.9, 2.1, 5.0]]), one, np.array([10])).tolist() == [[3, 2, 5]]


def test_whole_targets_of_two_equal_groups_are_balanced() -> None:
    rng = np.random.default_rng(0)
    totals = np.array([1001, 1001])
    masses = 1001 * rng.dirichlet(np.ones(7), 2)
    targets = whole_targets(masses, Bounds.of(np.array([0.5, 0.5]), 1.0), totals)
    np.testing.assert_array_equal(targets[0], targets[1])
    np.testing.assert_array_equal(targets.sum(axis=1), totals)
    assert (np.abs(targets[0] - masses.mean(axis=0)) < 1).all()


@examples(30)
@given(seed=st.integers(0, 10_000), S=st.integers(1, 5), H=st.integers(1, 3), k=st.integers(1, 5))
def test_what_sites_round_and_correct_keeps_their_rows_and_sums_to_the_targets(
    seed: int, S: int, H: int, k: int
) -> None:
    """Where every site has the rows that are taken, as it likely has: the center knows its masses from its points."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 60, (S, H))
    masses = rows[..., None] * rng.dirichlet(np.ones(k), (S, H))
    own = np.stack([whole_rows(each) for each in masses])
    np.testing.assert_array_equal(own.sum(axis=2), rows)
    assert (np.abs(own - masses) < 1).all()
    targets = np.stack([np.bincount(rng.integers(0, k, total), minlength=k) for total in rows.sum(axis=0)])
    corrections = corrections_by_site(targets - own.sum(axis=0), own.astype(float))
    np.testing.assert_array_equal(corrections.sum(axis=0), targets - own.sum(axis=0))
    assert not corrections.sum(axis=2).any()
    parts = np.stack([corrected(*each) for each in zip(own, corrections, strict=True)])
    assert (parts >= 0).all()
    np.testing.assert_array_equal(parts.sum(axis=2), rows)
    if (own + corrections >= 0).all():
        np.testing.assert_array_equal(parts.sum(axis=0), targets)


@pytest.mark.parametrize("alpha", [1.0, 0.8])
def test_where_groups_overlap_the_assignment_is_that_of_the_whole_linear_program(alpha: float) -> None:
    """Two values of one column and three of another; a bound is on three or two of the six combinations."""
    rng = np.random.default_rng(3)
    n, k, H = 40, 3, 6
    groups, weights = np.r_[np.arange(H), rng.choice(H, n - H)], rng.integers(1, 9, n)
    members = np.array([np.arange(H) % 2 == v for v in (0, 1)] + [np.arange(H) // 2 == v for v in (0, 1, 2)])
    totals = np.bincount(groups, weights, H).astype(np.int64)
    shares = members @ totals / totals.sum()
    bounds = Bounds(alpha * shares, np.minimum(1.0, shares / alpha), members)
    x, centers = rng.normal(size=(n, 2)) + groups[:, None] * 0.5, rng.normal(size=(k, 2)) + 1
    squared = ((x[:, None] - centers) ** 2).sum(axis=2)
    rows = []
    for low, high, member in zip(bounds.low, bounds.high, members, strict=True):
        own = member[groups].astype(float)
        rows += [np.kron(part, np.eye(k)) for part in ((own - high)[None], (low - own)[None])]
    whole = linprog(
        squared.ravel(),
        A_ub=np.concatenate(rows),
        b_ub=np.zeros(2 * k * len(members)),
        A_eq=np.kron(np.eye(n), np.ones(k)),
        b_eq=weights,
    )
    best = fair_assignment(squared, weights, groups, bounds, whole=False)
    assert best.cost == pytest.approx(whole.fun, rel=1e-7)
    assert best.bound == pytest.approx(whole.fun, rel=1e-7)
    # Whole rows: each combination's number is rounded down or up.
    assert bounds.violation(fair_assignment(squared, weights, groups, bounds).counts) < H / 2 + 1
    prices = prices_of(squared, weights, groups, bounds)
    assert price_points(squared, weights, groups, prices, 0.0).exact <= whole.fun * (1 + 1e-9)
    targets = whole_targets(best.counts.T, bounds, totals)
    np.testing.assert_array_equal(targets.sum(axis=1), totals)
    assert bounds.violation(targets.T) < H / 2 + 1
