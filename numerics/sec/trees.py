"""Evaluation of many regression trees on the same rows at once, with sets of rows as bits.

A scikit-learn forest takes every row down every tree, with a Python call a tree. Here a machine word holds a set of 64
rows. The rows with ``x_j <= threshold`` are the first ones of column j in ascending order, so their set comes from a
table instead of comparisons. The rows of a node are the rows of its parent AND that set. The number of the leaf of each
row is read bit by bit, from the union of the leaves whose number has that bit. The work is proportional to nodes and
words, not to rows and levels, which is faster for small trees; scikit-learn evaluates large ones.

Nothing here checks that the nodes are trees: models are the learner's own, or have passed
`protocols.models.decode_model`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64, UInt64

_WORD = 64
_ROWS_AT_ONCE = 256
"""Rows of a block, whose tables fit into the cache."""
_CALL, _STEP = 3000.0, 6.0
"""Measured nanoseconds of ``tree_.predict``: of a call, and of a row a level."""
_BLOCK, _NODE = 220.0, 17.0
"""Measured nanoseconds here for 64 rows: of a tree, and of each of its nodes."""

Nodes = np.ndarray[Any, np.dtype[Any]]
"""Nodes as scikit-learn stores them: a structured array."""


def nodes_of(tree: Any) -> tuple[Nodes, Float64[np.ndarray, "nodes"]]:
    """Return the nodes of a scikit-learn ``tree_`` with one output, and their values.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> nodes, values = nodes_of(DecisionTreeRegressor().fit([[0.0], [1.0]], [5.0, 7.0]).tree_)
    >>> len(nodes), values
    (3, array([6., 5., 7.]))
    """
    state = tree.__getstate__()
    return state["nodes"], state["values"].reshape(-1)


def worth_it(n_nodes: float, n_rows: int) -> bool:
    """Return whether a tree is evaluated faster here than by its own ``predict``.

    Examples
    --------
    >>> worth_it(n_nodes=31, n_rows=64), worth_it(n_nodes=100_000, n_rows=64)
    (True, False)
    """
    here = -(-n_rows // _WORD) * (_BLOCK + _NODE * n_nodes)
    return bool(here < _CALL + _STEP * n_rows * np.log2(max(n_nodes, 2)))


class Trees:
    """Trees prepared for evaluation.

    Parameters
    ----------
    nodes : ndarray
        Nodes of all trees, one tree after the other.
    values : ndarray
        Prediction of each node.
    starts : ndarray
        Index of each tree's first node, ascending; at least one tree.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> nodes, values = nodes_of(DecisionTreeRegressor().fit([[0.0], [1.0]], [5.0, 7.0]).tree_)
    >>> Trees(nodes, values, np.array([0])).sums(np.array([[0.2], [0.9]], np.float32), np.array([0]))
    array([[5., 7.]])
    """

    def __init__(self, nodes: Nodes, values: Float64[np.ndarray, "nodes"], starts: Int64[np.ndarray, "trees"]) -> None:
        sizes = np.diff(starts, append=len(nodes))
        left = nodes["left_child"] + np.repeat(starts, sizes)
        right = nodes["right_child"] + np.repeat(starts, sizes)
        is_inner = nodes["left_child"] >= 0
        # Nodes by depth: the next level consists of this level's left children, then of its right children.
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
        """Number every tree's leaves from 0, and store bit b of each number as the mask of a word."""
        place = np.empty_like(by_depth)
        place[by_depth] = np.arange(len(by_depth))
        leaves = np.flatnonzero(~is_inner)
        self._leaves, self._leaf_value = place[leaves], values[leaves]
        self._first_leaf = np.cumsum(n_leaves) - n_leaves
        number = np.arange(len(leaves)) - np.repeat(self._first_leaf, n_leaves)
        bits = np.arange(int(n_leaves.max() - 1).bit_length())[:, None]
        self._masks = (-((number >> bits) & 1)).astype(np.uint64)

    def _sort_splits(self, feature: Int64[np.ndarray, "inner"], threshold: Float64[np.ndarray, "inner"]) -> None:
        """Group the splits by their input; only inputs with splits are sorted later."""
        narrow = feature.astype(np.int16) if feature.max(initial=0) < 2**15 else feature
        self._order = np.argsort(narrow, kind="stable")  # two-byte integers are sorted by counting
        self._thresholds = threshold[self._order]
        counts = np.bincount(feature)
        self._features = np.flatnonzero(counts)
        self._bounds = np.concatenate([[0], np.cumsum(counts[self._features])])

    def sums(
        self, x: Float32[np.ndarray, "n p"], begins: Int64[np.ndarray, "groups"]
    ) -> Float64[np.ndarray, "groups n"]:
        """Sum the predictions of the trees of every group; each is exactly that of the tree's ``predict``.

        Parameters
        ----------
        x : ndarray
            ``(n, p)`` finite rows, at least one, in single precision as in scikit-learn's trees.
        begins : ndarray
            ``(groups,)`` first tree of each group, ascending from 0.

        Returns
        -------
        ndarray
            ``(groups, n)``.
        """
        blocks = [x[begin : begin + _ROWS_AT_ONCE] for begin in range(0, len(x), _ROWS_AT_ONCE)]
        return np.concatenate([self._sums(block, begins) for block in blocks], axis=1)

    def _sums(
        self, x: Float32[np.ndarray, "n p"], begins: Int64[np.ndarray, "groups"]
    ) -> Float64[np.ndarray, "groups n"]:
        ends = self._ends(x)
        n_words, n_trees = len(ends), len(self._first_leaf)
        # A leaf's number in its tree mostly fits into a byte; only at the end it becomes an index among all leaves.
        number = np.zeros((n_words, n_trees, _WORD), np.uint8 if len(self._masks) <= 8 else np.uint32)
        for bit, mask in enumerate(self._masks):
            words = np.bitwise_or.reduceat(ends & mask, self._first_leaf, axis=1)
            # "<u8": the lowest row of a word comes first on any machine.
            ones = np.unpackbits(words.astype("<u8", copy=False).view(np.uint8), bitorder="little")
            number |= np.left_shift(ones, bit, dtype=number.dtype).reshape(number.shape)
        predictions = self._leaf_value.take(number + self._first_leaf[:, None])
        sums = np.add.reduceat(predictions, begins, axis=1).transpose(1, 0, 2)
        return np.asarray(sums.reshape(len(begins), -1)[:, : len(x)])

    def _ends(self, x: Float32[np.ndarray, "n p"]) -> UInt64[np.ndarray, "words leaves"]:
        """Return the rows of every leaf."""
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
        """Return the rows with ``x_feature <= threshold`` of every inner node, in their order."""
        n, n_words = len(x), -(-len(x) // _WORD)
        columns = x[:, self._features].T.astype(np.float64)  # thresholds are double, as in scikit-learn
        order = np.argsort(columns, axis=1)
        columns = np.take_along_axis(columns, order, axis=1)
        # first[w, f, r]: word w of the set of the r rows that have the smallest x_f.
        first = np.zeros((n_words, len(self._features), n + 1), np.uint64)
        each, place = np.indices(order.shape)
        first[order // _WORD, each, place + 1] = np.uint64(1) << (order % _WORD).astype(np.uint64)
        np.cumsum(first, axis=2, out=first)  # the sum of disjoint sets is their union
        key = np.empty(len(self._order), np.int64)
        for f, column in enumerate(columns):
            begin, end = self._bounds[f], self._bounds[f + 1]
            rank = np.searchsorted(column, self._thresholds[begin:end], side="right")
            key[self._order[begin:end]] = rank + f * (n + 1)
        return np.asarray(first.reshape(n_words, -1).take(key, axis=1))
