"""Influence of each site on the predictions, from the answers that the fusion center holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float64, Int64

from numerics.gp.aggregation import FusedPrediction, aggregate
from numerics.gp.metrics import smse
from numerics.shared.threads import single_threaded
from strategies.gp.expert_count_curve import Sample
from strategies.gp.outcome import GPOutcome
from strategies.influence import Influence

CHANGE = "root mean square change of the predictions, in standard deviations of the outputs"
CHANGE_OF_CLASSES = "root mean square change of the class probabilities"
_NOTABLE = 0.05
"""Share by which the error must be lower without a site before a note says so."""
_STANDARD_ERRORS = 3.0
"""Standard errors of a mean difference that chance explains."""


def influence_of_answers(outcome: GPOutcome) -> Influence:
    """Return the error of the predictions without each site; if no outputs are known, the change of the predictions.

    The other experts' answers are combined anew at the sample's points. Hyperparameters and units remain those of the
    run, and no expert is asked in place of those that are left out.
    """
    sample = outcome.sample
    if sample is None or outcome.queries is None or outcome.fused is None:
        return Influence.unknown_since("there are no query points")
    fused, points = _at(outcome.fused, sample.rows), _points(outcome, sample)
    without = _without_sites(outcome, sample)
    if outcome.model.registry.classes:
        return _influence_on_classes(outcome, fused, without, points)
    y = None if outcome.queries.y is None else outcome.model.registry.units.outputs(outcome.queries.y)[points]
    if y is None or not np.isfinite(smse(y, fused.mean)):
        moves = {site: _root_mean_square(each.mean - fused.mean) for site, each in without.items()}
        return Influence(CHANGE, None, moves)
    measure = "smse" if len(y) == len(outcome.queries.measured) else "smse_sample"
    return Influence(measure, smse(y, fused.mean), {site: smse(y, each.mean) for site, each in without.items()})


def _influence_on_classes(
    outcome: GPOutcome, fused: FusedPrediction, without: Mapping[str, FusedPrediction], points: Int64[np.ndarray, "n"]
) -> Influence:
    assert outcome.queries is not None  # noqa: S101 - the caller has checked it
    if outcome.queries.y is None:
        now = outcome.probabilities(fused)
        moves = {site: _root_mean_square(outcome.probabilities(each) - now) for site, each in without.items()}
        return Influence(CHANGE_OF_CLASSES, None, moves)
    measure = "log_loss" if len(points) == len(outcome.queries.measured) else "log_loss_sample"
    losses = {site: float(outcome.losses(each, points).mean()) for site, each in without.items()}
    return Influence(measure, float(outcome.losses(fused, points).mean()), losses)


def raising_the_error(outcome: GPOutcome) -> dict[str, float]:
    """Return the sites without which the error falls notably and beyond chance, with the share by which it falls."""
    sample = outcome.sample
    if sample is None or outcome.fused is None or outcome.queries is None or outcome.queries.y is None:
        return {}
    points = _points(outcome, sample)
    if len(points) < 2:
        return {}
    losses = outcome.losses(_at(outcome.fused, sample.rows), points)
    shares = {}
    for site, each in _without_sites(outcome, sample).items():
        gains = losses - outcome.losses(each, points)
        chance = _STANDARD_ERRORS * gains.std(ddof=1) / np.sqrt(len(points))
        if gains.mean() > max(chance, _NOTABLE * losses.mean()):
            shares[site] = float(gains.mean() / losses.mean())
    return shares


def error_by_answers_of(outcome: GPOutcome, site: str) -> float | None:
    """Return the mean loss of predictions by a site's answers alone, in units as of `GPOutcome.differences_alone`.

    Over the sample's points that the site answered; None if there are none with a known output.
    """
    sample = outcome.sample
    if sample is None or outcome.fused is None or outcome.answers is None or outcome.queries is None:
        return None
    own = np.isin(outcome.answers.selected[sample.rows], outcome.model.registry.places[site])
    answered = np.asarray(own.any(axis=1))[:: outcome.model.registry.n_outputs]
    if outcome.queries.y is None or not answered.any():
        return None
    alone = _without(outcome, sample, ~own, _at(outcome.fused, sample.rows))
    return float(outcome.losses(alone, _points(outcome, sample))[answered].mean() / outcome.unit_alone)


def _points(outcome: GPOutcome, sample: Sample) -> Int64[np.ndarray, "n"]:
    """Return the places of the sample's points among the query points."""
    outputs = outcome.model.registry.n_outputs
    return sample.rows[::outputs] // outputs


def _at(fused: FusedPrediction, rows: Int64[np.ndarray, "n"]) -> FusedPrediction:
    return FusedPrediction(fused.mean[rows], fused.variance[rows])


def _without_sites(outcome: GPOutcome, sample: Sample) -> dict[str, FusedPrediction]:
    """Return by site the predictions without its answers; sites without an answer are missing."""
    if outcome.fused is None or outcome.answers is None:
        return {}
    fused, selected = _at(outcome.fused, sample.rows), outcome.answers.selected[sample.rows]
    own = {site: np.isin(selected, experts) for site, experts in outcome.model.registry.places.items()}
    return {site: _without(outcome, sample, each, fused) for site, each in own.items() if each.any()}


def _without(
    outcome: GPOutcome, sample: Sample, own: Bool[np.ndarray, "n K"], fused: FusedPrediction
) -> FusedPrediction:
    """Return the predictions without the answers `own`; only points with such an answer change."""
    predictions, changed = sample.predictions, np.flatnonzero(own.any(axis=1))
    some = predictions.at(changed)
    others = replace(some, available=some.available & ~own[changed])
    mean, variance = fused.mean.copy(), fused.variance.copy()
    with single_threaded():
        prior = outcome.prior[sample.rows[changed]]
        anew = aggregate(outcome.settings.aggregation, others, prior, outcome.model.noise)
    mean[changed], variance[changed] = anew.mean, anew.variance
    return FusedPrediction(mean, variance)


def _root_mean_square(differences: Float64[np.ndarray, "..."]) -> float:
    return float(np.sqrt(np.mean(differences**2)))
