"""Exact fair assignment of all rows to given centers, by prices (docs/coreset.md, "Exact assignment").

The fusion center sends prices, one for every group at every center. The sites answer with sums over their rows: the
number of rows of each group at each center at these prices, and their cost. The sums show how to change the prices, and
give a lower bound of the cost of every fair assignment of all rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np
from jaxtyping import Float64, Int64

from numerics.coreset.fairness.dual import Pricing
from numerics.coreset.fairness.price_response import PriceResponse, price_points
from numerics.coreset.fairness.rounding import corrected, corrections_by_site, whole_targets
from numerics.shared.distances import squared_distances
from numerics.shared.threads import single_threaded
from protocols.coreset.payloads import ClusterCosts, ClusterCounts, Masses, Price, Settle
from protocols.wire.payload import PayloadError
from strategies.conversation import Check, Conversation
from strategies.coreset.outcome import ClusterCenters, CoresetOutcome
from strategies.coreset.pooled_coreset import PooledCoreset
from strategies.coreset.sums import ATTEMPTS, sum_answers
from strategies.secure_aggregation import CheckOf, Masking

_PATIENCE = 10
"""Number of rounds without better prices after which the search ends."""
SILENT = "left out: it did not answer while all rows were priced"
"""Reason why a site is left out."""
_ROUNDING = 1e-6
"""Largest relative rounding error of sums over many rows."""


@dataclass(frozen=True, eq=False)
class BestPrices:
    """The best prices so far, and the assignment of all rows at these prices.

    Attributes
    ----------
    shift : ndarray
        ``(H, k)`` prices.
    temperature : float
        Their softness.
    masses : ndarray
        ``(H, k)`` softened numbers of rows.
    whole : ndarray
        ``(H, k)`` numbers of rows, rounded by each site.
    by_site : dict[str, ndarray]
        The same of each site, where answers are not masked.
    bound : float
        Lower bound of the cost of every fair assignment of all rows.
    gain : float
        Increase of the bound that better prices are expected to bring.
    """

    shift: Float64[np.ndarray, "H k"]
    temperature: float
    masses: Float64[np.ndarray, "H k"]
    whole: Int64[np.ndarray, "H k"]
    by_site: dict[str, Int64[np.ndarray, "H k"]]
    bound: float
    gain: float = np.inf

    def targets(self, outcome: CoresetOutcome) -> Int64[np.ndarray, "H k"]:
        """Return the whole, fair numbers of rows that the sites assign."""
        return whole_targets(self.masses, outcome.pool.bounds(outcome.fairness), outcome.pool.totals)


def search_prices(
    outcome: CoresetOutcome, gap: float, most: int, min_sites: int, masking: Masking | None
) -> Conversation[tuple[CoresetOutcome, BestPrices]]:
    """Search prices within `gap` of the best, in at most `most` rounds; return the outcome without silent sites, too.

    The first prices are those of the points. Those that are fair for the synthetic rows of refinement need fewer rounds
    but end with larger gaps (adult, k = 10, two draws: .2 and .5 % instead of .1 %). With `masking`, the center sees
    sums over sites only.
    """
    pool, best = yield from _search_prices(outcome, gap, most, min_sites, masking)
    lost = tuple(site for site in outcome.pool.summaries if site not in pool.summaries)
    return replace(outcome, pool=pool, lost=(*outcome.lost, *lost)), best


def settle_rows(outcome: CoresetOutcome, best: BestPrices, masking: Masking | None) -> Conversation[CoresetOutcome]:
    """Ask the sites to assign every row at the best prices, and return the outcome with counts, costs and bound."""
    pool, centers, sites = outcome.pool, outcome.centers, tuple(outcome.pool.summaries)
    targets = best.targets(outcome)
    corrections = corrections_by_site(targets - best.whole, _likely_masses(outcome, best))
    asks = {
        site: Settle(
            **asdict(centers.how),
            groups=pool.groups,
            centers=centers.fair,
            plain=centers.plain,
            scale=centers.scale,
            shift=best.shift,
            temperature=best.temperature,
            sites=sites,
            corrections=corrections,
        )
        for site in sites
    }
    zero = ClusterCosts(np.zeros(targets.T.shape, np.int64), 0.0, 0.0)
    measure = {"cost_lower": best.bound}
    expected = {
        site: corrected(best.by_site[site], own) for site, own in zip(sites, corrections, strict=True) if best.by_site
    }
    total = yield from sum_answers(asks, zero, _check_settled(outcome, expected), masking, measure=measure)
    sums = total.sum
    counted = tuple(site for site in sites if site in total.sites)
    if sums.cost < sums.plain_cost:  # rows at their nearest fair center do not cost more than in fair clusters
        outcome = replace(outcome, centers=replace(centers, plain=centers.fair))
    plain_cost = min(sums.cost, sums.plain_cost)
    outcome = replace(outcome, total=sums.counts, counted=counted, cost=sums.cost, plain_cost=plain_cost)
    # The bound holds for all priced rows together, not for fewer.
    return outcome if outcome.unconfirmed else replace(outcome, bound=best.bound, bound_gain=best.gain)


def _likely_masses(outcome: CoresetOutcome, best: BestPrices) -> Float64[np.ndarray, "S H k"]:
    """Estimate the masses of each site's rows by those of its points."""
    pool, centers = outcome.pool, outcome.centers
    squared = squared_distances(pool.union.points / centers.scale, centers.fair / centers.scale)
    with single_threaded():
        responses = [
            price_points(
                squared[place], pool.union.weights[place], pool.union.groups[place], best.shift, best.temperature
            )
            for place in pool.slices().values()
        ]
    return np.stack([each.masses for each in responses])


def _search_prices(
    outcome: CoresetOutcome, gap: float, most: int, min_sites: int, masking: Masking | None
) -> Conversation[tuple[PooledCoreset, BestPrices]]:
    """Search the best prices, round by round. If a site stops answering, the search goes on without its rows."""
    pool, upper_bound, start = outcome.pool, outcome.upper_bound, outcome.clustering.assignment.prices
    while True:
        pricing = Pricing(
            pool.bounds(outcome.fairness),
            pool.totals,
            len(outcome.centers.fair),
            outcome.clustering.cost / max(1, int(pool.totals.sum())),
            start=start,
            gap=gap,
        )
        enough = (1 - gap) * upper_bound
        best, silent, rounds = yield from _raise_bound(pricing, pool, outcome.centers, most, enough, masking)
        if best is not None and not silent:
            return pool, replace(best, gain=min(pricing.gap_estimate, upper_bound - best.bound))
        start, most, upper_bound = start if best is None else best.shift, max(1, most - rounds), np.inf
        pool = pool.without(dict.fromkeys(sorted(silent), SILENT))
        pool.check_enough(min_sites)


def _raise_bound(
    pricing: Pricing,
    pool: PooledCoreset,
    centers: ClusterCenters,
    most: int,
    enough: float,
    masking: Masking | None,
) -> Conversation[tuple[BestPrices | None, set[str], int]]:
    """Send prices until they can gain little, until the bound is `enough`, or until a site does not answer.

    Return the best prices, the sites that did not answer the last round, and the number of rounds.
    """
    best: BestPrices | None = None
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
        asks = dict.fromkeys(pool.summaries, ask)
        check_of = _check_masses(pool, shifts)
        total = yield from sum_answers(asks, _no_masses(shifts), check_of, masking, attempts=ATTEMPTS, measure=measure)
        rounds += 1
        silent = set(pool.summaries) - set(total.sites)
        if silent:
            return best, silent, rounds
        sums = _responses(total.sum)
        before = pricing.bound
        pricing.update(sums)
        idle = 0 if pricing.bound > before else idle + 1
        adopted = [m for m, each in enumerate(sums) if each.masses is pricing.masses]
        for m in adopted:  # otherwise none of these prices is better than the earlier ones
            by_site = {site: answer.whole[m] for site, answer in total.answers.items()}
            own = total.sum.whole[m], by_site
            best = BestPrices(pricing.shift, float(temperatures[m]), pricing.masses, *own, pricing.bound)
        assert best is not None  # noqa: S101 - the first prices are always adopted
    return best, set(), rounds


def _no_masses(shifts: Float64[np.ndarray, "m H k"]) -> Masses:
    """Return the answer of a site without rows."""
    m, H, k = shifts.shape
    return Masses(np.zeros(m), np.zeros((m, H, k)), np.zeros((m, H, k, k)), np.zeros((m, H, k), np.int64))


def _responses(total: Masses) -> list[PriceResponse]:
    """Return the sums at each table of prices."""
    parts = zip(total.exact.tolist(), total.masses, total.curvature, strict=True)
    return [PriceResponse(*each, np.zeros((0, 0))) for each in parts]


# -- checks -----------------------------------------------------------------------------------------------------------


def _check_masses(pool: PooledCoreset, shifts: Float64[np.ndarray, "m H k"]) -> CheckOf:
    """Return a check that masses are those of the sites' rows."""

    def check_of(sites_of: Mapping[str, tuple[str, ...]]) -> Check:
        totals = {name: pool.rows_of(sites) for name, sites in sites_of.items()}

        def check(name: str, answer: Masses) -> None:
            if answer.masses.shape != shifts.shape:
                raise PayloadError(
                    answer.title(), "masses", f"expected the shape {shifts.shape}, got {answer.masses.shape}"
                )
            off = np.abs(answer.masses.sum(axis=2) - totals[name])
            if (answer.masses < 0).any() or (off > _ROUNDING * (1 + totals[name])).any():
                raise PayloadError(answer.title(), "masses", "do not sum to the numbers of rows of the site's points")
            if (answer.whole < 0).any() or (answer.whole.sum(axis=2) != totals[name]).any():
                raise PayloadError(answer.title(), "whole", "are not the numbers of rows of the site's points")

        return check

    return check_of


def check_counts(expected: Mapping[str, Int64[np.ndarray, "k h"]]) -> Check:
    """Return a check that a site assigned its rows as the ask demands; `expected` has the numbers of rows, by site."""

    def check(site: str, answer: ClusterCounts) -> None:
        if not np.array_equal(answer.counts, expected[site]):
            raise PayloadError(answer.title(), "counts", "are not the numbers of rows that the ask demands")

    return check


def _check_settled(outcome: CoresetOutcome, expected: Mapping[str, Int64[np.ndarray, "H k"]]) -> CheckOf:
    """Return a check of counts, and of costs against `CoresetOutcome.possible_costs`; a sum must count all rows."""
    pool, costs = outcome.pool, outcome.possible_costs()

    def check_of(sites_of: Mapping[str, tuple[str, ...]]) -> Check:
        def check(name: str, answer: ClusterCosts) -> None:
            totals, wanted = pool.rows_of(sites_of[name]), expected.get(name, answer.counts.T)
            if not np.array_equal(answer.counts, wanted.T):
                raise PayloadError(answer.title(), "counts", "are not the numbers of rows that the ask demands")
            if (answer.counts < 0).any() or (answer.counts.sum(axis=0) != totals).any():
                raise PayloadError(answer.title(), "counts", "are not the numbers of rows of the sites' points")
            low, high = np.sum([costs[site] for site in sites_of[name]], axis=0).T
            for field, least, most in zip(("cost", "plain_cost"), low.tolist(), high.tolist(), strict=True):
                if not least <= getattr(answer, field) <= most:
                    raise PayloadError(
                        answer.title(), field, "is not a cost of rows with these points and this movement"
                    )

        return check

    return check_of
