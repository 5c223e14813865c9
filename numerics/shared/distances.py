"""Squared Euclidean distances from centers."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from scipy.spatial.distance import cdist


def squared_distances(
    points: Float64[np.ndarray, "n d"], centers: Float64[np.ndarray, "k d"]
) -> Float64[np.ndarray, "n k"]:
    """Compute the squared distances of all points from all centers.

    They are sums of squared differences. The faster ``|x|^2 - 2 x c + |c|^2`` loses all digits where points are close
    to a center and far from 0, so that it would not tell which center is nearer.

    Examples
    --------
    >>> squared_distances(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [1.0, 0.0]]))
    array([[25.,  1.]])
    """
    squares: Float64[np.ndarray, "n k"] = cdist(points, centers, "sqeuclidean")
    return squares
