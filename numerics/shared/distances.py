"""Squared Euclidean distances from centers."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from scipy.spatial.distance import cdist


def squared_distances(
    points: Float64[np.ndarray, "n d"], centers: Float64[np.ndarray, "k d"]
) -> Float64[np.ndarray, "n k"]:
    """Of every point from every center.

    Formed from differences: the faster ``|x|^2 - 2 x c + |c|^2`` cancels where points lie close to a center and far
    from 0, and what is left then says nothing about which center is nearer.

    Parameters
    ----------
    points : ndarray
        ``(n, d)``.
    centers : ndarray
        ``(k, d)``.

    Returns
    -------
    ndarray
        ``(n, k)``.
    """
    squares: Float64[np.ndarray, "n k"] = cdist(points, centers, "sqeuclidean")
    return squares
