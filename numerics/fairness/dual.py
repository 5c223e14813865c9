"""Fair assignment by prices: what a federation needs of its points are sums over them.

With normalised prices s (H x k; `Bounds.normalised`) the sum over points of ``w_p min_c (d_pc + s_{h(p) c})`` is a lower
bound of every fair assignment's cost, equal to it at the best prices (specs/coreset.md, the dual). The minimum is
smoothed, ``-T log sum_c exp(-(d_pc + s_hc) / T)``, so that the sums have a gradient (the masses) and a Hessian.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from .bounds import Bounds

_CHUNK = 262_144
"""Numbers of a chunk: as many as stay in the cache."""


@dataclass(frozen=True, eq=False)
class Priced:
    """Sums over points at given prices; those of several sites add up.

    Attributes
    ----------
    exact : float
        Sum of ``w_p min_c (d_pc + s_hc)``.
    value : float
        The same with the smoothed minimum, which is nowhere larger; its derivatives with respect to the prices are
        `masses` and ``-curvature``.
    masses : ndarray
        ``(H, k)`` of each colour at each center.
    curvature : ndarray
        ``(H, k, k)``, of each colour ``sum_p w_p (diag(q_p) - q_p q_p') / T`` with q_p the point's shares of centers;
        zero at temperature 0, where masses are those of the best centers.
    """

    exact: float
    value: float
    masses: Float64[np.ndarray, "H k"]
    curvature: Float64[np.ndarray, "H k k"]

    def __add__(self, other: Priced) -> Priced:
        return Priced(
            self.exact + other.exact,
            self.value + other.value,
            self.masses + other.masses,
            self.curvature + other.curvature,
        )


def priced(
    squared: Float64[np.ndarray, "n k"],
    weights: Int64[np.ndarray, "n"],
    colours: Int64[np.ndarray, "n"],
    shift: Float64[np.ndarray, "H k"],
    temperature: float,
) -> Priced:
    """What points answer to prices.

    Parameters
    ----------
    squared : ndarray
        ``(n, k)`` squared distances of points and centers.
    weights : ndarray
        ``(n,)`` not negative.
    colours : ndarray
        ``(n,)`` from 0 to below H.
    shift : ndarray
        ``(H, k)`` prices, units of squared distance.
    temperature : float
        T, units of squared distance; 0: no smoothing.
    """
    H, k = shift.shape
    rows = max(1, _CHUNK // k)
    total = Priced(0.0, 0.0, np.zeros((H, k)), np.zeros((H, k, k)))
    for colour in range(H):
        own = np.flatnonzero(colours == colour)
        for start in range(0, len(own), rows):
            part = own[start : start + rows]
            total += _priced_chunk(squared[part] + shift[colour], weights[part].astype(np.float64), colour, H, temperature)
    return total


def _priced_chunk(
    z: Float64[np.ndarray, "n k"], weights: Float64[np.ndarray, "n"], colour: int, H: int, temperature: float
) -> Priced:
    """`priced` of some points of one colour, from their distances with prices."""
    k = z.shape[1]
    masses, curvature = np.zeros((H, k)), np.zeros((H, k, k))
    if temperature <= 0:
        nearest = z.argmin(axis=1)
        masses[colour] = np.bincount(nearest, weights, k)
        exact = float(weights @ z[np.arange(len(z)), nearest])
        return Priced(exact, exact, masses, curvature)
    least = z.min(axis=1)
    z -= least[:, None]
    z /= -temperature
    q = np.exp(z, out=z)
    norm = q.sum(axis=1)
    q /= norm[:, None]
    exact = float(weights @ least)
    weighted = q * weights[:, None]
    masses[colour] = weighted.sum(axis=0)
    curvature[colour] = (np.diag(masses[colour]) - weighted.T @ q) / temperature
    return Priced(exact, exact - temperature * float(weights @ np.log(norm)), masses, curvature)


def duals_of(prices: Float64[np.ndarray, "H k"], bounds: Bounds) -> Float64[np.ndarray, "2 H k"]:
    """Multipliers a, b >= 0 of the lower and the upper bounds that make up normalised prices.

    A center's prices split at the price of the colour that fills its dearest mixture: dearer ones have their upper
    bound, cheaper ones their lower bound.
    """
    order = np.argsort(-prices, axis=0, kind="stable")
    filled = bounds.low.sum() + np.cumsum((bounds.high - bounds.low)[order], axis=0)
    last = np.minimum((filled < 1).sum(axis=0), len(prices) - 1)
    split = np.take_along_axis(prices, np.take_along_axis(order, last[None], axis=0), axis=0)
    return np.stack([np.maximum(split - prices, 0.0), np.maximum(prices - split, 0.0)])


def prices_from(duals: Float64[np.ndarray, "2 H k"], bounds: Bounds) -> Float64[np.ndarray, "H k"]:
    """``s_hc = b_hc - a_hc + sum_j (low_j a_jc - high_j b_jc)``: no fair cluster gains from it for any a, b >= 0."""
    a, b = duals
    prices: Float64[np.ndarray, "H k"] = b - a + (bounds.low @ a - bounds.high @ b)
    return prices


def prices_of(
    squared: Float64[np.ndarray, "n k"],
    weights: Int64[np.ndarray, "n"],
    colours: Int64[np.ndarray, "n"],
    bounds: Bounds,
) -> Float64[np.ndarray, "H k"]:
    """Prices."""
    return np.zeros((len(bounds.low), squared.shape[1]))
