"""Rules that name the points of one cluster: up to three thresholds, grown like a branch of a decision tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

MOST_CONDITIONS = 3
"""Largest number of thresholds of a rule."""
_LEAST_GAIN = 0.01
"""Smallest increase of the share that is named rightly for which a rule gets another threshold."""


@dataclass(frozen=True)
class Condition:
    """A column is above a threshold, or not above it.

    Attributes
    ----------
    column : int
        Number of the column.
    above : bool
        Whether it is above.
    threshold : float
        In the units of the points.
    """

    column: int
    above: bool
    threshold: float

    def holds(self, x: Float64[np.ndarray, "n d"]) -> Bool[np.ndarray, "n"]:
        """Return for which points it holds.

        Examples
        --------
        >>> Condition(0, True, 2.5).holds(np.array([[1.0], [3.0]])).tolist()
        [False, True]
        """
        above = x[:, self.column] > self.threshold
        return above if self.above else ~above


@dataclass(frozen=True)
class Rule:
    """Conditions that all hold for the points that a rule names.

    Attributes
    ----------
    conditions : tuple of Condition
        None: it names all points.
    right : float
        Weight of the cluster's points that it names, over the weight of all points that are in the cluster or named.
    """

    conditions: tuple[Condition, ...]
    right: float


def rule_for(x: Float64[np.ndarray, "n d"], inside: Float64[np.ndarray, "n"], weights: Int64[np.ndarray, "n"]) -> Rule:
    """Return a rule that names the points of a cluster.

    Every step adds the threshold with which the largest share is named rightly (`Rule.right`).

    Parameters
    ----------
    x : ndarray
        ``(n, d)`` points.
    inside : ndarray
        ``(n,)`` weight of each that is in the cluster.
    weights : ndarray
        ``(n,)`` weights.

    Examples
    --------
    >>> x = np.array([[20.0, 1.0], [30.0, 7.0], [60.0, 2.0], [70.0, 8.0]])
    >>> rule_for(x, np.array([0.0, 0.0, 0.0, 5.0]), np.array([5, 5, 5, 5]))
    Rule(conditions=(Condition(column=0, above=True, threshold=65.0),), right=1.0)
    """
    weights = weights.astype(np.float64)
    total, named = float(inside.sum()), np.ones(len(x), bool)
    rule = Rule((), total / float(weights.sum()))
    while len(rule.conditions) < MOST_CONDITIONS:
        own = np.flatnonzero(named)
        best = max(
            (_best_threshold(x[own, j], inside[own], weights[own], total, j) for j in range(x.shape[1])),
            key=lambda each: each[0],
        )
        if best[1] is None or best[0] < rule.right + _LEAST_GAIN:
            break
        rule = Rule((*rule.conditions, best[1]), best[0])
        named &= best[1].holds(x)
    return rule


def _best_threshold(
    values: Float64[np.ndarray, "m"],
    inside: Float64[np.ndarray, "m"],
    weights: Float64[np.ndarray, "m"],
    total: float,
    column: int,
) -> tuple[float, Condition | None]:
    """Return the best threshold of a column, and the share that is named rightly with it."""
    order = np.argsort(values, kind="stable")
    values = values[order]
    between = np.flatnonzero(np.diff(values) > 0)
    if not len(between):
        return -1.0, None
    below = np.stack([np.cumsum(inside[order]), np.cumsum(weights[order])])
    sides = below[:, between], below[:, -1:] - below[:, between]
    shares = np.stack([hit / (total + named - hit) for hit, named in sides])
    side, place = np.unravel_index(shares.argmax(), shares.shape)
    low, high = values[between[place]], values[between[place] + 1]
    return float(shares[side, place]), Condition(column, bool(side == 1), float(low + (high - low) / 2))
