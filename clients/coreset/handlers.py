"""A site in fair clustering: sums up its rows in weighted points, and puts every row where its point was put.

It remembers which point stands for which row; a site that has lost its memory finds the same points again.
"""

from __future__ import annotations

from dataclasses import fields
from functools import partial

import numpy as np
from jaxtyping import Float64, Int, Int64, UInt8

from clients.coreset.rows import Rows, count, follow_points, meet_targets, price_rows, write_clusters
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
"""Tables of prices that a real site answers in one ask, and in all."""
_GROUP, _ROWS = "group", "rows"


# -- the coreset ------------------------------------------------------------------------------------------------------


@answers(Summarise)
def sum_up(ask: Summarise, site: Site) -> Summary:
    """The coreset of all rows; which point stands for which is remembered."""
    _check_construction(ask)
    _hold_to(site, "construction", _construction(ask))
    first = _first_rows(site.shard)
    with single_threaded():
        summary, group = _summary(ask, site, first)
    site.memory[_GROUP], site.memory[_ROWS] = _packed(group), first
    return summary


def _hold_to(site: Site, name: str, *words: object) -> None:
    """Hold the fusion center to its word (clients/commitments.py); a scenario's rows are nobody's, and asked in any
    way.
    """
    if not site.commitments.allows_lane(site.lane):
        raise SiteFault(Fault.MALFORMED_ASK, "a party's own rows are asked for once in a run, in one lane")
    if not site.commitments.keeps(name, *words):
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
    """The coreset, and which of its points stands for each row (-1: none); `first` is the digest of the first rows."""
    # Brings numba, which no other ask needs: in deployment every ask is a process of its own.
    from numerics.coreset.reduction import merge_light
    from numerics.coreset.summary import summarise
    from numerics.coreset.weighted_points import spread

    points: GroupedRows = site.shard
    # Rows that are somebody's are summed up in one way, whatever the seed: points of several ways overlap.
    rng = np.random.default_rng(first.tolist()) if site.config.get("protocol") else site.rng_of(first.tolist())
    found = summarise(
        points,
        ask.size,
        construction=ask.construction,
        projection=ask.projection,
        scale=ask.scaled,
        rng=rng,
    )
    unit = spread(found.coreset)[1] if ask.scaled else np.ones(len(points.features))
    coreset, index, n_merged, n_withheld = merge_light(
        found.coreset, _min_weight(ask, site), unit, found.movement_by_group
    )
    if not len(coreset.weights):
        raise SiteFault(Fault.RARE_COLOURS)
    coloured, colour = np.unique(coreset.groups, return_inverse=True)
    summary = Summary(
        features=points.features,
        colours=tuple(found.group_names[place] for place in coloured),
        points=coreset.points,
        weights=coreset.weights,
        colour=colour.astype(np.int64),
        movement=coreset.movement,
        n_rows=found.n_rows,
        withheld=n_withheld,
        merged=n_merged,
    )
    return summary, index[found.point]


def _min_weight(ask: Construction, site: Site) -> int:
    """The larger of what is asked and what the site insists on."""
    return max(ask.min_weight, site.consents.number("min-weight", Consents.min_weight))


def _construction(ask: Construction) -> tuple[int | str, ...]:
    """What the points depend on."""
    return tuple(getattr(ask, field.name) for field in fields(Construction))


def _first_rows(points: GroupedRows) -> Int64[np.ndarray, "eight"]:
    """A digest of the first block: where a file is changed in place, these rows or their number mostly change, too."""
    first = next(points.blocks())
    return np.array(digest_of((first.x, first.group)), np.int64)


def _packed(group: Int[np.ndarray, "n"]) -> UInt8[np.ndarray, "n width"]:
    """Numbers from -1 on in as few bytes as they need."""
    width = 2 if group.max(initial=0) < 2**16 - 1 else 4
    return group.astype(f"<u{width}").view(np.uint8).reshape(-1, width)


def _unpacked(packed: UInt8[np.ndarray, "n width"]) -> Int[np.ndarray, "n"]:
    width = packed.shape[1]
    group = np.ascontiguousarray(packed).view(f"<u{width}")[:, 0].astype(np.int64)
    return np.where(group == 2 ** (8 * width) - 1, -1, group)


# -- every row's cluster ----------------------------------------------------------------------------------------------


@answers(Assign)
def assign(ask: Assign, site: Site) -> Counted:
    """Every row to the center of its point, or to one of those among which its point is shared out."""
    rows = _rows(ask, site)
    _hold_to(site, "assignment", ask)
    weights = np.bincount(rows.group[rows.group >= 0])
    there = (ask.point >= 0) & (ask.point < len(weights)) & (ask.center >= 0) & (ask.center < len(ask.centers))
    if not there.all():
        raise SiteFault(Fault.MALFORMED_ASK, "a share names a point or a center that is not there")
    told = np.bincount(ask.point, ask.mass, minlength=len(weights)).astype(np.int64)
    if (ask.mass <= 0).any() or not np.array_equal(told, weights):
        raise SiteFault(Fault.DATA_CHANGED, "the shares do not add up to the weights of the points")
    with single_threaded():
        labels = follow_points(rows, PointMasses(ask.point, ask.center, ask.mass))
        return _concluded(rows, labels, ask.plain, site)


@answers(Price)
def price(ask: Price, site: Site) -> Masses:
    """Sums over the rows at each table of prices."""
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
        raise SiteFault(Fault.MALFORMED_ASK, "the prices are not those of these colours and centers")
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
    """Every row to a center, as many of each colour to each as was agreed."""
    rows = _rows(ask, site)
    _hold_to(site, "assignment", ask)
    expected = (len(ask.colours), len(ask.centers))
    known = ask.targets.shape == expected and ask.shift.shape == expected
    if not known or ask.targets.min() < 0 or ask.targets.max() > len(rows.group):
        raise SiteFault(Fault.MALFORMED_ASK, "the targets are not those of these colours and centers")
    with single_threaded():
        labels = meet_targets(rows, ask.shift, ask.targets)
        return _concluded(rows, labels, ask.plain, site)


def _check_tables(ask: Price, rows: Rows, site: Site) -> None:
    """Of so many centers, or so many tables, that hardly any row is left for each, counts would be the rows."""
    k, limit = len(ask.centers), site.policy.private_limit
    if (
        k > limit(MOST_PRICED)
        or k * _min_weight(ask, site) > limit(len(rows.group))
        or len(ask.shifts) > limit(MOST_TABLES)
        or site.commitments.count("tables", len(ask.shifts)) > MOST_TABLES_OF_A_RUN
    ):
        raise SiteFault(Fault.MALFORMED_ASK, "more centers or tables of prices than this site answers")


def _rows(ask: Assign | Price | Settle, site: Site) -> Rows:
    """The site's rows, and which point stands for each; found again where that is forgotten."""
    points: GroupedRows = site.shard
    if ask.centers.shape[1] != len(points.features) or not len(ask.centers) or not ask.colours:
        raise SiteFault(Fault.MALFORMED_ASK, "the centers are not those of the site's columns")
    if np.abs(ask.centers).max() > LARGEST or ask.scale.min() < 1 / LARGEST or ask.scale.max() > LARGEST:
        raise SiteFault(Fault.MALFORMED_ASK, "a center or a unit is out of range")
    _check_construction(ask)
    _hold_to(site, "construction", _construction(ask))
    _hold_to(site, "clustering", ask.centers, ask.scale)
    first = _first_rows(points)
    if _GROUP in site.memory:
        if not np.array_equal(site.memory[_ROWS], first):
            raise SiteFault(Fault.DATA_CHANGED, "its first rows are others than before")
        group = _unpacked(site.memory[_GROUP])
    else:
        with single_threaded():
            group = _summary(ask, site, first)[1]
    return Rows(points, group, ask.colours, ask.centers / ask.scale, ask.scale)


def _concluded(rows: Rows, labels: Int[np.ndarray, "n"], plain: Float64[np.ndarray, "c d"], site: Site) -> Counted:
    """Keep the clusters of the party's own rows, and answer their counts and costs."""
    if not len(plain) or np.abs(plain).max() > LARGEST:
        raise SiteFault(Fault.MALFORMED_ASK, "a center of the plain clustering is out of range")
    counts, cost, plain_cost = count(rows, labels, plain / rows.scale)
    if site.config.get("protocol"):  # a scenario's rows are nobody's
        site.write("clusters.csv", partial(write_clusters, rows, labels))
    return Counted(counts, cost, plain_cost)
