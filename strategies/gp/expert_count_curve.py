"""How good the predictions are with fewer experts a point than the run used."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from numerics.gp.aggregation import ExpertPredictions, aggregate
from numerics.gp.metrics import msll, smse
from numerics.shared.threads import single_threaded

_MOST_POINTS, _MOST_PAIRS = 1000, 1_000_000
"""Query points that are predicted again, and pairs of their experts: more would take seconds."""
_NUMBERS = 8
"""Numbers of experts that are tried, from one to all, evenly on a logarithmic scale."""


@dataclass(frozen=True, eq=False)
class Sample:
    """The experts' predictions at some of the query points. Combining them anew at all points would take seconds.

    Attributes
    ----------
    rows : ndarray
        ``(n,)`` places of the points among the query points.
    predictions : ExpertPredictions
        At these points.
    """

    rows: Int64[np.ndarray, "n"]
    predictions: ExpertPredictions

    @classmethod
    def of(cls, predictions: ExpertPredictions) -> Sample:
        """Take as many points as can be combined anew in a moment, at even steps in their order."""
        N, K = predictions.mean.shape
        rows = np.linspace(0, N - 1, min(N, _MOST_POINTS, max(1, _MOST_PAIRS // max(1, K) ** 2))).astype(np.int64)
        return cls(rows, _first_experts(predictions, rows, K))


def scores_by_expert_count(
    sample: Sample,
    y: Float64[np.ndarray, "n"],
    prior: Float64[np.ndarray, "n"],
    noise: float,
    aggregation: str,
) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Score the predictions of the first 1, 2, ... K experts of each query point (SMSE and MSLL).

    Parameters
    ----------
    sample : Sample
        What the experts predict at n of the query points.
    y : ndarray
        ``(n,)`` measured outputs there, in the common units.
    prior : ndarray
        ``(n,)`` prior variance of the latent function there.
    noise : float
        Noise variance.
    aggregation : str
        The run's own rule (`numerics.gp.aggregation.aggregate`).

    Returns
    -------
    dict
        ``tried_K`` (m,) numbers of experts, ``tried_smse`` and ``tried_msll`` (m,) their scores, ``tried_points`` the
        number of points. Empty where fewer than two experts answer, a smaller number cannot be combined, or the scores
        are not defined because all outputs are equal.
    """
    K = sample.predictions.mean.shape[1]
    if not len(y) or K < 2:
        return {}
    tried = np.unique(np.geomspace(1, K, _NUMBERS).round().astype(np.int64))
    scores = []
    with single_threaded():
        for k in tried.tolist():
            first = _first_experts(sample.predictions, np.arange(len(y)), k)
            try:
                fused = aggregate(aggregation, first, prior, noise)
            except (ArithmeticError, np.linalg.LinAlgError):  # so few experts may not be combinable, though all are
                return {}
            scores.append((smse(y, fused.mean), msll(y, fused.mean, fused.variance, 0.0, 1.0)))
    smse_by_count, msll_by_count = np.array(scores).T
    if not np.isfinite(scores).all():
        return {}
    return {
        "tried_K": tried,
        "tried_smse": smse_by_count,
        "tried_msll": msll_by_count,
        "tried_points": np.array(len(y)),
    }


def _first_experts(predictions: ExpertPredictions, rows: Int64[np.ndarray, "n"], k: int) -> ExpertPredictions:
    """Return what the first k experts of these points predict."""
    return ExpertPredictions(
        predictions.mean[rows, :k],
        predictions.explained[rows, :k],
        predictions.available[rows, :k],
        None if predictions.directions is None else predictions.directions[rows, :k],
        None if predictions.covariance is None else predictions.covariance[rows, :k, :k],
        None if predictions.common is None else (predictions.common[0][rows], predictions.common[1][rows]),
    )
