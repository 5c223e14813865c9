"""Fair assignment by prices, for which a federation needs sums over points only.

With normalized prices s (H x k; `Bounds.normalized`), the sum of ``w_p min_c (d_pc + s_{h(p) c})`` over the points is a
lower bound of the cost of every fair assignment. The best prices attain the smallest cost. The minimum is smoothed,
``-T_p log sum_c exp(-(d_pc + s_hc) / T_p)``, so that the sums have a gradient (the masses) and a Hessian, and `Pricing`
maximizes by Newton's method. T_p is a share of the point's median squared distance from the centers: a distant cluster,
whose points only large prices move, needs another resolution than clusters that are close together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int64

from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.price_response import PriceResponse, Prices, price_points

COLD, WARM = 0.06, 0.004
"""Initial temperature, without and with prices of a similar problem."""
GAP = 1e-4
"""Expected relative gain at which a search for prices ends."""
_ROUGH_GAP, _ROUGH_ROUNDS = 3e-3, 10
"""The same gain, and the most rounds, where prices only begin an exact search."""
_COOLING = 4.0
_COLDEST = 1e-7
_RADII = (4.0, 1.0, 0.25)
"""Largest steps of a round, relative to the radius of each price."""
_TRUSTED = 0.4
"""Share of the predicted gain above which the temperature falls."""
_ORDINARY = 2.0**40
"""Largest price, and inverse of the smallest one, that L-BFGS-B searches as it is: it starts with steps of about 1."""

_Duals = Float64[np.ndarray, "2 G k"]


def duals_of(prices: Prices, bounds: Bounds) -> _Duals:
    """Split normalized prices into multipliers a, b >= 0 of the lower and the upper bounds.

    The prices of a center are split at that of the last group in its dearest mixture: dearer groups are at their upper
    bound, cheaper ones at their lower bound.

    Examples
    --------
    >>> bounds = Bounds.of(np.array([0.5, 0.5]), alpha=1.0)
    >>> duals_of(np.array([[1.0], [-1.0]]), bounds).tolist()
    [[[0.0], [2.0]], [[0.0], [0.0]]]
    """
    if bounds.members is not None:
        values = [bounds.dearest(each)[1:] for each in prices.T]
        return np.stack([np.stack(each, axis=1) for each in zip(*values, strict=True)])
    order = np.argsort(-prices, axis=0, kind="stable")
    filled = bounds.low.sum() + np.cumsum((bounds.high - bounds.low)[order], axis=0)
    last = np.minimum((filled < 1).sum(axis=0), len(prices) - 1)
    split = np.take_along_axis(prices, np.take_along_axis(order, last[None], axis=0), axis=0)
    return np.stack([np.maximum(split - prices, 0.0), np.maximum(prices - split, 0.0)])


def prices_from(duals: _Duals, bounds: Bounds) -> Prices:
    """Compute ``s_hc = b_hc - a_hc + sum_j (low_j a_jc - high_j b_jc)``, which no fair cluster gains from if a, b >= 0.

    Examples
    --------
    >>> bounds = Bounds.of(np.array([0.5, 0.5]), alpha=1.0)
    >>> prices_from(duals_of(np.array([[1.0], [-1.0]]), bounds), bounds).tolist()
    [[1.0], [-1.0]]
    """
    a, b = duals
    own = b - a if bounds.members is None else bounds.members.T.astype(np.float64) @ (b - a)
    prices: Prices = own + (bounds.low @ a - bounds.high @ b)
    return prices


class Pricing:
    """The search for the best prices at the center, which has no points: it proposes prices and takes the sums.

    It applies Newton's method to the smoothed dual over a, b >= 0. Each round tries steps of several lengths and, for
    one of them, a lower temperature. Every price has its own trust radius. The radius shrinks if a mass overshoots its
    bounds, since a slightly lower price may attract a whole cluster. It grows if the radius limits a step in the right
    direction, since only large prices move the points of a distant center.

    Parameters
    ----------
    bounds : Bounds
        Definition of a fair cluster.
    totals : ndarray
        ``(H,)`` mass of each group.
    k : int
        Number of centers.
    scale : float or ndarray
        Initial trust radius of all prices, or ``(k,)`` of the prices of each center: a squared distance at which
        another center becomes nearer, such as the cost of a unit of mass.
    start : ndarray, optional
        ``(H, k)`` prices of a similar problem, such as that of a coreset.
    gap : float
        Expected gain, relative to the bound, at which the search ends.
    cools : bool
        Whether the temperature falls when the model is good. Centers that move need one that stays.

    Attributes
    ----------
    shift : ndarray
        ``(H, k)`` best prices so far, normalized.
    bound : float
        Their exact value, a lower bound of the cost of all fair assignments.
    masses : ndarray
        ``(H, k)`` smoothed masses at the current prices.
    gap_estimate : float
        Expected further gain, in units of cost; infinite at first. It is an estimate, not a certificate.
    rounds : int
        Number of rounds so far.

    Examples
    --------
    >>> squared, weights = np.array([[0.0, 1.0], [0.1, 0.8], [0.2, 0.5], [1.0, 0.0]]), np.ones(4, int)
    >>> groups, bounds = np.array([0, 0, 1, 1]), Bounds.of(np.array([0.5, 0.5]), alpha=1.0)
    >>> search = Pricing(bounds, np.array([2, 2]), k=2, scale=1.0)
    >>> while not search.done and search.rounds < 10:
    ...     shifts, temperatures = search.candidates()
    ...     search.update([price_points(squared, weights, groups, s, T) for s, T in zip(shifts, temperatures)])
    >>> round(search.bound, 2)
    1.0
    """

    def __init__(
        self,
        bounds: Bounds,
        totals: Int64[np.ndarray, "H"],
        k: int,
        scale: float | Float64[np.ndarray, "k"],
        start: Prices | None = None,
        gap: float = GAP,
        cools: bool = True,
    ) -> None:
        H = bounds.n_groups
        self._bounds, self._totals, self._gap, self._cools = bounds, totals, gap, cools
        self._duals = duals_of(bounds.normalized(np.zeros((H, k)) if start is None else start), bounds)
        self._radius: Prices = np.tile(np.broadcast_to(scale, k), (len(bounds.low), 1)).astype(np.float64)
        self._temperature = COLD if start is None else WARM
        self._model: PriceResponse | None = None
        self._steps: dict[float, tuple[_Duals, float]] = {}
        self._gain = np.inf
        self.shift: Prices = prices_from(self._duals, bounds)
        self.bound, self.rounds = -np.inf, 0
        self.masses: Prices = np.zeros((H, k))

    @property
    def gap_estimate(self) -> float:
        """Expected further gain."""
        return self._gain if self._model is None else self._gain + self._step(_RADII[0])[1]

    @property
    def done(self) -> bool:
        """Whether the expected gain is below the tolerance."""
        return bool(self.rounds and self.gap_estimate <= self._gap * abs(self.bound))

    def candidates(self) -> tuple[Float64[np.ndarray, "m H k"], Float64[np.ndarray, "m"]]:
        """Return the prices ``(m, H, k)`` of the next round, and their temperatures ``(m,)``."""
        if self._model is None:
            return self.shift[None], np.array([self._temperature])
        shifts = [prices_from(self._step(times)[0], self._bounds) for times in _RADII]
        temperatures = [self._temperature] * len(shifts)
        if self._cools:
            shifts.append(shifts[1])
            temperatures.append(max(self._temperature / _COOLING, _COLDEST))
        return np.stack(shifts), np.array(temperatures)

    def update(self, answers: Sequence[PriceResponse]) -> None:
        """Take the sums over all points, in the order of the candidates."""
        self.rounds += 1
        if self._model is None:
            self._adopt(answers[0], answers[0].exact)
            return
        exact = [answer.exact for answer in answers[: len(_RADII)]]
        best = int(np.argmax(exact))
        gain = exact[best] - self.bound
        self._resize(answers)
        if gain <= 0:
            self._radius = self._radius * _RADII[-1]
            self._adopt(self._model, 0.0)
            return
        duals, predicted = self._step(_RADII[best])
        self._duals = duals
        if self._cools and best == 1 and gain > _TRUSTED * predicted:
            self._temperature = max(self._temperature / _COOLING, _COLDEST)
            self._adopt(answers[-1], gain)
        else:
            self._adopt(answers[best], gain)

    def _adopt(self, model: PriceResponse, gain: float) -> None:
        """Continue from the current prices with this model of their neighborhood."""
        self._model, self.masses = model, model.masses
        self.shift, self.bound = prices_from(self._duals, self._bounds), model.exact
        self._steps, self._gain = {}, gain

    def _step(self, times: float) -> tuple[_Duals, float]:
        """Return the step within `times` the radii; it is kept, since these steps take most of a search's time."""
        assert self._model is not None  # noqa: S101 - called after the first answers
        if times not in self._steps:
            radius, unit = times * self._radius, float(self._totals.max())
            self._steps[times] = _newton_step(self._duals, self._model, self._bounds, radius, unit)
        return self._steps[times]

    def _resize(self, answers: Sequence[PriceResponse]) -> None:
        """Update the trust radii by the effect of each step on the masses, the shortest step first."""
        assert self._model is not None  # noqa: S101 - called after a step
        before = self._bounds.excess(self._model.masses)
        radius = self._radius.copy()
        for answer, times in reversed(list(zip(answers, _RADII, strict=False))):
            duals, _ = self._step(times)
            length = np.abs(duals - self._duals).max(axis=0)
            after = self._bounds.excess(answer.masses)
            same_side = np.sign(after) == np.sign(before)
            limited = same_side & (length >= 0.99 * times * self._radius)
            overshot = ~same_side & (np.abs(after) > np.abs(before)) & (length > 0)
            radius = np.where(limited, np.maximum(radius, 2 * times * self._radius), radius)
            radius = np.where(overshot, np.minimum(radius, length / 2), radius)
        self._radius = radius


def _newton_step(
    start: _Duals, model: PriceResponse, bounds: Bounds, radius: Prices, unit: float
) -> tuple[_Duals, float]:
    """Maximize the quadratic model within the radii; return the multipliers and the predicted gain.

    `unit` is a large mass, by which the objective is divided.
    """
    from scipy.optimize import Bounds as Box
    from scipy.optimize import minimize

    largest = float(radius.max())
    price = 1.0 if 1 / _ORDINARY <= largest <= _ORDINARY else 2.0 ** round(np.log2(largest))
    start, radius, curvature = start / price, radius / price, model.curvature * price
    origin = prices_from(start, bounds)

    def loss(flat: Float64[np.ndarray, "v"]) -> tuple[float, Float64[np.ndarray, "v"]]:
        step = prices_from(flat.reshape(start.shape), bounds) - origin
        change = (curvature @ step[..., None])[..., 0]
        slope = model.masses - change
        total, sums = slope.sum(axis=0), bounds.sums(slope)
        gradient = np.stack([sums - bounds.low[:, None] * total, bounds.high[:, None] * total - sums])
        return -float((step * (model.masses - change / 2)).sum()) / unit, gradient.ravel() / unit

    solution = minimize(
        loss,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=Box(np.maximum(start - radius, 0.0).ravel(), (start + radius).ravel()),
        options={"maxiter": 200, "maxfun": 400, "maxcor": 20, "ftol": 1e-9, "gtol": 1e-9},
    )
    return solution.x.reshape(start.shape) * price, max(0.0, -float(solution.fun) * unit) * price


def prices_of(
    squared: Float64[np.ndarray, "n k"],
    weights: Int64[np.ndarray, "n"],
    groups: Int64[np.ndarray, "n"],
    bounds: Bounds,
) -> Float64[np.ndarray, "H k"]:
    """Compute good prices for points that are in one place, in ten rounds at most.

    Parameters
    ----------
    squared, weights, groups, bounds
        As for `numerics.coreset.fairness.assignment.fair_assignment`.

    Returns
    -------
    ndarray
        ``(H, k)``, normalized.

    Examples
    --------
    >>> squared, bounds = np.array([[0.0, 1.0], [0.2, 0.5]]), Bounds.of(np.array([0.5, 0.5]), alpha=1.0)
    >>> prices_of(squared, np.ones(2, int), np.array([0, 1]), bounds).shape
    (2, 2)
    """
    k = squared.shape[1]
    nearest = squared.argmin(axis=1)
    mass = np.maximum(np.bincount(nearest, weights, k), 1)
    scale = np.bincount(nearest, weights * np.partition(squared, k // 2, axis=1)[:, k // 2], k) / mass
    totals = np.bincount(groups, weights, bounds.n_groups).astype(np.int64)
    search = Pricing(bounds, totals, k, np.where(scale > 0, scale, scale.max() or 1.0), gap=_ROUGH_GAP)
    while not search.done and search.rounds < _ROUGH_ROUNDS:
        shifts, temperatures = search.candidates()
        search.update(
            [price_points(squared, weights, groups, s, T) for s, T in zip(shifts, temperatures.tolist(), strict=True)]
        )
    return search.shift
