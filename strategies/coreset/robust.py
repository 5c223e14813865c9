"""Sites whose rows lie far from those of all others: a note names them, and `coreset.robust` leaves them out."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from numerics.coreset.weighted_points import WeightedPoints, moments
from strategies.coreset.pooled_coreset import PooledCoreset

FEWEST_SITES = 3
"""Sites that are needed to tell which one is far from the others."""
FARTHEST = 5.0
"""Root mean square distance of a site's rows from the middle, in units of most sites; farther sites are named."""


def far_sites(pool: PooledCoreset) -> dict[str, str]:
    """Return the sites that lie too far from the others, and how far each lies, in words.

    The middle is, in each column, the median of the sites' means; the unit of a column is the median of the sites' root
    mean square distances from it. Fewer than half of the sites can move neither of them far.

    Examples
    --------
    >>> from protocols.coreset.payloads import Summary
    >>> def summary(x):
    ...     points = np.array([[x], [x + 2.0]])
    ...     return Summary(("age",), ("F",), points, np.array([5, 5]), np.zeros(2, int), np.zeros(1), 10, 0, 0)
    >>> pool = PooledCoreset.of({"a": summary(30.0), "b": summary(31.0), "c": summary(1030.0)}, scaled=True)
    >>> list(far_sites(pool))
    ['c']
    """
    if len(pool.summaries) < FEWEST_SITES:
        return {}
    own = {
        site: moments(WeightedPoints(answer.points, answer.weights, answer.group, answer.movement))
        for site, answer in pool.summaries.items()
    }
    means, variances = (np.stack(each) for each in zip(*own.values(), strict=True))
    squares = variances + (means - np.median(means, axis=0)) ** 2
    unit = np.median(squares, axis=0)
    distance = _root_mean(squares / np.where(unit > 0, unit, 1.0))
    return {
        site: f"its rows are {far:.3g} times as far from the middle as those of most sites"
        for site, far in zip(own, distance.tolist(), strict=True)
        if far > FARTHEST
    }


def _root_mean(squares: Float64[np.ndarray, "sites d"]) -> Float64[np.ndarray, "sites"]:
    return np.asarray(np.sqrt(squares.mean(axis=1)))
