"""Search for the common hyperparameters of all experts, with few asks of several candidates each.

The objective is the sum of the experts' log marginal likelihoods (Jalali and Kasneci 2022, eq. 1; docs/gp.md). An ask
returns value, gradient and average information (Gilmour, Thompson, Cullis 1995) of every candidate, all of them sums
over experts. The information replaces minus the Hessian in Newton steps within a trust region. It omits second
derivatives of the kernel; the gradients of earlier candidates correct it. An ask tries steps of both models and of
several lengths, so that no ask is spent on a line search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.optimize import lsq_linear

from numerics.gp.moments import FEWEST_SITES
from numerics.shared.exact_sum import exact_sum

CANDIDATES, TOLERANCE, MOST_ASKS = 8, 1e-3, 15
"""Candidates of an ask, smallest gain per row that is worth another ask, and largest number of asks."""

_RADIUS = 1.0
"""First trust radius: a factor e of any parameter, since parameters are logarithms."""
_STEPS = ((True, 1.0), (False, 1.0), (True, 4.0), (False, 4.0), (True, 0.25), (False, 0.25), (True, 16.0), (True, 0.06))
"""Steps of an ask, the most promising first: whether by the corrected model, and the trust radii allowed."""
_LENGTHS = (1.5, 2.0, 0.5, 0.25)
"""Lengths of the first two steps; they replace steps that coincide because no radius limits them."""
_GOOD, _POOR = 0.5, 0.25
"""Shares of the predicted gain above which the trust radius grows, and below which it shrinks."""
_GROW, _SHRINK, _RETREAT = 3.0, 0.5, 0.3

_INERTIA = 0.1
"""Penalty of a change of the model, relative to the error at one earlier gradient."""
_NEAR = 0.5
"""Distance (largest over the parameters) up to which a gradient has full weight; beyond, by the inverse square."""
_SOFTEST, _STIFFEST = 0.1, 10.0
"""Bounds of the corrected curvature relative to the information: distant gradients are unreliable."""
_FLAT = 1e-10
"""Curvature, relative to the largest, below which a direction counts as flat: only the trust region ends a step."""

_Theta = Float64[np.ndarray, "p"]
_Matrix = Float64[np.ndarray, "p p"]


@dataclass(frozen=True, eq=False)
class Evaluations:
    """A site's answer about c candidates, sums over its experts.

    Attributes
    ----------
    values : ndarray
        ``(c,)`` log marginal likelihoods, never NaN; -inf if the candidate cannot be evaluated.
    gradients : ndarray
        ``(c, p)`` gradients of the values, finite.
    informations : ndarray
        ``(c, p, p)`` average informations, finite, symmetric and positive semidefinite.
    """

    values: Float64[np.ndarray, "c"]
    gradients: Float64[np.ndarray, "c p"]
    informations: Float64[np.ndarray, "c p p"]


POOLED_STARTS = 4
"""Number of `pooled_starts` before those of single sites."""


def pooled_starts(
    start: _Theta,
    fits: Float64[np.ndarray, "s p"],
    informations: Float64[np.ndarray, "s p p"],
    rows: Sequence[int],
) -> Float64[np.ndarray, "m p"]:
    """Combine the sites' own optima into starting points of `Scoring`, the most promising first.

    Sites determine different parameters well: the length of an input that hardly varies at a site is arbitrary there.
    The first start therefore weights each site's optimum by its information, the second by the information's diagonal.
    Then follow `start`, the median of the optima, and the optima themselves, the site with most rows first.

    Parameters
    ----------
    start : ndarray
        ``(p,)`` start without any knowledge.
    fits : ndarray
        ``(s, p)`` theta of largest likelihood for each site alone, always in the same order.
    informations : ndarray
        ``(s, p, p)`` average information of each site at its own theta.
    rows : sequence of int
        Number of rows of each site.

    Returns
    -------
    ndarray
        ``(s + 4, p)``; only `start` if there are no fits.

    Examples
    --------
    The first site determines the first parameter, the second site the second one:

    >>> informations = np.array([np.diag([1e6, 0.0]), np.diag([0.0, 1e6])])
    >>> pooled_starts(np.zeros(2), np.array([[1.0, 9.0], [9.0, 2.0]]), informations, [10, 20])[0].round(2)
    array([1., 2.])
    """
    if not len(fits):
        return start[None]
    # The unit matrix says that a site's optimum is right to a factor e: a parameter that no site determines gets the
    # plain mean.
    weights = informations + np.eye(len(start))
    own_weights = np.diagonal(weights, axis1=1, axis2=2)
    single = (own_weights * fits).sum(axis=0) / own_weights.sum(axis=0)
    try:
        joint = np.linalg.solve(weights.sum(axis=0), np.einsum("spq,sq->p", weights, fits))
    except np.linalg.LinAlgError:  # beside what a site claims to know, the unit matrix is lost to rounding
        joint = single
    largest = np.argsort(-np.asarray(rows), kind="stable")
    return np.vstack([joint, single, start, np.median(fits, axis=0), fits[largest]])


class Scoring:
    """The search at the center, which has no rows: it proposes candidates and takes the sites' answers.

    Two values are compared over the sites that evaluated both. A site that misses an ask does not count in the next
    step, and counts again from its next answer on. Sums over sites are exact (`numerics.shared.exact_sum`): they depend
    neither on the order of the sites nor on who adds them up.

    Parameters
    ----------
    bounds : ndarray
        ``(p, 2)`` smallest and largest value of each parameter.
    starts : ndarray
        ``(s, p)`` starting points, the most promising first (`pooled_starts`); the first ask tries as many as it takes.
    candidates : int
        Largest number of candidates of an ask, at least 1.
    tolerance : float
        Gain per row at which the search ends, for the last gain and for the predicted one.
    most_asks : int
        Largest number of asks.

    Attributes
    ----------
    candidates : ndarray
        ``(c, p)`` candidates of the next ask.
    theta : ndarray
        ``(p,)`` best candidate so far; the first start before the first ask.
    value : float
        Log likelihood per row at `theta`, over the sites that answered; -inf before the first ask.
    gain : float
        Gain per row of the last ask; infinite before the second answer.
    predicted_gain : float
        Gain per row that the model predicts for the next ask; infinite before the first one.
    asks : int
        Number of asks so far.

    Examples
    --------
    A site whose log likelihood is -(theta - 2)^2 / 2 with 10 rows:

    >>> search = Scoring(np.array([[-5.0, 5.0]]), np.array([[0.0]]))
    >>> while not search.done:
    ...     theta = search.candidates
    ...     answer = Evaluations(-((theta[:, 0] - 2.0) ** 2) / 2, 2.0 - theta, np.ones((len(theta), 1, 1)))
    ...     search.update({"site": answer}, {"site": 10})
    >>> search.theta, search.asks
    (array([2.]), 2)
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
        self._gradients: list[tuple[_Theta, dict[str, _Theta]]] = []
        self._answers: list[tuple[Float64[np.ndarray, "c p"], dict[str, Evaluations]]] = []
        clipped = np.clip(starts, self._low, self._high)
        self.candidates: Float64[np.ndarray, "c p"] = clipped[_distinct(clipped)[:candidates]]
        self.theta: _Theta = self.candidates[0]
        self.value, self.gain, self.predicted_gain, self.asks = -np.inf, np.inf, np.inf, 0

    @property
    def done(self) -> bool:
        """Whether the gains are below the tolerance, or all asks are spent."""
        spent = self.asks >= self._most_asks
        return spent or self.predicted_gain <= 0 or max(self.gain, self.predicted_gain) <= self._tolerance

    def update(self, answers: Mapping[str, Evaluations], rows: Mapping[str, int]) -> None:
        """Take the answers to `candidates`.

        Parameters
        ----------
        answers : mapping
            Answers by site; sites may be missing.
        rows : mapping
            Number of rows of each of these sites.
        """
        self.asks += 1
        self._answers.append((self.candidates, dict(answers)))
        finite = {s: np.isfinite(answers[s].values) for s in sorted(answers)}
        for i, theta in enumerate(self.candidates):
            self._gradients.append((theta, {s: answers[s].gradients[i] for s in finite if finite[s][i]}))
        # A site that cannot evaluate any start must not stop the others.
        if self._here.keys() - finite.keys():
            self._return_to_best([s for s in finite if s in self._here])
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
            self._stay(_at(answers, best, [s for s in finite if finite[s][best]]), rows)
        if self._here:
            self._propose()

    def pulls(self) -> dict[str, float]:
        """Return by site how much likelier, per row, the others' outputs are at their own best candidate than at theta.

        All candidates so far count. Empty with fewer than three sites: nothing then shows who errs.

        Examples
        --------
        Two sites have their largest likelihood at 0, and the third one, which is surer, at 3:

        >>> search, rows = Scoring(np.array([[-5.0, 5.0]]), np.array([[0.0], [3.0]])), {"a": 10, "b": 10, "c": 10}
        >>> slopes, informations = np.zeros((2, 1)), np.ones((2, 1, 1))
        >>> values = {"a": [0.0, -9.0], "b": [0.0, -9.0], "c": [-72.0, 0.0]}
        >>> search.update({s: Evaluations(np.array(own), slopes, informations) for s, own in values.items()}, rows)
        >>> search.theta, search.pulls()
        (array([3.]), {'a': 0.0, 'b': 0.0, 'c': 0.9})
        """
        sites = sorted(self._here)
        if len(sites) < FEWEST_SITES:
            return {}
        gains = self._values_of(sites)[1] - np.array([[self._here[s][0]] for s in sites])
        rows = np.array([self._rows_of[s] for s in sites])
        of_others = [
            np.delete(gains, i, axis=0).sum(axis=0).max() / np.delete(rows, i).sum() for i in range(len(sites))
        ]
        return {site: max(0.0, float(gain)) for site, gain in zip(sites, of_others, strict=True)}

    def leave_out(self, site: str) -> None:
        """Go on from the best candidate of the other sites; `site` is not to answer again."""
        self._return_to_best([s for s in sorted(self._here) if s != site])
        self._radius, self._steps, self.gain = _RADIUS, [], np.inf
        self._propose()

    def _values_of(self, sites: Sequence[str]) -> tuple[list[tuple[int, int]], Float64[np.ndarray, "s c"]]:
        """Return the candidates that these sites have all answered about, by ask and place, with their values."""
        asks = [i for i, (_, answers) in enumerate(self._answers) if answers.keys() >= set(sites)]
        places = [(i, c) for i in asks for c in range(len(self._answers[i][0]))]
        values = [[self._answers[i][1][s].values for s in sites] for i in asks]
        return places, np.concatenate(values, axis=1) if asks else np.zeros((len(sites), 0))

    def _return_to_best(self, sites: list[str]) -> None:
        """Take the best candidate so far of some of the sites at theta, and these sites alone."""
        here = {s: self._here[s] for s in sites}
        if not here:
            return
        places, values = self._values_of(sites)
        sums = values.sum(axis=0)
        if len(places) and sums.max() > sum(value for value, _, _ in here.values()):
            ask, best = places[int(np.argmax(sums))]
            thetas, answers = self._answers[ask]
            self.theta, here = thetas[best], _at(answers, best, sites)
        self._stay(here, self._rows_of)

    def _stay(self, here: dict[str, tuple[float, _Theta, _Matrix]], rows: Mapping[str, int]) -> None:
        """Take these answers, which are those at theta."""
        self._here, self._rows_of = here, {s: rows[s] for s in here}
        self._rows = sum(self._rows_of.values())
        self.value = float(exact_sum([np.array(value) for value, _, _ in here.values()])) / self._rows

    def _trust(self, best: int, gain: float) -> None:
        """Update the trust radius by the gain of the best step."""
        if not self._steps:
            return
        step, times = self._steps[best], [each.times for each in self._steps]
        if gain <= 0:
            self._radius = _RETREAT * min(each.length for each in self._steps)
            return
        if step.cut or step.times < 1:
            self._radius *= step.times
        if step.cut and step.times == max(times) and gain > _GOOD * step.gain:
            self._radius *= _GROW
        elif step.times == min(times) and gain < _POOR * step.gain:
            self._radius = min(self._radius, _SHRINK * step.length)

    def _propose(self) -> None:
        """Propose the next candidates: steps from theta."""
        gradient: _Theta = exact_sum([g for _, g, _ in self._here.values()])
        information: _Matrix = exact_sum([b for _, _, b in self._here.values()])
        plain = _Model(gradient, information)
        corrected = plain.corrected(
            [
                (theta - self.theta, gradient - exact_sum([at[s] for s in self._here]))
                for theta, at in self._gradients
                if at.keys() >= self._here.keys()
            ]
        )
        steps = [
            (corrected if better else plain).step(self._low - self.theta, self._high - self.theta, self._radius, times)
            for better, times in _STEPS
        ]
        self.predicted_gain = max(step.gain for step in steps) / self._rows
        steps += [step.times_longer(times) for times in _LENGTHS for step in steps[:2]]
        reached = np.clip(self.theta + np.array([step.move for step in steps]), self._low, self._high)
        # theta itself comes first, so that a step of length 0 is not a candidate.
        different = [i - 1 for i in _distinct(np.vstack([self.theta, reached])) if i][: self._most]
        if not different:
            self.predicted_gain = 0.0
            return
        self._steps = [steps[i] for i in different]
        self.candidates = reached[different]


@dataclass(frozen=True, eq=False)
class _Step:
    """A step: its trust radii, the gain that the model predicts, and whether the trust region limits it."""

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
    """The quadratic model ``gradient.s - s.B.s / 2`` with ``B = root root'``; flat directions get a little curvature.

    Parameters
    ----------
    gradient : ndarray
        ``(p,)``.
    curvature : ndarray
        ``(p, p)`` matrix B, symmetric.
    """

    def __init__(self, gradient: _Theta, curvature: _Matrix) -> None:
        own = np.diagonal(curvature)
        # The information differs by orders of magnitude between parameters.
        scale = np.sqrt(np.maximum(own, _FLAT * (own.max() if own.max() > 0 else 1.0)))
        roots, self._axes = np.linalg.eigh(curvature / np.outer(scale, scale))
        self._gradient, self._scale = gradient, scale
        self._roots = np.sqrt(np.maximum(roots, _FLAT * max(float(roots[-1]), 1.0)))

    def step(self, low: _Theta, high: _Theta, radius: float, times: float) -> _Step:
        """Compute the best step within the bounds, and within some trust radii in every parameter."""
        longest = radius * times
        low, high = np.maximum(low, -longest), np.minimum(high, longest)
        # The solver needs an interior; the margin is smaller than the difference of distinct candidates.
        box = (np.minimum(low * self._scale, -_FLAT), np.maximum(high * self._scale, _FLAT))
        half = self._roots[:, None] * self._axes.T
        target = self._axes.T @ (self._gradient / self._scale) / self._roots
        solution = lsq_linear(half, target, bounds=box, method="bvls", max_iter=10 * len(low))
        move: _Theta = np.clip(solution.x / self._scale, low, high)
        gain = float(self._gradient @ move) - 0.5 * float(np.square(half @ (self._scale * move)).sum())
        return _Step(move, times, max(gain, 0.0), bool(np.abs(move).max() > 0.99 * longest))

    def corrected(self, changes: Sequence[tuple[_Theta, _Theta]]) -> _Model:
        """Return the model with the smallest change that explains the decrease of the gradient over steps.

        In coordinates where B is the unit matrix I, B becomes I + D. D is symmetric and minimizes
        ``mu |D|^2 + sum w |(I + D) s - y|^2`` over all steps s and decreases y of the gradient. The weights w count
        every step as one of unit length, and distant ones less. D solves ``2 mu D + D A + A D = C + C'`` with
        ``A = sum w s s'`` and ``C = sum w (y - s) s'``, on the axes of A.
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
        # Where the likelihood is convex, the step is as long as with the opposite curvature.
        stretch = np.clip(np.abs(stretch), _SOFTEST, _STIFFEST)
        turned = root @ axes
        return _Model(self._gradient, (turned * stretch) @ turned.T)


def _at(
    answers: Mapping[str, Evaluations], place: int, sites: Sequence[str]
) -> dict[str, tuple[float, _Theta, _Matrix]]:
    """Return what these sites answer about one candidate: value, gradient and information."""
    return {
        s: (float(answers[s].values[place]), answers[s].gradients[place], answers[s].informations[place]) for s in sites
    }


def _distinct(points: Float64[np.ndarray, "m p"]) -> list[int]:
    """Return the indices of the points that differ from all before."""
    distinct: list[int] = []
    for i, point in enumerate(points):
        if all(np.abs(point - points[other]).max() > 1e-9 for other in distinct):
            distinct.append(i)
    return distinct
