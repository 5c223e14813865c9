"""Bins of columns: the quantile in which a value lies, in place of the value."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, UInt8

from numerics.residual.columns_and_outcomes import Columns
from numerics.shared.value_groups import ValueGroups

MOST_BINS = 64
"""Most bins of a column of numbers; a run has these, or a half or a quarter of them."""


@dataclass(frozen=True, eq=False)
class ColumnBins:
    """Bins of a site's columns: first those of numbers, then those of categories.

    Coarser bins are unions of those of `MOST_BINS`. So runs with different numbers of bins together reveal no more than
    one run with the most. A category is numbered by its frequency, and categories of few rows share a number.

    Attributes
    ----------
    features : tuple of str
        Columns of numbers.
    edges : tuple of ndarray
        By column of numbers, the least value of every bin but the first, rising.
    categories : tuple of (str, tuple of int)
        By column of categories, its name and the bin of each category; the last is that of all other values.

    Examples
    --------
    >>> columns = Columns(np.arange(8.0)[:, None], ("age",))
    >>> bins = ColumnBins.of(columns, levels=16, least=4)
    >>> bins.levels, bins.apply(columns).ravel()
    (array([2], dtype=uint8), array([0, 0, 0, 0, 1, 1, 1, 1], dtype=uint8))
    """

    features: tuple[str, ...]
    edges: tuple[Float64[np.ndarray, "_"], ...]
    categories: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def of(cls, columns: Columns, levels: int, least: int) -> ColumnBins:
        """Bin columns by their quantiles, with `least` rows or more a bin; equal values stay together.

        Parameters
        ----------
        columns : Columns
            All rows of the site, not only those in common with other sites.
        levels : int
            Most bins of a column of numbers: `MOST_BINS`, or a half or a quarter of them.
        least : int
            Fewest rows of a bin.
        """
        indicators = {f"{name}={value}" for name, values in columns.categories.items() for value in values}
        features = tuple(name for name in columns.features if name not in indicators)
        x = _columns_of(columns, features)
        groups = ValueGroups.of(x, max(least, -(-len(x) // MOST_BINS)))
        edges = tuple(_merged(each, levels) for each in groups.edges)
        categories = tuple(
            (name, _bins_of_categories(columns, name, values, least)) for name, values in columns.categories.items()
        )
        return cls(features, edges, categories)

    @property
    def levels(self) -> UInt8[np.ndarray, "c"]:
        """Number of bins of each column."""
        numbers = [len(edges) + 1 for edges in self.edges]
        return np.array([*numbers, *(max(bins) + 1 for _, bins in self.categories)], np.uint8)

    def apply(self, columns: Columns) -> UInt8[np.ndarray, "n c"]:
        """Return the bin of every row in every column."""
        x = _columns_of(columns, self.features)
        numbers = [np.searchsorted(edges, each, side="right") for edges, each in zip(self.edges, x.T, strict=True)]
        for name, bins in self.categories:
            indicators = _columns_of(columns, [f"{name}={value}" for value in columns.categories[name]])
            place = np.where(indicators.any(axis=1), indicators.argmax(axis=1), indicators.shape[1])
            numbers.append(np.array(bins)[place])
        return np.column_stack(numbers).astype(np.uint8) if numbers else np.zeros((columns.n, 0), np.uint8)


def _columns_of(columns: Columns, names: Sequence[str]) -> Float64[np.ndarray, "n c"]:
    return columns.x[:, [columns.features.index(name) for name in names]]


def _merged(edges: Float64[np.ndarray, "_"], levels: int) -> Float64[np.ndarray, "_"]:
    """Return edges of at most this many bins: every second or fourth of the finest."""
    step = 1
    while len(edges[step - 1 :: step]) >= levels:
        step *= 2
    return edges[step - 1 :: step]


def _bins_of_categories(columns: Columns, name: str, values: Sequence[str], least: int) -> tuple[int, ...]:
    """Return the bin of each category, the most frequent first, and of all other values; rare ones share the last."""
    counts = _columns_of(columns, [f"{name}={value}" for value in values]).sum(axis=0).astype(np.int64)
    by_frequency = np.argsort(-counts, kind="stable")
    frequent = by_frequency[counts[by_frequency] >= least]
    others = columns.n - int(counts[frequent].sum())
    if 0 < others < least and len(frequent):  # too few to be a bin of their own
        frequent = frequent[:-1]
    bins: Int64[np.ndarray, "_"] = np.full(len(values) + 1, len(frequent))
    bins[frequent] = np.arange(len(frequent))
    return tuple(bins.tolist())


# -- randomized response ----------------------------------------------------------------------------------------------


def share_replaced(levels: int, epsilon: float) -> float:
    """Return the share of bins that randomized response replaces by others; 0 without it (`epsilon` 0).

    Examples
    --------
    >>> round(share_replaced(32, 4.0), 3)
    0.362
    """
    return float((levels - 1) / (np.exp(epsilon) + levels - 1)) if epsilon else 0.0


def randomized(
    bins: UInt8[np.ndarray, "n c"],
    levels: UInt8[np.ndarray, "c"],
    epsilon: float,
    key: bytes,
    names: Sequence[str],
) -> UInt8[np.ndarray, "n c"]:
    """Replace some bins by others (k-ary randomized response: Kairouz, Bonawitz and Ramage 2016).

    Every bin of a column stays with probability ``e^eps / (e^eps + k - 1)``; otherwise it becomes one of the k - 1
    others, each with equal probability. So the likelihood ratio of two rows is at most ``e^eps`` in a column, and
    ``e^(c eps)`` in all. The draws depend on `key` and the row's name only: a row gets the same draws each time, and
    repeated asks reveal nothing more.

    Parameters
    ----------
    bins, levels
        Bins of the rows, and number of bins of each column.
    epsilon : float
        eps of a column; 0: nothing is replaced.
    key : bytes
        Known to the site only.
    names : Sequence of str
        Names of the rows.

    Examples
    --------
    >>> bins = np.zeros((1000, 1), np.uint8)
    >>> drawn = randomized(bins, np.array([4], np.uint8), np.log(3.0), b"key", [str(i) for i in range(1000)])
    >>> bool(abs((drawn == 0).mean() - 0.5) < 0.05), sorted(set(drawn.ravel().tolist()))
    (True, [0, 1, 2, 3])
    """
    n, c = bins.shape
    if not (epsilon and n and c):
        return bins
    words = [hashlib.shake_256(key + name.encode("utf-8", "surrogatepass")).digest(16 * c) for name in names]
    draws = np.frombuffer(b"".join(words), "<u8").reshape(n, c, 2) / 2.0**64
    k = levels.astype(np.float64)
    replaced = draws[:, :, 0] < [share_replaced(int(each), epsilon) for each in levels]
    others = np.minimum(np.floor(draws[:, :, 1] * (k - 1)), np.maximum(k - 2, 0))
    others += others >= bins
    return np.where(replaced, others, bins).astype(np.uint8)
