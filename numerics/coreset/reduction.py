"""Operations on coresets: union, further reduction, and removal of points that represent too few rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from numerics.coreset.weighted_points import WeightedPoints


class MergedCoreset(NamedTuple):
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
        Number of rows of groups with too few rows.
    """

    coreset: WeightedPoints
    point: Int64[np.ndarray, "n"]
    n_merged: int
    n_withheld: int


def union(coresets: Sequence[WeightedPoints]) -> WeightedPoints:
    """Join coresets to one of all their rows (Schmidt et al. 2018, Lemma 6).

    Parameters
    ----------
    coresets : sequence of WeightedPoints
        At least one, all with the same columns and the same numbers of groups.

    Returns
    -------
    WeightedPoints

    Examples
    --------
    >>> part = WeightedPoints(np.array([[1.0]]), np.array([3]), np.array([0]), np.zeros(1))
    >>> union([part, part]).weights
    array([3, 3])
    """
    return WeightedPoints(
        np.concatenate([part.points for part in coresets]),
        np.concatenate([part.weights for part in coresets]),
        np.concatenate([part.groups for part in coresets]),
        np.sum([part.movement for part in coresets], axis=0),
    )


def reduce(
    coreset: WeightedPoints,
    size: int,
    rng: np.random.Generator,
    scale: Float64[np.ndarray, "d"],
    *,
    projection: int = 0,
    passes: int = 0,
) -> tuple[WeightedPoints, Int64[np.ndarray, "n"]]:
    """Reduce a coreset to a smaller one of the same rows, by inserting its weighted points into features like rows.

    The movement that the points already contain does not count for the threshold: it is the same wherever they go, and
    points moved up to twice as far when it counted.

    Parameters
    ----------
    coreset : WeightedPoints
        Coreset to be reduced; one with at most `size` points is returned unchanged.
    size : int
        Largest number of locations, each with a point for every group there.
    rng : Generator
        Generator of the order of the points.
    scale : ndarray
        ``(d,)`` units of the columns for the search of locations; 0 counts as 1.
    projection : int
        Number of dimensions for the search of locations, as for `numerics.coreset.summary.summarize`.
    passes : int
        Lloyd's steps that improve the locations.

    Returns
    -------
    coreset : WeightedPoints
        The new coreset; its movement is the sum of the old one and that of the points.
    index : ndarray
        ``(n,)`` index of the new point that contains each earlier point.

    Examples
    --------
    Equal points join:

    >>> points = np.array([[0.0], [0.0], [9.0]])
    >>> coreset = WeightedPoints(points, np.array([1, 3, 2]), np.zeros(3, int), np.zeros(1))
    >>> smaller, index = reduce(coreset, 2, np.random.default_rng(0), np.ones(1))
    >>> sorted(smaller.weights.tolist()), bool(index[0] == index[1])
    ([2, 4], True)
    """
    n = len(coreset.points)
    if n <= size:
        return coreset, np.arange(n)
    from numerics.coreset.features import Features  # imports numba, which the center seldom needs; so do those below

    z = _scale(coreset.points, scale)
    if 0 < projection < z.shape[1]:
        z = z @ draw_projection(z.shape[1], projection, rng)
    order = rng.permutation(n)
    features = Features(size, z.shape[1])
    slots = np.empty(n, np.int64)
    slots[order] = features.insert(z[order], coreset.weights[order].astype(np.float64)).slots
    for _ in range(passes):
        slots = _improve_slots(z, coreset.weights, slots)
    _, index = np.unique(coreset.groups * size + slots, return_inverse=True)
    return _gather(coreset, index), index


def _improve_slots(
    z: Float64[np.ndarray, "n t"], weights: Int64[np.ndarray, "n"], slots: Int64[np.ndarray, "n"]
) -> Int64[np.ndarray, "n"]:
    """Return the nearest centroid of the slots for each point."""
    from numerics.coreset.nearest_neighbors import nearest

    place = np.unique(slots, return_inverse=True)[1]
    sums = np.stack([np.bincount(place, weights * column) for column in z.T], axis=1)
    return nearest(z, sums / np.bincount(place, weights)[:, np.newaxis]).astype(np.int64)


def draw_projection(d: int, t: int, rng: np.random.Generator) -> Float64[np.ndarray, "d t"]:
    """Draw a projection from d to t dimensions (Schmidt et al. 2018, Algorithm 15)."""
    return np.asarray(rng.choice([-1.0, 1.0], size=(d, t)) / np.sqrt(t))


def merge_light(
    coreset: WeightedPoints,
    min_weight: int,
    scale: Float64[np.ndarray, "d"],
    movement_by_group: Float64[np.ndarray, "H d"] | None = None,
    min_group: int = 0,
) -> MergedCoreset:
    """Merge every point that represents too few rows with the nearest point of its group, until there is none.

    A group with too few rows in all is withheld: its points are dropped, and its number stays unused.

    Parameters
    ----------
    coreset : WeightedPoints
        Coreset to be merged.
    min_weight : int
        Smallest number of rows of a point.
    scale : ndarray
        ``(d,)`` units of the columns for distances; 0 counts as 1.
    movement_by_group : ndarray, optional
        ``(H, d)`` movement of the rows of each group, with which the movement of withheld groups is removed. Without
        it, the movement of the result is an upper bound.
    min_group : int
        Smallest number of rows of a group, if it is larger than `min_weight`.

    Returns
    -------
    MergedCoreset

    Examples
    --------
    The point of one row joins its neighbor:

    >>> points = np.array([[0.0], [0.4], [9.0]])
    >>> coreset = WeightedPoints(points, np.array([1, 3, 5]), np.zeros(3, int), np.zeros(1))
    >>> merged = merge_light(coreset, 2, np.ones(1))
    >>> merged.coreset.points.round(9).tolist(), merged.coreset.weights.tolist(), merged.point.tolist()
    ([[0.3], [9.0]], [4, 5], [0, 0, 1])
    """
    mass = np.bincount(coreset.groups, coreset.weights)
    sufficient = mass[coreset.groups] >= max(min_weight, min_group)
    withheld = coreset.groups[~sufficient]
    movement = coreset.movement
    if movement_by_group is not None:
        movement = np.delete(movement_by_group, withheld, axis=0).sum(axis=0)
    merged = WeightedPoints(
        coreset.points[sufficient], coreset.weights[sufficient], coreset.groups[sufficient], movement
    )
    n_light = int((merged.weights < min_weight).sum())

    place = np.arange(len(merged.points))
    while (light := merged.weights < min_weight).any():
        step = _join_light(merged, light, scale)
        merged, place = _gather(merged, step), step[place]
    index = np.full(len(coreset.points), -1)
    index[sufficient] = place
    return MergedCoreset(merged, index, n_light, int(coreset.weights[~sufficient].sum()))


def _join_light(
    coreset: WeightedPoints, light: Bool[np.ndarray, "n"], scale: Float64[np.ndarray, "d"]
) -> Int64[np.ndarray, "n"]:
    """Compute the components of the graph that joins each light point to the nearest other point of its group."""
    from numerics.coreset.nearest_neighbors import nearest

    z = _scale(coreset.points, scale)
    partner = np.arange(len(z))
    for group in np.unique(coreset.groups[light]):
        own = np.flatnonzero(coreset.groups == group)
        seeking = np.flatnonzero(light[own])
        partner[own[seeking]] = own[nearest(z[own[seeking]], z[own], excluded=seeking)]
    graph = coo_array((np.ones(len(z), np.int8), (np.arange(len(z)), partner)), shape=(len(z), len(z)))
    return connected_components(graph, directed=False)[1].astype(np.int64)


def _gather(coreset: WeightedPoints, index: Int64[np.ndarray, "n"]) -> WeightedPoints:
    """Replace points of the same index, which belong to one group, by their centroid."""
    from numerics.coreset.cells import pour

    n = int(index.max()) + 1
    points, weights, groups = np.zeros((n, coreset.points.shape[1])), np.zeros(n, np.int64), np.zeros(n, np.int64)
    groups[index] = coreset.groups
    moved = np.zeros((1, points.shape[1]))
    pour(np.ascontiguousarray(coreset.points), coreset.weights, index, np.zeros_like(index), weights, points, moved)
    return WeightedPoints(points, weights, groups, coreset.movement + moved[0])


def _scale(points: Float64[np.ndarray, "n d"], scale: Float64[np.ndarray, "d"]) -> Float64[np.ndarray, "n d"]:
    """Convert points to units of the scale, relative to the first one: a distant origin would cost precision."""
    z: Float64[np.ndarray, "n d"] = (points - points[:1]) / np.where(scale > 0, scale, 1.0)
    return z
