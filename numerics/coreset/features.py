"""BICO's clustering features: one pass over the rows, a bounded number of features, each of bounded cost.

Fichtenberger, Gillé, Schmidt, Schwiegelshohn, Sohler: BICO: BIRCH Meets Coresets for k-Means Clustering, ESA 2013.

A feature is a weight, a mean and the cost of what it holds around that mean. A row joins the nearest feature unless the
feature would then cost more than the threshold T; then it opens one. When there are too many features, T grows and the
features are inserted anew, as weighted rows that bring their cost along.

BICO finds the feature on a path down a tree of references, of which those on top take whatever is within a large
radius. Here the path is the whole set of features, which `numerics.coreset.nearest_neighbours` makes fast enough, and
the reference is the mean: the same bound of T for every feature, with which rows were seen to move half as far or less.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int32, Int64
from scipy.spatial.distance import cdist

from numerics.coreset.compiler import njit
from numerics.coreset.nearest_neighbours import LANES, Chunks, empty_chunks, nearest_in

_GROWTH = 1.25
"""T grows by this factor. BICO doubles it: rows were seen to move up to 1.6 times as far; finer steps gain little."""
_FREED = 16
"""T grows until at least one feature in so many is free again."""
_SAMPLE = 128
"""Features whose distance to the nearest of the others says where T starts."""
_SMALLEST = float(np.finfo(np.float64).tiny)
_UNLIMITED = np.iinfo(np.int64).max


class Inserted(NamedTuple):
    """What an insertion did.

    Attributes
    ----------
    slots : ndarray
        ``(n,)`` the feature that holds each row now.
    moved : ndarray
        ``(features before,)`` the feature that holds now what each earlier feature held.
    """

    slots: Int32[np.ndarray, "n"]
    moved: Int32[np.ndarray, "before"]


class _State(NamedTuple):
    mean: Chunks
    weight: Float64[np.ndarray, "size"]
    cost: Float64[np.ndarray, "size"]
    used: Int64[np.ndarray, "1"]


class Features:
    """At most so many clustering features.

    Once there were so many different rows, at least three quarters of the features are in use, and stay so.

    Parameters
    ----------
    size : int
        Features at most; at least 1.
    dimension : int
        Coordinates of a row.

    Attributes
    ----------
    threshold : float
        T: what no feature costs more than; 0 while only equal rows share one.
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
        """Means of the features in use."""
        place = np.arange(self.in_use)
        return self._state.mean[place // LANES, :, place % LANES]

    @property
    def nbytes(self) -> int:
        """Bytes held, whatever the number of rows."""
        return sum(array.nbytes for array in self._state)

    def insert(
        self,
        x: Float64[np.ndarray, "n d"],
        weights: Float64[np.ndarray, "n"] | None = None,
    ) -> Inserted:
        """Insert rows, one after the other.

        Parameters
        ----------
        x : ndarray
            ``(n, d)`` finite.
        weights : ndarray, optional
            ``(n,)`` positive; 1 each unless given.
        """
        x = np.ascontiguousarray(x)
        weights = np.ones(len(x)) if weights is None else weights
        costs = np.zeros(len(x))
        slots = np.empty(len(x), np.int32)
        moved = np.arange(self.in_use, dtype=np.int32)
        done = _insert(self._state, x, weights, costs, 0, self.threshold, _UNLIMITED, slots)
        while done < len(x):
            again = self._make_room()
            slots[:done], moved = again[slots[:done]], again[moved]
            done = _insert(self._state, x, weights, costs, done, self.threshold, _UNLIMITED, slots)
        return Inserted(slots, moved)

    def _make_room(self) -> Int32[np.ndarray, "size"]:
        """Raise T until features are free again; where each feature went."""
        moved = np.arange(self.size, dtype=np.int32)
        # Where distances are few and equal, as between integers, one step of T may let features join by the thousand:
        # no more than a quarter of the size may go.
        least = max(3 * self.size // 4, 1)
        enough = max(self.size - -(-self.size // _FREED), least)
        while True:
            self.threshold = _GROWTH * self.threshold or self._first_threshold()
            means, n = self.means, self.in_use
            weights, costs = self._state.weight[:n].copy(), self._state.cost[:n].copy()
            again = np.empty(n, np.int32)
            self._state.used[0] = 0
            self._state.mean[:] = np.inf
            _insert(self._state, means, weights, costs, 0, self.threshold, n - least, again)
            moved = again[moved]
            if self.in_use <= enough:
                return moved

    def _first_threshold(self) -> float:
        """T at which about one feature in `_FREED` can join another; so far each stands for equal rows."""
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
    """Insert rows from `begin` on until one finds no free feature; the first row that was not inserted.

    After so many `joins` a row opens a feature although another could take it.
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
    """Add a row to a feature unless that then costs more than the threshold."""
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
