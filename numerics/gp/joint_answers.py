"""Answers of an expert about a query point and the landmarks around it, and their best linear combination.

An expert that knows the function better beside the query point than at it can express that only by answers about the
landmarks. The function's values at the point and at D landmarks are first made independent, with variance 1 under the
prior:

- ``g_0 = f(x*) / sqrt(k**)``, and ``g_1, ..., g_D = L^-1 (f(Z) - k(Z, x*) f(x*) / k**)``, with the factor L of
  `numerics.gp.sketch`.

An expert's answer is the vector m of its posterior means of g, and its posterior covariance C of g: the identity where
it knows nothing. The means have the covariance ``E = I - C``, and are ``m = E g + e`` with noise e of covariance
``E - E^2``. With the landmarks close to x*, two experts' answers share almost nothing beyond g. So their noises are
treated as independent, and the best linear combination is that of independent observations of g: its precision
is ``I + sum (C^-1 - I)``, and its mean the covariance times ``sum C^-1 m``.

With D = 0 this is the Bayesian committee machine of the latent value (Tresp 2000), with many landmarks the Gaussian
process of all rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64

from numerics.gp.coarse_answers import effective_rows
from numerics.gp.expert import Expert, blocks
from numerics.gp.kernels import Kernel
from numerics.gp.sketch import Sketch, bounded, residual_factor

_STEP, _HALF, _FLOOR = 0.02, 1e-3, 1e-9
"""Bounds of the variance that an expert leaves, since answers are rounded: shares of noise and of its own, absolute."""
_HARDLY = 0.05
"""Share of a variance below which an expert counts as knowing nothing."""
_TINY = float(np.finfo(np.float64).tiny)


class JointAnswer(NamedTuple):
    """An expert's answer about D independent values around each of q points.

    Attributes
    ----------
    mean : ndarray
        ``(q, D)`` means of g_1 to g_D.
    unknown : ndarray
        ``(q, D, D)`` covariances that are left: the block of C without g_0.
    rows : ndarray
        ``(q,)`` fewest rows that any part of it rests on (`Frame.rows`).
    """

    mean: Float64[np.ndarray, "q D"]
    unknown: Float64[np.ndarray, "q D D"]
    rows: Float64[np.ndarray, "q"]


class JointPosterior(NamedTuple):
    """Posterior of the function at N points, given the answers of all experts.

    Attributes
    ----------
    mean, variance : ndarray
        ``(N,)`` of the latent function.
    covariances : ndarray
        ``(N, D + 1)`` of g_0 to g_D with g_0.
    """

    mean: Float64[np.ndarray, "N"]
    variance: Float64[np.ndarray, "N"]
    covariances: Float64[np.ndarray, "N D+1"]


def joint_answers(
    expert: Expert, points: Float[np.ndarray, "q d"], offsets: Float[np.ndarray, "D d"], n_shared: int = 0
) -> tuple[Sketch, JointAnswer]:
    """Compute an expert's answers about points and the landmarks around them.

    Parameters
    ----------
    expert : Expert
        Expert that predicts.
    points : ndarray
        ``(q, d)`` query points in standardized units.
    offsets : ndarray
        ``(D, d)`` landmarks relative to every point, the same for all experts; D is 1 at least.
    n_shared : int
        Number of the expert's first rows that everybody knows; they do not count in `rows`.

    Examples
    --------
    >>> from numerics.gp.radial_kernels import SquaredExponential
    >>> expert = Expert(SquaredExponential(1), np.log([1.0, 1.0, 0.1]), np.array([[0.0], [0.5]]), np.ones(2))
    >>> sketch, joint = joint_answers(expert, np.array([[0.2]]), np.array([[-0.5], [0.5]]))
    >>> joint.mean.shape, joint.unknown.shape
    ((1, 2), (1, 2, 2))
    >>> bool(np.allclose(sketch.mean, expert.predict(np.array([[0.2]]))[0]))
    True
    """
    points, offsets = np.asarray(points, dtype=np.float64), np.asarray(offsets, dtype=np.float64)
    q, D, n, kernel = len(points), len(offsets), len(expert.x), expert.kernel
    mean, explained, directions, rows = np.empty(q), np.empty(q), np.empty((q, D)), np.empty(q)
    further = JointAnswer(np.empty((q, D)), np.empty((q, D, D)), np.empty(q))
    for some in blocks(q, 4 * n * (D + 1)):
        here = points[some]
        places = (here[:, np.newaxis] + offsets).reshape(-1, offsets.shape[1])
        to_points = kernel.matrix(expert.params, expert.x, here).T
        to_landmarks = kernel.matrix(expert.params, expert.x, places).reshape(n, -1, D).transpose(1, 0, 2)
        frame = Frame.around(kernel, expert.params, here, offsets)
        cross = frame.whiten(to_points, to_landmarks)
        answer = expert.predict_functionals(cross.transpose(1, 0, 2).reshape(n, -1))
        whitened, weights = (each.reshape(n, -1, D + 1).transpose(1, 0, 2) for each in answer[1:])
        known, means = whitened.transpose(0, 2, 1) @ whitened, answer.mean.reshape(-1, D + 1)
        mean[some], explained[some], directions[some] = _first(means, known, frame.prior[:, 0])
        own = weights[:, n_shared:]
        rows[some], further.rows[some] = _rows(own[:, :, :1])[:, 0], frame.rows(cross[:, n_shared:], own)
        further.mean[some], further.unknown[some] = means[:, 1:], np.eye(D) - known[:, 1:, 1:]
    return Sketch(mean, explained, directions, rows), further


class Frame(NamedTuple):
    """The values g around q points, in terms of the function.

    Attributes
    ----------
    lower, between : ndarray
        ``(q, D, D)`` factor L and ``(q, D)`` covariance of the point with the landmarks; of a stationary kernel
        ``(1, D, D)`` and ``(1, D)`` (`numerics.gp.sketch.residual_factor`).
    prior : ndarray
        ``(q, 1)`` prior variance k**.
    """

    lower: Float64[np.ndarray, "q D D"]
    between: Float64[np.ndarray, "q D"]
    prior: Float64[np.ndarray, "q 1"]

    @classmethod
    def around(
        cls,
        kernel: Kernel,
        params: Float64[np.ndarray, "p"],
        points: Float64[np.ndarray, "q d"],
        offsets: Float64[np.ndarray, "D d"],
    ) -> Frame:
        """Return the frame of the landmarks at these offsets from each point."""
        prior = np.maximum(kernel.diagonal(params, points), _TINY)[:, np.newaxis]
        return cls(*residual_factor(kernel, params, points, offsets), prior)

    def whiten(
        self, to_points: Float64[np.ndarray, "q n"], to_landmarks: Float64[np.ndarray, "q n D"]
    ) -> Float64[np.ndarray, "q n D+1"]:
        """Return the covariances of rows with g_0 to g_D, from those with the function at point and landmarks."""
        residual = to_landmarks - to_points[:, :, np.newaxis] * (self.between / self.prior)[:, np.newaxis, :]
        first = (to_points / np.sqrt(self.prior))[:, :, np.newaxis]
        return np.concatenate([first, residual @ np.linalg.inv(self.lower).transpose(0, 2, 1)], axis=2)

    def rows(
        self, cross: Float64[np.ndarray, "q n D+1"], weights: Float64[np.ndarray, "q n D+1"]
    ) -> Float64[np.ndarray, "q"]:
        """Return the fewest rows that a mean of g_1 to g_D, or of the function at a landmark, rests on.

        Values of which hardly anything is known do not count. Together, values may reveal more than each alone: two
        landmarks beside a lone row determine its output.
        """
        fewest = np.full(len(cross), np.inf)
        for change in (np.eye(cross.shape[2])[np.newaxis, :, 1:], self._at_landmarks()):
            own, seen = weights @ change, cross @ change
            known = np.einsum("qnd,qnd->qd", own, seen) > _HARDLY
            fewest = np.minimum(fewest, np.where(known, _rows(own), np.inf).min(axis=1))
        return fewest

    def _at_landmarks(self) -> Float64[np.ndarray, "q D+1 D"]:
        """Return the matrices that map g to the function at the landmarks, over its standard deviations."""
        first = (self.between / np.sqrt(self.prior))[:, :, np.newaxis]
        change = np.concatenate([first, np.broadcast_to(self.lower, (len(first), *self.lower.shape[1:]))], axis=2)
        return np.asarray((change / np.linalg.norm(change, axis=2, keepdims=True)).transpose(0, 2, 1))


def _rows(weights: Float64[np.ndarray, "q n D"]) -> Float64[np.ndarray, "q D"]:
    q, n, D = weights.shape
    return np.asarray(effective_rows(weights.transpose(1, 0, 2).reshape(n, -1)).reshape(q, D))


def _first(
    means: Float64[np.ndarray, "q D+1"], known: Float64[np.ndarray, "q D+1 D+1"], prior: Float64[np.ndarray, "q"]
) -> tuple[Float64[np.ndarray, "q"], Float64[np.ndarray, "q"], Float64[np.ndarray, "q D"]]:
    """Return mean, explained variance and direction of the answer about the point itself, as in `Sketch`."""
    share = np.clip(known[:, 0, 0], 0.0, 1.0)
    longest = np.sqrt(np.maximum(share * (1.0 - share), 1e-30))
    return means[:, 0] * np.sqrt(prior), share * prior, bounded(known[:, 0, 1:] / longest[:, np.newaxis])


def sizes(D: int) -> tuple[int, int]:
    """Return how many means and how many covariances a joint answer about D landmarks has.

    Examples
    --------
    >>> sizes(8)
    (8, 36)
    """
    return D, D * (D + 1) // 2


def pack(matrices: Float[np.ndarray, "q D D"]) -> Float[np.ndarray, "q T"]:
    """Return the upper triangles of symmetric matrices, row by row."""
    return matrices[:, *np.triu_indices(matrices.shape[1])]


def combine(
    mean: Float64[np.ndarray, "N K"],
    explained: Float64[np.ndarray, "N K"],
    directions: Float[np.ndarray, "N K D"],
    further: Float[np.ndarray, "N K A"],
    prior: Float64[np.ndarray, "N"],
    noise: float,
) -> JointPosterior:
    """Combine the joint answers of K experts at each of N points.

    Parameters
    ----------
    mean, explained, directions : ndarray
        ``(N, K)``, ``(N, K)`` and ``(N, K, D)`` of the answers about the points (`Sketch`). An expert that explains
        nothing at a point does not count there.
    further : ndarray
        ``(N, K, A)`` means and packed covariances of the answers about the landmarks (`sizes`). Impossible ones are
        moved to the nearest possible ones: no answer makes a variance negative.
    prior : ndarray
        ``(N,)`` prior variance k** at the points.
    noise : float
        Variance sigma^2 of the noise.

    Returns
    -------
    JointPosterior

    Examples
    --------
    Without landmarks, two equal answers count as independent:

    >>> nothing = np.zeros((1, 2, 0))
    >>> posterior = combine(np.full((1, 2), 0.6), np.full((1, 2), 0.5), nothing, nothing, np.ones(1), 0.0)
    >>> posterior.mean.round(2), posterior.variance.round(2)
    (array([0.8]), array([0.33]))
    """
    N, K, D = directions.shape
    prior = np.maximum(prior, _TINY)
    combined, variance, covariances = np.empty(N), np.empty(N), np.empty((N, D + 1))
    for some in blocks(N, 6 * K * (D + 1) ** 2):
        shares = np.clip(explained[some] / prior[some, np.newaxis], 0.0, 1.0)
        means, unknown = _matrices(mean[some], shares, directions[some], further[some], prior[some])
        value, covariances[some] = _posterior(means, unknown, noise / prior[some])
        combined[some] = value * np.sqrt(prior[some])
        variance[some] = np.clip(covariances[some, 0], _FLOOR, 1.0) * prior[some]
    return JointPosterior(combined, variance, covariances)


def _matrices(
    mean: Float64[np.ndarray, "N K"],
    shares: Float64[np.ndarray, "N K"],
    directions: Float[np.ndarray, "N K D"],
    further: Float[np.ndarray, "N K A"],
    prior: Float64[np.ndarray, "N"],
) -> tuple[Float64[np.ndarray, "N K D+1"], Float64[np.ndarray, "N K D+1 D+1"]]:
    """Return the vectors m and the matrices C of the answers: 0 and the identity where nothing is explained."""
    N, K, D = directions.shape
    answered = (shares > 0)[:, :, np.newaxis, np.newaxis]
    unknown = np.empty((N, K, D + 1, D + 1))
    rows, columns = np.triu_indices(D)
    unknown[:, :, rows + 1, columns + 1] = unknown[:, :, columns + 1, rows + 1] = further[:, :, D:]
    unknown[:, :, 0, 0] = 1.0 - shares
    # An expert that knows nothing of a value cannot know its covariance with another.
    informative = np.einsum("nkaa->nka", unknown)[:, :, 1:] < 1.0
    unknown[:, :, 0, 1:] = -bounded(directions) * np.sqrt(shares * (1.0 - shares))[:, :, np.newaxis] * informative
    unknown[:, :, 1:, 0] = unknown[:, :, 0, 1:]
    means = np.concatenate([(mean / np.sqrt(prior)[:, np.newaxis])[:, :, np.newaxis], further[:, :, :D]], axis=2)
    return means * answered[:, :, 0], np.where(answered, unknown, np.eye(D + 1))


def _posterior(
    means: Float64[np.ndarray, "N K D+1"], unknown: Float64[np.ndarray, "N K D+1 D+1"], noise: Float64[np.ndarray, "N"]
) -> tuple[Float64[np.ndarray, "N"], Float64[np.ndarray, "N D+1"]]:
    """Return the mean of g_0 and its covariances with all g, given all answers; `noise` is over the prior variance."""
    size = means.shape[2]
    variances, axes = np.linalg.eigh(unknown)
    smallest = np.maximum(
        _HALF * np.einsum("nkaa->nka", unknown).min(axis=2), _STEP * np.minimum(noise, 1.0)[:, np.newaxis]
    )
    variances = np.clip(variances, np.maximum(smallest, _FLOOR)[:, :, np.newaxis], 1.0)
    turned = axes.transpose(0, 1, 3, 2)
    # Both sums are over experts and axes of their answers.
    gains = axes * (1.0 / variances - 1.0)[:, :, np.newaxis, :]
    precision = np.eye(size) + (gains @ turned).sum(axis=1)
    information = (axes @ ((turned @ means[:, :, :, np.newaxis]) / variances[:, :, :, np.newaxis])).sum(axis=1)
    first = np.zeros((len(means), size, 1))
    first[:, 0] = 1.0
    weights = np.linalg.solve(precision, first)[:, :, 0]
    return np.einsum("nd,nd->n", weights, information[:, :, 0]), weights
