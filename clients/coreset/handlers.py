"""A site's answers in fair clustering: it summarises its rows by weighted points, and assigns every row to a cluster.

The site remembers which point stands for which row. A site that has lost its memory finds the same points again.
"""

from __future__ import annotations

from dataclasses import fields
from functools import partial

import numpy as np
from jaxtyping import Float64, Int, Int64, UInt8

from clients.coreset.rows import SummarisedRows, count, follow_points, meet_targets, price_rows, write_clusters
from clients.digest import digest_of
from clients.dispatch import answers
from clients.site import Site
from numerics.coreset.fairness.apportionment import PointMasses
from numerics.coreset.grouped_rows import GroupedRows
from numerics.shared.threads import single_threaded
from protocols.coreset.payloads import (
    LARGEST,
    LARGEST_SUM,
    LEAST_TEMPERATURE,
    MOST_POINTS,
    MOST_PRICED,
    Assign,
    Construction,
    Counted,
    Masses,
    Price,
    Settle,
    Summarise,
    Summary,
)
from protocols.coreset.settings import Consents
from protocols.wire.faults import Fault, SiteFault

MOST_TABLES, MOST_TABLES_OF_A_RUN = 8, 2000
"""Tables of prices that a real site answers in one ask, and in a run."""
_POINT, _ROWS = "point", "rows"
"""Names in the memory: the point of every row, and the digest of the first rows."""


# -- the coreset ------------------------------------------------------------------------------------------------------


@answers(Summarise)
def sum_up(ask: Summarise, site: Site) -> Summary:
    """Answer the coreset of all rows, and remember which point stands for which row."""
    _check_construction(ask)
    _commit_to(site, "construction", _construction(ask))
    first = _first_rows(site.shard)
    with single_threaded():
        summary, point = _summary(ask, site, first)
    site.memory[_POINT], site.memory[_ROWS] = _packed(point), first
    return summary


def _commit_to(site: Site, name: str, *values: object) -> None:
    """Refuse an ask outside the run's one lane, or with other values than an earlier ask (clients/commitments.py)."""
    if not site.commitments.allows_lane(site.lane):
        raise SiteFault(Fault.MALFORMED_ASK, "a site's own rows are asked for once in a run, in one lane")
    if not site.commitments.keeps(name, *values):
        raise SiteFault(Fault.MALFORMED_ASK, f"another {name} than in an earlier ask of this run")


def _check_construction(ask: Construction) -> None:
    sound = (
        1 <= ask.size <= MOST_POINTS
        and ask.construction in ("bico", "kmeans")
        and 0 <= ask.projection <= 10_000
        and ask.min_weight >= 1
    )
    if not sound:
        raise SiteFault(Fault.MALFORMED_ASK, "the construction of the coreset is out of range")


def _summary(ask: Construction, site: Site, first: Int64[np.ndarray, "eight"]) -> tuple[Summary, Int[np.ndarray, "n"]]:
    """Return the coreset, and its point of each row (-1: none); `first` is the digest of the first rows."""
    # Brings numba, which no other ask needs: in deployment every ask is a process of its own.
    from numerics.coreset.reduction import merge_light
    from numerics.coreset.summary import summarise
    from numerics.coreset.weighted_points import spread

    rows: GroupedRows = site.shard
    # Own rows are summarised in one way, whatever the seed: points of several ways would overlap.
    rng = np.random.default_rng(first.tolist()) if site.config.get("protocol") else site.rng_of(first.tolist())
    shard = summarise(
        rows,
        ask.size,
        construction=ask.construction,
        projection=ask.projection,
        scale=ask.scaled,
        rng=rng,
    )
    unit = spread(shard.coreset)[1] if ask.scaled else np.ones(len(rows.features))
    coreset, index, n_merged, n_withheld = merge_light(
        shard.coreset, _min_weight(ask, site), unit, shard.movement_by_group
    )
    if not len(coreset.weights):
        raise SiteFault(Fault.RARE_COLOURS)
    groups, group = np.unique(coreset.groups, return_inverse=True)
    summary = Summary(
        features=rows.features,
        colours=tuple(shard.group_names[place] for place in groups),
        points=coreset.points,
        weights=coreset.weights,
        colour=group.astype(np.int64),
        movement=coreset.movement,
        n_rows=shard.n_rows,
        withheld=n_withheld,
        merged=n_merged,
    )
    return summary, index[shard.point]


def _min_weight(ask: Construction, site: Site) -> int:
    """Return the fewest rows of a point: the larger of the ask's number and the site's own."""
    return max(ask.min_weight, site.consents.number("min-weight", Consents.min_weight))


def _construction(ask: Construction) -> tuple[int | str, ...]:
    """Return the settings that the points depend on."""
    return tuple(getattr(ask, field.name) for field in fields(Construction))


def _first_rows(rows: GroupedRows) -> Int64[np.ndarray, "eight"]:
    """Return a digest of the first block: if a file is changed in place, these rows or their number mostly change."""
    first = next(rows.blocks())
    return np.array(digest_of((first.x, first.group)), np.int64)


def _packed(point: Int[np.ndarray, "n"]) -> UInt8[np.ndarray, "n width"]:
    """Return numbers from -1 on in as few bytes as they need."""
    width = 2 if point.max(initial=0) < 2**16 - 1 else 4
    return point.astype(f"<u{width}").view(np.uint8).reshape(-1, width)


def _unpacked(packed: UInt8[np.ndarray, "n width"]) -> Int[np.ndarray, "n"]:
    """Return the numbers that `_packed` packed."""
    width = packed.shape[1]
    point = np.ascontiguousarray(packed).view(f"<u{width}")[:, 0].astype(np.int64)
    return np.where(point == 2 ** (8 * width) - 1, -1, point)


# -- every row's cluster ----------------------------------------------------------------------------------------------


@answers(Assign)
def assign(ask: Assign, site: Site) -> Counted:
    """Assign every row to the center of its point, or to one of those that share the point."""
    rows = _rows(ask, site)
    _commit_to(site, "assignment", ask)
    weights = np.bincount(rows.point[rows.point >= 0])
    valid = (ask.point >= 0) & (ask.point < len(weights)) & (ask.center >= 0) & (ask.center < len(ask.centers))
    if not valid.all():
        raise SiteFault(Fault.MALFORMED_ASK, "a share names a point or a center that does not exist")
    totals = np.bincount(ask.point, ask.mass, minlength=len(weights)).astype(np.int64)
    if (ask.mass <= 0).any() or not np.array_equal(totals, weights):
        raise SiteFault(Fault.DATA_CHANGED, "the shares do not add up to the weights of the points")
    with single_threaded():
        labels = follow_points(rows, PointMasses(ask.point, ask.center, ask.mass))
        return _conclude(rows, labels, ask.plain, site)


@answers(Price)
def price(ask: Price, site: Site) -> Masses:
    """Answer sums over the rows at each table of prices."""
    if not site.consents.allows("allow-prices"):
        raise SiteFault(Fault.PRICES_NOT_ALLOWED)
    rows = _rows(ask, site)
    _check_tables(ask, rows, site)
    sound = (
        ask.shifts.shape[1:] == (len(ask.colours), len(ask.centers))
        and len(ask.shifts) > 0
        and np.abs(ask.shifts).max() <= LARGEST_SUM
        and (ask.temperatures >= LEAST_TEMPERATURE).all()
    )
    if not sound:
        raise SiteFault(Fault.MALFORMED_ASK, "the prices do not fit these groups and centers")
    with single_threaded():
        sums = price_rows(rows, ask.shifts, ask.temperatures)
    return Masses(
        exact=np.array([each.exact for each in sums]),
        value=np.array([each.value for each in sums]),
        masses=np.stack([each.masses for each in sums]),
        curvature=np.stack([each.curvature for each in sums]),
    )


@answers(Settle)
def settle(ask: Settle, site: Site) -> Counted:
    """Assign every row to a center, with the agreed number of rows of each group at each center."""
    rows = _rows(ask, site)
    _commit_to(site, "assignment", ask)
    expected = (len(ask.colours), len(ask.centers))
    known = ask.targets.shape == expected and ask.shift.shape == expected
    if not known or ask.targets.min() < 0 or ask.targets.max() > len(rows.point):
        raise SiteFault(Fault.MALFORMED_ASK, "the targets do not fit these groups and centers")
    with single_threaded():
        labels = meet_targets(rows, ask.shift, ask.targets)
        return _conclude(rows, labels, ask.plain, site)


def _check_tables(ask: Price, rows: SummarisedRows, site: Site) -> None:
    """Refuse so many centers or tables that hardly a row is left for each: counts would reveal the rows."""
    k, limit = len(ask.centers), site.policy.private_limit
    if (
        k > limit(MOST_PRICED)
        or k * _min_weight(ask, site) > limit(len(rows.point))
        or len(ask.shifts) > limit(MOST_TABLES)
        or site.commitments.count("tables", len(ask.shifts)) > MOST_TABLES_OF_A_RUN
    ):
        raise SiteFault(Fault.MALFORMED_ASK, "more centers or tables of prices than this site answers")


def _rows(ask: Assign | Price | Settle, site: Site) -> SummarisedRows:
    """Return the site's rows with the point of each, which is found again if it is not in the memory."""
    shard: GroupedRows = site.shard
    if ask.centers.shape[1] != len(shard.features) or not len(ask.centers) or not ask.colours:
        raise SiteFault(Fault.MALFORMED_ASK, "the centers do not fit the site's columns")
    if np.abs(ask.centers).max() > LARGEST or ask.scale.min() < 1 / LARGEST or ask.scale.max() > LARGEST:
        raise SiteFault(Fault.MALFORMED_ASK, "a center or a unit is out of range")
    _check_construction(ask)
    _commit_to(site, "construction", _construction(ask))
    _commit_to(site, "clustering", ask.centers, ask.scale)
    first = _first_rows(shard)
    if _POINT in site.memory:
        if not np.array_equal(site.memory[_ROWS], first):
            raise SiteFault(Fault.DATA_CHANGED, "the first rows have changed")
        point = _unpacked(site.memory[_POINT])
    else:
        with single_threaded():
            point = _summary(ask, site, first)[1]
    return SummarisedRows(shard, point, ask.colours, ask.centers / ask.scale, ask.scale)


def _conclude(
    rows: SummarisedRows, labels: Int[np.ndarray, "n"], plain: Float64[np.ndarray, "c d"], site: Site
) -> Counted:
    """Write the clusters of the site's own rows, and return their counts and costs."""
    if not len(plain) or np.abs(plain).max() > LARGEST:
        raise SiteFault(Fault.MALFORMED_ASK, "a center of the plain clustering is out of range")
    counts, cost, plain_cost = count(rows, labels, plain / rows.scale)
    if site.config.get("protocol"):
        site.write("clusters.csv", partial(write_clusters, rows, labels))
    return Counted(counts, cost, plain_cost)
