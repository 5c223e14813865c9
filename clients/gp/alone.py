"""A site's answer on how well it would predict test points alone."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from clients.gp.classes import losses_left_out
from clients.gp.experts import (
    OwnUnits,
    Part,
    expert_of,
    in_own_units,
    kernel_for,
    nearest_rows_of,
    rows_of,
)
from clients.gp.own_fit import best_fit_of
from clients.site import Site
from numerics.gp.alone import MOST_POINTS, group_sums
from numerics.gp.coarse_answers import FEWEST_ROWS, coarse
from numerics.gp.dirichlet import best_sharpness, class_probabilities
from numerics.gp.measurements import Measurements
from numerics.gp.sketch import Sketch, features
from numerics.shared.classes import align_probabilities, places_of
from numerics.shared.classification import log_losses
from numerics.shared.digits import rounded
from numerics.shared.folds import rows_that_hold
from numerics.shared.threads import single_threaded
from protocols.gp.payloads import FEWEST_IN_GROUP, LARGEST, MOST_GROUPS, ErrorsAlone, PredictAlone
from protocols.gp.settings import NEAREST
from protocols.wire.faults import Fault, SiteFault

_Prediction = tuple[Float64[np.ndarray, "t"], Float64[np.ndarray, "t"]]
"""Mean and latent variance at the test points."""


def errors_alone(ask: PredictAlone, site: Site) -> ErrorsAlone:
    """Return the site's errors at the test points, by its own rows, units and hyperparameters."""
    _check(ask)
    rows = rows_of(site, ask)
    losses_of = _log_losses if rows.classes else _squared_errors
    with single_threaded():
        losses = losses_of(rows, ask, as_they_are=not site.has_private_rows)
    return ErrorsAlone(rounded(group_sums(losses, ask.groups)))


def _squared_errors(rows: Measurements, ask: PredictAlone, *, as_they_are: bool) -> Float64[np.ndarray, "t"]:
    """Return the squared errors at the test points, in the common units."""
    own = in_own_units(rows)
    mean, _ = _predict(own.part, _points(own, ask), _best(own, ask), ask, as_they_are=as_they_are)
    outputs = mean * own.units.y_scale + own.units.y_mean
    return np.square(ask.outputs - (outputs - ask.y_mean) / ask.y_scale)


def _log_losses(rows: Measurements, ask: PredictAlone, *, as_they_are: bool) -> Float64[np.ndarray, "t"]:
    """Return the log losses of the test points, as if the site had one row more, which may be of any class."""
    probabilities = np.ones((len(ask.points), 1))
    if len(rows.classes) > 1:  # there is nothing to fit to one class
        own = in_own_units(rows)
        assert own.latent is not None  # noqa: S101 - outputs of classes have these units
        points, theta = _points(own, ask), _best(own, ask)
        answers = [_predict(each, points, theta, ask, as_they_are=as_they_are) for each in own.part.outputs]
        mean, variance = (np.column_stack(each) for each in zip(*answers, strict=True))
        losses = losses_left_out([own.part], ask.kernel, theta, _local(own.part, ask), own.latent)
        probabilities = class_probabilities(mean, variance, own.latent, best_sharpness(losses))
    places = places_of(rows.classes, ask.classes)
    return log_losses(
        align_probabilities(probabilities, places, len(ask.classes), len(rows.y)), ask.outputs.astype(np.int64)
    )


def _points(own: OwnUnits, ask: PredictAlone) -> Float64[np.ndarray, "t d"]:
    """Return the test points in the site's own units."""
    return own.units.inputs(ask.points * ask.scale + ask.mean)


def _best(own: OwnUnits, ask: PredictAlone) -> tuple[float, ...]:
    return tuple(best_fit_of(ask.kernel, own.part).theta.tolist())


def _local(rows: Part, ask: PredictAlone) -> int:
    """Return the number of nearest rows that predict a point; 0 at a site with few rows."""
    return (ask.local or NEAREST) if len(rows.y) > ask.max_rows else 0


def _predict(
    rows: Part, points: Float64[np.ndarray, "t d"], theta: tuple[float, ...], ask: PredictAlone, *, as_they_are: bool
) -> _Prediction:
    """Predict by one Gaussian process of all rows, or of nearest rows, as other predictions of the site do."""
    nothing, local = np.zeros((0, points.shape[1])), _local(rows, ask)
    if local:
        exact: Sketch = nearest_rows_of(rows, ask.kernel, theta, local).predict(points, nothing)
    else:
        exact = features(expert_of(rows, ask.kernel, theta), points, nothing)
    prior = kernel_for(ask.kernel, points.shape[1]).diagonal(np.array(theta[:-1]), points)
    if as_they_are:
        return exact.mean, np.maximum(prior - exact.explained, 0.0)
    few, noise = exact.rows < rows_that_hold(int(FEWEST_ROWS), rows.person), rows.least_noise(theta)
    answer = coarse(exact.mean, exact.explained, exact.directions, few, prior, noise)
    return answer.mean, np.maximum(prior - answer.explained, 0.0)


def _check(ask: PredictAlone) -> None:
    t, d = ask.points.shape
    sound = (
        d == len(ask.mean)
        and len(ask.outputs) == t <= MOST_POINTS
        and 1 < ask.groups <= MOST_GROUPS
        and ask.groups * FEWEST_IN_GROUP <= t
        and max(np.abs(ask.points).max(initial=0.0), np.abs(ask.outputs).max(initial=0.0)) <= LARGEST
    )
    if sound and ask.classes:
        sound = bool(np.isin(ask.outputs, np.arange(len(ask.classes))).all())
    if not sound:
        raise SiteFault(Fault.MALFORMED_ASK, "the test points do not fit the site's inputs, or their groups are small")
