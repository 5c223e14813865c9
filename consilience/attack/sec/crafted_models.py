"""Models that a lying fusion center makes up, whose errors on a site's rows tell which rows lie where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float64, UInt8

from protocols.models import encode_model
from protocols.sec.payloads import MOST_ROWS

_LEAF = -1
_BITS = 44
"""Bits of a mean squared error that can be read; the others are rounding."""
LARGEST = 2.0**40
"""Value of a leaf: its square is far larger than any outcome's."""
FINEST = 2.0**-9
"""A box of this width, as a share of the column's range, is not cut further."""


@dataclass
class Boxes:
    """A growing decision tree, whose leaves are boxes in the space of the inputs.

    Examples
    --------
    >>> boxes = Boxes(np.zeros(1), np.ones(1))
    >>> boxes.cut(0), boxes.high[1], boxes.low[2]
    ((1, 2), array([0.5]), array([0.5]))
    """

    first_low: Float64[np.ndarray, "p"]
    first_high: Float64[np.ndarray, "p"]
    feature: list[int] = field(default_factory=lambda: [0])
    threshold: list[float] = field(default_factory=lambda: [0.0])
    left: list[int] = field(default_factory=lambda: [_LEAF])

    def __post_init__(self) -> None:
        self.low, self.high = [self.first_low], [self.first_high]
        self.width = self.first_high - self.first_low

    def cut(self, box: int, column: int | None = None, at: float | None = None) -> tuple[int, int]:
        """Cut a box in two, at the middle of its longest side or at `at` in `column`; return the numbers of both."""
        low, high = self.low[box], self.high[box]
        side = int(np.argmax((high - low) / self.width)) if column is None else column
        threshold = float((low[side] + high[side]) / 2) if at is None else at
        self.feature[box], self.threshold[box], self.left[box] = side, threshold, len(self.left)
        for _ in range(2):
            self.feature.append(0)
            self.threshold.append(0.0)
            self.left.append(_LEAF)
        upper, lower = high.copy(), low.copy()
        upper[side] = lower[side] = threshold
        self.low += [low, lower]
        self.high += [upper, high]
        return len(self.left) - 2, len(self.left) - 1

    def relative_width(self, box: int) -> float:
        """Return the longest side of a box, as a share of the first one's."""
        return float(((self.high[box] - self.low[box]) / self.width).max())

    def model(self, values: Mapping[int, float]) -> UInt8[np.ndarray, "bytes"]:
        """Return the tree as a site would send it, with these values by box, and 0 in all other boxes."""
        from sklearn.tree import DecisionTreeRegressor

        leaves = np.zeros((len(self.left), 1, 1))
        for box, value in values.items():
            leaves[box] = value
        model = DecisionTreeRegressor()
        model.tree_, model.n_outputs_, model.n_features_in_ = self._tree(leaves), 1, len(self.width)
        return encode_model(model)

    def classifier(self, shares: Mapping[int, float], sure: int, k: int) -> UInt8[np.ndarray, "bytes"]:
        """Return the tree as a classifier that gives one of k classes these shares by box, and all alike elsewhere."""
        from sklearn.tree import DecisionTreeClassifier

        leaves = np.full((len(self.left), 1, k), 1 / k)
        for box, share in shares.items():
            leaves[box] = (1 - share) / (k - 1)
            leaves[box, 0, sure] = share
        model = DecisionTreeClassifier()
        model.tree_, model.n_outputs_, model.n_features_in_ = self._tree(leaves), 1, len(self.width)
        model.classes_, model.n_classes_ = np.arange(k), k
        return encode_model(model, k)

    def _tree(self, leaves: Float64[np.ndarray, "n 1 k"]) -> Any:
        from sklearn.tree._tree import NODE_DTYPE, Tree

        n, p = len(self.left), len(self.width)
        left = np.array(self.left)
        nodes = np.zeros(n, NODE_DTYPE)
        nodes["left_child"], nodes["right_child"] = left, np.where(left == _LEAF, _LEAF, left + 1)
        nodes["feature"], nodes["threshold"] = self.feature, self.threshold
        depth = np.zeros(n, np.int64)
        for parent in np.flatnonzero(left != _LEAF):  # children come after their parents
            depth[left[parent] : left[parent] + 2] = depth[parent] + 1
        tree = Tree(p, np.full(1, leaves.shape[2]), 1)
        tree.__setstate__({"max_depth": int(depth.max()), "node_count": n, "nodes": nodes, "values": leaves})
        return tree


def values_of(n: int) -> list[float]:
    """Return values of leaves such that one sum of squares holds the counts of all of them, of n rows in all."""
    bits = n.bit_length()
    return [LARGEST * 2.0 ** (bits * place / 2) for place in range(max(1, _BITS // bits))]


def smallest_excess(n: int) -> float:
    """Return how much more a row in the first box loses by the models of all classes than by knowing nothing."""
    bits = n.bit_length()
    return 2.0 ** (-bits * (max(1, _BITS // bits) - 1))


def shares_of(n: int, k: int) -> list[float]:
    """Return shares of the class that a leaf is sure of, of k, such that one sum of log losses holds all counts."""
    from scipy.optimize import brentq

    def excess(away: float, wanted: float) -> float:
        return float(-np.log1p(k * away) - (k - 1) * np.log1p(-k * away / (k - 1)) - wanted)

    wanted = [smallest_excess(n) * 2.0 ** (n.bit_length() * place) for place in range(len(values_of(n)))]
    away = np.array([brentq(excess, 0.0, 1 - 1 / k - 1e-6, args=(each,), xtol=1e-18) for each in wanted])
    # The site counts one imaginary row for all classes alike (`numerics.shared.classes.align_probabilities`).
    return [float(share) for share in 1 / k + away * (1 + 1 / MOST_ROWS)]


def digits_of(total: float, unit: float, n: int, places: int) -> list[int]:
    """Return the counts that a sum of such losses holds, in units of the first; zeros if the sum cannot be read."""
    if not np.isfinite(total) or total < 0:
        return [0] * places
    bits, rest = n.bit_length(), round(total / unit)
    return [min((rest >> (bits * place)) & ((1 << bits) - 1), n) for place in range(places)]
