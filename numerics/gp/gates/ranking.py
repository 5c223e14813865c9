"""Order of the experts by their scores."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64


def ranking(scores: Float64[np.ndarray, "N M"]) -> Int64[np.ndarray, "N M"]:
    """Order all experts of every point, the best first; with equal scores, the smaller number comes first.

    Examples
    --------
    >>> ranking(np.array([[0.1, 0.9, 0.1]]))
    array([[1, 0, 2]])
    """
    return np.argsort(-scores, axis=1, kind="stable").astype(np.int64)


def best(scores: Float64[np.ndarray, "N M"], K: int) -> Int64[np.ndarray, "N K"]:
    """Select the K best experts of every point, the best first: the first K of `ranking`.

    Examples
    --------
    >>> best(np.array([[0.1, 0.9, 0.5]]), 2)
    array([[1, 2]])
    """
    return ranking(scores)[:, :K]
