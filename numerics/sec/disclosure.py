"""Mean losses that reveal nothing about fewer rows than a floor, whatever the models are.

A model is a query. A tree with one leaf queries the rows in a box; two trees that differ in a strip query the rows of
the strip. The answer is the mean over the rows of ``d = (f(x) - y)^2 - (g(x) - y)^2``, the difference between the
squared errors of a foreign model f and the site's own model g; if y is a class, between their log losses. Two measures
limit it:

- **Support.** `d` is clipped at its r-th largest absolute value, r being at least the floor. So a leaf that fewer rows
  reach has no effect, whatever its value. What clipping takes from the mean of `d` is given back on average
  (`share_kept`); otherwise foreign models would look better than they are, the more so the fewer the rows.
- **Noise**, always the same for a model: a random number times that value, the influence of a row. If all answers of an
  ask are spent on one query, they determine a number of rows to within half the floor at best (two standard errors).

The own model's error stays exact, and models that predict like it hardly change: their `d` is small.
"""

from __future__ import annotations

from functools import cache
from statistics import NormalDist

import numpy as np
from jaxtyping import Float64, Int64

from numerics.sec.losses import Loss

DIGITS = 4
"""Significant digits of the errors that a site sends."""
_SQUARED = Loss()

_PRECISION = 8.0
"""Floor over the standard error of a count that uses all answers of an ask. The rows of a strip between two boundaries
are the difference of two counts by half of the answers each: its standard error is a quarter of the floor. With 4,
seven sites of 32 rows in two groups became one cluster, worse than staying alone; with 8, both groups are found."""

_QUANTILES = 400
"""Quantiles of the normal distribution by which `share_kept` is computed; more do not change its third digit."""


def ranks_and_noise(generator: np.random.Generator, n_rows: int, floor: int, n_answers: int) -> tuple[int, float]:
    """Draw, for one model, the rank that bounds a row's influence, and the noise in rows.

    The rank is drawn from `floor` to below its double, so that nobody can find the row of rank `floor` by trying
    boundaries. With few rows it is `floor`.

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
    """Return the standard deviation of the noise in a mean squared error, in units of the influence of a row.

    It uses the middle of the ranks that may be drawn, and so reveals nothing about the rows.

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
    """Compute mean losses in which few rows have no influence.

    Parameters
    ----------
    predictions : ndarray
        ``(models, n)`` predictions of the foreign models.
    own : ndarray
        ``(n,)`` finite predictions of the site's own model.
    y : ndarray
        ``(n,)`` outcomes.
    ranks : ndarray
        ``(models,)`` rank r of the absolute difference at which all others are clipped, from 1 (the largest) to n.
    noise : ndarray
        ``(models,)`` noise in rows.
    loss : Loss
        By default squared errors.

    Returns
    -------
    ndarray
        ``(models,)``, 0 or greater; infinite if r predictions or more are not finite.

    Examples
    --------
    A model that differs from the own one in a single row:

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

    They come from the rows' squared differences, whose mean gets the noise of a mean squared error.

    Parameters
    ----------
    predictions : ndarray
        ``(models, n)``, of `supported_predictions` or mixtures of them.
    other, y : ndarray
        ``(n,)`` predictions to compare with, and outcomes.
    noise : ndarray
        ``(models,)`` noise in rows; 0 for exact numbers.
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
    """Return the share of the mean of `d` that remains if `d` is clipped in this share of the rows.

    It depends on nothing in the rows, and so reveals nothing. It is exact where the foreign model's distance from the
    own one and the own one's residual are normal, independent, and of one variance. If one of the two is much larger,
    a fifth more or a tenth less remains for a rank of a quarter of the rows.

    Examples
    --------
    >>> share_kept(np.array([0.01, 0.1, 0.25])).round(2)
    array([0.97, 0.75, 0.49])
    """
    return np.asarray(np.interp(shares, *_clipping_table()))


@cache
def _clipping_table() -> tuple[Float64[np.ndarray, "q"], Float64[np.ndarray, "q"]]:
    """Return shares of rows, ascending, and the share of the mean that remains for each."""
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
    """Clip the distances of predictions from the own model's at the distance of this rank.

    A prediction that is not finite counts as the farthest. The result is NaN if as many as the rank are not finite.

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
