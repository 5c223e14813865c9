"""Experts in the order of their scores."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64


def ranking(scores: Float64[np.ndarray, "N M"]) -> Int64[np.ndarray, "N M"]:
    """All experts of every point, the best first; of equal scores the expert with the smaller number."""
    return np.argsort(-scores, axis=1, kind="stable").astype(np.int64)


def best(scores: Float64[np.ndarray, "N M"], K: int) -> Int64[np.ndarray, "N K"]:
    """The K best experts of every point, the best first: the first K of `ranking`."""
    return ranking(scores)[:, :K]
