"""Partition of rows into parts that lie together, by k-means: a large site's experts, and the disjoint partition."""

from __future__ import annotations

import warnings

import numpy as np
from jaxtyping import Float64, Int64
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from numerics.shared.threads import single_threaded

_STARTS = 3
"""Starts of k-means, of which the best is used."""


def split(x: Float64[np.ndarray, "n d"], most: int, rng: np.random.Generator) -> Int64[np.ndarray, "n"]:
    """Split a site's rows among few experts, none with more than `most` rows.

    The rows, standardized by their own moments, are cut in two across the line between the centers of 2-means, none of
    the two parts with less than a quarter of them; parts with more than `most` rows are cut again. Where a part is cut
    does not depend on `most`: of two splits, a part of one holds a part of the other whole, or no row of it. So sums
    over the parts of many splits are sums over whole parts of the finest.

    Parameters
    ----------
    x : ndarray
        ``(n, d)`` rows, at least one, finite; rows may be equal.
    most : int
        Largest number of rows of an expert, at least 1.
    rng : numpy.random.Generator
        Generator of the starts of k-means.

    Returns
    -------
    ndarray
        ``(n,)`` numbers from 0 on without gaps, in the order of the experts' first rows.

    Raises
    ------
    ValueError
        If `most` is below 1.

    Examples
    --------
    >>> split(np.array([[0.0], [9.0], [0.1], [9.1]]), 2, np.random.default_rng(0))
    array([0, 1, 0, 1])
    """
    if most < 1:
        raise ValueError(f"an expert has 1 row or more at most, not {most}")
    z, part = _standardize(x), np.zeros(len(x), np.int64)
    waiting, number = [(np.arange(len(x)), rng)], 0
    with single_threaded():
        while waiting:
            rows, own = waiting.pop()
            if len(rows) <= most:
                part[rows], number = number, number + 1
                continue
            order, natural = _in_two(z[rows], own)
            least = max(1, len(rows) // 4)
            cut = min(max(natural, least), len(rows) - least)
            halves = (np.sort(rows[order[:cut]]), np.sort(rows[order[cut:]]))
            waiting += zip(halves, own.spawn(2), strict=True)
    return _number(part)


def kmeans_parts(x: Float64[np.ndarray, "n d"], M: int, rng: np.random.Generator) -> Int64[np.ndarray, "n"]:
    """Partition rows into M disjoint parts by k-means, standardized by their own moments (Jalali and Kasneci 2022).

    Parameters
    ----------
    x : ndarray
        ``(n, d)`` rows, finite; rows may be equal.
    M : int
        Number of parts, from 1 to n.
    rng : numpy.random.Generator
        Generator of the starts of k-means.

    Returns
    -------
    ndarray
        ``(n,)`` numbers from 0 to below M, in the order of the parts' first rows; no part is empty.

    Raises
    ------
    ValueError
        If there are fewer rows than parts, or M is below 1.

    Examples
    --------
    >>> kmeans_parts(np.array([[0.0], [9.0], [0.1]]), 2, np.random.default_rng(0))
    array([0, 1, 0])
    """
    if not 1 <= M <= len(x):
        raise ValueError(f"{len(x)} rows cannot be {M} parts")
    with single_threaded():
        part = _kmeans(_standardize(x), M, rng)[0]
    for empty in np.flatnonzero(np.bincount(part, minlength=M) == 0):
        # Fewer distinct rows than parts: equal rows may be in two parts.
        rows = np.flatnonzero(part == np.bincount(part).argmax())
        part[rows[len(rows) // 2 :]] = empty
    return _number(part)


def _standardize(x: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n d"]:
    """Subtract the mean of every column and divide by its standard deviation; a constant column is only centered."""
    scale = np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), 1.0)
    return np.asarray((x - x.mean(axis=0)) / scale)


def _kmeans(
    z: Float64[np.ndarray, "n d"], k: int, rng: np.random.Generator
) -> tuple[Int64[np.ndarray, "n"], Float64[np.ndarray, "k d"]]:
    """Return the part of every row, and the centers."""
    model = KMeans(k, n_init=_STARTS, random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings():
        # Fewer distinct rows than parts: `split` and `kmeans_parts` handle that.
        warnings.simplefilter("ignore", ConvergenceWarning)
        part = model.fit_predict(z)
    return part.astype(np.int64), model.cluster_centers_


def _in_two(z: Float64[np.ndarray, "n d"], rng: np.random.Generator) -> tuple[Int64[np.ndarray, "n"], int]:
    """Order the rows along the line between the centers of 2-means, and count those of the first center."""
    part, centers = _kmeans(z, 2, rng)
    order = np.argsort(z @ (centers[1] - centers[0]), kind="stable")
    return order.astype(np.int64), int((part == 0).sum())


def _number(part: Int64[np.ndarray, "n"]) -> Int64[np.ndarray, "n"]:
    """Number the parts in the order of their first rows."""
    _, first, of_row = np.unique(part, return_index=True, return_inverse=True)
    number = np.empty(len(first), np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[of_row]
