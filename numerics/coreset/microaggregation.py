"""Microaggregation: points that represent too few rows are joined to groups of hardly more rows than needed.

Source: Domingo-Ferrer and Mateo-Sanz, Practical Data-Oriented Microaggregation for Statistical Disclosure Control (IEEE
TKDE 2002), MDAV: the farthest point from the mean and its nearest neighbors become one; then the same for the point
farthest from it, and so on.

Here points have weights. A point that is heavy enough stays as it is; a light one may join it if it is nearer than
other light ones. MDAV never revises a group, and joins the remnants of two clusters. So points then change groups, as
long as that brings them nearer to the groups' means (`numerics.coreset.regrouping`). The time is quadratic in the
number of points, so many points are first cut into blocks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from numerics.coreset.compiler import njit
from numerics.coreset.reduction import in_units, join
from numerics.coreset.regrouping import regroup
from numerics.coreset.weighted_points import WeightedPoints

_BLOCK = 2000
"""Largest number of points that are compared with one another; in measurements, smaller blocks moved rows farther."""


class Microaggregation(NamedTuple):
    """A coreset without light points.

    Attributes
    ----------
    coreset : WeightedPoints
        The new coreset.
    point : ndarray
        ``(n before,)`` index of the new point that contains each earlier point; -1 if it was withheld.
    n_merged : int
        Number of points that were too light by themselves.
    n_withheld : int
        Number of rows of groups with too few rows, and of the point that was withheld with them.
    """

    coreset: WeightedPoints
    point: Int64[np.ndarray, "n"]
    n_merged: int
    n_withheld: int


def microaggregate(
    coreset: WeightedPoints,
    min_weight: int,
    scale: Float64[np.ndarray, "d"],
    movement_by_group: Float64[np.ndarray, "H d"] | None = None,
    min_group: int = 0,
    min_withheld: int = 0,
) -> Microaggregation:
    """Join points that represent too few rows with others of their group, so that all represent enough.

    A group with too few rows in all is withheld: its points are dropped, and its number stays unused.

    Parameters
    ----------
    coreset : WeightedPoints
        Coreset whose light points are to be joined.
    min_weight : int
        Smallest number of rows of a point.
    scale : ndarray
        ``(d,)`` units of the columns for distances; 0 counts as 1.
    movement_by_group : ndarray, optional
        ``(H, d)`` movement of the rows of each group, with which the movement of withheld groups is removed. Without
        it, the movement of the result is an upper bound.
    min_group : int
        Smallest number of rows of a group, if it is larger than `min_weight`.
    min_withheld : int
        Fewest rows that are withheld, if any are: the lightest point of the largest group is withheld as well if
        needed. Whoever knows the sum of all rows, for example from another protocol, then learns the sum of no fewer
        rows. The movement is then an upper bound.

    Returns
    -------
    Microaggregation

    Examples
    --------
    The point of one row joins its neighbor:

    >>> points = np.array([[0.0], [0.4], [9.0]])
    >>> coreset = WeightedPoints(points, np.array([1, 3, 5]), np.zeros(3, int), np.zeros(1))
    >>> result = microaggregate(coreset, 2, np.ones(1))
    >>> result.coreset.points.round(9).tolist(), result.coreset.weights.tolist(), result.point.tolist()
    ([[0.3], [9.0]], [4, 5], [0, 0, 1])

    A group of one row is withheld, and another point with it:

    >>> coreset = WeightedPoints(points, np.array([1, 3, 5]), np.array([1, 0, 0]), np.zeros(1))
    >>> result = microaggregate(coreset, 2, np.ones(1), min_withheld=2)
    >>> result.coreset.weights.tolist(), result.point.tolist(), result.n_withheld
    ([5], [-1, -1, 0], 4)
    """
    mass = np.bincount(coreset.groups, coreset.weights)
    sufficient = mass[coreset.groups] >= max(min_weight, min_group)
    withheld = coreset.groups[~sufficient]
    movement = coreset.movement
    if movement_by_group is not None:
        movement = np.delete(movement_by_group, withheld, axis=0).sum(axis=0)
    points = WeightedPoints(
        coreset.points[sufficient], coreset.weights[sufficient], coreset.groups[sufficient], movement
    )
    n_light = int((points.weights < min_weight).sum())

    place = np.arange(len(points.weights))
    if n_light:
        z = np.ascontiguousarray(in_units(points.points, scale))
        first = _first_of_each(z, points, min_weight)
        place = np.unique(first, return_inverse=True)[1]
        points = join(points, place)
    n_withheld = int(coreset.weights[~sufficient].sum())
    if 0 < n_withheld < min_withheld and len(points.weights):
        further = _lightest(points)
        n_withheld += int(points.weights[further])
        rest = np.arange(len(points.weights)) != further
        points = replace(points, points=points.points[rest], weights=points.weights[rest], groups=points.groups[rest])
        place = np.where(place == further, -1, place - (place > further))
    index = np.full(len(coreset.points), -1)
    index[sufficient] = place
    return Microaggregation(points, index, n_light, n_withheld)


def _lightest(coreset: WeightedPoints) -> int:
    """Return the first of the lightest points of the group with the most rows."""
    own = np.flatnonzero(coreset.groups == np.bincount(coreset.groups, coreset.weights).argmax())
    return int(own[coreset.weights[own].argmin()])


def _first_of_each(z: Float64[np.ndarray, "n d"], coreset: WeightedPoints, min_weight: int) -> Int64[np.ndarray, "n"]:
    """Return for each point the first of the points that it is joined with."""
    first = np.arange(len(z))
    for group in np.unique(coreset.groups[coreset.weights < min_weight]):
        for block in _blocks(z, coreset.weights, np.flatnonzero(coreset.groups == group), min_weight):
            label = np.empty(len(block), np.int64)
            own, weights = z[block], coreset.weights[block]
            _mdav(own, weights, min_weight, label)
            regroup(own, weights, min_weight, label)
            lowest = np.full(len(block), len(z))
            np.minimum.at(lowest, label, block)
            first[block] = lowest[label]
    return first


def _blocks(
    z: Float64[np.ndarray, "n d"], weights: Int64[np.ndarray, "n"], own: Int64[np.ndarray, "m"], min_weight: int
) -> list[Int64[np.ndarray, "b"]]:
    """Cut points along the column of most variance, again and again, until at most `_BLOCK` are together.

    Every block has at least `min_weight` rows.
    """
    open_blocks, blocks = [own], []
    while open_blocks:
        block = open_blocks.pop()
        order = block[np.argsort(z[block, z[block].var(axis=0).argmax()], kind="stable")]
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        if len(block) <= _BLOCK or min(weights[half].sum() for half in halves) < min_weight:
            blocks.append(block)
        else:
            open_blocks.extend(halves)
    return blocks


@njit(cache=True)
def _mdav(
    z: Float64[np.ndarray, "n d"],
    weights: Int64[np.ndarray, "n"],
    least: int,
    label: Int64[np.ndarray, "n"],
) -> None:
    """Write the label of each point, equal for points that are joined; together they have `least` rows or more."""
    n, d = z.shape
    free = weights < least  # the other points stand alone, and may be joined
    n_labels = 0
    for i in range(n):
        label[i] = -1
        if not free[i]:
            label[i] = n_labels
            n_labels += 1
    rest = 0
    total, mean, squared, seed = np.zeros(d), np.empty(d), np.empty(n), -1
    for i in range(n):
        if free[i]:
            rest += weights[i]
            for j in range(d):
                total[j] += weights[i] * z[i, j]
    while rest >= least:
        # In turn: the point farthest from the mean of the rest, and the one farthest from that.
        for j in range(d):
            mean[j] = total[j] / rest if seed < 0 else z[seed, j]
        start, farthest = -1, -1.0
        for i in range(n):
            if free[i]:
                far = 0.0
                for j in range(d):
                    far += (z[i, j] - mean[j]) ** 2
                if far > farthest:
                    start, farthest = i, far
        seed = start if seed < 0 else -1
        for i in range(n):
            squared[i] = 0.0
            if free[i] or weights[i] >= least:
                for j in range(d):
                    squared[i] += (z[i, j] - z[start, j]) ** 2
            else:
                squared[i] = np.inf
        weight, own, neighbor = 0, n_labels, start
        n_labels += 1
        while True:
            label[neighbor], free[neighbor], squared[neighbor] = own, False, np.inf
            weight += weights[neighbor]
            rest -= weights[neighbor]
            for j in range(d):
                total[j] -= weights[neighbor] * z[neighbor, j]
            if weight >= least:
                break
            neighbor = int(np.argmin(squared))
            if weights[neighbor] >= least:  # a point that stands alone takes them all
                for i in range(n):
                    if label[i] == own:
                        label[i] = label[neighbor]
                break
    for i in range(n):
        if free[i]:
            nearest, best = -1, np.inf
            for other in range(n):
                if label[other] >= 0 and not free[other]:
                    far = 0.0
                    for j in range(d):
                        far += (z[i, j] - z[other, j]) ** 2
                    if far < best:
                        nearest, best = other, far
            label[i] = label[nearest]
