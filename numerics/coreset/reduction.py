"""Coresets of coresets: joined, compressed again, and rid of points that stand for too few rows."""

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
    point : ndarray
        ``(n before,)`` the point that each earlier point became part of; -1: it was withheld.
    n_merged : int
        Points that were too light by themselves.
    n_withheld : int
        Rows of groups that have too few in all.
    """

    coreset: WeightedPoints
    point: Int64[np.ndarray, "n"]
    n_merged: int
    n_withheld: int


def union(coresets: Sequence[WeightedPoints]) -> WeightedPoints:
    """A coreset of all that several coresets stand for (Schmidt et al. 2018, Lemma 6).

    Parameters
    ----------
    coresets : sequence of WeightedPoints
        At least one; of the same columns, their groups numbered alike.
    """
    return WeightedPoints(
        np.concatenate([part.points for part in coresets]),
        np.concatenate([part.weights for part in coresets]),
        np.concatenate([part.groups for part in coresets]),
        np.sum([part.movement for part in coresets], axis=0),
    )


def reduce(
    coreset: WeightedPoints, size: int, rng: np.random.Generator, scale: Float64[np.ndarray, "d"]
) -> tuple[WeightedPoints, Int64[np.ndarray, "n"]]:
    """A smaller coreset of the same rows: its points become features as rows do, and bring their weight along.

    The cost that they hold inside stays out of the threshold: it is spent wherever they go, and with it the points were
    seen to move up to twice as far.

    Parameters
    ----------
    coreset : WeightedPoints
    size : int
        Locations at most, at each a point for every group there; a coreset of no more points stays as it is.
    rng : Generator
        Orders the points.
    scale : ndarray
        ``(d,)`` units of the columns while locations are sought; where it is 0, that column's is 1.

    Returns
    -------
    coreset : WeightedPoints
        Its movement is that of the rows: what they moved before, and what the points move now.
    index : ndarray
        ``(n,)`` the point that each earlier point became part of.
    """
    n = len(coreset.points)
    if n <= size:
        return coreset, np.arange(n)
    from numerics.coreset.features import Features  # here and below: a compiler, which the center seldom needs

    z = _scaled(coreset.points, scale)
    order = rng.permutation(n)
    features = Features(size, z.shape[1])
    slots = np.empty(n, np.int64)
    slots[order] = features.insert(z[order], coreset.weights[order].astype(np.float64)).slots
    _, index = np.unique(coreset.groups * size + slots, return_inverse=True)
    return _gathered(coreset, index), index


def merge_light(
    coreset: WeightedPoints,
    min_weight: int,
    scale: Float64[np.ndarray, "d"],
    movement_by_group: Float64[np.ndarray, "H d"] | None = None,
) -> MergedCoreset:
    """Merge every point that stands for too few rows into the nearest of its group, until none is left.

    A group with too few rows in all is withheld: its points are dropped, its number stays unused.

    Parameters
    ----------
    coreset : WeightedPoints
    min_weight : int
        Rows that a point must stand for at least.
    scale : ndarray
        ``(d,)`` units of the columns in which nearness is measured; where it is 0, that column's is 1.
    movement_by_group : ndarray, optional
        ``(H, d)`` the movement of each group's rows, so that what was withheld leaves nothing in the movement. Unless
        given, the movement keeps that share, and is an upper bound.
    """
    mass = np.bincount(coreset.groups, coreset.weights)
    kept = mass[coreset.groups] >= min_weight
    withheld = coreset.groups[~kept]
    movement = coreset.movement
    if movement_by_group is not None:
        movement = np.delete(movement_by_group, withheld, axis=0).sum(axis=0)
    left = WeightedPoints(coreset.points[kept], coreset.weights[kept], coreset.groups[kept], movement)
    n_light = int((left.weights < min_weight).sum())

    became = np.arange(len(left.points))
    while (light := left.weights < min_weight).any():
        step = _joined(left, light, scale)
        left, became = _gathered(left, step), step[became]
    index = np.full(len(coreset.points), -1)
    index[kept] = became
    return MergedCoreset(left, index, n_light, int(coreset.weights[~kept].sum()))


def _joined(
    coreset: WeightedPoints, light: Bool[np.ndarray, "n"], scale: Float64[np.ndarray, "d"]
) -> Int64[np.ndarray, "n"]:
    """Components of the graph in which each light point is joined to the nearest other of its group."""
    from numerics.coreset.nearest_neighbours import nearest

    z = _scaled(coreset.points, scale)
    partner = np.arange(len(z))
    for group in np.unique(coreset.groups[light]):
        own = np.flatnonzero(coreset.groups == group)
        seeking = np.flatnonzero(light[own])
        partner[own[seeking]] = own[nearest(z[own[seeking]], z[own], excluded=seeking)]
    graph = coo_array((np.ones(len(z), np.int8), (np.arange(len(z)), partner)), shape=(len(z), len(z)))
    return connected_components(graph, directed=False)[1].astype(np.int64)


def _gathered(coreset: WeightedPoints, index: Int64[np.ndarray, "n"]) -> WeightedPoints:
    """The coreset whose points are the centroids of those with the same index; all of one group."""
    from numerics.coreset.cells import pour

    n = int(index.max()) + 1
    points, weights, groups = np.zeros((n, coreset.points.shape[1])), np.zeros(n, np.int64), np.zeros(n, np.int64)
    groups[index] = coreset.groups
    moved = np.zeros((1, points.shape[1]))
    pour(np.ascontiguousarray(coreset.points), coreset.weights, index, np.zeros_like(index), weights, points, moved)
    return WeightedPoints(points, weights, groups, coreset.movement + moved[0])


def _scaled(points: Float64[np.ndarray, "n d"], scale: Float64[np.ndarray, "d"]) -> Float64[np.ndarray, "n d"]:
    """Points in units of the scale, around the first: the rounding of a far origin stays out of their distances."""
    z: Float64[np.ndarray, "n d"] = (points - points[:1]) / np.where(scale > 0, scale, 1.0)
    return z
