"""Mean losses that tell nothing of fewer rows than a floor, however the models were made.

Whoever makes models makes questions. A tree with one leaf asks for the rows in a box; two trees that differ by a strip
ask for the rows in it. What answers them is the difference ``d = (f(x) - y)^2 - (g(x) - y)^2`` between the squared
errors of a foreign model f and the site's own model g, row by row; where y is a class, between their log losses. Two
things are done to it:

- **Support.** No row's `d` counts for more than the one of rank r among the rows, r being at least the floor. A leaf
  that fewer rows reach is as if it were not there, whatever its value.
  What that takes from the mean of `d` is given back on average (`share_kept`): without it, foreign models would look
  better than they are, the more so the fewer the rows.
- **Noise**, of which a model always gets the same: a random number times what a row can count for. All answers of an
  ask together, spent on one question, tell a number of rows no better than half the floor, by two standard errors.

The own model's error stays as it is, and of models that predict alike little changes: their `d` is small.
"""

from __future__ import annotations

from functools import cache
from statistics import NormalDist

import numpy as np
from jaxtyping import Float64, Int64

from numerics.sec.losses import Loss

DIGITS = 4
"""Significant digits of the errors that leave a site."""
_SQUARED = Loss()

_PRECISION = 8.0
"""The floor over the standard error of a count that takes all answers of an ask. The rows of a strip between two
boundaries are the difference of two counts by half of the answers each: its standard error is a quarter of the floor.
With 4, seven sites of 32 rows in two groups became one cluster, worse than staying alone; with 8, they are found."""

_QUANTILES = 400
"""Of the normal distribution, by which `share_kept` is computed: its third digit does not depend on it."""


def ranks_and_noise(generator: np.random.Generator, n_rows: int, floor: int, n_answers: int) -> tuple[int, float]:
    """Draw, for one model, the rank that bounds a row's influence, and the noise in rows.

    The rank lies from `floor` on and below its double, so that nobody can tell the place of the row of rank `floor` by
    trying boundaries; of few rows it is `floor`.

    Examples
    --------
    >>> rank, noise = ranks_and_noise(np.random.default_rng(0), 100, 5, 16)
    >>> rank, round(noise, 2)
    (9, -0.33)
    """
    rank = int(generator.integers(floor, 2 * floor))
    noise = float(generator.standard_normal()) * noise_of(floor, n_answers)
    return min(rank, max(floor, n_rows // 4), n_rows), noise


def noise_of(floor: int, n_answers: int) -> float:
    """Return the standard deviation of the noise, in rows.

    Examples
    --------
    >>> noise_of(5, 16)
    2.5
    """
    return float(floor * np.sqrt(n_answers) / _PRECISION)


def loss_noise(n_rows: int, floor: int, n_answers: int) -> float:
    """Return the standard deviation of the noise in a mean squared error, in what a row can count for.

    It takes the middle one of the ranks that may be drawn. So it follows from numbers that tell nothing of the rows.

    Examples
    --------
    >>> round(loss_noise(100, 5, 16), 3)
    0.03
    """
    rank = min(1.5 * floor, max(floor, n_rows // 4), n_rows)
    return noise_of(floor, n_answers) / n_rows / float(share_kept(np.array([(rank - 1) / n_rows]))[0])


def guarded_errors(
    predictions: Float64[np.ndarray, "models n"],
    own: Float64[np.ndarray, "n"],
    y: Float64[np.ndarray, "n"],
    ranks: Int64[np.ndarray, "models"],
    noise: Float64[np.ndarray, "models"],
    loss: Loss = _SQUARED,
) -> Float64[np.ndarray, "models"]:
    """Compute mean losses that no few rows decide.

    Parameters
    ----------
    predictions : ndarray
        ``(models, n)`` of the foreign models.
    own : ndarray
        ``(n,)`` finite predictions of the site's own model.
    y : ndarray
        ``(n,)`` outcomes.
    ranks : ndarray
        ``(models,)`` rank of the row, by its influence, that no other one exceeds; from 1 to n.
    noise : ndarray
        ``(models,)`` in rows.
    loss : Loss
        What is computed; by default squared errors.

    Returns
    -------
    ndarray
        ``(models,)``, 0 or greater; infinite where as many predictions as the rank are not finite.

    Examples
    --------
    A model that is the own one but for a single row:

    >>> own, y = np.zeros(8), np.ones(8)
    >>> model = np.where(np.arange(8) == 3, 1e9, own)
    >>> guarded_errors(model[None], own, y, np.array([5]), np.array([2.5]))
    array([1.])
    """
    own_errors = loss.values(own, y)
    with np.errstate(all="ignore"):
        differences = loss.values(predictions, y) - own_errors
        differences[np.isnan(differences)] = np.inf
        caps = _of_rank(np.abs(differences), ranks)
        np.clip(differences, -caps[:, np.newaxis], caps[:, np.newaxis], out=differences)
        of_differences = (differences.mean(axis=1) + noise * caps / len(y)) / share_kept((ranks - 1) / len(y))
        errors = own_errors.mean() + of_differences
    return np.where(np.isfinite(caps) & ~np.isnan(errors), np.maximum(errors, 0.0), np.inf)


def guarded_deviations(
    predictions: Float64[np.ndarray, "models n"],
    other: Float64[np.ndarray, "n"],
    y: Float64[np.ndarray, "n"],
    noise: Float64[np.ndarray, "models"],
    loss: Loss = _SQUARED,
) -> Float64[np.ndarray, "models"]:
    """Compute standard errors of the difference between mean losses and that of `other` predictions.

    They come from the squared differences, row by row, whose mean gets the noise that a mean squared error would get.

    Parameters
    ----------
    predictions : ndarray
        ``(models, n)``, of `supported_predictions` or mixtures of them.
    other, y : ndarray
        ``(n,)`` predictions to compare with, and outcomes.
    noise : ndarray
        ``(models,)`` in rows; 0 for exact numbers.
    loss : Loss
        As in `guarded_errors`.

    Returns
    -------
    ndarray
        ``(models,)``, 0 or greater; infinite where a prediction is not finite.

    Examples
    --------
    >>> y = np.zeros(4)
    >>> guarded_deviations(np.array([[1.0, -1.0, 1.0, 3.0]]), y + 1, y, np.zeros(1))
    array([2.])
    """
    with np.errstate(all="ignore"):
        squares = np.square(loss.values(predictions, y) - loss.values(other, y))
        finite = np.isfinite(squares).all(axis=1)
        squares = np.where(finite[:, np.newaxis], squares, 0.0)
        means = squares.mean(axis=1) + noise * squares.max(axis=1) / len(y)
        return np.where(finite, np.sqrt(np.maximum(means, 0.0) / len(y)), np.inf)


def share_kept(shares: Float64[np.ndarray, "models"]) -> Float64[np.ndarray, "models"]:
    """Return what is left of the mean of `d` if this share of the rows counts for no more than another row.

    It depends on the share and on nothing that the rows hold, so that it tells nothing. It is exact where the foreign
    model's distance from the own one and the own one's residual are normal, independent, and of one variance. If one
    of the two is much larger, what is left is a fifth more or a tenth less for a rank of a quarter of the rows.

    Examples
    --------
    >>> share_kept(np.array([0.01, 0.1, 0.25])).round(2)
    array([0.97, 0.75, 0.49])
    """
    return np.asarray(np.interp(shares, *_clipping_table()))


@cache
def _clipping_table() -> tuple[Float64[np.ndarray, "q"], Float64[np.ndarray, "q"]]:
    """Return shares of rows, ascending, and what is left for each."""
    quantile = NormalDist().inv_cdf  # SciPy's would take longer to import than all else that an ask does
    normal = np.array([quantile((place + 0.5) / _QUANTILES) for place in range(_QUANTILES)])
    distance, residual = (normal / normal.std())[:, np.newaxis], normal / normal.std()
    d = (np.square(distance) - 2 * distance * residual).ravel()
    d = d[np.argsort(-np.abs(d), kind="stable")]
    clipped = np.cumsum(np.sign(d)) * np.abs(d) + d.sum() - np.cumsum(d)
    return np.arange(1, len(d) + 1) / len(d), clipped / d.sum()


def supported_predictions(
    predictions: Float64[np.ndarray, "models n"], own: Float64[np.ndarray, "n"], ranks: Int64[np.ndarray, "models"]
) -> Float64[np.ndarray, "models n"]:
    """Return predictions that are no farther from the own model's than the prediction of this rank.

    A prediction that is not finite becomes the farthest; NaN where as many as the rank are not finite.

    Examples
    --------
    >>> supported_predictions(np.array([[0.0, 1.0, 9.0, np.nan]]), np.zeros(4), np.array([3]))
    array([[0., 1., 1., 1.]])
    """
    with np.errstate(all="ignore"):
        away = predictions - own
        away[np.isnan(away)] = np.inf
        caps = _of_rank(np.abs(away), ranks)[:, np.newaxis]
        inside = np.abs(away) <= caps
        bounded = np.where(inside, predictions, own + np.where(away < 0, -caps, caps))
    return np.where(np.isfinite(caps), bounded, np.nan)


def _of_rank(
    sizes: Float64[np.ndarray, "models n"], ranks: Int64[np.ndarray, "models"]
) -> Float64[np.ndarray, "models"]:
    """Return the value of a rank in every line, the largest being of rank 1."""
    if not len(sizes):
        return np.zeros(0)
    n, most = sizes.shape[1], int(ranks.max())
    largest = np.sort(np.partition(sizes, n - most, axis=1)[:, n - most :], axis=1)
    return np.asarray(largest[np.arange(len(ranks)), most - ranks])
