"""The search for the hyperparameters that all experts share: few asks, several candidates in each.

What is maximised is the sum of the experts' log marginal likelihoods (Deisenroth & Ng 2015; specs/gp.md). An ask brings
every candidate's value, gradient and average information (Gilmour et al. 1995), which are sums over experts. The
average information stands for minus the Hessian in a Newton step; gradients seen so far correct it (BFGS updates).
Steps of several lengths are tried in one ask, so that a line search costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.optimize import lsq_linear

CANDIDATES, TOLERANCE, MOST_ASKS = 8, 1e-3, 15
"""Candidates of an ask, gain per row still worth an ask, and asks at most."""
_RADIUS = 1.0
"""First trust radius: a factor e of every parameter, which are logarithms."""
_STEPS = ((False, 1.0), (True, 1.0), (False, 4.0), (True, 4.0), (False, 0.25), (True, 0.25), (False, 16.0), (True, 0.06))
"""Steps of an ask, the most useful first: whether earlier gradients correct the model, and times the trust radius."""
_LENGTHS = (0.5, 1.6, 0.25, 2.5)
"""Lengths of the first two steps that are tried in the place of steps that turn out the same."""
_NEIGHBOURS, _REACH = 8, 3.0
"""Earlier candidates whose gradients correct the model: how many, and how far in any parameter."""
_DAMPED = 0.2
"""Powell's damping: least curvature of an update, relative to that of the model."""
_RIDGE = 1e-10
_Theta = Float64[np.ndarray, "p"]
_Matrix = Float64[np.ndarray, "p p"]


@dataclass(frozen=True, eq=False)
class Evaluations:
    """What a site answers to c candidates, sums over its experts.

    Attributes
    ----------
    values : ndarray
        ``(c,)`` log marginal likelihoods; -inf: the candidate cannot be evaluated.
    gradients : ndarray
        ``(c, p)`` of the values.
    informations : ndarray
        ``(c, p, p)`` average information, symmetric and positive semidefinite.
    """

    values: Float64[np.ndarray, "c"]
    gradients: Float64[np.ndarray, "c p"]
    informations: Float64[np.ndarray, "c p p"]


class Scoring:
    """The search, without the rows: it says which candidates to evaluate and takes the sites' answers.

    Parameters
    ----------
    bounds : ndarray
        ``(p, 2)`` least and largest value of each parameter.
    starts : ndarray
        ``(s, p)`` where to begin, the most promising first; as many as an ask takes are tried.
    candidates : int
        Candidates of an ask at most.
    tolerance : float
        Gain per row at which the search ends: that of the last ask and the one that the model still promises.
    most_asks : int
        Asks at most.

    Attributes
    ----------
    candidates : ndarray
        ``(c, p)`` what to evaluate next.
    theta : ndarray
        ``(p,)`` the best candidate so far.
    value : float
        Log likelihood per row there, over the sites that answered; -inf before the first ask.
    gain : float
        What the last ask gained per row; infinite after the first one.
    asks : int
        Asks answered.
    """

    def __init__(
        self,
        bounds: Float64[np.ndarray, "p 2"],
        starts: Float64[np.ndarray, "s p"],
        *,
        candidates: int = CANDIDATES,
        tolerance: float = TOLERANCE,
        most_asks: int = MOST_ASKS,
    ) -> None:
        self._low, self._high = bounds.T
        self._most, self._tolerance, self._most_asks = candidates, tolerance, most_asks
        self.candidates = _distinct(np.clip(starts, self._low, self._high), candidates)
        self._times = np.ones(len(self.candidates))
        self._radius = _RADIUS
        self._seen: list[tuple[_Theta, dict[str, _Theta]]] = []
        self._here: dict[str, tuple[float, _Theta, _Matrix]] = {}
        self.theta: _Theta = self.candidates[0]
        self.value, self.gain, self.asks, self._promised = -np.inf, np.inf, 0, np.inf

    @property
    def done(self) -> bool:
        """Whether little is still to be gained, or all asks are spent."""
        return self.asks >= self._most_asks or max(self.gain, self._promised) <= self._tolerance

    @property
    def converged(self) -> bool:
        """Whether little is still to be gained."""
        return max(self.gain, self._promised) <= self._tolerance

    def tell(self, answers: Mapping[str, Evaluations], rows: Mapping[str, int]) -> None:
        """Take the sites' answers to `candidates`."""
        self.asks += 1
        sites = sorted(answers)
        for i, theta in enumerate(self.candidates):
            if all(np.isfinite(answers[s].values[i]) for s in sites):
                self._seen.append((theta, {s: answers[s].gradients[i] for s in sites}))
        common = [s for s in sites if s in self._here] or sites
        values = np.sum([answers[s].values for s in common], axis=0)
        values = np.where(np.isnan(values), -np.inf, values)
        before = sum(self._here[s][0] for s in common) if self._here else -np.inf
        best = int(np.argmax(values))
        if values[best] > before:
            if self.asks > 1:
                self._radius *= self._times[best]
            self.gain = float(values[best] - before) / sum(rows[s] for s in common)
            self.theta = self.candidates[best]
            self._here = {
                s: (float(answers[s].values[best]), answers[s].gradients[best], answers[s].informations[best])
                for s in sites
            }
            self.value = sum(v for v, _, _ in self._here.values()) / sum(rows[s] for s in sites)
        else:
            self.gain = 0.0
            self._radius *= 0.06
        self._propose(sum(rows[s] for s in self._here))

    def _propose(self, rows: int) -> None:
        if not self._here:
            return
        gradient: _Theta = np.sum([g for _, g, _ in self._here.values()], axis=0)
        information: _Matrix = np.sum([b for _, _, b in self._here.values()], axis=0)
        earlier = [
            (theta, np.sum([g[s] for s in self._here], axis=0))
            for theta, g in self._seen
            if g.keys() >= self._here.keys()
        ]
        corrected = _corrected(information, self.theta, gradient, earlier)
        steps, times, promised = [], [], []
        for use, factor in _STEPS:
            radius = self._radius * factor
            low, high = np.maximum(self._low - self.theta, -radius), np.minimum(self._high - self.theta, radius)
            step, gain = _best_step(gradient, corrected if use else information, low, high)
            steps.append(step)
            times.append(factor if factor < 1 or np.abs(step).max() > 0.99 * radius else 1.0)
            promised.append(gain)
        for factor in _LENGTHS:
            steps += [factor * steps[0], factor * steps[1]]
            times += [factor if factor < 1 else 1.0] * 2
        self._promised = max(promised) / rows
        candidates = np.clip(self.theta + np.array(steps), self._low, self._high)
        self.candidates = _distinct(candidates, self._most)
        first = [int(np.flatnonzero((candidates == c).all(axis=1))[0]) for c in self.candidates]
        self._times = np.array(times)[first]


def _distinct(points: Float64[np.ndarray, "m p"], most: int) -> Float64[np.ndarray, "c p"]:
    """The first points that differ."""
    kept: list[_Theta] = []
    for point in points:
        if all(np.abs(point - other).max() > 1e-9 for other in kept):
            kept.append(point)
    return np.array(kept[:most])


def _best_step(gradient: _Theta, curvature: _Matrix, low: _Theta, high: _Theta) -> tuple[_Theta, float]:
    """Maximiser of ``gradient.s - s.curvature.s / 2`` between `low` <= 0 and `high` >= 0, and its value."""
    scale = np.sqrt(np.maximum(np.diag(curvature), 1e-12 * max(float(np.diag(curvature).max()), 1e-300)))
    root = np.linalg.cholesky(curvature / np.outer(scale, scale) + _RIDGE * np.eye(len(scale)))
    box = (np.minimum(low * scale, -1e-12), np.maximum(high * scale, 1e-12))
    found = lsq_linear(root.T, np.linalg.solve(root, gradient / scale), bounds=box, method="bvls")
    step: _Theta = np.clip(found.x / scale, low, high)
    return step, float(gradient @ step - step @ curvature @ step / 2)


def _corrected(
    information: _Matrix, here: _Theta, gradient: _Theta, earlier: Sequence[tuple[_Theta, _Theta]]
) -> _Matrix:
    """Information with BFGS updates from gradients seen near by, the nearest last."""
    near = sorted(((float(np.abs(theta - here).max()), i) for i, (theta, _) in enumerate(earlier)))
    near = [item for item in near if 0 < item[0] < _REACH][:_NEIGHBOURS]
    curvature = information
    for _, i in reversed(near):
        step, change = earlier[i][0] - here, gradient - earlier[i][1]
        modelled = curvature @ step
        size = float(step @ modelled)
        if size <= 0:
            continue
        if step @ change < _DAMPED * size:
            share = (1 - _DAMPED) * size / (size - float(step @ change))
            change = share * change + (1 - share) * modelled
        curvature = curvature + np.outer(change, change) / (step @ change) - np.outer(modelled, modelled) / size
    return curvature
