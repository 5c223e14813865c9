"""A site's answers about query points, rounded and withheld as far as they rest on few rows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial

import numpy as np
from jaxtyping import Bool, Float16, Float32, Float64, Shaped

from clients.gp.experts import Part, expert_of, kernel_for, nearest_rows_of, rows_left_out
from clients.gp.shard import lone_queries
from clients.site import Site
from numerics.gp.coarse_answers import FEWEST_ROWS, CoarseAnswer, are_predicted, coarse, coarse_further
from numerics.gp.joint_answers import JointAnswer, joint_answers, pack, sizes
from numerics.gp.sketch import Sketch, features
from numerics.shared.folds import rows_that_hold

logger = logging.getLogger("flwr")

_LONE = "lone queries"
"""Name of the commitments' counter of predictions that rest on few rows."""


@dataclass(frozen=True, eq=False)
class PointSetup:
    """Settings by which a site's experts predict points.

    Attributes
    ----------
    kernel : str
        The kernel.
    theta : tuple of float
        The hyperparameters.
    offsets : ndarray
        ``(D, d)`` landmarks around every point.
    n_shared : int
        Number of first rows of each expert that the center knows, and may have invented.
    local : int
        Number of nearest rows that predict a point; 0: all rows do.
    joint : bool
        Whether experts also predict at the landmarks.
    """

    kernel: str
    theta: tuple[float, ...]
    offsets: Float64[np.ndarray, "D d"]
    n_shared: int
    local: int
    joint: bool


@dataclass(frozen=True, eq=False)
class PointAnswers:
    """An expert's answers about q points, as they cross the wire (`protocols.gp.payloads.Predictions`)."""

    mean: Float64[np.ndarray, "q"]
    explained: Float64[np.ndarray, "q"]
    features: Float16[np.ndarray, "q D"]
    further_mean: Float32[np.ndarray, "q A"]
    further_unknown: Float16[np.ndarray, "q T"]


def class_by_class(answers: Sequence[PointAnswers]) -> PointAnswers:
    """Interleave the answers about several outputs, point by point."""
    if len(answers) == 1:
        return answers[0]

    def interleaved(name: str) -> Shaped[np.ndarray, "..."]:
        arrays = np.stack([getattr(each, name) for each in answers], axis=1)
        return arrays.reshape(arrays.shape[0] * arrays.shape[1], *arrays.shape[2:])  # some have no columns

    return PointAnswers(**{each.name: interleaved(each.name) for each in fields(PointAnswers)})


def predict_points(rows: Part, points: Float64[np.ndarray, "q d"], setup: PointSetup, site: Site) -> PointAnswers:
    """Return an expert's answers about one output at some points. Without points, the expert is not factorized."""
    D = len(setup.offsets)
    if not len(points):
        widths = sizes(D) if setup.joint else (0, 0)
        return PointAnswers(np.zeros(0), np.zeros(0), *_on_the_wire(*(np.zeros((0, width)) for width in (D, *widths))))
    if not site.has_private_rows and not setup.local and not D:
        mean, explained = expert_of(rows, setup.kernel, setup.theta).predict(points)
        nothing = np.zeros((len(points), 0))
        return PointAnswers(mean, explained, *_on_the_wire(nothing, nothing, nothing))
    exact, further = _exact(rows, points, setup)
    if not site.has_private_rows:
        return PointAnswers(
            exact.mean, exact.explained, *_on_the_wire(exact.directions, further.mean, pack(further.unknown))
        )
    noise = rows.least_noise(setup.theta)
    prior = kernel_for(setup.kernel, rows.x.shape[1]).diagonal(np.array(setup.theta[:-1]), points)
    least = rows_that_hold(int(FEWEST_ROWS), rows.person)
    few = exact.rows < least
    answer = _protected(exact, few, prior, noise, site, partial(_usual_error, rows, setup))
    # No outputs with this sum of squares have a larger mean: the center would refuse one that only rounding has made.
    squares, floor = float(rows.y @ rows.y), noise
    if rows.noise is not None:
        squares, floor = float(np.sum(rows.y**2 / rows.noise)), 1.0
    largest = np.sqrt(answer.explained * squares / floor)
    unknown = few | (answer.explained <= 0) | (further.rows < least)
    around, covariances = coarse_further(
        further.mean, further.unknown, unknown, noise / np.maximum(prior, np.finfo(float).tiny)
    )
    left = np.diagonal(covariances, axis1=1, axis2=2)
    largest_around = np.sqrt(np.clip(1 - left, 0, 1) * squares / floor)
    return PointAnswers(
        np.clip(answer.mean, -largest, largest),
        answer.explained,
        *_on_the_wire(answer.directions, np.clip(around, -largest_around, largest_around), pack(covariances)),
    )


def _exact(rows: Part, points: Float64[np.ndarray, "q d"], setup: PointSetup) -> tuple[Sketch, JointAnswer]:
    if setup.local:
        nearest = nearest_rows_of(rows, setup.kernel, setup.theta, setup.local)
        return (
            nearest.answer_jointly(points, setup.offsets)
            if setup.joint
            else (nearest.predict(points, setup.offsets), _none(len(points)))
        )
    expert = expert_of(rows, setup.kernel, setup.theta)
    if setup.joint:
        return joint_answers(expert, points, setup.offsets, setup.n_shared)
    return features(expert, points, setup.offsets, setup.n_shared), _none(len(points))


def _none(q: int) -> JointAnswer:
    return JointAnswer(np.zeros((q, 0)), np.zeros((q, 0, 0)), np.zeros(q))


def _on_the_wire(
    directions: Float64[np.ndarray, "q D"], means: Float64[np.ndarray, "q A"], covariances: Float64[np.ndarray, "q T"]
) -> tuple[Float16[np.ndarray, "q D"], Float32[np.ndarray, "q A"], Float16[np.ndarray, "q T"]]:
    return directions.astype(np.float16), means.astype(np.float32), covariances.astype(np.float16)


def _usual_error(rows: Part, setup: PointSetup) -> float:
    """Return the root mean square leave-one-out error of the site's rows; infinite if they hardly predict each other.

    With short lengths in one column, and lengths that do not matter in the others, every row is alone, and no row
    predicts another.
    """
    left_out = rows_left_out(rows, setup.kernel, setup.theta, setup.local)
    own = left_out.rows >= setup.n_shared
    errors, outputs = left_out.errors[own], rows.y[left_out.rows[own]]
    return float(np.sqrt(np.mean(errors**2))) if are_predicted(outputs, errors) else float("inf")


def _protected(
    sketch: Sketch,
    few: Bool[np.ndarray, "q"],
    prior: Float64[np.ndarray, "q"],
    noise: float,
    site: Site,
    usual_error: Callable[[], float],
) -> CoarseAnswer:
    """Return rounded answers. Those that rest on `few` rows are withheld beyond ``max-lone-queries``.

    If the hyperparameters do not predict the site's own rows, all of these are withheld.
    """
    answer = coarse(sketch.mean, sketch.explained, sketch.directions, few, prior, noise)
    lone = few & (answer.explained > 0)
    most = site.consents.number("max-lone-queries", lone_queries(site.shard.n))
    if lone.any():
        error = usual_error()
        if np.isfinite(error):
            answer = coarse(sketch.mean, sketch.explained, sketch.directions, few, prior, noise, error)
        else:
            most = 0
    withheld = lone & (np.cumsum(lone) > most - site.commitments.count(_LONE, 0))
    site.commitments.count(_LONE, int((lone & ~withheld).sum()))
    if withheld.any():
        problem = "site %s: %d predictions that rest on few of its rows are withheld (at most %d leave)"
        logger.warning(problem, site.name, int(withheld.sum()), most)
    available = ~withheld
    return CoarseAnswer(
        answer.mean * available, answer.explained * available, answer.directions * available[:, np.newaxis]
    )
