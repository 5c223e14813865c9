"""Spectral clustering of learners (Ng, Jordan and Weiss 2002; Ye, Ding and Ghanadan 2022, algorithm 1)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.linalg import eigh
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from numerics.sec.canonical_order import canonical_order, distinct_rows
from numerics.sec.gap_statistic import gap_choice, gap_curve
from numerics.shared.threads import single_threaded

Method = Literal["eigengap", "gap"]

_K_MAX = 10
_RESTARTS = 10

# A shorter row of eigenvectors is a rounding error: its direction means nothing.
_NO_LENGTH = 1e-10


@dataclass(frozen=True)
class Clustering:
    """Clusters of L learners; an isolated learner, with similarity 0 to all others, is a cluster of its own.

    Attributes
    ----------
    labels : ndarray
        ``(L,)`` numbers 0..k-1, in the order of each cluster's first learner.
    k : int
        Number of clusters, with one for each isolated learner.
    eigenvalues : ndarray
        ``(L,)`` eigenvalues of ``D^-1/2 S D^-1/2``, descending. The first is 1; so is one for every isolated learner.
    gap, gap_error : ndarray
        ``(g,)`` gap statistic and its standard error at 2, 3, ... clusters of the learners that are not isolated;
        empty unless the method was ``"gap"``.
    embedding : ndarray
        ``(L, c)`` the learners' rows of the c largest eigenvectors, of unit length; a zero row stays zero. Each
        isolated learner has an axis of its own, after the others. c is k, or larger if the argument `k` exceeds the
        number of different directions.
    """

    labels: Int64[np.ndarray, "L"]
    k: int
    eigenvalues: Float64[np.ndarray, "L"]
    gap: Float64[np.ndarray, "g"]
    gap_error: Float64[np.ndarray, "g"]
    embedding: Float64[np.ndarray, "L c"]


def cluster(
    s: Float64[np.ndarray, "L L"],
    *,
    k: int = 0,
    method: Method = "eigengap",
    k_min: int = 1,
    k_max: int = 0,
    rng: np.random.Generator,
) -> Clustering:
    """Cluster learners by their similarity.

    Learners with similarity 0 to all others, whose predictions are not finite or extremely wrong, are separated first;
    `k`, `k_min` and `k_max` concern the rest. A permutation of the learners permutes the result exactly, as far as the
    similarities distinguish them. Learners with equal rows of `s` get the same label: there are at most as many
    clusters as different learners, whatever `k` and `k_min` are.

    Parameters
    ----------
    s : ndarray
        ``(L, L)``, symmetric, in [0, 1], diagonal 1, no NaN; L at least 1.
    k : int
        Number of clusters; 0 for a choice by `method`.
    method : {"eigengap", "gap"}
        ``"eigengap"``: the K with the largest drop from eigenvalue K to K + 1. ``"gap"``: the gap statistic of each K's
        embedding. It cannot distinguish 1 from more, so with ``k_min = 1`` the eigen-gap first decides about 1.
    k_min, k_max : int
        Range of the choice; ``k_max = 0`` is the smaller of 10 and L - 1. The choice exceeds L - 1 only if `k_min`
        does: with two learners and ``k_min = 2``, each is a cluster.
    rng : Generator
        Generator of the starts of k-means and of the references of the gap statistic.

    Returns
    -------
    Clustering

    Raises
    ------
    ValueError
        If `s` is empty or has NaN, or a setting is unknown or out of range.

    Examples
    --------
    >>> groups = np.array([0, 1, 0, 1, 0])
    >>> s = np.where(groups[:, np.newaxis] == groups, 1.0, 0.1)
    >>> cluster(s, rng=np.random.default_rng(0)).labels
    array([0, 1, 0, 1, 0])
    """
    _check(s, k, method, k_min, k_max)
    n = len(s)
    alone = _isolated(s)
    rest = np.flatnonzero(~alone)
    with single_threaded():
        spectrum = _Spectrum(s[np.ix_(rest, rest)], max(k, k_min, k_max or _K_MAX))
        gap = gap_error = np.empty(0)
        low, high = _range(k_min, k_max, len(rest), spectrum.n_distinct)
        if method == "gap" and k == 0:
            gap, gap_error = spectrum.gap_curve(high, rng)
        if k == 0:
            k = _choose(spectrum.eigenvalues, gap, gap_error, low, high)
        k = min(k, spectrum.n_distinct)
        embedding = np.zeros((n, k + int(alone.sum())))
        embedding[rest, :k] = spectrum.embedding(k)
        embedding[alone, k:] = np.eye(int(alone.sum()))
        labels = np.empty(n, np.int64)
        labels[rest] = spectrum.labels(k, int(rng.integers(2**31 - 1)))
        labels[alone] = k + np.arange(int(alone.sum()))
    labels = by_first_learner(labels)
    return Clustering(
        labels=labels,
        k=int(labels.max()) + 1,
        eigenvalues=np.sort(np.concatenate([np.ones(int(alone.sum())), spectrum.eigenvalues]))[::-1],
        gap=gap,
        gap_error=gap_error,
        embedding=embedding,
    )


def partitions(
    s: Float64[np.ndarray, "L L"], k_min: int, k_max: int, rng: np.random.Generator
) -> list[Int64[np.ndarray, "L"]]:
    """Cluster learners into every number of clusters from `k_min` to `k_max` (as in `cluster`).

    Examples
    --------
    >>> s = np.where(np.eye(4) + np.eye(4)[::-1] > 0, 1.0, 0.1)
    >>> [labels.tolist() for labels in partitions(s, 1, 2, np.random.default_rng(0))]
    [[0, 0, 0, 0], [0, 1, 1, 0]]
    """
    alone = _isolated(s)
    rest = np.flatnonzero(~alone)
    seed = int(rng.integers(2**31 - 1))
    with single_threaded():
        spectrum = _Spectrum(s[np.ix_(rest, rest)], max(k_min, k_max or _K_MAX))
        low, high = _range(k_min, k_max, len(rest), spectrum.n_distinct)
        every = np.full((max(high - low + 1, 1), len(s)), -1, np.int64)
        every[:, alone] = len(s) + np.arange(int(alone.sum()))
        for row, k in zip(every, range(low, high + 1), strict=False):
            row[rest] = spectrum.labels(k, seed)
    return [by_first_learner(labels) for labels in every]


def _isolated(s: Float64[np.ndarray, "L L"]) -> Bool[np.ndarray, "L"]:
    return np.asarray(((s == 0) | np.eye(len(s), dtype=bool)).all(axis=1) & (len(s) > 1))


def eigengap(eigenvalues: Float64[np.ndarray, "L"], low: int, high: int) -> int:
    """Choose the K from `low` to `high` (below L) with the largest ``lambda_K - lambda_{K+1}``, the smallest in a tie.

    Examples
    --------
    >>> eigengap(np.array([1.0, 0.9, 0.3, 0.1]), low=1, high=3)
    2
    """
    return low + int(np.argmax(eigenvalues[low - 1 : high] - eigenvalues[low : high + 1]))


class _Spectrum:
    """Eigenvectors of the normalized similarity, computed on the distinct learners.

    Learners with equal rows have equal rows of every eigenvector whose eigenvalue is not 0. Each set of them is
    therefore one row and column, weighted by its size c: ``c^1/2 D^-1/2 S D^-1/2 c^1/2`` has the nonzero eigenvalues of
    the matrix of all learners, and its eigenvectors, divided by ``c^1/2``, are theirs.
    """

    def __init__(self, s: Float64[np.ndarray, "n n"], top: int) -> None:
        first, self._which, self._counts = distinct_rows(s)
        order = canonical_order(s[np.ix_(first, first)], self._counts)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        self._which, self._counts, first = place[self._which], self._counts[order], first[order]
        self.n_distinct = len(first)
        matrix = s[np.ix_(first, first)]
        weight = np.sqrt(self._counts / (matrix * self._counts).sum(axis=1))
        matrix = matrix * np.outer(weight, weight)
        top = min(top, self.n_distinct)
        self._vectors = np.empty((self.n_distinct, 0))
        values = np.empty(0)
        if self.n_distinct:
            values = eigh(matrix, eigvals_only=True)
            last = self.n_distinct - 1
            self._vectors = eigh(matrix, subset_by_index=[last - top + 1, last])[1][:, ::-1]
            # Signs are arbitrary; these do not depend on the version of LAPACK.
            largest = np.abs(self._vectors).argmax(axis=0)
            self._vectors = self._vectors * np.sign(self._vectors[largest, np.arange(top)])
        self.eigenvalues = np.sort(np.concatenate([values, np.zeros(len(s) - self.n_distinct)]))[::-1]

    def _rows(self, k: int) -> Float64[np.ndarray, "g k"]:
        """Return the distinct learners' rows of the k largest eigenvectors, of unit length."""
        rows = self._vectors[:, :k]
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(np.divide(rows, length, out=np.zeros_like(rows), where=length > _NO_LENGTH))

    def embedding(self, k: int) -> Float64[np.ndarray, "n k"]:
        """Return these rows for all learners, in the order of the input."""
        return np.asarray(self._rows(k)[self._which])

    def gap_curve(
        self, k_max: int, rng: np.random.Generator
    ) -> tuple[Float64[np.ndarray, "c"], Float64[np.ndarray, "c"]]:
        """Compute the gap statistic of the learners in canonical order."""
        members = np.repeat(np.arange(self.n_distinct), self._counts)
        return gap_curve(lambda k: self._rows(k)[members], k_max, rng)

    def labels(self, k: int, seed: int) -> Int64[np.ndarray, "n"]:
        """Cluster the learners by k-means; there are fewer than k clusters if their rows coincide."""
        if k in (0, 1, self.n_distinct):
            labels = np.arange(self.n_distinct) if k == self.n_distinct else np.zeros(self.n_distinct, np.int64)
        else:
            with warnings.catch_warnings():
                # The warning says that rows coincide: then there are fewer clusters.
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = KMeans(k, n_init=_RESTARTS, random_state=seed)
                labels = model.fit_predict(self._rows(k), sample_weight=self._counts.astype(np.float64))
        return np.asarray(labels.astype(np.int64)[self._which])


def _check(s: Float64[np.ndarray, "L L"], k: int, method: str, k_min: int, k_max: int) -> None:
    if len(s) == 0:
        raise ValueError("there are no learners to cluster")
    if np.isnan(s).any():
        raise ValueError(f"{int(np.isnan(np.triu(s)).sum())} similarities are unknown; complete them before clustering")
    if method not in ("eigengap", "gap"):
        raise ValueError(f"the number of clusters is chosen by 'eigengap' or 'gap', not {method!r}")
    if k < 0 or k_min < 1 or k_max < 0:
        raise ValueError(f"k and k_max must be 0 or more and k_min 1 or more, not k={k}, k_min={k_min}, k_max={k_max}")
    if 0 < k_max < k_min:
        raise ValueError(f"k_max={k_max} is less than k_min={k_min}")


def _range(k_min: int, k_max: int, n: int, n_distinct: int) -> tuple[int, int]:
    """Return the smallest and the largest possible number of clusters of n learners."""
    low = min(k_min, n_distinct)
    return low, max(low, min(k_max or _K_MAX, n - 1, n_distinct))


def _choose(
    eigenvalues: Float64[np.ndarray, "n"],
    gap: Float64[np.ndarray, "c"],
    gap_error: Float64[np.ndarray, "c"],
    low: int,
    high: int,
) -> int:
    """Choose the number of clusters from `low` to `high`, by the gap statistic if available, else by the eigen-gap."""
    if low == high:
        return low
    by_eigenvalues = eigengap(eigenvalues, low, high)
    if len(gap) == 0 or by_eigenvalues == 1:
        return by_eigenvalues
    return gap_choice(gap, gap_error, max(low, 2))


def by_first_learner(labels: Int64[np.ndarray, "L"]) -> Int64[np.ndarray, "L"]:
    """Number the clusters in the order of their first learners.

    Examples
    --------
    >>> by_first_learner(np.array([7, 2, 7, 3]))
    array([0, 1, 0, 2])
    """
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[inverse])
