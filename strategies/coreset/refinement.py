"""Rounds that move the centers: fair Lloyd on sums over all rows (docs/coreset-reference.md, "Refinement").

Each round sends centers and prices. The sites answer with whole numbers of their rows at each center, and with rounded
sums of these rows. The center holds synthetic rows, drawn from the points, and rakes their weights to these numbers.
From synthetic rows it computes fair prices, and the change of a cluster's mean with the prices; from the sums it
computes the distance of this mean from that of the true rows. The plain centers move by Lloyd's algorithm in the same
rounds, so that the price of fairness compares centers of the same effort.

The first rounds move two sets of centers: those of the points, and the same with one center at the farthest point.
Whether a few rows far out are worth a center does not follow from the points, but from the cost of all rows, which the
sums give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from jaxtyping import Float64, Int64

from numerics.coreset.fairness.assignment import Assignment, fair_assignment
from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.clustering import Clustering
from numerics.coreset.fairness.dual import WARM
from numerics.coreset.fairness.price_response import soft_shares
from numerics.coreset.fairness.seeding import ascending
from numerics.coreset.reduction import reduce
from numerics.coreset.synthetic_rows import SyntheticRows, draw_rows
from numerics.coreset.weighted_points import WeightedPoints
from numerics.shared.distances import squared_distances
from numerics.shared.threads import single_threaded
from protocols.coreset.payloads import Moments, Refine
from protocols.wire.payload import PayloadError
from strategies.conversation import Check, Conversation, in_step
from strategies.coreset.exact_assignment import SILENT
from strategies.coreset.outcome import CoresetOutcome
from strategies.coreset.pooled_coreset import PooledCoreset
from strategies.coreset.sums import ATTEMPTS, sum_answers
from strategies.errors import FusionError
from strategies.secure_aggregation import CheckOf, Masking

TRIED = 5
"""Rounds after which the cheaper of two sets of centers goes on alone; in a short refinement, half of the rounds."""
STILL = 0.01
"""Largest step of any center, in units of the columns, after which the rounds end."""
SOFTNESS = (WARM, 0.03, 0.1)
"""Temperatures of the tables of a round with one set of centers: separate rounding of their sums averages out."""
_FEWEST_SYNTHETIC = 0.5
"""Fewest synthetic rows with which a center moves. A center that stays with a few rows far out serves no others."""
_COMPARED = 2
"""Last rounds whose costs are compared."""
_MOST_SYNTHETIC, _MOST_TRIED = 2000, 500
"""Most synthetic rows (unless there are more points), and most points to choose the center that moves far."""
_ROUNDING = 1e-6
"""Largest relative rounding error of sums over many rows."""


@dataclass(frozen=True, eq=False)
class _Centers:
    """A set of centers that moves, in units of the columns about their mean.

    Attributes
    ----------
    fair, plain : ndarray
        ``(k, d)`` centers.
    prices : ndarray
        ``(H, k)`` prices at which the synthetic rows are fairly assigned to the fair centers.
    rows : SyntheticRows
        Synthetic rows with weights by the answers so far.
    costs : tuple of tuple of float
        By round, costs of all rows by the sums: at fair centers (the lower bound at these prices), and at plain ones.
    """

    fair: Float64[np.ndarray, "k d"]
    plain: Float64[np.ndarray, "k d"]
    prices: Float64[np.ndarray, "H k"]
    rows: SyntheticRows
    costs: tuple[tuple[float, float], ...] = ()

    def priced(self, bounds: Bounds) -> _Centers:
        """Return the centers with fair prices for their present places."""
        prices = self.rows.fair_prices(squared_distances(self.rows.x, self.fair), bounds, self.prices)
        return replace(self, prices=prices)

    def step_from(self, before: _Centers) -> float:
        """Return the largest step of a center in a column."""
        return float(max(np.abs(self.fair - before.fair).max(), np.abs(self.plain - before.plain).max()))


def refine_centers(
    outcome: CoresetOutcome,
    rounds: int,
    min_weight: int,
    min_sites: int,
    masking: tuple[Masking | None, Masking | None],
) -> Conversation[CoresetOutcome]:
    """Move fair and plain centers until they are still, in at most `rounds` rounds.

    Return the outcome with these centers, and with the points' assignment to them. With `masking`, one for each set of
    centers, the fusion center sees sums over sites only. A site that does not answer is left out of all further rounds.
    """
    everybody, tried = outcome.pool, min(TRIED, (rounds + 1) // 2)
    moves = _Moves(outcome, min_weight, min_sites)
    with single_threaded():
        starts = _starts(outcome)
    (pool, first), (other, far) = yield from in_step(
        *(moves.follow(everybody, start, tried, SOFTNESS[:1], own) for start, own in zip(starts, masking, strict=True))
    )
    # A site that does not answer one of the two asks of a round has answered neither.
    pool = pool.without({site: SILENT for site in sorted(pool.summaries) if site not in other.summaries})
    start = moves.cheaper(first, far)
    pool, now = yield from moves.follow(pool, start, rounds - tried, SOFTNESS, masking[0])
    centers = replace(outcome.centers, fair=moves.in_data(now.fair), plain=moves.in_data(now.plain))
    gone = tuple(site for site in everybody.summaries if site not in pool.summaries)
    outcome = replace(outcome, pool=pool, centers=centers, lost=gone)
    return replace(outcome, clustering=_reassigned(outcome, everybody, now.prices))


def _starts(outcome: CoresetOutcome) -> list[_Centers]:
    """Return the points' centers; and the fair ones with one of them at the farthest point, also as plain centers."""
    pool, clustering, scale = outcome.pool, outcome.clustering, outcome.centers.scale
    points = outcome.points
    points = replace(points, points=pool.in_units(points), movement=points.movement / scale**2)
    bounds, plain = pool.bounds(outcome.fairness), (outcome.centers.plain - pool.units[0]) / scale
    rows, few = draw_rows(points, _MOST_SYNTHETIC, np.random.default_rng(0)), points
    if len(points.weights) > _MOST_TRIED:
        locations = max(1, _MOST_TRIED // bounds.n_groups)
        few = reduce(points, locations, np.random.default_rng(0), np.ones(len(scale)))[0]
    near = clustering.assignment.prices  # prices of similar centers: a start that saves seconds and changes no cost
    far = _with_farthest(points, clustering.centers, lambda centers: _assigned(few, centers, bounds, near).cost)
    return [
        _Centers(clustering.centers, plain, clustering.assignment.prices, rows).priced(bounds),
        _Centers(far, far, _assigned(few, far, bounds).prices, rows).priced(bounds),
    ]


def _with_farthest(
    points: WeightedPoints, centers: Float64[np.ndarray, "k d"], cost: Callable[[Float64[np.ndarray, "k d"]], float]
) -> Float64[np.ndarray, "k d"]:
    """Return the centers with one of them at the point farthest from all: the one whose move costs least."""
    far = points.points[squared_distances(points.points, centers).min(axis=1).argmax()]
    place = np.arange(len(centers))[:, np.newaxis]
    moved = [np.where(place == each, far, centers) for each in range(len(centers))]
    return moved[ascending([cost(each) for each in moved])[0]]


@dataclass(frozen=True, eq=False)
class _Moves:
    """Common input of all rounds: the outcome before them, with the units of the columns, and limits."""

    outcome: CoresetOutcome
    min_weight: int
    min_sites: int

    def in_data(self, centers: Float64[np.ndarray, "k d"]) -> Float64[np.ndarray, "k d"]:
        """Return centers in the units of the data."""
        return np.asarray(centers * self.outcome.centers.scale + self.outcome.pool.units[0])

    def follow(
        self, pool: PooledCoreset, now: _Centers, rounds: int, softness: Sequence[float], masking: Masking | None
    ) -> Conversation[tuple[PooledCoreset, _Centers]]:
        """Move centers in at most `rounds` rounds, each with a table of prices for each softness.

        Return the sites that have answered every round, and the centers.
        """
        for _ in range(rounds):
            ask = self._ask(pool, now, softness)
            zero = Moments(
                np.zeros(ask.shifts.shape, np.int64),
                np.zeros((len(softness), *now.fair.shape)),
                np.zeros(len(now.plain), np.int64),
                np.zeros(now.plain.shape),
            )
            asks = dict.fromkeys(pool.summaries, ask)
            total = yield from sum_answers(asks, zero, _check_moments(pool, ask), masking, attempts=ATTEMPTS)
            before, silent = now, sorted(set(pool.summaries) - set(total.sites))
            with single_threaded():
                if silent:
                    pool = pool.without(dict.fromkeys(silent, SILENT))
                    pool.check_enough(self.min_sites)
                    now = replace(now, rows=now.rows.scaled(pool.totals)).priced(pool.bounds(self.outcome.fairness))
                else:
                    now = self._moved(pool, now, softness, total.sum)
            if not silent and now.step_from(before) <= STILL:
                break
        return pool, now

    def cheaper(self, first: _Centers, far: _Centers) -> _Centers:
        """Return the cheaper centers, fair and plain apart: the far ones only if rounding does not explain the gain."""
        sets, n = (first, far), min(_COMPARED, len(first.costs), len(far.costs))
        if not n:
            return first
        pool, unit = self.outcome.pool, self.outcome.centers.scale
        rounding = sum(_step(pool, site, unit) ** 2 / 12 for site in pool.summaries)
        gain = np.mean(first.costs[-n:], axis=0) - np.mean(far.costs[-n:], axis=0)
        # A cost has twice the product of centers and rounded sums.
        squares = [[(each.fair**2 @ rounding).sum(), (each.plain**2 @ rounding).sum()] for each in sets]
        fair, plain = (gain > 2 * np.sqrt(np.max(squares, axis=0) / n)).tolist()
        return replace(sets[fair], plain=sets[plain].plain)

    def _ask(self, pool: PooledCoreset, now: _Centers, softness: Sequence[float]) -> Refine:
        return Refine(
            **asdict(self.outcome.centers.how),
            groups=pool.groups,
            centers=self.in_data(now.fair),
            scale=self.outcome.centers.scale,
            shifts=np.stack([now.prices] * len(softness)),
            temperatures=np.array(softness),
            plain=self.in_data(now.plain),
        )

    def _moved(self, pool: PooledCoreset, now: _Centers, softness: Sequence[float], answer: Moments) -> _Centers:
        """Move each center to the mean of its rows, as the sums say, or of its synthetic rows, if its rows are few."""
        bounds, rows = pool.bounds(self.outcome.fairness), now.rows
        n_rows = answer.whole.sum(axis=1)
        sizes, sums = n_rows.astype(np.float64), self._about_mean(n_rows, answer.sums)
        squared = squared_distances(rows.x, now.fair)
        shares = [soft_shares(squared, rows.groups, now.prices, each) for each in softness]
        for own, whole in zip(shares, answer.whole, strict=True):
            rows = rows.raked(own, whole.astype(np.float64))
        # The distance between means of true and of synthetic rows changes little with the prices.
        off = np.mean(
            [
                _quotient(total, size, self.min_weight, mean) - mean
                for total, size, mean in zip(sums, sizes, (rows.means(own)[0] for own in shares), strict=True)
            ],
            axis=0,
        )
        prices = rows.fair_prices(squared, bounds, now.prices)
        means, size = rows.means(soft_shares(squared, rows.groups, prices, WARM))
        fair = np.where((size >= _FEWEST_SYNTHETIC)[:, np.newaxis], means + off, now.fair)
        plain_rows = answer.plain_rows.astype(np.float64)
        plain_sums = self._about_mean(answer.plain_rows, answer.plain_sums)
        squares = self._squares(pool)
        paid = float((now.prices * answer.whole[0]).sum())
        costs = (
            squares + _cost(sums[0], sizes[0], now.fair) + paid,
            squares + _cost(plain_sums, plain_rows, now.plain),
        )
        return replace(
            now,
            fair=fair,
            plain=_quotient(plain_sums, plain_rows, self.min_weight, now.plain),
            rows=rows,
            costs=(*now.costs, costs),
        ).priced(bounds)

    def _about_mean(
        self, rows: Int64[np.ndarray, "... k"], sums: Float64[np.ndarray, "... k d"]
    ) -> Float64[np.ndarray, "... k d"]:
        """Return sums of coordinates about the columns' means."""
        return np.asarray(sums - rows[..., np.newaxis] * (self.outcome.pool.units[0] / self.outcome.centers.scale))

    def _squares(self, pool: PooledCoreset) -> float:
        """Return the sum of the squared distances of all rows from the columns' means: that of points, and movement."""
        scale = self.outcome.centers.scale
        x = (pool.union.points - self.outcome.pool.units[0]) / scale
        return float((pool.union.weights @ x**2 + pool.union.movement / scale**2).sum())


def _quotient(
    sums: Float64[np.ndarray, "k d"],
    rows: Float64[np.ndarray, "k"],
    least: int,
    otherwise: Float64[np.ndarray, "k d"],
) -> Float64[np.ndarray, "k d"]:
    """Return the means of the rows of centers with at least `least` rows, and `otherwise` for the other centers."""
    enough = (rows >= least)[:, np.newaxis]
    return np.asarray(np.where(enough, sums / np.maximum(rows, 1.0)[:, np.newaxis], otherwise))


def _cost(
    sums: Float64[np.ndarray, "k d"], rows: Float64[np.ndarray, "k"], centers: Float64[np.ndarray, "k d"]
) -> float:
    """Return the cost of rows with these sums at their centers, minus the sum of the rows' squares."""
    return float(rows @ (centers**2).sum(axis=1) - 2 * (sums * centers).sum())


def _reassigned(outcome: CoresetOutcome, everybody: PooledCoreset, prices: Float64[np.ndarray, "H k"]) -> Clustering:
    """Return the clustering of everybody's points by the moved centers."""
    mean, scale, points = everybody.units[0], outcome.centers.scale, outcome.points
    centers = (outcome.centers.fair - mean) / scale
    bounds = everybody.bounds(outcome.fairness)
    with single_threaded():
        assignment = _assigned(replace(points, points=(points.points - mean) / scale), centers, bounds, prices)
    return replace(outcome.clustering, centers=centers, assignment=assignment, cost=assignment.cost)


def _assigned(
    points: WeightedPoints,
    centers: Float64[np.ndarray, "k d"],
    bounds: Bounds,
    prices: Float64[np.ndarray, "H k"] | None = None,
) -> Assignment:
    squared = squared_distances(points.points, centers)
    try:
        return fair_assignment(squared, points.weights, points.groups, bounds, prices=prices)
    except ArithmeticError as error:
        raise FusionError(f"the points have no fair assignment to the centers that have moved: {error}") from error


# -- checks -----------------------------------------------------------------------------------------------------------


def _check_moments(pool: PooledCoreset, ask: Refine) -> CheckOf:
    """Return a check that rows are those of the sites, and that sums are possible by points and movement."""
    unit = ask.scale

    def check_of(sites_of: Mapping[str, tuple[str, ...]]) -> Check:
        def check(name: str, answer: Moments) -> None:
            sites = sites_of[name]
            totals = pool.rows_of(sites)
            n = int(totals.sum())
            own = answer.whole.shape == ask.shifts.shape and (answer.whole >= 0).all()
            if not own or (answer.whole.sum(axis=2) != totals).any():
                raise PayloadError(answer.title(), "whole", "are not the numbers of rows of the sites' points")
            plain = answer.plain_rows
            if plain.shape != (len(ask.plain),) or (plain < 0).any() or plain.sum() != n:
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
                # By Cauchy and Schwarz, no rows of the sites lie farther from their mean together. Every site rounds
                # every group's rows to whole numbers.
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
