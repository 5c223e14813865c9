"""A gate by the distance from the experts' centroids (Jalali and Kasneci 2022, Algorithm 2)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from numerics.gp.moments import ExpertMoments
from numerics.shared.distances import squared_distances


def scores(points: Float64[np.ndarray, "N d"], experts: ExpertMoments) -> Float64[np.ndarray, "N M"]:
    """Score every expert at every point by minus the squared Euclidean distance from its centroid.

    Parameters
    ----------
    points : ndarray
        ``(N, d)``, standardized units.
    experts : ExpertMoments
        Moments of the M experts, standardized units; only the means are used.

    Returns
    -------
    ndarray
        ``(N, M)``, the larger the better.

    Examples
    --------
    >>> from numerics.gp.moments import moments_of
    >>> experts = moments_of(np.array([[-1.0], [2.0]]), np.zeros(2), np.array([0, 1]))
    >>> scores(np.zeros((1, 1)), experts)
    array([[-1., -4.]])
    """
    return -squared_distances(points, experts.means)
