"""Definition of a fair cluster: the share of every group lies between two bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

_ROUNDING = 1e-9
"""Relative error below which a number of rows counts as on its bound."""

Counts = Int64[np.ndarray, "k H"] | Float64[np.ndarray, "k H"]


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds of shares: in a cluster of mass M, group h has a mass from ``low[h] M`` to ``high[h] M``.

    Where groups overlap, such as women and old persons, every combination of them is a group here, and bounds are on
    sums of groups.

    Attributes
    ----------
    low, high : ndarray
        ``(G,)`` from 0 to 1, with ``low <= high``. If each is on one group, lower bounds sum to at most 1, upper bounds
        to at least 1.
    members : ndarray, optional
        ``(G, H)`` mask of the groups that each bound is on; by default there is a bound for each group.

    Raises
    ------
    ValueError
        If no cluster satisfies the bounds.

    Examples
    --------
    >>> bounds = Bounds.of(np.array([0.5, 0.5]), alpha=0.8)
    >>> bounds.low, bounds.high
    (array([0.4, 0.4]), array([0.625, 0.625]))
    >>> bounds.admits(np.array([[4, 6], [5, 5]])), bounds.admits(np.array([[1, 9]]))
    (True, False)

    Half of the rows are of women, and half of old persons, whatever the number of old women:

    >>> members = np.array([[True, True, False, False], [True, False, True, False]])
    >>> Bounds(np.full(2, 0.5), np.full(2, 0.5), members).admits(np.array([[2, 0, 0, 2], [1, 1, 1, 1]]))
    True
    """

    low: Float64[np.ndarray, "G"]
    high: Float64[np.ndarray, "G"]
    members: Bool[np.ndarray, "G H"] | None = None

    def __post_init__(self) -> None:
        if self.low.shape != self.high.shape or self.low.ndim != 1 or not len(self.low):
            raise ValueError("a group has a lower and an upper bound each, and there is one group at least")
        if not ((self.low >= 0) & (self.low <= self.high) & (self.high <= 1)).all():
            raise ValueError("bounds of a group's share must satisfy 0 <= low <= high <= 1")
        if self.members is not None:
            if len(self.members) != len(self.low):
                raise ValueError("every bound is on some groups")
        elif self.low.sum() > 1 + _ROUNDING or self.high.sum() < 1 - _ROUNDING:
            raise ValueError("no cluster keeps the bounds: the lower ones sum to more than 1 or the upper ones to less")

    @classmethod
    def of(cls, shares: Float64[np.ndarray, "H"], alpha: float) -> Bounds:
        """Return the bounds of alpha-fair clusters: ``alpha xi_h`` to ``xi_h / alpha``.

        Parameters
        ----------
        shares : ndarray
            ``(H,)`` share xi of each group in all rows; they sum to 1.
        alpha : float
            Greater than 0 and at most 1. With 1, every cluster has the proportions of all rows.

        Raises
        ------
        ValueError
            If alpha is out of range, or the shares are invalid.
        """
        if not 0 < alpha <= 1:
            raise ValueError(f"alpha must be greater than 0 and at most 1, not {alpha}")
        shares = np.asarray(shares, np.float64)
        if not (shares >= 0).all() or abs(shares.sum() - 1) > _ROUNDING:
            raise ValueError("shares of groups must not be negative and must sum to 1")
        return cls(alpha * shares, np.minimum(1.0, shares / alpha))

    @property
    def n_groups(self) -> int:
        """Number of groups, H."""
        return len(self.low) if self.members is None else self.members.shape[1]

    @property
    def exact(self) -> bool:
        """Whether all clusters must have the same proportions of all groups."""
        return self.members is None and bool((self.low == self.high).all())

    def sums(self, masses: Float64[np.ndarray, "H *k"]) -> Float64[np.ndarray, "G *k"]:
        """Return the masses that the bounds are on."""
        return masses if self.members is None else self.members.astype(np.float64) @ masses

    def excess(self, masses: Float64[np.ndarray, "H k"]) -> Float64[np.ndarray, "G k"]:
        """Return the excess of masses over their bounds, negative where they are below."""
        sums, size = self.sums(masses), masses.sum(axis=0)
        excess: Float64[np.ndarray, "G k"] = sums - np.clip(sums, self.low[:, None] * size, self.high[:, None] * size)
        return excess

    def admits(self, counts: Counts) -> bool:
        """Return whether clusters of ``(k, H)`` masses are fair, up to rounding errors."""
        return self.violation(counts) <= _ROUNDING * float(counts.sum())

    def violation(self, counts: Counts) -> float:
        """Compute the largest distance of the ``(k, H)`` masses from their bounds, in rows; empty clusters are fair."""
        return float(np.abs(self.excess(counts.T)).max(initial=0.0))

    @staticmethod
    def balance(counts: Counts, shares: Float64[np.ndarray, "H"], sizes: Int64[np.ndarray, "k"] | None = None) -> float:
        """Compute the largest alpha for which clusters are alpha-fair.

        Parameters
        ----------
        counts : ndarray
            ``(k, H)`` masses.
        shares : ndarray
            ``(H,)`` share of each group in all rows; a group without rows does not count.
        sizes : ndarray, optional
            ``(k,)`` masses of the clusters, where groups overlap; by default the sums of `counts`.

        Returns
        -------
        float
            From 0, if a cluster lacks a group, to 1.

        Examples
        --------
        >>> Bounds.balance(np.array([[4, 6], [5, 5]]), np.array([0.5, 0.5]))
        0.8
        """
        sizes = counts.sum(axis=1) if sizes is None else sizes
        filled, present = sizes > 0, shares > 0
        if not filled.any():
            return 1.0
        ratio = counts[filled][:, present] / sizes[filled][:, np.newaxis] / shares[present]
        if (ratio <= 0).any():
            return 0.0
        return min(1.0, float(np.minimum(ratio, 1 / ratio).min()))

    def normalized(self, prices: Float64[np.ndarray, "H k"]) -> Float64[np.ndarray, "H k"]:
        """Normalize prices: subtract from each center's prices those of its dearest fair cluster.

        The dearest mixture of groups within the bounds solves a fractional knapsack problem: every group gets its lower
        bound, and the rest is filled with the dearest groups. With normalized prices, the sum over all points of
        ``w min_c (d + price)`` is a lower bound of the cost of every fair assignment.

        Parameters
        ----------
        prices : ndarray
            ``(H, k)`` any numbers, in units of squared distance.

        Returns
        -------
        ndarray
            ``(H, k)``.
        """
        if self.members is not None:
            return np.asarray(prices - np.array([self.dearest(each)[0] for each in prices.T]))
        order = np.argsort(-prices, axis=0, kind="stable")
        room = (self.high - self.low)[order]
        rest = 1 - self.low.sum() - (np.cumsum(room, axis=0) - room)
        mixture = self.low[order] + np.clip(rest, 0.0, room)
        dearest = (mixture * np.take_along_axis(prices, order, axis=0)).sum(axis=0)
        normalized: Float64[np.ndarray, "H k"] = prices - dearest
        return normalized

    def dearest(
        self, prices: Float64[np.ndarray, "H"]
    ) -> tuple[float, Float64[np.ndarray, "G"], Float64[np.ndarray, "G"]]:
        """Return the price of the dearest fair cluster of mass 1, and the multipliers of lower and of upper bounds.

        Raises
        ------
        ArithmeticError
            If no cluster keeps the bounds.
        """
        from scipy.optimize import linprog  # where bounds are on single groups, sorting does

        unit = float(np.abs(prices).max()) or 1.0
        member = self.sums(np.eye(self.n_groups))
        solution = linprog(
            -prices / unit,
            A_ub=np.concatenate([-member, member]),
            b_ub=np.concatenate([-self.low, self.high]),
            A_eq=np.ones((1, self.n_groups)),
            b_eq=[1.0],
            method="highs-ds",
        )
        if solution.status != 0:
            raise ArithmeticError("no cluster keeps the bounds of groups that overlap")
        lower, upper = np.split(np.maximum(-solution.ineqlin.marginals, 0.0) * unit, 2)
        return -float(np.asarray(solution.fun)) * unit, lower, upper
