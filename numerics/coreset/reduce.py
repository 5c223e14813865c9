"""Coresets of coresets: joined, compressed again, and rid of points that stand for too few rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from numerics.coreset.cells import pour
from numerics.coreset.features import Features
from numerics.coreset.nearest import nearest
from numerics.coreset.summary import Coreset


class Merged(NamedTuple):
    """A coreset without light points.

    Attributes
    ----------
    coreset : Coreset
    became : ndarray
        ``(n before,)`` the point that each earlier point became part of; -1: it was withheld.
    n_merged : int
        Points that were too light by themselves.
    n_withheld : int
        Rows of colours that have too few in all.
    """

    coreset: Coreset
    became: Int64[np.ndarray, "n"]
    n_merged: int
    n_withheld: int


def union(coresets: Sequence[Coreset]) -> Coreset:
    """A coreset of all that several coresets stand for (papers/fair_coresets.txt, Lemma 6).

    Parameters
    ----------
    coresets : sequence of Coreset
        At least one; of the same columns, their colours numbered alike.
    """
    return Coreset(
        np.concatenate([part.points for part in coresets]),
        np.concatenate([part.weights for part in coresets]),
        np.concatenate([part.colours for part in coresets]),
        np.sum([part.movement for part in coresets], axis=0),
    )


def reduce(
    coreset: Coreset, size: int, rng: np.random.Generator, scale: Float64[np.ndarray, "d"]
) -> tuple[Coreset, Int64[np.ndarray, "n"]]:
    """A smaller coreset of the same rows: its points become features as rows do, and bring their weight along.

    The cost that they hold inside stays out of the threshold: it is spent wherever they go, and with it the points were
    seen to move up to twice as far.

    Parameters
    ----------
    coreset : Coreset
    size : int
        Locations at most, at each a point for every colour there; a coreset of no more points stays as it is.
    rng : Generator
        Orders the points.
    scale : ndarray
        ``(d,)`` units of the columns while locations are sought; where it is 0, that column's is 1.

    Returns
    -------
    coreset : Coreset
        Its movement is that of the rows: what they moved before, and what the points move now.
    index : ndarray
        ``(n,)`` the point that each earlier point became part of.
    """
    n = len(coreset.points)
    if n <= size:
        return coreset, np.arange(n)
    z = _scaled(coreset.points, scale)
    order = rng.permutation(n)
    features = Features(size, z.shape[1])
    slots = np.empty(n, np.int64)
    slots[order] = features.insert(z[order], coreset.weights[order].astype(np.float64)).slots
    _, index = np.unique(coreset.colours * size + slots, return_inverse=True)
    return _gathered(coreset, index), index


def merge_light(
    coreset: Coreset,
    min_weight: int,
    scale: Float64[np.ndarray, "d"],
    movement_by_colour: Float64[np.ndarray, "H d"] | None = None,
) -> Merged:
    """Merge every point that stands for too few rows into the nearest of its colour, until none is left.

    A colour with too few rows in all is withheld: its points are dropped, its number stays unused.

    Parameters
    ----------
    coreset : Coreset
    min_weight : int
        Rows that a point must stand for at least.
    scale : ndarray
        ``(d,)`` units of the columns in which nearness is measured; where it is 0, that column's is 1.
    movement_by_colour : ndarray, optional
        ``(H, d)`` the movement of each colour's rows, so that what was withheld leaves nothing in the movement. Unless
        given, the movement keeps that share, and is an upper bound.
    """
    mass = np.bincount(coreset.colours, coreset.weights)
    kept = mass[coreset.colours] >= min_weight
    withheld = coreset.colours[~kept]
    movement = coreset.movement
    if movement_by_colour is not None:
        movement = np.delete(movement_by_colour, withheld, axis=0).sum(axis=0)
    left = Coreset(coreset.points[kept], coreset.weights[kept], coreset.colours[kept], movement)
    n_light = int((left.weights < min_weight).sum())

    became = np.arange(len(left.points))
    while (light := left.weights < min_weight).any():
        step = _joined(left, light, scale)
        left, became = _gathered(left, step), step[became]
    index = np.full(len(coreset.points), -1)
    index[kept] = became
    return Merged(left, index, n_light, int(coreset.weights[~kept].sum()))


def _joined(coreset: Coreset, light: Bool[np.ndarray, "n"], scale: Float64[np.ndarray, "d"]) -> Int64[np.ndarray, "n"]:
    """Components of the graph in which each light point is joined to the nearest other of its colour."""
    z = _scaled(coreset.points, scale)
    partner = np.arange(len(z))
    for colour in np.unique(coreset.colours[light]):
        own = np.flatnonzero(coreset.colours == colour)
        seeking = np.flatnonzero(light[own])
        partner[own[seeking]] = own[nearest(z[own[seeking]], z[own], excluded=seeking)]
    graph = coo_array((np.ones(len(z), np.int8), (np.arange(len(z)), partner)), shape=(len(z), len(z)))
    return connected_components(graph, directed=False)[1].astype(np.int64)


def _gathered(coreset: Coreset, index: Int64[np.ndarray, "n"]) -> Coreset:
    """The coreset whose points are the centroids of those with the same index; all of one colour."""
    n = int(index.max()) + 1
    points, weights, colours = np.zeros((n, coreset.points.shape[1])), np.zeros(n, np.int64), np.zeros(n, np.int64)
    colours[index] = coreset.colours
    moved = np.zeros((1, points.shape[1]))
    pour(np.ascontiguousarray(coreset.points), coreset.weights, index, np.zeros_like(index), weights, points, moved)
    return Coreset(points, weights, colours, coreset.movement + moved[0])


def _scaled(points: Float64[np.ndarray, "n d"], scale: Float64[np.ndarray, "d"]) -> Float64[np.ndarray, "n d"]:
    """Points in units of the scale, around the first: the rounding of a far origin stays out of their distances."""
    z: Float64[np.ndarray, "n d"] = (points - points[:1]) / np.where(scale > 0, scale, 1.0)
    return z
