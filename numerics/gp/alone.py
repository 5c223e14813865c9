"""Comparison of a site alone with the combined prediction, by sums of squared errors over groups of test points.

A group's sum reveals less than the errors of its points, and the spread of the groups' differences still gives the
standard error of their mean (batch means).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

MOST_POINTS = 1000
"""Largest number of test points at which sites are compared."""


class Difference(NamedTuple):
    """Mean squared error of the combined prediction less that of a site alone, at the same points.

    Attributes
    ----------
    alone : float
        Mean squared error of the site alone.
    difference, error : float
        The difference, and its standard error over groups.
    """

    alone: float
    difference: float
    error: float


def chosen_points(n: int) -> Int64[np.ndarray, "t"]:
    """Return the places of the test points at which sites are compared: at most `MOST_POINTS`, at even steps.

    Examples
    --------
    >>> chosen_points(3), len(chosen_points(5000))
    (array([0, 1, 2]), 1000)
    """
    return np.linspace(0, n - 1, min(n, MOST_POINTS)).astype(np.int64)


def number_of_groups(n: int, most: int, fewest: int) -> int:
    """Return the number of groups over which the errors of n points are summed; 0 if n is too small for two.

    Examples
    --------
    >>> number_of_groups(300, 25, 4), number_of_groups(20, 25, 4), number_of_groups(7, 25, 4)
    (25, 5, 0)
    """
    groups = min(most, n // fewest)
    return groups if groups > 1 else 0


def group_sums(values: Float64[np.ndarray, "t"], groups: int) -> Float64[np.ndarray, "g"]:
    """Sum values over groups; value i is in group ``i % groups``.

    Examples
    --------
    >>> group_sums(np.array([1.0, 2.0, 3.0]), 2)
    array([4., 2.])
    """
    return np.bincount(np.arange(len(values)) % groups, values, groups)


def compare(squares: Float64[np.ndarray, "t"], alone: Float64[np.ndarray, "g"]) -> Difference:
    """Compare the combined prediction with a site alone.

    Parameters
    ----------
    squares : ndarray
        ``(t,)`` squared errors of the combined prediction.
    alone : ndarray
        ``(g,)`` the site's squared errors, summed over groups.

    Examples
    --------
    >>> compare(np.ones(4), np.array([4.0, 6.0])).difference
    -1.5
    """
    t, groups = len(squares), len(alone)
    pairs = group_sums(squares, groups) - alone
    # Groups differ by one point at most: their sums count alike.
    error = float(pairs.std(ddof=1) * np.sqrt(groups) / t)
    return Difference(float(alone.sum() / t), float(pairs.sum() / t), error)
