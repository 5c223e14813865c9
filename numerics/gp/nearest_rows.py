"""An expert of very many rows that predicts a point from the rows nearest to it: its cost hardly grows with the rows.

The Gaussian process of a point's m nearest rows is close to that of all rows, because rows several lengths away are
almost uncorrelated (Vecchia 1988; Gramacy and Apley: Local Gaussian process approximation for large computer
experiments, 2015, whose "nearest neighbor" design this is). Distances are in the kernel's lengths. A k-d tree finds the
rows.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Float64, Int64

from numerics.gp.coarse_answers import effective_rows
from numerics.gp.expert import LeftOut, blocks
from numerics.gp.joint_answers import Frame, JointAnswer
from numerics.gp.kernels import Kernel
from numerics.gp.sketch import Sketch, directions_of
from numerics.shared.folds import Persons

LEARNING_PARTS, LEARNING_ROWS = 5, 500
"""Neighborhoods whose rows stand for all rows in the search for hyperparameters, and their rows."""
CHECKED_ROWS = 500
"""Rows whose residuals stand for those of all rows."""
_MOST_DIMENSIONS = 10.0
"""Effective number of inputs beyond which computing all distances is faster than a k-d tree."""
_MANY_ROWS, _SAMPLED_SHARE, _MOST_WITHIN = 50_000, 64, 20
"""Rows from which on a sample limits the distances that are sorted, one row in how many the sample is, and most
distances within the limits, relative to the rows sought."""
_JITTER = 1e-10
"""Added to the variance of a row, as a share of the kernel's."""


class NearestRows:
    """A Gaussian process of the m rows nearest to each query point.

    Parameters
    ----------
    kernel : Kernel
        Covariance of the process.
    theta : ndarray
        The kernel's parameters and, last, the logarithm of the noise's standard deviation.
    x, y : ndarray
        ``(n, d)`` and ``(n,)`` rows in standardized units.
    m : int
        Number of rows that predict a point.
    noise : ndarray, optional
        ``(n,)`` known variances of the rows' own noise, beside that of theta.

    Examples
    --------
    >>> from numerics.gp.radial_kernels import SquaredExponential
    >>> x = np.linspace(0, 1000, 10_001)[:, np.newaxis]
    >>> expert = NearestRows(SquaredExponential(1), np.log([1.0, 1.0, 0.01]), x, np.sin(x[:, 0]), 30)
    >>> expert.predict(np.array([[500.0]]), np.zeros((0, 1))).mean.round(3), np.sin([500.0]).round(3)
    (array([-0.468]), array([-0.468]))
    """

    def __init__(
        self,
        kernel: Kernel,
        theta: Float64[np.ndarray, "p"],
        x: Float64[np.ndarray, "n d"],
        y: Float64[np.ndarray, "n"],
        m: int,
        noise: Float64[np.ndarray, "n"] | None = None,
    ) -> None:
        from scipy.spatial import cKDTree  # which only a site of many rows needs

        self.kernel, self.params, self.x, self.y = kernel, theta[:-1], x, y
        common = float(np.exp(2 * theta[-1]))
        self._noise, self._m = np.full(len(y), common) if noise is None else common + noise, min(m, len(y))
        self._lengths = kernel.lengths(self.params)
        scaled = x / self._lengths
        self._tree = (
            cKDTree(scaled, balanced_tree=False, compact_nodes=False)
            if _dimensions(scaled) <= _MOST_DIMENSIONS
            else None
        )
        self._scaled = scaled if self._tree is None else scaled[:0]

    def predict(self, points: Float[np.ndarray, "q d"], offsets: Float64[np.ndarray, "D d"]) -> Sketch:
        """Predict at points in standardized units, with features over landmarks at these offsets from each."""
        points = np.asarray(points, dtype=np.float64)
        return self._predict(points, self._nearest(points, self._m), offsets)

    def answer_jointly(
        self, points: Float[np.ndarray, "q d"], offsets: Float64[np.ndarray, "D d"]
    ) -> tuple[Sketch, JointAnswer]:
        """Answer about points and the landmarks around them (`numerics.gp.joint_answers.joint_answers`)."""
        points = np.asarray(points, dtype=np.float64)
        sketch, near = self.predict(points, offsets), self._nearest(points, self._m)
        q, m, D = len(points), near.shape[1], len(offsets)
        further = JointAnswer(np.empty((q, D)), np.empty((q, D, D)), np.empty(q))
        for some in blocks(q, 3 * (m + D + 1) ** 2):
            joint, own = self._joint(points[some], near[some], offsets)
            frame = Frame.around(self.kernel, self.params, points[some], offsets)
            cross = frame.whiten(joint[:, :m, m], joint[:, :m, m + 1 :])
            weights = np.linalg.solve(own, cross)
            further.mean[some] = np.einsum("qmd,qm->qd", weights[:, :, 1:], self.y[near[some]])
            further.unknown[some] = np.eye(D) - cross[:, :, 1:].transpose(0, 2, 1) @ weights[:, :, 1:]
            further.rows[some] = frame.rows(cross, weights)
        return sketch, further

    def left_out(self, rng: np.random.Generator, person: Persons = None) -> LeftOut:
        """Predict some rows, drawn at random, from the rows nearest to each, which are about other persons."""
        rows = rng.permutation(len(self.y))[:CHECKED_ROWS]
        if person is not None:
            return self._persons_left_out(rows, person)
        near = self._nearest(self.x[rows], min(self._m + 1, len(self.y)))
        # Among equal rows, the row itself need not be the first; where it is not found at all, another one is left out.
        itself = near == rows[:, np.newaxis]
        itself[~itself.any(axis=1), -1] = True
        return self._left_out_from(rows, near[~itself].reshape(len(rows), -1))

    def _persons_left_out(self, rows: Int64[np.ndarray, "r"], person: Int64[np.ndarray, "n"]) -> LeftOut:
        """Predict rows from the nearest rows of other persons: m, or as many as there are for each row."""
        own = np.unique(person, return_counts=True)[1].max()
        near = self._nearest(self.x[rows], min(self._m + int(own), len(self.y)))
        foreign = person[near] != person[rows][:, np.newaxis]
        m = min(self._m, int(foreign.sum(axis=1).min()))
        nearest_first = np.argsort(~foreign, axis=1, kind="stable")[:, :m]
        return self._left_out_from(rows, np.take_along_axis(near, nearest_first, axis=1))

    def _left_out_from(self, rows: Int64[np.ndarray, "r"], near: Int64[np.ndarray, "r m"]) -> LeftOut:
        predictions = self._predict(self.x[rows], near, np.zeros((0, self.x.shape[1])))
        variance = self.kernel.diagonal(self.params, self.x[rows]) - predictions.explained + self._noise[rows]
        return LeftOut(self.y[rows] - predictions.mean, variance, rows)

    def _nearest(self, points: Float64[np.ndarray, "q d"], count: int) -> Int64[np.ndarray, "q count"]:
        if self._tree is None:
            return _by_distances(self._scaled, points / self._lengths, count)
        _, near = self._tree.query(points / self._lengths, k=np.arange(1, count + 1))
        return np.asarray(near, dtype=np.int64)

    def _predict(
        self, points: Float64[np.ndarray, "q d"], near: Int64[np.ndarray, "q m"], offsets: Float64[np.ndarray, "D d"]
    ) -> Sketch:
        q, m, D = len(points), near.shape[1], len(offsets)
        mean, explained, directions, rows = np.empty(q), np.empty(q), np.empty((q, D)), np.empty(q)
        for some in blocks(q, 3 * (m + D + 1) ** 2):
            here = points[some]
            joint, own = self._joint(here, near[some], offsets)
            prior = joint[:, m, m]
            weights = np.linalg.solve(own, joint[:, :m, m : m + 1])[:, :, 0]
            mean[some] = np.einsum("qm,qm->q", weights, self.y[near[some]])
            explained[some] = np.clip(np.einsum("qm,qm->q", weights, joint[:, :m, m]), 0.0, prior)
            rows[some] = effective_rows(weights.T)
            around = np.einsum("qm,qmd->qd", weights, joint[:, :m, m + 1 :])
            if D:
                directions[some] = directions_of(self.kernel, self.params, here, offsets, explained[some], around)
        return Sketch(mean, explained, directions, rows)

    def _joint(
        self, points: Float64[np.ndarray, "q d"], near: Int64[np.ndarray, "q m"], offsets: Float64[np.ndarray, "D d"]
    ) -> tuple[Float64[np.ndarray, "q s s"], Float64[np.ndarray, "q m m"]]:
        """Return the covariances of the function at near rows, point and landmarks, and of the outputs of the rows."""
        sets = np.concatenate([self.x[near], points[:, None], points[:, None] + offsets], axis=1)
        joint, m = self.kernel.batch(self.params, sets), near.shape[1]
        own = joint[:, :m, :m]
        np.einsum("qmm->qm", own)[...] += self._noise[near] + _JITTER * joint[:, m, m, None]
        return joint, own


def _dimensions(x: Float64[np.ndarray, "n d"]) -> float:
    """Return the effective number of inputs: d if all vary as much, 1 if one varies much more than the others."""
    variances = x.var(axis=0)
    return float(variances.sum() ** 2 / max(float(variances @ variances), np.finfo(np.float64).tiny))


def _by_distances(
    x: Float64[np.ndarray, "n d"], points: Float64[np.ndarray, "q d"], count: int
) -> Int64[np.ndarray, "q count"]:
    """Return the rows nearest to each point, by all distances."""
    near = np.empty((len(points), count), np.int64)
    left = np.arange(len(points))
    if len(x) >= _MANY_ROWS and len(points):
        near, left = _within_limits(x, points, count)
    squares = np.einsum("nd,nd->n", x, x)
    for some in blocks(len(left), len(x)):
        distances = squares - 2.0 * (points[left[some]] @ x.T)
        near[left[some]] = np.argpartition(distances, count - 1, axis=1)[:, :count]
    return near


def _within_limits(
    x: Float64[np.ndarray, "n d"], points: Float64[np.ndarray, "q d"], count: int
) -> tuple[Int64[np.ndarray, "q count"], Int64[np.ndarray, "left"]]:
    """Return the rows nearest to each point, and the points for which they were not found: few, or all of them.

    A sample of the rows estimates how far the nearest rows are, so that only a few distances of each point are sorted.
    That takes a fourth of the time.
    """
    n, q = len(x), len(points)
    sampled = np.random.default_rng(0).permutation(n)[: max(n // _SAMPLED_SHARE, 4 * count)]
    some = x[np.sort(sampled)]
    place = min(len(some) - 1, int(np.ceil(1.5 * count * len(some) / n)) + 10)
    limits = np.partition(_comparable_distances(some, points), place, axis=1)[:, place, np.newaxis]
    point, row, distance, total = [], [], [], 0
    for part in blocks(n, q):
        distances = _comparable_distances(x[part], points)
        at, place_of = np.nonzero(distances <= limits)
        total += len(at)
        if total > _MOST_WITHIN * count * q:  # most rows are alike
            return np.empty((q, count), np.int64), np.arange(q)
        point.append(at)
        row.append(place_of + part.start)
        distance.append(distances[at, place_of])
    points_of, rows = np.concatenate(point), np.concatenate(row)
    order = np.lexsort((np.concatenate(distance), points_of))
    counts = np.bincount(points_of, minlength=q)
    starts = np.cumsum(counts) - counts
    # Where too few are within the limit, whatever stands here is replaced.
    places = np.minimum(starts[:, np.newaxis] + np.arange(count), len(order) - 1)
    return rows[order[places]], np.flatnonzero(counts < count)


def _comparable_distances(
    x: Float64[np.ndarray, "n d"], points: Float64[np.ndarray, "q d"]
) -> Float64[np.ndarray, "q n"]:
    """Return squared distances less the square of the point."""
    return np.asarray(np.einsum("nd,nd->n", x, x) - 2.0 * (points @ x.T))


def learning_rows(n: int) -> tuple[int, int]:
    """Return how many neighborhoods, of how many rows each, stand for n rows in the search for hyperparameters.

    Examples
    --------
    >>> learning_rows(10**6), learning_rows(1200), learning_rows(60)
    ((5, 500), (2, 500), (1, 60))
    """
    return min(max(n // LEARNING_ROWS, 1), LEARNING_PARTS), min(n, LEARNING_ROWS)


def neighborhoods(x: Float64[np.ndarray, "n d"], rng: np.random.Generator) -> Int64[np.ndarray, "parts rows"]:
    """Return the rows that stand for all in the search for hyperparameters: the nearest to rows drawn at random.

    Rows drawn one by one would be too far from each other to show a short length.

    Examples
    --------
    >>> neighborhoods(np.zeros((1200, 2)), np.random.default_rng(0)).shape
    (2, 500)
    """
    parts, size = learning_rows(len(x))
    centers = x[rng.permutation(len(x))[:parts]]
    return np.sort(_by_distances(x, centers, size), axis=1)
