"""Which sites the others contradict, by the answers at shared query points."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float64

from numerics.gp.aggregation import ExpertPredictions
from numerics.gp.agreement import contradiction
from numerics.shared.threads import single_threaded
from strategies.gp.expert_count_curve import Sample
from strategies.gp.expert_registry import ExpertRegistry
from strategies.gp.prediction import Distrust, ExpertAnswers

_LARGEST = 6.0
"""Mean square difference, relative to its variance, beyond which a site contradicts the others."""
_FACTOR = 10.0
"""Multiple of the sites' median that it must exceed, too: a wrong model raises the difference of all sites."""


def contradictions(
    registry: ExpertRegistry, answers: ExpertAnswers, prior: Float64[np.ndarray, "N"], noise: float
) -> dict[str, float]:
    """Return, by site, the distance of its predictions from most others' (`numerics.gp.agreement.contradiction`)."""
    predictions = ExpertPredictions(
        answers.mean, answers.explained, answers.selected >= 0, answers.features if answers.features.size else None
    )
    sample = Sample.of(predictions, registry.n_outputs)
    number = {site: place for place, site in enumerate(registry.counts)}
    site = np.array([number[site] for site in registry.site_of])[answers.selected[sample.rows]]
    with single_threaded():
        values = contradiction(sample.predictions, site, len(number), prior[sample.rows], noise)
    return dict(zip(number, values.tolist(), strict=True))


def contradicting(values: Mapping[str, float]) -> list[str]:
    """Return the sites that contradict most others, by the values of `contradictions`; always fewer than half.

    Examples
    --------
    >>> contradicting({"coast": 0.8, "delta": 250.0, "hills": 1.1})
    ['delta']
    >>> contradicting({"coast": 30.0, "delta": 60.0, "hills": 25.0})
    []
    """
    usual = float(np.median([*values.values()])) if values else 0.0
    return [site for site, value in values.items() if value > max(_LARGEST, _FACTOR * usual)]


def distrust_of(registry: ExpertRegistry, prior: Float64[np.ndarray, "N"], noise: float) -> Distrust:
    """Return a function that rejects the experts of sites that contradict the others."""

    def distrust(answers: ExpertAnswers) -> Bool[np.ndarray, "M"]:
        return np.isin(registry.site_of, contradicting(contradictions(registry, answers, prior, noise)))

    return distrust
