"""Experts by the distance of their centroids (Jalali and Kasneci 2022, Algorithm 2)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from numerics.gp.moments import ExpertMoments
from numerics.shared.distances import squared_distances


def scores(points: Float64[np.ndarray, "N d"], experts: ExpertMoments) -> Float64[np.ndarray, "N M"]:
    """Minus the squared Euclidean distance of every point from every expert's centroid.

    Parameters
    ----------
    points : ndarray
        ``(N, d)``, standardised units.
    experts : ExpertMoments
        Of the M experts, standardised units; only their means are used.

    Returns
    -------
    ndarray
        ``(N, M)``, the larger the better.
    """
    return -squared_distances(points, experts.means)
