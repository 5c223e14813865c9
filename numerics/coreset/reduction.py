"""Operations on coresets: union and further reduction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int64

from numerics.coreset.weighted_points import WeightedPoints


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

    z = in_units(coreset.points, scale)
    if 0 < projection < z.shape[1]:
        z = z @ draw_projection(z.shape[1], projection, rng)
    order = rng.permutation(n)
    features = Features(size, z.shape[1])
    slots = np.empty(n, np.int64)
    slots[order] = features.insert(z[order], coreset.weights[order].astype(np.float64)).slots
    for _ in range(passes):
        slots = _improve_slots(z, coreset.weights, slots)
    _, index = np.unique(coreset.groups * size + slots, return_inverse=True)
    return join(coreset, index), index


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


def join(coreset: WeightedPoints, index: Int64[np.ndarray, "n"]) -> WeightedPoints:
    """Replace points of the same index, which belong to one group, by their centroid."""
    from numerics.coreset.cells import pour

    n = int(index.max()) + 1
    points, weights, groups = np.zeros((n, coreset.points.shape[1])), np.zeros(n, np.int64), np.zeros(n, np.int64)
    groups[index] = coreset.groups
    moved = np.zeros((1, points.shape[1]))
    pour(np.ascontiguousarray(coreset.points), coreset.weights, index, np.zeros_like(index), weights, points, moved)
    return WeightedPoints(points, weights, groups, coreset.movement + moved[0])


def in_units(points: Float64[np.ndarray, "n d"], scale: Float64[np.ndarray, "d"]) -> Float64[np.ndarray, "n d"]:
    """Convert points to units of the scale, relative to the first one: a distant origin would cost precision."""
    z: Float64[np.ndarray, "n d"] = (points - points[:1]) / np.where(scale > 0, scale, 1.0)
    return z
