"""Sites whose rows lie far from those of all others: a note names them, and `coreset.robust` leaves them out."""

from __future__ import annotations

import numpy as np

from numerics.coreset.weighted_points import WeightedPoints, moments
from strategies.coreset.pooled_coreset import PooledCoreset

FEWEST_SITES = 3
"""Fewest sites with which one can be far from the others."""
FARTHEST, NOTABLE = 5.0, 50.0
"""Root mean square distances of a site's rows from the middle, in units of most sites: beyond the first,
`coreset.robust` leaves the site out; beyond the second, a note names it in other runs. Honest sites lie beyond 5 in one
run of 50 (columns of heavy tails, rows sorted along one of them), and at 19 at most (docs/measurements.md, "False
refusals")."""

_ROUNDING = 1e-12
"""Share of a column's values; a smaller distance is a rounding error."""


def far_sites(pool: PooledCoreset, most: float) -> dict[str, str]:
    """Return the sites that lie farther from the others than `most`, each with its distance in words.

    The middle is, in each column, the median of the sites' means; the unit of a column is the median of the sites' root
    mean square distances from it. Fewer than half of the sites can move neither of them far.

    Examples
    --------
    >>> from protocols.coreset.payloads import Summary
    >>> def summary(x):
    ...     points = np.array([[x], [x + 2.0]])
    ...     return Summary(("age",), ("F",), points, np.array([5, 5]), np.zeros(2, int), np.zeros(1), 10, 0, 0)
    >>> pool = PooledCoreset.of({"a": summary(30.0), "b": summary(31.0), "c": summary(1030.0)}, scaled=True)
    >>> list(far_sites(pool, FARTHEST))
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
    # A column in which most sites have one and the same value has no unit of distance.
    varies = unit > (_ROUNDING * np.median(np.abs(means), axis=0)) ** 2
    distance = np.sqrt((squares[:, varies] / unit[varies]).mean(axis=1)) if varies.any() else np.zeros(len(own))
    return {
        site: f"its rows are {float(f'{far:.3g}'):,g} times as far from the middle as those of most sites"
        for site, far in zip(own, distance.tolist(), strict=True)
        if far > most
    }
