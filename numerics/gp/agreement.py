"""Contradictions between the sites' predictions at shared points, which reveal a site that errs or lies.

Two experts that know the neighborhood of a point must predict about the same there. Under the model the difference of
their means has the variance ``r_i + r_j - 2 R_ij``, of their explained variances r and the covariance R of their
predictions (Jalali and Kasneci 2022, eqs. 5 and 6). Twice the noise is added to it: a difference of the size of the
noise is no contradiction, whatever the model says.

If two sites contradict each other, either may err. A site that contradicts most others is the one that errs.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64

from numerics.gp.aggregation import ExpertPredictions
from numerics.gp.expert import blocks
from numerics.gp.sketch import covariance_of

_LEAST = 1.0
"""Least number of common points, weighted by what both sites know there, for a comparison of two sites."""
_TINY = float(np.finfo(np.float64).tiny)


def contradiction(
    predictions: ExpertPredictions,
    site: Int64[np.ndarray, "N K"],
    n_sites: int,
    prior: Float64[np.ndarray, "N"],
    noise: float,
) -> Float64[np.ndarray, "s"]:
    """Return how far each site's predictions are from those of most other sites at the same points.

    Between two sites it is the mean square of their experts' differences, each in its standard deviation, over their
    common points, each weighted by the share of the prior variance that both explain. A site's value is the lower
    median over the other sites: at least half of them contradict it by at least this value.

    Parameters
    ----------
    predictions : ExpertPredictions
        Predictions of K experts at each of N points.
    site : ndarray
        ``(N, K)`` number of each expert's site; any number where no expert answered.
    n_sites : int
        Number of sites.
    prior : ndarray
        ``(N,)`` prior variance k** at the points.
    noise : float
        Variance of the noise.

    Returns
    -------
    ndarray
        ``(s,)``, about 1 or less where the model holds; 0 for a site that shares points with fewer than two others.

    Examples
    --------
    Three sites at one point, of which the third contradicts the others:

    >>> mean, explained = np.array([[0.1, 0.0, 3.0]] * 2), np.full((2, 3), 0.9)
    >>> predictions = ExpertPredictions(mean, explained, np.ones((2, 3), bool))
    >>> contradiction(predictions, np.array([[0, 1, 2]] * 2), 3, np.ones(2), 0.01).round(2)
    array([ 0.05,  0.05, 42.05])
    """
    squares, weights = np.zeros(n_sites**2), np.zeros(n_sites**2)
    N, K = predictions.mean.shape
    for some in blocks(N, 8 * K * K):
        weight, square = _pairs(predictions.at(np.arange(N)[some]), prior[some], noise)
        own = site[some]
        weight *= own[:, :, None] != own[:, None, :]
        pair = (own[:, :, None] * n_sites + own[:, None, :])[weight > 0]
        squares += np.bincount(pair, (weight * square)[weight > 0], minlength=n_sites**2)
        weights += np.bincount(pair, weight[weight > 0], minlength=n_sites**2)
    compared = (weights >= _LEAST).reshape(n_sites, n_sites)
    means = (squares / np.maximum(weights, _TINY)).reshape(n_sites, n_sites)
    values = [np.sort(row[those]) for row, those in zip(means, compared, strict=True)]
    return np.array([each[(len(each) - 1) // 2] if len(each) > 1 else 0.0 for each in values])


def _pairs(
    predictions: ExpertPredictions, prior: Float64[np.ndarray, "N"], noise: float
) -> tuple[Float64[np.ndarray, "N K K"], Float64[np.ndarray, "N K K"]]:
    """Return for every pair of experts the share of variance that both explain, and their squared scaled difference."""
    explained = np.where(predictions.available, np.clip(predictions.explained, 0.0, prior[:, None]), 0.0)
    if predictions.covariance is not None:
        covariance = predictions.covariance
    else:
        nothing = np.zeros((*explained.shape, 0))
        directions = nothing if predictions.directions is None else predictions.directions
        covariance = covariance_of(explained, directions, prior)
    variance = explained[:, :, None] + explained[:, None, :] - 2 * covariance
    difference = predictions.mean[:, :, None] - predictions.mean[:, None, :]
    square = difference**2 / (np.maximum(variance, 0.0) + 2 * noise)
    both = (explained > 0)[:, :, None] & (explained > 0)[:, None, :]
    return np.where(both, np.clip(covariance / np.maximum(prior, _TINY)[:, None, None], 0.0, 1.0), 0.0), square
