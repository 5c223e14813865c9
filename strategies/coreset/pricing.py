"""The fair assignment of all rows, priced over the federation (docs/coreset.md, "Exact assignment").

Centers are given. Prices go down, one for every colour at every center; sums come up: how many rows of each colour
would go where, and what that would cost. They tell the fusion center how to change the prices, and bound from below
what any fair assignment of all rows costs.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np
from jaxtyping import Float64, Int64

from numerics.fairness.dual import Priced, Pricing
from numerics.fairness.masses import share_out, whole_targets
from protocols.coreset import LARGEST, Counted, Masses, Price, Settle
from protocols.payload import PayloadError
from strategies.conversation import Check, Conversation, Tell
from strategies.coreset.federation import Federation
from strategies.coreset.report import Outcome
from strategies.roster import FusionError

logger = logging.getLogger("flwr")

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
    """

    shift: Float64[np.ndarray, "H k"]
    masses: dict[str, Float64[np.ndarray, "H k"]]
    bound: float


def settled(outcome: Outcome, gap: float, most: int) -> Conversation[Outcome]:
    """Price the rows until the prices are within `gap` of the best, `most` rounds at most; then settle every row."""
    start = outcome.clustering.assignment.prices
    federation, found = yield from _prices(outcome, start, gap, most)
    outcome = replace(outcome, federation=federation)
    by_site = np.stack([found.masses[site] for site in federation.shown])
    bounds = federation.bounds(outcome.balance)
    targets = whole_targets(by_site.sum(axis=0), bounds, federation.totals)
    shared = share_out(targets, by_site)
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
        for site, target in zip(federation.shown, shared, strict=True)
    }
    check = check_counted({site: ask.targets.T for site, ask in asks.items()})
    counted: dict[str, Counted] = yield Tell(asks, check=check, measure={"cost_lower": found.bound})
    concluded = outcome.concluded(counted, dict.fromkeys(counted, federation.colours))
    # Of fewer rows than were priced, the bound says nothing.
    return concluded if concluded.unconfirmed else replace(concluded, bound=found.bound)


def _prices(
    outcome: Outcome, start: Float64[np.ndarray, "H k"], gap: float, most: int
) -> Conversation[tuple[Federation, _Found]]:
    """Rounds of prices. A site that no longer answers is left out, and the others' rows are priced on from there."""
    federation, plan = outcome.federation, outcome.plan
    rounds = 0
    while True:
        pricing = Pricing(
            federation.bounds(outcome.balance),
            federation.totals,
            len(plan.centers),
            outcome.clustering.cost / max(1, int(federation.totals.sum())),
            start=start,
            gap=gap,
        )
        found: _Found | None = None
        gone: set[str] = set()
        while found is None or not (pricing.done or rounds >= most):
            shifts, temperatures = pricing.candidates()
            ask = Price(
                **asdict(plan.how),
                colours=federation.colours,
                centers=plan.centers,
                scale=plan.scale,
                shifts=shifts,
                temperatures=temperatures,
            )
            answers: dict[str, Masses] = yield Tell(
                dict.fromkeys(federation.shown, ask),
                check=_check_masses(federation, shifts),
                measure={} if found is None else {"cost_lower": found.bound, "gain_expected": pricing.gap_estimate},
            )
            rounds += 1
            gone = set(federation.shown) - set(answers)
            if gone:
                break
            # In the federation's order: sums must not depend on what the sites are called.
            answers = {site: answers[site] for site in federation.shown}
            sums = [_summed(answers, m) for m in range(len(shifts))]
            pricing.update(sums)
            chosen = [m for m, each in enumerate(sums) if each.masses is pricing.masses]
            if chosen:  # else none of these prices is better than those before
                masses = {site: answer.masses[chosen[0]] for site, answer in answers.items()}
                found = _Found(pricing.shift, masses, pricing.bound)
            assert found is not None, "the first prices are taken, whatever they are"
        if not gone and found is not None:
            return federation, found
        start = start if found is None else found.shift
        why = "left out: it did not answer while all rows were priced"
        federation = federation.without(dict.fromkeys(sorted(gone), why))
        if not federation.shown:
            raise FusionError("no site is left to price rows of")


def _summed(answers: Mapping[str, Masses], m: int) -> Priced:
    """What all sites' rows come to at the m-th table of prices."""
    each = answers.values()
    return Priced(
        exact=sum(answer.exact[m] for answer in each),
        value=sum(answer.value[m] for answer in each),
        masses=np.sum([answer.masses[m] for answer in each], axis=0),
        curvature=np.sum([answer.curvature[m] for answer in each], axis=0),
    )


# -- checks -----------------------------------------------------------------------------------------------------------


def _check_masses(federation: Federation, shifts: Float64[np.ndarray, "m H k"]) -> Check:
    totals = {site: _totals_of(federation, site) for site in federation.shown}

    def check(site: str, answer: Masses) -> None:
        if answer.masses.shape != shifts.shape:
            raise PayloadError(
                answer.title(), "masses", f"expected the shape {shifts.shape}, got {answer.masses.shape}"
            )
        told = answer.masses.sum(axis=2)
        if (answer.masses < 0).any() or (np.abs(told - totals[site]) > _ROUNDING * (1 + totals[site])).any():
            raise PayloadError(answer.title(), "masses", "are not those of the rows behind the site's points")
        largest = max(np.abs(each).max() for each in (answer.exact, answer.value, answer.curvature))
        if largest > LARGEST:
            raise PayloadError(answer.title(), "value", f"expected sums up to {LARGEST:g}")

    return check


def _totals_of(federation: Federation, site: str) -> Int64[np.ndarray, "H"]:
    """Rows of each of the federation's colours behind one site's points."""
    place = federation.slices()[site]
    union = federation.union
    counted = np.bincount(union.colours[place], union.weights[place], minlength=len(federation.colours))
    return counted.astype(np.int64)


def check_counted(told: Mapping[str, Int64[np.ndarray, "k h"]]) -> Check:
    """That a site has done as it was told: by site, rows of each of its colours in each cluster."""

    def check(site: str, answer: Counted) -> None:
        if not np.array_equal(answer.counts, told[site]):
            raise PayloadError(answer.title(), "counts", "are not the numbers of rows that the site was told")
        if not (0 <= answer.cost <= LARGEST and 0 <= answer.plain_cost <= LARGEST):
            raise PayloadError(answer.title(), "cost", f"expected sums of squares from 0 to {LARGEST:g}")

    return check
