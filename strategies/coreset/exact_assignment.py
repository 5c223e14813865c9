"""The fair assignment of all rows, by prices over the sites (docs/coreset.md, "Exact assignment").

Centers are given. The fusion center sends prices, one for every group at every center; the sites answer with sums: how
many rows of each group would go where, and what that would cost. The sums show how to change the prices, and bound from
below what any fair assignment of all rows costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import reduce
from operator import add

import numpy as np
from jaxtyping import Float64, Int64

from numerics.coreset.fairness.dual import PriceResponse, Pricing
from numerics.coreset.fairness.rounding import share_out, whole_targets
from protocols.coreset.payloads import LARGEST_SUM, Counted, Masses, Price, Settle
from protocols.wire.payload import PayloadError
from strategies.conversation import Check, Conversation, Tell
from strategies.coreset.outcome import ClusterCenters, CoresetOutcome
from strategies.coreset.pooled_coreset import PooledCoreset

_PATIENCE = 10
"""Rounds of prices without a better one after which the search ends."""
_ATTEMPTS = 2
"""How often a site is asked the same before it is left out: of many rounds one may well be late."""
_ROUNDING = 1e-6
"""Relative error at which sums over many rows still count as what they should be."""


@dataclass(frozen=True, eq=False)
class _BestPrices:
    """The best prices so far, and where the rows of every site would go at them.

    Attributes
    ----------
    shift : ndarray
        ``(H, k)`` prices.
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


def assign_exactly(outcome: CoresetOutcome, gap: float, most: int, min_sites: int) -> Conversation[CoresetOutcome]:
    """Search prices until they are within `gap` of the best, `most` rounds at most; then have every row assigned."""
    pool, best = yield from _search_prices(outcome, gap, most, min_sites)
    lost = tuple(site for site in outcome.pool.summaries if site not in pool.summaries)
    outcome = replace(outcome, pool=pool, lost=lost)
    by_site = np.stack([best.masses[site] for site in pool.summaries])
    targets = whole_targets(by_site.sum(axis=0), pool.bounds(outcome.balance), pool.totals)
    centers = outcome.centers
    asks = {
        site: Settle(
            **asdict(centers.how),
            colours=pool.groups,
            centers=centers.fair,
            plain=centers.plain,
            scale=centers.scale,
            shift=best.shift,
            targets=target,
        )
        for site, target in zip(pool.summaries, share_out(targets, by_site), strict=True)
    }
    check = check_counts({site: ask.targets.T for site, ask in asks.items()})
    answers: dict[str, Counted] = yield Tell(asks, check=check, measure={"cost_lower": best.bound})
    outcome = outcome.with_counts(answers, dict.fromkeys(answers, pool.groups))
    # Of fewer rows than were priced, the bound says nothing.
    return outcome if outcome.unconfirmed else replace(outcome, bound=best.bound, bound_gain=best.gain)


def _search_prices(
    outcome: CoresetOutcome, gap: float, most: int, min_sites: int
) -> Conversation[tuple[PooledCoreset, _BestPrices]]:
    """Ask for prices round by round. Without a site that no longer answers, the others' rows are priced on."""
    pool, start = outcome.pool, outcome.clustering.assignment.prices
    # As their points are assigned, all rows cost so much at most: near to that, no price can gain more.
    dearest = outcome.clustering.cost + outcome.movement
    while True:
        pricing = Pricing(
            pool.bounds(outcome.balance),
            pool.totals,
            len(outcome.centers.fair),
            outcome.clustering.cost / max(1, int(pool.totals.sum())),
            start=start,
            gap=gap,
        )
        best, silent, rounds = yield from _raise_bound(pricing, pool, outcome.centers, most, (1 - gap) * dearest)
        if best is not None and not silent:
            return pool, replace(best, gain=min(pricing.gap_estimate, dearest - best.bound))
        start, most, dearest = start if best is None else best.shift, max(1, most - rounds), np.inf
        reason = "left out: it did not answer while all rows were priced"
        pool = pool.without(dict.fromkeys(sorted(silent), reason))
        pool.check_enough(min_sites)


def _raise_bound(
    pricing: Pricing, pool: PooledCoreset, centers: ClusterCenters, most: int, enough: float
) -> Conversation[tuple[_BestPrices | None, set[str], int]]:
    """Ask for prices that all sites answer, until little is to be gained or the bound is `enough`.

    Returns the best prices, the sites that did not answer the last round, and the number of rounds.
    """
    best: _BestPrices | None = None
    rounds = idle = 0
    while best is None or not (pricing.done or rounds >= most or pricing.bound >= enough or idle >= _PATIENCE):
        shifts, temperatures = pricing.candidates()
        ask = Price(
            **asdict(centers.how),
            colours=pool.groups,
            centers=centers.fair,
            scale=centers.scale,
            shifts=shifts,
            temperatures=temperatures,
        )
        measure = {} if best is None else {"cost_lower": best.bound, "gain_expected": pricing.gap_estimate}
        check = _check_masses(pool, shifts)
        answers: dict[str, Masses] = {}
        for _ in range(_ATTEMPTS):
            missing = [site for site in pool.summaries if site not in answers]
            if missing:
                answers |= yield Tell(dict.fromkeys(missing, ask), check=check, measure=measure)
                rounds += 1
        silent = set(pool.summaries) - set(answers)
        if silent:
            return best, silent, rounds
        # In the pool's order: sums must not depend on what the sites are called.
        answers = {site: answers[site] for site in pool.summaries}
        sums = [_sum_over_sites(answers, m) for m in range(len(shifts))]
        before = pricing.bound
        pricing.update(sums)
        idle = 0 if pricing.bound > before else idle + 1
        adopted = [m for m, each in enumerate(sums) if each.masses is pricing.masses]
        if adopted:  # else none of these prices is better than those before
            masses = {site: answer.masses[adopted[0]] for site, answer in answers.items()}
            best = _BestPrices(pricing.shift, masses, pricing.bound)
        assert best is not None, "the first prices are adopted, whatever they are"
    return best, set(), rounds


def _sum_over_sites(answers: Mapping[str, Masses], m: int) -> PriceResponse:
    """Add up the sites' answers to the m-th table of prices."""
    each = (
        PriceResponse(float(answer.exact[m]), float(answer.value[m]), answer.masses[m], answer.curvature[m])
        for answer in answers.values()
    )
    return reduce(add, each)


# -- checks -----------------------------------------------------------------------------------------------------------


def _check_masses(pool: PooledCoreset, shifts: Float64[np.ndarray, "m H k"]) -> Check:
    totals = pool.totals_by_site

    def check(site: str, answer: Masses) -> None:
        if answer.masses.shape != shifts.shape:
            raise PayloadError(
                answer.title(), "masses", f"expected the shape {shifts.shape}, got {answer.masses.shape}"
            )
        rows = answer.masses.sum(axis=2)
        if (answer.masses < 0).any() or (np.abs(rows - totals[site]) > _ROUNDING * (1 + totals[site])).any():
            raise PayloadError(answer.title(), "masses", "are not those of the rows behind the site's points")
        largest = max(np.abs(each).max() for each in (answer.exact, answer.value, answer.curvature))
        if largest > LARGEST_SUM:
            raise PayloadError(answer.title(), "value", f"expected sums up to {LARGEST_SUM:g}")

    return check


def check_counts(expected: Mapping[str, Int64[np.ndarray, "k h"]]) -> Check:
    """Return a check that each site assigned the rows it was asked to; `expected`: by site, rows of each group."""

    def check(site: str, answer: Counted) -> None:
        if not np.array_equal(answer.counts, expected[site]):
            raise PayloadError(answer.title(), "counts", "are not the numbers of rows that the site was told")
        if not (0 <= answer.cost <= LARGEST_SUM and 0 <= answer.plain_cost <= LARGEST_SUM):
            raise PayloadError(answer.title(), "cost", f"expected sums of squares from 0 to {LARGEST_SUM:g}")

    return check
