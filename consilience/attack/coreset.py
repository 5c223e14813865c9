"""Attacks on fair clustering from coresets: crafted assignments and prices; summaries and sums that differ by a row.

A site's points are exact means, and their movement is an exact sum. So the fusion center knows the cost of all rows at
one cluster center. If a single row goes to another one, the exact cost reveals where the row lies. Only `Settle`
answers with exact costs.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from consilience.attack.interface import Attack, Claims
from consilience.attack.site import AttackedSite
from numerics.coreset.grouped_rows import GroupedRows
from protocols.coreset.payloads import (
    LEAST_TEMPERATURE,
    ClusterCosts,
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
from protocols.coreset.settings import MOST_PRICED

_WHOLE = Construction(size=100_000, construction="bico", projection=0, min_weight=1, scaled=True)
_FAR = 20.0
"""Distance of the center to which a row is sent, in ranges of the columns."""
_DEAR = 1e6
"""Price of a center that keeps all rows away, in squared ranges."""
_TILT = 1e-2
"""Angle between the directions in which a row is read; the row must be the last of its group in all of them."""
_FEWEST, _MOST = 8, 120
"""Fewest and most locations of the compared points."""
_SAME = 1e-12
"""Largest difference of equal points, as a share of a column's range."""
_EXACT = 1e-6
"""Largest error of a read number, as a share of a column's range."""
_THREE_DIGITS = 0.005
"""Largest relative error of a number of three digits."""
_TABLES = 50
"""Tables of prices in a run."""
_AT_ONCE = 3
"""Tables of prices in an ask whose sums are compared."""
_MOST_TABLES = 120
"""Tables of prices whose sums are averaged in a run."""


def true_rows(rows: GroupedRows) -> Float64[np.ndarray, "n d"]:
    """Return the rows, as `consilience.attack.interface` says."""
    return np.concatenate([block.x for block in rows.blocks()])


def _spans(site: AttackedSite) -> Float64[np.ndarray, "d"]:
    span = np.ptp(site.ranges, axis=0)
    return np.where(span > 0, span, 1.0)


def _claims(rows: Sequence[Float64[np.ndarray, "d"]], span: Float64[np.ndarray, "d"], *notes: str) -> Claims:
    """Claim that each of these points is a row."""
    return Claims.points(np.array(rows), _EXACT * span, notes) if len(rows) else Claims.none(len(span), *notes)


# -- one row apart ----------------------------------------------------------------------------------------------------


def one_row_apart(site: AttackedSite) -> Claims:
    """One row of a group goes to a center far away, the others stay: the cost is a number of this row."""
    low, span, d = site.ranges[0], _spans(site), site.ranges.shape[1]
    rng = np.random.default_rng(0)
    rows: list[Float64[np.ndarray, "d"]] = []
    coordinates = 0
    while True:
        directions = rng.normal(size=d) + _TILT * np.eye(d)
        read: list[float] = []
        for direction in directions:
            value = _read(site, direction / np.linalg.norm(direction), len(rows), low, span)
            if value is None:
                break
            read.append(value * float(np.linalg.norm(direction)))
            coordinates += 1
        if len(read) < d:
            break
        rows.append(low + span * np.linalg.solve(directions, np.array(read)))
    notes = [f"numbers of single rows read: {coordinates}"]
    return _claims(rows, span, *notes)


def _read(
    site: AttackedSite,
    direction: Float64[np.ndarray, "d"],
    number: int,
    low: Float64[np.ndarray, "d"],
    span: Float64[np.ndarray, "d"],
) -> float | None:
    """Return the largest coordinate of a group's rows in a direction, in ranges; None if no run is left or it fails."""
    summary = site.ask(Summarize(**asdict(_WHOLE))) if site.start_run() else None
    if not isinstance(summary, Summary):
        return None
    shift = np.tile([0.0, _DEAR], (len(summary.groups), 1))
    corrections = np.zeros((1, *shift.shape), np.int64)
    corrections[0, number % len(shift)] = [-1, 1]
    centers = low + span * np.stack([np.zeros_like(low), _FAR * direction])
    final: dict[str, Any] = {
        "shift": shift,
        "temperature": LEAST_TEMPERATURE,
        "sites": (site.name,),
        "corrections": corrections,
    }
    answer = site.ask(
        Settle(**asdict(_WHOLE), groups=summary.groups, centers=centers, scale=span, plain=centers[:1], **final)
    )
    if not isinstance(answer, ClusterCosts):
        return None
    points = (summary.points - low) / span
    whole = float(summary.weights @ (points**2).sum(axis=1) + (summary.movement / span**2).sum())
    return (whole + _FAR**2 - answer.cost) / (2 * _FAR)


# -- two summaries ----------------------------------------------------------------------------------------------------


def two_summaries(site: AttackedSite) -> Claims:
    """Points of one run and another that differ by one row: the difference of their sums is this row."""
    span, d = _spans(site), site.ranges.shape[1]
    sums: dict[tuple[object, ...], Float64[np.ndarray, "d"]] = {}
    n_runs = 0
    for size in np.unique(np.linspace(_FEWEST, _MOST, max(2, site.most_runs)).astype(int)).tolist():
        summary = site.ask(Summarize(**asdict(replace(_WHOLE, size=size)))) if site.start_run() else None
        if not isinstance(summary, Summary):
            continue
        n_runs += 1
        for point, weight, group in zip(summary.points, summary.weights.tolist(), summary.group, strict=True):
            key = summary.groups[group], weight, *np.round(point / span / _SAME).tolist()
            sums[key] = point * weight
    rows = _repeated(_differences(sums, site.ranges, span), span)
    return _claims(list(rows), span, f"different points in {n_runs} summaries: {len(sums)}")


def _differences(
    sums: Mapping[tuple[object, ...], Float64[np.ndarray, "d"]],
    ranges: Float64[np.ndarray, "2 d"],
    span: Float64[np.ndarray, "d"],
) -> Float64[np.ndarray, "c d"]:
    """Return the differences of all pairs of a group's sums that may differ by a single row."""
    by_rows: dict[tuple[object, object], list[Float64[np.ndarray, "d"]]] = {}
    for (group, weight, *_), total in sums.items():
        by_rows.setdefault((group, weight), []).append(total)
    differences = [np.zeros((0, len(span)))]
    for (group, weight), larger in by_rows.items():
        smaller = by_rows.get((group, int(str(weight)) - 1), [])
        if smaller:
            differences.append((np.array(larger)[:, None] - np.array(smaller)[None]).reshape(-1, len(span)))
    rows = np.concatenate(differences)
    low, high = ranges[0] - _EXACT * span, ranges[1] + _EXACT * span
    return np.asarray(rows[((rows >= low) & (rows <= high)).all(axis=1)])


def _repeated(rows: Float64[np.ndarray, "c d"], span: Float64[np.ndarray, "d"]) -> Float64[np.ndarray, "r d"]:
    """Return the rows that occur more than once, since two wrong differences hardly agree."""
    _, index, counts = np.unique(np.round(rows / span / _EXACT), axis=0, return_index=True, return_counts=True)
    return np.asarray(rows[index[counts > 1]])


# -- prices -----------------------------------------------------------------------------------------------------------


def histogram_by_prices(site: AttackedSite) -> Claims:
    """Centers on a line, and prices that move the borders between them: numbers of rows between any two borders."""
    low, span = site.ranges[0], _spans(site)
    boxes: list[tuple[int, float, float, int]] = []
    n_cells = column = 0
    while column < len(span) and site.start_run():
        summary = site.ask(Summarize(**asdict(_WHOLE)))
        if not isinstance(summary, Summary):
            break
        edges, rows = _cumulative(site, summary, column)
        counts = np.diff(rows)
        n_cells += len(counts)
        boxes += [(column, *each) for each in zip(edges, edges[1:], counts.tolist(), strict=False) if each[2]]
        column += 1
    single = sum(each[3] == 1 for each in boxes)
    notes = [f"cells of histograms: {n_cells}, with rows: {len(boxes)}, with one row: {single}"]
    lows, highs = np.full((len(boxes), len(span)), -np.inf), np.full((len(boxes), len(span)), np.inf)
    for place, (j, start, stop, _) in enumerate(boxes):
        lows[place, j], highs[place, j] = low[j] + span[j] * np.array([start, stop])
    return Claims(lows, highs, np.array([each[3] for each in boxes], np.int64), notes)


def _cumulative(site: AttackedSite, summary: Summary, column: int) -> tuple[list[float], Int64[np.ndarray, "e"]]:
    """Return borders in a column, in its range, and the numbers of rows below each; none if the site refuses.

    Of centers c on a line, those at x are ordered by ``a_c - 2 x c`` with prices ``a_c - c^2``. So prices put the
    borders anywhere.
    """
    low, span = site.ranges[0], _spans(site)
    k = min(MOST_PRICED, int(summary.n_rows) // max(int(summary.weights.min()), 1))
    c = np.arange(k) / k
    borders = (np.arange(_TABLES * (k - 1)) + 0.5) / (_TABLES * (k - 1))
    centers = low + span * c[:, np.newaxis] * np.eye(len(span))[column]
    below: dict[float, int] = {}
    for place in range(_TABLES):
        own = borders[place::_TABLES]
        heights = np.concatenate([[0.0], np.cumsum(2 * own * np.diff(c))])
        shifts = np.broadcast_to(heights - c**2, (1, len(summary.groups), k))
        tables: dict[str, Any] = {"shifts": np.ascontiguousarray(shifts), "temperatures": np.array([LEAST_TEMPERATURE])}
        answer = site.ask(Price(**asdict(_WHOLE), groups=summary.groups, centers=centers, scale=span, **tables))
        if not isinstance(answer, Masses):
            break
        rows = np.cumsum(answer.masses[0].sum(axis=0))[:-1]
        below |= dict(zip(own.tolist(), np.rint(rows).astype(int).tolist(), strict=True))
    edges = sorted(below)
    return edges, np.array([below[edge] for edge in edges], np.int64)


# -- sums of rows -----------------------------------------------------------------------------------------------------


def sums_apart(site: AttackedSite) -> Claims:
    """Centers that move: sums of the rows on one side of two borders that have one row between them differ by it."""
    span, d = _spans(site), site.ranges.shape[1]
    borders = (np.arange(_TABLES) + 0.5) / _TABLES
    sums = _sums_between(site, [(-1.0, border) for border in borders.tolist()]) if site.start_run() else []
    differences = [span * (after - before) for (n, before), (more, after) in itertools.pairwise(sums) if more - n == 1]
    return (
        _claims(differences, span, f"borders with one row between them: {len(differences)}") if sums else Claims.none(d)
    )


def sums_averaged(site: AttackedSite) -> Claims:
    """The same row in many sums of other rows, whose rounding differs: the mean difference is nearly the row."""
    span, d = _spans(site), site.ranges.shape[1]
    if not site.start_run():
        return Claims.none(d)
    summary = site.ask(Summarize(**asdict(_WHOLE)))
    edges, rows = _cumulative(site, summary, 0) if isinstance(summary, Summary) else ([], np.zeros(0, np.int64))
    lone = [place for place in np.flatnonzero(np.diff(rows) == 1).tolist() if rows[place] > rows[-1] / 2]
    if not lone:
        return Claims.none(d)
    below, above = edges[lone[0]], edges[lone[0] + 1]
    lows = np.linspace(0.0, below, _MOST_TABLES // 2, endpoint=False).tolist()
    sums = _sums_between(site, [(low, border) for low in lows for border in (below, above)])
    pairs = [(after - before) for (_, before), (_, after) in zip(sums[::2], sums[1::2], strict=False)]
    row = [span * np.mean(pairs, axis=0)] if pairs else []
    return _claims(row, span, f"pairs of sums that differ by the same row: {len(pairs)}")


def _sums_between(
    site: AttackedSite, borders: Sequence[tuple[float, float]]
) -> list[tuple[int, Float64[np.ndarray, "d"]]]:
    """Return numbers and sums of the rows between two borders in the first column, until the site refuses.

    Of three centers at 0, 1 and 2, prices of ``1 - 2 a`` of the first and ``2 b - 3`` of the last put the borders at a
    and b.
    """
    span = _spans(site)
    summary = site.ask(Summarize(**asdict(_WHOLE)))
    centers = site.ranges[0] + np.arange(3.0)[:, np.newaxis] * span * np.eye(len(span))[0]
    sums: list[tuple[int, Float64[np.ndarray, "d"]]] = []
    for start in range(0, len(borders) if isinstance(summary, Summary) else 0, _AT_ONCE):
        own = np.array(borders[start : start + _AT_ONCE])
        shifts = np.zeros((len(own), len(summary.groups), 3))
        shifts[:, :, 0], shifts[:, :, 2] = (1 - 2 * own[:, :1]), (2 * own[:, 1:] - 3)
        answer = site.ask(Refine(**asdict(_WHOLE), groups=summary.groups, centers=centers, scale=span, shifts=shifts,
                                 temperatures=np.full(len(own), LEAST_TEMPERATURE), plain=centers))  # fmt: skip
        if not isinstance(answer, Moments):
            break
        sums += list(zip(answer.whole.sum(axis=1)[:, 1].tolist(), answer.sums[:, 1], strict=True))
    return sums


# -- comparison -------------------------------------------------------------------------------------------------------


def comparison(site: AttackedSite) -> Claims:
    """Every point has a center of its own, and one counts for more: the costs together tell how far its rows moved.

    Rows of a point that have not moved are equal, so such a point is claimed to be a row. A sum has three digits.
    """
    span = _spans(site)
    still: list[Float64[np.ndarray, "d"]] = []
    n_asked = 0
    while site.start_run():
        summary = site.ask(Summarize(**asdict(_WHOLE)))
        if not isinstance(summary, Summary) or n_asked >= len(summary.weights):
            break
        k, rows = len(summary.weights), int(summary.weights[n_asked])
        sizes = np.full(k, 10**9)
        sizes[n_asked] = rows
        alone: dict[str, Any] = {"mass": summary.weights, "shift": np.zeros((len(summary.groups), k)), "alpha": 1.0}
        answer = site.ask(Compare(**asdict(_WHOLE), groups=summary.groups, centers=summary.points, scale=span,
                                  point=np.arange(k), center=np.arange(k), sizes=sizes, **alone))  # fmt: skip
        if not isinstance(answer, CostsAlone) or not answer.rows:
            break
        all_moved = float((summary.movement / span**2).sum())
        moved = (answer.together - all_moved) / ((rows / (rows - 1)) ** 2 - 1)
        if moved < _THREE_DIGITS * all_moved:
            still.append(summary.points[n_asked])
        n_asked += 1
    return _claims(still, span, f"points whose movement was read: {n_asked}")


ATTACKS: Mapping[str, Attack] = {
    "one row apart": one_row_apart,
    "two summaries": two_summaries,
    "histogram by prices": histogram_by_prices,
    "sums apart": sums_apart,
    "sums averaged": sums_averaged,
    "comparison": comparison,
}
"""By name (`consilience.attack.interface`)."""
