"""Exact fair assignment of all rows to given centers, by prices (docs/coreset.md, "Exact assignment").

The fusion center sends prices, one for every group at every center. The sites answer with sums over their rows: the
number of rows of each group at each center at these prices, and their cost. The sums show how to change the prices, and
give a lower bound of the cost of every fair assignment of all rows.
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
from protocols.coreset.payloads import LARGEST_SUM, Counted, Masses, Moments, Price, Settle, Settled
from protocols.wire.payload import PayloadError
from strategies.conversation import Check, Conversation, Tell
from strategies.coreset.outcome import ClusterCenters, CoresetOutcome
from strategies.coreset.pooled_coreset import PooledCoreset

_PATIENCE = 10
"""Number of rounds without better prices after which the search ends."""
ATTEMPTS = 2
"""Number of times that a site gets the same ask before it is left out: in many rounds, one answer may be late."""
SILENT = "left out: it did not answer while all rows were priced"
"""Reason why a site is left out."""
_ROUNDING = 1e-6
"""Largest relative rounding error of sums over many rows."""


@dataclass(frozen=True, eq=False)
class _BestPrices:
    """The best prices so far, and the assignment of every site's rows at these prices.

    Attributes
    ----------
    shift : ndarray
        ``(H, k)`` prices.
    masses : dict[str, ndarray]
        ``(H, k)`` numbers of rows, by site.
    bound : float
        Lower bound of the cost of every fair assignment of all rows.
    gain : float
        Increase of the bound that better prices are expected to bring.
    """

    shift: Float64[np.ndarray, "H k"]
    masses: dict[str, Float64[np.ndarray, "H k"]]
    bound: float
    gain: float = np.inf


def assign_exactly(
    outcome: CoresetOutcome, start: Float64[np.ndarray, "H k"], gap: float, most: int, min_sites: int
) -> Conversation[CoresetOutcome]:
    """Search prices within `gap` of the best, in at most `most` rounds; then ask the sites to assign every row.

    `start` are the first prices.
    """
    pool, best = yield from _search_prices(outcome, start, gap, most, min_sites)
    lost = tuple(site for site in outcome.pool.summaries if site not in pool.summaries)
    outcome = replace(outcome, pool=pool, lost=(*outcome.lost, *lost))
    by_site = np.stack([best.masses[site] for site in pool.summaries])
    targets = whole_targets(by_site.sum(axis=0), pool.bounds(outcome.balance), pool.totals)
    centers = outcome.centers
    asks = {
        site: Settle(
            **asdict(centers.how),
            groups=pool.groups,
            centers=centers.fair,
            plain=centers.plain,
            scale=centers.scale,
            shift=best.shift,
            targets=target,
        )
        for site, target in zip(pool.summaries, share_out(targets, by_site), strict=True)
    }
    check = _check_settled({site: ask.targets.T for site, ask in asks.items()}, outcome.possible_costs())
    answers: dict[str, Settled] = yield Tell(asks, check=check, measure={"cost_lower": best.bound})
    counts = {site: answer.counts for site, answer in answers.items()}
    costs = {site: (answer.cost, answer.plain_cost) for site, answer in answers.items()}
    outcome = outcome.with_counts(counts, dict.fromkeys(counts, pool.groups), costs)
    # The bound is of all rows that were priced; it does not hold for fewer.
    return outcome if outcome.unconfirmed else replace(outcome, bound=best.bound, bound_gain=best.gain)


def _search_prices(
    outcome: CoresetOutcome, start: Float64[np.ndarray, "H k"], gap: float, most: int, min_sites: int
) -> Conversation[tuple[PooledCoreset, _BestPrices]]:
    """Search the best prices, round by round. If a site stops answering, the search goes on without its rows."""
    pool, upper_bound = outcome.pool, outcome.upper_bound
    while True:
        pricing = Pricing(
            pool.bounds(outcome.balance),
            pool.totals,
            len(outcome.centers.fair),
            outcome.clustering.cost / max(1, int(pool.totals.sum())),
            start=start,
            gap=gap,
        )
        best, silent, rounds = yield from _raise_bound(pricing, pool, outcome.centers, most, (1 - gap) * upper_bound)
        if best is not None and not silent:
            return pool, replace(best, gain=min(pricing.gap_estimate, upper_bound - best.bound))
        start, most, upper_bound = start if best is None else best.shift, max(1, most - rounds), np.inf
        pool = pool.without(dict.fromkeys(sorted(silent), SILENT))
        pool.check_enough(min_sites)


def _raise_bound(
    pricing: Pricing, pool: PooledCoreset, centers: ClusterCenters, most: int, enough: float
) -> Conversation[tuple[_BestPrices | None, set[str], int]]:
    """Send prices until they can gain little, until the bound is `enough`, or until a site does not answer.

    Return the best prices, the sites that did not answer the last round, and the number of rounds.
    """
    best: _BestPrices | None = None
    rounds = idle = 0
    while best is None or not (pricing.done or rounds >= most or pricing.bound >= enough or idle >= _PATIENCE):
        shifts, temperatures = pricing.candidates()
        ask = Price(
            **asdict(centers.how),
            groups=pool.groups,
            centers=centers.fair,
            scale=centers.scale,
            shifts=shifts,
            temperatures=temperatures,
        )
        measure = {} if best is None else {"cost_lower": best.bound, "gain_expected": pricing.gap_estimate}
        check = check_masses(pool, shifts)
        answers: dict[str, Masses] = {}
        for _ in range(ATTEMPTS):
            missing = [site for site in pool.summaries if site not in answers]
            if missing:
                answers |= yield Tell(dict.fromkeys(missing, ask), check=check, measure=measure)
                rounds += 1
        silent = set(pool.summaries) - set(answers)
        if silent:
            return best, silent, rounds
        # The pool's order does not depend on the sites' names, so neither do the sums.
        answers = {site: answers[site] for site in pool.summaries}
        sums = [sum_over_sites(answers, m) for m in range(len(shifts))]
        before = pricing.bound
        pricing.update(sums)
        idle = 0 if pricing.bound > before else idle + 1
        adopted = [m for m, each in enumerate(sums) if each.masses is pricing.masses]
        if adopted:  # otherwise none of these prices is better than the earlier ones
            masses = {site: answer.masses[adopted[0]] for site, answer in answers.items()}
            best = _BestPrices(pricing.shift, masses, pricing.bound)
        assert best is not None  # noqa: S101 - the first prices are always adopted
    return best, set(), rounds


def sum_over_sites(answers: Mapping[str, Masses], m: int) -> PriceResponse:
    """Add up the sites' answers to the m-th table of prices."""
    no_sums = np.zeros((0, 0))
    each = (
        PriceResponse(
            float(answer.exact[m]),
            float(answer.value[m]),
            answer.masses[m],
            answer.curvature[m],
            answer.sums[m] if isinstance(answer, Moments) else no_sums,
        )
        for answer in answers.values()
    )
    return reduce(add, each)


# -- checks -----------------------------------------------------------------------------------------------------------


def check_masses(pool: PooledCoreset, shifts: Float64[np.ndarray, "m H k"]) -> Check:
    """Return the check that masses are those of the site's rows, and that sums are not too large."""
    totals = pool.totals_by_site

    def check(site: str, answer: Masses) -> None:
        if answer.masses.shape != shifts.shape:
            raise PayloadError(
                answer.title(), "masses", f"expected the shape {shifts.shape}, got {answer.masses.shape}"
            )
        rows = answer.masses.sum(axis=2)
        if (answer.masses < 0).any() or (np.abs(rows - totals[site]) > _ROUNDING * (1 + totals[site])).any():
            raise PayloadError(answer.title(), "masses", "do not sum to the numbers of rows of the site's points")
        largest = max(np.abs(each).max() for each in (answer.exact, answer.value, answer.curvature))
        if largest > LARGEST_SUM:
            raise PayloadError(answer.title(), "value", f"expected sums up to {LARGEST_SUM:g}")

    return check


def check_counts(expected: Mapping[str, Int64[np.ndarray, "k h"]]) -> Check:
    """Return a check that a site assigned its rows as the ask demands; `expected` has the numbers of rows, by site."""

    def check(site: str, answer: Counted) -> None:
        if not np.array_equal(answer.counts, expected[site]):
            raise PayloadError(answer.title(), "counts", "are not the numbers of rows that the ask demands")

    return check


def _check_settled(
    expected: Mapping[str, Int64[np.ndarray, "k h"]], costs: Mapping[str, Float64[np.ndarray, "2 2"]]
) -> Check:
    """Return the check of `check_counts`, and that the costs are possible (`CoresetOutcome.possible_costs`)."""
    check_counts_of = check_counts(expected)

    def check(site: str, answer: Settled) -> None:
        check_counts_of(site, answer)
        for field, (low, high) in zip(("cost", "plain_cost"), costs[site].tolist(), strict=True):
            if not low <= getattr(answer, field) <= high:
                raise PayloadError(answer.title(), field, "is not a cost of rows with these points and this movement")

    return check
