"""Profile of each cluster: mean and spread of every column, what stands out, and a rule that names its points.

The center computes it from the clustered points: nothing more leaves a site. A point is the mean of its rows, so the
mean of a cluster is exact if whole points go to one center. Its spread is that of the points plus the movement. The
center knows the movement's sum over all rows only, so every row counts with the same share of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from numerics.coreset.rules import Rule, rule_for
from strategies.coreset.outcome import CoresetOutcome

_APART = 0.5
"""Distance from the mean of all rows, in units of the columns, from which a column stands out."""
_MOST_NAMED = 3
"""Largest number of columns named for a cluster."""


@dataclass(frozen=True, eq=False)
class Profile:
    """Mean and standard deviation of every column in every cluster, in the units of the data.

    Attributes
    ----------
    mean, spread : ndarray
        ``(k, d)``; NaN for a cluster without points.
    apart : ndarray
        ``(k, d)`` distance of the mean from that of all rows, in units of the columns.
    features : tuple of str
        Names of the columns.
    rules : tuple of Rule
        A rule for each cluster, on points: nothing more leaves a site for it.
    """

    mean: Float64[np.ndarray, "k d"]
    spread: Float64[np.ndarray, "k d"]
    apart: Float64[np.ndarray, "k d"]
    features: tuple[str, ...]
    rules: tuple[Rule, ...] = ()

    def in_words(self, cluster: int) -> str:
        """Describe the columns that stand out in a cluster, the farthest first.

        Examples
        --------
        >>> one = np.array([[61.0, 2.0, 14.0]])
        >>> Profile(one, one, np.array([[1.4, 0.1, -0.8]]), ("age", "days", "iron")).in_words(0)
        'high age (61), low iron (14)'
        """
        apart = np.nan_to_num(self.apart[cluster])
        named = [j for j in np.argsort(-np.abs(apart), kind="stable")[:_MOST_NAMED] if abs(apart[j]) >= _APART]
        return ", ".join(
            f"{'high' if apart[j] > 0 else 'low'} {self.features[j]} ({_text(self.mean[cluster, j])})" for j in named
        )

    def rule_in_words(self, cluster: int) -> str:
        """Return the rule of a cluster.

        Examples
        --------
        >>> from numerics.coreset.rules import Condition
        >>> one, rule = np.ones((1, 2)), Rule((Condition(0, True, 61.25), Condition(1, False, 14.0)), 0.9)
        >>> Profile(one, one, one, ("age", "iron"), (rule,)).rule_in_words(0)
        'age > 61.25 and iron <= 14'
        """
        conditions = self.rules[cluster].conditions
        return " and ".join(
            f"{self.features[each.column]} {'>' if each.above else '<='} {_text(each.threshold)}" for each in conditions
        )


def _text(value: float) -> str:
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def profile_of(outcome: CoresetOutcome) -> Profile:
    """Return the profile of the clusters of an outcome.

    A cluster's variance is that of its points plus the mean movement of a row, as in
    `numerics.coreset.weighted_points.moments`.
    """
    points, assignment = outcome.points, outcome.clustering.assignment
    k, overall, unit = len(outcome.centers.fair), outcome.pool.units[0], outcome.centers.scale
    mass = np.bincount(assignment.center, assignment.mass, k)
    rows = np.where(mass > 0, mass, np.nan)[:, np.newaxis]
    x, weights = points.points[assignment.point] - overall, assignment.mass[:, np.newaxis]
    sums, squares = np.zeros((2, k, x.shape[1]))
    np.add.at(sums, assignment.center, weights * x)
    mean = sums / rows
    np.add.at(squares, assignment.center, weights * (x - np.nan_to_num(mean)[assignment.center]) ** 2)
    variance = squares / rows + points.movement / points.weights.sum()
    return Profile(overall + mean, np.sqrt(variance), mean / unit, outcome.pool.features, _rules(outcome))


def _rules(outcome: CoresetOutcome) -> tuple[Rule, ...]:
    points, assignment = outcome.points, outcome.clustering.assignment
    rules = []
    for cluster in range(len(outcome.centers.fair)):
        own = assignment.center == cluster
        inside = np.bincount(assignment.point[own], assignment.mass[own], len(points.weights))
        rules.append(rule_for(points.points, inside, points.weights) if own.any() else Rule((), 0.0))
    return tuple(rules)
