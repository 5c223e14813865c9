"""Rounds that move the centers: fair Lloyd on sums over all rows (docs/coreset.md, "Refinement").

Each round sends centers and candidate prices. The sites answer with whole numbers of their rows at each center, and
with rounded sums of these rows. The center takes a Newton step of the prices, with the curvature that its points have;
a center whose rows are nearly fair moves to their mean. The plain centers move by Lloyd's algorithm in the same rounds,
so that the price of fairness compares centers of the same effort.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np
from jaxtyping import Bool, Float64

from numerics.coreset.fairness.assignment import fair_assignment
from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.clustering import Clustering
from numerics.coreset.fairness.dual import Pricing
from numerics.coreset.fairness.price_response import PriceResponse, price_points
from numerics.shared.distances import squared_distances
from numerics.shared.threads import single_threaded
from protocols.coreset.payloads import Moments, Refine
from protocols.wire.payload import PayloadError
from strategies.conversation import Check, Conversation
from strategies.coreset.exact_assignment import SILENT
from strategies.coreset.outcome import ClusterCenters, CoresetOutcome
from strategies.coreset.pooled_coreset import PooledCoreset
from strategies.coreset.sums import ATTEMPTS, sum_answers
from strategies.errors import FusionError
from strategies.secure_aggregation import CheckOf, Masking

UNFAIR = 0.05
"""Share of a center's rows that may be too many or too few of their groups; a center with more stays.

Without the limit, centers follow rows that fairness sends elsewhere, and the cost rises (adult, k = 10, 1000 rows)."""
STILL = 0.01
"""Largest step of any center, in units of the columns, after which the rounds end."""
_ROUNDING = 1e-6
"""Largest relative rounding error of sums over many rows."""


def refine_centers(
    outcome: CoresetOutcome, rounds: int, min_weight: int, min_sites: int, masking: Masking | None
) -> Conversation[tuple[CoresetOutcome, Float64[np.ndarray, "H k"]]]:
    """Move fair and plain centers until they are still, in so many rounds at most.

    Return the outcome with these centers, and prices to start from. With `masking`, the center sees sums over sites
    only. A site that does not answer is left out of all further rounds.
    """
    search = _search(outcome, outcome.clustering.assignment.prices)
    everybody = outcome.pool
    for _ in range(rounds):
        pool, centers = outcome.pool, outcome.centers
        shifts, temperatures = search.candidates()
        ask = Refine(
            **asdict(centers.how),
            groups=pool.groups,
            centers=centers.fair,
            scale=centers.scale,
            shifts=shifts,
            temperatures=temperatures,
            plain=centers.plain,
        )
        zero = Moments(
            np.zeros(shifts.shape, np.int64),
            np.zeros((len(shifts), *centers.fair.shape)),
            np.zeros(len(centers.plain), np.int64),
            np.zeros(centers.plain.shape),
        )
        check_of = _check_moments(pool, shifts, centers)
        total = yield from sum_answers(dict.fromkeys(pool.summaries, ask), zero, check_of, masking, attempts=ATTEMPTS)
        silent = sorted(set(pool.summaries) - set(total.sites))
        if silent:
            pool = pool.without(dict.fromkeys(silent, SILENT))
            pool.check_enough(min_sites)
            outcome = replace(outcome, pool=pool)
            search = _search(outcome, search.shift)
            continue
        sums = _responses(outcome, ask, total.sum)
        search.update(sums)
        adopted = next((each for each in sums if each.masses is search.masses), None)
        moves = np.zeros(len(centers.fair), bool)
        fair, plain = centers.fair, _plain(centers, total.sum, min_weight)
        if adopted is not None:
            moves = movable(adopted.masses, pool.bounds(outcome.fairness), min_weight, len(pool.summaries))
            fair = _moved(fair / centers.scale, adopted.sums, adopted.masses.sum(axis=0), moves) * centers.scale
            if moves.any():
                search.move()
        outcome = replace(outcome, centers=replace(centers, fair=fair, plain=plain))
        steps = np.concatenate([fair - centers.fair, plain - centers.plain]) / centers.scale
        if moves.all() and np.abs(steps).max() <= STILL:
            break
    lost = tuple(site for site in everybody.summaries if site not in outcome.pool.summaries)
    outcome = replace(outcome, lost=lost, clustering=_reassigned(outcome, everybody, search.shift))
    return outcome, _start(outcome, everybody, search.shift)


def _start(
    outcome: CoresetOutcome, everybody: PooledCoreset, prices: Float64[np.ndarray, "H k"]
) -> Float64[np.ndarray, "H k"]:
    """Return these prices or those of the points, whichever bound the cost of the points better.

    Prices of the rounds may be those of centers that have moved since, and so far off that no search recovers (adult,
    k = 10: 13.8 times the cost of pooled rows).
    """
    points, clustering, bounds = outcome.points, outcome.clustering, everybody.bounds(outcome.fairness)
    squared = squared_distances((points.points - everybody.units[0]) / outcome.centers.scale, clustering.centers)
    tried = [bounds.normalized(each) for each in (prices, clustering.assignment.prices)]
    with single_threaded():
        values = [price_points(squared, points.weights, points.groups, each, 1.0).exact for each in tried]
    return tried[int(np.argmax(values))]


def _search(outcome: CoresetOutcome, start: Float64[np.ndarray, "H k"]) -> Pricing:
    pool = outcome.pool
    scale = outcome.clustering.cost / max(1, int(pool.totals.sum()))
    k = len(outcome.centers.fair)
    return Pricing(pool.bounds(outcome.fairness), pool.totals, k, scale, start=start, gap=0.0, cools=False)


def _responses(outcome: CoresetOutcome, ask: Refine, total: Moments) -> list[PriceResponse]:
    """Return what the search for prices takes: numbers of the sites' rows, and the points' curvature.

    Its merit is not a cost, which no site sends, but how few rows are too many or too few of their groups.
    """
    points, bounds = outcome.points, outcome.pool.bounds(outcome.fairness)
    squared = squared_distances(points.points / ask.scale, ask.centers / ask.scale)
    responses = []
    with single_threaded():
        for whole, sums, *prices in zip(total.whole, total.sums, ask.shifts, ask.temperatures.tolist(), strict=True):
            masses = whole.astype(np.float64)
            own = price_points(squared, points.weights, points.groups, *prices)
            responses.append(PriceResponse(-float(_unfair(masses, bounds).sum()), masses, own.curvature, sums))
    return responses


def _reassigned(outcome: CoresetOutcome, everybody: PooledCoreset, prices: Float64[np.ndarray, "H k"]) -> Clustering:
    """Return the clustering of everybody's points with the centers where they are now."""
    mean, scale, points = everybody.units[0], outcome.centers.scale, outcome.points
    centers = (outcome.centers.fair - mean) / scale
    squared = squared_distances((points.points - mean) / scale, centers)
    bounds = everybody.bounds(outcome.fairness)
    with single_threaded():
        try:
            assignment = fair_assignment(squared, points.weights, points.groups, bounds, prices=prices)
        except ArithmeticError as error:
            raise FusionError(f"the points have no fair assignment to the centers that have moved: {error}") from error
    return replace(outcome.clustering, centers=centers, assignment=assignment, cost=assignment.cost)


def movable(masses: Float64[np.ndarray, "H k"], bounds: Bounds, min_weight: int, n_sites: int) -> Bool[np.ndarray, "k"]:
    """Return which centers may move: those of enough rows, hardly any of which are too many or too few of a group.

    Each site rounds its numbers to whole rows, so the sums are off by `sqrt(n_sites / 12)` in the standard deviation.
    Three times that counts as fair, too, but no more than `UNFAIR` of the rows once more: without this limit small
    centers follow the wrong rows (adult, k = 10: 18.6 times the cost of pooled rows).

    Examples
    --------
    >>> bounds = Bounds.of(np.array([0.5, 0.5]), alpha=1.0)
    >>> movable(np.array([[50.0, 60.0, 1.0], [52.0, 40.0, 1.0]]), bounds, min_weight=5, n_sites=3)
    array([ True, False, False])
    """
    size = masses.sum(axis=0)
    rounding = 3 * np.sqrt(n_sites / 12) * len(masses) / 2
    most = UNFAIR * size + np.minimum(rounding, UNFAIR * size)
    return np.asarray((size >= min_weight) & (_unfair(masses, bounds) <= most))


def _unfair(masses: Float64[np.ndarray, "H k"], bounds: Bounds) -> Float64[np.ndarray, "k"]:
    """Return how many rows of each center are too many or too few of their groups; the mean of columns that overlap."""
    columns = 1 if bounds.members is None else max(1, int(bounds.members.sum(axis=0).max()))
    return np.asarray(np.abs(bounds.excess(masses)).sum(axis=0) / (2 * columns))


def _moved(
    centers: Float64[np.ndarray, "k d"],
    sums: Float64[np.ndarray, "k d"],
    rows: Float64[np.ndarray, "k"],
    moves: Bool[np.ndarray, "k"],
) -> Float64[np.ndarray, "k d"]:
    """Return the centers, those that move at the mean of their rows."""
    return np.asarray(np.where(moves[:, np.newaxis], sums / np.where(moves, rows, 1.0)[:, np.newaxis], centers))


def _plain(centers: ClusterCenters, total: Moments, min_weight: int) -> Float64[np.ndarray, "c d"]:
    """Return the plain centers after one step of Lloyd's algorithm."""
    rows = total.plain_rows.astype(np.float64)
    return np.asarray(_moved(centers.plain / centers.scale, total.plain_sums, rows, rows >= min_weight) * centers.scale)


# -- checks -----------------------------------------------------------------------------------------------------------


def _check_moments(pool: PooledCoreset, shifts: Float64[np.ndarray, "m H k"], centers: ClusterCenters) -> CheckOf:
    """Return what checks that rows are those of the sites, and sums possible by their points and movement."""
    unit = centers.scale

    def check_of(sites_of: Mapping[str, tuple[str, ...]]) -> Check:
        def check(name: str, answer: Moments) -> None:
            sites = sites_of[name]
            totals = pool.rows_of(sites)
            n = int(totals.sum())
            own = answer.whole.shape == shifts.shape and (answer.whole >= 0).all()
            if not own or (answer.whole.sum(axis=2) != totals).any():
                raise PayloadError(answer.title(), "whole", "are not the numbers of rows of the sites' points")
            plain = answer.plain_rows
            if plain.shape != (len(centers.plain),) or (plain < 0).any() or plain.sum() != n:
                raise PayloadError(answer.title(), "plain_rows", "are not the rows of the sites' points")
            mean, squares = _moments(pool, sites, unit)
            # A site rounds to its own `min_weight` standard deviations, and sends no lighter point.
            step = sum(_step(pool, site, unit) for site in sites)
            slack = step / 2 + _ROUNDING * (1 + n * (np.abs(mean) + np.sqrt(squares / n)))
            for field, rows, sums in (
                ("sums", answer.whole.sum(axis=1), answer.sums),
                ("plain_sums", plain[np.newaxis], answer.plain_sums[np.newaxis]),
            ):
                if sums.shape != (*rows.shape, len(unit)):
                    raise PayloadError(answer.title(), field, f"expected the shape {(*rows.shape, len(unit))}")
                far = np.abs(sums - rows[..., np.newaxis] * mean)
                # Cauchy and Schwarz: no rows of the sites lie farther from their mean together. Every group's rows at a
                # site are rounded to whole ones.
                most = rows[..., np.newaxis] + len(totals) * len(sites)
                whole = np.abs(sums.sum(axis=1) - n * mean) > rows.shape[1] * slack
                if (far > np.sqrt(most * squares) + slack).any() or whole.any():
                    raise PayloadError(
                        answer.title(), field, "are not sums of rows with these points and this movement"
                    )

        return check

    return check_of


def _moments(
    pool: PooledCoreset, sites: Sequence[str], unit: Float64[np.ndarray, "d"]
) -> tuple[Float64[np.ndarray, "d"], Float64[np.ndarray, "d"]]:
    """Return the mean of the sites' rows, and the sum of their squared distances from it, in each column."""
    own = [pool.summaries[site] for site in sites]
    points, weights = np.concatenate([each.points for each in own]), np.concatenate([each.weights for each in own])
    mean = np.average(points, axis=0, weights=weights)
    squares = weights @ (points - mean) ** 2 + sum(each.movement for each in own)
    return mean / unit, np.asarray(squares / unit**2)


def _step(pool: PooledCoreset, site: str, unit: Float64[np.ndarray, "d"]) -> Float64[np.ndarray, "d"]:
    """Return the largest step to which a site may round its sums."""
    summary = pool.summaries[site]
    return np.asarray(summary.weights.min() * np.sqrt(_moments(pool, (site,), unit)[1] / summary.weights.sum()))
