"""Report on a fair clustering: metrics, table and notes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from numerics.coreset.fairness.bounds import Bounds
from strategies.coreset.alone import metrics_alone
from strategies.coreset.outcome import CoresetOutcome
from strategies.coreset.profile import profile_of

_COARSE = 1.0
"""Ratio of the rows' movement to the points' cost; a note reports larger ones."""
_WIDE_GAP = 1e-3
"""Relative gap to the lower bound, and relative gain of better prices; a note reports larger ones."""
_ROUNDING = 1e-9
"""Share of a cost; a smaller cost may be a rounding error of 0."""
_MOST_GROUPS = 8
"""Largest number of groups with a column of their own in the table."""


def metrics_of(outcome: CoresetOutcome) -> dict[str, float]:
    """Return the metrics of `report.json` by name (docs/coreset.md)."""
    pool, clustering = outcome.pool, outcome.clustering
    summaries = pool.summaries.values()
    cost, unfair = outcome.cost, outcome.plain_cost
    metrics = {
        "cost": cost,
        "cost_coreset": clustering.cost,
        "cost_unfair": unfair,
        "max_violation": outcome.violation,
        "balance": _balance(outcome),
        "n_clusters": float((outcome.total.sum(axis=1) > 0).sum()),
        "n_groups": float(len(pool.groups)),
        "n_rows": float(sum(summary.n_rows for summary in summaries)),
        "n_assigned": float(outcome.total.sum()),
        "n_coreset": float(len(outcome.points.weights)),
        "n_sent": float(len(pool.union.weights)),
        "n_merged": float(sum(summary.merged for summary in summaries)),
        "n_withheld": float(sum(summary.withheld for summary in summaries)),
    }
    if np.isfinite(outcome.upper_bound):
        metrics["cost_bound"] = outcome.upper_bound
    if unfair > _ROUNDING * cost:
        metrics["price_of_fairness"] = cost / unfair - 1
    if np.isfinite(clustering.fairlet_cost):
        metrics["cost_fairlets"] = clustering.fairlet_cost
    metrics |= metrics_alone(outcome)
    if outcome.bound is not None:
        metrics["cost_lower"] = outcome.bound
        metrics["gap"] = outcome.gap
    return metrics


def _balance(outcome: CoresetOutcome) -> float:
    """Return the largest alpha by which the clusters are fair to every group that has bounds."""
    pool = outcome.pool
    members = outcome.fairness.bounded(pool.groups)[1]
    shares = members @ pool.totals / pool.totals.sum()
    return Bounds.balance(outcome.bounded[1], shares, outcome.total.sum(axis=1))


def table_of(outcome: CoresetOutcome) -> list[dict[str, Any]]:
    """Return a row for every cluster, and one for all rows: number of rows, shares of groups, and what stands out."""
    (groups, bounded), profile = outcome.bounded, profile_of(outcome)
    largest = np.argsort(-bounded.sum(axis=0), kind="stable")[:_MOST_GROUPS]
    words: list[dict[str, Any]] = [
        {
            "stands out": profile.in_words(cluster),
            "rule": profile.rule_in_words(cluster),
            "share named rightly": profile.rules[cluster].right,
        }
        for cluster in range(len(bounded))
    ]
    sizes = outcome.total.sum(axis=1).tolist()
    rows = []
    for label, size, counts, word in [
        *zip(itertools.count(), sizes, bounded, words),
        ("all", sum(sizes), bounded.sum(axis=0), {"stands out": "", "rule": ""}),
    ]:
        row: dict[str, Any] = {"cluster": label, "rows": size}
        row |= {f"share {groups[h]}": float(counts[h]) / size for h in sorted(largest) if size}
        rows.append(row | word)
    return rows


def notes_on(outcome: CoresetOutcome) -> list[str]:
    """Return sentences on the sites and on the quality of the clusters."""
    return [*_notes_on_sites(outcome), *_notes_on_quality(outcome)]


def _notes_on_sites(outcome: CoresetOutcome) -> list[str]:
    """Return notes on sites that did not count their rows, and on rows in no cluster."""
    pool = outcome.pool
    notes = []
    if outcome.unconfirmed:
        notes.append(
            f"{', '.join(outcome.unconfirmed)}: sent a coreset, but did not confirm the clusters of its rows; centers"
            " include its points, while cost, counts and fairness are those of the other sites"
        )
    if outcome.lost:
        notes.append(
            f"{', '.join(outcome.lost)}: stopped answering; centers, n_coreset and cost_coreset include its points,"
            " all other results are those of the other sites"
        )
    empty = [name for name, total in zip(pool.groups, pool.totals, strict=True) if not total]
    if empty:
        notes.append(f"{', '.join(empty)}: no row of this group is left, so it has no share")
    n_rows = sum(summary.n_rows for summary in pool.summaries.values())
    withheld = {site: summary.withheld for site, summary in sorted(pool.summaries.items()) if summary.withheld}
    if withheld:
        notes.append(
            f"{sum(withheld.values())} of {n_rows} rows, at {', '.join(withheld)}, belong to groups that are too rare"
            " to be sent; the site assigns them to the nearest center. The results do not count them: with them a"
            " cluster may miss its bounds by as many rows more"
        )
    return notes


def _notes_on_quality(outcome: CoresetOutcome) -> list[str]:
    """Return notes on the coarseness of the coreset, and on the quality of the clusters."""
    pool = outcome.pool
    notes = []
    if outcome.movement > _COARSE * outcome.clustering.cost:
        # Where points are hardly heavier than they must be, more locations change nothing.
        weights = pool.union.weights
        light = np.median(weights) < 2 * weights.min()
        remedy = (
            "fewer rows a point (min-weight of sites and run), or coreset.assignment=exact,"
            if light
            else "a larger coreset.size, or coreset.construction=kmeans,"
        )
        notes.append(
            f"the rows are farther from their points than the points from their centers: {remedy} may give better"
            " clusters"
        )
    if len(pool.groups) == 1:
        notes.append("all rows belong to one group, so this is plain k-means, without a condition of fairness")
    # Rounding to whole rows leaves a gap, too, if clusters have few rows. No prices close it.
    if outcome.gap > _WIDE_GAP and outcome.bound_gain > _WIDE_GAP * outcome.cost:
        notes.append(
            f"the fair assignment of all rows may cost up to {outcome.gap:.2%} more than the best: more"
            " coreset.price-rounds, or a smaller coreset.gap, may give a better one"
        )
    names = [set(summary.groups) for summary in pool.summaries.values()]
    if len(names) > 1 and sum(map(len, names)) == len(pool.groups):
        notes.append("no two sites have a group in common: check that all sites spell groups alike")
    empty = int((outcome.total.sum(axis=1) == 0).sum())
    if empty and not outcome.unconfirmed:
        notes.append(
            f"{empty} of {len(outcome.total)} clusters have no rows: a smaller coreset.k fits the data as well"
        )
    return notes
