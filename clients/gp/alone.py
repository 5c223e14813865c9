"""A site's answer on how well it would predict test points alone."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from clients.gp.experts import Part, best_fit_of, expert_of, kernel_for, nearest_rows_of, rows_of
from clients.site import Site
from numerics.gp.alone import MOST_POINTS, group_sums
from numerics.gp.coarse_answers import FEWEST_ROWS, coarse
from numerics.gp.moments import moments_of, units_of
from numerics.gp.sketch import Sketch, features
from numerics.shared.folds import rows_that_hold
from numerics.shared.threads import single_threaded
from protocols.gp.payloads import FEWEST_IN_GROUP, LARGEST, MOST_GROUPS, ErrorsAlone, PredictAlone
from protocols.gp.settings import NEAREST
from protocols.wire.faults import Fault, SiteFault

_DIGITS = 3
"""Significant digits of a sum of squared errors."""


def errors_alone(ask: PredictAlone, site: Site) -> ErrorsAlone:
    """Return the site's squared errors at the test points, by its own rows, units and hyperparameters."""
    _check(ask)
    rows = rows_of(site, robust=ask.robust)
    with single_threaded():
        own = units_of(moments_of(rows.x, rows.y))
        part = Part.of(own.inputs(rows.x), own.outputs(rows.y), rows.person)
        points = own.inputs(ask.points * ask.scale + ask.mean)
        mean = _means(part, points, ask, rounded=not site.policy.trusts_center) * own.y_scale + own.y_mean
    squares = group_sums(np.square(ask.outputs - (mean - ask.y_mean) / ask.y_scale), ask.groups)
    return ErrorsAlone(np.array([float(f"{each:.{_DIGITS}g}") for each in squares.tolist()]))


def _means(rows: Part, points: Float64[np.ndarray, "t d"], ask: PredictAlone, *, rounded: bool) -> np.ndarray:
    """Predict by one Gaussian process of all rows, or of the nearest ones if they are many; as other predictions do."""
    theta = tuple(best_fit_of(ask.kernel, rows)[0].tolist())
    nothing = np.zeros((0, points.shape[1]))
    if len(rows.y) > ask.max_rows:
        exact: Sketch = nearest_rows_of(rows, ask.kernel, theta, ask.local or NEAREST).predict(points, nothing)
    else:
        exact = features(expert_of(rows, ask.kernel, theta), points, nothing)
    if not rounded:
        return exact.mean
    prior = kernel_for(ask.kernel, points.shape[1]).diagonal(np.array(theta[:-1]), points)
    few = exact.rows < rows_that_hold(int(FEWEST_ROWS), rows.person)
    return coarse(exact.mean, exact.explained, exact.directions, few, prior, float(np.exp(2 * theta[-1]))).mean


def _check(ask: PredictAlone) -> None:
    t, d = ask.points.shape
    sound = (
        d == len(ask.mean)
        and len(ask.outputs) == t <= MOST_POINTS
        and 1 < ask.groups <= MOST_GROUPS
        and ask.groups * FEWEST_IN_GROUP <= t
        and max(np.abs(ask.points).max(initial=0.0), np.abs(ask.outputs).max(initial=0.0)) <= LARGEST
    )
    if not sound:
        raise SiteFault(Fault.MALFORMED_ASK, "the test points do not fit the site's inputs, or their groups are small")
