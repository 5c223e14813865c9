"""Where points go at given prices, and how that changes with the prices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

Prices = Float64[np.ndarray, "H k"]
_NEAREST, _SMALLEST = 1e-9, 1e-100
"""Smallest distance for a temperature: relative to the mean of the points, and if all points are at centers."""
_CHUNK = 262_144
"""Number of distances of a chunk, which fits into the cache."""


@dataclass(frozen=True, eq=False)
class PriceResponse:
    """Sums over points at some prices; those of several sites add up.

    Attributes
    ----------
    exact : float
        Sum of ``w_p min_c (d_pc + s_hc)``.
    masses : ndarray
        ``(H, k)`` mass of each group at each center.
    curvature : ndarray
        ``(H, k, k)`` sum ``sum_p w_p (diag(q_p) - q_p q_p') / T_p`` of each group, with the shares q_p of the centers
        in point p. At temperature 0 it is 0, and the masses are those of the best centers.
    sums : ndarray
        ``(k, d)`` sum ``sum_p w_p q_p x_p`` of the points' coordinates at each center; d is 0 if they were not given.

    `masses` and ``-curvature`` are the derivatives, by the prices, of the sum with the smoothed minimum.

    Examples
    --------
    >>> site = PriceResponse(3.0, np.array([[2.0]]), np.zeros((1, 1, 1)), np.zeros((1, 0)))
    >>> (site + site).masses
    array([[4.]])
    """

    exact: float
    masses: Float64[np.ndarray, "H k"]
    curvature: Float64[np.ndarray, "H k k"]
    sums: Float64[np.ndarray, "k d"]

    def __add__(self, other: PriceResponse) -> PriceResponse:
        return PriceResponse(
            self.exact + other.exact,
            self.masses + other.masses,
            self.curvature + other.curvature,
            self.sums + other.sums,
        )


def price_points(
    squared: Float64[np.ndarray, "n k"],
    weights: Int64[np.ndarray, "n"] | Float64[np.ndarray, "n"],
    groups: Int64[np.ndarray, "n"],
    shift: Prices,
    temperature: float,
    x: Float64[np.ndarray, "n d"] | None = None,
) -> PriceResponse:
    """Compute the sums over points at some prices.

    Parameters
    ----------
    squared : ndarray
        ``(n, k)`` squared distances of points and centers.
    weights : ndarray
        ``(n,)`` not negative.
    groups : ndarray
        ``(n,)`` from 0 to below H.
    shift : ndarray
        ``(H, k)`` prices, units of squared distance.
    temperature : float
        T_p as a share of the median of the point's squared distances; 0 for no smoothing.
    x : ndarray, optional
        ``(n, d)`` coordinates to be summed by center.

    Returns
    -------
    PriceResponse

    Examples
    --------
    A price of 5 at center 0 moves the point to center 1:

    >>> response = price_points(np.array([[1.0, 4.0]]), np.array([2]), np.array([0]), np.array([[5.0, 0.0]]), 0.0)
    >>> response.exact, response.masses
    (8.0, array([[0., 2.]]))
    """
    H, k = shift.shape
    rows = max(1, _CHUNK // k)
    exact = 0.0
    masses, curvature = np.zeros((H, k)), np.zeros((H, k, k))
    x = np.zeros((len(squared), 0)) if x is None else x
    sums = np.zeros((k, x.shape[1]))
    for group in range(H):
        own = np.flatnonzero(groups == group)
        for start in range(0, len(own), rows):
            part = own[start : start + rows]
            z, w = squared[part] + shift[group], weights[part].astype(np.float64)
            if temperature > 0:
                T = _temperatures(squared[part], temperature)
                exact_part, shares = _smooth(z, w, T)
                curvature[group] += np.diag((w / T) @ shares) - (shares * (w / T)[:, None]).T @ shares
            else:
                shares = np.zeros((len(z), k))
                nearest = z.argmin(axis=1)
                shares[np.arange(len(z)), nearest] = 1.0
                exact_part = float(w @ z[np.arange(len(z)), nearest])
            exact += exact_part
            masses[group] += w @ shares
            if x.shape[1]:
                sums += shares.T @ (w[:, None] * x[part])
    return PriceResponse(exact, masses, curvature, sums)


def soft_shares(
    squared: Float64[np.ndarray, "n k"], groups: Int64[np.ndarray, "n"], shift: Prices, temperature: float
) -> Float64[np.ndarray, "n k"]:
    """Return the share of each center in each point, of which `price_points` returns sums; arguments as there.

    Examples
    --------
    >>> soft_shares(np.array([[1.0, 1.0]]), np.array([0]), np.zeros((1, 2)), 0.1).tolist()
    [[0.5, 0.5]]
    """
    return _smooth(squared + shift[groups], np.ones(len(squared)), _temperatures(squared, temperature))[1]


def _temperatures(squared: Float64[np.ndarray, "n k"], temperature: float) -> Float64[np.ndarray, "n"]:
    k = squared.shape[1]
    middle = np.partition(squared, k // 2, axis=1)[:, k // 2]
    # The temperature of a point at the location of most centers must be positive, too.
    return temperature * np.maximum(middle, max(_NEAREST * float(middle.mean()), _SMALLEST))


def _smooth(
    z: Float64[np.ndarray, "n k"], weights: Float64[np.ndarray, "n"], T: Float64[np.ndarray, "n"]
) -> tuple[float, Float64[np.ndarray, "n k"]]:
    """Compute the sum of smallest distances plus prices, and overwrite these by the shares of the centers."""
    least = z.min(axis=1)
    z -= least[:, None]
    z /= -T[:, None]
    q = np.exp(z, out=z)
    q /= q.sum(axis=1)[:, None]
    return float(weights @ least), q
