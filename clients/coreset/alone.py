"""A site's answer on how well it would cluster its rows alone, beside the clusters of all sites."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int, Int64

from clients.coreset.rows import SummarizedRows
from numerics.coreset.alone import squares_left_out
from numerics.coreset.grouped_rows import BLOCK_ROWS
from numerics.shared.digits import rounded
from numerics.shared.distances import squared_distances
from protocols.coreset.payloads import Compare, CostsAlone

MOST_ROWS = 4000
"""Largest number of rows that are compared; from more rows, this many are drawn."""


def compare_alone(rows: SummarizedRows, ask: Compare, rng: np.random.Generator) -> CostsAlone:
    """Return sums over the rows of their squared distances from centers that they had no part in.

    Parameters
    ----------
    rows : SummarizedRows
        The site's rows, at the joint centers.
    ask : Compare
        Sizes of the joint clusters, and the rows' assignment to them.
    rng : numpy.random.Generator
        Generator of the rows that are compared, of folds and of starts.
    """
    n = sum(np.count_nonzero(part >= 0) for part in _parts(rows.point))
    ranks = np.arange(n) if n <= MOST_ROWS else np.sort(rng.choice(n, MOST_ROWS, replace=False))
    index = _places_of(ranks, rows.point)
    x, group = np.empty((len(index), rows.centers.shape[1])), np.empty(len(index), np.int64)
    for place, block, scaled in rows.parts():
        inside = slice(*np.searchsorted(index, [place.start, place.stop]).tolist())
        own = index[inside] - place.start
        mask = np.zeros(len(scaled), bool)
        mask[own] = True
        x[inside], group[inside] = scaled[own], rows.groups_of(block, mask)[own]
    alone = squares_left_out(x, group, len(rows.centers), ask.alpha, rng)
    if alone is None:
        return CostsAlone.nothing()
    together = _joint_squares(x, group, rows.point[index].astype(np.int64), rows.centers, ask)
    sums = rounded(np.array([max(0.0, alone.sum()), together.sum(), ((together - alone) ** 2).sum()]))
    return CostsAlone(len(index), *sums.tolist())


def _parts(point: Int[np.ndarray, "n"]) -> list[Int[np.ndarray, "_"]]:
    return [point[start : start + BLOCK_ROWS] for start in range(0, len(point), BLOCK_ROWS)]


def _places_of(ranks: Int64[np.ndarray, "m"], point: Int[np.ndarray, "n"]) -> Int64[np.ndarray, "m"]:
    """Return the rows of sorted ranks among the rows that have a point, part by part: 10^7 indices are 80 MB.

    Examples
    --------
    >>> _places_of(np.array([0, 2]), np.array([4, -1, 0, 0])).tolist()
    [0, 3]
    """
    places, before, start = [np.zeros(0, np.int64)], 0, 0
    for part in _parts(point):
        own = np.flatnonzero(part >= 0)
        first, last = np.searchsorted(ranks, [before, before + len(own)])
        places.append(start + own[ranks[first:last] - before])
        before, start = before + len(own), start + len(part)
    return np.concatenate(places)


def _joint_squares(
    x: Float64[np.ndarray, "n d"],
    group: Int64[np.ndarray, "n"],
    point: Int64[np.ndarray, "n"],
    centers: Float64[np.ndarray, "k d"],
    ask: Compare,
) -> Float64[np.ndarray, "n"]:
    """Return each row's squared distance from its joint center, computed without the row: a factor ``(n / (n - 1))^2``.

    Rows go where their points go; all rows of a divided point are divided in its shares. So invented centers and masses
    reveal nothing of a single row. Without shares of points, each row goes to its cheapest center.
    """
    sizes = np.maximum(ask.sizes, 2).astype(np.float64)
    squared = squared_distances(x, centers)
    left_out = squared * (sizes / (sizes - 1)) ** 2
    if not len(ask.point):
        return np.asarray(left_out[np.arange(len(x)), (squared + ask.shift[group]).argmin(axis=1)])
    from scipy.sparse import coo_array

    shape = (int(ask.point.max()) + 1, len(centers))
    masses = coo_array((ask.mass.astype(np.float64), (ask.point, ask.center)), shape=shape).tocsr()[point]
    return np.asarray(masses.multiply(left_out).sum(axis=1)).ravel() / np.asarray(masses.sum(axis=1)).ravel()
