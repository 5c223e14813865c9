"""A site's answers in coreset: it summarizes its rows in weighted points, and assigns every row to a cluster.

The site's memory holds the point of each row. A site that has lost its memory computes the same points again.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64, Int, Int64, UInt8

from clients.coreset.alone import compare_alone
from clients.coreset.refinement import center_sums
from clients.coreset.rows import (
    SummarizedRows,
    cost_of_rows,
    count_rows,
    exchange_rows,
    follow_points,
    meet_targets,
    price_rows,
    write_clusters,
)
from clients.coreset.shard import BUNDLES
from clients.digest import digest_of
from clients.dispatch import answers
from clients.site import Site
from numerics.coreset.fairness.apportionment import PointMasses
from numerics.coreset.fairness.rounding import corrected, whole_rows
from numerics.coreset.grouped_rows import GroupedRows
from numerics.shared.threads import single_threaded
from protocols.coreset.payloads import (
    LARGEST,
    LARGEST_SUM,
    LEAST_TEMPERATURE,
    MOST_POINTS,
    MOST_REFINED,
    Assign,
    ClusterCosts,
    ClusterCounts,
    ClusteringAsk,
    Compare,
    Construction,
    CostsAlone,
    Masses,
    Moments,
    Price,
    Refine,
    Settle,
    Summarize,
    Summary,
)
from protocols.coreset.settings import MOST_PRICED, Consents
from protocols.wire.faults import Fault, SiteFault

if TYPE_CHECKING:
    from numerics.coreset.microaggregation import Microaggregation
    from numerics.coreset.weighted_points import WeightedPoints

MOST_TABLES, MOST_TABLES_OF_A_RUN = 8, 2000
"""Largest numbers of tables of prices that a real site answers in one ask, and in a run."""
MOST_MOVES, MOST_MOVED_TABLES = 2 * MOST_REFINED, 3
"""Largest number of asks of `Refine` in a run (those for two sets of centers, or repeated), and of tables in one."""
_POINT, _ROWS = "point", "rows"
"""Keys of the memory: the point of every row, and the digest of the first rows."""


# -- coreset ----------------------------------------------------------------------------------------------------------


@answers(Summarize)
def summarize_rows(ask: Summarize, site: Site) -> Summary:
    """Answer with the coreset of all rows, and keep the point of each row in the memory."""
    _check_construction(ask)
    _commit_to(site, "construction", _construction(ask))
    first = _first_rows(site.shard)
    with single_threaded():
        summary, point = _summarize(ask, site, first)
    site.memory[_POINT], site.memory[_ROWS] = _pack(point), first
    return summary


def _commit_to(site: Site, name: str, *values: object) -> None:
    """Refuse an ask in a second lane, or one whose values differ from an earlier ask's (clients/commitments.py)."""
    if not site.commitments.allows_lane(site.lane):
        raise SiteFault(Fault.MALFORMED_ASK, "a site summarizes its own rows in one lane of a run only")
    site.commitments.hold(name, *values)


def _check_construction(ask: Construction) -> None:
    in_range = (
        1 <= ask.size <= MOST_POINTS
        and ask.construction in ("bico", "kmeans")
        and 0 <= ask.projection <= 10_000
        and ask.min_weight >= 1
    )
    if not in_range:
        raise SiteFault(Fault.MALFORMED_ASK, "the construction of the coreset is out of range")


def _summarize(
    ask: Construction, site: Site, first: Int64[np.ndarray, "eight"]
) -> tuple[Summary, Int[np.ndarray, "n"]]:
    """Return the coreset, and the point of each row (-1 for none); `first` is the digest of the first rows."""
    # This imports numba, which no other ask needs; in deployment every ask is a process of its own.
    from numerics.coreset.microaggregation import microaggregate
    from numerics.coreset.summary import summarize
    from numerics.coreset.weighted_points import spread

    rows: GroupedRows = site.shard
    own = bool(site.config.get("protocol"))
    # Own rows get the same points with every seed: points of two runs together would reveal more.
    rng = np.random.default_rng(first.tolist()) if own else site.rng_of(first.tolist())
    how = replace(ask, size=BUNDLES, construction="bico", projection=0, scaled=True) if own else ask
    shard = summarize(
        rows,
        how.size,
        construction=how.construction,
        projection=how.projection,
        scale=how.scaled,
        rng=rng,
    )
    unit = spread(shard.coreset)[1] if how.scaled else np.ones(len(rows.features))
    least = _min_weight(ask, site)
    fixed = _min_weight_of_bundles(least, site) if own else least
    together = fixed if site.has_private_rows else 0
    coreset, index, n_merged, n_withheld = microaggregate(
        shard.coreset, fixed, unit, shard.movement_by_group, least, together
    )
    if own and len(coreset.weights):
        coreset, more = _join(coreset, ask, least, unit if ask.scaled else np.ones(len(unit)), rng)
        index, n_merged = np.where(index >= 0, more.point[index], -1), n_merged + more.n_merged
    if not len(coreset.weights):
        raise SiteFault(Fault.RARE_GROUPS)
    groups, group = np.unique(coreset.groups, return_inverse=True)
    summary = Summary(
        features=rows.features,
        groups=tuple(shard.group_names[place] for place in groups),
        points=coreset.points,
        weights=coreset.weights,
        group=group.astype(np.int64),
        movement=coreset.movement,
        n_rows=shard.n_rows,
        withheld=n_withheld,
        merged=n_merged,
    )
    return summary, _narrow(index)[shard.point]


def _join(
    bundles: WeightedPoints, ask: Construction, least: int, unit: Float64[np.ndarray, "d"], rng: np.random.Generator
) -> tuple[WeightedPoints, Microaggregation]:
    """Join bundles of rows, which are the same in all runs, to the points that an ask demands."""
    from numerics.coreset.microaggregation import microaggregate
    from numerics.coreset.reduction import reduce
    from numerics.coreset.summary import LLOYD_PASSES

    passes = LLOYD_PASSES if ask.construction == "kmeans" else 0
    joined, place = reduce(bundles, ask.size, rng, unit, projection=ask.projection, passes=passes)
    merged = microaggregate(joined, least, unit)
    return merged.coreset, merged._replace(point=merged.point[place])


def _min_weight(ask: Construction, site: Site) -> int:
    """Return the fewest rows of a point: the larger of the ask's number and the site's own."""
    return max(ask.min_weight, _own_min_weight(site))


def _own_min_weight(site: Site) -> int:
    return site.consents.number("min-weight", Consents.min_weight)


def _min_weight_of_bundles(least: int, site: Site) -> int:
    """Return the fewest rows of a bundle: the site's own number, whatever the run asks; in a simulation perhaps 1."""
    own = _own_min_weight(site)
    return own if site.has_private_rows else min(least, max(own, Consents.min_weight))


def _construction(ask: Construction) -> tuple[int | str, ...]:
    """Return the settings that the points depend on."""
    return tuple(getattr(ask, field.name) for field in fields(Construction))


def _first_rows(rows: GroupedRows) -> Int64[np.ndarray, "eight"]:
    """Return a digest of the first block: if a file changes, these rows or the number of rows usually change, too."""
    first = next(rows.blocks())
    return np.array(digest_of((first.x, first.group)), np.int64)


def _narrow(numbers: Int64[np.ndarray, "m"]) -> Int[np.ndarray, "m"]:
    """Return numbers from -1 up in two bytes each, or in four where there are many.

    Examples
    --------
    >>> _narrow(np.array([-1, 3])).dtype, _narrow(np.array([2**15])).dtype
    (dtype('int16'), dtype('int32'))
    """
    # Two bytes must also hold the largest number plus 2 (`SummarizedRows.weights`).
    return numbers.astype("<i2" if numbers.max(initial=-1) < 2**15 - 2 else "<i4")


def _pack(point: Int[np.ndarray, "n"]) -> UInt8[np.ndarray, "n width"]:
    """Return the bytes of narrow numbers."""
    return point.view(np.uint8).reshape(-1, point.itemsize)


def _unpack(packed: UInt8[np.ndarray, "n width"]) -> Int[np.ndarray, "n"]:
    """Return the numbers that `_pack` packed; they take no memory of their own."""
    return np.ascontiguousarray(packed).view(f"<i{packed.shape[1]}")[:, 0]


# -- clusters of rows -------------------------------------------------------------------------------------------------


@answers(Assign)
def assign(ask: Assign, site: Site) -> ClusterCounts:
    """Assign as many rows of each group to every center as the ask's points have there, at little cost."""
    rows = _rows(ask, site)
    _commit_to(site, "clustering", ask.centers, ask.scale)
    _commit_to(site, "assignment", ask)
    _check_shares(ask, rows)
    with single_threaded():
        labels = exchange_rows(rows, follow_points(rows, PointMasses(ask.point, ask.center, ask.mass)))
        return ClusterCounts(_conclude(rows, labels, site))


@answers(Compare)
def compare(ask: Compare, site: Site) -> CostsAlone:
    """Answer with the cost of rows left out of the site's own fair clusters, and of the joint ones."""
    if not len(ask.point):
        _check_consent(site)
    rows = _rows(ask, site)
    _commit_to(site, "clustering", ask.centers, ask.scale)
    _commit_to(site, "comparison", ask)
    k, shape = len(ask.centers), (len(ask.groups), len(ask.centers))
    if ask.sizes.shape != (k,) or ask.sizes.min() < 0 or ask.shift.shape != shape or not 0 < ask.alpha <= 1:
        raise SiteFault(Fault.MALFORMED_ASK, "sizes, prices or alpha do not fit these groups and centers")
    if np.abs(ask.shift).max() > LARGEST_SUM:
        raise SiteFault(Fault.MALFORMED_ASK, "a price is out of range")
    if len(ask.point):
        _check_shares(ask, rows)
        if (np.bincount(ask.center, ask.mass, k) > ask.sizes).any():
            raise SiteFault(Fault.MALFORMED_ASK, "a cluster of all sites has fewer rows than this site's")
    # The same rows and folds in all runs.
    with single_threaded():
        return compare_alone(rows, ask, np.random.default_rng(_first_rows(site.shard).tolist()))


def _check_shares(ask: Assign, rows: SummarizedRows) -> None:
    """Refuse shares of the points that are not those of the site's rows."""
    weights = rows.weights()
    if not ((ask.point >= 0) & (ask.center >= 0) & (ask.center < len(ask.centers))).all():
        raise SiteFault(Fault.MALFORMED_ASK, "a share names a point or a center that does not exist")
    if ask.point.max(initial=0) >= max(1, len(weights)):
        raise SiteFault(Fault.DATA_CHANGED, "the shares name more points than there are")
    totals = np.bincount(ask.point, ask.mass, minlength=len(weights)).astype(np.int64)
    if (ask.mass <= 0).any() or not np.array_equal(totals, weights):
        raise SiteFault(Fault.DATA_CHANGED, "the shares do not add up to the weights of the points")


@answers(Price)
def price(ask: Price, site: Site) -> Masses:
    """Answer with sums over the rows for each table of prices."""
    _check_consent(site)
    rows = _rows(ask, site)
    _commit_to(site, "clustering", ask.centers, ask.scale)
    _check_tables(ask, rows, site)
    with single_threaded():
        sums = price_rows(rows, ask.shifts, ask.temperatures)
    return Masses(
        exact=np.array([each.exact for each in sums]),
        masses=np.stack([each.masses for each in sums]),
        curvature=np.stack([each.curvature for each in sums]),
        whole=np.stack([whole_rows(each.masses) for each in sums]),
    )


@answers(Refine)
def refine(ask: Refine, site: Site) -> Moments:
    """Answer with whole numbers of rows at each center for each table of prices, and with rounded sums of them."""
    _check_consent(site)
    rows = _rows(ask, site)
    _check_plain(ask.plain)
    limit = site.policy.private_limit
    if site.commitments.count("moves", 1) > limit(MOST_MOVES) or len(ask.shifts) > limit(MOST_MOVED_TABLES):
        raise SiteFault(Fault.MALFORMED_ASK, "more sets of centers than this site answers")
    _check_tables(ask, rows, site)
    with single_threaded():
        sums = center_sums(rows, ask.shifts, ask.temperatures, ask.plain / rows.scale, _min_weight(ask, site))
    return Moments(**sums._asdict())


@answers(Settle)
def settle(ask: Settle, site: Site) -> ClusterCosts:
    """Assign every row to a center, with its own number of rows of each group at each center as the ask corrects it."""
    _check_consent(site)
    rows = _rows(ask, site)
    _commit_to(site, "clustering", ask.centers, ask.scale)
    _commit_to(site, "assignment", ask)
    shape = (len(ask.groups), len(ask.centers))
    fits = (
        ask.shift.shape == shape
        and ask.corrections.shape == (len(ask.sites), *shape)
        and ask.sites.count(site.name) == 1
        and ask.temperature >= LEAST_TEMPERATURE
    )
    if not fits or np.abs(ask.shift).max() > LARGEST_SUM:
        raise SiteFault(Fault.MALFORMED_ASK, "prices or corrections do not fit these sites, groups and centers")
    corrections = ask.corrections[ask.sites.index(site.name)]
    if np.abs(corrections).max() > len(rows.point) or corrections.sum(axis=1).any():
        raise SiteFault(Fault.MALFORMED_ASK, "the corrections do not leave the numbers of rows of the groups")
    _check_plain(ask.plain)
    with single_threaded():
        [own] = price_rows(rows, ask.shift[np.newaxis], np.array([ask.temperature]))
        labels = meet_targets(rows, ask.shift, corrected(whole_rows(own.masses), corrections))
        cost, plain_cost = cost_of_rows(rows, labels, ask.plain / rows.scale)
        return ClusterCosts(_conclude(rows, labels, site), cost, plain_cost)


def _check_consent(site: Site) -> None:
    """Refuse prices, and the asks after them, without consent: their sums tell of single rows."""
    if not site.consents.allows("allow-prices"):
        raise SiteFault(Fault.PRICES_NOT_ALLOWED)


def _check_plain(plain: Float64[np.ndarray, "c d"]) -> None:
    if not len(plain) or np.abs(plain).max() > LARGEST:
        raise SiteFault(Fault.MALFORMED_ASK, "a center of the plain clustering is out of range")


def _check_tables(ask: Price, rows: SummarizedRows, site: Site) -> None:
    """Refuse so many centers that each has hardly a row, too many tables, and prices that do not fit the centers."""
    fits = (
        ask.shifts.shape[1:] == (len(ask.groups), len(ask.centers))
        and len(ask.shifts) > 0
        and np.abs(ask.shifts).max() <= LARGEST_SUM
        and (ask.temperatures >= LEAST_TEMPERATURE).all()
    )
    if not fits:
        raise SiteFault(Fault.MALFORMED_ASK, "the prices do not fit these groups and centers")
    k, limit = len(ask.centers), site.policy.private_limit
    n, least = len(rows.point), _min_weight(ask, site)
    if k * least > limit(n):
        raise SiteFault(Fault.FEW_ROWS_FOR_PRICES, f"{n} rows are fewer than {least} for each of {k} clusters")
    if (
        k > limit(MOST_PRICED)
        or len(ask.shifts) > limit(MOST_TABLES)
        or site.commitments.count("tables", len(ask.shifts)) > limit(MOST_TABLES_OF_A_RUN)
    ):
        raise SiteFault(Fault.MALFORMED_ASK, "more centers or tables of prices than this site answers")


def _rows(ask: ClusteringAsk, site: Site) -> SummarizedRows:
    """Return the site's rows with the point of each; compute the points again if the memory has lost them."""
    shard: GroupedRows = site.shard
    if ask.centers.shape[1] != len(shard.features) or not len(ask.centers) or not ask.groups:
        raise SiteFault(Fault.MALFORMED_ASK, "the centers do not fit the site's columns")
    if np.abs(ask.centers).max() > LARGEST or ask.scale.min() < 1 / LARGEST or ask.scale.max() > LARGEST:
        raise SiteFault(Fault.MALFORMED_ASK, "a center or a unit is out of range")
    _check_construction(ask)
    _commit_to(site, "construction", _construction(ask))
    first = _first_rows(shard)
    if _POINT in site.memory:
        if not np.array_equal(site.memory[_ROWS], first):
            raise SiteFault(Fault.DATA_CHANGED, "the first rows have changed")
        point = _unpack(site.memory[_POINT])
    else:
        with single_threaded():
            point = _summarize(ask, site, first)[1]
    return SummarizedRows(shard, point, ask.groups, ask.centers / ask.scale, ask.scale)


def _conclude(rows: SummarizedRows, labels: Int[np.ndarray, "n"], site: Site) -> Int64[np.ndarray, "k h"]:
    """Write the clusters of the site's own rows, and return their counts."""
    counts = count_rows(rows, labels)
    if site.config.get("protocol"):
        site.write("clusters.csv", partial(write_clusters, rows, labels))
        site.write_medians()
    return counts
