"""Answers of an expert that do not reveal single rows: the number of rows that an answer rests on, and rounding.

With short lengths, the prediction at a point is that of its nearest row alone: the explained variance reveals the
distance of that row, the mean its output, the direction its position. An honest prediction mostly rests on many rows,
and digits far below its own deviation carry no information. So an answer is rounded in proportion to its deviation; one
that rests on few rows is rounded more, and has no direction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

FEWEST_ROWS = 5.0
"""Effective number of rows below which an answer rests on few rows."""
_PREDICTED = 0.75
"""Share of the variance of a site's outputs; with a smaller leave-one-out error its rows predict each other."""
_VARIANCE, _FEW_VARIANCE = 0.02, 0.2
"""Relative step of the variance of an observation; the second if the answer rests on few rows."""
_MEAN, _FEW_MEAN = 0.05, 0.25
"""Step of the mean in deviations of an observation; the second if the answer rests on few rows."""
_DIRECTION = 1 / 32
"""Step of each coordinate of a direction, whose length is at most 1."""


class CoarseAnswer(NamedTuple):
    """An expert's rounded answer about q points.

    Attributes
    ----------
    mean, explained : ndarray
        ``(q,)`` (`numerics.gp.expert.WeightedPrediction`); both 0 where hardly anything is explained.
    directions : ndarray
        ``(q, D)`` (`numerics.gp.sketch.Sketch`); 0 where the answer rests on few rows.
    """

    mean: Float64[np.ndarray, "q"]
    explained: Float64[np.ndarray, "q"]
    directions: Float64[np.ndarray, "q D"]


def are_predicted(outputs: Float64[np.ndarray, "n"], errors: Float64[np.ndarray, "n"]) -> bool:
    """Return whether a site's rows predict each other, by their leave-one-out errors.

    Examples
    --------
    >>> outputs = np.array([1.0, 2.0, 3.0])
    >>> are_predicted(outputs, 0.1 * outputs), are_predicted(outputs, outputs)
    (True, False)
    """
    return bool(np.mean(errors**2) < _PREDICTED * outputs.var())


def effective_rows(weights: Float64[np.ndarray, "n q"]) -> Float64[np.ndarray, "q"]:
    """Compute the number of rows that each of q predictions rests on: ``(sum |a|)^2 / sum a^2`` of its rows' weights a.

    Examples
    --------
    >>> effective_rows(np.array([[1.0, 0.5, 0.0], [0.0, -0.5, 0.0]]))
    array([1., 2., 0.])
    """
    squares = np.einsum("nq,nq->q", weights, weights)
    sums: Float64[np.ndarray, "q"] = np.abs(weights).sum(axis=0) ** 2
    return sums / np.where(squares > 0, squares, 1.0)


def coarse(
    mean: Float64[np.ndarray, "q"],
    explained: Float64[np.ndarray, "q"],
    directions: Float64[np.ndarray, "q D"],
    few: Bool[np.ndarray, "q"],
    prior: Float64[np.ndarray, "q"],
    noise: float,
    usual_error: float = 0.0,
) -> CoarseAnswer:
    """Round an expert's answers.

    The variance of an observation is rounded to 2 %, the mean to a twentieth of the deviation, a direction to 1/32.
    Where `few`, these are 20 %, a quarter but at least half of `usual_error`, and no direction.

    Parameters
    ----------
    mean, explained : ndarray
        ``(q,)`` predictions and explained variances.
    directions : ndarray
        ``(q, D)``.
    few : ndarray
        ``(q,)`` whether the answer rests on few rows.
    prior : ndarray
        ``(q,)`` prior variances k** at the points.
    noise : float
        Variance sigma^2 of the noise.
    usual_error : float
        Error of predictions of rows that are left out. It keeps the steps of answers that rest on few rows long even if
        the center chooses almost no noise: such an answer then reveals hardly more than a prediction does.

    Examples
    --------
    Far from all rows the answer is 0; a direction would still reveal where the nearest row lies:

    >>> nothing = coarse(np.array([1e-9]), np.array([1e-9]), np.ones((1, 1)), np.array([False]), np.ones(1), 0.01)
    >>> nothing.mean, nothing.explained, nothing.directions
    (array([0.]), array([0.]), array([[0.]]))
    """
    # Noise far above the prior must not make the steps longer than what there is to explain.
    floor = np.minimum(noise, prior)
    step = np.where(few, _FEW_VARIANCE, _VARIANCE)
    whole = prior + floor
    share = np.maximum(whole - explained, np.finfo(np.float64).tiny) / whole
    variance = whole * np.exp(np.round(np.log(share) / step) * step)
    rounded = np.clip(whole - variance, 0.0, prior)
    known = rounded > 0
    unit = np.where(few, np.maximum(_FEW_MEAN * np.sqrt(variance), usual_error / 2), _MEAN * np.sqrt(variance))
    return CoarseAnswer(
        np.where(known, np.round(mean / unit) * unit, 0.0),
        rounded,
        np.where((known & ~few)[:, np.newaxis], np.round(directions / _DIRECTION) * _DIRECTION, 0.0),
    )


def coarse_further(
    mean: Float64[np.ndarray, "q D"],
    unknown: Float64[np.ndarray, "q D D"],
    few: Bool[np.ndarray, "q"],
    noise: Float64[np.ndarray, "q"],
) -> tuple[Float64[np.ndarray, "q D"], Float64[np.ndarray, "q D D"]]:
    """Round an expert's answers about values around the points (`numerics.gp.joint_answers.JointAnswer`).

    The steps are those of `coarse`: in deviations of an observation of each value, whose prior variance is 1. An answer
    that rests on few rows becomes that of an expert that knows nothing.

    Parameters
    ----------
    mean, unknown : ndarray
        ``(q, D)`` and ``(q, D, D)``.
    few : ndarray
        ``(q,)`` whether any part of an answer rests on few rows.
    noise : ndarray
        ``(q,)`` variance of the noise over the prior variance at the point.

    Examples
    --------
    >>> mean, left = coarse_further(np.ones((1, 1)), np.full((1, 1, 1), 0.5), np.array([False]), np.zeros(1))
    >>> mean.round(3), left.round(3)
    (array([[0.99]]), array([[[0.5]]]))
    """
    variance = np.einsum("qdd->qd", unknown) + np.minimum(noise, 1.0)[:, np.newaxis]
    deviation = np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny))
    unit, steps = _MEAN * deviation, _VARIANCE * deviation[:, :, np.newaxis] * deviation[:, np.newaxis, :]
    rounded = np.clip(np.round(unknown / steps) * steps, -1.0, 1.0)
    return (
        np.where(few[:, np.newaxis], 0.0, np.round(mean / unit) * unit),
        np.where(few[:, np.newaxis, np.newaxis], np.eye(mean.shape[1]), rounded),
    )
