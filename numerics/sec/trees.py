"""Many regression trees on the same rows at once: rows as bits, all trees a level at a time.

A scikit-learn forest walks every row down every tree, and pays for a Python call per tree as well. Here a set of rows
is 64 to a machine word. The rows that pass ``x_j <= threshold`` are the first so many of column j in rising order, so
the set is looked up, not compared; a node's rows are its parent's rows AND that set; and the leaf that a row ends in is
read off one bit at a time, from the union of the leaves whose number has that bit. Work is per node and 64 rows rather
than per row and level, which wins while trees are small; large ones are walked by scikit-learn.

Nobody looks here whether the nodes make trees: models are the learner's own, or passed `protocols.models.decode_model`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64, UInt64

_WORD = 64
_ROWS_AT_ONCE = 256
"""Rows of a block: its tables stay in the cache with any number of rows."""
_CALL, _STEP = 3000.0, 6.0
"""Nanoseconds of ``tree_.predict``, measured: a call, and a row one level down."""
_BLOCK, _NODE = 220.0, 17.0
"""Nanoseconds here, measured, for 64 rows: a tree, and a node of it."""

Nodes = np.ndarray[Any, np.dtype[Any]]
"""Nodes as scikit-learn keeps them: a structured array."""


def nodes_of(tree: Any) -> tuple[Nodes, Float64[np.ndarray, "nodes"]]:
    """Nodes and their values of a scikit-learn ``tree_`` with one output."""
    state = tree.__getstate__()
    return state["nodes"], state["values"].reshape(-1)


def worth_it(n_nodes: float, n_rows: int) -> bool:
    """Whether a tree of so many nodes is evaluated faster here than by its own ``predict``."""
    here = -(-n_rows // _WORD) * (_BLOCK + _NODE * n_nodes)
    return bool(here < _CALL + _STEP * n_rows * np.log2(max(n_nodes, 2)))


class Trees:
    """Trees prepared for evaluation.

    Parameters
    ----------
    nodes : ndarray
        Nodes of all trees, one tree after the other.
    values : ndarray
        What each node predicts.
    starts : ndarray
        Where each tree begins, rising; at least one tree.
    """

    def __init__(self, nodes: Nodes, values: Float64[np.ndarray, "nodes"], starts: Int64[np.ndarray, "trees"]) -> None:
        sizes = np.diff(starts, append=len(nodes))
        left = nodes["left_child"] + np.repeat(starts, sizes)
        right = nodes["right_child"] + np.repeat(starts, sizes)
        is_inner = nodes["left_child"] >= 0
        # Nodes in the order of their depth: a level's left children, then its right children, make the next one.
        self._levels: list[tuple[int, Int64[np.ndarray, "inner"]]] = []
        levels = [starts]
        while len(levels[-1]):
            inner = np.flatnonzero(is_inner[levels[-1]])
            self._levels.append((len(levels[-1]), inner))
            parents = levels[-1][inner]
            levels.append(np.concatenate([left[parents], right[parents]]))
        by_depth = np.concatenate(levels)
        self._number_leaves(by_depth, values, is_inner, (sizes + 1) // 2)
        inner = by_depth[is_inner[by_depth]]
        self._sort_splits(nodes["feature"][inner], nodes["threshold"][inner])

    def _number_leaves(
        self,
        by_depth: Int64[np.ndarray, "nodes"],
        values: Float64[np.ndarray, "nodes"],
        is_inner: Bool[np.ndarray, "nodes"],
        n_leaves: Int64[np.ndarray, "trees"],
    ) -> None:
        """Number every tree's leaves from 0; bit b of the number, as a mask of a whole word, for every leaf."""
        place = np.empty_like(by_depth)
        place[by_depth] = np.arange(len(by_depth))
        leaves = np.flatnonzero(~is_inner)
        self._leaves, self._leaf_value = place[leaves], values[leaves]
        self._first_leaf = np.cumsum(n_leaves) - n_leaves
        number = np.arange(len(leaves)) - np.repeat(self._first_leaf, n_leaves)
        bits = np.arange(int(n_leaves.max() - 1).bit_length())[:, None]
        self._masks = (-((number >> bits) & 1)).astype(np.uint64)

    def _sort_splits(self, feature: Int64[np.ndarray, "inner"], threshold: Float64[np.ndarray, "inner"]) -> None:
        """Group the splits by the input they ask for; only inputs that are asked for are ever sorted."""
        narrow = feature.astype(np.int16) if feature.max(initial=0) < 2**15 else feature
        self._order = np.argsort(narrow, kind="stable")  # two-byte integers are sorted by counting
        self._thresholds = threshold[self._order]
        counts = np.bincount(feature)
        self._features = np.flatnonzero(counts)
        self._bounds = np.concatenate([[0], np.cumsum(counts[self._features])])

    def sums(
        self, x: Float32[np.ndarray, "n p"], begins: Int64[np.ndarray, "groups"]
    ) -> Float64[np.ndarray, "groups n"]:
        """What the trees of every group say about every row, added up; each says exactly what its ``predict`` says.

        Parameters
        ----------
        x : ndarray
            ``(n, p)`` finite rows, at least one, in single precision as scikit-learn's trees see them.
        begins : ndarray
            The first tree of each group, rising from 0.
        """
        blocks = [x[begin : begin + _ROWS_AT_ONCE] for begin in range(0, len(x), _ROWS_AT_ONCE)]
        return np.concatenate([self._sums(block, begins) for block in blocks], axis=1)

    def _sums(
        self, x: Float32[np.ndarray, "n p"], begins: Int64[np.ndarray, "groups"]
    ) -> Float64[np.ndarray, "groups n"]:
        ends = self._ends(x)
        n_words, n_trees = len(ends), len(self._first_leaf)
        # A leaf's number in its tree fits one byte, mostly; it grows to a place among all leaves only at the end.
        number = np.zeros((n_words, n_trees, _WORD), np.uint8 if len(self._masks) <= 8 else np.uint32)
        for bit, mask in enumerate(self._masks):
            words = np.bitwise_or.reduceat(ends & mask, self._first_leaf, axis=1)
            # "<u8": on any machine the lowest row of a word comes out first.
            ones = np.unpackbits(words.astype("<u8", copy=False).view(np.uint8), bitorder="little")
            number |= np.left_shift(ones, bit, dtype=number.dtype).reshape(number.shape)
        said = self._leaf_value.take(number + self._first_leaf[:, None])
        sums = np.add.reduceat(said, begins, axis=1).transpose(1, 0, 2)
        return np.asarray(sums.reshape(len(begins), -1)[:, : len(x)])

    def _ends(self, x: Float32[np.ndarray, "n p"]) -> UInt64[np.ndarray, "words leaves"]:
        """For every leaf the rows that end in it."""
        passed = self._passed(x)
        reached = np.empty((len(passed), sum(size for size, _ in self._levels)), np.uint64)
        reached[:, : self._levels[0][0]] = ~np.uint64(0)
        begin = split = 0
        for size, inner in self._levels:
            end, m = begin + size, len(inner)
            rows = reached[:, begin:end].take(inner, axis=1)
            left = np.bitwise_and(rows, passed[:, split : split + m], out=reached[:, end : end + m])
            np.bitwise_xor(rows, left, out=reached[:, end + m : end + 2 * m])
            begin, split = end, split + m
        return reached.take(self._leaves, axis=1)

    def _passed(self, x: Float32[np.ndarray, "n p"]) -> UInt64[np.ndarray, "words inner"]:
        """For every inner node, in their order, the rows with ``x_feature <= threshold``."""
        n, n_words = len(x), -(-len(x) // _WORD)
        columns = x[:, self._features].T.astype(np.float64)  # thresholds are double: compared as scikit-learn does
        order = np.argsort(columns, axis=1)
        columns = np.take_along_axis(columns, order, axis=1)
        # first[w, f, r]: word w of the set of the r rows that have the smallest x_f.
        first = np.zeros((n_words, len(self._features), n + 1), np.uint64)
        each, place = np.indices(order.shape)
        first[order // _WORD, each, place + 1] = np.uint64(1) << (order % _WORD).astype(np.uint64)
        np.cumsum(first, axis=2, out=first)  # sets that share no row: their sum is their union
        key = np.empty(len(self._order), np.int64)
        for f, column in enumerate(columns):
            begin, end = self._bounds[f], self._bounds[f + 1]
            rank = np.searchsorted(column, self._thresholds[begin:end], side="right")
            key[self._order[begin:end]] = rank + f * (n + 1)
        return np.asarray(first.reshape(n_words, -1).take(key, axis=1))
