"""Answers of several experts made one: the products of experts, the committee machines, and NPAE by the same call.

Sources: Jalali and Kasneci 2022, eq. 4 and 7; Deisenroth and Ng: Distributed Gaussian processes, 2015; Liu, Cai, Ong
and Wang: Generalized robust Bayesian committee machine, 2018. All but NPAE take the experts to be independent given the
output, and combine predictions of the output (noise included), as docs/gp.md says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64

from numerics.gp.expert import blocks
from numerics.gp.npae import npae
from numerics.gp.sketch import covariance_of

RULES = ("npae", "poe", "gpoe", "bcm", "rbcm", "grbcm")


@dataclass(frozen=True, eq=False)
class ExpertPredictions:
    """What K experts say about each of N points: not the same ones at every point, and the most important first.

    Attributes
    ----------
    mean, explained : ndarray
        ``(N, K)`` their answers (`numerics.gp.expert.WeightedPrediction`); anything finite where nobody answered.
    there : ndarray
        ``(N, K)``, False where nobody answered.
    directions : ndarray or None
        ``(N, K, D)`` features from which NPAE takes the covariances (`numerics.gp.sketch`).
    covariance : ndarray or None
        ``(N, K, K)`` these covariances themselves, if they are known.
    common : tuple or None
        Mean and explained variance ``(N,)`` of the communication expert; the K experts then know its rows beside
        their own ("grbcm").
    """

    mean: Float64[np.ndarray, "N K"]
    explained: Float64[np.ndarray, "N K"]
    there: Bool[np.ndarray, "N K"]
    directions: Float[np.ndarray, "N K D"] | None = None
    covariance: Float64[np.ndarray, "N K K"] | None = None
    common: tuple[Float64[np.ndarray, "N"], Float64[np.ndarray, "N"]] | None = None


@dataclass(frozen=True, eq=False)
class FusedPrediction:
    """Prediction of the output at N points: ``(N,)`` mean and ``(N,)`` variance, noise included."""

    mean: Float64[np.ndarray, "N"]
    variance: Float64[np.ndarray, "N"]


def aggregate(
    rule: str, predictions: ExpertPredictions, prior: Float64[np.ndarray, "N"], noise: float
) -> FusedPrediction:
    """Combine the experts' predictions.

    Parameters
    ----------
    rule : str
        One of `RULES`.
    predictions : ExpertPredictions
        The experts' answers; with `directions` or `covariance` for "npae", with `common` for "grbcm".
    prior : ndarray
        ``(N,)`` prior variance k** of the latent function at the points.
    noise : float
        Variance sigma^2 of the noise.

    Returns
    -------
    FusedPrediction
        Where no expert answered, prior mean 0 and variance (the communication expert's, if there is one).

    Raises
    ------
    ValueError
        The rule is not one of `RULES`, or needs what `predictions` does not have.
    """
    if rule == "npae":
        return _dependent(predictions, prior, noise)
    if rule == "grbcm":
        return _generalised(predictions, prior, noise)
    if rule not in RULES:
        raise ValueError(f"unknown aggregation '{rule}'; there are {', '.join(RULES)}")
    return _independent(rule, predictions, prior, noise)


def _dependent(predictions: ExpertPredictions, prior: Float64[np.ndarray, "N"], noise: float) -> FusedPrediction:
    N, K = predictions.mean.shape
    explained = np.where(predictions.there, np.clip(predictions.explained, 0.0, prior[:, None]), 0.0)
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
    """Eq. 4 with the rule's exponents beta, and for the committee machines the prior as often as it was used."""
    own, prior = _own_variances(predictions, latent, noise), latent + noise
    there = predictions.there.astype(np.float64)
    used = there.sum(axis=1)
    if rule == "gpoe":
        beta = there / np.maximum(used, 1.0)[:, None]
    elif rule == "rbcm":
        beta = there * 0.5 * (np.log(prior)[:, None] - np.log(own))
    else:
        beta = there
    # How often the prior is part of the product; where nobody is, it is all there is.
    committee = rule in ("bcm", "rbcm")
    priors = np.where(committee, 1.0 - beta.sum(axis=1), used == 0)
    precision = np.sum(beta / own, axis=1) + priors / prior
    return FusedPrediction(np.sum(beta * predictions.mean / own, axis=1) / precision, 1.0 / precision)


def _generalised(predictions: ExpertPredictions, latent: Float64[np.ndarray, "N"], noise: float) -> FusedPrediction:
    """Liu et al. 2018: each expert corrects the communication expert, the first one in full."""
    if predictions.common is None:
        raise ValueError("grbcm needs a communication expert")
    mean, explained = predictions.common
    common = latent - np.clip(explained, 0.0, latent) + noise
    # Whoever knows the communication expert's rows and more is at least as sure.
    own = np.minimum(_own_variances(predictions, latent, noise), common[:, None])
    beta = 0.5 * (np.log(common)[:, None] - np.log(own))
    first = predictions.there & (np.cumsum(predictions.there, axis=1) == 1)
    beta = np.where(first, 1.0, np.where(predictions.there, beta, 0.0))
    surplus = beta.sum(axis=1) - 1.0
    precision = np.sum(beta / own, axis=1) - surplus / common
    weighted = np.sum(beta * predictions.mean / own, axis=1) - surplus * mean / common
    return FusedPrediction(weighted / precision, 1.0 / precision)


def _own_variances(
    predictions: ExpertPredictions, latent: Float64[np.ndarray, "N"], noise: float
) -> Float64[np.ndarray, "N K"]:
    """Variance of the output that each expert alone gives: the noise at least, for no rows explain more than k**."""
    explained = np.where(predictions.there, predictions.explained, 0.0)
    return np.asarray(latent[:, None] - np.clip(explained, 0.0, latent[:, None]) + noise)
