"""Influence of each site on the predictions, from the answers that the fusion center holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float64

from numerics.gp.aggregation import aggregate
from numerics.gp.metrics import smse
from numerics.shared.threads import single_threaded
from strategies.gp.expert_count_curve import Sample
from strategies.gp.outcome import GPOutcome
from strategies.influence import Influence

CHANGE = "root mean square change of the predictions, in standard deviations of the outputs"
_NOTABLE = 0.05
"""Share by which the error must be lower without a site before a note says so."""
_STANDARD_ERRORS = 3.0
"""Standard errors of a mean difference that chance explains."""


def influence_of_answers(outcome: GPOutcome) -> Influence:
    """Return the error of the predictions without each site; where no outputs are known, how far predictions move.

    The other experts' answers are combined anew at the sample's points. Hyperparameters and units remain those of the
    run, and no expert is asked in place of those that are left out.
    """
    sample = outcome.sample
    if sample is None or outcome.queries is None or outcome.fused is None:
        return Influence.cannot_be_said("there are no query points")
    fused, y = outcome.fused.mean[sample.rows], _outputs(outcome, sample)
    without = _means_without_sites(outcome, sample)
    if y is None or not np.isfinite(smse(y, fused)):
        return Influence(CHANGE, None, {site: _root_mean_square(means - fused) for site, means in without.items()})
    measure = "smse" if len(y) == len(outcome.queries.x) else "smse_sample"
    return Influence(measure, smse(y, fused), {site: smse(y, means) for site, means in without.items()})


def raising_the_error(outcome: GPOutcome) -> dict[str, float]:
    """Return the sites without which the error is notably lower, by more than chance explains, and by which share."""
    sample = outcome.sample
    if sample is None or outcome.fused is None or (y := _outputs(outcome, sample)) is None or len(y) < 2:
        return {}
    squares = (outcome.fused.mean[sample.rows] - y) ** 2
    shares = {}
    for site, means in _means_without_sites(outcome, sample).items():
        gains = squares - (means - y) ** 2
        chance = _STANDARD_ERRORS * gains.std(ddof=1) / np.sqrt(len(y))
        if gains.mean() > max(chance, _NOTABLE * squares.mean()):
            shares[site] = float(gains.mean() / squares.mean())
    return shares


def _outputs(outcome: GPOutcome, sample: Sample) -> Float64[np.ndarray, "n"] | None:
    """Return the measured outputs at the sample's points, in the common units; None if they are unknown."""
    if outcome.queries is None or outcome.queries.y is None:
        return None
    return np.asarray(outcome.model.registry.units.outputs(outcome.queries.y)[sample.rows])


def _means_without_sites(outcome: GPOutcome, sample: Sample) -> dict[str, Float64[np.ndarray, "n"]]:
    """Return by site the predicted means without its answers; sites without an answer are missing."""
    if outcome.fused is None or outcome.answers is None:
        return {}
    fused, selected = outcome.fused.mean[sample.rows], outcome.answers.selected[sample.rows]
    own = {site: np.isin(selected, experts) for site, experts in outcome.model.registry.places.items()}
    return {site: _means_without(outcome, sample, each, fused) for site, each in own.items() if each.any()}


def _means_without(
    outcome: GPOutcome, sample: Sample, own: Bool[np.ndarray, "n K"], fused: Float64[np.ndarray, "n"]
) -> Float64[np.ndarray, "n"]:
    """Return the predicted means without the answers `own`; only the points that these are about change."""
    predictions, changed = sample.predictions, np.flatnonzero(own.any(axis=1))
    some = predictions.at(changed)
    others = replace(some, available=some.available & ~own[changed])
    means = fused.copy()
    with single_threaded():
        prior = outcome.prior[sample.rows[changed]]
        means[changed] = aggregate(outcome.settings.aggregation, others, prior, outcome.model.fit.noise).mean
    return means


def _root_mean_square(differences: Float64[np.ndarray, "n"]) -> float:
    return float(np.sqrt(np.mean(differences**2)))
