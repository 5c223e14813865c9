"""Clustering features of BICO: one pass over the rows, a bounded number of features, each of bounded cost.

Source: Fichtenberger, Gillé, Schmidt, Schwiegelshohn and Sohler, BICO: BIRCH Meets Coresets for k-Means Clustering (ESA
2013).

A feature has a weight, a mean, and a cost: the squared distances of its rows from the mean. A row joins the nearest
feature, unless the feature would then cost more than the threshold T; then the row opens a new feature. When the
features are too many, T grows, and the features are inserted again, as weighted rows that keep their cost.

BICO searches the feature on a path down a tree of reference points, where those near the root take all rows within a
large radius. This module searches all features, which `numerics.coreset.nearest_neighbors` makes fast enough, and takes
the mean as the reference point. The bound T is the same; in measurements, rows moved at most half as far.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int32, Int64
from scipy.spatial.distance import cdist

from numerics.coreset.compiler import njit
from numerics.coreset.nearest_neighbors import LANES, Chunks, empty_chunks, nearest_in

_GROWTH = 1.25
"""Factor by which T grows. BICO doubles T; in measurements, rows then moved up to 1.6 times as far."""
_FREED = 16
"""T grows until at least one in this number of features is free again."""
_SAMPLE = 128
"""Number of features whose distances to their nearest neighbors determine the first T."""
_SMALLEST = float(np.finfo(np.float64).tiny)
_UNLIMITED = np.iinfo(np.int64).max


class Insertion(NamedTuple):
    """Result of an insertion.

    Attributes
    ----------
    slots : ndarray
        ``(n,)`` feature that contains each row.
    moved : ndarray
        ``(features before,)`` feature that now contains each earlier feature.
    """

    slots: Int32[np.ndarray, "n"]
    moved: Int32[np.ndarray, "before"]


class _State(NamedTuple):
    mean: Chunks
    weight: Float64[np.ndarray, "size"]
    cost: Float64[np.ndarray, "size"]
    used: Int64[np.ndarray, "1"]


class Features:
    """A bounded number of clustering features.

    After `size` different rows, at least three quarters of the features are in use at any time.

    Parameters
    ----------
    size : int
        Largest number of features; at least 1.
    dimension : int
        Number of coordinates of a row.

    Attributes
    ----------
    threshold : float
        Largest cost of a feature, T; 0 while only equal rows share a feature.

    Examples
    --------
    >>> features = Features(size=2, dimension=1)
    >>> features.insert(np.array([[0.0], [0.1], [9.0]])).slots
    array([0, 0, 1], dtype=int32)
    >>> features.means
    array([[0.05],
           [9.  ]])
    """

    def __init__(self, size: int, dimension: int) -> None:
        self.size = size
        self.threshold = 0.0
        self._state = _State(empty_chunks(size, dimension), np.empty(size), np.empty(size), np.zeros(1, np.int64))

    @property
    def in_use(self) -> int:
        """Number of features in use."""
        return int(self._state.used[0])

    @property
    def means(self) -> Float64[np.ndarray, "features d"]:
        """``(features, d)`` means of the features in use."""
        place = np.arange(self.in_use)
        return self._state.mean[place // LANES, :, place % LANES]

    @property
    def nbytes(self) -> int:
        """Bytes in memory, which do not depend on the number of rows."""
        return sum(array.nbytes for array in self._state)

    def insert(
        self,
        x: Float64[np.ndarray, "n d"],
        weights: Float64[np.ndarray, "n"] | None = None,
    ) -> Insertion:
        """Insert rows, one after the other.

        Parameters
        ----------
        x : ndarray
            ``(n, d)`` finite rows.
        weights : ndarray, optional
            ``(n,)`` positive weights; 1 by default.
        """
        x = np.ascontiguousarray(x)
        weights = np.ones(len(x)) if weights is None else weights
        costs = np.zeros(len(x))
        slots = np.empty(len(x), np.int32)
        moved = np.arange(self.in_use, dtype=np.int32)
        done = _insert(self._state, x, weights, costs, 0, self.threshold, _UNLIMITED, slots)
        while done < len(x):
            merged = self._make_room()
            slots[:done], moved = merged[slots[:done]], merged[moved]
            done = _insert(self._state, x, weights, costs, done, self.threshold, _UNLIMITED, slots)
        return Insertion(slots, moved)

    def _make_room(self) -> Int32[np.ndarray, "size"]:
        """Raise T until features are free again, and return the feature that now contains each earlier one."""
        moved = np.arange(self.size, dtype=np.int32)
        # Between integers, many distances are equal, and one step of T could merge features by the thousand: at most a
        # quarter of them may merge.
        least = max(3 * self.size // 4, 1)
        enough = max(self.size - -(-self.size // _FREED), least)
        while True:
            self.threshold = _GROWTH * self.threshold or self._first_threshold()
            means, n = self.means, self.in_use
            weights, costs = self._state.weight[:n].copy(), self._state.cost[:n].copy()
            merged = np.empty(n, np.int32)
            self._state.used[0] = 0
            self._state.mean[:] = np.inf
            _insert(self._state, means, weights, costs, 0, self.threshold, n - least, merged)
            moved = merged[moved]
            if self.in_use <= enough:
                return moved

    def _first_threshold(self) -> float:
        """Return the T at which about one feature in `_FREED` can join another; so far each contains equal rows."""
        means = self.means
        n = min(_SAMPLE, len(means) // 2)
        if not n:
            return _SMALLEST
        gaps = cdist(means[:n], means[n:], "sqeuclidean").min(axis=1)
        return max(float(np.quantile(gaps, 1 / _FREED)) / 2, _SMALLEST)


@njit(cache=True)
def _insert(
    state: _State,
    x: Float64[np.ndarray, "n d"],
    weights: Float64[np.ndarray, "n"],
    costs: Float64[np.ndarray, "n"],
    begin: int,
    threshold: float,
    joins: int,
    slots: Int32[np.ndarray, "n"],
) -> int:
    """Insert rows from `begin` until one needs a new feature and none is free; return the first row not inserted.

    After `joins` rows have joined a feature, every further row opens a new one.
    """
    squared = np.empty(LANES)
    for i in range(begin, len(x)):
        if joins > 0 and state.used[0] > 0:
            nearest = nearest_in(state.mean, state.used[0], x[i], -1, squared)
            if _join(state, nearest, x[i], weights[i], costs[i], threshold):
                joins -= 1
                slots[i] = nearest
                continue
        feature = state.used[0]
        if feature == len(state.weight):
            return i
        state.used[0] += 1
        state.mean[feature // LANES, :, feature % LANES] = x[i]
        state.weight[feature], state.cost[feature] = weights[i], costs[i]
        slots[i] = feature
    return len(x)


@njit(cache=True)
def _join(
    state: _State, feature: int, x: Float64[np.ndarray, "d"], weight: float, cost: float, threshold: float
) -> bool:
    """Add a row to a feature, unless the feature would then cost more than the threshold; return whether it joined."""
    mean, before = state.mean[feature // LANES, :, feature % LANES], state.weight[feature]
    share = weight / (before + weight)
    distance = 0.0
    for j in range(len(x)):
        distance += (x[j] - mean[j]) ** 2
    total = state.cost[feature] + cost + share * before * distance
    if total > threshold:
        return False
    for j in range(len(x)):
        mean[j] += share * (x[j] - mean[j])
    state.weight[feature] += weight
    state.cost[feature] = total
    return True
