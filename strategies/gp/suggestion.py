"""Where to measure next: the value of a measurement at each query point for the predictions at all of them."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from common.csv_text import csv_text
from numerics.gp.aggregation import FusedPrediction
from numerics.gp.kernels import Kernel
from numerics.gp.landmarks import offsets
from numerics.gp.suggestion import variance_reductions
from strategies.gp.expert_registry import ExpertRegistry
from strategies.gp.outcome import GPOutcome
from strategies.gp.prediction import PredictionSetup

_MOST_TARGETS = 1000
"""Largest number of points, at even steps, over which the variance is averaged."""


def reductions(
    registry: ExpertRegistry,
    kernel: Kernel,
    x: Float64[np.ndarray, "N d"],
    fused: FusedPrediction,
    setup: PredictionSetup,
) -> Float64[np.ndarray, "N"]:
    """Return the share by which a measurement at each point reduces the mean variance at the points.

    Nobody is asked: the experts' answers about the points and their landmarks are enough.
    """
    assert fused.covariances is not None  # noqa: S101 - the settings have been checked
    params, noise = setup.theta[:-1], float(np.exp(2 * setup.theta[-1]))
    around = offsets(setup.landmarks, kernel.lengths(params), setup.seed, registry.varies.astype(np.float64))
    some = np.linspace(0, len(x) - 1, min(len(x), _MOST_TARGETS)).astype(np.int64)
    variances = np.maximum(fused.variance[some] - noise, np.finfo(np.float64).tiny)
    per_target = variance_reductions(kernel, params, x, x[some], around, fused.covariances, variances, noise)
    return np.asarray(per_target / variances.mean())


def suggestions_csv(outcome: GPOutcome) -> bytes:
    """Write the points, the largest reduction first, with the inputs in the units of the data."""
    assert outcome.queries is not None  # noqa: S101 - the caller has checked it
    assert outcome.reductions is not None  # noqa: S101 - the caller has checked it
    queries, order = outcome.queries, np.argsort(-outcome.reductions, kind="stable")
    names = queries.names if queries.names is not None else np.arange(1, len(queries.x) + 1)
    columns = {
        "query": names[order].tolist(),
        "reduction": outcome.reductions[order].tolist(),
        "mean": outcome.mean[order].tolist(),
        "std": outcome.std[order].tolist(),
        **{name: queries.x[order, place].tolist() for place, name in enumerate(queries.features)},
    }
    return csv_text(columns).encode()


def suggestion_note(outcome: GPOutcome) -> list[str]:
    """Return a sentence that names the best point; none if none was asked for."""
    if outcome.reductions is None or outcome.queries is None or not len(outcome.reductions):
        return []
    best = int(np.argmax(outcome.reductions))
    name = best + 1 if outcome.queries.names is None else outcome.queries.names[best]
    share = 100 * float(outcome.reductions[best])
    return [
        f"measure next at {name}: a measurement there takes {share:.3g} % from the mean variance at the points. For the"
        " one after it, run again with that measurement among the rows of a site"
    ]
