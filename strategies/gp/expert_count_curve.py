"""How good the predictions are from the first of a point's experts alone, for the report of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int64, Shaped

from numerics.gp.metrics import msll, smse
from numerics.gp.rules import Predictions, aggregate
from numerics.shared.threads import single_threaded

if TYPE_CHECKING:
    from strategies.gp.report import Outcome

_MOST_POINTS, _MOST_PAIRS = 1000, 1_000_000
"""Query points that are predicted again, and pairs of their experts: more would take seconds."""
_NUMBERS = 8
"""Numbers of experts that are tried, from one to all, evenly on a logarithmic scale."""


@dataclass(frozen=True, eq=False)
class Sample:
    """What the experts said of some of the query points: of all of them it would take seconds to predict again.

    Attributes
    ----------
    rows : ndarray
        ``(n,)`` which of the query points.
    said : Predictions
        Of these.
    """

    rows: Int64[np.ndarray, "n"]
    said: Predictions

    @classmethod
    def of(cls, said: Predictions) -> Sample:
        """As many points as can be predicted again in a moment, evenly in their order."""
        N, K = said.mean.shape
        rows = np.linspace(0, N - 1, min(N, _MOST_POINTS, max(1, _MOST_PAIRS // max(1, K) ** 2))).astype(np.int64)
        return cls(rows, _some(said, rows, K))


def scores_over_experts(outcome: Outcome) -> dict[str, Shaped[np.ndarray, "..."]]:
    """SMSE and MSLL of the first 1, 2, ... K experts of the query points, by the run's own rule.

    Parameters
    ----------
    outcome : Outcome
        Of the run.

    Returns
    -------
    dict
        ``tried_K`` (m,) numbers of experts, ``tried_smse`` and ``tried_msll`` (m,) their scores, ``tried_points`` at
        how many of the query points; empty where nothing was measured, one expert answers, fewer cannot be
        combined, or the scores are not defined (all outputs are equal).
    """
    sample, queries = outcome.sample, outcome.queries
    if sample is None or queries is None or queries.y is None or not len(sample.rows) or sample.said.mean.shape[1] < 2:
        return {}
    rows, K = sample.rows, sample.said.mean.shape[1]
    tried = np.unique(np.geomspace(1, K, _NUMBERS).round().astype(np.int64))
    model = outcome.model
    y, prior = model.federation.units.outputs(queries.y)[rows], outcome.prior[rows]
    noise = float(np.exp(2 * model.fit.theta[-1]))
    scores = []
    with single_threaded():
        for k in tried.tolist():
            first = _some(sample.said, np.arange(len(rows)), k)
            try:
                fused = aggregate(outcome.settings.aggregation, first, prior, noise)
            except (ArithmeticError, np.linalg.LinAlgError):  # of experts that the run itself never left alone
                return {}
            scores.append((smse(y, fused.mean), msll(y, fused.mean, fused.variance, 0.0, 1.0)))
    found = np.array(scores)
    if not np.isfinite(found).all():
        return {}
    return {
        "tried_K": tried,
        "tried_smse": found[:, 0],
        "tried_msll": found[:, 1],
        "tried_points": np.array(len(rows)),
    }


def _some(said: Predictions, rows: Int64[np.ndarray, "n"], k: int) -> Predictions:
    """What the first k experts of these points said."""
    return Predictions(
        said.mean[rows, :k],
        said.explained[rows, :k],
        said.there[rows, :k],
        None if said.directions is None else said.directions[rows, :k],
        None if said.covariance is None else said.covariance[rows, :k, :k],
        None if said.common is None else (said.common[0][rows], said.common[1][rows]),
    )
