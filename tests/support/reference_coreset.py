"""Fair clustering in one place, as plain as possible: what `numerics.coreset.fairness` and whole runs are held against.

Written from Schmidt, Schwiegelshohn and Sohler and from Bera et al. (2019): the whole linear program of a fair
assignment, the bipartite matching of Algorithm 8, Definition 4's cost for any group constraint, and all clusterings
of a few points. It shares no code with `numerics`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Float64, Int64
from scipy.optimize import linear_sum_assignment, linprog

Points = Float64[np.ndarray, "n d"]
Centers = Float64[np.ndarray, "k d"]
Groups = Int64[np.ndarray, "n"]
Counts = Int64[np.ndarray, "k H"]


def squares(points: Points, centers: Centers) -> Float64[np.ndarray, "n k"]:
    """Squared distances."""
    difference = points[:, np.newaxis] - centers
    return np.asarray((difference**2).sum(axis=2))


def cost_of(points: Points, labels: Int64[np.ndarray, "n"], centers: Centers) -> float:
    """Of points in their clusters."""
    return float(((points - centers[labels]) ** 2).sum())


# -- what is fair -----------------------------------------------------------------------------------------------------


def bounds(totals: Int64[np.ndarray, "H"], alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest share of every group in an alpha-fair cluster."""
    share = totals / totals.sum()
    return alpha * share, np.minimum(1, share / alpha)


def violation(counts: Counts, totals: Int64[np.ndarray, "H"], alpha: float) -> float:
    """Rows by which the worst group of the worst cluster is outside its bounds."""
    low, high = bounds(totals, alpha)
    worst = 0.0
    for cluster in counts:
        for h, mass in enumerate(cluster):
            worst = max(worst, low[h] * cluster.sum() - mass, mass - high[h] * cluster.sum())
    return worst


def balance(counts: Counts, totals: Int64[np.ndarray, "H"]) -> float:
    """The largest alpha for which all clusters that have rows are alpha-fair."""
    share = totals / totals.sum()
    found = 1.0
    for cluster in counts[counts.sum(axis=1) > 0]:
        for h, mass in enumerate(cluster):
            ratio = mass / cluster.sum() / share[h]
            found = min(found, ratio, 1 / ratio if ratio else 0)
    return float(found)


# -- the cheapest assignments to given centers ------------------------------------------------------------------------


def fair_cost(
    points: Points, weights: Int64[np.ndarray, "n"], groups: Groups, centers: Centers, alpha: float = 1.0
) -> float:
    """Of the cheapest fair assignment, points may be split: the linear program with a variable for every point and
    center, and two constraints for every center and group."""
    n, k = len(points), len(centers)
    totals = np.bincount(groups, weights)
    low, high = bounds(totals, alpha)
    place = np.arange(n * k)
    limits = []
    for h in range(len(totals)):
        own = (groups[place // k] == h).astype(float)
        limits += [_sums(low[h] - own, place % k), _sums(own - high[h], place % k)]
    everyone = _sums(np.ones(n * k), place // k)
    return _least(squares(points, centers), everyone, weights, scipy.sparse.vstack(limits))


def matching_cost(points: Points, groups: Groups, centers: Centers) -> float:
    """Algorithm 8, two groups of equal number: the cheapest perfect matching of blue and red points, a pair costs what
    its two points pay together at the center that is best for both."""
    blue, red = (squares(points[groups == h], centers) for h in (0, 1))
    pair = (blue[:, np.newaxis] + red[np.newaxis]).min(axis=2)
    return float(pair[linear_sum_assignment(pair)].sum())


def group_cost(
    points: Points, weights: Int64[np.ndarray, "n"], groups: Groups, centers: Centers, constraint: Counts
) -> float:
    """Definition 4: the cheapest assignment with exactly these masses of every group at every center."""
    cost = 0.0
    for h, demand in enumerate(constraint.T):
        own = groups == h
        n, k = int(own.sum()), len(centers)
        place = np.arange(n * k)
        sums = [_sums(np.ones(n * k), rows) for rows in (place // k, place % k)]
        cost += _least(squares(points[own], centers), scipy.sparse.vstack(sums), np.r_[weights[own], demand])
    return cost


def _sums(factor: Float64[np.ndarray, "v"], rows: Int64[np.ndarray, "v"]) -> Any:
    """The matrix that sums up the variables of every row, each times its factor."""
    return scipy.sparse.csr_array((factor, (rows, np.arange(len(factor)))))


def _least(cost: Float64[np.ndarray, "n k"], equal: Any, to: Int64[np.ndarray, "e"], not_above_0: Any = None) -> float:
    """The linear program's optimum."""
    solved = linprog(
        cost.ravel(),
        A_ub=not_above_0,
        b_ub=None if not_above_0 is None else np.zeros(not_above_0.shape[0]),
        A_eq=equal,
        b_eq=to,
        method="highs",
    )
    assert solved.status == 0
    assert solved.fun is not None
    return float(solved.fun)


# -- all clusterings --------------------------------------------------------------------------------------------------


def best_fair(points: Points, groups: Groups, k: int) -> float:
    """Cost of the best clustering with as many points of either group in every cluster, by trying all of them."""
    return min(
        sum(float(((points[labels == c] - points[labels == c].mean(axis=0)) ** 2).sum()) for c in np.unique(labels))
        for labels in _all_labels(len(points), k)
        if all((labels[groups == 0] == c).sum() == (labels[groups == 1] == c).sum() for c in range(k))
    )


def scheme(points: Points, groups: Groups, k: int, size: int) -> float:
    """Algorithm 14, two groups of equal number: the best of all k centers that are means of `size` points each.

    By Lemma 14 (Inaba et al. 1994) every cluster has such points, of which one may come twice, whose mean costs at most
    1 + 1 / size times as much as the cluster's own: so does the result, as Theorem 13 says.
    """
    means = [points[list(chosen)].mean(axis=0) for chosen in combinations_with_replacement(range(len(points)), size)]
    return min(matching_cost(points, groups, np.array(each)) for each in combinations_with_replacement(means, k))


def _all_labels(n: int, k: int) -> Iterator[Int64[np.ndarray, "n"]]:
    for rest in product(range(k), repeat=n - 1):
        yield np.array((0, *rest))
