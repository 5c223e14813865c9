"""Attacks by predictions and likelihoods with crafted lengths, so that an answer is about few rows alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from consilience.attack.interface import Attack, Claims
from consilience.attack.site import AttackedSite
from numerics.gp.dirichlet import LatentUnits, latent_outputs, latent_units
from numerics.gp.landmarks import offsets
from numerics.gp.likelihood import evaluate
from numerics.gp.measurements import Measurements
from numerics.gp.moments import Units
from numerics.gp.radial_kernels import SquaredExponential
from protocols.gp.payloads import Evaluate, Likelihood, Moments, Predict, Predictions, Survey
from protocols.gp.settings import FEWEST_NEAREST

_MAX_ROWS, _LANDMARKS = 20_000, 32
_STARTS, _STEPS, _NEAREST_STARTS = 4000, 4, 1000
"""Number of starting points and of steps from each toward a row; number of starting points with nearest rows."""
_IRRELEVANT = 50.0
"""Length from which on an input does not matter."""
_TOLERANCE = 0.0045
"""Half the width of a claim, as a share of a column's range."""
_SHORTEST, _LONGEST = 1e-3, 1e4
"""Bounds of a length at a site."""
_SLICE, _SURE = 0.006, 0.97
"""Length of a slice in its column, and smallest explained share of the variance in an answer about one row."""
_RARE = 4
"""Most rows that may share a value for `likelihoods` to look for their outputs."""


def true_rows(shard: Measurements) -> Float64[np.ndarray, "n q"]:
    """Return inputs and output of every row (`consilience.attack.interface`); of a class its place."""
    return np.column_stack([shard.x, shard.y])


def _as_classes(moments: Moments) -> dict[str, Any]:
    """Return the fields of an ask about classes; empty for amounts."""
    if not moments.classes:
        return {}
    units = _latent(moments)
    return {"classes": moments.classes, "class_means": units.means, "y_scale": units.scale}


def _latent(moments: Moments) -> LatentUnits:
    return latent_units(moments.class_counts.sum(axis=0))


class _Center:
    """A fusion center that predicts with hyperparameters of its choice, given the site's moments.

    Parameters
    ----------
    site : AttackedSite
        The site.
    nearest : int
        Number of nearest rows that predict a point; 0: all rows do.
    starts : int
        Number of starting points.
    joint : bool
        Whether to ask about the landmarks, too.
    """

    def __init__(self, site: AttackedSite, nearest: int = 0, starts: int = _STARTS, *, joint: bool = False) -> None:
        self.site, self.n_points, self.starts, self.joint = site, 0, starts, joint
        self.max_rows, self.nearest = 2 if nearest else _MAX_ROWS, nearest
        self.moments: Moments | None = None
        if site.start_run():
            self.moments = site.ask(Survey(self.max_rows, "se", fit=True, local=nearest))

    def set_model(self, lengths: Float64[np.ndarray, "d"], scale: float, sigma: float) -> None:
        """Choose the model of the run."""
        assert self.moments is not None  # noqa: S101 - every caller has checked them
        moments, d = self.moments, len(lengths)
        self.units = Units(
            moments.means[0],
            np.sqrt(np.maximum(np.diagonal(moments.covariances[0]), 1e-12)),
            float(moments.y_means[0]),
            float(np.sqrt(max(moments.y_variances[0], 1e-12))),
        )
        self.lengths, self.prior, self.noise = lengths, scale**2, sigma**2
        self.theta = np.log([*lengths, scale, sigma])
        self.offsets = offsets(_LANDMARKS, lengths, 0, np.ones(d))
        relevant = self.offsets / lengths
        to_point = self.prior * np.exp(-0.5 * np.sum(relevant**2, axis=1))
        between = self.prior * np.exp(
            -0.5 * np.sum((relevant[:, np.newaxis] - relevant[np.newaxis]) ** 2, axis=2)
        ) - np.outer(to_point, to_point / self.prior)
        self.factor = np.linalg.cholesky(between + 1e-9 * self.prior * np.eye(_LANDMARKS))
        self.to_point = to_point

    def predict(self, points: Float64[np.ndarray, "q d"]) -> Predictions | None:
        """Ask for predictions of the site's first expert."""
        assert self.moments is not None  # noqa: S101 - every caller has checked them
        d = points.shape[1]
        self.n_points += len(points) * (1 + _LANDMARKS * self.joint)
        outputs = {"y_mean": self.units.y_mean, "y_scale": self.units.y_scale} | _as_classes(self.moments)
        none = [np.zeros((0, d))] * (len(self.moments.counts) - 1)
        answer: Any = self.site.ask(
            Predict(
                max_rows=self.max_rows,
                local=self.nearest,
                counts=self.moments.counts,
                mean=self.units.mean,
                scale=self.units.scale,
                kernel="se",
                theta=self.theta,
                points=(points, *none),
                landmarks=_LANDMARKS,
                seed=0,
                varies=np.ones(d, bool),
                shared_rows=0,
                shared_x=np.zeros((0, d)),
                shared_y=np.zeros(0),
                joint=self.joint,
                **outputs,
            )
        )
        if not isinstance(answer, Predictions):
            return None
        k = len(self.moments.classes) or 1
        self.classes = answer.mean[0].reshape(-1, k).argmax(axis=1).astype(np.float64)
        # The output of the first class suffices to tell where the rows are.
        first = {each.name: tuple(array[::k] for array in getattr(answer, each.name)) for each in fields(Predictions)}
        return Predictions(**first)

    def outputs(self, mean: Float64[np.ndarray, "q"], known: Bool[np.ndarray, "q"]) -> Float64[np.ndarray, "q"]:
        """Return the outputs of these means at the points of `known`, in the data's units; of classes the likeliest."""
        assert self.moments is not None  # noqa: S101 - every caller has checked them
        return self.classes[known] if self.moments.classes else mean * self.units.y_scale + self.units.y_mean

    def steps(self, answer: Predictions, known: Bool[np.ndarray, "q"]) -> Float64[np.ndarray, "k d"]:
        """Return the offset of the nearest row from each point of `known`, if one row alone explains the answer.

        The covariances of the prediction with the function at the landmarks o are then in proportion to the kernel at
        that row: their logarithms are linear in o.
        """
        explained, active = answer.explained[0][known], self.lengths < _IRRELEVANT
        share = explained / self.prior
        features = answer.features[0][known].astype(np.float64) * np.sqrt(explained * (1 - share))[:, np.newaxis]
        ratio = (features @ self.factor.T + self.to_point * share[:, np.newaxis]) / explained[:, np.newaxis]
        relevant = (self.offsets / self.lengths)[:, active]
        logs = np.log(np.where(ratio > 1e-3, ratio, 1.0)) + 0.5 * np.sum(relevant**2, axis=1)
        weights = np.where(ratio > 1e-3, np.minimum(ratio, 1.0) ** 2, 0.0)
        columns = np.column_stack([np.ones(_LANDMARKS), relevant])
        matrix = np.einsum("za,qz,zb->qab", columns, weights, columns) + 1e-9 * np.eye(columns.shape[1])
        solution = np.linalg.solve(matrix, np.einsum("za,qz->qa", columns, weights * logs)[:, :, np.newaxis])
        steps = np.zeros((len(explained), len(self.lengths)))
        steps[:, active] = np.clip(solution[:, 1:, 0], -3.0, 3.0) * self.lengths[active]
        return steps

    def look_around(
        self, answer: Predictions, points: Float64[np.ndarray, "q d"]
    ) -> tuple[Float64[np.ndarray, "q d"], Float64[np.ndarray, "q"], Bool[np.ndarray, "q"]]:
        """Return each point's best explained landmark, the mean there, and whether a row is likely nearby."""
        share = answer.explained[0] / self.prior
        places = np.concatenate(
            [(self.to_point / self.prior)[:, np.newaxis], self.factor / np.sqrt(self.prior)], axis=1
        )
        left = np.zeros((len(points), 1 + _LANDMARKS, 1 + _LANDMARKS))
        rows, columns = np.triu_indices(_LANDMARKS)
        left[:, rows + 1, columns + 1] = left[:, columns + 1, rows + 1] = answer.further_unknown[0]
        left[:, 0, 0] = 1 - share
        left[:, 0, 1:] = left[:, 1:, 0] = -answer.features[0] * np.sqrt(share * (1 - share))[:, np.newaxis]
        means = np.concatenate([answer.mean[0][:, np.newaxis] / np.sqrt(self.prior), answer.further_mean[0]], axis=1)
        means_at = means @ places.T * np.sqrt(self.prior)
        explained = 1 - np.einsum("za,qab,zb->qz", places, left, places)
        best = explained.argmax(axis=1)
        each = np.arange(len(points))
        return points + self.offsets[best], means_at[each, best], explained[each, best] > 0.5


def _read(center: _Center) -> Claims:
    """Go from random points to the nearest rows, and claim those where most paths end."""
    moments, d = center.moments, len(center.lengths)
    assert moments is not None  # noqa: S101 - every caller has checked it
    unit = center.units.scale
    covariance = moments.covariances[0] / np.outer(unit, unit)
    points = np.random.default_rng(1).multivariate_normal(np.zeros(d), covariance, center.starts, check_valid="ignore")
    outputs = np.zeros(len(points))
    for step in range(_STEPS):
        answer = center.predict(points)
        known = np.zeros(0, bool) if answer is None else answer.explained[0] > 0
        if answer is None or not known.any():
            return _claims(center, np.zeros((0, d + 1)))
        # At a row alone, the mean is its output, shrunk by the noise.
        outputs = center.outputs(answer.mean[0][known] * (center.prior + center.noise) / center.prior, known)
        points = points[known] + (center.steps(answer, known) if step < _STEPS - 1 else 0.0)
    return _claims(center, np.column_stack([points * unit + center.units.mean, outputs]))


def _claims(center: _Center, guesses: Float64[np.ndarray, "guesses q"]) -> Claims:
    """Claim the guesses with the most other guesses nearby, at most as many as the site has rows."""
    assert center.moments is not None  # noqa: S101 - every caller has checked them
    notes, tolerance = [f"points asked: {center.n_points}"], _TOLERANCE * np.ptp(center.site.ranges, axis=0)
    if not len(guesses):
        return Claims.none(len(tolerance), *notes)
    cell = np.round(guesses / np.maximum(2 * tolerance, 1e-300)).astype(np.int64)
    _, first, counts = np.unique(cell, axis=0, return_index=True, return_counts=True)
    agreed = first[np.argsort(-counts, kind="stable")[: int(center.moments.counts[0])]]
    return Claims.points(guesses[agreed], tolerance, notes)


# -- attacks ----------------------------------------------------------------------------------------------------------


def isolation(site: AttackedSite) -> Claims:
    """Lengths of a tenth and hardly any noise: every row is alone, and landmarks around a point show where it lies."""
    center = _Center(site)
    if center.moments is None:
        return Claims.none(site.ranges.shape[1], "the site takes no part")
    center.set_model(np.full(len(center.moments.features), 0.1), 1.0, 1e-3)
    return _read(center)


def plausible(site: AttackedSite) -> Claims:
    """A third of the site's own best lengths and noise: hyperparameters that look like honest ones."""
    return _third(_Center(site))


def _third(center: _Center) -> Claims:
    if center.moments is None:
        return Claims.none(center.site.ranges.shape[1], "the site takes no part")
    *lengths, scale, sigma = np.exp(center.moments.theta)
    center.set_model(np.clip(np.array(lengths) * 0.3, 2e-3, 9e3), float(scale), max(float(sigma) / 3, 1e-3))
    return _read(center)


def surroundings(site: AttackedSite) -> Claims:
    """Short lengths, hardly any noise, and answers about 32 landmarks around each point, of which the best is taken."""
    center = _Center(site, starts=_STARTS // 16, joint=True)
    if center.moments is None:
        return Claims.none(site.ranges.shape[1], "the site takes no part")
    d = len(center.moments.features)
    center.set_model(np.full(d, 0.3), 1.0, 1e-2)
    unit, points = center.units.scale, np.random.default_rng(1).normal(size=(center.starts, d))
    rows = np.zeros((0, d + 1))
    for _ in range(2):
        answer = center.predict(points)
        if answer is None:
            break
        points, means, much = center.look_around(answer, points)
        outputs = center.outputs(means, np.ones(len(points), bool))
        answers = np.column_stack([points * unit + center.units.mean, outputs])
        rows = np.concatenate([rows, answers[much]])
    return _claims(center, rows)


def neighbors(site: AttackedSite) -> Claims:
    """As `plausible`, of the fewest nearest rows that a site predicts from."""
    return _third(_Center(site, FEWEST_NEAREST, _NEAREST_STARTS))


def likelihoods(site: AttackedSite) -> Claims:
    """The likelihood of tiny lengths in a column of two values reveals the sum of the outputs of the rarer value.

    Where one row has it, the covariances tell its other inputs.
    """
    n_columns = site.ranges.shape[1]
    moments = site.ask(Survey(_MAX_ROWS, "se", fit=False)) if site.start_run() else None
    if not isinstance(moments, Moments) or len(moments.counts) > 1:
        return Claims.none(n_columns, "the site takes no part, or has several experts")
    low, high = site.ranges[:, :-1]
    n, means, variances = int(moments.counts[0]), moments.means[0], np.diagonal(moments.covariances[0])
    share = (means - low) / np.where(high > low, high - low, 1.0)
    two_values = np.isclose(variances, share * (1 - share) * (high - low) ** 2) & (high > low)
    boxes, notes = [], []
    for column in np.flatnonzero(two_values):
        n_high = round(n * share[column])
        n_rare, value = min((n_high, high[column]), (n - n_high, low[column]))
        total_of = _classes_of_value if moments.classes else _outputs_of_value
        total = total_of(site, moments, int(column), n_rare) if 1 <= n_rare <= _RARE else None
        if total is None:
            continue
        notes.append(
            f"{moments.features[column]} = {value:g}: the outputs of {n_rare} of {n} rows add up to {total:.6g}"
        )
        if n_rare == 1:
            # The covariances with the other columns are then the row's distance from their means.
            sign = 1 if value == high[column] else -1
            others = means + n * moments.covariances[0][column] / (sign * (high - low)[column])
            boxes.append(np.append(np.where(np.arange(len(means)) == column, value, others), total))
    return _boxes(boxes, site, notes)


def _outputs_of_value(site: AttackedSite, moments: Moments, column: int, n_rare: int) -> float | None:
    """Return the sum of the outputs of the rows with the rarer value of a column; None if the site refuses.

    Rows of one value have the same inputs but for lengths that do not matter, so that Z consists of two blocks
    ``s^2 11^T + sigma^2 I``. With ``r = s^2 / sigma^2``, ``sigma^2 y^T Z^-1 y`` is
    ``sum y^2 - sum over the blocks of r (sum of y)^2 / (1 + r n)``. The derivatives by log s and log sigma add up to
    ``y^T Z^-1 y - n``.
    """
    n = int(moments.counts[0])
    deviation = float(np.sqrt(max(moments.y_variances[0], 1e-300)))
    ratios = np.array([0.1, 0.3, 1.0, 3.0, 10.0])
    # Outputs of mean 0 would tell the sum but for its sign.
    units = {"y_mean": float(moments.y_means[0]) - deviation, "y_scale": deviation}
    answer = _ask_likelihood(site, moments, column, ratios, units)
    if answer is None:
        return None
    blocks = 2 * n - (answer.gradients[:, -1] + answer.gradients[:, -2] + n)  # outputs have mean 1 and variance 1
    rare, other = ratios / (1 + ratios * n_rare), ratios / (1 + ratios * (n - n_rare))
    # Each answer is a quadratic equation of the sum, whose linear and constant terms are those of the other block.
    roots = np.roots([rare[-1] + other[-1], -2 * n * other[-1], n**2 * other[-1] - blocks[-1]]).real
    misfits = [np.abs(rare * root**2 + other * (n - root) ** 2 - blocks).max() for root in roots]
    total = float(roots[int(np.argmin(misfits))])
    return total * deviation + n_rare * (float(moments.y_means[0]) - deviation)


def _classes_of_value(site: AttackedSite, moments: Moments, column: int, n_rare: int) -> float | None:
    """Return the sum of the places of the classes of the rows with the rarer value; None if the site refuses.

    Only one combination of classes of these rows has the site's likelihood. Of the other rows, only the number of each
    class matters.
    """
    answer = _ask_likelihood(site, moments, column, np.ones(1), {"y_mean": 0.0} | _as_classes(moments))
    if answer is None:
        return None
    counts, best, misfit = moments.class_counts[0], 0.0, np.inf
    x = (np.arange(moments.counts[0]) < n_rare).astype(np.float64)[:, np.newaxis]
    theta = np.log([_SHORTEST, 1.0, 1.0])
    for rare in combinations_with_replacement(range(len(counts)), n_rare):
        others = counts - np.bincount(rare, minlength=len(counts))
        if (others < 0).any():
            continue
        outputs = latent_outputs(np.r_[rare, np.repeat(np.arange(len(counts)), others)].astype(int), _latent(moments))
        off = abs(evaluate(SquaredExponential(1), theta, x, *outputs).value - float(answer.values[0]))
        if off < misfit:
            best, misfit = float(sum(rare)), off
    return best


def _ask_likelihood(
    site: AttackedSite,
    moments: Moments,
    column: int,
    ratios: Float64[np.ndarray, "c"],
    outputs: Mapping[str, Any],
) -> Likelihood | None:
    """Ask for the likelihood where inputs matter in one column only, by ratios of the variances of function and noise.

    Return None if the site refuses.
    """
    lengths = np.full(len(moments.features), _LONGEST)
    lengths[column] = _SHORTEST
    answer: Any = site.ask(
        Evaluate(
            max_rows=_MAX_ROWS,
            counts=moments.counts,
            mean=moments.means[0],
            scale=np.sqrt(np.maximum(np.diagonal(moments.covariances[0]), 1e-12)),
            kernel="se",
            thetas=np.log([[*lengths, np.sqrt(ratio), 1.0] for ratio in ratios]),
            **outputs,
        )
    )
    return answer if isinstance(answer, Likelihood) else None


def slices(site: AttackedSite) -> Claims:
    """Short lengths in one column, the others irrelevant: a row without neighbors in this column is read alone."""
    n_columns = site.ranges.shape[1]
    boxes, n_points, run = [], 0, 0
    while (center := _Center(site)).moments is not None:
        if center.moments.classes:
            return Claims.none(n_columns, "this attack is on amounts")
        d = len(center.moments.features)
        column, part = run % d, run // d
        run += 1
        readings = _slice(center, column, part)
        n_points += center.n_points
        for place, output in readings:
            box = np.full(n_columns, np.nan)
            box[[column, -1]] = place, output
            boxes.append(box)
    return _boxes(boxes, site, [f"runs: {run}, points asked: {n_points}"])


def _slice(center: _Center, column: int, part: int) -> list[tuple[float, float]]:
    """Return value in the column, and output, of the rows that a run reads alone."""
    assert center.moments is not None  # noqa: S101 - the caller has checked them
    lengths = np.full(len(center.moments.features), _LONGEST)
    lengths[column] = length = _SLICE
    center.set_model(lengths, 1.0, 1e-3)
    grid = np.zeros((int(8 / (2 * length)), len(lengths)))
    grid[:, column] = np.random.default_rng(part).permutation(np.arange(len(grid))) * 2 * length - 4.0
    readings = []
    for place in np.array_split(grid, len(grid) // 8):
        answer = center.predict(place)
        if answer is None:
            break
        hit = np.flatnonzero(answer.explained[0] > 0)
        if not len(hit):
            continue
        step = length * np.sqrt(np.maximum(-np.log(answer.explained[0][hit]), 0.0))
        around = np.repeat(place[hit], 2, axis=0)
        around[:, column] += np.column_stack([step, -step]).ravel()
        answer = center.predict(around)
        if answer is None:
            break
        explained = answer.explained[0].reshape(-1, 2)
        best = 2 * np.arange(len(hit)) + explained.argmax(axis=1)
        for each in best[explained.max(axis=1) > _SURE]:
            x = around[each, column] * center.units.scale[column] + center.units.mean[column]
            y = answer.mean[0][each] / np.sqrt(answer.explained[0][each]) * center.units.y_scale + center.units.y_mean
            readings.append((float(x), float(y)))
    return readings


def _boxes(boxes: list[Float64[np.ndarray, "q"]], site: AttackedSite, notes: list[str]) -> Claims:
    """Claim that one row lies in each box: at these values, anywhere in the columns whose value is missing."""
    rows = np.unique(np.array(boxes).reshape(-1, site.ranges.shape[1]), axis=0)
    tolerance = _TOLERANCE * np.ptp(site.ranges, axis=0)
    ends = [np.where(np.isnan(rows), sign * np.inf, rows + sign * tolerance) for sign in (-1, 1)]
    return Claims(ends[0], ends[1], np.ones(len(rows), np.int64), notes)


ATTACKS: Mapping[str, Attack] = {
    "isolation": isolation,
    "plausible": plausible,
    "neighbors": neighbors,
    "surroundings": surroundings,
    "likelihoods": likelihoods,
    "slices": slices,
}
"""By name (`consilience.attack.interface`)."""
