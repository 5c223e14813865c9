"""Fair k-means of weighted points with groups: three published algorithms, and fair Lloyd for any groups and bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from jaxtyping import Float64, Int64

from numerics.coreset.fairness.assignment import Assignment, fair_assignment
from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.seeding import ROUNDS, TOLERANCE, ascending, lloyd, seedings
from numerics.shared.distances import squared_distances

if TYPE_CHECKING:
    from numerics.coreset.fairness.fairlets import Fairlets

Algorithm = Literal["fair-kmeans++", "fair-lloyd", "cklv", "reassigned-cklv"]

FAIRLET_PAIRS = 16_000_000
"""Largest number of pairs of points for which seeds come from fairlets (4,000 points of each group take seconds)."""


@dataclass(frozen=True, eq=False)
class Clustering:
    """Centers and a fair assignment of all weight to them.

    Attributes
    ----------
    centers : ndarray
        ``(k, d)``.
    assignment : Assignment
        Assignment in whole numbers.
    cost : float
        Sum of the weighted squared distances of the points from their centers.
    rounds : int
        Rounds of fair Lloyd of the best start; 0 if the algorithm has none.
    fairlet_cost : float
        Cost of the fairlets, a lower bound of the cost of all exactly balanced clusterings; NaN without fairlets.
    algorithm : str
        Name of the algorithm.
    """

    centers: Float64[np.ndarray, "k d"]
    assignment: Assignment
    cost: float
    rounds: int
    fairlet_cost: float
    algorithm: Algorithm


def fair_clustering(
    points: Float64[np.ndarray, "n d"],
    weights: Int64[np.ndarray, "n"],
    groups: Int64[np.ndarray, "n"],
    bounds: Bounds,
    k: int,
    *,
    algorithm: Algorithm = "fair-kmeans++",
    restarts: int = 5,
    rng: np.random.Generator,
) -> Clustering:
    """Cluster weighted points with groups fairly.

    Parameters
    ----------
    points : ndarray
        ``(n, d)``.
    weights : ndarray
        ``(n,)`` whole and positive; a point may be split over several clusters.
    groups : ndarray
        ``(n,)`` from 0 to H - 1.
    bounds : Bounds
        Definition of a fair cluster.
    k : int
        Number of clusters, at most n. Clusters may stay empty.
    algorithm : str
        ``fair-kmeans++``: k-means++ seeding, then fair Lloyd. ``fair-lloyd``: complete k-means++, then fair Lloyd.
        ``reassigned-cklv``: complete k-means++ on fairlets, then one fair assignment. ``cklv``: complete k-means++ on
        fairlets, with both points of a fairlet in its cluster. The first two take seeds from fairlets if two groups of
        equal weight are balanced exactly and there are few enough pairs (`FAIRLET_PAIRS`), else from the points. The
        last two need fairlets.
    restarts : int
        Number of seedings, at least 1, which are the most promising of four times as many (`seedings`). The result is
        the cheapest of all restarts. Fairlets are computed once.
    rng : numpy.random.Generator
        Generator of the seedings.

    Returns
    -------
    Clustering

    Raises
    ------
    ValueError
        If k is not from 1 to n, `restarts` not positive, the algorithm unknown, or fairlets are needed but impossible.

    Notes
    -----
    Schmidt et al. 2018, Algorithms 11 to 13; docs/coreset.md, Algorithms.

    Examples
    --------
    Group 0 is on the left, group 1 on the right; every fair cluster has one point of each:

    >>> points = np.array([[0.0, 0.0], [0.0, 9.0], [1.0, 0.0], [1.0, 9.0]])
    >>> groups, bounds = np.array([0, 0, 1, 1]), Bounds.of(np.array([0.5, 0.5]), alpha=1.0)
    >>> result = fair_clustering(points, np.ones(4, int), groups, bounds, 2, rng=np.random.default_rng(0))
    >>> result.cost, result.assignment.counts.tolist()
    (1.0, [[1, 1], [1, 1]])
    """
    _refuse(len(points), k, algorithm, restarts)
    pairs = _pairs(points, weights, groups, bounds, algorithm)
    seeds, mass = (points, weights) if pairs is None else (pairs.representatives, 2 * pairs.mass)
    starts = seedings(seeds, mass, k, restarts, rng)
    if algorithm != "fair-kmeans++":
        ends = [lloyd(seeds, mass, centers) for centers in starts]
        starts = [ends[place][0] for place in ascending([cost for _, cost in ends])]
    task = _Task(points, weights, groups, bounds)
    fairlet_cost = np.nan if pairs is None else pairs.cost
    if algorithm == "cklv":
        assert pairs is not None  # noqa: S101 - this algorithm has pairs
        together = _together(pairs, task, starts[0])
        return Clustering(starts[0], together, together.cost, 0, fairlet_cost, algorithm)
    runs = [_Run(centers, task.assign(centers), 0) for centers in starts]
    if algorithm != "reassigned-cklv":
        runs = [_fair_lloyd(task, run) for run in runs]
    best = runs[ascending([run.assignment.cost for run in runs])[0]]
    assignment = task.assign(best.centers, best.assignment.prices, whole=True)
    return Clustering(best.centers, assignment, assignment.cost, best.rounds, fairlet_cost, algorithm)


def plain_clustering(
    points: Float64[np.ndarray, "n d"],
    weights: Int64[np.ndarray, "n"],
    k: int,
    *,
    restarts: int = 5,
    start: Float64[np.ndarray, "k d"] | None = None,
    rng: np.random.Generator,
) -> tuple[Float64[np.ndarray, "k d"], float]:
    """Cluster by k-means++ without regard to groups, for comparison, and return the best of several runs.

    Parameters
    ----------
    points, weights, k, restarts, rng
        As for `fair_clustering`.
    start : ndarray, optional
        ``(k, d)`` one more start. With the centers of a fair clustering, the result is not dearer than that.

    Returns
    -------
    tuple of ndarray and float
        ``(k, d)`` centers, and the weighted squared distance of the points from their nearest ones.

    Raises
    ------
    ValueError
        If k is not from 1 to n, or `restarts` not positive.

    Examples
    --------
    >>> points = np.array([[0.0], [2.0], [10.0]])
    >>> centers, cost = plain_clustering(points, np.ones(3, int), 2, rng=np.random.default_rng(0))
    >>> sorted(centers.ravel().tolist()), cost
    ([1.0, 10.0], 2.0)
    """
    _refuse(len(points), k, "fair-kmeans++", restarts)
    starts = seedings(points, weights, k, restarts, rng) + ([] if start is None else [start])
    ends = [lloyd(points, weights, each) for each in starts]
    return ends[ascending([cost for _, cost in ends])[0]]


@dataclass(frozen=True, eq=False)
class _Task:
    """Points and bounds of a clustering."""

    points: Float64[np.ndarray, "n d"]
    weights: Int64[np.ndarray, "n"]
    groups: Int64[np.ndarray, "n"]
    bounds: Bounds

    def assign(
        self, centers: Float64[np.ndarray, "k d"], prices: Float64[np.ndarray, "H k"] | None = None, whole: bool = False
    ) -> Assignment:
        """Compute the cheapest fair assignment to centers; prices of a similar one make it faster."""
        squared = squared_distances(self.points, centers)
        return fair_assignment(squared, self.weights, self.groups, self.bounds, prices=prices, whole=whole)


@dataclass(frozen=True, eq=False)
class _Run:
    """Result of a start: centers, the cheapest fair assignment to them, and rounds of fair Lloyd."""

    centers: Float64[np.ndarray, "k d"]
    assignment: Assignment
    rounds: int


def _fair_lloyd(task: _Task, start: _Run) -> _Run:
    """Run Algorithm 13: move centers to centroids and assign points fairly, until the cost no longer falls."""
    best = start
    for rounds in range(1, ROUNDS + 1):
        centers = best.assignment.means(task.points, best.centers)
        assignment = task.assign(centers, best.assignment.prices)
        fall = best.assignment.cost - assignment.cost
        if fall > 0:
            best = _Run(centers, assignment, rounds)
        if fall <= TOLERANCE * assignment.cost:
            break
    return best


def _together(pairs: Fairlets, task: _Task, centers: Float64[np.ndarray, "k d"]) -> Assignment:
    """Assign by Algorithm 11: both points of a fairlet go to the center nearest to its midpoint."""
    k = len(centers)
    label = np.argmin(squared_distances(pairs.representatives, centers), axis=1)
    way, place = np.unique(np.r_[pairs.blue * k + label, pairs.red * k + label], return_inverse=True)
    mass = np.zeros(len(way), np.int64)
    np.add.at(mass, place, np.r_[pairs.mass, pairs.mass])
    point, center = np.divmod(way, k)
    squared = squared_distances(task.points, centers)
    counts = np.zeros((k, 2), np.int64)
    np.add.at(counts, (center, task.groups[point]), mass)
    # Without prices, the bound of the dual is the cost of the nearest centers.
    bound = max(pairs.cost, float(task.weights @ squared.min(axis=1)))
    return Assignment(point, center, mass, float(mass @ squared[point, center]), bound, np.zeros((2, k)), counts)


def _pairs(
    points: Float64[np.ndarray, "n d"],
    weights: Int64[np.ndarray, "n"],
    groups: Int64[np.ndarray, "n"],
    bounds: Bounds,
    algorithm: Algorithm,
) -> Fairlets | None:
    """Compute the fairlets if the algorithm needs them, or there are few enough pairs; else return None."""
    needed = algorithm in ("cklv", "reassigned-cklv")
    totals = np.bincount(groups, weights, bounds.n_groups)
    if len(totals) != 2 or totals[0] != totals[1] or not bounds.exact:
        if needed:
            raise ValueError(
                f"{algorithm} needs two groups of equal weight and a balance of 1; for others take fair-kmeans++ or "
                "fair-lloyd"
            )
        return None
    sizes = np.bincount(groups, minlength=2)
    if not needed and sizes[0] * sizes[1] > FAIRLET_PAIRS:
        return None
    from numerics.coreset.fairness.fairlets import fairlets  # brings a compiler, which not every clustering needs

    return fairlets(points, weights, groups)


def _refuse(n: int, k: int, algorithm: str, restarts: int) -> None:
    if algorithm not in get_args(Algorithm):
        raise ValueError(f"unknown algorithm {algorithm!r}; there are {', '.join(get_args(Algorithm))}")
    if not 1 <= k <= n:
        raise ValueError(f"{k} clusters of {n} points: there must be from 1 to {n}")
    if restarts < 1:
        raise ValueError(f"restarts must be 1 or more, not {restarts}")
