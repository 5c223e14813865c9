"""Fairlets, seeding, fair Lloyd and the sharing out to members, against brute force and each other."""

from __future__ import annotations

from importlib import import_module
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, linprog
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from numerics.coreset.fairness.apportionment import PointMasses, distribute
from numerics.coreset.fairness.assignment import fair_assignment
from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.clustering import Clustering, fair_clustering, plain_clustering
from numerics.coreset.fairness.fairlets import fairlets
from numerics.coreset.fairness.seeding import centroids, lloyd, plus_plus
from numerics.shared.distances import squared_distances
from tests.support import reference_coreset as reference
from tests.support.examples import examples
from tests.support.parameters import few

# By name: the package's functions hide two of its modules.
CLUSTERING, FAIRLETS = (import_module(f"numerics.coreset.fairness.{name}") for name in ("clustering", "fairlets"))
SEEDS = st.integers(0, 2**32 - 1)
HALVES = Bounds.of(np.array([0.5, 0.5]), 1.0)
PAPERS = ("cklv", "reassigned-cklv", "fair-lloyd", "fair-kmeans++")
World = tuple[np.ndarray, np.ndarray, np.ndarray]


def balanced(seed: int, n: int, d: int = 3, heaviest: int = 1, parts: int = 4, unequal: bool = False) -> World:
    """Points of two groups of equal weight in some parts of space whose groups differ, in random order."""
    rng = np.random.default_rng(seed)
    n_red = n - n // 2 if not unequal else max(1, n // 3)
    groups = np.repeat([0, 1], [n - n_red, n_red])
    middle = rng.normal(scale=4.0, size=(parts, d))
    points = middle[rng.integers(parts, size=n)] + rng.normal(size=(n, d)) + 0.7 * groups[:, None]
    weights = rng.integers(1, heaviest + 1, n)
    short = np.bincount(groups, weights).max() - np.bincount(groups, weights)
    for group in (0, 1):
        weights[np.flatnonzero(groups == group)[0]] += short[group]
    order = rng.permutation(n)
    return points[order], weights[order], groups[order]


def shares_of(weights: np.ndarray, groups: np.ndarray) -> np.ndarray:
    return np.asarray(np.bincount(groups, weights) / weights.sum())


def transport_cost(cost: np.ndarray, supply: np.ndarray, demand: np.ndarray) -> float:
    """The transport problem's optimum by one linear program over all arcs."""
    b, r = cost.shape
    rows = np.zeros((b + r, b * r))
    for i in range(b):
        rows[i, i * r : (i + 1) * r] = 1
    for j in range(r):
        rows[b + j, j::r] = 1
    solved = linprog(cost.ravel(), A_eq=rows, b_eq=np.r_[supply, demand])
    assert solved.status == 0
    return float(solved.fun)


def scattered(world: World, clustering: Clustering) -> float:
    """A clustering's cost anew, from its masses and centers."""
    a = clustering.assignment
    return float(a.mass @ ((world[0][a.point] - clustering.centers[a.center]) ** 2).sum(axis=1))


def assert_fair(world: World, clustering: Clustering, bounds: Bounds, essentially: float = 0.0) -> None:
    """All weight is assigned, once, in whole numbers, and as many of each group to each center as is fair."""
    points, weights, groups = world
    a, k = clustering.assignment, len(clustering.centers)
    assert a.mass.dtype == np.int64
    assert (a.mass > 0).all()
    assert (np.bincount(a.point, a.mass, len(points)) == weights).all()
    assert len(np.unique(a.point * k + a.center)) == len(a.point)
    counts = np.zeros((k, len(bounds.low)), np.int64)
    np.add.at(counts, (a.center, groups[a.point]), a.mass)
    assert (counts == a.counts).all()
    assert bounds.violation(counts) <= essentially
    assert clustering.cost == pytest.approx(scattered(world, clustering), rel=1e-9, abs=1e-9)


class TestFairlets:
    @examples(30)
    @given(SEEDS, st.integers(2, 60), st.integers(1, 4))
    def test_unit_weights_are_the_cheapest_matching(self, seed: int, half: int, d: int) -> None:
        points, weights, groups = balanced(seed, 2 * half, d)
        found = fairlets(points, weights, groups)
        cost = cdist(points[groups == 0], points[groups == 1], "sqeuclidean") / 2
        assert found.cost == pytest.approx(cost[linear_sum_assignment(cost)].sum(), rel=1e-9)
        assert len(found.mass) == half

    @examples(30)
    @given(SEEDS, st.integers(2, 24), st.integers(2, 30), st.booleans())
    def test_weights_are_the_cheapest_transport(self, seed: int, n: int, heaviest: int, unequal: bool) -> None:
        points, weights, groups = balanced(seed, n, 2, heaviest, unequal=unequal)
        found = fairlets(points, weights, groups)
        cost = cdist(points[groups == 0], points[groups == 1], "sqeuclidean") / 2
        assert found.cost == pytest.approx(transport_cost(cost, weights[groups == 0], weights[groups == 1]), rel=1e-9)

    def test_every_pairing_of_five_costs_no_less(self) -> None:
        points, weights, groups = balanced(3, 10)
        blue, red = points[groups == 0], points[groups == 1]
        every = [((blue - red[list(order)]) ** 2).sum() / 2 for order in permutations(range(5))]
        assert fairlets(points, weights, groups).cost == pytest.approx(min(every), rel=1e-12)

    @examples(20)
    @given(SEEDS, st.integers(2, 80))
    def test_cover_all_weight_and_cost_what_they_say(self, seed: int, n: int) -> None:
        points, weights, groups = balanced(seed, n, heaviest=9)
        found = fairlets(points, weights, groups)
        covered = np.bincount(found.blue, found.mass, n) + np.bincount(found.red, found.mass, n)
        assert (covered == weights).all()
        assert (groups[found.blue] == 0).all()
        assert (groups[found.red] == 1).all()
        ends = np.stack([points[found.blue], points[found.red]])
        assert np.allclose(found.representatives, ends.mean(axis=0))
        spread = ((ends - found.representatives) ** 2).sum(axis=(0, 2))
        assert found.cost == pytest.approx(found.mass @ spread, rel=1e-9, abs=1e-12)

    def test_weights_are_as_good_as_copies(self) -> None:
        points, weights, groups = balanced(8, 30, heaviest=4)
        copies = np.repeat(np.arange(30), weights)
        single = fairlets(points[copies], np.ones(len(copies), np.int64), groups[copies])
        assert fairlets(points, weights, groups).cost == pytest.approx(single.cost, rel=1e-9)

    def test_the_same_points_in_both_groups_cost_nothing(self) -> None:
        x = np.random.default_rng(0).normal(size=(40, 2)) + 1e6
        found = fairlets(np.r_[x, x], np.full(80, 3), np.repeat([0, 1], 40))
        assert found.cost == 0.0
        assert (np.r_[x, x][found.blue] == np.r_[x, x][found.red]).all()

    def test_all_points_alike(self) -> None:
        found = fairlets(np.ones((7, 2)), np.array([1, 2, 3, 1, 1, 1, 3]), np.array([0, 0, 0, 1, 1, 1, 1]))
        assert found.cost == 0.0
        assert found.mass.sum() == 6

    def test_a_thousand_of_each_group_against_the_dense_matching(self) -> None:
        points, weights, groups = balanced(1, 2000, 6)
        cost = cdist(points[groups == 0], points[groups == 1], "sqeuclidean") / 2
        assert fairlets(points, weights, groups).cost == pytest.approx(
            cost[linear_sum_assignment(cost)].sum(), rel=1e-9
        )

    def test_an_outlier_and_many_near_points(self) -> None:
        """Whole costs have few digits for what is near when something is far."""
        rng = np.random.default_rng(5)
        blue, red = rng.normal(size=(300, 1)), rng.normal(size=(300, 1))
        blue[0], red[0] = 1e6, -1e6
        cost = cdist(blue, red, "sqeuclidean") / 2
        found = fairlets(np.r_[blue, red], np.ones(600, np.int64), np.repeat([0, 1], 300))
        assert found.cost == pytest.approx(cost[linear_sum_assignment(cost)].sum(), rel=1e-9)

    def test_costs_too_large_for_the_solver_are_made_coarser(self, monkeypatch: pytest.MonkeyPatch) -> None:
        world = balanced(5, 200, 2)
        fine = fairlets(*world).cost
        monkeypatch.setattr(FAIRLETS, "_COST_BITS", 66)
        assert fairlets(*world).cost == pytest.approx(fine, rel=1e-9)

    def test_unequal_weights_are_refused(self) -> None:
        with pytest.raises(ValueError, match="two groups of equal weight; group 0 has 3, group 1 has 2"):
            fairlets(np.zeros((3, 1)), np.array([1, 2, 2]), np.array([0, 0, 1]))

    def test_a_third_group_is_refused(self) -> None:
        with pytest.raises(ValueError, match="1 points have another group"):
            fairlets(np.zeros((3, 1)), np.ones(3, np.int64), np.array([0, 1, 2]))


class TestSeeding:
    def test_draws_by_weight_times_squared_distance(self) -> None:
        points, weights = np.array([[0.0], [1.0], [3.0]]), np.array([10**9, 2, 1])
        rng = np.random.default_rng(0)
        second = [plus_plus(points, weights, 2, rng, trials=1)[1, 0] for _ in range(2000)]
        assert np.mean(np.array(second) == 3.0) == pytest.approx(9 / 11, abs=0.03)

    @examples(30)
    @given(SEEDS, st.integers(1, 30))
    def test_centers_are_different_points(self, seed: int, k: int) -> None:
        points, weights, _ = balanced(seed, 30, heaviest=5)
        centers = plus_plus(points, weights, k, np.random.default_rng(seed))
        assert len(np.unique(centers, axis=0)) == k
        assert (squared_distances(centers, points).min(axis=1) == 0).all()

    def test_fewer_different_points_than_centers_repeat(self) -> None:
        points = np.repeat([[0.0, 0.0], [1.0, 5.0]], 6, axis=0)
        centers = plus_plus(points, np.ones(12, np.int64), 5, np.random.default_rng(1))
        assert centers.shape == (5, 2)
        assert len(np.unique(centers, axis=0)) == 2

    def test_trials_lower_the_cost(self) -> None:
        points, weights, _ = balanced(5, 400, parts=12)
        costs = {
            trials: np.mean(
                [
                    weights
                    @ squared_distances(
                        points, plus_plus(points, weights, 12, np.random.default_rng(seed), trials)
                    ).min(axis=1)
                    for seed in range(20)
                ]
            )
            for trials in (1, 8)
        }
        assert costs[8] < costs[1]

    def test_lloyd_is_scikit_learns(self) -> None:
        points, weights, _ = balanced(2, 300, heaviest=20)
        start = plus_plus(points, weights, 6, np.random.default_rng(0))
        centers, cost = lloyd(points, weights, start)
        theirs = KMeans(6, init=start, n_init=1, tol=0).fit(points, sample_weight=weights)
        assert cost == pytest.approx(theirs.inertia_, rel=1e-5)
        assert cost == pytest.approx(weights @ squared_distances(points, centers).min(axis=1), rel=1e-12)

    def test_a_center_without_points_stays(self) -> None:
        points = np.array([[0.0], [1.0]])
        centers, cost = lloyd(points, np.ones(2, np.int64), np.array([[0.5], [99.0]]))
        assert centers.tolist() == [[0.5], [99.0]]
        assert cost == pytest.approx(0.5)

    def test_far_from_the_origin(self) -> None:
        points, weights, _ = balanced(2, 100)
        start = plus_plus(points, weights, 4, np.random.default_rng(0))
        assert lloyd(points + 1e7, weights, start + 1e7)[1] == pytest.approx(lloyd(points, weights, start)[1], rel=1e-6)

    def test_centroids_weigh(self) -> None:
        found = centroids(
            np.array([[0.0], [4.0], [9.0]]), np.array([3, 1, 2]), np.array([0, 0, 2]), np.full((3, 1), 7.0)
        )
        assert found.ravel().tolist() == [1.0, 7.0, 9.0]


def cheapest_fair(points: np.ndarray, groups: np.ndarray, k: int) -> float:
    """The optimum over all partitions of unit points into at most k exactly balanced clusters."""
    labels = np.array([(0, *rest) for rest in product(range(k), repeat=len(points) - 1)])
    members = (labels[:, None, :] == np.arange(k)[:, None]).astype(float)  # by partition, cluster and point
    fair = ~(members @ np.where(groups == 0, 1, -1)).any(axis=1)
    sizes, sums = members[fair].sum(axis=2), members[fair] @ points
    costs = (points**2).sum() - ((sums**2).sum(axis=2) / np.maximum(sizes, 1)).sum(axis=1)
    return float(costs.min())


class TestFairClustering:
    @pytest.mark.parametrize(("n", "k"), few([(6, 2), (10, 3), (12, 2), (8, 2), (10, 2), (8, 3)], 2))
    def test_close_to_the_optimum_of_few_points(self, n: int, k: int) -> None:
        points, weights, groups = balanced(n + k, n, 2)
        best = cheapest_fair(points, groups, k)
        found = fair_clustering(
            points, weights, groups, HALVES, k, restarts=20, rng=np.random.default_rng(0), algorithm="fair-kmeans++"
        )
        assert best * (1 - 1e-9) <= found.cost <= best * 1.05 + 1e-9
        assert found.fairlet_cost <= best * (1 + 1e-9)

    @examples(15)
    @given(SEEDS, st.integers(4, 80), st.integers(1, 6))
    def test_order_of_the_algorithms(self, seed: int, n: int, k: int) -> None:
        """From the same start, what reassigns costs no more than what does not, and fair Lloyd no more than that."""
        world = balanced(seed, n, heaviest=7)
        found = {
            algorithm: fair_clustering(
                *world, HALVES, min(k, n), algorithm=algorithm, restarts=1, rng=np.random.default_rng(seed)
            )
            for algorithm in PAPERS
        }
        slack = 1 + 1e-9
        assert found["fair-lloyd"].cost <= found["reassigned-cklv"].cost * slack
        assert found["reassigned-cklv"].cost <= found["cklv"].cost * slack
        for clustering in found.values():
            assert clustering.fairlet_cost <= clustering.cost * slack
            assert clustering.assignment.bound <= clustering.cost * slack
            assert_fair(world, clustering, HALVES)

    def test_cklv_keeps_fairlets_together(self) -> None:
        world = balanced(4, 40)
        pairs = fairlets(*world)
        a = fair_clustering(*world, HALVES, 5, algorithm="cklv", rng=np.random.default_rng(0)).assignment
        center = np.empty(40, np.int64)
        center[a.point] = a.center
        assert (center[pairs.blue] == center[pairs.red]).all()

    @examples(8)
    @given(SEEDS, st.integers(1, 4), st.sampled_from([0.3, 0.8, 1.0]), st.integers(1, 6))
    def test_any_groups_and_bounds(self, seed: int, H: int, alpha: float, k: int) -> None:
        rng = np.random.default_rng(seed)
        points, weights = rng.normal(size=(50, 2)) * [3, 1], rng.integers(1, 9, 50)
        groups = np.r_[np.arange(H), rng.integers(0, H, 50 - H)]
        bounds = Bounds.of(shares_of(weights, groups), alpha)
        plain = plain_clustering(points, weights, k, rng=np.random.default_rng(seed))[1]
        for algorithm in ("fair-kmeans++", "fair-lloyd"):
            found = fair_clustering(points, weights, groups, bounds, k, algorithm=algorithm, restarts=2, rng=rng)
            # A cluster's and a group's masses are each rounded by less than one row.
            assert_fair((points, weights, groups), found, bounds, essentially=2.0)
            start = fair_assignment(squared_distances(points, found.centers), weights, groups, bounds)
            assert found.cost == pytest.approx(start.cost, rel=1e-9)
            assert found.cost >= 0.9 * plain

    def test_rounds_never_raise_the_cost(self, monkeypatch: pytest.MonkeyPatch) -> None:
        world = balanced(9, 120, heaviest=5)
        costs = []
        for rounds in range(1, 12):
            monkeypatch.setattr(CLUSTERING, "ROUNDS", rounds)
            found = fair_clustering(*world, HALVES, 5, restarts=1, rng=np.random.default_rng(3))
            assert found.rounds <= rounds
            costs.append(found.cost)
        assert (np.diff(costs) <= 1e-9 * costs[0]).all()
        assert costs[-1] < costs[0]

    def test_one_group_is_plain_k_means(self) -> None:
        points, weights, _ = balanced(6, 200, heaviest=5)
        none = np.zeros(200, np.int64)
        fair = fair_clustering(points, weights, none, Bounds.of(np.ones(1), 1.0), 5, rng=np.random.default_rng(2))
        centers, cost = plain_clustering(points, weights, 5, rng=np.random.default_rng(2))
        assert fair.cost == pytest.approx(cost, rel=1e-5)
        assert np.allclose(fair.centers, centers, rtol=1e-2)
        assert np.isnan(fair.fairlet_cost)

    @pytest.mark.parametrize("algorithm", PAPERS)
    def test_one_cluster_is_the_centroid(self, algorithm: str) -> None:
        world = balanced(1, 30, heaviest=4)
        found = fair_clustering(*world, HALVES, 1, algorithm=algorithm, rng=np.random.default_rng(0))
        middle = np.average(world[0], axis=0, weights=world[1])
        assert np.allclose(found.centers, middle)
        assert found.cost == pytest.approx(world[1] @ ((world[0] - middle) ** 2).sum(axis=1))
        assert_fair(world, found, HALVES)

    @pytest.mark.parametrize("algorithm", PAPERS)
    def test_as_many_clusters_as_points_cost_what_fairlets_do(self, algorithm: str) -> None:
        world = balanced(1, 16)
        found = fair_clustering(*world, HALVES, 16, algorithm=algorithm, rng=np.random.default_rng(0))
        assert found.cost == pytest.approx(found.fairlet_cost)
        assert_fair(world, found, HALVES)

    @pytest.mark.parametrize("algorithm", PAPERS)
    def test_duplicates(self, algorithm: str) -> None:
        points = np.repeat([[0.0, 0.0], [1.0, 5.0], [4.0, 4.0]], 6, axis=0)
        world = points, np.full(18, 2), np.tile([0, 1], 9)
        found = fair_clustering(*world, HALVES, 5, algorithm=algorithm, rng=np.random.default_rng(0))
        assert found.cost == pytest.approx(0.0, abs=1e-12)
        assert_fair(world, found, HALVES)

    def test_the_same_seed_gives_the_same(self) -> None:
        world = balanced(1, 100, heaviest=6)
        one, two = (fair_clustering(*world, HALVES, 6, rng=np.random.default_rng(7)) for _ in range(2))
        assert (one.centers == two.centers).all()
        assert one.cost == two.cost

    @pytest.mark.slow
    def test_restarts_help(self) -> None:
        world = balanced(12, 200, parts=8)
        one, many = (
            [fair_clustering(*world, HALVES, 8, restarts=r, rng=np.random.default_rng(s)).cost for s in range(6)]
            for r in (1, 5)
        )
        assert np.mean(many) < np.mean(one)
        assert max(many) <= max(one)

    @pytest.mark.slow
    @examples(10)
    @given(SEEDS, st.integers(1, 6))
    def test_order_of_the_algorithms_with_restarts(self, seed: int, k: int) -> None:
        world = balanced(seed, 60, heaviest=7)
        costs = [
            fair_clustering(*world, HALVES, k, algorithm=algorithm, rng=np.random.default_rng(seed)).cost
            for algorithm in ("fair-lloyd", "reassigned-cklv", "cklv")
        ]
        assert costs[0] <= costs[1] * (1 + 1e-9)
        assert costs[1] <= costs[2] * (1 + 1e-9)

    @examples(10)
    @given(SEEDS, st.integers(1, 8))
    def test_fairness_is_never_for_nothing(self, seed: int, k: int) -> None:
        points, weights, groups = balanced(seed, 60, heaviest=7)
        fair = fair_clustering(points, weights, groups, HALVES, k, rng=np.random.default_rng(seed))
        rng = np.random.default_rng(seed)
        _, cost = plain_clustering(points, weights, k, restarts=1, start=fair.centers, rng=rng)
        assert cost <= fair.cost * (1 + 1e-9)

    def test_no_start(self) -> None:
        points, weights, groups = balanced(1, 30)
        with pytest.raises(ValueError, match="restarts must be 1 or more, not 0"):
            fair_clustering(points, weights, groups, HALVES, 3, restarts=0, rng=np.random.default_rng(0))

    def test_too_many_pairs_are_seeded_from_the_points(self, monkeypatch: pytest.MonkeyPatch) -> None:
        world = balanced(1, 60)
        near = fair_clustering(*world, HALVES, 4, rng=np.random.default_rng(0))
        monkeypatch.setattr(CLUSTERING, "FAIRLET_PAIRS", 100)
        found = fair_clustering(*world, HALVES, 4, rng=np.random.default_rng(0))
        assert np.isnan(found.fairlet_cost)
        assert found.cost <= 1.1 * near.cost
        assert_fair(world, found, HALVES)
        assert fair_clustering(*world, HALVES, 4, algorithm="cklv", rng=np.random.default_rng(0)).fairlet_cost > 0

    @pytest.mark.parametrize("algorithm", ["cklv", "reassigned-cklv"])
    def test_fairlets_are_for_two_balanced_groups(self, algorithm: str) -> None:
        points, weights, groups = balanced(1, 30)
        message = f"{algorithm} needs two groups of equal weight and a balance of 1"
        for other, bounds in (
            (groups, Bounds.of(np.array([0.5, 0.5]), 0.8)),
            (np.arange(30) % 3, Bounds.of(np.full(3, 1 / 3), 1.0)),
            (np.r_[np.zeros(10, np.int64), np.ones(20, np.int64)], Bounds.of(np.array([1 / 3, 2 / 3]), 1.0)),
        ):
            with pytest.raises(ValueError, match=message):
                fair_clustering(points, weights, other, bounds, 3, algorithm=algorithm, rng=np.random.default_rng(0))

    @pytest.mark.parametrize("k", [0, 31])
    def test_k_out_of_range(self, k: int) -> None:
        points, weights, groups = balanced(1, 30)
        with pytest.raises(ValueError, match=f"{k} clusters of 30 points: there must be from 1 to 30"):
            fair_clustering(points, weights, groups, HALVES, k, rng=np.random.default_rng(0))
        with pytest.raises(ValueError, match="from 1 to 30"):
            plain_clustering(points, weights, k, rng=np.random.default_rng(0))

    def test_an_unknown_algorithm(self) -> None:
        points, weights, groups = balanced(1, 30)
        with pytest.raises(ValueError, match="unknown algorithm 'lloyd'; there are fair-kmeans"):
            fair_clustering(points, weights, groups, HALVES, 3, algorithm="lloyd", rng=np.random.default_rng(0))  # type: ignore[arg-type]


def shared_out(
    seed: int, n: int, k: int, n_groups: int, heaviest: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, PointMasses, np.ndarray]:
    """Members in groups, and shares of each group to one, two or more centers that add up."""
    rng = np.random.default_rng(seed)
    weights, group = rng.integers(1, heaviest + 1, n), rng.integers(0, n_groups, n)
    totals = np.bincount(group, weights, n_groups).astype(np.int64)
    point, center, mass = [], [], []
    for g, total in enumerate(totals):
        chosen = rng.choice(k, rng.integers(1, min(k, 4) + 1), replace=False)
        cuts = np.sort(rng.integers(0, total + 1, len(chosen) - 1))
        point += [g] * len(chosen)
        center += chosen.tolist()
        mass += np.diff(np.r_[0, cuts, total]).tolist()
    shares = PointMasses(np.array(point), np.array(center), np.array(mass, dtype=np.int64))
    return rng.normal(size=(n, 2)), weights, group, shares, rng.normal(size=(k, 2))


def dense(shares: PointMasses, rows: int, k: int) -> np.ndarray:
    table = np.zeros((rows, k), np.int64)
    np.add.at(table, (shares.point, shares.center), shares.mass)
    return table


class TestDistribute:
    @examples(40)
    @given(SEEDS, st.integers(1, 60), st.integers(1, 6), st.integers(1, 8), st.integers(1, 5))
    def test_exact_numbers(self, seed: int, n: int, k: int, n_groups: int, heaviest: int) -> None:
        members, weights, group, shares, centers = shared_out(seed, n, k, n_groups, heaviest)
        found = distribute(members, weights, group, shares, centers)
        table = dense(found, n, k)
        assert (found.mass > 0).all()
        assert (np.lexsort((found.center, found.point)) == np.arange(len(found.point))).all()
        assert (table.sum(axis=1) == weights).all()
        by_group = np.zeros((n_groups, k), np.int64)
        np.add.at(by_group, group, table)
        assert (by_group == dense(shares, n_groups, k)).all()

    @examples(25)
    @given(SEEDS, st.integers(1, 14), st.integers(1, 5), st.integers(1, 3), st.integers(1, 4))
    def test_least_cost(self, seed: int, n: int, k: int, n_groups: int, heaviest: int) -> None:
        members, weights, group, shares, centers = shared_out(seed, n, k, n_groups, heaviest)
        squared, target = cdist(members, centers, "sqeuclidean"), dense(shares, n_groups, k)
        found = (dense(distribute(members, weights, group, shares, centers), n, k) * squared).sum()
        best = sum(transport_cost(squared[group == g], weights[group == g], target[g]) for g in np.unique(group))
        assert found == pytest.approx(best, rel=1e-7, abs=1e-9)

    @pytest.mark.parametrize("k", [2, 3])
    def test_every_labeling_of_six_rows(self, k: int) -> None:
        rng = np.random.default_rng(k)
        members, centers = rng.normal(size=(6, 2)), rng.normal(size=(k, 2))
        wanted = np.array([[4, 2], [3, 2, 1]][k - 2])
        squared = cdist(members, centers, "sqeuclidean")
        best = min(
            squared[np.arange(6), label].sum()
            for label in product(range(k), repeat=6)
            if (np.bincount(label, minlength=k) == wanted).all()
        )
        found = distribute(
            members,
            np.ones(6, np.int64),
            np.zeros(6, np.int64),
            PointMasses(np.zeros(k, np.int64), np.arange(k), wanted),
            centers,
        )
        assert found.mass @ squared[found.point, found.center] == pytest.approx(best)

    @examples(20)
    @given(SEEDS)
    def test_never_dearer_than_proportional_shares(self, seed: int) -> None:
        members, weights, group, shares, centers = shared_out(seed, 80, 5, 6, 4)
        squared = cdist(members, centers, "sqeuclidean")
        target = dense(shares, 6, 5)
        proportional = weights[:, None] * (target / np.maximum(target.sum(axis=1), 1)[:, None])[group]
        found = (dense(distribute(members, weights, group, shares, centers), 80, 5) * squared).sum()
        assert found <= (proportional * squared).sum() * (1 + 1e-9)

    def test_equal_rows_and_far_centers(self) -> None:
        shares = PointMasses(np.zeros(3, np.int64), np.arange(3), np.array([3, 2, 2]))
        found = distribute(
            np.ones((7, 1)), np.ones(7, np.int64), np.zeros(7, np.int64), shares, np.array([[0.0], [1e9], [-1e9]])
        )
        assert np.bincount(found.center).tolist() == [3, 2, 2]

    def test_nobody(self) -> None:
        empty = np.zeros(0, np.int64)
        found = distribute(np.zeros((0, 2)), empty, empty, PointMasses(empty, empty, empty), np.zeros((3, 2)))
        assert len(found.point) == 0

    def test_shares_that_do_not_add_up(self) -> None:
        shares = PointMasses(np.array([0, 1]), np.array([0, 0]), np.array([2, 3]))
        with pytest.raises(ValueError, match="shares of group 1 are 3 in all; its members weigh 2"):
            distribute(np.zeros((4, 1)), np.ones(4, np.int64), np.array([0, 0, 1, 1]), shares, np.zeros((1, 1)))


@pytest.mark.parametrize("seed", range(3))
def test_the_approximation_scheme_keeps_its_promise_and_no_clustering_is_below_the_best(seed: int) -> None:
    """Theorem 13: at most 1 + 1 / size times the cost of the best of all clusterings; ours is between the two."""
    rng = np.random.default_rng(seed)
    x, groups = rng.normal(size=(8, 2)) + 3 * (np.arange(8) % 4 < 2)[:, np.newaxis], np.arange(8) % 2
    best, schemes = reference.best_fair(x, groups, 2), [reference.scheme(x, groups, 2, size) for size in (1, 2)]
    ours = fair_clustering(
        x, np.ones(8, np.int64), groups, Bounds.of(np.array([0.5, 0.5]), 1.0), 2, restarts=20, rng=rng
    ).cost
    for size, cost in enumerate(schemes, start=1):
        assert best * (1 - 1e-9) <= cost <= (1 + 1 / size) * best
        assert best * (1 - 1e-9) <= ours <= cost * (1 + 1e-9)
