"""The fair assignment of all rows, priced over the federation (docs/coreset.md, "Exact assignment").

Centers are given. Prices go down, one for every colour at every center; sums come up: how many rows of each colour
would go where, and what that would cost. They tell the fusion center how to change the prices, and bound from below
what any fair assignment of all rows costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import reduce
from operator import add

import numpy as np
from jaxtyping import Float64, Int64

from numerics.coreset.fairness.dual import Priced, Pricing
from numerics.coreset.fairness.rounding import share_out, whole_targets
from protocols.coreset.payloads import LARGEST_SUM, Counted, Masses, Price, Settle
from protocols.wire.payload import PayloadError
from strategies.conversation import Check, Conversation, Tell
from strategies.coreset.federation import Federation
from strategies.coreset.report import Outcome, Plan

_PATIENCE = 10
"""Rounds of prices without a better one after which the search ends."""
_ATTEMPTS = 2
"""How often a site is asked the same before it is left out: of many rounds one may well be late."""
_ROUNDING = 1e-6
"""Relative error at which sums over many rows still count as what they should be."""


@dataclass(frozen=True, eq=False)
class _Found:
    """Prices, and where the rows of every site would go at them.

    Attributes
    ----------
    shift : ndarray
        ``(H, k)``.
    masses : dict[str, ndarray]
        By site, ``(H, k)`` rows.
    bound : float
        What any fair assignment of all rows costs at least.
    gain : float
        By how much better prices are expected to raise the bound.
    """

    shift: Float64[np.ndarray, "H k"]
    masses: dict[str, Float64[np.ndarray, "H k"]]
    bound: float
    gain: float = np.inf


def settled(outcome: Outcome, gap: float, most: int, min_sites: int) -> Conversation[Outcome]:
    """Price the rows until the prices are within `gap` of the best, `most` rounds at most; then settle every row."""
    federation, found = yield from _prices(outcome, gap, most, min_sites)
    lost = tuple(site for site in outcome.federation.shown if site not in federation.shown)
    outcome = replace(outcome, federation=federation, lost=lost)
    by_site = np.stack([found.masses[site] for site in federation.shown])
    targets = whole_targets(by_site.sum(axis=0), federation.bounds(outcome.balance), federation.totals)
    plan = outcome.plan
    asks = {
        site: Settle(
            **asdict(plan.how),
            colours=federation.colours,
            centers=plan.centers,
            plain=plan.plain,
            scale=plan.scale,
            shift=found.shift,
            targets=target,
        )
        for site, target in zip(federation.shown, share_out(targets, by_site), strict=True)
    }
    check = check_counted({site: ask.targets.T for site, ask in asks.items()})
    counted: dict[str, Counted] = yield Tell(asks, check=check, measure={"cost_lower": found.bound})
    concluded = outcome.concluded(counted, dict.fromkeys(counted, federation.colours))
    # Of fewer rows than were priced, the bound says nothing.
    return concluded if concluded.unconfirmed else replace(concluded, bound=found.bound, bound_gain=found.gain)


def _prices(outcome: Outcome, gap: float, most: int, min_sites: int) -> Conversation[tuple[Federation, _Found]]:
    """Rounds of prices. A site that no longer answers is left out, and the others' rows are priced on from there."""
    federation, start = outcome.federation, outcome.clustering.assignment.prices
    # As their points are assigned, all rows cost so much at most: near to that, no price can gain more.
    dearest = outcome.clustering.cost + outcome.movement
    while True:
        pricing = Pricing(
            federation.bounds(outcome.balance),
            federation.totals,
            len(outcome.plan.centers),
            outcome.clustering.cost / max(1, int(federation.totals.sum())),
            start=start,
            gap=gap,
        )
        found, gone, rounds = yield from _climb(pricing, federation, outcome.plan, most, (1 - gap) * dearest)
        if found is not None and not gone:
            return federation, replace(found, gain=min(pricing.gap_estimate, dearest - found.bound))
        start, most, dearest = start if found is None else found.shift, max(1, most - rounds), np.inf
        why = "left out: it did not answer while all rows were priced"
        federation = federation.without(dict.fromkeys(sorted(gone), why))
        federation.check_enough(min_sites)


def _climb(
    pricing: Pricing, federation: Federation, plan: Plan, most: int, enough: float
) -> Conversation[tuple[_Found | None, set[str], int]]:
    """Rounds of prices that all sites answer, until little is to be gained or the bound is `enough`.

    Returns what was found, which sites did not answer the last round, and the number of rounds.
    """
    found: _Found | None = None
    rounds = idle = 0
    while found is None or not (pricing.done or rounds >= most or pricing.bound >= enough or idle >= _PATIENCE):
        shifts, temperatures = pricing.candidates()
        ask = Price(
            **asdict(plan.how),
            colours=federation.colours,
            centers=plan.centers,
            scale=plan.scale,
            shifts=shifts,
            temperatures=temperatures,
        )
        measure = {} if found is None else {"cost_lower": found.bound, "gain_expected": pricing.gap_estimate}
        check = _check_masses(federation, shifts)
        answers: dict[str, Masses] = {}
        for _ in range(_ATTEMPTS):
            missing = [site for site in federation.shown if site not in answers]
            if missing:
                answers |= yield Tell(dict.fromkeys(missing, ask), check=check, measure=measure)
                rounds += 1
        gone = set(federation.shown) - set(answers)
        if gone:
            return found, gone, rounds
        # In the federation's order: sums must not depend on what the sites are called.
        answers = {site: answers[site] for site in federation.shown}
        sums = [_summed(answers, m) for m in range(len(shifts))]
        before = pricing.bound
        pricing.update(sums)
        idle = 0 if pricing.bound > before else idle + 1
        chosen = [m for m, each in enumerate(sums) if each.masses is pricing.masses]
        if chosen:  # else none of these prices is better than those before
            masses = {site: answer.masses[chosen[0]] for site, answer in answers.items()}
            found = _Found(pricing.shift, masses, pricing.bound)
        assert found is not None, "the first prices are taken, whatever they are"
    return found, set(), rounds


def _summed(answers: Mapping[str, Masses], m: int) -> Priced:
    """What all sites' rows come to at the m-th table of prices."""
    each = (
        Priced(float(answer.exact[m]), float(answer.value[m]), answer.masses[m], answer.curvature[m])
        for answer in answers.values()
    )
    return reduce(add, each)


# -- checks -----------------------------------------------------------------------------------------------------------


def _check_masses(federation: Federation, shifts: Float64[np.ndarray, "m H k"]) -> Check:
    totals = federation.totals_by_site

    def check(site: str, answer: Masses) -> None:
        if answer.masses.shape != shifts.shape:
            raise PayloadError(
                answer.title(), "masses", f"expected the shape {shifts.shape}, got {answer.masses.shape}"
            )
        told = answer.masses.sum(axis=2)
        if (answer.masses < 0).any() or (np.abs(told - totals[site]) > _ROUNDING * (1 + totals[site])).any():
            raise PayloadError(answer.title(), "masses", "are not those of the rows behind the site's points")
        largest = max(np.abs(each).max() for each in (answer.exact, answer.value, answer.curvature))
        if largest > LARGEST_SUM:
            raise PayloadError(answer.title(), "value", f"expected sums up to {LARGEST_SUM:g}")

    return check


def check_counted(told: Mapping[str, Int64[np.ndarray, "k h"]]) -> Check:
    """That a site has done as it was told: by site, rows of each of its colours in each cluster."""

    def check(site: str, answer: Counted) -> None:
        if not np.array_equal(answer.counts, told[site]):
            raise PayloadError(answer.title(), "counts", "are not the numbers of rows that the site was told")
        if not (0 <= answer.cost <= LARGEST_SUM and 0 <= answer.plain_cost <= LARGEST_SUM):
            raise PayloadError(answer.title(), "cost", f"expected sums of squares from 0 to {LARGEST_SUM:g}")

    return check
