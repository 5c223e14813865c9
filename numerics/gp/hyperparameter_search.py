"""The search for the hyperparameters that all experts share: few asks, several candidates in each.

What is maximised is the sum of the experts' log marginal likelihoods (Jalali and Kasneci 2022, eq. 1; docs/gp.md). An
ask brings every candidate's value, gradient and average information (Gilmour, Thompson, Cullis 1995), all of them sums
over experts. The information stands for minus the Hessian in Newton steps within a trust region. It leaves out second
derivatives of the kernel, so the gradients seen so far correct it. An ask tries steps of both models and of several
lengths, so that no ask is spent on a line search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.optimize import lsq_linear

from numerics.shared.exact_sum import exact_sum

CANDIDATES, TOLERANCE, MOST_ASKS = 8, 1e-3, 15
"""Candidates of an ask, gain per row that is still worth an ask, and asks at most."""

_RADIUS = 1.0
"""First trust radius: a factor e of any parameter, for parameters are logarithms."""
_STEPS = ((True, 1.0), (False, 1.0), (True, 4.0), (False, 4.0), (True, 0.25), (False, 0.25), (True, 16.0), (True, 0.06))
"""Steps of an ask, the most promising first: by the corrected model or not, and within how many trust radii."""
_LENGTHS = (1.5, 2.0, 0.5, 0.25)
"""Lengths of the first two steps, tried in place of steps that no radius cuts short and so are the same."""
_GOOD, _POOR = 0.5, 0.25
"""Shares of the promised gain from which on a model is trusted farther, and below which it is trusted less far."""
_GROW, _SHRINK, _RETREAT = 3.0, 0.5, 0.3

_INERTIA = 0.1
"""What a change of the model costs, against one earlier gradient that it fails to explain."""
_NEAR = 0.5
"""Distance (largest of any parameter) up to which a gradient counts in full; beyond, by its inverse square."""
_SOFTEST, _STIFFEST = 0.1, 10.0
"""Corrected curvature relative to the information, in any direction: gradients from far off may say anything."""
_FLAT = 1e-10
"""Curvature, relative to the largest, below which a direction counts as flat: only the trust region ends a step."""

_Theta = Float64[np.ndarray, "p"]
_Matrix = Float64[np.ndarray, "p p"]


@dataclass(frozen=True, eq=False)
class Evaluations:
    """What a site answers to c candidates, sums over its experts.

    Attributes
    ----------
    values : ndarray
        ``(c,)`` log marginal likelihoods, not nan; -inf: the candidate cannot be evaluated.
    gradients : ndarray
        ``(c, p)`` of the values, finite.
    informations : ndarray
        ``(c, p, p)`` average informations, finite, symmetric and positive semidefinite.
    """

    values: Float64[np.ndarray, "c"]
    gradients: Float64[np.ndarray, "c p"]
    informations: Float64[np.ndarray, "c p p"]


def pooled_starts(
    start: _Theta,
    fits: Float64[np.ndarray, "s p"],
    informations: Float64[np.ndarray, "s p p"],
    rows: Sequence[int],
) -> Float64[np.ndarray, "m p"]:
    """Where to begin with `Scoring`, the most promising first.

    Sites know different parameters well: an input that hardly varies at one of them leaves its length anywhere. So the
    first start weights every site's own optimum by its information, the second by the information's diagonal alone.
    Then follow `start`, the median of the sites' optima, and the optima themselves, those of most rows first.

    Parameters
    ----------
    start : ndarray
        ``(p,)`` where to begin without any knowledge.
    fits : ndarray
        ``(s, p)`` theta of largest likelihood for each site alone, in the same order at any time.
    informations : ndarray
        ``(s, p, p)`` average information of each site at its own theta.
    rows : sequence of int
        Rows of each site.

    Returns
    -------
    ndarray
        ``(s + 4, p)``; only `start` if there are no fits.
    """
    if not len(fits):
        return start[None]
    # The unit matrix is the knowledge that one site's optimum is good to a factor e: parameters that no site knows get
    # the plain mean.
    weights = informations + np.eye(len(start))
    known = np.diagonal(weights, axis1=1, axis2=2)
    joint = np.linalg.solve(weights.sum(axis=0), np.einsum("spq,sq->p", weights, fits))
    single = (known * fits).sum(axis=0) / known.sum(axis=0)
    largest = np.argsort(-np.asarray(rows), kind="stable")
    return np.vstack([joint, single, start, np.median(fits, axis=0), fits[largest]])


class Scoring:
    """The search, without the rows: it says which candidates to evaluate and takes the sites' answers.

    Values are compared over those sites only that evaluated both sides. A site that misses an ask has no say in the
    next step and comes back with its next answer. A sum over sites is exact (`numerics.shared.exact_sum`): it depends
    neither on their order nor on whether the sites or somebody else added their answers up.

    Parameters
    ----------
    bounds : ndarray
        ``(p, 2)`` least and largest value of each parameter.
    starts : ndarray
        ``(s, p)`` where to begin, the most promising first (`pooled_starts`); as many as an ask takes are tried.
    candidates : int
        Candidates of an ask at most, 1 or more.
    tolerance : float
        Gain per row at which the search ends: what the last ask gained and what the next one promises.
    most_asks : int
        Asks at most.

    Attributes
    ----------
    candidates : ndarray
        ``(c, p)`` what to evaluate next.
    theta : ndarray
        ``(p,)`` the best candidate so far; the first start before the first ask.
    value : float
        Log likelihood per row there, over the sites that answered; -inf before the first ask.
    gain : float
        What the last ask gained per row; infinite until two have been answered.
    promised : float
        What the model promises of the next ask per row; infinite before the first one.
    asks : int
        Asks made.
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
        self._radius = _RADIUS
        self._steps: list[_Step] = []
        self._here: dict[str, tuple[float, _Theta, _Matrix]] = {}
        self._seen: list[tuple[_Theta, dict[str, _Theta]]] = []
        clipped = np.clip(starts, self._low, self._high)
        self.candidates: Float64[np.ndarray, "c p"] = clipped[_distinct(clipped)[:candidates]]
        self.theta: _Theta = self.candidates[0]
        self.value, self.gain, self.promised, self.asks = -np.inf, np.inf, np.inf, 0

    @property
    def done(self) -> bool:
        """Whether little is still to be gained, or all asks are spent."""
        spent = self.asks >= self._most_asks
        return spent or self.promised <= 0 or max(self.gain, self.promised) <= self._tolerance

    def update(self, answers: Mapping[str, Evaluations], rows: Mapping[str, int]) -> None:
        """Take the answers to `candidates`.

        Parameters
        ----------
        answers : mapping
            By site, of any sites.
        rows : mapping
            Rows of each of these sites.
        """
        self.asks += 1
        finite = {s: np.isfinite(answers[s].values) for s in sorted(answers)}
        for i, theta in enumerate(self.candidates):
            self._seen.append((theta, {s: answers[s].gradients[i] for s in finite if finite[s][i]}))
        # A site that can evaluate nothing from the start on must not stop the others.
        judges = [s for s in finite if s in self._here] or [s for s in finite if finite[s].any()]
        if not judges:
            return
        sound = np.all([finite[s] for s in judges], axis=0)
        values = exact_sum([np.where(sound, answers[s].values, 0.0) for s in judges])
        values = np.where(sound, values, -np.inf)
        before = -np.inf
        if judges[0] in self._here:
            before = float(exact_sum([np.array(self._here[s][0]) for s in judges]))
        best = int(np.argmax(values))
        self.gain = max(0.0, float(values[best] - before) / sum(rows[s] for s in judges))
        self._trust(best, float(values[best] - before))
        if values[best] > before:
            self.theta = self.candidates[best]
            self._here = {
                s: (float(answers[s].values[best]), answers[s].gradients[best], answers[s].informations[best])
                for s in finite
                if finite[s][best]
            }
            self._rows = sum(rows[s] for s in self._here)
            self.value = float(exact_sum([np.array(value) for value, _, _ in self._here.values()])) / self._rows
        if self._here:
            self._propose()

    def _trust(self, best: int, gain: float) -> None:
        """Trust radius from what the best of the steps gained."""
        if not self._steps:
            return
        step, times = self._steps[best], [tried.times for tried in self._steps]
        if gain <= 0:
            self._radius = _RETREAT * min(tried.length for tried in self._steps)
            return
        if step.cut or step.times < 1:
            self._radius *= step.times
        if step.cut and step.times == max(times) and gain > _GOOD * step.gain:
            self._radius *= _GROW
        elif step.times == min(times) and gain < _POOR * step.gain:
            self._radius = min(self._radius, _SHRINK * step.length)

    def _propose(self) -> None:
        """The next candidates: steps from theta."""
        gradient: _Theta = exact_sum([g for _, g, _ in self._here.values()])
        information: _Matrix = exact_sum([b for _, _, b in self._here.values()])
        plain = _Model(gradient, information)
        corrected = plain.corrected(
            [
                (theta - self.theta, gradient - exact_sum([at[s] for s in self._here]))
                for theta, at in self._seen
                if at.keys() >= self._here.keys()
            ]
        )
        steps = [
            (corrected if better else plain).step(self._low - self.theta, self._high - self.theta, self._radius, times)
            for better, times in _STEPS
        ]
        self.promised = max(step.gain for step in steps) / self._rows
        steps += [step.times_longer(times) for times in _LENGTHS for step in steps[:2]]
        reached = np.clip(self.theta + np.array([step.move for step in steps]), self._low, self._high)
        # theta itself goes first, so that a step of no length is none.
        different = [i - 1 for i in _distinct(np.vstack([self.theta, reached])) if i][: self._most]
        if not different:
            self.promised = 0.0
            return
        self._steps = [steps[i] for i in different]
        self.candidates = reached[different]


@dataclass(frozen=True, eq=False)
class _Step:
    """A step: within how many trust radii, the gain a model promises, and whether the trust region cut it short."""

    move: _Theta
    times: float
    gain: float
    cut: bool

    @property
    def length(self) -> float:
        return float(np.abs(self.move).max())

    def times_longer(self, times: float) -> _Step:
        return _Step(times * self.move, times * self.times, self.gain, self.cut)


class _Model:
    """The quadratic ``gradient.s - s.B.s / 2`` with ``B = root root'``, where flat directions keep a little curvature.

    Parameters
    ----------
    gradient : ndarray
        ``(p,)``.
    curvature : ndarray
        ``(p, p)`` B, symmetric.
    """

    def __init__(self, gradient: _Theta, curvature: _Matrix) -> None:
        own = np.diagonal(curvature)
        # Parameters differ by orders of magnitude in how much the data tell of them.
        scale = np.sqrt(np.maximum(own, _FLAT * (own.max() if own.max() > 0 else 1.0)))
        roots, self._axes = np.linalg.eigh(curvature / np.outer(scale, scale))
        self._gradient, self._scale = gradient, scale
        self._roots = np.sqrt(np.maximum(roots, _FLAT * max(float(roots[-1]), 1.0)))

    def step(self, low: _Theta, high: _Theta, radius: float, times: float) -> _Step:
        """The best step between the bounds that is not longer than some radii in any parameter."""
        longest = radius * times
        low, high = np.maximum(low, -longest), np.minimum(high, longest)
        # The solver wants an interior; the margin is less than what makes candidates differ.
        box = (np.minimum(low * self._scale, -_FLAT), np.maximum(high * self._scale, _FLAT))
        half = self._roots[:, None] * self._axes.T
        target = self._axes.T @ (self._gradient / self._scale) / self._roots
        found = lsq_linear(half, target, bounds=box, method="bvls", max_iter=10 * len(low))
        move: _Theta = np.clip(found.x / self._scale, low, high)
        gain = float(self._gradient @ move) - 0.5 * float(np.square(half @ (self._scale * move)).sum())
        return _Step(move, times, max(gain, 0.0), bool(np.abs(move).max() > 0.99 * longest))

    def corrected(self, changes: Sequence[tuple[_Theta, _Theta]]) -> _Model:
        """The model with the least change that explains how the gradient fell over steps.

        In coordinates where B is the unit matrix I it becomes I + D, D symmetric and the minimiser of
        ``mu |D|^2 + sum w |(I + D) s - y|^2`` over all steps s and falls y of the gradient, with weights w that make
        every step count as one of unit length and those into the distance less: the equation
        ``2 mu D + D A + A D = C + C'``, ``A = sum w s s'``, ``C = sum w (y - s) s'``, solved on the axes of A.
        """
        root = self._scale[:, None] * self._axes * self._roots
        A, C = np.zeros_like(root), np.zeros_like(root)
        for move, fall in changes:
            far = float(np.abs(move).max())
            if far == 0:
                continue
            s = root.T @ move
            y = self._axes.T @ (fall / self._scale) / self._roots
            weight = min(1.0, (_NEAR / far) ** 2) / float(s @ s)
            A += weight * np.outer(s, s)
            C += weight * np.outer(y - s, s)
        spread, axes = np.linalg.eigh(A)
        change = axes @ ((axes.T @ (C + C.T) @ axes) / (2 * _INERTIA + spread[:, None] + spread)) @ axes.T
        stretch, axes = np.linalg.eigh(np.eye(len(root)) + change)
        # A direction in which the likelihood bends upwards: the step is as long as if it bent downwards.
        stretch = np.clip(np.abs(stretch), _SOFTEST, _STIFFEST)
        turned = root @ axes
        return _Model(self._gradient, (turned * stretch) @ turned.T)


def _distinct(points: Float64[np.ndarray, "m p"]) -> list[int]:
    """Which points differ from all before."""
    kept: list[int] = []
    for i, point in enumerate(points):
        if all(np.abs(point - points[other]).max() > 1e-9 for other in kept):
            kept.append(i)
    return kept
