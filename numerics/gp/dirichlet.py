"""Classification by Gaussian processes: every class has a latent function, whose outputs follow from the rows' labels.

A row's class probabilities are modeled as a draw from a Dirichlet distribution with parameters alpha: a small number
for every class, and 1 more for the class of the label. Such a draw is a vector of gamma variables over their sum; each
gamma variable is approximated by a log-normal one with the same first two moments. So the logarithm of a class's
variable is

    y = log(alpha) - s^2 / 2,    with a normal noise of variance    s^2 = log(1 / alpha + 1),

a regression with a known noise of each row, one for every class. The latent functions of all classes have one kernel;
class probabilities are the mean of the softmax of the latent functions.

The small numbers of all classes sum to 0.2. With two classes, many rows at one place then give about the share of their
labels: 90 % if 90 % of the rows have a class (97.5 % with 0.01 for each class). Where the classes are separated,
probabilities are too close to each other. The sharpness, a factor of the latent functions, corrects that.

Source: Milios, Camoriano, Michiardi, Rosasco and Filippone: Dirichlet-based Gaussian processes for large-scale
calibrated classification, 2018.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from numerics.shared.classes import one_hot
from numerics.shared.classification import log_losses

CONCENTRATION = 0.2
"""Sum over the classes of the parameters that the Dirichlet distribution has without a label."""
SHARPNESS: Float64[np.ndarray, "s"] = 1.15 ** np.arange(-8.0, 13.0)
"""Factors of the latent functions among which a run chooses; probabilities of the first are the least confident."""
_USUAL_FACTOR = 0.4
"""Prior standard deviation of the logarithm of the sharpness, which keeps it near 1 if there are few rows."""
_DRAWS_LOG2 = 9
"""Logarithm of the number of normal vectors over which the softmax is averaged: probabilities are off by about 1e-3."""
_BLOCK = 4_000_000
_SEED = 0


class LatentUnits(NamedTuple):
    """Origin and unit of the latent functions.

    Attributes
    ----------
    means : ndarray
        ``(k,)`` origins: far from all rows, class probabilities are the classes' frequencies.
    scale : float
        Unit.
    """

    means: Float64[np.ndarray, "k"]
    scale: float


@lru_cache(maxsize=32)
def _target_and_noise(k: int) -> tuple[Float64[np.ndarray, "2"], Float64[np.ndarray, "2"]]:
    """Return target and variance of its noise for a class that the label does not name, and for the one it names."""
    alpha = np.array([0.0, 1.0]) + CONCENTRATION / k
    variance = np.log(1.0 / alpha + 1.0)
    return np.log(alpha) - variance / 2, variance


def latent_units(counts: Int64[np.ndarray, "k"]) -> LatentUnits:
    """Return the units for these numbers of rows of each class.

    The origins are the logarithms of the classes' shares (one row added to each) plus a common level, which fits them
    to the targets by weighted least squares. The unit is the root mean squared distance of the targets from the
    origins.

    Examples
    --------
    >>> units = latent_units(np.array([30, 10]))
    >>> (np.exp(units.means) / np.exp(units.means).sum()).round(2), round(units.scale, 2)
    (array([0.74, 0.26]), 1.65)
    """
    counts = np.asarray(counts, np.float64)
    total = counts.sum()
    shares = (counts + 1.0) / (total + len(counts))
    rows = np.stack([total - counts, counts])  # without and with the class
    target, noise = _target_and_noise(len(counts))
    gaps = target[:, np.newaxis] - np.log(shares)
    weights = rows / noise[:, np.newaxis]
    level = float((weights * gaps).sum() / weights.sum())
    squares = (rows * np.square(gaps - level)).sum() / (total * len(counts))
    return LatentUnits(np.log(shares) + level, float(np.sqrt(squares)))


def latent_outputs(
    y: Int64[np.ndarray, "n"], units: LatentUnits
) -> tuple[Float64[np.ndarray, "n k"], Float64[np.ndarray, "n k"]]:
    """Return outputs of the latent functions at rows of these classes, and the variances of their noise, in the units.

    Parameters
    ----------
    y : ndarray
        ``(n,)`` places of the classes.
    units : LatentUnits
        Units of k classes.

    Examples
    --------
    The output for the class of the label is larger, and has less noise:

    >>> outputs, noise = latent_outputs(np.array([0, 1, 1, 1]), latent_units(np.array([1, 3])))
    >>> bool(outputs[0, 0] > outputs[1, 0]), bool(noise[0, 0] < noise[1, 0])
    (True, True)
    """
    target, noise = _target_and_noise(len(units.means))
    named = one_hot(y, len(units.means)).astype(np.int64)
    return (target[named] - units.means) / units.scale, noise[named] / units.scale**2


def least_noise(units: LatentUnits) -> float:
    """Return the variance of the noise of a label's own class, in the units: no output has less."""
    return float(_target_and_noise(len(units.means))[1][1] / units.scale**2)


def largest_squares(counts: Int64[np.ndarray, "m"], units: LatentUnits) -> Float64[np.ndarray, "m k"]:
    """Return the largest sum of squared outputs over their noise, for experts with these numbers of rows.

    Examples
    --------
    >>> units = latent_units(np.array([1, 3]))
    >>> outputs, noise = latent_outputs(np.array([0, 1, 1, 1]), units)
    >>> bool((largest_squares(np.array([4]), units) >= (outputs**2 / noise).sum(axis=0)).all())
    True
    """
    pairs = zip(*_target_and_noise(len(units.means)), strict=True)
    largest = np.max([np.square(target - units.means) / noise for target, noise in pairs], axis=0)
    return np.asarray(counts[:, np.newaxis] * largest)


def losses_by_sharpness(
    mean: Float64[np.ndarray, "n k"],
    variance: Float64[np.ndarray, "n k"],
    units: LatentUnits,
    places: Int64[np.ndarray, "n"],
) -> Float64[np.ndarray, "s"]:
    """Return the sum of the log losses of rows for each of `SHARPNESS`.

    Parameters
    ----------
    mean, variance, units
        As in `class_probabilities`.
    places : ndarray
        ``(n,)`` the rows' own classes.

    Examples
    --------
    The loss of a correct prediction falls with the sharpness:

    >>> units = latent_units(np.array([20, 20]))
    >>> losses = losses_by_sharpness(np.array([[2.0, -2.0]]), np.zeros((1, 2)), units, np.array([0]))
    >>> len(losses), bool(losses[0] > losses[-1])
    (21, True)
    """
    each = [log_losses(class_probabilities(mean, variance, units, factor), places) for factor in SHARPNESS.tolist()]
    return np.array([losses.sum() for losses in each])


def best_sharpness(losses: Float64[np.ndarray, "s"]) -> float:
    """Return the sharpness of the smallest log loss of rows that are left out, summed for each of `SHARPNESS`.

    Separated classes would make it ever larger, so its logarithm has a normal prior.

    Examples
    --------
    >>> best_sharpness(np.zeros(len(SHARPNESS)))
    1.0
    """
    prior = 0.5 * np.square(np.log(SHARPNESS) / _USUAL_FACTOR)
    return float(SHARPNESS[np.argmin(losses + prior)])


def class_probabilities(
    mean: Float64[np.ndarray, "N k"],
    variance: Float64[np.ndarray, "N k"],
    units: LatentUnits,
    sharpness: float = 1.0,
) -> Float64[np.ndarray, "N k"]:
    """Return the mean of the softmax of independent normal latent values, by the same draws in every process.

    Parameters
    ----------
    mean, variance : ndarray
        ``(N, k)`` of the latent functions, in the units.
    units : LatentUnits
        Their units.
    sharpness : float
        Factor of the latent functions, about the classes' shares (`SHARPNESS`).

    Examples
    --------
    Where nothing is known, classes are as frequent as over all rows:

    >>> units = latent_units(np.array([30, 10]))
    >>> class_probabilities(np.zeros((1, 2)), np.zeros((1, 2)), units).round(2)
    array([[0.74, 0.26]])
    """
    n, k = mean.shape
    normal = _normal_vectors(k)
    mean, deviation = sharpness * units.scale * mean + units.means, sharpness * units.scale * np.sqrt(variance)
    probabilities = np.empty((n, k))
    size = max(1, _BLOCK // (len(normal) * k))
    for start in range(0, n, size):
        some = slice(start, start + size)
        values = mean[some, np.newaxis] + deviation[some, np.newaxis] * normal
        powers = np.exp(values - values.max(axis=2, keepdims=True))
        probabilities[some] = (powers / powers.sum(axis=2, keepdims=True)).mean(axis=1)
    return probabilities


@lru_cache(maxsize=8)
def _normal_vectors(k: int) -> Float64[np.ndarray, "draws k"]:
    """Return quasi-random normal vectors, and their negatives, so that equal classes get equal probabilities."""
    from scipy.special import ndtri
    from scipy.stats import qmc  # only where classes are predicted

    half = ndtri(qmc.Sobol(k, rng=np.random.default_rng(_SEED)).random_base2(_DRAWS_LOG2 - 1))
    return np.concatenate([half, -half])
