"""Attacks by predictions with crafted lengths, so that an answer is about few rows alone."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from consilience.attack.gp.center import LONGEST, STARTS, TOLERANCE, Center, claim_boxes
from consilience.attack.interface import Claims
from consilience.attack.site import AttackedSite
from protocols.gp.settings import FEWEST_NEAREST

_STEPS, _NEAREST_STARTS = 4, 1000
"""Number of steps from each starting point toward a row; number of starting points with nearest rows."""
_SLICE, _SURE = 0.006, 0.97
"""Length of a slice in its column, and smallest explained share of the variance in an answer about one row."""


def isolation(site: AttackedSite) -> Claims:
    """Lengths of a tenth and hardly any noise: every row is alone, and landmarks around a point show where it lies."""
    center = Center(site)
    if center.moments is None:
        return Claims.none(site.ranges.shape[1], "the site takes no part")
    center.set_model(np.full(len(center.moments.features), 0.1), 1.0, 1e-3)
    return _read(center)


def plausible(site: AttackedSite) -> Claims:
    """A third of the site's own best lengths and noise: hyperparameters that look like honest ones."""
    return _third(Center(site))


def _third(center: Center) -> Claims:
    if center.moments is None:
        return Claims.none(center.site.ranges.shape[1], "the site takes no part")
    *lengths, scale, sigma = np.exp(center.moments.theta)
    center.set_model(np.clip(np.array(lengths) * 0.3, 2e-3, 9e3), float(scale), max(float(sigma) / 3, 1e-3))
    return _read(center)


def surroundings(site: AttackedSite) -> Claims:
    """Short lengths, hardly any noise, and answers about 32 landmarks around each point, of which the best is taken."""
    center = Center(site, starts=STARTS // 16, joint=True)
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
    return _third(Center(site, FEWEST_NEAREST, _NEAREST_STARTS))


def slices(site: AttackedSite) -> Claims:
    """Short lengths in one column, the others irrelevant: a row without neighbors in this column is read alone."""
    n_columns = site.ranges.shape[1]
    boxes, n_points, run = [], 0, 0
    while (center := Center(site)).moments is not None:
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
    return claim_boxes(boxes, site, [f"runs: {run}, points asked: {n_points}"])


def _slice(center: Center, column: int, part: int) -> list[tuple[float, float]]:
    """Return value in the column, and output, of the rows that a run reads alone."""
    assert center.moments is not None  # noqa: S101 - the caller has checked them
    lengths = np.full(len(center.moments.features), LONGEST)
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


def _read(center: Center) -> Claims:
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


def _claims(center: Center, guesses: Float64[np.ndarray, "guesses q"]) -> Claims:
    """Claim the guesses with the most other guesses nearby, at most as many as the site has rows."""
    assert center.moments is not None  # noqa: S101 - every caller has checked them
    notes, tolerance = [f"points asked: {center.n_points}"], TOLERANCE * np.ptp(center.site.ranges, axis=0)
    if not len(guesses):
        return Claims.none(len(tolerance), *notes)
    cell = np.round(guesses / np.maximum(2 * tolerance, 1e-300)).astype(np.int64)
    _, first, counts = np.unique(cell, axis=0, return_index=True, return_counts=True)
    agreed = first[np.argsort(-counts, kind="stable")[: int(center.moments.counts[0])]]
    return Claims.points(guesses[agreed], tolerance, notes)
