"""Notes on a run of attribute-distributed regression."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from numerics.residual.bins import share_replaced
from numerics.residual.robust import NOTABLE
from numerics.residual.rules import LearningResult
from strategies.residual.alignment import CENTER
from strategies.residual.report import ResidualOutcome, influence_in, kind_of


def notes_on(outcome: ResidualOutcome) -> list[str]:
    """Return sentences for the reader of the report."""
    result, rules = outcome.result, outcome.rules
    notes = []
    silent = [
        name for name, seen in zip(result.names, result.seen, strict=True) if not (seen or name in result.left_out)
    ]
    if silent:
        notes.append(f"{', '.join(silent)}: no part in the result, where a prediction adds nothing or did not come")
    if without_receipt := outcome.plan.without_receipt:
        notes.append(
            f"{', '.join(without_receipt)}: did not confirm that they stored a model (silent, or no site-output-dir);"
            " predictions later go without them"
        )
    if result.alone is not None and (unknown := [name for name in result.names if name not in result.alone.names]):
        notes.append(
            f"{', '.join(unknown)}: no answer about predictions by own columns alone, so no part in the comparison"
        )
    if result.own_site:
        share = "is the result" if result.own_share == 1 else "counts a half of it"
        notes.append(
            f"{result.own_site}: its own prediction by its columns alone {share}, since the validation rows are better"
            " predicted so"
        )
    notes += _randomness_notes(result)
    notes += _improvement_notes(outcome)
    notes += _entity_notes(outcome)
    if result.split.n_fit < 2 * rules.min_leaf:
        notes.append(
            f"there are {result.split.n_fit} training rows, and a leaf of a tree has {rules.min_leaf} at least:"
            " no tree can split (residual.min-leaf)"
        )
    finished = result.model is not None and rules.boosts
    additive = result.iteration - finished - bool(result.own_site)
    if (result.algorithm == "boosted" and result.own_share < 1) or (result.algorithm == "bins" and finished):
        notes += _overfit_notes(result.curve[additive])
    if additive == rules.rounds and result.iteration == len(result.curve) - 1 and rules.stop != "rounds":
        notes.append(f"the error was still falling after {rules.rounds} iterations (residual.rounds)")
    return notes


_OVERFIT = 0.1
"""Ratio of training to validation error below which the agents overfit; that of small trees is a third or more
(docs/residual.md)."""


def _overfit_notes(errors: Float64[np.ndarray, "3"]) -> list[str]:
    """Return a note if agents of boosting fit the training rows so closely that nothing is left to learn together."""
    train, validation, _ = errors.tolist()
    if not train < _OVERFIT * validation:
        return []
    return [
        f"the agents' steps leave an error of {train:.3g} on training rows, and of {validation:.3g} on validation rows:"
        " boosting needs weak agents, such as its default (residual.agent, and agent at the sites)"
    ]


def _randomness_notes(result: LearningResult) -> list[str]:
    """Return the share of bins that randomized response has replaced, by agent."""
    notes = []
    for name, epsilon in zip(result.names, result.epsilons, strict=False):
        if epsilon:
            replaced = share_replaced(max(result.combination.levels_of(name)), epsilon)
            notes.append(
                f"{name}: {replaced:.0%} of its bins are not the true ones (randomized response, eps {epsilon:g} a"
                " column); the error is larger for it"
            )
    return notes


def _improvement_notes(outcome: ResidualOutcome) -> list[str]:
    """Name the agents without which the error is notably lower, by more than chance explains."""
    result, influence = outcome.result, influence_in(outcome)
    error = influence.with_all
    if error is None or result.without is None:
        return []
    harm = result.without.harm[:, kind_of(result)]
    better = [
        site
        for site, raised in zip(result.names, harm.tolist(), strict=True)
        if raised > NOTABLE * error and influence.without[site] < (1 - NOTABLE) * error
    ]
    remedy = "look at its data" + ("" if outcome.rules.robust else " (residual.robust)")
    if outcome.rules.algorithm == "average":  # an honest site whose columns tell nothing raises the error of a mean
        remedy = "an average counts all sites alike: leave it out, or set another residual.algorithm"
    return [
        f"{site}: without it the error would be {influence.without[site]:.4g} instead of {error:.4g}; {remedy}"
        for site in better
    ]


_GAP = 0.25
"""Entities that one site alone does not know, as a share of the common ones, from which on the report names it."""


def _gap(outcome: ResidualOutcome) -> str:
    """Return the end of a sentence: the site that alone lacks many entities, and what the others would gain."""
    enrolment, alignment = outcome.enrolment, outcome.enrolment.alignment
    site, gain = max(alignment.gains.items(), key=lambda each: each[1], default=(CENTER, 0))
    if gain < _GAP * alignment.n:
        return ""
    text = f"; {gain} of them only {site or 'the fusion center'} does not know"
    if site == enrolment.holder or len(alignment.rows) < 3:
        return text
    text += f": without {site}, {alignment.n + gain} are common in place of {alignment.n}"
    influence, remedy = influence_in(outcome), "leave it out if these rows are worth more than its columns"
    if influence.with_all is not None and site in influence.without:
        with_all, without = influence.with_all, influence.without[site]
        text += f" (by the same rows, its columns bring the error from {without:.4g} to {with_all:.4g})"
        remedy = remedy if with_all < without else "leave it out"
    return f"{text}; {remedy}"


def _entity_notes(outcome: ResidualOutcome) -> list[str]:
    alignment, notes = outcome.enrolment.alignment, []
    if alignment.n_lost:
        notes.append(
            f"{alignment.n_lost} of {alignment.n_distinct} entities are not known everywhere and were left out"
            + _gap(outcome)
        )
    if outcome.rules.keep and not alignment.named:  # a scenario's rows are in order
        notes.append("entities were matched by row number: is it the same at every site? (else set id)")
    if alignment.kinds:
        kinds = "; ".join(f"{site or 'the fusion center'}: {kind}" for site, kind in alignment.kinds.items())
        notes.append(f"entities are named by numbers at some and by text at others ({kinds}): is one 012 and one 12?")
    return notes
