"""What a fair cluster is: every group's share of it lies between two bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

_ROUNDING = 1e-9
"""Relative error at which a number of rows still counts as on its bound."""

Counts = Int64[np.ndarray, "k H"] | Float64[np.ndarray, "k H"]


@dataclass(frozen=True, eq=False)
class Bounds:
    """Of every cluster's mass M, a group h has from ``low[h] M`` to ``high[h] M``.

    Attributes
    ----------
    low, high : ndarray
        ``(H,)``, from 0 to 1, `low` nowhere above `high`; the lower ones sum to 1 at most, the upper ones at least.

    Raises
    ------
    ValueError
        If no cluster could keep the bounds.
    """

    low: Float64[np.ndarray, "H"]
    high: Float64[np.ndarray, "H"]

    def __post_init__(self) -> None:
        if self.low.shape != self.high.shape or self.low.ndim != 1 or not len(self.low):
            raise ValueError("a group has a lower and an upper bound each, and there is one group at least")
        if not ((self.low >= 0) & (self.low <= self.high) & (self.high <= 1)).all():
            raise ValueError("bounds of a group's share must satisfy 0 <= low <= high <= 1")
        if self.low.sum() > 1 + _ROUNDING or self.high.sum() < 1 - _ROUNDING:
            raise ValueError("no cluster keeps the bounds: the lower ones sum to more than 1 or the upper ones to less")

    @classmethod
    def of(cls, shares: Float64[np.ndarray, "H"], alpha: float) -> Bounds:
        """The bounds of alpha-fair clusters: ``alpha xi_h`` to ``xi_h / alpha``.

        Parameters
        ----------
        shares : ndarray
            ``(H,)`` xi, each group's share of all rows; they sum to 1.
        alpha : float
            Greater than 0 and at most 1; 1: every cluster has the proportions of all rows.

        Raises
        ------
        ValueError
            If alpha is out of range or the shares are none.
        """
        if not 0 < alpha <= 1:
            raise ValueError(f"alpha must be greater than 0 and at most 1, not {alpha}")
        shares = np.asarray(shares, np.float64)
        if not (shares >= 0).all() or abs(shares.sum() - 1) > _ROUNDING:
            raise ValueError("shares of groups must not be negative and must sum to 1")
        return cls(alpha * shares, np.minimum(1.0, shares / alpha))

    @property
    def exact(self) -> bool:
        """Whether every cluster must have the same proportions."""
        return bool((self.low == self.high).all())

    def admits(self, counts: Counts) -> bool:
        """Whether clusters of these ``(k, H)`` masses are fair, up to rounding errors."""
        return self.violation(counts) <= _ROUNDING * float(counts.sum())

    def violation(self, counts: Counts) -> float:
        """The largest distance of any of the ``(k, H)`` masses from its bounds, in rows; empty clusters are fair."""
        size = counts.sum(axis=1, keepdims=True)
        short, over = self.low * size - counts, counts - self.high * size
        return float(np.maximum(np.maximum(short, over), 0.0).max(initial=0.0))

    @staticmethod
    def balance(counts: Counts, shares: Float64[np.ndarray, "H"]) -> float:
        """The largest alpha for which clusters are alpha-fair.

        Parameters
        ----------
        counts : ndarray
            ``(k, H)`` masses.
        shares : ndarray
            ``(H,)`` each group's share of all rows; a group without rows binds nobody.

        Returns
        -------
        float
            From 0 (a cluster lacks a group altogether) to 1.
        """
        filled, present = counts.sum(axis=1) > 0, shares > 0
        if not filled.any():
            return 1.0
        kept = counts[filled][:, present]
        ratio = kept / counts[filled].sum(axis=1, keepdims=True) / shares[present]
        if (ratio <= 0).any():
            return 0.0
        return min(1.0, float(np.minimum(ratio, 1 / ratio).min()))

    def normalised(self, prices: Float64[np.ndarray, "H k"]) -> Float64[np.ndarray, "H k"]:
        """Prices that no fair cluster gains from: each center's are lowered by what its dearest fair cluster pays.

        The dearest mixture of groups within the bounds is a fractional knapsack: every group has its lower bound and
        what remains is filled with the dearest ones. With normalised prices the sum
        over all points of ``w min_c (d + price)`` is a lower bound of every fair assignment's cost.

        Parameters
        ----------
        prices : ndarray
            ``(H, k)``, any numbers, units of squared distance.

        Returns
        -------
        ndarray
            ``(H, k)``.
        """
        order = np.argsort(-prices, axis=0, kind="stable")
        room = (self.high - self.low)[order]
        left = 1 - self.low.sum() - (np.cumsum(room, axis=0) - room)
        mixture = self.low[order] + np.clip(left, 0.0, room)
        dearest = (mixture * np.take_along_axis(prices, order, axis=0)).sum(axis=0)
        normalised: Float64[np.ndarray, "H k"] = prices - dearest
        return normalised
