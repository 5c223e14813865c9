"""Aggregation of the experts' predictions: products of experts, Bayesian committee machines, and NPAE.

All rules but NPAE assume that the experts are independent given the output, and combine predictions of the output,
noise included (docs/gp.md).

Sources: Jalali and Kasneci 2022, eq. 4 and 7; Deisenroth and Ng: Distributed Gaussian processes, 2015; Liu, Cai, Ong
and Wang: Generalized robust Bayesian committee machine, 2018.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

from numerics.gp.expert import blocks
from numerics.gp.joint_answers import combine
from numerics.gp.npae import npae
from numerics.gp.sketch import covariance_of

RULES = ("npae", "poe", "gpoe", "bcm", "rbcm", "grbcm")


@dataclass(frozen=True, eq=False)
class ExpertPredictions:
    """Predictions of K experts at each of N points; each point has its own experts, the most important first.

    Attributes
    ----------
    mean, explained : ndarray
        ``(N, K)`` means and explained variances (`numerics.gp.expert.WeightedPrediction`). Entries without an answer
        may be any finite number.
    available : ndarray
        ``(N, K)``, False where the expert did not answer.
    directions : ndarray or None
        ``(N, K, D)`` features, from which NPAE computes the covariances (`numerics.gp.sketch`).
    covariance : ndarray or None
        ``(N, K, K)`` exact covariances, if they are known.
    common : tuple or None
        Mean and explained variance ``(N,)`` of the communication expert ("grbcm"). Each of the K experts then has its
        rows in addition to its own.
    further : ndarray or None
        ``(N, K, A)`` answers about the landmarks as well, which NPAE then combines (`numerics.gp.joint_answers`).

    Examples
    --------
    Two experts at one point, of which the second did not answer:

    >>> predictions = ExpertPredictions(np.array([[0.5, 0.0]]), np.array([[0.9, 0.0]]), np.array([[True, False]]))
    >>> int(predictions.available.sum())
    1
    """

    mean: Float64[np.ndarray, "N K"]
    explained: Float64[np.ndarray, "N K"]
    available: Bool[np.ndarray, "N K"]
    directions: Float[np.ndarray, "N K D"] | None = None
    covariance: Float64[np.ndarray, "N K K"] | None = None
    common: tuple[Float64[np.ndarray, "N"], Float64[np.ndarray, "N"]] | None = None
    further: Float[np.ndarray, "N K A"] | None = None

    def at(self, points: Int64[np.ndarray, "n"], k: int | None = None) -> ExpertPredictions:
        """Return the predictions of the first k experts (by default all) at some of the points."""
        return ExpertPredictions(
            self.mean[points, :k],
            self.explained[points, :k],
            self.available[points, :k],
            None if self.directions is None else self.directions[points, :k],
            None if self.covariance is None else self.covariance[points, :k, :k],
            None if self.common is None else (self.common[0][points], self.common[1][points]),
            None if self.further is None else self.further[points, :k],
        )


@dataclass(frozen=True, eq=False)
class FusedPrediction:
    """Prediction of the output at N points.

    Attributes
    ----------
    mean, variance : ndarray
        ``(N,)``; the variance includes the noise.
    covariances : ndarray or None
        ``(N, D + 1)`` of the function at each point with the values around it (`numerics.gp.joint_answers`).
    """

    mean: Float64[np.ndarray, "N"]
    variance: Float64[np.ndarray, "N"]
    covariances: Float64[np.ndarray, "N D+1"] | None = None


def aggregate(
    rule: str, predictions: ExpertPredictions, prior: Float64[np.ndarray, "N"], noise: float
) -> FusedPrediction:
    """Combine the experts' predictions.

    Parameters
    ----------
    rule : str
        One of `RULES`.
    predictions : ExpertPredictions
        The experts' predictions. "npae" needs `directions` or `covariance`, "grbcm" needs `common`.
    prior : ndarray
        ``(N,)`` prior variance k** of the latent function at the points.
    noise : float
        Variance sigma^2 of the noise.

    Returns
    -------
    FusedPrediction
        At a point without any answer: the prior's mean 0 and variance, or those of the communication expert.

    Raises
    ------
    ValueError
        If the rule is unknown, or `predictions` lacks an attribute that it needs.

    Examples
    --------
    Two experts that agree are surer together than alone:

    >>> predictions = ExpertPredictions(np.array([[1.0, 1.0]]), np.full((1, 2), 0.8), np.ones((1, 2), bool))
    >>> fused = aggregate("bcm", predictions, prior=np.ones(1), noise=0.1)
    >>> fused.mean.round(3), fused.variance.round(3)
    (array([1.158]), array([0.174]))
    """
    if rule == "npae":
        return _dependent(predictions, prior, noise)
    if rule == "grbcm":
        return _generalize(predictions, prior, noise)
    if rule not in RULES:
        raise ValueError(f"unknown aggregation '{rule}'; there are {', '.join(RULES)}")
    return _independent(rule, predictions, prior, noise)


def _dependent(predictions: ExpertPredictions, prior: Float64[np.ndarray, "N"], noise: float) -> FusedPrediction:
    N, K = predictions.mean.shape
    explained = np.where(predictions.available, np.clip(predictions.explained, 0.0, prior[:, None]), 0.0)
    if predictions.further is not None and predictions.directions is not None:
        means = np.where(predictions.available, predictions.mean, 0.0)
        joint = combine(means, explained, predictions.directions, predictions.further, prior, noise)
        return FusedPrediction(joint.mean, joint.variance + noise, joint.covariances)
    mean, variance = np.empty(N), np.empty(N)
    for some in blocks(N, 4 * K * K):
        if predictions.covariance is not None:
            covariance = predictions.covariance[some]
        elif predictions.directions is not None:
            covariance = covariance_of(explained[some], predictions.directions[some], prior[some])
        else:
            raise ValueError("npae needs the covariances between the experts, or features to take them from")
        mean[some], variance[some] = npae(predictions.mean[some], explained[some], covariance, prior[some])
    return FusedPrediction(mean, variance + noise)


def _independent(
    rule: str, predictions: ExpertPredictions, latent: Float64[np.ndarray, "N"], noise: float
) -> FusedPrediction:
    """Combine by eq. 4 with the exponents beta of the rule; committee machines divide by surplus priors."""
    own, prior = _own_variances(predictions, latent, noise), latent + noise
    available = predictions.available.astype(np.float64)
    n_available = available.sum(axis=1)
    if rule == "gpoe":
        beta = available / np.maximum(n_available, 1.0)[:, None]
    elif rule == "rbcm":
        beta = available * 0.5 * (np.log(prior)[:, None] - np.log(own))
    else:
        beta = available
    # Exponent of the prior in the product; without an answer the prior is the only factor.
    committee = rule in ("bcm", "rbcm")
    priors = np.where(committee, 1.0 - beta.sum(axis=1), n_available == 0)
    precision = np.sum(beta / own, axis=1) + priors / prior
    return FusedPrediction(np.sum(beta * predictions.mean / own, axis=1) / precision, 1.0 / precision)


def _generalize(predictions: ExpertPredictions, latent: Float64[np.ndarray, "N"], noise: float) -> FusedPrediction:
    """Combine as Liu et al. 2018: each expert corrects the communication expert, the first one with exponent 1."""
    if predictions.common is None:
        raise ValueError("grbcm needs a communication expert")
    mean, explained = predictions.common
    common = latent - np.clip(explained, 0.0, latent) + noise
    # An expert has the communication expert's rows and more: its variance is not larger.
    own = np.minimum(_own_variances(predictions, latent, noise), common[:, None])
    beta = 0.5 * (np.log(common)[:, None] - np.log(own))
    first = predictions.available & (np.cumsum(predictions.available, axis=1) == 1)
    beta = np.where(first, 1.0, np.where(predictions.available, beta, 0.0))
    surplus = beta.sum(axis=1) - 1.0
    precision = np.sum(beta / own, axis=1) - surplus / common
    weighted = np.sum(beta * predictions.mean / own, axis=1) - surplus * mean / common
    return FusedPrediction(weighted / precision, 1.0 / precision)


def _own_variances(
    predictions: ExpertPredictions, latent: Float64[np.ndarray, "N"], noise: float
) -> Float64[np.ndarray, "N K"]:
    """Return each expert's own variance of the output: at least the noise, since at most k** can be explained."""
    explained = np.where(predictions.available, predictions.explained, 0.0)
    return np.asarray(latent[:, None] - np.clip(explained, 0.0, latent[:, None]) + noise)
