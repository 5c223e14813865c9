"""Scores of the predictions by the number of experts a point, from one to all that the run used."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from numerics.gp.aggregation import ExpertPredictions, aggregate
from numerics.gp.metrics import msll, smse
from numerics.shared.threads import single_threaded

_MOST_POINTS, _MOST_PAIRS = 1000, 1_000_000
"""Largest numbers of query points that are predicted again, and of pairs of their experts: more take seconds."""
_NUMBERS = 8
"""Number of expert counts that are tried, from one to all, evenly on a logarithmic scale."""


def rows_of(points: Int64[np.ndarray, "n"], outputs: int) -> Int64[np.ndarray, "m"]:
    """Return the places of all outputs of some points; a point has `outputs` places in a row.

    Examples
    --------
    >>> rows_of(np.array([1, 3]), 2)
    array([2, 3, 6, 7])
    """
    return np.asarray((points[:, np.newaxis] * outputs + np.arange(outputs)).ravel())


@dataclass(frozen=True, eq=False)
class Sample:
    """The experts' predictions at some of the query points: to combine all of them again would take seconds.

    Attributes
    ----------
    rows : ndarray
        ``(n,)`` places of the points among the query points.
    predictions : ExpertPredictions
        Predictions at these points.
    """

    rows: Int64[np.ndarray, "n"]
    predictions: ExpertPredictions

    @classmethod
    def of(
        cls, predictions: ExpertPredictions, outputs: int = 1, among: Int64[np.ndarray, "m"] | None = None
    ) -> Sample:
        """Take as many points as can be combined in a moment, at even steps in their order.

        Parameters
        ----------
        predictions : ExpertPredictions
            Predictions at all points.
        outputs : int
            Number of outputs of a point, which are so many places in a row; a point is taken with all of them.
        among : ndarray, optional
            ``(m,)`` points to choose from; all by default.

        Examples
        --------
        >>> predictions = ExpertPredictions(np.zeros((4, 1)), np.zeros((4, 1)), np.ones((4, 1), bool))
        >>> Sample.of(predictions, 2, np.array([1])).rows
        array([2, 3])
        """
        points = np.arange(len(predictions.mean) // outputs) if among is None else among
        N, K = len(points), predictions.mean.shape[1]
        some = np.linspace(0, N - 1, min(N, _MOST_POINTS, max(1, _MOST_PAIRS // max(1, K) ** 2))).astype(np.int64)
        rows = rows_of(points[some], outputs)
        return cls(rows, predictions.at(rows))


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
        The experts' predictions at n of the query points.
    y : ndarray
        ``(n,)`` measured outputs at these points, in the common units.
    prior : ndarray
        ``(n,)`` prior variance of the latent function at these points.
    noise : float
        Noise variance.
    aggregation : str
        The rule of the run (`numerics.gp.aggregation.aggregate`).

    Returns
    -------
    dict
        ``tried_K`` (m,) numbers of experts, ``tried_smse`` and ``tried_msll`` (m,) their scores, ``tried_points`` the
        number of points. Empty if fewer than two experts answered, if a smaller number of experts cannot be combined,
        or if the scores are not defined because all outputs are equal.

    Examples
    --------
    The first expert of both points is right, and the second is not:

    >>> mean, explained = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.full((2, 2), 0.9)
    >>> sample = Sample.of(ExpertPredictions(mean, explained, np.ones((2, 2), bool)))
    >>> scores = scores_by_expert_count(sample, np.array([1.0, -1.0]), np.ones(2), 0.01, "poe")
    >>> scores["tried_K"].tolist(), scores["tried_smse"].tolist()
    ([1, 2], [0.0, 0.25])
    """
    K = sample.predictions.mean.shape[1]
    if not len(y) or K < 2:
        return {}
    tried = np.unique(np.geomspace(1, K, _NUMBERS).round().astype(np.int64))
    scores = []
    with single_threaded():
        for k in tried.tolist():
            first = sample.predictions.at(np.arange(len(y)), k)
            try:
                fused = aggregate(aggregation, first, prior, noise)
            except (ArithmeticError, np.linalg.LinAlgError):  # few experts may fail to combine where all of them do
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
